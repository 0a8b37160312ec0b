//! The daemons of a job whose messages go through daemons (rpi lamd): a relay on each node, which all jobs of this launcher use.
//!
//! A relay is a child of the launcher (`oxmpi relay`) or, on another host, of the agent there, tied to it as ranks are. It has
//! one socket to its parent, over which it is told what it must know ([`Order`]); what it needs is its node, the sockets of the
//! processes there, and where other relays are. What the launcher says to a relay on another host the agent passes on, and what
//! the relay says likewise. Its end is that of all jobs, with one report; but the loss of its host is that of a host, and where
//! others survive that, their relays are told.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};

use oxmpi_fabric::encryption;
use oxmpi_sys::spawn::Guard;
use oxmpi_wire::relay::{Notice, Order};

use super::launcher::Launcher;
use super::relay::Relay;
use super::{LaunchError, plugs, start};
use crate::control::Reply;
use crate::hosts::message::ToAgent;
use crate::job::{Event, Exit};

/// What an event of the launcher's poll set is about.
pub(super) const RELAY: u64 = 20;
pub(super) const RELAY_ENDED: u64 = 21;

/// All relays.
#[derive(Default)]
pub(super) struct Relays {
    /// Those of this host, by node.
    of: BTreeMap<u32, Relay>,
    /// Why those of nodes cannot go on, as they have said.
    last_words: BTreeMap<u32, String>,
    /// The processes that have got their sockets.
    supplied: HashSet<u32>,
}

impl Relays {
    /// The processes that are relays.
    pub(super) fn pids(&self) -> impl Iterator<Item = i32> {
        self.of.values().map(Relay::pid)
    }

    /// Ends all.
    pub(super) fn end(&mut self, guard: &Guard) {
        std::mem::take(&mut self.of).into_values().for_each(|relay| relay.end(guard));
    }
}

