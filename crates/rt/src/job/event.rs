//! What happens to jobs, and what is to be done.

use std::ops::Range;
use std::time::Duration;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It has ended, and nobody can say how: the launcher is not its parent.
    Unknown,
}

/// How far a rank's use of MPI has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It has not called MPI_Init.
    #[default]
    Untouched,
    /// It is between MPI_Init and MPI_Finalize.
    Initialized,
    /// It is in MPI_Finalize, or that of its last session.
    Finalizing,
    /// It has called MPI_Finalize.
    Finalized,
}

impl Stage {
    /// Whether it has called MPI_Init, and is not through MPI_Finalize.
    pub fn is_inside(self) -> bool {
        matches!(self, Stage::Initialized | Stage::Finalizing)
    }
}

/// What can be read of a rank from the header page of its segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// The process id; 0 if not known.
    pub pid: u32,
    /// How far it has come.
    pub stage: Stage,
    /// The MPI function it called last.
    pub last_call: Option<&'static str>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process ended.
    Exited {
        /// Its number.
        rank: u32,
        /// How.
        exit: Exit,
        /// Its header page afterwards.
        seen: Glimpse,
    },
    /// A process asked to end the job.
    Abort {
        /// Its number.
        rank: u32,
        /// The wanted exit code.
        code: i32,
        /// The library's report, or nothing.
        text: String,
        /// Its header page.
        seen: Glimpse,
    },
    /// A job of the next processes was started, for `parents`, which have the communicator `bond` with them.
    Spawned {
        /// How many processes.
        ranks: u32,
        /// The processes of the spawning communicator.
        parents: Vec<u32>,
        /// The communicator.
        bond: u64,
    },
    /// A process has a communicator that it shares with these processes.
    Bound {
        /// Its number.
        rank: u32,
        /// The communicator.
        bond: u64,
        /// Processes of all jobs that have part in it.
        members: Vec<u32>,
    },
    /// A process does not have this communicator any more.
    Released {
        /// Its number.
        rank: u32,
        /// The communicator.
        bond: u64,
    },
    /// A job of another launcher has got the next numbers (rule 9).
    Met {
        /// How many processes it has.
        ranks: u32,
        /// What it is called, such as "the job of mpirun 1234".
        name: String,
    },
    /// A process of another launcher's job has ended.
    OtherExited {
        /// Its number here.
        rank: u32,
        /// Whether it ended as it should.
        is_well: bool,
    },
    /// A job of another launcher has failed there, or is aborted.
    OtherFailed {
        /// The number here of its first process.
        first: u32,
        /// The exit code.
        code: i32,
        /// What has happened.
        text: String,
    },
    /// Another launcher is gone.
    OtherGone {
        /// The numbers here of the first processes of its jobs.
        firsts: Vec<u32>,
        /// What has happened.
        text: String,
    },
    /// The daemon of a node has ended, through which all messages go.
    DaemonEnded {
        /// The node.
        node: u32,
        /// Its process id.
        pid: i32,
        /// The host, if that is not the launcher's own.
        host: Option<String>,
        /// How.
        exit: Exit,
        /// Why, as it has said.
        why: Option<String>,
    },
    /// The agent of another host is lost, and with it the processes there that ran.
    HostLost {
        /// The host.
        host: String,
        /// The processes.
        ranks: Vec<u32>,
        /// What has happened.
        text: String,
    },
    /// A rank has a warning.
    Say {
        /// The text.
        text: String,
    },
    /// A look at the header pages of all processes of this launcher, wanted while [`Job::watches`].
    Seen {
        /// The pages, with the processes' numbers.
        all: Vec<(u32, Glimpse)>,
        /// Whether all of them were read after the look before; else those of other hosts may be older.
        is_new: bool,
    },
    /// The job's time is over.
    TimedOut {
        /// The time that it had.
        time: Duration,
        /// The header pages of all processes of this launcher, with their numbers.
        seen: Vec<(u32, Glimpse)>,
        /// Lines that say who waits for whom; empty if nobody waits for long.
        waits: String,
    },
    /// A rank has waited for too long; the job is to end with this report (rule 11).
    Hung {
        /// The report.
        text: String,
    },
    /// Nobody reads the standard output or the standard error of `mpirun` any more (rule 14).
    Unread,
    /// `mpirun` got this signal.
    Signal(i32),
    /// The time of [`Action::Grace`] is over.
    GraceOver,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print this to standard error.
    Print(String),
    /// Send this signal to these processes, which still run.
    Signal {
        /// Its number.
        number: i32,
        /// The processes.
        ranks: Vec<u32>,
    },
    /// Tell all processes that run of the death of this one, which they are to survive.
    Announce(u32),
    /// Report [`Event::GraceOver`] after this time (instead of an earlier one).
    Grace(Duration),
    /// All processes of the job that has these numbers, a spawned one, have ended.
    Over(Range<u32>),
    /// No other process has a communicator with them any more, so that nobody will ask for them.
    Forget(Range<u32>),
    /// Tell other launchers that these jobs of this one have failed.
    Tell {
        /// The numbers of their first processes.
        firsts: Vec<u32>,
        /// The exit code.
        code: i32,
        /// What has happened.
        text: String,
    },
    /// All processes have ended: exit with this code.
    Finish(i32),
}
