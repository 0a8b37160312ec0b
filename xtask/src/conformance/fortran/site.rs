//! The directories and tools with which a code is built and tested.

use std::cell::OnceCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::debian::Suite;
use super::super::job::{self, Ending, Limits};
use super::super::{debian, make_directory, write};
use super::compiler::FortranCompiler;
use crate::packages;
use crate::run::Failure;

/// The time limit of a step of a build.
const LIMIT: Duration = Duration::from_secs(1200);

/// The files of an installation on which a build depends: constants and the module are in them.
const HEADERS: [&str; 3] = ["include/mpi.h", "include/mpif.h", "share/oxmpi/mpi.f90"];

/// Raises the limit of the stack as far as the system allows, and runs a command.
const LARGE_STACK: &str = "ulimit -S -s \"$(ulimit -H -s)\"; exec \"$@\"";

/// Libraries of Debian, each with its package and its file. They have no threads.
const BLAS: (&str, &str) = ("libblas-dev", "blas/libblas.a");
const LAPACK: (&str, &str) = ("liblapack-dev", "lapack/liblapack.a");

/// Why a code cannot be tested.
#[derive(Debug)]
pub(super) enum BuildFailure {
    /// The archive of packages does not have the source.
    NoSource(String),
    Broken(Failure),
}

impl From<Failure> for BuildFailure {
    fn from(failure: Failure) -> BuildFailure {
        BuildFailure::Broken(failure)
    }
}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildFailure::NoSource(why) => f.write_str(why),
            BuildFailure::Broken(failure) => failure.fmt(f),
        }
    }
}

/// An installation and a compiler, and the directories for sources, builds and logs.
#[derive(Debug)]
pub(super) struct Site {
    prefix: PathBuf,
    pub(super) compiler: FortranCompiler,
    /// The directory of the packages.
    pub(super) packages: PathBuf,
    /// The directory of the unpacked sources and the builds.
    pub(super) programs: PathBuf,
    logs: PathBuf,
    headers: OnceCell<String>,
}

impl Site {
    pub(super) fn new(prefix: &Path, compiler: FortranCompiler, logs: &Path) -> Site {
        let packages = logs.join("programs");
        let programs = match compiler {
            FortranCompiler::Gfortran => packages.clone(),
            other => packages.join(other.program()),
        };
        Site {
            prefix: prefix.to_owned(),
            compiler,
            packages,
            programs,
            logs: logs.to_owned(),
            headers: OnceCell::new(),
        }
    }

    /// The same with another compiler.
    pub(super) fn with(&self, compiler: FortranCompiler) -> Site {
        Site::new(&self.prefix, compiler, &self.logs)
    }

    pub(super) fn prefix(&self) -> &Path {
        &self.prefix
    }

    pub(super) fn installed(&self, program: &str) -> PathBuf {
        self.prefix.join("bin").join(program)
    }

