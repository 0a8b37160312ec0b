//! The events of jobs, and the actions that follow.

use std::ops::Range;
use std::time::Duration;

use oxmpi_rt_proto::process::{Exit, MpiStage};

/// A rank's state in the header page of its segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// 0: unknown.
    pub pid: u32,
    pub stage: MpiStage,
    pub last_call: Option<&'static str>,
}

/// An event in the life of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    Exited {
        rank: u32,
        exit: Exit,
        seen: Glimpse,
    },
    Abort {
        rank: u32,
        code: i32,
        text: String,
        seen: Glimpse,
    },
    /// A job with the next numbers was started for `parents`, which share the communicator `bond`
    /// with it.
    Spawned {
        ranks: u32,
        parents: Vec<u32>,
        bond: u64,
    },
    Bound {
        rank: u32,
        bond: u64,
        /// Processes of all jobs in it.
        members: Vec<u32>,
    },
    Released {
        rank: u32,
        bond: u64,
    },
    /// A job of another launcher got the next numbers (rule 9).
    Met {
        ranks: u32,
        /// Such as "the job of mpirun 1234".
        name: String,
    },
    OtherExited {
        /// The number in this launcher.
        rank: u32,
        /// Whether no reaction is needed.
        is_well: bool,
    },
    OtherFailed {
        /// The number in this launcher of the job's first process.
        first: u32,
        code: i32,
        text: String,
    },
    OtherGone {
        /// The numbers in this launcher of the first processes of its jobs.
        firsts: Vec<u32>,
        text: String,
    },
    DaemonEnded {
        node: u32,
        pid: i32,
        /// `None`: the launcher's own host.
        host: Option<String>,
        exit: Exit,
        why: Option<String>,
    },
    HostLost {
        host: String,
        ranks: Vec<u32>,
        text: String,
    },
    Say {
        text: String,
    },
    /// A check of the header pages of all processes of this launcher, wanted while
    /// [`super::Jobs::watches`].
    Seen {
        /// By the processes' numbers.
        all: Vec<(u32, Glimpse)>,
        /// Whether all pages were read after the previous check; otherwise pages of other hosts may
        /// be older.
        is_new: bool,
    },
    TimedOut {
        time: Duration,
        /// The header pages of all processes of this launcher, by their numbers.
        seen: Vec<(u32, Glimpse)>,
        /// Lines of the state report; may be empty.
        waits: String,
    },
    /// A rank has waited for too long; the job ends with this report (rule 11).
    Hung {
        text: String,
    },
    /// The reader of the standard output or standard error of `mpirun` is gone (rule 14).
    Unread,
    Signal(i32),
    GraceOver,
}

/// The launcher's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print this to standard error.
    Print(String),
    Signal {
        number: i32,
        ranks: Vec<u32>,
    },
    Announce(u32),
    /// Report [`JobEvent::GraceOver`] after this time, in place of an earlier one.
    Grace(Duration),
    /// All processes of the spawned job with these numbers have ended.
    Over(Range<u32>),
    /// No other process has a communicator with these processes, so no request about them can come.
    Forget(Range<u32>),
    /// Report to other launchers that these jobs have failed.
    ReportFailure {
        firsts: Vec<u32>,
        code: i32,
        text: String,
    },
    Finish(i32),
}
