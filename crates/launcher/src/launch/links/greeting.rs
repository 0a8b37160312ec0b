//! The greeting, in which a launcher identifies itself and states how its processes are reachable.

use super::super::abroad::Reach;
use super::super::launcher::Launcher;
use super::asking::Question;
use super::{Links, MAX_PLACE, Other};
use oxmpi_rt_client::control::Request;
use oxmpi_rt_client::universe::ProcessName;
use oxmpi_rt_proto::link::{Hello, LinkMessage};

impl Links {
    /// How our processes and a process of another launcher reach each other; `None` before its
    /// greeting, or for our own processes.
    pub(in super::super) fn reach_of(&self, number: u32) -> Option<Reach> {
        let (universe, _) = self.resident(number)?;
        self.others.get(&universe)?.reach
    }

    /// How our processes must be reachable for all others; `None` while greetings are missing.
    pub(in super::super) fn reach_of_all(&self) -> Option<Reach> {
        let all = self.others.values().map(|other| other.reach);
        all.collect::<Option<Vec<_>>>().map(|all| all.into_iter().max().unwrap_or(Reach::Memory))
    }

    /// Delays a process's answer until all greetings have come.
    pub(in super::super) fn wait_for_greetings(&mut self, rank: u32) {
        self.undecided.push(rank);
    }
}

impl Launcher<'_> {
    pub(super) fn own_hello(&self, wanted: u64, place: u32) -> Hello {
        let (is_near, is_spread) = (self.is_near(), self.is_spread());
        Hello {
            universe: self.boot.job_id,
            wanted,
            place,
            is_near,
            is_spread,
            secret: self.links.secret,
        }
    }

    /// How the processes of a launcher and ours reach each other.
    fn reach_with(&self, hello: &Hello) -> Reach {
        if self.is_near() && hello.is_near {
            Reach::Memory
        } else if self.is_spread() || hello.is_spread {
            Reach::Networks
        } else {
            Reach::Loopback
        }
    }

    pub(super) fn decide(&mut self) {
        if self.links.reach_of_all().is_some() {
            std::mem::take(&mut self.links.undecided)
                .into_iter()
                .for_each(|rank| self.give_abroad(rank));
        }
    }

    pub(super) fn meet_other(&mut self, number: u32, hello: Hello) {
        let Some(connection) = self.links.connections.get_mut(&number) else { return };
        let (peer, wanted, search) = (connection.peer, connection.wanted, connection.search.take());
        connection.universe = Some(hello.universe);
        let reason = if wanted.is_none() && hello.wanted != 0 && hello.wanted != self.boot.job_id {
            Some("the mpirun that it belonged to has ended".to_string())
        } else if wanted.is_some_and(|wanted| wanted != 0 && wanted != hello.universe)
            || hello.universe == self.boot.job_id
            || !(1..=MAX_PLACE).contains(&hello.place)
        {
            Some("its mpirun is not the one that it should be".to_string())
        } else {
            None
        };
        if let Some(reason) = reason {
            if wanted.is_none() {
                self.links.post(
                    number,
                    LinkMessage::Refused { reason: reason.clone() }.encode(),
                    None,
                );
            }
            if let Some(connection) = self.links.connections.get_mut(&number) {
                (connection.universe, connection.search) = (None, search);
            }
            return self.lose(number, &reason);
        }
        if wanted.is_none() {
            let answer = self.own_hello(hello.universe, self.links.place());
            self.links.post(number, LinkMessage::Hello(answer).encode(), None);
        }
        let reach = self.reach_with(&hello);
        let other = self
            .links
            .others
            .entry(hello.universe)
            .or_insert_with(|| Other::new(hello.place, peer.pid));
        (other.secret, other.reach) = (hello.secret, Some(reach));
        if other.connection.is_none() {
            other.connection = Some(number);
            let waiting = std::mem::take(&mut other.waiting);
            waiting.into_iter().for_each(|(bytes, fd)| self.links.post(number, Some(bytes), fd));
        }
        if let Some(connection) = self.links.connections.get_mut(&number) {
            connection.lasts = if wanted.is_none() { hello.wanted != 0 } else { true };
        }
        self.decide();
        if search.is_some() {
            self.links.close_if_needless(number, hello.universe);
        }
        if let Some((asker, service)) = search {
            let to =
                ProcessName { universe: hello.universe, place: hello.place, ..ProcessName::NONE };
            self.forward_to_other(to, asker, &Request::LookUp { service }, None, Question::Plain);
        }
    }
}
