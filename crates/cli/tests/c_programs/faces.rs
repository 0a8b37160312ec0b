//! The programs, compiled with the headers of other MPIs and run on the libraries for their
//! programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::head::Head;
use crate::support::{compile_once, prefix, root};
use crate::transport_options::TransportOptions;
use crate::{mpirun, output_of, path_of};

/// Programs that run every day: handles, statuses, callbacks and constants of every kind.
const EVERY_DAY: [&str; 15] = [
    "attr_comm",
    "cart_create",
    "coll_short",
    "comm_idup",
    "errhandler_user",
    "errors_added",
    "errors_values",
    "file_view",
    "grequest_basic",
    "handles_int",
    "ops_user_strided",
    "spawn",
    "spawn_roots",
    "types_contents",
    "win_lock",
];

/// Programs of `tests/faces`, for these libraries alone.
const OF_FACES: [&str; 1] = ["other_names"];

/// A library for programs of another MPI.
struct Face {
    name: &'static str,
    library: &'static str,
    /// The variable that names the header file, and the header file without it.
    header: (&'static str, &'static str),
    /// A file below `tests` with names that the header file lacks.
    further: Option<&'static str>,
    /// Whether some programs run every day.
    runs_daily: bool,
    /// Lists of programs for which the other ABI has no place, with the reason.
    of_other_abi: &'static [&'static [(&'static str, &'static str)]],
}

/// Programs for which the ABI of MPICH has no place.
const OF_MPICH: [(&str, &str); 16] = [
    ("any_time", "MPI_Abi_get_version and its like"),
    ("comm_from_group", "a limit of MPI_MAX_STRINGTAG_LEN, which is shorter there"),
    ("dist_graph", "MPI_UNWEIGHTED is no constant there"),
    ("errhandler_user", "a handler cannot change the code there"),
    ("errors_args", "MPI_Abi_get_version and its like"),
    ("attr_fortran", "mpi-ext.h"),
    ("extra_state", "mpi-ext.h"),
    ("fortran_abi", "MPI_Abi_get_version and its like"),
    ("group_errors", "numbers that are special ranks there"),
    ("info_basic", "MPI_Abi_get_version and its like"),
    ("init_state", "MPI_Get_version returns 4.1 there"),
    ("neighbor_dist_graph", "MPI_UNWEIGHTED is no constant there"),
    ("persistent_vector", "MPI_UNWEIGHTED is no constant there"),
    ("types_f90", "MPI_REAL2 is MPIX_C_FLOAT16 there"),
    ("types_predefined", "MPI_REAL2 is MPIX_C_FLOAT16 there"),
    ("ulfm", "mpi-ext.h"),
];

static FACES: [Face; 3] = [
    Face {
        name: "mpich",
        library: "libmpi.so.12",
        header: ("OXMPI_TEST_MPICH_HEADER", "target/mpich/include/mpi_abi.h"),
        further: None,
        runs_daily: true,
        of_other_abi: &[&OF_MPICH],
    },
    Face {
        name: "openmpi",
        library: "libmpi.so.40",
        header: ("OXMPI_TEST_OPENMPI_HEADER", "target/openmpi/include/mpi.h"),
        further: Some("faces/openmpi.h"),
        runs_daily: true,
        of_other_abi: &[&[
            ("any_time", "MPI_Abi_get_version and its like"),
            ("attr_fortran", "mpi-ext.h"),
            ("comm_split_type", "MPI_COMM_TYPE_RESOURCE_GUIDED"),
            ("errhandler_user", "a handler cannot change the code there"),
            ("errors_added", "a limit of MPI_MAX_ERROR_STRING, which is shorter there"),
            ("errors_args", "MPI_Abi_get_version and its like"),
            ("extra_state", "mpi-ext.h"),
            ("fortran_abi", "MPI_Abi_get_version and its like"),
            ("handles_int", "handles that are no integers there"),
            ("info_basic", "MPI_Abi_get_info"),
            ("init_state", "MPI_Get_version returns 4.0 there"),
            ("mpit_categories", "no MPI_T events"),
            ("mpit_events", "no MPI_T events"),
            ("mpit_init", "no MPI_T events"),
            ("mpit_other_thread", "no MPI_T events"),
            ("mpit_threads", "no MPI_T events"),
            ("mpit_waits", "no MPI_T events"),
            ("ops_floats", "no MPI_REAL2"),
            ("ops_reduce_local", "no MPI_REAL2"),
            ("p2p_bsend_taken", "no MPI_T events"),
            ("p2p_buffers", "no MPI_BUFFER_AUTOMATIC"),
            ("session_buffers", "no MPI_BUFFER_AUTOMATIC"),
            ("types_contents", "no functions with large counts"),
            ("types_darray", "a number that is MPI_ORDER_FORTRAN there"),
            ("types_external32", "no MPI_INTEGER16"),
            ("types_f90", "no MPI_INTEGER16"),
            ("types_names", "no MPI_REAL2"),
            ("types_predefined", "no MPI_REAL2"),
            ("win_errors", "a number that is MPI_MODE_NOCHECK there"),
        ]],
    },
    Face {
        name: "intel",
        library: "libmpi.so.12",
        header: ("OXMPI_TEST_INTEL_HEADER", "target/impi/include/mpi.h"),
        further: None,
        runs_daily: false,
        of_other_abi: &[
            &OF_MPICH,
            &[
                ("ops_floats", "no MPI_REAL2"),
                ("ops_reduce_local", "no MPI_REAL2"),
                ("types_external32", "no MPI_INTEGER16"),
                ("types_names", "no MPI_REAL2"),
            ],
        ],
    },
];

