//! mpi4py, built from its source distribution against our `mpi.h`, in a virtual environment of its
//! own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Failure, Run};

pub(super) const MPI4PY: &str = "4.1.2";
const PACKAGES: [&str; 6] = ["setuptools>=77", "build", "cython>=3.0.1", "numpy", "cffi", "pyyaml"];

/// A wheel, also one from a cache, was made for another MPI.
const FROM_SOURCE: [&str; 4] = ["--no-cache-dir", "--no-deps", "--no-binary", "mpi4py"];

/// The part of `mpi-ext.h` that mpi4py can use, but searches for only in Open MPI.
#[rustfmt::skip] // a table
const FAULT_TOLERANCE: [&str; 11] = [
    "ERR_REVOKED", "ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "Comm_revoke", "Comm_is_revoked",
    "Comm_get_failed", "Comm_ack_failed", "Comm_agree", "Comm_iagree", "Comm_shrink",
    "Comm_ishrink",
];

/// The compiler's options: the speed of the client does not matter.
fn compiler_flags() -> String {
    let have = FAULT_TOLERANCE.map(|name| format!(" -DPyMPI_HAVE_MPIX_{name}=1")).concat();
    format!("-O0 -include mpi-ext.h{have}")
}

fn archive(directory: &Path) -> PathBuf {
    directory.join(format!("mpi4py-{MPI4PY}.tar.gz"))
}

#[derive(Debug)]
pub(super) struct Client {
    prefix: PathBuf,
    environment: PathBuf,
    pub(super) suite: PathBuf,
    scratch: PathBuf,
}

impl Client {
    /// Builds the client in `directory` unless it exists. A new version of mpi4py, `mpi.h` or
    /// Python causes a new build; a new library does not, as programs load it when they start.
    pub(super) fn prepare(prefix: &Path, directory: &Path) -> Result<Client, Failure> {
        let client = Client::download(prefix, directory)?;
        let mark = client.environment.join("built-for");
        let wanted = client.mark()?;
        if !fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
            client.build(directory)?;
            super::write(&mark, &wanted)?;
        }
        Ok(client)
    }

    /// Unpacks the source distribution in `directory` unless it is there: for programs that build
    /// their own mpi4py.
    pub(super) fn download(prefix: &Path, directory: &Path) -> Result<Client, Failure> {
        let client = Client {
            prefix: prefix.to_owned(),
            environment: directory.join("venv"),
            suite: directory.join(format!("mpi4py-{MPI4PY}/test")),
            scratch: directory.join("scratch"),
        };
        super::make_directory(&client.scratch)?;
        if !client.suite.is_dir() {
            let request = format!("mpi4py=={MPI4PY}");
            let pip =
                Run::new("python3").args(["-m", "pip", "download", "--quiet"]).args(FROM_SOURCE);
            pip.arg("-d").arg(directory).arg(request).env("TMPDIR", &client.scratch).show()?;
            Run::new("tar").arg("-xf").arg(archive(directory)).arg("-C").arg(directory).show()?;
        }
        Ok(client)
    }

    fn mark(&self) -> Result<String, Failure> {
        let header = self.prefix.join("include/mpi.h");
        let header = fs::read_to_string(&header)
            .map_err(Failure::io(format!("cannot read {}", header.display())))?;
        let python =
            Command::new("python3").args(["-c", "import sys; print(sys.version)"]).output();
        let python = python.map_err(Failure::io("cannot run python3"))?;
        let python = String::from_utf8_lossy(&python.stdout);
        Ok(format!("mpi4py {MPI4PY}, {}\n{python}{header}", compiler_flags()))
    }

    fn build(&self, directory: &Path) -> Result<(), Failure> {
        Run::new("python3").args(["-m", "venv", "--clear"]).arg(&self.environment).show()?;
        let pip = || Run::new(self.environment.join("bin/pip")).env("TMPDIR", &self.scratch);
        pip().args(["install", "--quiet"]).args(PACKAGES).show()?;
        pip()
            .args(["install", "--quiet", "--no-build-isolation"])
            .args(FROM_SOURCE)
            .arg(archive(directory))
            .env("MPI4PY_BUILD_MPICC", self.prefix.join("bin/mpicc"))
            .env("CFLAGS", compiler_flags())
            .show()
    }

    pub(super) fn mpirun(&self) -> Command {
        self.command(&self.installed("mpirun"))
    }

    pub(super) fn installed(&self, program: &str) -> PathBuf {
        self.prefix.join("bin").join(program)
    }

    /// A program that ends with this process. Its environment has our directories in front, nothing
    /// of the caller's Python, and one thread for the linear algebra of each rank.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program);
        let mut path =
            std::env::join_paths([self.environment.join("bin"), self.prefix.join("bin")])
                .unwrap_or_default();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        command.env("PATH", path);
        for name in ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        command.env("PYTHONNOUSERSITE", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("OPENBLAS_NUM_THREADS", "1").env("TMPDIR", &self.scratch);
        command.current_dir(&self.scratch);
        command
    }

    pub(super) fn python(&self) -> PathBuf {
        self.environment.join("bin/python")
    }

    pub(super) fn demo(&self, name: &str) -> PathBuf {
        self.suite.with_file_name("demo").join(name)
    }

    pub(super) fn modules(&self) -> Result<Vec<String>, Failure> {
        let entries = fs::read_dir(&self.suite)
            .map_err(Failure::io(format!("cannot read {}", self.suite.display())))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let module = |name: String| Some(name.strip_suffix(".py")?.to_owned());
        let mut modules: Vec<String> =
            names.filter(|name| name.starts_with("test_")).filter_map(module).collect();
        modules.sort();
        Ok(modules)
    }
}
