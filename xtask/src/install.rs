//! `cargo xtask install`: builds and lays out an installation.
//!
//! ```text
//! bin/oxmpi              the program; bin/mpirun, mpiexec, mpicc are links to it
//! lib/libmpi_abi.so.1    the library; libmpi_abi.so, libmpi_abi.so.0 and libmpi.so are links to it
//! include/mpi.h          generated from the tables of crates/abi
//! ```
//! All links are relative, and the programs find the rest from where they are: the directory may be moved.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::root;
use crate::run::{Failure, Run};

const PROGRAM_LINKS: [&str; 3] = ["mpirun", "mpiexec", "mpicc"];
/// The soname of the library, which programs ask for.
const LIBRARY: &str = "libmpi_abi.so.1";
const LIBRARY_LINKS: [&str; 3] = ["libmpi_abi.so", "libmpi_abi.so.0", "libmpi.so"];

pub(crate) fn install(prefix: &Path, release: bool) -> Result<(), Failure> {
    let build = Run::cargo().args(["build", "--locked", "-p", "oxmpi-cli", "-p", "oxmpi-capi"]);
    if release { build.arg("--release") } else { build }.show()?;
    let built = target_directory().join(if release { "release" } else { "debug" });
    for directory in ["bin", "lib", "include"] {
        let directory = prefix.join(directory);
        fs::create_dir_all(&directory)
            .map_err(Failure::io(format!("cannot make {}", directory.display())))?;
    }
    copy(&built.join("oxmpi"), &prefix.join("bin/oxmpi"))?;
    copy(&built.join("libmpi_abi.so"), &prefix.join("lib").join(LIBRARY))?;
    for name in PROGRAM_LINKS {
        link("oxmpi", &prefix.join("bin").join(name))?;
    }
    for name in LIBRARY_LINKS {
        link(LIBRARY, &prefix.join("lib").join(name))?;
    }
    let header = prefix.join("include/mpi.h");
    fs::write(&header, oxmpi_abi::header())
        .map_err(Failure::io(format!("cannot write {}", header.display())))?;
    println!("installed in {}", prefix.display());
    Ok(())
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Replaces `to` by a copy of `from` in one step, so that programs that run from it go on with the old file.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let new = to.with_extension("new");
    fs::copy(from, &new).and_then(|_| fs::rename(&new, to)).map_err(Failure::io(format!(
        "cannot copy {} to {}",
        from.display(),
        to.display()
    )))
}

fn link(to: &str, at: &Path) -> Result<(), Failure> {
    // There may be none to remove; what matters shows in the next step.
    let _ = fs::remove_file(at);
    symlink(to, at).map_err(Failure::io(format!("cannot link {} to {to}", at.display())))
}
