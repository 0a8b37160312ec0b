//! Writes the library for programs that were built for another MPI's ABI (a *face*) from the table
//! of functions: a build script of the crate of the face calls [`write`].
//!
//! A face has the functions of the other ABI. Each converts its arguments, calls the function of
//! the standard ABI in `libmpi_abi.so.1`, and converts the results. The functions of both libraries
//! have the same names. So the face loads the other library apart (RTLD_LOCAL) and finds its
//! functions in a table of addresses (`oxmpi_functions`); programs find the names of the face only.
//!
//! Constants that have another value in the other ABI are converted where the table of functions
//! says that they may stand. All else is passed.
//!
//! The directory `common` of this crate has the modules that all faces share. Each face compiles
//! them with its own types of handles and statuses. The directory `fortran` has those of the
//! libraries for Fortran programs ([`write_fortran`]).
#![forbid(unsafe_code)]

mod constants;
mod fortran;
mod function;
mod objects;

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

pub use fortran::{FortranFace, write_fortran};

use oxmpi_abi::foreign::{ForeignConstant, foreign_constants, foreign_objects};
use oxmpi_abi::table::{Function, functions};

/// A face.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// The constants of the other ABI.
    pub constants: &'static str,
    /// The name of the library for the dynamic linker.
    pub soname: &'static str,
    pub handles: HandleKind,
    /// Functions whose bodies the crate writes by hand, as `by_hand::MPI_X`.
    pub by_hand: &'static [&'static str],
    /// Another name that programs of the other ABI have for a function.
    pub other_name: fn(&Function) -> Option<String>,
    /// The variables with the addresses of Fortran's MPI_STATUS_IGNORE and its like, and where the
    /// Fortran program or its library has them: a symbol, and perhaps a number of bytes to add.
    pub ignored_statuses: &'static [(&'static str, &'static str)],
    /// Names of symbols to export besides those of MPI, which may end with an asterisk.
    pub exports: &'static [&'static str],
}

/// How another ABI represents handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    /// Integers, and pointers for files.
    Integers,
    /// Addresses of objects of the library.
    Addresses,
    /// Those of the standard ABI: the functions are for entry points of Fortran, which convert the
    /// handles.
    Standard,
}

/// Functions whose bodies all faces write by hand.
const BY_HAND: &[&str] = &[
    "MPI_Add_error_class",
    "MPI_Add_error_code",
    "MPI_Attr_get",
    "MPI_Comm_create_errhandler",
    "MPI_Comm_create_keyval",
    "MPI_Comm_get_attr",
    "MPI_File_create_errhandler",
    "MPI_Get_version",
    "MPI_Grequest_start",
    "MPI_Keyval_create",
    "MPI_Op_create",
    "MPI_Op_create_c",
    "MPI_Register_datarep",
    "MPI_Register_datarep_c",
    "MPI_Session_create_errhandler",
    "MPI_T_cvar_handle_alloc",
    "MPI_T_event_handle_alloc",
    "MPI_T_pvar_handle_alloc",
    "MPI_Type_create_keyval",
    "MPI_Type_get_attr",
    "MPI_Type_get_contents",
    "MPI_Type_get_contents_c",
    "MPI_Win_create_errhandler",
    "MPI_Win_create_keyval",
    "MPI_Win_get_attr",
];

/// Programs see by these functions which ABI they have.
const OF_STANDARD_ABI: &[&str] = &[
    "MPI_Abi_get_fortran_booleans",
    "MPI_Abi_get_fortran_info",
    "MPI_Abi_get_info",
    "MPI_Abi_get_version",
    "MPI_Abi_set_fortran_booleans",
    "MPI_Abi_set_fortran_info",
];

/// Functions beyond the standard that the other libraries have too, with the same arguments.
const EXTENSIONS: &[&str] = &[
    "MPIX_Comm_ack_failed",
    "MPIX_Comm_agree",
    "MPIX_Comm_get_failed",
    "MPIX_Comm_iagree",
    "MPIX_Comm_is_revoked",
    "MPIX_Comm_revoke",
    "MPIX_Comm_ishrink",
    "MPIX_Comm_shrink",
    "MPIX_Query_cuda_support",
];

impl Face {
    fn has(&self, function: &Function) -> bool {
        let name = function.name.as_str();
        let has_integers = self.handles == HandleKind::Integers;
        let is_integer = name.ends_with("_toint") || name.ends_with("_fromint");
        (!function.is_extension() || EXTENSIONS.contains(&name))
            && !OF_STANDARD_ABI.contains(&name)
            && (has_integers || !is_integer)
    }

    fn is_by_hand(&self, name: &str) -> bool {
        let is_common = match self.handles {
            HandleKind::Standard => {
                BY_HAND.contains(&name) && !fortran::AS_THEY_ARE.contains(&name)
            }
            _ => BY_HAND.contains(&name),
        };
        is_common || self.by_hand.contains(&name)
    }
}

/// Writes `core.rs` (the table of addresses), `constants.rs` and `functions.rs` to the build
/// directory, and sets the linker arguments.
/// # Errors
/// If a constant cannot be read or a file cannot be written.
pub fn write(face: &Face) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let all = foreign_constants(face.constants)?;
    fs::write(out.join("core.rs"), oxmpi_abi::table::address_table())?;
    fs::write(out.join("constants.rs"), constants::text(&all))?;
    if face.handles == HandleKind::Addresses {
        fs::write(out.join("objects.rs"), objects::text(&foreign_objects(face.constants)?))?;
    }
    let text: String = functions()
        .iter()
        .filter(|function| face.has(function))
        .map(|function| function::text(function, face, &all))
        .collect();
    let text = text + &objects::ignored_statuses(face.ignored_statuses);
    fs::write(out.join("functions.rs"), text)?;
    let exports = ["MPI_*", "PMPI_*", "MPIX_*", "PMPIX_*"].iter().chain(face.exports);
    link_arguments(out, face.soname, &exports.copied().collect::<Vec<_>>())
}

fn link_arguments(out: &Path, soname: &str, exports: &[&str]) -> Result<(), Box<dyn Error>> {
    let script = out.join("exports.map");
    let exports: String = exports.iter().map(|name| format!(" {name};")).collect();
    fs::write(&script, format!("{{ global:{exports} }};\n"))?;
    for argument in [
        format!("--version-script={}", script.display()),
        format!("-soname,{soname}"),
        // The C library is in the same directory.
        "-rpath,$ORIGIN".to_owned(),
        "--enable-new-dtags".to_owned(),
        "-Bsymbolic-functions".to_owned(),
    ] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
    Ok(())
}

/// The constants whose names begin with one of the prefixes.
fn set<'a>(all: &'a [ForeignConstant], prefixes: &[&str]) -> Vec<&'a ForeignConstant> {
    let is_in = |one: &&ForeignConstant| prefixes.iter().any(|prefix| one.name.starts_with(prefix));
    all.iter().filter(is_in).collect()
}