impl Launcher<'_> {
    /// Starts a relay on each node of this host, if the messages of the job go through them, and lets all know of each other.
    pub(super) fn start_relays(&mut self) -> Result<(), LaunchError> {
        if !self.launch.transport.has_daemons() {
            return Ok(());
        }
        let (job, secret, encrypt) = (self.universe, self.secret, encryption(&self.launch.params));
        // Of several hosts this one has a relay even if no rank is here: whom they spawn may be.
        let (here, nodes) = match &self.launch.spread {
            Some(spread) => {
                let nodes = spread.hosts.len() as u32;
                let own = self.node.unwrap_or(nodes);
                (own..own + 1, nodes + 1)
            }
            None => {
                let nodes = self.members.values().map(|member| member.node + 1).max().unwrap_or(1);
                (0..nodes, nodes)
            }
        };
        let is_one_host = self.launch.spread.is_none();
        let plugs = if nodes > 1 {
            plugs::listeners(self.launch, here.len(), None, is_one_host, is_one_host)?
        } else {
            Vec::new()
        };
        let mut plugs = plugs.into_iter();
        let mut addresses = Vec::new();
        for node in here {
            let (listener, address) = plugs.next().unzip();
            addresses.extend(address.map(|address| (node, address)));
            let begin = Order::Begin { job, node, nodes, secret, encrypt };
            let relay = Relay::start(self.signals, &self.guard, &begin, listener.as_ref())?;
            if self.launch.verbose {
                self.print(&format!("mpirun: daemon of node {node}: pid {}\n", relay.pid()));
            }
            let listened = self
                .listen(&self.events, relay.control(), RELAY, node.into())
                .and_then(|()| self.listen(&self.events, relay.end_seen(), RELAY_ENDED, node.into()));
            self.relays.of.insert(node, relay);
            start::kernel("watch a daemon", listened)?;
        }
        addresses.extend(self.far.iter().flatten().map(|far| (far.node, far.relay.clone())));
        for (node, addresses) in addresses {
            let name = self.node_name(node);
            self.tell_relays(&Order::Relay { node, name, addresses });
        }
        let last = self.members.last_key_value().map_or(0, |(number, _)| number + 1);
        self.tell_places(0, last);
        Ok(())
    }

    /// What people are told that a node is called.
    fn node_name(&self, node: u32) -> String {
        let Some(spread) = &self.launch.spread else { return format!("node {node}") };
        match spread.hosts.get(node as usize) {
            Some(host) => format!("host {}", host.name),
            None => format!("host {}", oxmpi_sys::host::name()),
        }
    }

    fn tell_relays(&mut self, order: &Order) {
        if !self.launch.transport.has_daemons() {
            return;
        }
        for relay in self.relays.of.values() {
            // Its end is reported.
            let _ = relay.tell(order, None);
        }
        let order = order.encode();
        self.post_all(&ToAgent::Relay { order });
    }

    /// Tells the relays where processes are: so many from a number on, which are members.
    pub(super) fn tell_places(&mut self, first: u32, count: u32) {
        let node = |number| self.members.get(&number).map_or(0, |member| member.node);
        let all: Vec<u32> = (first..first.saturating_add(count)).collect();
        let runs: Vec<Order> = all
            .chunk_by(|a, b| node(*a) == node(*b))
            .map(|run| Order::Places { first: run[0], count: run.len() as u32, node: node(run[0]) })
            .collect();
        runs.iter().for_each(|order| self.tell_relays(order));
    }

    /// Tells the relays that a node is gone.
    pub(super) fn tell_relays_of_loss(&mut self, node: u32) {
        self.tell_relays(&Order::Lost { node });
    }

    /// Gives a process of this host its socket to the relay of its node.
    pub(super) fn give_relay(&mut self, rank: u32) {
        let socket = self.connect_to_relay(rank);
        let reply = match &socket {
            Ok(_) => Reply::Relay,
            Err(reason) => Reply::Refused { rank, reason: reason.clone() },
        };
        self.answer(rank, &reply, socket.as_ref().ok().map(AsFd::as_fd));
    }

    fn connect_to_relay(&mut self, rank: u32) -> Result<OwnedFd, String> {
        let node = self.members.get(&rank).map_or(0, |member| member.node);
        let relay = self.relays.of.get(&node).ok_or("the job was started without daemons (rpi lamd)")?;
        if !self.relays.supplied.insert(rank) {
            return Err("it has got its socket to the daemon".into());
        }
        relay.connect(rank)
    }

    /// A process has ended: its relay passes on what it has sent, before others hear of the end. An agent has told that of its
    /// processes itself.
    pub(super) fn tell_relay_of_end(&self, rank: u32) {
        let Some(member) = self.members.get(&rank).filter(|member| member.host.is_none()) else { return };
        if let Some(relay) = self.relays.of.get(&member.node) {
            // Its own end is reported.
            let _ = relay.tell(&Order::Ended { number: rank }, None);
        }
    }

    /// Takes what a relay of this host says.
    pub(super) fn hear_relay(&mut self, node: u32) {
        while let Some(relay) = self.relays.of.get(&node) {
            match relay.hear() {
                Some(notice) => self.heed_relay(node, &notice),
                None => {
                    // At its end, which is heard of.
                    if !relay.runs() {
                        let _ = rustix::event::epoll::delete(&self.events, relay.control());
                    }
                    return;
                }
            }
        }
    }

    /// Heeds all that the relays of this host have said by now.
    pub(super) fn hear_relays(&mut self) {
        let nodes: Vec<u32> = self.relays.of.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.hear_relay(node));
    }

    /// Heeds what the relay of a node says.
    pub(super) fn heed_relay(&mut self, node: u32, notice: &[u8]) {
        match Notice::decode(notice) {
            Ok(Notice::Said { .. }) if self.launch.quiet => {}
            Ok(Notice::Said { text }) => self.tell(Event::Say { text }),
            Ok(Notice::Lost { text }) => _ = self.relays.last_words.insert(node, text),
            Ok(Notice::Wrong { number, text }) => {
                let name = self.node_name(node);
                let text = format!("its messages make no sense to the daemon of {name}: {text}");
                let seen = self.glimpse(number);
                self.tell(Event::Abort { rank: number, code: 1, text, seen });
            }
            Err(error) => _ = self.relays.last_words.insert(node, error.to_string()),
        }
    }

    /// A relay of this host has ended.
    pub(super) fn relay_ended(&mut self, node: u32) -> rustix::io::Result<()> {
        self.hear_relay(node);
        let Some(relay) = self.relays.of.get_mut(&node) else { return Ok(()) };
        let Some(exit) = relay.take_end()? else { return Ok(()) };
        let pid = relay.pid();
        rustix::event::epoll::delete(&self.events, relay.end_seen())?;
        let _ = rustix::event::epoll::delete(&self.events, relay.control());
        self.note_relay_end(node, pid, exit);
        Ok(())
    }

    /// The relay of a node has ended.
    pub(super) fn note_relay_end(&mut self, node: u32, pid: i32, exit: Exit) {
        let why = self.relays.last_words.remove(&node);
        let host = self.launch.spread.as_ref().and_then(|spread| spread.hosts.get(node as usize));
        let host = host.map(|host| host.name.clone());
        self.tell(Event::DaemonEnded { node, pid, host, exit, why });
    }
}
