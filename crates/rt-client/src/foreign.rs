//! Whether another launcher has started this process as one task of several.
//!
//! A program under Slurm's srun, Hydra, or Open MPI's mpirun does not find OxMPI's `mpirun` and
//! would be a singleton: N jobs of one process in place of one job of N, with wrong results and no
//! error. So MPI_Init fails there. Environment variables alone do not suffice: every batch script
//! sets them, and all its programs inherit them. Only live evidence counts
//! ([`oxmpi_join::evidence`]), and only of several tasks.
//!
//! [`verdict`] is pure. For descendants of our own `mpirun` only later evidence counts: `mpirun`
//! removes the variables of PMI and PMIx from its ranks' environment ([`is_of_other_launcher`]),
//! and tasks of Slurm count only below it.

use std::fmt;
use std::os::fd::RawFd;

use oxmpi_join::evidence::{Evidence, LiveManager};
use oxmpi_param::Params;

pub use crate::lost::{LAUNCHER_VARIABLE, LostRank};
use crate::lost::{is_below_rank, lost_rank, taker_of};

/// Prefixes of variables by which other launchers identify their processes. Variables that users
/// set (OMPI_MCA_, HYDRA_, MPIR_CVAR_, I_MPI_) are not among them, nor is SLURM_, which scripts
/// read.
const OTHERS: [&str; 10] = [
    "PMI_",
    "PMI2_",
    "PMIX_",
    "PMIXT_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_FILE_LOCATION",
    "HYDI_",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
];

/// Whether another launcher identifies its processes by this variable.
pub fn is_of_other_launcher(name: &str) -> bool {
    OTHERS.iter().any(|other| name.starts_with(other))
}

/// A launcher other than OxMPI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignLauncher {
    Pmi,
    Pmix,
    Slurm,
}

impl ForeignLauncher {
    fn of(manager: &LiveManager) -> ForeignLauncher {
        match manager {
            LiveManager::Pmi1(_) => ForeignLauncher::Pmi,
            LiveManager::Pmix { .. } => ForeignLauncher::Pmix,
            LiveManager::Slurm { .. } => ForeignLauncher::Slurm,
        }
    }
}

impl fmt::Display for ForeignLauncher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ForeignLauncher::Pmi => "a launcher that speaks PMI (such as Hydra's mpiexec, or srun)",
            ForeignLauncher::Pmix => {
                "a launcher that speaks PMIx (such as Open MPI's mpirun, or srun)"
            }
            ForeignLauncher::Slurm => "Slurm's srun",
        })
    }
}

/// The conclusion from the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SingletonVerdict {
    /// A job of one rank, such as a program typed by a user.
    Alone,
    /// A job of one rank. Variables indicate more tasks: the line is for the user.
    Doubtful(String),
    /// One of several processes of the launcher with this manager.
    OneOfSeveral(LiveManager),
    /// One of this many processes, whose connection with the manager is closed.
    Closed { socket: RawFd, size: u32 },
    /// One of this many processes, by a variable that an ancestor has and this process has not.
    Emptied { variable: &'static str, size: Option<u32> },
}

/// A process that another launcher has started as one of several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{launcher} has started {number} processes of this program ({manager}), and this one cannot join them: {why}. Start the \
     program with OxMPI's own launcher: mpirun -n {wanted} PROGRAM. If jobs of one rank are what you want: export \
     OXMPI_MCA_mpi_allow_singletons=1", launcher = ForeignLauncher::of(manager), number = self.number(), wanted = self.wanted()
)]
pub struct ForeignTask {
    pub manager: LiveManager,
    pub why: String,
}

impl ForeignTask {
    fn number(&self) -> String {
        shown_number(self.manager.tasks())
    }

    fn wanted(&self) -> String {
        self.manager.tasks().map_or_else(|| "N".into(), |tasks| tasks.to_string())
    }
}

fn shown_number(tasks: Option<u32>) -> String {
    tasks.map_or_else(|| "several".into(), |tasks| tasks.to_string())
}

