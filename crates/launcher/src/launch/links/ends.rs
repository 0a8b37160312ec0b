//! The ends of processes, connections and launchers: their reports and consequences.
//!
//! A launcher reports the end of each of its processes, and at last that all have ended. A launcher
//! that disappears without that report was killed, with its processes.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::super::launcher::Launcher;
use super::super::output::is_ready;
use super::{LauncherConnection, Links};
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

impl Links {
    /// Reports the end of one of our processes to all others.
    pub(in super::super) fn report_end(&mut self, number: u32, is_well: bool) {
        self.asking.forget_asker(number);
        if !is_well {
            self.unwell.insert(number);
        }
        self.send_to_all(&LinkMessage::Exited { number, is_well });
    }

    /// Reports the failure of jobs to all others.
    pub(in super::super) fn report_failure(&mut self, firsts: &[u32], code: i32, text: &str) {
        for first in firsts.iter().copied() {
            self.send_to_all(&LinkMessage::Ending { first, code, text: text.to_string() });
        }
    }

    /// Sends the last messages to all others if they read them, and closes all connections. On each
    /// connection the report that all our processes have ended comes before its end.
    pub(in super::super) fn part(&mut self) {
        let limit = Instant::now() + PATIENCE;
        for mut connection in std::mem::take(self).connections.into_values() {
            if let (Some(_), Some(bytes)) = (connection.universe, LinkMessage::Farewell.encode()) {
                connection.queue.push_back((bytes, None));
                connection.flush();
            }
            while !connection.queue.is_empty()
                && !is_ready(&connection.socket, PollFlags::ERR)
                && Instant::now() < limit
            {
                std::thread::sleep(Duration::from_millis(1));
                connection.flush();
            }
        }
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
                .for_each(|(bytes, fd)| self.links.post_to(universe, Some(bytes), fd));
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

    /// Reports which processes of our job have ended, to a launcher that has just numbered the job.
    pub(super) fn report_ended(&mut self, universe: u64, first: u32, size: u32) {
        for number in first..first.saturating_add(size).min(self.job.next()) {
            if !self.job.runs(number) && !self.links.is_other(number) {
                let is_well = !self.links.unwell.contains(&number);
                self.links.post_to(
                    universe,
                    LinkMessage::Exited { number, is_well }.encode(),
                    None,
                );
            }
        }
    }
}
