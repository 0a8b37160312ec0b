//! The decisions of `mpirun`: the life of a job as a state machine.
//!
//! [`Jobs::on`] takes an event and returns the actions. It makes no system call and reads no clock,
//! so that every rule below is tested without a process.
//!
//! The launcher has one job at first. Its processes may spawn others (MPI-5.0 chapter 11); each
//! spawn is a job with its own world. Processes are numbered through all jobs. Two jobs are
//! *connected* while a process of one has a communicator with a process of the other, directly or
//! through further jobs (MPI-5.0 section 11.10.4); module `bonds` tracks that.
//!
//! 1. A rank that dies by a signal, exits with a status other than 0, or exits with 0 between
//!    MPI_Init and MPI_Finalize fails its job and all connected jobs: one report is printed, and
//!    the other ranks get SIGTERM, later SIGKILL. Jobs that are not connected continue.
//! 2. A rank that exits with 0 without MPI_Init fails its job as soon as a connected rank is seen
//!    to have called MPI_Init. Programs that never use MPI just run.
//! 3. A rank that exits with a status other than 0 after MPI_Finalize is reported. Peers that have
//!    called MPI_Finalize, or do so within a second, run to their end. If others are seen that have
//!    not, all are ended, as they may wait for the rank in vain, also if the rank's own job is
//!    over. Time in which a host is silent does not count: only checks that all hosts have answered
//!    count. A process that has left the World Model and holds a session has not finalized MPI.
//!    Without mpi_abort_on_non_zero_status no rank is ended for this, and a rank that exits with
//!    such a status without MPI_Init fails its job by rule 2 only. To other launchers such a rank
//!    has ended well, unless rule 8 holds: their processes that wait for it wait on, unless a
//!    connected process of this launcher waits for it.
//! 4. MPI_Abort ends the job and the connected jobs with its code. The first failure counts; its
//!    consequences are not reported.
//! 5. SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded to the ranks, which are killed if they
//!    still run after a grace period; a second signal kills at once.
//! 6. The exit status is that of the first failure: the rank's status, or 128 + the signal's
//!    number; 124 for a timeout; 1 where the rank itself exited with 0.
//! 7. The launcher of a singleton has not started process 0 and cannot know its exit status. If
//!    process 0 ends without MPI_Finalize, all jobs are ended.
//! 8. If jobs survive failures (parameter mpi_ft_enable), rule 1 does not hold for a rank that has
//!    called MPI_Init, nor does rule 3: a note is printed, all other processes get a failure
//!    notice, and they continue. The exit status is 0 if some rank came to the end of MPI_Finalize
//!    and exited with 0, and nothing else failed; otherwise rule 6 holds.
//! 9. Jobs of other launchers that communicate with this launcher's are jobs here too. Their own
//!    launcher decides when they fail, by its rules, and reports it; that ends the connected jobs
//!    here. If a launcher disappears, all its processes whose end it has not reported are gone too.
//!    Failures of this launcher's jobs are reported to the other launchers likewise.
//! 10. A job that is over and to which no process is bound is forgotten.
//! 11. A hang that a watchdog reports (parameters mpi_watchdog, mpi_watch_ended) ends all jobs as a
//!     timeout does, if mpi_watchdog_abort is set.
//! 12. The end of a daemon that carries the messages ends all jobs, also where rule 8 holds.
//! 13. When the agent of another host is lost, the processes there have failed: one report for all,
//!     and the connected jobs fail; or the processes are survived if rule 8 holds.
//! 14. When the reader of the launcher's output is gone, all jobs are ended without a message, as
//!     SIGPIPE ends a program that writes there itself.
//! 15. Another launcher that has started the processes ends them itself when one has failed, and
//!     exits with the code of the failed one. This launcher signals them only if they still run
//!     after [`YIELD_GRACE`].

mod bonds;
mod ending;
mod event;
mod missed;
mod others;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use self::bonds::Bonds;
pub use self::event::{Action, Glimpse, JobEvent};
use self::missed::Leaver;
use crate::report::{self, Fault, Subject};
pub use oxmpi_rt_proto::process::{Exit, MpiStage};