/// Why a process must not be a job of one rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAlone {
    #[error(transparent)]
    OtherLauncher(#[from] ForeignTask),
    /// The connection with the process manager is closed.
    #[error(
        "a launcher that speaks PMI has started {size} processes of this program (PMI_SIZE={size}), but PMI_FD={socket} is \
         closed here: an MPI program of this process has used it before, or a program between closes descriptors. Start each \
         MPI program by a launch line of its own, or all by OxMPI's own launcher: mpirun -n {size} SCRIPT. If jobs of one rank \
         are what you want: export OXMPI_MCA_mpi_allow_singletons=1"
    )]
    Closed { socket: RawFd, size: u32 },
    /// A program between the launcher and this process has emptied the environment.
    #[error(
        "another launcher has started {0} processes of this program ({variable}), but each would be a job of one rank, because \
         {why}. If jobs of one rank are what you want, set OXMPI_MCA_mpi_allow_singletons=1 for PROGRAM", shown_number(*size)
    )]
    Emptied { variable: &'static str, size: Option<u32>, why: String },
    /// Our `mpirun` has started it as one of several ranks, but the process cannot find that
    /// `mpirun`.
    #[error(transparent)]
    Lost(#[from] LostRank),
}

/// The launcher of several processes that has started this process, which is no rank of our
/// `mpirun`; `None`: the process is a job of one rank. An error if our `mpirun` has started it.
pub fn other_launcher(params: &Params) -> Result<Option<LiveManager>, NotAlone> {
    if params.mpi_allow_singletons() {
        return Ok(None);
    }
    if let Some(lost) = lost_rank() {
        return Err(lost.into());
    }
    let evidence = evidence();
    match verdict(&evidence) {
        SingletonVerdict::Alone => Ok(None),
        SingletonVerdict::Doubtful(line) => {
            oxmpi_sys::complain!("{line}");
            Ok(None)
        }
        _ if is_below_rank(&evidence.line) => Ok(None),
        SingletonVerdict::OneOfSeveral(manager) => Ok(Some(manager)),
        SingletonVerdict::Closed { socket, size } => Err(NotAlone::Closed { socket, size }),
        SingletonVerdict::Emptied { variable, size } => {
            let why = taker_of(&evidence.line, variable);
            Err(NotAlone::Emptied { variable, size, why })
        }
    }
}

/// The line for the user of an `mpirun` that another launcher has started several times; `None` in
/// all of them but the first.
pub fn said_of_several_mpiruns() -> Option<String> {
    let evidence = evidence();
    let SingletonVerdict::OneOfSeveral(manager) = verdict(&evidence) else { return None };
    if evidence.task_rank.is_some_and(|rank| rank > 0) {
        return None;
    }
    let number = shown_number(manager.tasks());
    let launcher = ForeignLauncher::of(&manager);
    Some(format!(
        "{launcher} has started {number} mpiruns ({manager}), each of which runs a job of its own; for one job let it start \
         PROGRAM without mpirun (mpi_allow_singletons 1 leaves this line out)"
    ))
}

/// The evidence about this process.
pub fn evidence() -> Evidence {
    let mpirun = std::env::var(LAUNCHER_VARIABLE).ok();
    Evidence::gather(mpirun.and_then(|number| number.trim().parse().ok()))
}

fn verdict(evidence: &Evidence) -> SingletonVerdict {
    let of_several = |manager: &LiveManager| manager.tasks().is_none_or(|tasks| tasks > 1);
    if let Some(manager) = evidence.managers().into_iter().find(of_several) {
        return SingletonVerdict::OneOfSeveral(manager);
    }
    if let (Some(socket), Some(size @ 2..)) = (evidence.pmi.closed_socket, evidence.pmi.size) {
        return SingletonVerdict::Closed { socket, size };
    }
    if let Some((variable, size)) = evidence.emptied {
        return SingletonVerdict::Emptied { variable, size };
    }
    doubt(evidence).map_or(SingletonVerdict::Alone, SingletonVerdict::Doubtful)
}

/// The line for a user whose environment indicates several tasks, to which this process does not
/// belong. Only one of N tasks returns it, and no descendant of our ranks.
fn doubt(evidence: &Evidence) -> Option<String> {
    let Evidence { pmi, pmix, slurm, .. } = evidence;
    if evidence.is_below_mpirun || evidence.task_rank.is_some_and(|rank| rank > 0) {
        return None;
    }
    let said = [
        ("PMI_SIZE", pmi.size),
        ("OMPI_COMM_WORLD_SIZE", pmix.size),
        ("SLURM_STEP_NUM_TASKS", slurm.step_tasks),
        ("SLURM_NTASKS", slurm.tasks),
    ];
    let (name, tasks) =
        said.into_iter().find_map(|(name, size)| Some((name, size.filter(|size| *size > 1)?)))?;
    Some(format!(
        "OxMPI: this is a job of one rank, although {name}={tasks}; for {tasks} ranks: mpirun -n {tasks} PROGRAM \
         (mpi_allow_singletons 1 leaves this line out)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_join::evidence::{PmiEvidence, PmixEvidence, SlurmEvidence};

    const SERVER: &str = "tcp4://127.0.0.1:4711";

    fn pmi(size: u32, is_open: bool) -> Evidence {
        let open_socket = is_open.then_some(7);
        let pmi = PmiEvidence { size: Some(size), open_socket, ..PmiEvidence::default() };
        Evidence { pmi, ..Evidence::default() }
    }

    fn closed(size: u32) -> Evidence {
        let pmi = PmiEvidence { closed_socket: Some(7), ..pmi(size, false).pmi };
        Evidence { pmi, ..Evidence::default() }
    }

    fn emptied(size: u32) -> Evidence {
        Evidence { emptied: Some(("PMI_SIZE", Some(size))), ..Evidence::default() }
    }

    fn port() -> Evidence {
        let port = Some(("h:9".into(), 0));
        Evidence { pmi: PmiEvidence { port, ..PmiEvidence::default() }, ..Evidence::default() }
    }

    fn pmix(size: Option<u32>, answers: bool) -> Evidence {
        let server = answers.then(|| SERVER.into());
        let pmix = PmixEvidence { size, server, is_of_slurm: true };
        Evidence { pmix, ..Evidence::default() }
    }

    /// A process 30 of a shell 20 that process 10 has started.
    fn slurm(tasks: Option<u32>, step_tasks: Option<u32>, task: Option<i32>) -> Evidence {
        Evidence {
            slurm: SlurmEvidence { tasks, step_tasks, task },
            line: vec![30, 20, 10],
            ..Evidence::default()
        }
    }

    #[test]
    fn only_live_evidence_of_several_tasks_refuses_a_singleton() {
        let alone = "alone";
        let doubtful = "doubtful";
        let table = [
            ("nothing", Evidence::default(), alone),
            ("PMI", pmi(4, true), "4 by Pmi"),
            ("PMI, whose socket is gone", pmi(4, false), doubtful),
            ("PMI, whose socket is closed", closed(4), "closed of 4"),
            ("PMI of one, whose socket is closed", closed(1), alone),
            (
                "PMI, whose socket is closed, by srun",
                Evidence { pmi: closed(4).pmi, ..slurm(None, Some(4), Some(30)) },
                "4 by Slurm",
            ),
            ("an ancestor has the variables", emptied(4), "emptied of 4"),
            ("PMI of one", pmi(1, true), alone),
            ("PMI at a port", port(), "? by Pmi"),
            ("PMIx", pmix(Some(3), true), "3 by Pmix"),
            ("PMIx of nobody knows how many", pmix(None, true), "? by Pmix"),
            ("PMIx of one", pmix(Some(1), true), alone),
            (
                "PMIx of another launcher in a step of one",
                Evidence {
                    pmix: PmixEvidence { is_of_slurm: false, ..pmix(None, true).pmix },
                    ..slurm(None, Some(1), Some(30))
                },
                "? by Pmix",
            ),
            ("PMIx without a server", pmix(Some(3), false), doubtful),
            ("a batch script", slurm(Some(4), None, Some(20)), doubtful),
            ("a batch script of one", slurm(Some(1), None, Some(20)), alone),
            ("a task", slurm(Some(4), Some(4), Some(30)), "4 by Slurm"),
            ("below a task", slurm(Some(4), Some(4), Some(10)), "4 by Slurm"),
            ("variables of a task elsewhere", slurm(Some(4), Some(4), Some(99)), doubtful),
            (
                "process 1",
                Evidence { line: vec![30, 1], ..slurm(Some(4), Some(4), Some(1)) },
                doubtful,
            ),
            ("a task of one in an allocation of four", slurm(Some(1), Some(1), Some(30)), alone),
            (
                "PMIx by srun, of one task",
                Evidence { pmix: pmix(None, true).pmix, ..slurm(None, Some(1), Some(30)) },
                alone,
            ),
            (
                "PMIx by srun",
                Evidence { pmix: pmix(None, true).pmix, ..slurm(None, Some(2), Some(30)) },
                "2 by Pmix",
            ),
            (
                "a tool of a rank",
                Evidence { is_below_mpirun: true, ..slurm(Some(4), None, None) },
                alone,
            ),
            ("not the first", Evidence { task_rank: Some(1), ..pmi(4, false) }, alone),
            ("the first", Evidence { task_rank: Some(0), ..pmi(4, false) }, doubtful),
        ];
        for (what, evidence, wanted) in table {
            let found = match verdict(&evidence) {
                SingletonVerdict::Alone => alone.to_string(),
                SingletonVerdict::Doubtful(_) => doubtful.to_string(),
                SingletonVerdict::Closed { size, .. } => format!("closed of {size}"),
                SingletonVerdict::Emptied { size, .. } => {
                    format!("emptied of {}", shown_number(size))
                }
                SingletonVerdict::OneOfSeveral(manager) => {
                    let tasks = manager.tasks();
                    let tasks = tasks.map_or_else(|| "?".into(), |tasks: u32| tasks.to_string());
                    format!("{tasks} by {:?}", ForeignLauncher::of(&manager))
                }
            };
            assert_eq!(found, wanted, "{what}");
        }
    }

    #[test]
    fn a_refusal_names_what_was_found_and_what_to_type() {
        let refused = |evidence: &Evidence| match verdict(evidence) {
            SingletonVerdict::OneOfSeveral(manager) => {
                ForeignTask { manager, why: "it is late".into() }.to_string()
            }
            other => panic!("it is one of several: {other:?}"),
        };
        let text = refused(&pmi(4, true));
        for part in [
            "PMI_SIZE=4",
            "PMI_FD=7",
            "it is late",
            "mpirun -n 4 PROGRAM",
            "OXMPI_MCA_mpi_allow_singletons=1",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = refused(&pmix(None, true));
        assert!(text.contains("several processes") && text.contains(SERVER), "{text}");
        let SingletonVerdict::Doubtful(line) = verdict(&slurm(Some(4), None, None)) else {
            panic!("it is doubtful")
        };
        assert!(
            line.contains("SLURM_NTASKS=4") && line.contains("mpirun -n 4") && !line.contains('\n')
        );
    }

    #[test]
    fn launchers_variables_are_distinguished_from_users_variables() {
        let others = [
            "PMI_FD",
            "PMI_RANK",
            "PMI2_x",
            "PMIX_RANK",
            "PMIX_SERVER_URI2",
            "OMPI_COMM_WORLD_NODE_RANK",
            "HYDI_CONTROL_FD",
        ];
        assert!(others.iter().all(|name| is_of_other_launcher(name)));
        let ours = [
            "SLURM_NTASKS",
            "OMPI_MCA_btl",
            "HYDRA_LAUNCHER",
            "OXMPI_BOOT",
            "PMI",
            "MPIR_CVAR_X",
            "PATH",
        ];
        assert!(!ours.iter().any(|name| is_of_other_launcher(name)));
    }
}
