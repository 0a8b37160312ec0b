//! What `mpirun` decides: the life of a job as a state machine.
//!
//! [`Job::on`] takes what happened and answers what to do. It makes no system call and reads no clock, so that every
//! rule below is tested without a process.
//!
//! The launcher has one job at first. Processes of it may spawn others (MPI-5.0 chapter 11), each spawn is a job of its own
//! with a world of its own. Processes are numbered through all jobs. Jobs are *connected* as long as a process of one has
//! a communicator with a process of the other, directly or by others (MPI-5.0 section 11.10.4); module [`bonds`] keeps
//! account of that.
//!
//! 1. A rank that dies by a signal, exits with a code other than 0, or exits with 0 between MPI_Init and MPI_Finalize
//!    fails its job and all that are connected with it: one report is printed and the others are asked to end
//!    (SIGTERM), then killed. Jobs that are not connected go on.
//! 2. A rank that exits with 0 without MPI_Init fails its job as soon as another connected rank is seen to have called
//!    it. Programs that never use MPI just run.
//! 3. A rank that exits with a code other than 0 after MPI_Finalize is reported, but its peers, which have nothing to
//!    wait for from it, run to their end.
//! 4. MPI_Abort ends the job and those connected with it, with its code. The first failure counts; what follows from it
//!    is not reported.
//! 5. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the ranks, which are killed if they still run after a
//!    grace; a second one kills at once.
//! 6. The exit code is that of the first failure: the rank's code, or 128 + the signal's number; 124 for a
//!    timeout; 1 where the rank itself exited with 0.
//! 7. The launcher of a singleton has not started process 0 and cannot know its code. If that is gone without
//!    MPI_Finalize, everything is ended.
//! 8. If the job is to go on after failures (parameter mpi_ft_enable), rule 1 does not hold for a rank that has called
//!    MPI_Init: a note is printed, all other processes are told that it is dead, and they go on. The exit code is 0 if some rank
//!    came to the end of MPI_Finalize and exited with 0, and nothing else went wrong; otherwise rule 6 holds.

