//! The programs, compiled with the headers and modules of other MPIs and run on the libraries for
//! their programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};

use super::run_says_ok;
use crate::support::{compile_once, prefix, root};

/// Programs that run every day: messages, callbacks of every kind, C and Fortran in one program,
/// and what modules need.
const EVERY_DAY: [&str; 9] = [
    "callbacks",
    "ignored_statuses",
    "messages",
    "mixed",
    "module_mpi",
    "module_mpi_f08",
    "names_of_mpich_4_2",
    "names_of_openmpi_5",
    "sections_f08",
];

/// Libraries for programs of another MPI.
struct Face {
    name: &'static str,
    /// Below the directory of the unpacked packages: those of the modules and of `mpi.h`.
    includes: [&'static str; 2],
    libraries: [&'static str; 2],
    /// Programs for which the other MPI has no place, with the reason.
    of_other_mpi: &'static [(&'static str, &'static str)],
}

static FACES: [Face; 2] = [
    Face {
        name: "mpich",
        includes: ["usr/include/ARCH-linux-gnu/mpich"; 2],
        libraries: ["libmpifort.so.12", "libmpi.so.12"],
        of_other_mpi: &[
            ("arguments", "no MPI_SIZEOF for some types"),
            ("callbacks", "no MPI_CONVERSION_FN_NULL in module mpi"),
            ("f08_callbacks", "no MPI_SESSION_NULL"),
            ("f08_collectives", "no MPI_Request_get_status_all"),
            ("f08_files", "no large counts in module mpi_f08"),
            ("f08_interface", "no MPI_BUFFER_AUTOMATIC"),
            ("f08_messages", "no MPI_Request_get_status_all"),
            ("f08_one_sided", "no MPI_Request_get_status_all"),
            ("f08_tools", "C tools of the program do not see calls of Fortran"),
            ("kinds", "an internal error of GNU Fortran 12"),
            ("names_of_openmpi_5", "names of Open MPI"),
            ("collectives::user_op_matrix", "negative handles"),
            ("communicators::sessions", "no MPI_SESSION_NULL"),
            ("messages::status_fields", "no MPI_Status_set_source"),
            ("modern::environment", "MPI_VERSION is that of the header"),
            ("modern::keywords", "no MPI_Request_get_status_any"),
            ("modern::rare", "no MPI_Comm_attach_buffer"),
            ("sections::complex_parts", "an internal error of GNU Fortran 12"),
            ("sections::longer_kinds", "every array is taken"),
            ("sections::odd_buffers", "no MPI_LOGICAL1"),
            ("types::sizeof", "no MPI_SIZEOF for some types"),
        ],
    },
    Face {
        name: "openmpi",
        includes: [
            "usr/lib/ARCH-linux-gnu/fortran/gfortran-mod-15/openmpi",
            "usr/lib/ARCH-linux-gnu/openmpi/include",
        ],
        libraries: ["libmpi_mpifh.so.40", "libmpi.so.40"],
        of_other_mpi: &[
            ("f08_callbacks", "no TYPE(MPI_Session)"),
            ("f08_called_by_c", "no MPI_F_STATUS_SIZE"),
            ("f08_collectives", "no array descriptors"),
            ("f08_files", "no array descriptors"),
            ("f08_interface", "no TYPE(MPI_Session)"),
            ("f08_messages", "no array descriptors"),
            ("f08_one_sided", "no array descriptors"),
            ("f08_sections", "no array descriptors"),
            ("f08_tools", "no array descriptors"),
            ("sections_f08", "no array descriptors"),
            ("communicators::group_range", "MPI_Group_range_excl has other types"),
            ("communicators::sessions", "no TYPE(MPI_Session)"),
            ("files::hints", "no MPI_Info_get_string"),
            ("names_of_mpich_4_2", "names of MPICH"),
            ("messages::heat_2d_sections", "no array descriptors"),
            ("messages::isendrecv", "no MPI_Isendrecv"),
            ("messages::large_count", "no large counts"),
            ("messages::partitioned", "no MPI_Psend_init"),
            ("messages::status_fields", "no MPI_Status_set_source"),
            ("kinds", "kinds of the module's own compiler alone"),
            ("modern::c_inside", "no MPI_Comm_fromint"),
            ("modern::environment", "MPI_VERSION is that of the header"),
            ("modern::keywords", "no MPI_Precv_init"),
            ("modern::rare", "no MPI_Comm_attach_buffer"),
            ("sections::fixed_form", "no array descriptors"),
            ("sections::longer_kinds", "every array is taken"),
            ("sections::many_at_once", "no array descriptors"),
            ("sections::negative_strides", "no array descriptors"),
            ("sections::odd_buffers", "no array descriptors"),
            ("sections::persistent", "no array descriptors"),
            ("types::sizeof", "no MPI_SIZEOF for some types"),
        ],
    },
];

/// The tests of a program, one for each library. `options` are for the compiler.
pub(crate) fn trials(name: &str, path: &Path, ranks: u32, options: &str) -> Vec<Trial> {
    let has_place = |face: &&Face| face.of_other_mpi.iter().all(|(other, _)| *other != name);
    let trial = |face: &'static Face| {
        let is_nightly = !EVERY_DAY.contains(&name);
        let night = if is_nightly { "night::" } else { "" };
        let (path, options) = (path.to_path_buf(), options.to_owned());
        let test =
            move || -> Result<(), Failed> { run_says_ok(&compiled(face, &path, &options)?, ranks) };
        let title = format!("{night}{}::{name}::{ranks}", face.name);
        Trial::test(title, test).with_ignored_flag(is_nightly)
    };
    FACES.iter().filter(has_place).map(trial).collect()
}

/// A program, and its C part if there is one, compiled with the other MPI's files and linked with
/// the libraries of the installation.
fn compiled(face: &Face, source: &Path, options: &str) -> Result<PathBuf, String> {
    let installed = || root().join("target/debian-mpi");
    let packages = std::env::var_os("OXMPI_TEST_DEBIAN_MPI").map_or_else(installed, PathBuf::from);
    let [modules, header] =
        face.includes.map(|place| packages.join(place.replace("ARCH", std::env::consts::ARCH)));
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let lib = prefix().join("lib");
    let mut fortran = Command::new("gfortran");
    fortran.args(["-g", "-w", "-fallow-argument-mismatch"]).args(options.split_whitespace());
    fortran.arg("-I").arg(modules).arg(source);
    let part = source.with_file_name(format!("{name}_part.c"));
    if part.exists() {
        let mut cc = Command::new("cc");
        cc.args(["-g", "-w", "-c", "-I"]).arg(header).arg(&part);
        fortran.arg(compile_once(&part, cc, &format!("{name}_{}_part.o", face.name))?);
    }
    fortran.arg(format!("-L{}", lib.display()));
    fortran.args(face.libraries.map(|library| format!("-l:{library}")));
    compile_once(source, fortran, &format!("{name}_{}", face.name))
}
