//! The relays of one host, in a job whose messages go through daemons (rpi lamd): of the nodes of
//! `mpirun`'s host, or of an agent's one node.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;

use oxmpi_sys::net::Listener;
use oxmpi_sys::spawn::{Guard, Signals};
use oxmpi_wire::relay::{Notice, Order};
use rustix::event::epoll;

use super::ranks::{Answer, Handed};
use crate::job::Exit;
use crate::launch::parts::RelayProcess;
use crate::launch::{LaunchError, kernel};
use oxmpi_rt_client::control::Reply;

/// The relays of this host.
#[derive(Debug, Default)]
pub(crate) struct HostRelays {
    /// By node.
    all: BTreeMap<u32, RelayProcess>,
    /// The processes that have their sockets.
    supplied: HashSet<u32>,
    /// The errors that relays have reported before their ends, by node.
    errors: BTreeMap<u32, String>,
}

/// The names of a relay's events: notices, and its end.
pub(crate) type RelayEvents = (u64, u64);

impl HostRelays {
    /// Starts the relay of a node with the order `begin`, and has it polled. Returns its process
    /// number.
    pub(crate) fn start(
        &mut self,
        (node, begin): (u32, &Order),
        (signals, guard): (&Signals, &Guard),
        listener: Option<&Listener>,
        (events, (notices, end)): (&OwnedFd, RelayEvents),
    ) -> Result<i32, LaunchError> {
        let relay = RelayProcess::start(signals, guard, begin, listener)?;
        let listen = |fd, name| {
            epoll::add(events, fd, epoll::EventData::new_u64(name), epoll::EventFlags::IN)
        };
        let listened =
            listen(relay.control(), notices).and_then(|()| listen(relay.end_seen(), end));
        let pid = relay.pid();
        // It ends with the others, also after an error.
        self.all.insert(node, relay);
        kernel("watch a daemon", listened).map(|()| pid)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        self.all.values().map(RelayProcess::pid)
    }

    /// Sends an encoded order to all.
    pub(crate) fn pass(&self, order: &[u8]) {
        self.all.values().for_each(|relay| _ = relay.pass(order, None));
    }

    /// Answers a process's request for its socket to the relay of its node.
    pub(crate) fn supply(&mut self, node: u32, rank: u32) -> Answer {
        match self.connect(node, rank) {
            Ok(socket) => (Reply::Relay, Some(Handed::Copy(socket))),
            Err(reason) => (Reply::Refused { rank, reason }, None),
        }
    }

    fn connect(&mut self, node: u32, rank: u32) -> Result<OwnedFd, String> {
        let relay = self.all.get(&node).ok_or("the job was started without daemons (rpi lamd)")?;
        if !self.supplied.insert(rank) {
            return Err("it has got its socket to the daemon".into());
        }
        relay.connect(rank)
    }

    /// Reports the end of a process of a node to its relay, which forwards the process's messages
    /// before others learn of the end.
    pub(crate) fn report_end(&self, node: u32, number: u32) {
        if let Some(relay) = self.all.get(&node) {
            let _ = relay.send(&Order::Ended { number }, None);
        }
    }

    pub(crate) fn nodes(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    /// The next notice of a relay for the head, encoded. An error is kept until the relay's end.
    /// After the last notice of a relay that has ended, it is no longer polled.
    pub(crate) fn next_notice(&mut self, node: u32, events: &OwnedFd) -> Option<Vec<u8>> {
        let relay = self.all.get(&node)?;
        while let Some(notice) = relay.next_notice() {
            let error = match Notice::decode(&notice) {
                Ok(Notice::Lost { text }) => text,
                Ok(Notice::Said { .. } | Notice::Wrong { .. }) => return Some(notice),
                Err(error) => error.to_string(),
            };
            self.errors.insert(node, error);
        }
        if !relay.runs() {
            let _ = epoll::delete(events, relay.control());
        }
        None
    }

    /// The process number, the exit status and the error of a relay, once, after it has ended.
    pub(crate) fn take_end(
        &mut self,
        node: u32,
        events: &OwnedFd,
    ) -> rustix::io::Result<Option<(i32, Exit, Option<String>)>> {
        let Some(relay) = self.all.get_mut(&node) else { return Ok(None) };
        let Some(exit) = relay.take_end()? else { return Ok(None) };
        epoll::delete(events, relay.end_seen())?;
        let _ = epoll::delete(events, relay.control());
        Ok(Some((relay.pid(), exit, self.errors.remove(&node))))
    }

    /// Ends all.
    pub(crate) fn end(&mut self, guard: &Guard) {
        let HostRelays { all, .. } = std::mem::take(self);
        all.into_values().for_each(|relay| relay.end(guard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_relays_no_process_gets_a_socket() {
        let mut none = HostRelays::default();
        let (reply, socket) = none.supply(0, 3);
        let Reply::Refused { rank: 3, reason } = reply else { panic!("{reply:?}") };
        assert!(socket.is_none() && reason.contains("without daemons"), "{reason}");
        assert!(none.is_empty() && none.pids().next().is_none());
    }
}
