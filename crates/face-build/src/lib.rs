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
#![forbid(unsafe_code)]

mod constants;
mod function;

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use oxmpi_abi::foreign::{ForeignConstant, foreign_constants};
use oxmpi_abi::table::functions;

/// A face.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// The constants of the other ABI.
    pub constants: &'static str,
    /// The name of the library for the dynamic linker.
    pub soname: &'static str,
    /// Whether handles are integers, except those of files.
    pub has_int_handles: bool,
    /// Functions whose bodies the crate writes by hand, as `by_hand::MPI_X`.
    pub by_hand: &'static [&'static str],
    /// Functions that the other ABI lacks.
    pub missing: &'static [&'static str],
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
    let text: String = functions()
        .iter()
        .filter(|function| !function.is_extension())
        .filter(|function| !face.missing.contains(&function.name.as_str()))
        .map(|function| function::text(function, face, &all))
        .collect();
    fs::write(out.join("functions.rs"), text)?;
    link_arguments(out, face)
}

fn link_arguments(out: &Path, face: &Face) -> Result<(), Box<dyn Error>> {
    let script = out.join("exports.map");
    fs::write(&script, "{ global: MPI_*; PMPI_*; MPIX_*; MPIR_*; MPII_*; };\n")?;
    for argument in [
        format!("--version-script={}", script.display()),
        format!("-soname,{}", face.soname),
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
