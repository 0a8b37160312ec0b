//! What `mpirun` decides: the life of a job as a state machine.
//!
//! [`Job::on`] takes what happened and answers what to do. It makes no system call and reads no clock, so that every
//! rule below is tested without a process.
//!
//! The launcher has one job at first. Processes of it may spawn others (MPI-5.0 chapter 11), each spawn is a job of its own
//! with a world of its own. Processes are numbered through all jobs. Jobs are *connected* as long as a process of one has
//! a communicator with a process of the other, directly or by others (MPI-5.0 section 11.10.4); module `bonds` keeps
//! account of that.
//!
//! 1. A rank that dies by a signal, exits with a code other than 0, or exits with 0 between MPI_Init and MPI_Finalize
//!    fails its job and all that are connected with it: one report is printed and the others are asked to end
//!    (SIGTERM), then killed. Jobs that are not connected go on.
//! 2. A rank that exits with 0 without MPI_Init fails its job as soon as another connected rank is seen to have called
//!    it. Programs that never use MPI just run.
//! 3. A rank that exits with a code other than 0 after MPI_Finalize is reported. Peers that have called it as well, or do so
//!    within a second, run to their end; if others are seen that have not, they are ended, as they may wait for it in vain,
//!    also if the rank's own job is over. Hosts that are silent for a time get that time in addition: only looks that all have
//!    answered count. A process that has left the World Model and holds a session has not finalized MPI. Without
//!    mpi_abort_on_non_zero_status they are not ended, and a rank that exits so without MPI_Init only fails its job by rule 2.
//!    To other launchers such a rank has ended well, unless rule 8 holds: processes of theirs that wait for it wait on, if none
//!    of this launcher's that are connected with them does.
//! 4. MPI_Abort ends the job and those connected with it, with its code. The first failure counts; what follows from it
//!    is not reported.
//! 5. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the ranks, which are killed if they still run after a
//!    grace; a second one kills at once.
//! 6. The exit code is that of the first failure: the rank's code, or 128 + the signal's number; 124 for a
//!    timeout; 1 where the rank itself exited with 0.
//! 7. The launcher of a singleton has not started process 0 and cannot know its code. If that is gone without
//!    MPI_Finalize, everything is ended.
//! 8. If the job is to go on after failures (parameter mpi_ft_enable), rule 1 does not hold for a rank that has called
//!    MPI_Init, nor rule 3: a note is printed, all other processes are told that it is dead, and they go on. The exit code is 0
//!    if some rank came to the end of MPI_Finalize and exited with 0, and nothing else went wrong; otherwise rule 6 holds.
//! 9. Jobs of other launchers that this one's processes have to do with are jobs here as well, whose processes this launcher
//!    has not started. Their own launcher decides by its rules when they fail, and says so; that ends those here that are
//!    connected with them. A launcher that is gone has taken with it all its processes of which it has not said that they ended.
//!    In turn the others are told when jobs of this launcher fail.
//! 10. Of a job that is over, and to which nobody is bound any more, nothing is kept.
//! 11. A hang that a watchdog reports (parameters mpi_watchdog, mpi_watch_ended) ends all jobs as a timeout does if
//!     mpi_watchdog_abort says so.
//! 12. The end of a daemon through which the messages go ends all jobs, also where rule 8 holds.
//! 13. When the agent of another host is lost, the processes there are dead: that fails what they are connected with, and is one
//!     report; or, if rule 8 holds, they are survived.
//! 14. When nobody reads the launcher's output any more, all jobs are ended without a word, as SIGPIPE ends a program that
//!     writes there itself.

mod bonds;
mod ending;
mod event;
mod missed;
mod others;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use self::bonds::Bonds;
pub use self::event::{Action, Event, Exit, Glimpse, Stage};
use self::missed::Leaver;
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

