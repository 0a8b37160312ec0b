//! Observing the ranks: the state report (SIGUSR1) and the watchdogs (parameters mpi_watchdog and
//! mpi_watch_ended).

use std::time::{Duration, Instant};

use oxmpi_param::Params;
use oxmpi_shm::segment::Segment;
use oxmpi_shm::wait_note::WaitNote;
use oxmpi_sys::clock;
use oxmpi_sys::process_stat::ProcessStat;

use super::launcher::{Launcher, call_name};
use super::start::RankProcess;
use crate::job::JobEvent;
use crate::state::{self, Doing, Sight};
use oxmpi_rt_client::waiting::LongWait;

/// The pause between a check that found a hang and the second check.
const SECOND_CHECK: Duration = Duration::from_millis(500);

/// The most lines about waits in the report on a timeout.
const MOST_LINES: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hang {
    LongWait,
    ForEnded,
}

impl Hang {
    /// Whether this hang has lasted for `limit`.
    fn is_in(self, sights: &[Sight], limit: Duration) -> bool {
        match self {
            Hang::LongWait => state::is_overdue(sights, limit, clock::now_ns()),
            Hang::ForEnded => state::waits_for_ended(sights, limit, clock::now_ns()),
        }
    }

    fn words(self, limit: Duration) -> String {
        let seconds = limit.as_secs();
        match self {
            Hang::LongWait => {
                format!(
                    "a rank has waited for {seconds} s, and nothing has come for it (mpi_watchdog)"
                )
            }
            Hang::ForEnded => {
                format!(
                    "a rank has waited for {seconds} s for one that has ended (mpi_watch_ended)"
                )
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Watchdog {
    hang: Hang,
    limit: Duration,
    ends_job: bool,
    next: Instant,
    was_overdue: bool,
    has_reported: bool,
}

impl Watchdog {
    pub(super) fn all(params: &Params) -> Vec<Watchdog> {
        let hangs =
            [(Hang::LongWait, params.mpi_watchdog()), (Hang::ForEnded, params.mpi_watch_ended())];
        let ends_job = params.mpi_watchdog_abort();
        hangs
            .into_iter()
            .filter_map(|(hang, seconds)| Watchdog::new(hang, seconds, ends_job))
            .collect()
    }

    /// A watchdog for hangs of `seconds`; none for 0.
    fn new(hang: Hang, seconds: u64, ends_job: bool) -> Option<Watchdog> {
        let limit = Duration::from_secs(seconds);
        let next = Instant::now() + limit;
        (seconds > 0).then_some(Watchdog {
            hang,
            limit,
            ends_job,
            next,
            was_overdue: false,
            has_reported: false,
        })
    }

    pub(super) fn time(&self) -> Instant {
        self.next
    }

    /// The interval of checks, short enough to report a hang soon.
    fn pause(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_millis(250), Duration::from_secs(5))
    }

    /// Notes the result of a check; returns whether to report. Only a hang that two checks find is
    /// reported: a single check may see a rank's wait before the peer has written the note about
    /// its own wait.
    fn sees(&mut self, overdue: bool, now: Instant) -> bool {
        let reports = overdue && self.was_overdue && !self.has_reported;
        self.next = now + if overdue && !self.was_overdue { SECOND_CHECK } else { self.pause() };
        self.was_overdue = overdue;
        // Later arrivals do not end a wait for an ended rank.
        let lasts = overdue || self.hang == Hang::ForEnded;
        self.has_reported = reports || lasts && self.has_reported;
        reports
    }
}

impl Launcher<'_> {
    pub(super) fn report_state(&mut self) {
        let sights = self.sights();
        let head = "mpirun: what the ranks do (SIGUSR1):\n".to_string();
        let text = head + &self.lines(&sights) + &self.entrant_lines();
        self.print(&text);
    }

    pub(super) fn check_hangs(&mut self, now: Instant) {
        for at in 0..self.watchdogs.len() {
            if self.watchdogs[at].next <= now {
                self.check_hang(at, now);
            }
        }
    }

    fn check_hang(&mut self, at: usize, now: Instant) {
        let Watchdog { hang, limit, ends_job, .. } = self.watchdogs[at];
        // Usually no rank waits long: then the kernel is not queried about processes.
        let may_hang =
            self.job.is_running() && (self.has_wait_of(limit) || self.entrance.has_waited(limit));
        let sights = if may_hang { self.sights() } else { Vec::new() };
        let is_hung =
            hang.is_in(&sights, limit) || hang == Hang::LongWait && self.entrance.has_waited(limit);
        if !self.watchdogs[at].sees(is_hung, now) {
            return;
        }
        // A rank that waits for an ended one also waits long: one report names both.
        let is_reported =
            |(other, dog): (usize, &Watchdog)| other != at && dog.has_reported && dog.was_overdue;
        if self.watchdogs.iter().enumerate().any(is_reported) {
            return;
        }
        let goes_on = if ends_job { "" } else { "; the job goes on" };
        let text = format!(
            "mpirun: {}{goes_on}:\n{}",
            hang.words(limit),
            self.lines(&sights) + &self.entrant_lines()
        );
        if ends_job {
            self.handle_event(JobEvent::Hung { text });
        } else {
            self.print(&text);
        }
    }

    /// Whether a process of this host has waited for `limit`.
    fn has_wait_of(&self, limit: Duration) -> bool {
        let now_ns = clock::now_ns();
        self.host
            .ranks
            .processes()
            .any(|rank| waits_of(rank).any(|waiting| waiting.is_long(limit, now_ns)))
    }

    /// The state report in at most [`MOST_LINES`] lines; empty if no rank waits for long.
    pub(super) fn waits(&self) -> String {
        let sights = self.sights();
        let entrants = self.entrant_lines();
        if entrants.is_empty() && sights.iter().all(|sight| sight.waits.is_empty()) {
            return String::new();
        }
        let text = self.lines(&sights) + &entrants;
        let mut shown: String = text.split_inclusive('\n').take(MOST_LINES).collect();
        if let more @ 1.. = text.lines().count().saturating_sub(MOST_LINES) {
            shown += &format!("  and {more} lines more\n");
        }
        shown
    }

    fn lines(&self, sights: &[Sight]) -> String {
        state::lines(sights, self.job.host(), clock::now_ns(), &|number| self.job.place(number))
    }

    /// All processes that are not released. The state of processes on other hosts is the last
    /// reported one.
    fn sights(&self) -> Vec<Sight> {
        let held = self
            .members
            .iter()
            .filter(|(number, member)| self.rank(*number).is_some() || member.branch.is_some());
        held.map(|(number, member)| {
            let seen = self.glimpse(number);
            let Some(rank) = self.rank(number) else {
                let doing = if member.running { Doing::Unknown } else { Doing::Ended };
                return Sight { number, seen, doing, threads: 0, waits: Vec::new() };
            };
            let (doing, threads) = match member.running {
                true => doing(seen.pid, &rank.segment),
                false => (Doing::Ended, 0),
            };
            let name = |waiting: LongWait| {
                let call = call_name(waiting.call);
                (waiting, call)
            };
            let waits = waits_of(rank).map(name).collect();
            Sight { number, seen, doing, threads, waits }
        })
        .collect()
    }
}

/// The waits of a process, with starts on the launcher's clock.
fn waits_of(rank: &RankProcess) -> impl Iterator<Item = LongWait> + '_ {
    let notes = rank.segment.wait_notes().iter().filter_map(WaitNote::read);
    notes.filter_map(|note| LongWait::decode(&note)).map(|waiting| {
        let since_ns = waiting.since_ns.saturating_add_signed(rank.clock_ahead_ns);
        LongWait { since_ns, ..waiting }
    })
}

/// The kernel's state of a process that has not ended, and the number of its threads.
fn doing(pid: u32, segment: &Segment) -> (Doing, u32) {
    let Some(stat) = ProcessStat::of(pid) else { return (Doing::Unknown, 0) };
    let threads = stat.threads;
    let doing = match stat.state {
        'T' | 't' => Doing::Stopped,
        // The first thread may end before others.
        'Z' | 'X' if threads <= 1 => Doing::Ended,
        'S' | 'D' | 'I' if segment.door_word().has_sleepers() => Doing::SleepsInMpi,
        'S' | 'D' | 'I' => Doing::Sleeps,
        'R' => Doing::Runs,
        _ => Doing::Unknown,
    };
    (doing, threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_is_reported_once_and_only_when_it_was_seen_twice() {
        let mut dog = Watchdog::new(Hang::LongWait, 1, false).unwrap();
        let now = Instant::now();
        let checks = [true, false, true, true, true, false, true, true];
        let reports = checks.map(|overdue| dog.sees(overdue, now));
        assert_eq!(reports, [false, false, false, true, false, false, false, true]);
        let mut dog = Watchdog::new(Hang::ForEnded, 1, false).unwrap();
        let reports = checks.map(|overdue| dog.sees(overdue, now));
        assert_eq!(reports, [false, false, false, true, false, false, false, false]);
        assert!(Watchdog::new(Hang::ForEnded, 0, true).is_none());
    }
}
