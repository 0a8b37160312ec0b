//! What `mpirun` decides: the life of a job as a state machine.
//!
//! [`Job::on`] takes what happened and answers what to do. It makes no system call and reads no clock, so that every
//! rule below is tested without a process.
//!
//! 1. A rank that dies by a signal, exits with a code other than 0, or exits with 0 between MPI_Init and MPI_Finalize
//!    fails the job: one report is printed and the others are asked to end (SIGTERM), then killed.
//! 2. A rank that exits with 0 without MPI_Init fails the job as soon as another rank is seen to have called it.
//!    Programs that never use MPI just run.
//! 3. A rank that exits with a code other than 0 after MPI_Finalize is reported, but its peers, which have nothing to
//!    wait for from it, run to their end.
//! 4. MPI_Abort ends the job with its code. The first failure counts; what follows from it is not reported.
//! 5. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the ranks, which are killed if they still run after a
//!    grace; a second one kills at once.
//! 6. The job's exit code is that of its first failure: the rank's code, or 128 + the signal's number; 124 for a
//!    timeout; 1 where the rank itself exited with 0.

use std::collections::HashSet;
use std::time::Duration;

use crate::report::{self, Fault, Subject};

/// How long ranks have between SIGTERM and SIGKILL when another one failed.
pub const FAILURE_GRACE: Duration = Duration::from_millis(400);
/// How long ranks have between the user's signal and SIGKILL.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);
/// How often [`Event::Seen`] is wanted while [`Job::watches`].
pub const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// Exit code after a timeout, as of timeout(1).
pub const TIMEOUT_CODE: i32 = 124;

/// Different warnings that a job prints at most; a limit against a rank that never says the same twice.
const MAX_SAID: usize = 1000;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// How far a rank's use of MPI has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It has not called MPI_Init.
    #[default]
    Untouched,
    /// It is between MPI_Init and MPI_Finalize.
    Initialized,
    /// It has called MPI_Finalize.
    Finalized,
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
    /// A rank's process ended.
    Exited {
        /// The rank.
        rank: u32,
        /// How.
        exit: Exit,
        /// Its header page afterwards.
        seen: Glimpse,
    },
    /// A rank asked to end the job.
    Abort {
        /// The rank.
        rank: u32,
        /// The wanted exit code.
        code: i32,
        /// The library's report, or nothing.
        text: String,
        /// Its header page.
        seen: Glimpse,
    },
    /// A rank has a warning.
    Say {
        /// The text.
        text: String,
    },
    /// A look at the header pages of all ranks, wanted while [`Job::watches`].
    Seen(Vec<Glimpse>),
    /// The job's time is over.
    TimedOut {
        /// The time that it had.
        time: Duration,
        /// The header pages of all ranks.
        seen: Vec<Glimpse>,
    },
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
    /// Send this signal to the processes of all ranks that still run.
    Signal(i32),
    /// Report [`Event::GraceOver`] after this time (instead of an earlier one).
    Grace(Duration),
    /// All ranks have ended: exit with this code.
    Finish(i32),
}

/// SIGINT of Linux.
const SIGINT: i32 = 2;
/// SIGKILL of Linux.
const SIGKILL: i32 = 9;
/// SIGTERM of Linux.
const SIGTERM: i32 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// A failure was reported or the user asked to end; SIGKILL follows.
    Ending,
    Killed,
}

/// A job of ranks 0 to n-1.
#[derive(Debug)]
pub struct Job {
    host: String,
    /// Per rank: whether it still runs.
    running: Vec<bool>,
    left: usize,
    phase: Phase,
    /// The code of the first failure.
    code: Option<i32>,
    /// The first rank that exited with 0 without having called MPI_Init, and its header page.
    absent: Option<(u32, Glimpse)>,
    said: HashSet<String>,
}

impl Job {
    /// A job of `ranks` ranks that have just been started on the host named `host`.
    pub fn new(ranks: u32, host: &str) -> Job {
        Job {
            host: host.to_string(),
            running: vec![true; ranks as usize],
            left: ranks as usize,
            phase: Phase::Running,
            code: None,
            absent: None,
            said: HashSet::new(),
        }
    }

    /// Whether the job wants an [`Event::Seen`] every [`WATCH_INTERVAL`].
    pub fn watches(&self) -> bool {
        self.phase == Phase::Running && self.absent.is_some() && self.left > 0
    }