mod bonds;

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use self::bonds::Bonds;
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
    /// A rank has a warning.
    Say {
        /// The text.
        text: String,
    },
    /// A look at the header pages of all processes, wanted while [`Job::watches`].
    Seen(Vec<Glimpse>),
    /// The job's time is over.
    TimedOut {
        /// The time that it had.
        time: Duration,
        /// The header pages of all processes.
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
    /// All processes have ended: exit with this code.
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

/// One job: a world of processes.
#[derive(Debug)]
struct World {
    /// The numbers of its processes.
    processes: Range<u32>,
    phase: Phase,
    /// The first process that exited with 0 without having called MPI_Init, and its header page.
    absent: Option<(u32, Glimpse)>,
    /// All of its processes have ended.
    is_over: bool,
    /// Nobody has a communicator with them any more, either.
    is_forgotten: bool,
}

/// All jobs of one launcher.
#[derive(Debug)]
pub struct Job {
    host: String,
    /// The first one, then those that were spawned.
    worlds: Vec<World>,
    /// By process: whether it still runs.
    running: Vec<bool>,
    left: usize,
    /// The code of the first failure.
    code: Option<i32>,
    /// The others survive a process that dies.
    survives: bool,
    /// The code of the first process that died and was survived.
    death_code: Option<i32>,
    /// Some process has called MPI_Finalize and exited with 0.
    has_finished: bool,
    bonds: Bonds,
    said: HashSet<String>,
}

impl Job {
    /// A job of `ranks` ranks that have just been started on the host named `host`.
    pub fn new(ranks: u32, host: &str) -> Job {
        let mut job = Job {
            host: host.to_string(),
            worlds: Vec::new(),
            running: Vec::new(),
            left: 0,
            code: None,
            survives: false,
            death_code: None,
            has_finished: false,
            bonds: Bonds::default(),
            said: HashSet::new(),
        };
        job.add(ranks);
        job
    }

    /// The same, whose processes survive each other's deaths or not (rule 8).
    #[must_use]
    pub fn surviving(self, survives: bool) -> Job {
        Job { survives, ..self }
    }

    fn add(&mut self, ranks: u32) {
        let first = self.running.len() as u32;
        self.running.extend((0..ranks).map(|_| true));
        self.left += ranks as usize;
        self.worlds.push(World {
            processes: first..first + ranks,
            phase: Phase::Running,
            absent: None,
            is_over: false,
            is_forgotten: false,
        });
    }

    /// What a process is called in reports.
    pub fn name(&self, rank: u32) -> String {
        match self.world_of(rank) {
            0 => format!("rank {rank}"),
            spawned => {
                format!("rank {} of spawned job {spawned}", rank - self.worlds[spawned].processes.start)
            }
        }
    }

    /// Whether any process has this communicator.
    pub fn is_bound(&self, bond: u64) -> bool {
        self.bonds.is_bound(bond)
    }

    /// The job of a process, counted from 0, which is the first.
    pub fn world_of(&self, rank: u32) -> usize {
        self.worlds.partition_point(|world| world.processes.end <= rank)
    }

    /// Whether the job wants an [`Event::Seen`] every [`WATCH_INTERVAL`].
    pub fn watches(&self) -> bool {
        self.left > 0 && self.worlds.iter().any(|w| w.phase == Phase::Running && w.absent.is_some())
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
            Event::Spawned { ranks, parents, bond } => self.spawned(ranks, &parents, bond),
            Event::Bound { rank, bond, members } => self.bind(rank, bond, &members),
            Event::Released { rank, bond } => {
                self.bonds.release(rank, bond);
                self.forget(&mut out);
            }
            Event::Say { text } => {
                if self.said.len() < MAX_SAID && self.said.insert(text.clone()) {
                    out.push(Action::Print(format!("mpirun: {}\n", text.trim_end())));
                }
            }
            Event::Seen(seen) => self.look(&seen, &mut out),
            Event::TimedOut { time, seen } => self.timed_out(time, seen, &mut out),
            Event::Signal(signal) => self.signalled(signal, &mut out),
            Event::GraceOver => self.kill(&mut out),
        }
        out
    }

    fn spawned(&mut self, ranks: u32, parents: &[u32], bond: u64) {
        let first = self.running.len() as u32;
        self.add(ranks);
        let all: Vec<u32> = parents.iter().copied().chain(first..first + ranks).collect();
        all.iter().for_each(|rank| self.bind(*rank, bond, &all));
    }

    fn bind(&mut self, rank: u32, bond: u64, members: &[u32]) {
        let known = members.iter().filter(|member| (**member as usize) < self.running.len());
        let mut worlds: Vec<usize> = known.map(|member| self.world_of(*member)).collect();
        worlds.sort_unstable();
        worlds.dedup();
        self.bonds.bind(rank, bond, worlds);
    }

    /// The jobs that are connected with that of a process, its own among them, in their order.
    fn connected(&self, rank: u32) -> Vec<usize> {
        // Who has ended connects nobody, but who should have called MPI_Init is awaited.
        let lives = |world: usize| !self.worlds[world].is_over || self.worlds[world].absent.is_some();
        let mut worlds = self.bonds.connected(self.world_of(rank), |process| self.world_of(process), lives);
        worlds.sort_unstable();
        worlds
    }

    /// The processes of these jobs that still run.
    fn running_in(&self, worlds: &[usize]) -> Vec<u32> {
        let processes = worlds.iter().flat_map(|world| self.worlds[*world].processes.clone());
        processes.filter(|rank| self.running[*rank as usize]).collect()
    }

    /// The jobs in this phase.
    fn in_phase(&self, phase: Phase) -> Vec<usize> {
        (0..self.worlds.len()).filter(|world| self.worlds[*world].phase == phase).collect()
    }

    fn exited(&mut self, rank: u32, exit: Exit, seen: &Glimpse, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.running[rank as usize], false) {
            return;
        }
        self.left -= 1;
        let world = self.world_of(rank);
        self.has_finished |= (exit, seen.stage) == (Exit::Code(0), Stage::Finalized);
        if self.worlds[world].phase == Phase::Running {
            match (exit, seen.stage) {
                (Exit::Code(0), Stage::Initialized) if self.survives => {
                    self.survive(rank, &Fault::NoFinalize, 1, seen, out);
                }
                (Exit::Code(code), Stage::Initialized) if self.survives => {
                    self.survive(rank, &Fault::Code(code), code, seen, out);
                }
                (Exit::Signal(signal), Stage::Initialized | Stage::Finalized) if self.survives => {
                    let code = report::shell_code(exit);
                    self.survive(rank, &Fault::Killed(signal), code, seen, out);
                    if seen.stage == Stage::Finalized {
                        self.code.get_or_insert(code);
                    }
                }
                (Exit::Code(0) | Exit::Unknown, Stage::Finalized) => {}
                (Exit::Unknown, _) => {
                    let all = self.in_phase(Phase::Running);
                    self.fail_all(rank, &Fault::Gone, 1, seen, &all, out);
                }
                (Exit::Code(0), Stage::Untouched) => {
                    let absent = &mut self.worlds[world].absent;
                    absent.get_or_insert_with(|| (rank, seen.clone()));
                }
                (Exit::Code(0), Stage::Initialized) => self.fail(rank, &Fault::NoFinalize, 1, seen, out),
                (Exit::Code(code), Stage::Finalized) => {
                    if self.code.is_none() {
                        self.code = Some(code);
                        let name = self.name(rank);
                        let subject = Subject { name: &name, host: &self.host, seen };
                        out.push(Action::Print(report::fault(&subject, &Fault::Code(code), 0, code)));
                    }
                }
                (Exit::Code(code), _) => self.fail(rank, &Fault::Code(code), code, seen, out),
                (Exit::Signal(signal), _) => {
                    self.fail(rank, &Fault::Killed(signal), report::shell_code(exit), seen, out);
                }
            }
        }
        self.bonds.forget_process(rank);
        if self.running_in(&[world]).is_empty() {
            self.worlds[world].is_over = true;
            if world > 0 {
                out.push(Action::Over(self.worlds[world].processes.clone()));
            }
        }
        self.forget(out);
        if self.left == 0 {
            let deaths = self.death_code.filter(|_| !self.has_finished);
            out.push(Action::Finish(self.code.or(deaths).unwrap_or(0)));
        }
    }

    /// A process has died, and the others go on without it.
    fn survive(&mut self, rank: u32, fault: &Fault, code: i32, seen: &Glimpse, out: &mut Vec<Action>) {
        self.death_code.get_or_insert(code);
        let others = self.running_in(&self.connected(rank)).len();
        let name = self.name(rank);
        let subject = Subject { name: &name, host: &self.host, seen };
        out.push(Action::Print(report::survived(&subject, fault, others)));
        // Not only those that are connected: others may be about to connect.
        out.push(Action::Announce(rank));
    }

    /// Forgets jobs that are over and to which nobody is bound any more.
    fn forget(&mut self, out: &mut Vec<Action>) {
        for (number, world) in self.worlds.iter_mut().enumerate().skip(1) {
            if world.is_over && !world.is_forgotten && !self.bonds.is_bound_to(number) {
                world.is_forgotten = true;
                out.push(Action::Forget(world.processes.clone()));
            }
        }
    }

    fn aborted(&mut self, rank: u32, code: i32, text: &str, seen: &Glimpse, out: &mut Vec<Action>) {
        if self.worlds[self.world_of(rank)].phase != Phase::Running {
            return;
        }
        // A process can only exit with 8 bits, and an aborted job must not look like a good one.
        let code = if code & 0xff == 0 { 1 } else { code & 0xff };
        let worlds = self.connected(rank);
        let others = self.running_in(&worlds).iter().filter(|other| **other != rank).count();
        let name = self.name(rank);
        let subject = Subject { name: &name, host: &self.host, seen };
        out.push(Action::Print(report::abort(&subject, text, others, code)));
        self.end(&worlds, code, SIGTERM, FAILURE_GRACE, out);
    }

    fn look(&mut self, seen: &[Glimpse], out: &mut Vec<Action>) {
        for world in self.in_phase(Phase::Running) {
            let Some((rank, _)) = self.worlds[world].absent else { continue };
            let others = self.running_in(&self.connected(rank));
            let initialized =
                |rank: &u32| seen.get(*rank as usize).is_some_and(|s| s.stage == Stage::Initialized);
            let Some(other) = others.into_iter().find(initialized) else { continue };
            if let Some((rank, seen)) = self.worlds[world].absent.take() {
                let other = self.name(other);
                self.fail(rank, &Fault::NoInit(other), 1, &seen, out);
            }
        }
    }

    fn timed_out(&mut self, time: Duration, seen: Vec<Glimpse>, out: &mut Vec<Action>) {
        let worlds = self.in_phase(Phase::Running);
        if worlds.is_empty() {
            return;
        }
        let all =
            seen.into_iter().zip(0..).filter(|(_, rank)| self.running.get(*rank as usize) == Some(&true));
        let running: Vec<(String, Glimpse)> = all.map(|(seen, rank)| (self.name(rank), seen)).collect();
        out.push(Action::Print(report::timeout(time, &self.host, &running)));
        self.end(&worlds, TIMEOUT_CODE, SIGTERM, FAILURE_GRACE, out);
    }

    fn signalled(&mut self, signal: i32, out: &mut Vec<Action>) {
        let worlds = self.in_phase(Phase::Running);
        if worlds.is_empty() {
            return self.kill(out);
        }
        let ranks = self.running_in(&worlds);
        out.push(Action::Print(report::interrupted(signal, ranks.len())));
        self.end(&worlds, 128 + signal, signal, INTERRUPT_GRACE, out);
        if signal != SIGINT && signal != SIGTERM && !ranks.is_empty() {
            // Programs that ignore the rarer ones should still hear that the end is near.
            out.push(Action::Signal { number: SIGTERM, ranks });
        }
    }

    fn fail(&mut self, rank: u32, fault: &Fault, code: i32, seen: &Glimpse, out: &mut Vec<Action>) {
        let worlds = self.connected(rank);
        self.fail_all(rank, fault, code, seen, &worlds, out);
    }

    fn fail_all(
        &mut self,
        rank: u32,
        fault: &Fault,
        code: i32,
        seen: &Glimpse,
        worlds: &[usize],
        out: &mut Vec<Action>,
    ) {
        let (name, others) = (self.name(rank), self.running_in(worlds).len());
        let subject = Subject { name: &name, host: &self.host, seen };
        out.push(Action::Print(report::fault(&subject, fault, others, code)));
        self.end(worlds, code, SIGTERM, FAILURE_GRACE, out);
    }

    fn end(&mut self, worlds: &[usize], code: i32, signal: i32, grace: Duration, out: &mut Vec<Action>) {
        self.code.get_or_insert(code);
        for world in worlds {
            let phase = &mut self.worlds[*world].phase;
            *phase = if *phase == Phase::Running { Phase::Ending } else { *phase };
        }
        let ranks = self.running_in(worlds);
        if !ranks.is_empty() {
            out.push(Action::Signal { number: signal, ranks });
            out.push(Action::Grace(grace));
        }
    }

    /// Kills what has been asked to end.
    fn kill(&mut self, out: &mut Vec<Action>) {
        let worlds = self.in_phase(Phase::Ending);
        let ranks = self.running_in(&worlds);
        worlds.iter().for_each(|world| self.worlds[*world].phase = Phase::Killed);
        if !ranks.is_empty() {
            out.push(Action::Signal { number: SIGKILL, ranks });
        }
    }
}

#[cfg(test)]
mod tests;
