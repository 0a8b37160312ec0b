//! The relays of a job whose messages go through daemons (rpi lamd): one on each node, shared by
//! all jobs of this launcher.
//!
//! A relay is a child of the launcher (`oxmpi relay`) or, on another host, of the agent, and dies
//! with it as ranks do. Over a socket to its parent it gets its [`Order`]s: its node, the sockets
//! of the processes there, and the addresses of the other relays. The agent forwards orders and
//! notices of a relay on another host. The end of a relay ends all jobs, with one report; but the
//! loss of its host counts as that of a host, and where others survive that, their relays are
//! notified.

use oxmpi_fabric::encryption;
use oxmpi_wire::relay::{Notice, Order};

use super::launcher::Launcher;
use super::{LaunchError, plugs};
use crate::job::{Exit, JobEvent};
use oxmpi_rt_proto::agent::HostOrder;

impl Launcher<'_> {
    /// Starts a relay on each node of this host, if the job's messages go through relays, and sends
    /// all their addresses.
    pub(super) fn start_relays(&mut self) -> Result<(), LaunchError> {
        if !self.launch.transport.has_daemons() {
            return Ok(());
        }
        let (job, secret, encrypt) =
            (self.boot.job_id, self.secret, encryption(&self.launch.params));
        // With several hosts this one has a relay even without ranks, as spawned processes may
        // come.
        let (here, nodes) = match &self.launch.spread {
            Some(spread) => {
                let nodes = spread.hosts.len() as u32;
                let own = self.node.unwrap_or(nodes);
                (own..own + 1, nodes + 1)
            }
            None => {
                let nodes =
                    self.members.iter().map(|(_, member)| member.node + 1).max().unwrap_or(1);
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
            let pid = self.host.start_relay((node, &begin), self.signals, listener.as_ref())?;
            if self.launch.verbose {
                self.print(&format!("mpirun: daemon of node {node}: pid {pid}\n"));
            }
        }
        addresses.extend(self.branches.relays());
        for (node, addresses) in addresses {
            let name = self.node_name(node);
            self.send_to_relays(&Order::Relay { node, name, addresses });
        }
        self.send_places(0, self.members.end());
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
        self.order_all(HostOrder::Relay { order: order.encode() });
    }

    /// Sends the relays the nodes of `count` members from number `first` on.
    pub(super) fn send_places(&mut self, first: u32, count: u32) {
        let node = |number| self.members.node(number).unwrap_or(0);
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

    pub(super) fn handle_relay_notice(&mut self, node: u32, notice: &[u8]) {
        match Notice::decode(notice) {
            Ok(Notice::Said { .. }) if self.launch.quiet => {}
            Ok(Notice::Said { text }) => self.handle_event(JobEvent::Say { text }),
            Ok(Notice::Wrong { number, text }) => {
                let name = self.node_name(node);
                let text = format!("it has sent the daemon of {name} a malformed message: {text}");
                let seen = self.glimpse(number);
                self.handle_event(JobEvent::Abort { rank: number, code: 1, text, seen });
            }
            // Errors come with the end of the relay.
            Ok(Notice::Lost { .. }) | Err(_) => {}
        }
    }

    pub(super) fn note_relay_end(
        &mut self,
        (node, pid): (u32, i32),
        exit: Exit,
        why: Option<String>,
    ) {
        let host = self.launch.spread.as_ref().and_then(|spread| spread.hosts.get(node as usize));
        let host = host.map(|host| host.name.clone());
        self.handle_event(JobEvent::DaemonEnded { node, pid, host, exit, why });
    }
}