    /// Takes note of an event and says what to do, in this order.
    pub fn on(&mut self, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        if self.left == 0 {
            return out; // Finish has been said; what comes late changes nothing
        }
        match event {
            Event::Exited { rank, exit, seen } => self.exited(rank, exit, &seen, &mut out),
            Event::Abort { rank, code, text, seen } => self.aborted(rank, code, &text, &seen, &mut out),
            Event::Say { text } => {
                if self.said.len() < MAX_SAID && self.said.insert(text.clone()) {
                    out.push(Action::Print(format!("mpirun: {}\n", text.trim_end())));
                }
            }
            Event::Seen(seen) => self.look(&seen, &mut out),
            Event::TimedOut { time, seen } => {
                if self.phase == Phase::Running {
                    let mut running = Vec::new();
                    for ((rank, seen), runs) in (0..).zip(seen).zip(&self.running) {
                        if *runs {
                            running.push((rank, seen));
                        }
                    }
                    out.push(Action::Print(report::timeout(time, &self.host, &running)));
                    self.end(TIMEOUT_CODE, SIGTERM, FAILURE_GRACE, &mut out);
                }
            }
            Event::Signal(signal) => self.signalled(signal, &mut out),
            Event::GraceOver => {
                if self.phase == Phase::Ending {
                    self.kill(&mut out);
                }
            }
        }
        out
    }

    fn exited(&mut self, rank: u32, exit: Exit, seen: &Glimpse, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.running[rank as usize], false) {
            return;
        }
        self.left -= 1;
        if self.phase == Phase::Running {
            match (exit, seen.stage) {
                (Exit::Code(0), Stage::Finalized) => {}
                (Exit::Code(0), Stage::Untouched) => {
                    if self.absent.is_none() {
                        self.absent = Some((rank, seen.clone()));
                    }
                }
                (Exit::Code(0), Stage::Initialized) => self.fail(rank, &Fault::NoFinalize, 1, seen, out),
                (Exit::Code(code), Stage::Finalized) => {
                    if self.code.is_none() {
                        self.code = Some(code);
                        let subject = Subject { rank, host: &self.host, seen };
                        out.push(Action::Print(report::fault(&subject, &Fault::Code(code), 0, code)));
                    }
                }
                (Exit::Code(code), _) => self.fail(rank, &Fault::Code(code), code, seen, out),
                (Exit::Signal(signal), _) => {
                    self.fail(rank, &Fault::Killed(signal), report::shell_code(exit), seen, out);
                }
            }
        }
        if self.left == 0 {
            out.push(Action::Finish(self.code.unwrap_or(0)));
        }
    }

    fn aborted(&mut self, rank: u32, code: i32, text: &str, seen: &Glimpse, out: &mut Vec<Action>) {
        if self.phase != Phase::Running {
            return;
        }
        // A process can only exit with 8 bits, and an aborted job must not look like a good one.
        let code = if code & 0xff == 0 { 1 } else { code & 0xff };
        let others = self.left - usize::from(self.running[rank as usize]);
        let subject = Subject { rank, host: &self.host, seen };
        out.push(Action::Print(report::abort(&subject, text, others, code)));
        self.end(code, SIGTERM, FAILURE_GRACE, out);
    }

    fn look(&mut self, seen: &[Glimpse], out: &mut Vec<Action>) {
        if !self.watches() {
            return;
        }
        let initialized = (0..)
            .zip(seen)
            .zip(&self.running)
            .find_map(|((rank, seen), &runs)| (runs && seen.stage == Stage::Initialized).then_some(rank));
        let Some(other) = initialized else { return };
        if let Some((rank, seen)) = self.absent.take() {
            self.fail(rank, &Fault::NoInit(other), 1, &seen, out);
        }
    }

    fn signalled(&mut self, signal: i32, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Running => {
                out.push(Action::Print(report::interrupted(signal, self.left)));
                self.end(128 + signal, signal, INTERRUPT_GRACE, out);
                if signal != SIGINT && signal != SIGTERM {
                    // Programs that ignore the rarer ones should still hear that the end is near.
                    out.push(Action::Signal(SIGTERM));
                }
            }
            Phase::Ending => self.kill(out),
            Phase::Killed => {}
        }
    }

    fn fail(&mut self, rank: u32, fault: &Fault, code: i32, seen: &Glimpse, out: &mut Vec<Action>) {
        let subject = Subject { rank, host: &self.host, seen };
        out.push(Action::Print(report::fault(&subject, fault, self.left, code)));
        self.end(code, SIGTERM, FAILURE_GRACE, out);
    }

    fn end(&mut self, code: i32, signal: i32, grace: Duration, out: &mut Vec<Action>) {
        self.code.get_or_insert(code);
        self.phase = Phase::Ending;
        if self.left > 0 {
            out.push(Action::Signal(signal));
            out.push(Action::Grace(grace));
        }
    }

    fn kill(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Killed;
        out.push(Action::Signal(SIGKILL));
    }
}

#[cfg(test)]
mod tests;
