//! The header of another library with the MPI-5.0 ABI, with which a test compares ours: that of
//! MPICH, from its package of PyPI.

use std::path::PathBuf;

use crate::install::target_directory;
use crate::run::{Failure, Run};

const PACKAGE: &str = "mpich==5.0.2";

/// The header, installed below `target` if it is not there.
pub(crate) fn find_or_install() -> Result<PathBuf, Failure> {
    let directory = target_directory().join("mpich");
    let header = directory.join("include/mpi_abi.h");
    if !header.is_file() {
        Run::new("python3").args(["-m", "venv", "--clear"]).arg(&directory).show()?;
        Run::new(directory.join("bin/pip"))
            .args(["install", "--quiet", "--no-deps", PACKAGE])
            .show()?;
    }
    match header.is_file() {
        true => Ok(header),
        false => Err(Failure::new(format!("the package {PACKAGE} has no {}", header.display()))),
    }
}