/// Between SIGTERM and SIGKILL when another rank failed.
pub const FAILURE_GRACE: Duration = Duration::from_millis(400);
/// The time for another launcher to end its processes when one of them has failed, before this
/// launcher does: the other one then exits with the code of the failed one.
pub const YIELD_GRACE: Duration = Duration::from_secs(1);
/// Between the user's signal and SIGKILL.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);
/// The interval of [`JobEvent::Seen`] while [`Jobs::watches`].
pub const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// As timeout(1).
pub const TIMEOUT_CODE: i32 = 124;

/// The most different warnings that a job prints: a limit against a rank with ever new ones.
const MAX_SAID: usize = 1000;

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGPIPE: i32 = 13;
const SIGTERM: i32 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndPhase {
    Running,
    /// A failure was reported or the user has ended the job; SIGKILL follows.
    Ending,
    Killed,
}

#[derive(Debug)]
struct JobState {
    processes: Range<u32>,
    /// The job's number in this launcher, if it is this launcher's; the first is 0.
    number: usize,
    /// The job's name, if it is another launcher's.
    other: Option<String>,
    phase: EndPhase,
    /// The first process that exited with 0 without MPI_Init, and its header page.
    absent: Option<(u32, Glimpse)>,
    /// Whether the job is in a later generation (see [`oxmpi_rt_client::generation`]).
    is_renewed: bool,
    /// The first process that exited with another status after MPI_Finalize, if that may fail the
    /// job.
    leaver: Option<Leaver>,
    running: Vec<bool>,
    /// The number of running processes; at 0 the job is over.
    left: u32,
}

impl JobState {
    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn running(&self) -> impl Iterator<Item = u32> {
        self.processes
            .clone()
            .zip(&self.running)
            .filter(|(_, runs)| **runs)
            .map(|(process, _)| process)
    }
}

/// All jobs of one launcher.
#[derive(Debug)]
pub struct Jobs {
    host: String,
    /// The hosts of the first job's processes, if they are not all on `host`.
    hosts: BTreeMap<u32, String>,
    /// By the numbers of their first processes: jobs of this launcher and of others.
    worlds: BTreeMap<u32, JobState>,
    jobs: usize,
    next: u32,
    left: usize,
    /// The exit status of the first failure.
    code: Option<i32>,
    survives: bool,
    /// Whether a status other than 0 fails the job even where MPI is not in use.
    fails_by_codes: bool,
    /// The exit status of the first failed process that was survived.
    death_code: Option<i32>,
    /// Some process has called MPI_Finalize and exited with 0.
    has_finished: bool,
    /// Whether another launcher has started the processes of the first job.
    is_below_other: bool,
    /// The signal that ends processes, and the time until SIGKILL, if another launcher has not
    /// ended the processes before.
    postponed: Option<(i32, Duration)>,
    bonds: Bonds,
    said: HashSet<String>,
}

impl Jobs {
    /// A job of `ranks` ranks that have just been started on `host`.
    pub fn new(ranks: u32, host: &str) -> Jobs {
        let mut job = Jobs {
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
            is_below_other: false,
            postponed: None,
            bonds: Bonds::default(),
            said: HashSet::new(),
        };
        job.add(ranks, None);
        job
    }

    /// Sets whether processes survive each other's failures (rule 8).
    #[must_use]
    pub fn surviving(self, survives: bool) -> Jobs {
        Jobs { survives, ..self }
    }

    /// Sets whether another launcher has started the processes of the first job (rule 15).
    #[must_use]
    pub fn below_other(self, is_below_other: bool) -> Jobs {
        Jobs { is_below_other, ..self }
    }

    /// Sets the hosts of the first job's processes, one for each; empty: the launcher's.
    #[must_use]
    pub fn spread_over(self, hosts: Vec<String>) -> Jobs {
        Jobs { hosts: (0..).zip(hosts).collect(), ..self }
    }