    /// A program that ends with this process. Its environment has our programs in front, the
    /// compiler that they call, and one thread for each rank.
    pub(super) fn command(&self, program: impl AsRef<Path>, directory: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program.as_ref()).current_dir(directory);
        let mut path = self.prefix.join("bin").into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        command.env("PATH", path).env("OXMPI_FC", self.compiler.program());
        for name in ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"] {
            command.env(name, "1");
        }
        // 'make' would pass them to the codes.
        for name in ["LD_PRELOAD", "MAKEFLAGS", "MFLAGS", "CFLAGS", "FFLAGS", "FCFLAGS", "LDFLAGS"]
        {
            command.env_remove(name);
        }
        command
    }

    /// `mpirun` with this number of ranks, and a time limit that is longer than that of the job.
    pub(super) fn mpirun(&self, ranks: u32, directory: &Path) -> Command {
        let mut command = self.command(self.installed("mpirun"), directory);
        command.args(["--oversubscribe", "-n", &ranks.to_string(), "--timeout", "600"]);
        command
    }

    /// `mpirun` whose first rank reads this file as its standard input.
    pub(super) fn mpirun_with_input(&self, ranks: u32, directory: &Path, input: &str) -> Command {
        let mut command = self.command("/bin/sh", directory);
        let script = "input=$1; shift; exec \"$@\" < \"$input\"";
        command.args(["-c", script, "sh", input]).arg(self.installed("mpirun"));
        command.args(["--oversubscribe", "-n", &ranks.to_string(), "--timeout", "600"]);
        command
    }

    /// The same as [`Site::command`] with the largest stack that the system allows.
    pub(super) fn with_large_stack(&self, program: &str, directory: &Path) -> Command {
        let mut command = self.command("/bin/sh", directory);
        command.args(["-c", LARGE_STACK, "sh", program]);
        command
    }

    /// `make` with two jobs, which prints errors alone.
    pub(super) fn make(&self, directory: &Path) -> Command {
        let mut command = self.command("/usr/bin/make", directory);
        command.args(["--quiet", "-j2"]);
        command
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// A directory in which no job writes.
    pub(super) fn quiet(&self) -> Result<PathBuf, Failure> {
        let directory = self.logs.join("records/fortran");
        make_directory(&directory)?;
        Ok(directory)
    }

    /// Runs a step of a build, with its output in a log of this name.
    pub(super) fn step(&self, name: &str, command: Command) -> Result<(), Failure> {
        let log = self.log(&format!("build.{}", self.compiler.name_tests(name)));
        println!(
            "building {name} in {}",
            command.get_current_dir().unwrap_or(&self.logs).display()
        );
        let limits = Limits { patience: LIMIT, total: LIMIT };
        match job::run(command, &self.quiet()?, &log, limits)? {
            Ending::Exit(0) => Ok(()),
            Ending::Exit(code) => Err(Failure::new(format!(
                "{name}: exit code {code}, see {}\n{}",
                log.display(),
                job::tail(&log, 30)
            ))),
            _ => Err(Failure::new(format!("{name}: no end after {} s", LIMIT.as_secs()))),
        }
    }

    /// Builds unless that was done with these headers.
    pub(super) fn once(
        &self,
        name: &str,
        build: impl FnOnce(&Site) -> Result<(), BuildFailure>,
    ) -> Result<(), BuildFailure> {
        let headers = self.headers()?;
        let mark = self.programs.join(format!("fortran-{name}.built-for"));
        if fs::read_to_string(&mark).is_ok_and(|found| found == headers) {
            return Ok(());
        }
        build(self)?;
        Ok(write(&mark, headers)?)
    }

    fn headers(&self) -> Result<&str, Failure> {
        if let Some(headers) = self.headers.get() {
            return Ok(headers);
        }
        let mut text = String::new();
        for name in HEADERS {
            let path = self.prefix.join(name);
            text += &fs::read_to_string(&path)
                .map_err(Failure::io(format!("cannot read {}", path.display())))?;
        }
        Ok(self.headers.get_or_init(|| text))
    }

    /// The source of a package, freshly unpacked.
    pub(super) fn source(&self, package: &str) -> Result<PathBuf, BuildFailure> {
        self.source_in(None, package)
    }

    /// The source that a suite of Debian has, freshly unpacked.
    pub(super) fn source_in(&self, suite: Suite, package: &str) -> Result<PathBuf, BuildFailure> {
        let archive = debian::archive(package, &self.packages, suite);
        let archive =
            archive.map_err(|failure| match debian::lacks(package, &self.packages, suite) {
                true => BuildFailure::NoSource(format!(
                    "the archive of packages does not have the source of {package}"
                )),
                false => BuildFailure::Broken(failure),
            })?;
        Ok(debian::unpack(package, &archive, &self.programs)?)
    }

    /// The source that was unpacked by the build.
    pub(super) fn unpacked(&self, package: &str) -> Result<PathBuf, Failure> {
        debian::unpacked(package, &self.programs)
    }

    /// An empty directory for a build.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf, Failure> {
        let place = self.programs.join(name);
        let _ = fs::remove_dir_all(&place);
        make_directory(&place)?;
        Ok(place)
    }

    /// The version in the name of the archive: `hdf5_1.10.8+repack1.orig.tar.gz`.
    pub(super) fn version(&self, package: &str) -> Option<String> {
        let place = self.packages.join(format!("{package}-source"));
        let archive = debian::find(&place, ".orig.tar.gz")
            .or_else(|_| debian::find(&place, ".orig.tar.xz"))
            .ok()?;
        version_in(&archive.file_name()?.to_string_lossy())
    }

    pub(super) fn blas(&self) -> Result<PathBuf, Failure> {
        library(BLAS, &self.packages)
    }

    pub(super) fn lapack(&self) -> Result<PathBuf, Failure> {
        library(LAPACK, &self.packages)
    }

    /// BLAS, and what it needs beside the libraries of the compiler.
    pub(super) fn blas_words(&self) -> Result<Vec<String>, Failure> {
        let beside = self.compiler.beside_blas().iter().map(|&word| word.to_owned());
        Ok([self.blas()?.display().to_string()].into_iter().chain(beside).collect())
    }
}

fn library((package, file): (&str, &str), directory: &Path) -> Result<PathBuf, Failure> {
    Ok(packages::libraries(&debian::package(package, directory)?).join(file))
}

fn version_in(archive: &str) -> Option<String> {
    let version = archive.split_once('_')?.1.split_once(".orig.tar")?.0;
    // The part behind the plus sign names the changes of Debian.
    Some(version.split('+').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_names_of_archives() {
        assert_eq!(version_in("hdf5_1.10.8+repack1.orig.tar.gz"), Some("1.10.8".into()));
        assert_eq!(version_in("mumps_5.5.1.orig.tar.xz"), Some("5.5.1".into()));
        assert_eq!(version_in("mumps.tar.gz"), None);
    }
}
