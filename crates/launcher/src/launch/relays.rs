//! The relays of a job whose messages go through daemons (rpi lamd): one on each node, shared by
//! all jobs of this launcher.
//!
//! A relay is a child of the launcher (`oxmpi relay`) or, on another host, of the agent, and dies
//! with it as ranks do. Over a socket to its parent it gets its [`Order`]s: its node, the sockets
//! of the processes there, and the addresses of the other relays. The agent forwards orders and
//! notices of a relay on another host. The end of a relay ends all jobs, with one report; but the
//! loss of its host counts as that of a host, and where others survive that, their relays are
//! notified.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};

use oxmpi_fabric::encryption;
use oxmpi_sys::spawn::Guard;
use oxmpi_wire::relay::{Notice, Order};

use super::launcher::Launcher;
use super::relay::RelayProcess;
use super::{LaunchError, plugs, start};
use crate::job::{Exit, JobEvent};
use oxmpi_rt_client::control::Reply;
use oxmpi_rt_proto::agent::ToAgent;

pub(super) const RELAY: u64 = 20;
pub(super) const RELAY_ENDED: u64 = 21;

#[derive(Default)]
pub(super) struct Relays {
    /// The relays of this host, by node.
    of: BTreeMap<u32, RelayProcess>,
    /// Errors that relays have reported before their ends, by node.
    errors: BTreeMap<u32, String>,
    /// The processes that have their sockets.
    supplied: HashSet<u32>,
}

impl Relays {
    pub(super) fn pids(&self) -> impl Iterator<Item = i32> {
        self.of.values().map(RelayProcess::pid)
    }

    pub(super) fn end(&mut self, guard: &Guard) {
        std::mem::take(&mut self.of).into_values().for_each(|relay| relay.end(guard));
    }
}

