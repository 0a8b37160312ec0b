//! The times of a job's start, phase by phase, by the launcher's clock (`--display times`).
//!
//! The phases follow each other, except that the segments of this host are made before the agents
//! start: so their sum is the time of the whole start. The last phase ends when every rank has
//! called MPI_Init, or has ended without. A rank does not report this call, so the launcher checks
//! the segments, and queries the agents, in growing intervals.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use oxmpi_sys::host;
use tracing::{Level, debug, enabled, info};

use super::Launch;
use super::launcher::Launcher;
use crate::hosts::branches::Branches;
use crate::job::MpiStage;

/// The interval of checks for calls of MPI_Init is this part of the time since the ranks' start,
/// within these limits: so the last row is at most a sixteenth too long.
const INTERVAL_PART: u32 = 16;
const INTERVALS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));

/// The resolution of the hosts' names, before the launcher begins.
#[derive(Clone, Debug)]
pub struct Resolving {
    /// The start of `mpirun`.
    pub began: Instant,
    /// The name that has taken longest, if a resolver was needed.
    pub slowest: Option<(String, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartPhase {
    /// The command line is read, and the hosts are known.
    Resolve,
    /// The agents on other hosts have greeted.
    Agents,
    /// The segments and sockets of all ranks are made.
    Segments,
    /// All ranks run.
    Exec,
    /// All ranks have called MPI_Init.
    FirstContact,
}

#[derive(Debug, Default)]
struct PhaseRow {
    time: Duration,
    slowest: Option<(Duration, String)>,
}

impl PhaseRow {
    fn note(&mut self, host: &str, time: Duration) {
        if self.slowest.as_ref().is_none_or(|(slowest, _)| *slowest < time) {
            self.slowest = Some((time, host.into()));
        }
    }
}

#[derive(Debug)]
pub(crate) struct StartTimes {
    /// The end of the last measured part.
    mark: Instant,
    rows: [PhaseRow; 5],
    names_hosts: bool,
}

impl StartTimes {
    /// Ends the first phase.
    pub(crate) fn begin(launch: &Launch) -> StartTimes {
        let mark = Instant::now();
        let mut rows: [PhaseRow; 5] = Default::default();
        if let Some(Resolving { began, slowest }) = &launch.times {
            let row = &mut rows[StartPhase::Resolve as usize];
            row.time = mark.duration_since(*began);
            slowest.iter().for_each(|(host, time)| row.note(host, *time));
        }
        let names_hosts = launch.spread.as_ref().is_some_and(|spread| spread.hosts.len() > 1);
        StartTimes { mark, rows, names_hosts }
    }

    /// Adds the time since the last call to a phase; returns it.
    fn add(&mut self, phase: StartPhase) -> Duration {
        let now = Instant::now();
        let time = now.duration_since(self.mark);
        self.mark = now;
        self.rows[phase as usize].time += time;
        time
    }

    /// Adds the time since the last call to a phase, in which this host has worked for its ranks.
    pub(crate) fn add_own(&mut self, phase: StartPhase, has_ranks: bool) {
        let time = self.add(phase);
        if has_ranks {
            self.rows[phase as usize].note(&host::name(), time);
        }
    }

    /// The same for a phase in which the agents have worked.
    pub(crate) fn add_far(&mut self, phase: StartPhase, branches: &Branches) {
        self.add(phase);
        branches.slowest().for_each(|(took, host)| self.rows[phase as usize].note(host, *took));
    }

    fn table(&self, ranks: usize) -> String {
        let seconds = |time: Duration| format!("{:9.6}", time.as_secs_f64());
        let sum = self.rows.iter().map(|row| row.time).sum::<Duration>().as_secs_f64();
        let mut text = format!("mpirun: the start of {ranks} ranks has taken {sum:.6} s\n");
        let slowest = if self.names_hosts { "  slowest host" } else { "" };
        let _ = writeln!(text, "  phase           seconds{slowest}");
        let names = ["resolve", "agents", "segments", "exec", "first contact"];
        for (name, row) in names.into_iter().zip(&self.rows) {
            let slowest = match &row.slowest {
                _ if !self.names_hosts => String::new(),
                Some((time, host)) => format!("  {host} ({})", seconds(*time).trim()),
                None => "  -".into(),
            };
            let _ = writeln!(text, "  {name:13} {}{slowest}", seconds(row.time));
        }
        text
    }
}

/// The ranks of the first job that have not called MPI_Init yet.
#[derive(Debug)]
pub(super) struct FirstContacts {
    times: StartTimes,
    ranks: usize,
    awaited: BTreeSet<u32>,
    began: Instant,
    next: Instant,
}

impl FirstContacts {
    /// Of ranks that have just been started. `None` if neither the table nor events are wanted.
    pub(super) fn of(launch: &Launch, times: StartTimes, ranks: u32) -> Option<FirstContacts> {
        let began = times.mark;
        let is_wanted = launch.times.is_some() || enabled!(Level::DEBUG);
        let awaited = (0..ranks).collect();
        is_wanted.then_some(FirstContacts {
            times,
            ranks: ranks as usize,
            awaited,
            began,
            next: began,
        })
    }

    /// The time of the next check.
    pub(super) fn time(&self) -> Instant {
        self.next
    }

    /// The ranks to check; none before the next check.
    fn due(&mut self, now: Instant) -> Vec<u32> {
        if self.next > now {
            return Vec::new();
        }
        let (least, most) = INTERVALS;
        self.next = now + ((now - self.began) / INTERVAL_PART).clamp(least, most);
        self.awaited.iter().copied().collect()
    }

    /// A rank has called MPI_Init on a host.
    fn note(&mut self, rank: u32, host: &str) {
        self.times.add(StartPhase::FirstContact);
        let after = self.began.elapsed();
        debug!(rank, host, ?after, "a rank has called MPI_Init");
        self.times.rows[StartPhase::FirstContact as usize].note(host, after);
    }
}

impl Launcher<'_> {
    /// Checks which ranks have called MPI_Init, if that is due.
    pub(super) fn check_contacts(&mut self, now: Instant) {
        let awaited = self.contacts.as_mut().map(|contacts| contacts.due(now)).unwrap_or_default();
        if awaited.iter().any(|rank| self.members.is_far(*rank))
            && self.branches.are_queries_answered()
        {
            self.branches.query();
        }
        for rank in awaited {
            let stage = self.glimpse(rank).stage;
            self.note_contact(rank, stage, false);
        }
    }

    /// Notes the stage of a rank, and whether the rank has ended.
    pub(super) fn note_contact(&mut self, rank: u32, stage: MpiStage, has_ended: bool) {
        let Some(contacts) = &mut self.contacts else { return };
        let has_called = stage != MpiStage::Untouched;
        if !(has_called || has_ended) || !contacts.awaited.remove(&rank) {
            return;
        }
        if has_called {
            let host = self.launch.spread.as_ref().and_then(|spread| spread.host(rank));
            let host = host.map_or_else(host::name, |host| host.name.clone());
            contacts.note(rank, &host);
        }
        if contacts.awaited.is_empty() {
            self.end_contacts();
        }
    }

    /// Prints the table of the start, once.
    pub(super) fn end_contacts(&mut self) {
        let Some(FirstContacts { times, ranks, .. }) = self.contacts.take() else { return };
        info!(ranks, "all ranks have called MPI_Init, or have ended");
        if self.launch.times.is_some() {
            self.print(&times.table(ranks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(names_hosts: bool) -> StartTimes {
        let row = |ms, slowest: &[(&str, u64)]| {
            let mut row = PhaseRow { time: Duration::from_millis(ms), slowest: None };
            slowest.iter().for_each(|(host, ms)| row.note(host, Duration::from_millis(*ms)));
            row
        };
        let rows = [
            row(12, &[]),
            row(800, &[("nodea", 300), ("nodeb", 790)]),
            row(4, &[("head", 3), ("nodeb", 1)]),
            row(20, &[("nodea", 18), ("nodeb", 18)]),
            row(12_300, &[("nodea", 1), ("nodeb", 12_300)]),
        ];
        StartTimes { mark: Instant::now(), rows, names_hosts }
    }

    #[test]
    fn the_table_names_the_slowest_host_of_each_phase() {
        assert_eq!(
            times(true).table(4),
            "mpirun: the start of 4 ranks has taken 13.136000 s\n\
             \x20 phase           seconds  slowest host\n\
             \x20 resolve        0.012000  -\n\
             \x20 agents         0.800000  nodeb (0.790000)\n\
             \x20 segments       0.004000  head (0.003000)\n\
             \x20 exec           0.020000  nodea (0.018000)\n\
             \x20 first contact 12.300000  nodeb (12.300000)\n"
        );
    }

    #[test]
    fn the_table_of_one_host_names_none() {
        let table = times(false).table(1);
        assert!(table.lines().count() == 7 && !table.contains("node"), "{table}");
        assert_eq!(table.lines().nth(3), Some("  agents         0.800000"));
    }

    #[test]
    fn times_are_added_to_their_phases_and_leave_nothing_out() {
        let mut times = times(true);
        times.rows = Default::default();
        let began = times.mark;
        times.add_own(StartPhase::Segments, false);
        times.add_far(StartPhase::Agents, &Branches::default());
        times.add_own(StartPhase::Segments, true);
        let sum: Duration = times.rows.iter().map(|row| row.time).sum();
        assert_eq!(sum, times.mark.duration_since(began));
        assert!(times.rows[StartPhase::Agents as usize].slowest.is_none());
        let (slowest, host) = times.rows[StartPhase::Segments as usize].slowest.as_ref().unwrap();
        assert!(*slowest <= times.rows[2].time && *host == host::name());
    }
}
