//! The ends of processes, connections and launchers: their reports and consequences.
//!
//! A launcher reports the end of each of its processes, and at last that all have ended. A launcher
//! that disappears without that report was killed, with its processes.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::super::launcher::Launcher;
use super::super::output::is_ready;
use super::LauncherConnection;
use crate::job::JobEvent;
use oxmpi_rt_proto::link::LinkMessage;

/// How long a launcher that ends waits for others to read its last messages.
const PATIENCE: Duration = Duration::from_millis(500);
const HAS_ENDED: &str = "has ended";

impl LauncherConnection {
    /// The universe at the other end, known or wanted.
    fn leads_to(&self) -> Option<u64> {
        self.universe.or(self.wanted.filter(|wanted| *wanted != 0))
    }
}

impl Launcher<'_> {
    /// Ends a connection. The launcher there is gone if no other connection leads to it.
    pub(super) fn end(&mut self, number: u32) {
        let Some((connection, universe)) = self.close_connection(number, HAS_ENDED) else { return };
        let all = &self.links.connections;
        if !all.values().any(|other| other.leads_to() == Some(universe)) {
            return self.lose_other(universe, connection.peer.pid, HAS_ENDED);
        }
        let is_next =
            |other: &LauncherConnection| other.universe == Some(universe) && !other.is_closing;
        let next = all.iter().find(|(_, other)| is_next(other)).map(|(next, _)| *next);
        if let Some(other) = self.links.others.get_mut(&universe)
            && other.connection == Some(number)
        {
            other.connection = next;
            connection
                .queue
                .into_iter()
                .for_each(|(bytes, fd)| self.post_to(universe, Some(bytes), fd));
        }
    }

    /// Closes a faulty connection, and loses its launcher if messages use this connection.
    pub(super) fn lose(&mut self, number: u32, why: &str) {
        let Some((connection, universe)) = self.close_connection(number, why) else { return };
        let used = self.links.others.get(&universe).and_then(|other| other.connection);
        if used.is_none_or(|used| used == number) {
            self.lose_other(universe, connection.peer.pid, why);
        }
    }

    /// Closes a connection, and refuses a lookup on it; otherwise returns it with its universe.
    fn close_connection(&mut self, number: u32, why: &str) -> Option<(LauncherConnection, u64)> {
        let mut connection = self.links.connections.remove(&number)?;
        if let Some((asker, service)) = connection.search.take() {
            self.conclude(asker, Err(format!("nothing is published as '{service}': {why}")));
            return None;
        }
        let universe = connection.leads_to()?;
        Some((connection, universe))
    }

    fn lose_other(&mut self, universe: u64, pid: i32, why: &str) {
        let Some(other) = self.links.others.remove(&universe) else { return };
        self.links.connections.retain(|_, connection| connection.universe != Some(universe));
        self.give_up_questions(universe, why);
        self.decide();
        let of_it = self.links.jobs.iter().filter(|(_, job)| job.universe == universe);
        let jobs: Vec<(u32, u32)> = of_it.map(|(first, job)| (*first, job.size)).collect();
        for rank in jobs.iter().flat_map(|(first, size)| *first..first + size) {
            self.ports.ended(rank);
            if other.has_parted {
                self.handle_in_order(JobEvent::OtherExited { rank, is_well: true });
            }
        }
        let text = if why == HAS_ENDED {
            format!(
                "mpirun {pid} {why} before its processes, and they with it; it may have been killed (SIGKILL)"
            )
        } else {
            format!("mpirun {pid}: {why}; nothing is known of its processes any more")
        };
        let firsts = jobs.into_iter().map(|(first, _)| first).collect();
        self.handle_in_order(JobEvent::OtherGone { firsts, text });
    }

    pub(in super::super) fn report_end_to_others(&mut self, number: u32, is_well: bool) {
        self.links.asking.forget_asker(number);
        if !is_well {
            self.links.unwell.insert(number);
        }
        self.send_to_others(&LinkMessage::Exited { number, is_well });
    }

    /// Reports which processes of our job have ended, to a launcher that has just numbered the job.
    pub(super) fn report_ended(&mut self, universe: u64, first: u32, size: u32) {
        for number in first..first.saturating_add(size).min(self.job.next()) {
            if !self.job.runs(number) && !self.links.is_other(number) {
                let is_well = !self.links.unwell.contains(&number);
                self.post_to(universe, LinkMessage::Exited { number, is_well }.encode(), None);
            }
        }
    }

    pub(in super::super) fn report_failure_to_others(
        &mut self,
        firsts: &[u32],
        code: i32,
        text: &str,
    ) {
        for first in firsts {
            self.send_to_others(&LinkMessage::Ending {
                first: *first,
                code,
                text: text.to_string(),
            });
        }
    }

    fn send_to_others(&mut self, message: &LinkMessage) {
        let all: Vec<u64> = self.links.others.keys().copied().collect();
        all.into_iter().for_each(|universe| self.post_to(universe, message.encode(), None));
    }

    /// Sends the last messages to all others if they read them, and closes all connections. On each
    /// connection the report that all our processes have ended comes before its end.
    pub(in super::super) fn part_with_others(&mut self) {
        let limit = Instant::now() + PATIENCE;
        let all: Vec<u32> = self.links.connections.keys().copied().collect();
        for number in all {
            if self
                .links
                .connections
                .get(&number)
                .is_some_and(|connection| connection.universe.is_some())
            {
                self.post(number, LinkMessage::Farewell.encode(), None);
            }
            while let Some(connection) = self.links.connections.get(&number)
                && !connection.queue.is_empty()
                && !is_ready(&connection.socket, PollFlags::ERR)
                && Instant::now() < limit
            {
                std::thread::sleep(Duration::from_millis(1));
                self.flush(number);
            }
        }
        self.links = super::Links::default();
    }
}