pub(crate) fn trials(name: &str) -> Vec<Trial> {
    FACES.iter().filter_map(|face| trial(face, name, &path_of(name))).collect()
}

pub(crate) fn trials_of_faces() -> Vec<Trial> {
    let path = |name| root().join("tests/faces").join(name).with_extension("c");
    let all = OF_FACES.iter().flat_map(|name| FACES.iter().map(move |face| (face, *name)));
    all.filter_map(|(face, name)| trial(face, name, &path(name))).collect()
}

fn trial(face: &'static Face, name: &str, path: &Path) -> Option<Trial> {
    let source = std::fs::read_to_string(path).ok()?;
    let head = Head::read(&source).ok()?;
    if face.of_other_abi.iter().copied().flatten().any(|(other, _)| *other == name) {
        return None;
    }
    let ranks = head.ranks.iter().copied().find(|ranks| *ranks > 1).unwrap_or(1);
    let is_of_day = EVERY_DAY.contains(&name) || OF_FACES.contains(&name);
    let is_nightly = !(face.runs_daily && is_of_day);
    let night = if is_nightly { "night::" } else { "" };
    let path = path.to_owned();
    let test = move || says_ok(face, &path, ranks, is_nightly);
    let title = format!("{night}{}::{name}::{ranks}", face.name);
    Some(Trial::test(title, test).with_ignored_flag(is_nightly))
}

fn says_ok(face: &Face, source: &Path, ranks: u32, is_nightly: bool) -> Result<(), Failed> {
    let program = compiled(face, source)?;
    let mut command = mpirun(TransportOptions::Shm, ranks, is_nightly);
    let out = output_of(command.arg(&program))?;
    match out.lines().last() {
        Some("ok") => Ok(()),
        _ => Err(format!("{command:?}: the last line is not 'ok':\n{out}").into()),
    }
}

fn compiled(face: &Face, source: &Path) -> Result<PathBuf, String> {
    let (variable, header) = face.header;
    let installed = || root().join(header);
    let header = std::env::var_os(variable).map_or_else(installed, PathBuf::from);
    let include = header.with_file_name("");
    let lib = prefix().join("lib");
    let name = source.file_stem().unwrap_or_default().display();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-w", "-Werror=implicit-function-declaration", "-pthread", "-I"])
        .arg(include)
        .arg("-I")
        .arg(root().join("tests/c"))
        .arg(source);
    if let Some(further) = face.further {
        cc.arg("-include").arg(root().join("tests").join(further));
    }
    cc.arg(format!("-L{}", lib.display())).arg(format!("-l:{}", face.library));
    cc.args(["-lm", "-ldl"]);
    compile_once(source, cc, &format!("{name}_{}", face.name))
}