    /// Sets the hosts of the processes that will be spawned next, one for each.
    pub fn place_next(&mut self, hosts: Vec<String>) {
        self.hosts.extend((self.next..).zip(hosts));
    }

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
        let world = JobState {
            processes,
            number,
            other,
            phase: EndPhase::Running,
            absent: None,
            is_renewed: false,
            leaver: None,
            running,
            left: ranks,
        };
        self.worlds.insert(world.processes.start, world);
    }

    /// The number of the next process.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Whether all jobs of this launcher have failed or are being ended.
    pub fn is_ending(&self) -> bool {
        self.in_phase(EndPhase::Running).is_empty()
    }

    /// Whether no other job is tracked.
    pub fn is_only(&self, first: u32) -> bool {
        self.worlds.keys().all(|other| *other == first)
    }

    /// Begins a new generation of a job: its ranks are other processes (see
    /// [`oxmpi_rt_client::generation`]).
    pub fn renew(&mut self, first: u32) {
        let Some(world) = self.worlds.get_mut(&first) else { return };
        (world.absent, world.leaver, world.is_renewed) = (None, None, true);
        for process in world.processes.clone() {
            self.bonds.forget_process(process);
        }
    }

    /// Skips numbers of processes that were not started.
    pub fn skip(&mut self, ranks: u32) {
        self.next = self.next.saturating_add(ranks);
    }

    /// The name of a process in reports.
    pub fn name(&self, rank: u32) -> String {
        match self.world(rank) {
            Some(_) => {
                let (rank, job) = self.place(rank);
                format!("rank {rank}{job}")
            }
            None => format!("process {rank}, of a job that is over,"),
        }
    }

    /// A process's rank, and a suffix for jobs other than the first: " of spawned job 1".
    pub fn place(&self, number: u32) -> (u32, String) {
        match self.world(number) {
            Some(JobState { other: Some(job), processes, .. }) => {
                (number - processes.start, format!(" of {job}"))
            }
            Some(JobState { number: job @ 1.., processes, .. }) => {
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

    /// The jobs in this communicator of a process, by the numbers of their first processes.
    pub fn bound_by(&self, rank: u32, bond: u64) -> &[u32] {
        self.bonds.of(rank, bond)
    }

    /// The first process of a process's job; `None` if the job is forgotten (rule 10).
    pub fn first_of(&self, rank: u32) -> Option<u32> {
        self.world(rank).map(|world| world.processes.start)
    }

    /// The size of a process's job.
    pub fn size_of(&self, rank: u32) -> Option<u32> {
        self.world(rank).map(|world| world.running.len() as u32)
    }

    /// The number of a process's job in this launcher, from 0.
    pub fn number_of(&self, rank: u32) -> usize {
        self.world(rank).map_or(0, |world| world.number)
    }

    /// The number of jobs so far.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// Whether a process runs, as far as known.
    pub fn runs(&self, rank: u32) -> bool {
        let place = |world: &JobState| (rank - world.processes.start) as usize;
        self.world(rank).is_some_and(|world| world.running.get(place(world)) == Some(&true))
    }

    fn world(&self, rank: u32) -> Option<&JobState> {
        let (_, world) = self.worlds.range(..=rank).next_back()?;
        world.processes.contains(&rank).then_some(world)
    }

    fn world_mut(&mut self, rank: u32) -> Option<&mut JobState> {
        let (_, world) = self.worlds.range_mut(..=rank).next_back()?;
        world.processes.contains(&rank).then_some(world)
    }

    /// Whether a job of this launcher runs that is not being ended.
    pub fn is_running(&self) -> bool {
        self.left > 0 && !self.in_phase(EndPhase::Running).is_empty()
    }

    /// Whether other launchers need not react to a process that has ended in this stage.
    pub fn ends_well(&self, exit: Exit, stage: MpiStage) -> bool {
        match stage {
            // If the process is not survived, other launchers get a message of their own (rules 1
            // and 3).
            MpiStage::Finalized => {
                !self.survives || matches!(exit, Exit::Code(0) | Exit::Unknown | Exit::Unseen)
            }
            MpiStage::Untouched => exit == Exit::Code(0),
            MpiStage::Initialized | MpiStage::Finalizing => false,
        }
    }

    /// Handles an event and returns the actions, in order.
    pub fn on(&mut self, event: JobEvent) -> Vec<Action> {
        let mut out = Vec::new();
        if self.left == 0 && !matches!(event, JobEvent::Say { .. }) {
            return out; // Finish was returned already
        }
        match event {
            JobEvent::Exited { rank, exit, seen } => self.exited(rank, exit, &seen, &mut out),
            JobEvent::Abort { rank, code, text, seen } => {
                self.aborted(rank, code, &text, &seen, &mut out)
            }
            JobEvent::Spawned { ranks, parents, bond } => self.spawned(ranks, &parents, bond),
            JobEvent::Bound { rank, bond, members } => self.bind(rank, bond, &members),
            JobEvent::Released { rank, bond } => {
                self.bonds.release(rank, bond);
                self.forget(&mut out);
            }
            JobEvent::Met { ranks, name } => self.add(ranks, Some(name)),
            JobEvent::OtherExited { rank, is_well } => self.other_exited(rank, is_well, &mut out),
            JobEvent::OtherFailed { first, code, text } => {
                self.other_failed(&[first], code, &text, &mut out)
            }
            JobEvent::OtherGone { firsts, text } => self.other_gone(&firsts, &text, &mut out),
            JobEvent::DaemonEnded { node, pid, host, exit, why } => {
                self.daemon_ended((node, pid, host.as_deref()), exit, why.as_deref(), &mut out);
            }
            JobEvent::HostLost { host, ranks, text } => {
                self.host_lost(&host, &ranks, &text, &mut out)
            }
            JobEvent::Say { text } => {
                if self.said.len() < MAX_SAID && self.said.insert(text.clone()) {
                    out.push(Action::Print(format!("mpirun: {}\n", text.trim_end())));
                }
            }
            JobEvent::Seen { all, is_new } => self.check(&all, is_new, &mut out),
            JobEvent::TimedOut { time, seen, waits } => {
                self.timed_out(time, (seen, &waits), &mut out)
            }
            JobEvent::Hung { text } => self.hung(text, &mut out),
            JobEvent::Unread => self.unread(&mut out),
            JobEvent::Signal(signal) => self.signalled(signal, &mut out),
            JobEvent::GraceOver => self.grace_over(&mut out),
        }
        out
    }

    fn spawned(&mut self, ranks: u32, parents: &[u32], bond: u64) {
        let first = self.next;
        self.add(ranks, None);
        let all: Vec<u32> = parents.iter().copied().chain(first..first + ranks).collect();
        // The bonds of another launcher's processes are reported by that launcher.
        let own = |rank: &&u32| self.world(**rank).is_some_and(|world| world.other.is_none());
        let own: Vec<u32> = all.iter().filter(own).copied().collect();
        own.into_iter().for_each(|rank| self.bind(rank, bond, &all));
    }

    fn bind(&mut self, rank: u32, bond: u64, members: &[u32]) {
        let mut worlds: Vec<u32> =
            members.iter().filter_map(|member| self.first_of(*member)).collect();
        worlds.sort_unstable();
        worlds.dedup();
        self.bonds.bind(rank, bond, worlds);
    }

    fn connected(&self, rank: u32) -> Vec<u32> {
        let Some(first) = self.first_of(rank) else { return Vec::new() };
        // An ended process connects nobody, but a process that should have called MPI_Init is
        // missed.
        let lives = |first: u32| {
            self.worlds.get(&first).is_some_and(|w| !w.is_over() || w.absent.is_some())
        };
        let mut worlds = self.bonds.connected(first, |process| self.first_of(process), lives);
        worlds.sort_unstable();
        worlds
    }

    fn running_in(&self, worlds: &[u32]) -> Vec<u32> {
        let worlds = worlds.iter().filter_map(|first| self.worlds.get(first));
        worlds.filter(|world| world.other.is_none()).flat_map(JobState::running).collect()
    }

    fn in_phase(&self, phase: EndPhase) -> Vec<u32> {
        let all =
            self.worlds.iter().filter(|(_, world)| world.other.is_none() && world.phase == phase);
        all.map(|(first, _)| *first).collect()
    }

    /// Notes the end of a process; returns whether the process ran.
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
        self.has_finished |=
            matches!(exit, Exit::Code(0) | Exit::Unseen) && seen.stage == MpiStage::Finalized;
        if self.world(rank).is_some_and(|world| world.phase == EndPhase::Running) {
            // A process that dies in MPI_Finalize has not finished it.
            let stage = if seen.stage.is_inside() { MpiStage::Initialized } else { seen.stage };
            match (exit, stage) {
                (Exit::Code(0) | Exit::Unknown | Exit::Unseen, MpiStage::Finalized) => {}
                (Exit::Unseen, _) if self.survives => {
                    self.survive(rank, &Fault::Unseen, 1, seen, out);
                }
                (Exit::Unseen, _) => self.fail(rank, &Fault::Unseen, 1, seen, out),
                (Exit::Code(0), MpiStage::Initialized) if self.survives => {
                    self.survive(rank, &Fault::NoFinalize, 1, seen, out);
                }
                (Exit::Code(code), MpiStage::Initialized | MpiStage::Finalized)
                    if self.survives =>
                {
                    self.survive(rank, &Fault::Code(code), code, seen, out);
                }
                (Exit::Signal(signal), MpiStage::Initialized | MpiStage::Finalized)
                    if self.survives =>
                {
                    self.survive(rank, &Fault::Killed(signal), report::shell_code(exit), seen, out);
                }
                (Exit::Unknown, _) => {
                    let all = self.in_phase(EndPhase::Running);
                    self.fail_all(rank, &Fault::Gone, 1, seen, &all, out);
                }
                (Exit::Code(0), MpiStage::Untouched) => {
                    if let Some(world) = self.world_mut(rank) {
                        world.absent.get_or_insert_with(|| (rank, seen.clone()));
                    }
                }
                (Exit::Code(0), MpiStage::Initialized) => {
                    self.fail(rank, &Fault::NoFinalize, 1, seen, out)
                }
                (Exit::Code(code), MpiStage::Finalized) => self.note_code(rank, code, seen, out),
                (Exit::Code(code), MpiStage::Untouched) if !self.fails_by_codes => {
                    self.note_code(rank, code, seen, out);
                }
                (Exit::Code(code), _) => self.fail(rank, &Fault::Code(code), code, seen, out),
                (Exit::Signal(signal), _) => {
                    self.fail(rank, &Fault::Killed(signal), report::shell_code(exit), seen, out);
                }
            }
        }
        self.bonds.forget_process(rank);
        if let Some(JobState { left: 0, number: 1.., processes, .. }) = self.world(rank) {
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

    /// All jobs connected with processes of a lost host fail, or survive (rule 8).
    fn host_lost(&mut self, host: &str, ranks: &[u32], text: &str, out: &mut Vec<Action>) {
        let was_running =
            |rank: &u32| self.world(*rank).is_some_and(|world| world.phase == EndPhase::Running);
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

    fn survive(
        &mut self,
        rank: u32,
        fault: &Fault,
        code: i32,
        seen: &Glimpse,
        out: &mut Vec<Action>,
    ) {
        self.death_code.get_or_insert(code);
        let is_late = seen.stage == MpiStage::Finalized;
        // A rank that exits with a status of its own at the end of the job is reported once.
        if !(is_late && self.code.is_some() && matches!(fault, Fault::Code(_))) {
            let others = self.running_in(&self.connected(rank)).len();
            let name = self.name(rank);
            let subject = Subject { name: &name, host: self.host_of(rank), seen };
            out.push(Action::Print(report::survived(&subject, fault, others)));
        }
        if is_late {
            self.code.get_or_insert(code);
        }
        // Not only the connected processes: others may be about to connect.
        out.push(Action::Announce(rank));
    }

    /// Forgets jobs that are over and to which no process is bound (rule 10), except the first and
    /// those with missed processes.
    fn forget(&mut self, out: &mut Vec<Action>) {
        let bonds = &self.bonds;
        self.worlds.retain(|first, world| {
            let is_kept = *first == 0
                || !world.is_over()
                || world.absent.is_some()
                || bonds.is_bound_to(*first);
            if !is_kept {
                out.push(Action::Forget(world.processes.clone()));
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests;
