//! Joins jobs that other launchers have started: Slurm's `srun`, Hydra (the `mpiexec` of
//! MPICH and of Intel MPI), and Open MPI's `prterun`.
//!
//! Such a launcher starts a program several times and serves the processes as their *process
//! manager*: each process can read its number (its rank) and the number of processes from it, leave
//! values under keys, wait until all processes have done so (a *fence*), and read the values of the
//! others. That is enough for the processes to find each other: each writes its address, and after
//! the fence each reads the addresses of the others. Then they are one job.
//!
//! The launchers differ in the protocol:
//!
//! | protocol | launchers | what a process inherits |
//! |---|---|---|
//! | PMI-1 | `srun --mpi=pmi2`, Hydra | a socket (PMI_FD), or an address (PMI_PORT) |
//! | PMIx | `srun --mpi=pmix`, `prterun` | addresses (PMIX_SERVER_URI*), for `libpmix.so.2` |
//! | none | `srun --mpi=none` | variables of Slurm; MUNGE proves the user |
//!
//! [`ProcessManager`] has the operations that all of them can do; each protocol is one module that
//! implements it. Nothing here decides how OxMPI uses the values.
//!
//! | module | content |
//! |---|---|
//! | `manager` | the trait [`ProcessManager`], and [`JoinError`] |
//! | [`pmi1`] | PMI-1 by PMI_FD or PMI_PORT |
//! | [`pmix`] | PMIx by `libpmix.so.2`, opened at run time |
//! | [`munge`] | MUNGE, by which processes prove their user |
//! | `rendezvous` | [`SlurmAlone`]: Slurm without PMI, by MUNGE |
//! | [`slurm`] | the variables of a step and of an allocation of Slurm |
//! | `value` | bytes as texts |
//! | [`evidence`] | which launcher has started this process |
//!
//! Everything that comes from outside (variables, lines, values) can be wrong, and each wait has a
//! limit of time: the result is a [`JoinError`], whose text names the manager, the value and the
//! remedy.
#![deny(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if the stream is closed

pub mod evidence;
mod manager;
#[allow(unsafe_code)] // the calls of a C library
pub mod munge;
pub mod pmi1;
#[allow(unsafe_code)] // the calls of a C library
pub mod pmix;
mod rendezvous;
pub mod slurm;
mod value;

use self::evidence::LiveManager;
pub use self::manager::{JoinError, LONGEST_KEY, ProcessManager};
pub use self::rendezvous::SlurmAlone;
use self::slurm::SlurmStep;
use std::path::Path;
use std::time::Duration;

/// The settings for [`connect`].
#[derive(Clone, Copy, Debug)]
pub struct JoinSettings<'a> {
    /// The file of the library PMIx.
    pub pmix_library: &'a str,
    /// The file of the library MUNGE.
    pub munge_library: &'a str,
    /// The socket of MUNGE's daemon, if it is not MUNGE's default.
    pub munge_socket: Option<&'a Path>,
    /// The time for all nodes of a step without a manager to meet.
    pub limit: Duration,
}

/// Connects this process with a manager. Without one, the first task of each node of a step of
/// Slurm meets the others ([`SlurmAlone`]); for the other tasks the result is `None`.
pub fn connect(
    manager: &LiveManager,
    settings: &JoinSettings<'_>,
) -> Result<Option<Box<dyn ProcessManager>>, JoinError> {
    let &JoinSettings { pmix_library, munge_library, munge_socket, limit } = settings;
    let connected: Box<dyn ProcessManager> = match manager {
        LiveManager::Pmi1(address) => Box::new(pmi1::Pmi1::connect(address)?),
        LiveManager::Pmix { .. } => Box::new(pmix::Pmix::connect(pmix_library)?),
        LiveManager::Slurm { .. } => match SlurmStep::of_environment()? {
            Some(step) if step.local == 0 => {
                Box::new(SlurmAlone::meet(&step, munge_library, munge_socket, limit)?)
            }
            Some(_) => return Ok(None),
            None => {
                return Err(JoinError::Variable {
                    variable: "SLURM_STEP_NODELIST",
                    value: String::new(),
                    why: "missing".into(),
                });
            }
        },
    };
    Ok(Some(connected))
}