/// SIGINT of Linux.
const SIGINT: i32 = 2;
/// SIGKILL of Linux.
const SIGKILL: i32 = 9;
/// SIGPIPE of Linux.
const SIGPIPE: i32 = 13;
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
    /// Its number among the jobs of this launcher, if it is one; the first is 0.
    number: usize,
    /// What it is called, if it is another launcher's.
    other: Option<String>,
    phase: Phase,
    /// The first process that exited with 0 without having called MPI_Init, and its header page.
    absent: Option<(u32, Glimpse)>,
    /// Whether its ranks have been other processes before (see [`crate::generation`]).
    is_renewed: bool,
    /// The first process that exited with another code after MPI_Finalize, if that may fail the job.
    leaver: Option<Leaver>,
    /// Which of its processes run, by rank.
    running: Vec<bool>,
    /// How many of them run; at 0 it is over.
    left: u32,
}

impl World {
    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn running(&self) -> impl Iterator<Item = u32> {
        self.processes.clone().zip(&self.running).filter(|(_, runs)| **runs).map(|(process, _)| process)
    }
}

/// All jobs of one launcher.
#[derive(Debug)]
pub struct Job {
    host: String,
    /// The hosts of the first job's processes, if they are not all on that one.
    hosts: BTreeMap<u32, String>,
    /// By the numbers of their first processes: those of this launcher, and of others.
    worlds: BTreeMap<u32, World>,
    /// Jobs of this launcher so far.
    jobs: usize,
    /// The number of the next process.
    next: u32,
    /// Processes of this launcher that run.
    left: usize,
    /// The code of the first failure.
    code: Option<i32>,
    /// The others survive a process that dies.
    survives: bool,
    /// A code other than 0 fails the job even where MPI is not in use.
    fails_by_codes: bool,
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
            hosts: BTreeMap::new(),
            worlds: BTreeMap::new(),
            jobs: 0,
            next: 0,
            left: 0,
            code: None,
            survives: false,
            fails_by_codes: true,
            death_code: None,
            has_finished: false,
            bonds: Bonds::default(),
            said: HashSet::new(),
        };
        job.add(ranks, None);
        job
    }

    /// The same, whose processes survive each other's deaths or not (rule 8).
    #[must_use]
    pub fn surviving(self, survives: bool) -> Job {
        Job { survives, ..self }
    }

    /// The same, whose first job's processes are on these hosts, one for each; none: on its own.
    #[must_use]
    pub fn spread_over(self, hosts: Vec<String>) -> Job {
        Job { hosts: (0..).zip(hosts).collect(), ..self }
    }

    /// The processes that will be spawned next are on these hosts, one for each.
    pub fn place_next(&mut self, hosts: Vec<String>) {
        self.hosts.extend((self.next..).zip(hosts));
    }

    /// The host of a process.
    fn host_of(&self, rank: u32) -> &str {
        self.hosts.get(&rank).unwrap_or(&self.host)
    }

    fn add(&mut self, ranks: u32, other: Option<String>) {
        let processes = self.next..self.next.saturating_add(ranks);
        self.next = processes.end;
        let number = self.jobs;
        if other.is_none() {
            self.left += ranks as usize;
            self.jobs += 1;
        }
        let running = vec![true; ranks as usize];
        let world = World {
            processes,
            number,
            other,
            phase: Phase::Running,
            absent: None,
            is_renewed: false,
            leaver: None,
            running,
            left: ranks,
        };
        self.worlds.insert(world.processes.start, world);
    }

    /// The number that the next process gets.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Whether all jobs of this launcher have failed, or were told to end.
    pub fn is_ending(&self) -> bool {
        self.in_phase(Phase::Running).is_empty()
    }

    /// Whether nothing is kept of other jobs than this one.
    pub fn is_only(&self, first: u32) -> bool {
        self.worlds.keys().all(|other| *other == first)
    }

    /// The ranks of a job are other processes from now on (see [`crate::generation`]).
    pub fn renew(&mut self, first: u32) {
        let Some(world) = self.worlds.get_mut(&first) else { return };
        (world.absent, world.leaver, world.is_renewed) = (None, None, true);
        for process in world.processes.clone() {
            self.bonds.forget_process(process);
        }
    }

    /// Leaves out so many numbers: processes that were not started after all.
    pub fn skip(&mut self, ranks: u32) {
        self.next = self.next.saturating_add(ranks);
    }

    /// What a process is called in reports.
    pub fn name(&self, rank: u32) -> String {
        match self.world(rank) {
            Some(_) => {
                let (rank, job) = self.place(rank);
                format!("rank {rank}{job}")
            }
            None => format!("process {rank}, of a job that is over,"),
        }
    }

    /// A process's rank in its job, and the words for that if it is not the first: " of spawned job 1".
    pub fn place(&self, number: u32) -> (u32, String) {
        match self.world(number) {
            Some(World { other: Some(job), processes, .. }) => {
                (number - processes.start, format!(" of {job}"))
            }
            Some(World { number: job @ 1.., processes, .. }) => {
                (number - processes.start, format!(" of spawned job {job}"))
            }
            Some(_) => (number, String::new()),
            None => (number, " (by its number) of a job that is over".to_string()),
        }
    }

    /// The host of the launcher, for reports.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether any process of this launcher has this communicator.
    pub fn is_bound(&self, bond: u64) -> bool {
        self.bonds.is_bound(bond)
    }

    /// The jobs that have part in this communicator of a process, by the numbers of their first processes.
    pub fn bound_by(&self, rank: u32, bond: u64) -> &[u32] {
        self.bonds.of(rank, bond)
    }

    /// The number of the first process of this one's job; `None` if nothing is known of it any more (rule 11).
    pub fn first_of(&self, rank: u32) -> Option<u32> {
        self.world(rank).map(|world| world.processes.start)
    }

    /// How many processes the job of this one has.
    pub fn size_of(&self, rank: u32) -> Option<u32> {
        self.world(rank).map(|world| world.running.len() as u32)
    }

    /// The job of a process of this launcher, counted from 0, which is the first.
    pub fn number_of(&self, rank: u32) -> usize {
        self.world(rank).map_or(0, |world| world.number)
    }

    /// How many jobs this launcher has had.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// Whether a process runs, as far as is known.
    pub fn runs(&self, rank: u32) -> bool {
        let place = |world: &World| (rank - world.processes.start) as usize;
        self.world(rank).is_some_and(|world| world.running.get(place(world)) == Some(&true))
    }

    fn world(&self, rank: u32) -> Option<&World> {
        let (_, world) = self.worlds.range(..=rank).next_back()?;
        world.processes.contains(&rank).then_some(world)
    }

    fn world_mut(&mut self, rank: u32) -> Option<&mut World> {
        let (_, world) = self.worlds.range_mut(..=rank).next_back()?;
        world.processes.contains(&rank).then_some(world)
    }

    /// Whether some job of this launcher runs that is not being ended.
    pub fn is_running(&self) -> bool {
        self.left > 0 && !self.in_phase(Phase::Running).is_empty()
    }

    /// Whether other launchers need do nothing about a process of this one that ended so, how far it had come.
    pub fn ends_well(&self, exit: Exit, stage: Stage) -> bool {
        match stage {
            // What they make of it if it is not survived they are told, too (rules 1 and 3).
            Stage::Finalized => !self.survives || matches!(exit, Exit::Code(0) | Exit::Unknown),
            Stage::Untouched => exit == Exit::Code(0),
            Stage::Initialized | Stage::Finalizing => false,
        }
    }

    /// Takes note of an event and says what to do, in this order.
    pub fn on(&mut self, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        if self.left == 0 && !matches!(event, Event::Say { .. }) {
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
            Event::Met { ranks, name } => self.add(ranks, Some(name)),
            Event::OtherExited { rank, is_well } => self.other_exited(rank, is_well, &mut out),
            Event::OtherFailed { first, code, text } => self.other_failed(&[first], code, &text, &mut out),
            Event::OtherGone { firsts, text } => self.other_gone(&firsts, &text, &mut out),
            Event::DaemonEnded { node, pid, host, exit, why } => {
                self.daemon_ended((node, pid, host.as_deref()), exit, why.as_deref(), &mut out);
            }
            Event::HostLost { host, ranks, text } => self.host_lost(&host, &ranks, &text, &mut out),
            Event::Say { text } => {
                if self.said.len() < MAX_SAID && self.said.insert(text.clone()) {
                    out.push(Action::Print(format!("mpirun: {}\n", text.trim_end())));
                }
            }
            Event::Seen { all, is_new } => self.look(&all, is_new, &mut out),
            Event::TimedOut { time, seen, waits } => self.timed_out(time, (seen, &waits), &mut out),
            Event::Hung { text } => self.hung(text, &mut out),
            Event::Unread => self.unread(&mut out),
            Event::Signal(signal) => self.signalled(signal, &mut out),
            Event::GraceOver => self.kill(&mut out),
        }
        out
    }

    fn spawned(&mut self, ranks: u32, parents: &[u32], bond: u64) {
        let first = self.next;
        self.add(ranks, None);
        let all: Vec<u32> = parents.iter().copied().chain(first..first + ranks).collect();
        // Of another launcher's processes that launcher knows what they have.
        let own = |rank: &&u32| self.world(**rank).is_some_and(|world| world.other.is_none());
        let own: Vec<u32> = all.iter().filter(own).copied().collect();
        own.into_iter().for_each(|rank| self.bind(rank, bond, &all));
    }

    fn bind(&mut self, rank: u32, bond: u64, members: &[u32]) {
        let mut worlds: Vec<u32> = members.iter().filter_map(|member| self.first_of(*member)).collect();
        worlds.sort_unstable();
        worlds.dedup();
        self.bonds.bind(rank, bond, worlds);
    }

    /// The jobs that are connected with that of a process, its own among them, in their order.
    fn connected(&self, rank: u32) -> Vec<u32> {
        let Some(first) = self.first_of(rank) else { return Vec::new() };
        // Who has ended connects nobody, but who should have called MPI_Init is awaited.
        let lives = |first: u32| self.worlds.get(&first).is_some_and(|w| !w.is_over() || w.absent.is_some());
        let mut worlds = self.bonds.connected(first, |process| self.first_of(process), lives);
        worlds.sort_unstable();
        worlds
    }

    /// The processes of these jobs that still run, of this launcher.
    fn running_in(&self, worlds: &[u32]) -> Vec<u32> {
        let worlds = worlds.iter().filter_map(|first| self.worlds.get(first));
        worlds.filter(|world| world.other.is_none()).flat_map(World::running).collect()
    }

    /// The jobs of this launcher that are in this phase.
    fn in_phase(&self, phase: Phase) -> Vec<u32> {
        let all = self.worlds.iter().filter(|(_, world)| world.other.is_none() && world.phase == phase);
        all.map(|(first, _)| *first).collect()
    }

    /// A process does not run any more. Whether it did.
    fn note_end(&mut self, rank: u32) -> bool {
        let Some(world) = self.world_mut(rank) else { return false };
        let place = (rank - world.processes.start) as usize;
        let ran = world.running.get_mut(place).is_some_and(std::mem::take);
        world.left -= u32::from(ran);
        ran
    }

    fn exited(&mut self, rank: u32, exit: Exit, seen: &Glimpse, out: &mut Vec<Action>) {
        if !self.note_end(rank) {
            return;
        }
        self.left -= 1;
        self.has_finished |= (exit, seen.stage) == (Exit::Code(0), Stage::Finalized);
        if self.world(rank).is_some_and(|world| world.phase == Phase::Running) {
            // Who dies in MPI_Finalize has not come to its end.
            let stage = if seen.stage.is_inside() { Stage::Initialized } else { seen.stage };
            match (exit, stage) {
                (Exit::Code(0) | Exit::Unknown, Stage::Finalized) => {}
                (Exit::Code(0), Stage::Initialized) if self.survives => {
                    self.survive(rank, &Fault::NoFinalize, 1, seen, out);
                }
                (Exit::Code(code), Stage::Initialized | Stage::Finalized) if self.survives => {
                    self.survive(rank, &Fault::Code(code), code, seen, out);
                }
                (Exit::Signal(signal), Stage::Initialized | Stage::Finalized) if self.survives => {
                    self.survive(rank, &Fault::Killed(signal), report::shell_code(exit), seen, out);
                }
                (Exit::Unknown, _) => {
                    let all = self.in_phase(Phase::Running);
                    self.fail_all(rank, &Fault::Gone, 1, seen, &all, out);
                }
                (Exit::Code(0), Stage::Untouched) => {
                    if let Some(world) = self.world_mut(rank) {
                        world.absent.get_or_insert_with(|| (rank, seen.clone()));
                    }
                }
                (Exit::Code(0), Stage::Initialized) => self.fail(rank, &Fault::NoFinalize, 1, seen, out),
                (Exit::Code(code), Stage::Finalized) => self.note_code(rank, code, seen, out),
                (Exit::Code(code), Stage::Untouched) if !self.fails_by_codes => {
                    self.note_code(rank, code, seen, out);
                }
                (Exit::Code(code), _) => self.fail(rank, &Fault::Code(code), code, seen, out),
                (Exit::Signal(signal), _) => {
                    self.fail(rank, &Fault::Killed(signal), report::shell_code(exit), seen, out);
                }
            }
        }
        self.bonds.forget_process(rank);
        if let Some(World { left: 0, number: 1.., processes, .. }) = self.world(rank) {
            out.push(Action::Over(processes.clone()));
        }
        self.forget(out);
        self.finish_if_over(out);
    }

    fn finish_if_over(&self, out: &mut Vec<Action>) {
        if self.left == 0 {
            let deaths = self.death_code.filter(|_| !self.has_finished);
            out.push(Action::Finish(self.code.or(deaths).unwrap_or(0)));
        }
    }

    /// The processes of another host are gone with its agent: all that they are connected with fail, or survive them (rule 8).
    fn host_lost(&mut self, host: &str, ranks: &[u32], text: &str, out: &mut Vec<Action>) {
        let was_running = |rank: &u32| self.world(*rank).is_some_and(|world| world.phase == Phase::Running);
        let were_running = ranks.iter().any(was_running);
        let mut worlds: Vec<u32> = ranks.iter().flat_map(|rank| self.connected(*rank)).collect();
        worlds.sort_unstable();
        worlds.dedup();
        let lost: Vec<u32> = ranks.iter().copied().filter(|rank| self.note_end(*rank)).collect();
        self.left -= lost.len();
        let others = self.running_in(&worlds).len();
        if were_running && self.survives {
            self.death_code.get_or_insert(1);
            out.push(Action::Print(report::host_survived(host, lost.len(), text, others)));
            out.extend(lost.iter().map(|rank| Action::Announce(*rank)));
        } else if were_running {
            let report = report::host_lost(host, lost.len(), text, others);
            let text = report::first_line(&report);
            out.push(Action::Print(report));
            self.end(&worlds, 1, SIGTERM, FAILURE_GRACE, &text, out);
        }
        lost.iter().for_each(|rank| self.bonds.forget_process(*rank));
        self.forget(out);
        self.finish_if_over(out);
    }

    /// A process has died, and the others go on without it.
    fn survive(&mut self, rank: u32, fault: &Fault, code: i32, seen: &Glimpse, out: &mut Vec<Action>) {
        self.death_code.get_or_insert(code);
        let is_late = seen.stage == Stage::Finalized;
        // Ranks that end with codes of their own when all is done are reported once.
        if !(is_late && self.code.is_some() && matches!(fault, Fault::Code(_))) {
            let others = self.running_in(&self.connected(rank)).len();
            let name = self.name(rank);
            let subject = Subject { name: &name, host: self.host_of(rank), seen };
            out.push(Action::Print(report::survived(&subject, fault, others)));
        }
        if is_late {
            self.code.get_or_insert(code);
        }
        // Not only those that are connected: others may be about to connect.
        out.push(Action::Announce(rank));
    }

    /// Forgets jobs that are over and to which nobody is bound any more (rule 10), but for the first and those whose processes
    /// are missed.
    fn forget(&mut self, out: &mut Vec<Action>) {
        let bonds = &self.bonds;
        self.worlds.retain(|first, world| {
            let is_kept =
                *first == 0 || !world.is_over() || world.absent.is_some() || bonds.is_bound_to(*first);
            if !is_kept {
                out.push(Action::Forget(world.processes.clone()));
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests;
