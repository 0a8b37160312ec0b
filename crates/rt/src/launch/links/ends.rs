//! The ends of processes, of connections and of launchers: what is said of them, and what follows.
//!
//! A launcher says of each process that it has ended, and as its last word that all have. One that is gone without a word
//! was killed, and its processes with it.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::super::launcher::Launcher;
use super::super::output::is_ready;
use super::Connection;
use crate::job::Event;
use crate::link::Message;

/// How long a launcher that ends waits until the others have taken what it has to say.
const PATIENCE: Duration = Duration::from_millis(500);
/// What is said of a launcher whose connection has ended.
const HAS_ENDED: &str = "has ended";

impl Connection {
    /// Whom it leads to, or shall lead to.
    fn leads_to(&self) -> Option<u64> {
        self.universe.or(self.wanted.filter(|wanted| *wanted != 0))
    }
}

impl Launcher<'_> {
    /// The other end of a connection is closed. The launcher there is gone if there is no other connection with it.
    pub(super) fn end(&mut self, number: u32) {
        let Some((connection, universe)) = self.close_connection(number, HAS_ENDED) else { return };
        let all = &self.links.connections;
        if !all.values().any(|other| other.leads_to() == Some(universe)) {
            return self.lose_other(universe, connection.peer.pid, HAS_ENDED);
        }
        let is_next = |other: &Connection| other.universe == Some(universe) && !other.is_closing;
        let next = all.iter().find(|(_, other)| is_next(other)).map(|(next, _)| *next);
        if let Some(other) = self.links.others.get_mut(&universe)
            && other.connection == Some(number)
        {
            other.connection = next;
            connection.queue.into_iter().for_each(|(bytes, fd)| self.post_to(universe, Some(bytes), fd));
        }
    }

    /// A connection is of no use. Neither is the launcher there, unless it is written to over another one.
    pub(super) fn lose(&mut self, number: u32, why: &str) {
        let Some((connection, universe)) = self.close_connection(number, why) else { return };
        let way = self.links.others.get(&universe).and_then(|other| other.connection);
        if way.is_none_or(|way| way == number) {
            self.lose_other(universe, connection.peer.pid, why);
        }
    }

    /// Closes a connection, and says so to a process for which a name was to be looked up there. Returns whom it led to
    /// otherwise.
    fn close_connection(&mut self, number: u32, why: &str) -> Option<(Connection, u64)> {
        // Closing takes it out of the epoll set: nobody else has this end.
        let mut connection = self.links.connections.remove(&number)?;
        if let Some((asker, service)) = connection.search.take() {
            self.conclude(asker, Err(format!("nothing is published as '{service}': {why}")));
            return None;
        }
        let universe = connection.leads_to()?;
        Some((connection, universe))
    }

    /// Another launcher is gone.
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
                self.tell_in_turn(Event::OtherExited { rank, is_well: true });
            }
        }
        let text = if why == HAS_ENDED {
            format!(
                "mpirun {pid} {why} before its processes, and they with it; somebody may have killed it (SIGKILL)"
            )
        } else {
            format!("mpirun {pid}: {why}; nothing is known of its processes any more")
        };
        let firsts = jobs.into_iter().map(|(first, _)| first).collect();
        self.tell_in_turn(Event::OtherGone { firsts, text });
    }

    /// A process of ours has ended.
    pub(in super::super) fn tell_others_of_end(&mut self, number: u32, is_well: bool) {
        self.links.asking.forget_asker(number);
        if !is_well {
            self.links.unwell.insert(number);
        }
        self.tell_others(&Message::Exited { number, is_well });
    }

    /// Another launcher has heard of a job of ours only now: it gets to know who of it has ended before.
    pub(super) fn tell_who_has_ended(&mut self, universe: u64, first: u32, size: u32) {
        for number in first..first.saturating_add(size).min(self.job.next()) {
            if !self.job.runs(number) && !self.links.is_other(number) {
                let is_well = !self.links.unwell.contains(&number);
                self.post_to(universe, Message::Exited { number, is_well }.encode(), None);
            }
        }
    }

    /// Jobs of ours have failed.
    pub(in super::super) fn tell_others_of_failure(&mut self, firsts: &[u32], code: i32, text: &str) {
        for first in firsts {
            self.tell_others(&Message::Ending { first: *first, code, text: text.to_string() });
        }
    }

    fn tell_others(&mut self, message: &Message) {
        let all: Vec<u64> = self.links.others.keys().copied().collect();
        all.into_iter().for_each(|universe| self.post_to(universe, message.encode(), None));
    }

    /// We end: the others get what is to be said, if they take it, and do not reach us any more. Over whichever connection
    /// they notice it, they have read there that all our processes have ended.
    pub(in super::super) fn part_with_others(&mut self) {
        let limit = Instant::now() + PATIENCE;
        let all: Vec<u32> = self.links.connections.keys().copied().collect();
        for number in all {
            if self.links.connections.get(&number).is_some_and(|connection| connection.universe.is_some()) {
                self.post(number, Message::Farewell.encode(), None);
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