impl Launcher<'_> {
    /// Starts a relay on each node of this host, if the job's messages go through relays, and sends
    /// all their addresses.
    pub(super) fn start_relays(&mut self) -> Result<(), LaunchError> {
        if !self.launch.transport.has_daemons() {
            return Ok(());
        }
        let (job, secret, encrypt) = (self.universe, self.secret, encryption(&self.launch.params));
        // With several hosts this one has a relay even without ranks, as spawned processes may
        // come.
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
            let of = (&self.launch.params, &self.launch.hostmap);
            plugs::listeners(of, here.len(), None, is_one_host, is_one_host)?
        } else {
            Vec::new()
        };
        let mut plugs = plugs.into_iter();
        let mut addresses = Vec::new();
        for node in here {
            let (listener, address) = plugs.next().unzip();
            addresses.extend(address.map(|address| (node, address)));
            let begin = Order::Begin { job, node, nodes, secret, encrypt };
            let relay = RelayProcess::start(self.signals, &self.guard, &begin, listener.as_ref())?;
            if self.launch.verbose {
                self.print(&format!("mpirun: daemon of node {node}: pid {}\n", relay.pid()));
            }
            let listened =
                self.listen(&self.events, relay.control(), RELAY, node.into()).and_then(|()| {
                    self.listen(&self.events, relay.end_seen(), RELAY_ENDED, node.into())
                });
            self.relays.of.insert(node, relay);
            start::kernel("watch a daemon", listened)?;
        }
        addresses.extend(self.far.iter().flatten().flat_map(|far| far.relays.clone()));
        for (node, addresses) in addresses {
            let name = self.node_name(node);
            self.send_to_relays(&Order::Relay { node, name, addresses });
        }
        let last = self.members.last_key_value().map_or(0, |(number, _)| number + 1);
        self.send_places(0, last);
        Ok(())
    }

    fn node_name(&self, node: u32) -> String {
        let Some(spread) = &self.launch.spread else { return format!("node {node}") };
        match spread.hosts.get(node as usize) {
            Some(host) => format!("host {}", host.name),
            None => format!("host {}", oxmpi_sys::host::name()),
        }
    }

    fn send_to_relays(&mut self, order: &Order) {
        if !self.launch.transport.has_daemons() {
            return;
        }
        for relay in self.relays.of.values() {
            let _ = relay.send(order, None);
        }
        let order = order.encode();
        self.post_all(&ToAgent::Relay { order });
    }

    /// Sends the relays the nodes of `count` members from number `first` on.
    pub(super) fn send_places(&mut self, first: u32, count: u32) {
        let node = |number| self.members.get(&number).map_or(0, |member| member.node);
        let all: Vec<u32> = (first..first.saturating_add(count)).collect();
        let runs: Vec<Order> = all
            .chunk_by(|a, b| node(*a) == node(*b))
            .map(|run| Order::Places { first: run[0], count: run.len() as u32, node: node(run[0]) })
            .collect();
        runs.iter().for_each(|order| self.send_to_relays(order));
    }

    pub(super) fn report_loss_to_relays(&mut self, node: u32) {
        self.send_to_relays(&Order::Lost { node });
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
        let relay =
            self.relays.of.get(&node).ok_or("the job was started without daemons (rpi lamd)")?;
        if !self.relays.supplied.insert(rank) {
            return Err("it has got its socket to the daemon".into());
        }
        relay.connect(rank)
    }

    /// Reports the end of a process to its relay, which forwards the process's messages before
    /// others learn of the end. An agent does this for its own processes.
    pub(super) fn report_end_to_relay(&self, rank: u32) {
        let Some(member) = self.members.get(&rank).filter(|member| member.host.is_none()) else {
            return;
        };
        if let Some(relay) = self.relays.of.get(&member.node) {
            let _ = relay.send(&Order::Ended { number: rank }, None);
        }
    }

    pub(super) fn read_relay(&mut self, node: u32) {
        while let Some(relay) = self.relays.of.get(&node) {
            match relay.next_notice() {
                Some(notice) => self.handle_relay_notice(node, &notice),
                None => {
                    if !relay.runs() {
                        let _ = rustix::event::epoll::delete(&self.events, relay.control());
                    }
                    return;
                }
            }
        }
    }

    pub(super) fn read_relays(&mut self) {
        let nodes: Vec<u32> = self.relays.of.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.read_relay(node));
    }

    pub(super) fn handle_relay_notice(&mut self, node: u32, notice: &[u8]) {
        match Notice::decode(notice) {
            Ok(Notice::Said { .. }) if self.launch.quiet => {}
            Ok(Notice::Said { text }) => self.handle_event(JobEvent::Say { text }),
            Ok(Notice::Lost { text }) => _ = self.relays.errors.insert(node, text),
            Ok(Notice::Wrong { number, text }) => {
                let name = self.node_name(node);
                let text = format!("it has sent the daemon of {name} a malformed message: {text}");
                let seen = self.glimpse(number);
                self.handle_event(JobEvent::Abort { rank: number, code: 1, text, seen });
            }
            Err(error) => _ = self.relays.errors.insert(node, error.to_string()),
        }
    }

    pub(super) fn relay_ended(&mut self, node: u32) -> rustix::io::Result<()> {
        self.read_relay(node);
        let Some(relay) = self.relays.of.get_mut(&node) else { return Ok(()) };
        let Some(exit) = relay.take_end()? else { return Ok(()) };
        let pid = relay.pid();
        rustix::event::epoll::delete(&self.events, relay.end_seen())?;
        let _ = rustix::event::epoll::delete(&self.events, relay.control());
        self.note_relay_end(node, pid, exit);
        Ok(())
    }

    pub(super) fn note_relay_end(&mut self, node: u32, pid: i32, exit: Exit) {
        let why = self.relays.errors.remove(&node);
        let host = self.launch.spread.as_ref().and_then(|spread| spread.hosts.get(node as usize));
        let host = host.map(|host| host.name.clone());
        self.handle_event(JobEvent::DaemonEnded { node, pid, host, exit, why });
    }
}
