//! The relay on an agent's host, in a job whose messages go through daemons.

use oxmpi_fabric::encryption;
use oxmpi_sys::net::Listener;
use oxmpi_sys::spawn::Guard;
use oxmpi_wire::relay::Order as RelayOrder;

use super::{Agent, RELAY, RELAY_ENDED};
use crate::launch::parts::listener;
use crate::launch::{Launch, LaunchError};
use oxmpi_rt_proto::agent::{AgentOrder, FromAgent};

/// The relay's listener and its address, if the job has relays.
pub(super) fn listen(launch: &Launch) -> Result<Option<(Listener, String)>, LaunchError> {
    match launch.transport.has_daemons() {
        true => listener(&launch.params, &launch.hostmap).map(Some),
        false => Ok(None),
    }
}

impl Agent<'_> {
    /// The node of this host.
    pub(super) fn own_node(&self) -> u32 {
        self.node.unwrap_or_default()
    }

    /// Starts the relay. The head sends it the addresses of the other relays.
    pub(super) fn start_relay(
        &mut self,
        (order, launch): (&AgentOrder, &Launch),
        guard: &Guard,
        listener: &Listener,
    ) -> Result<(), LaunchError> {
        let node = self.own_node();
        // One more node: the head's host.
        let nodes = order.nodes.iter().max().map_or(1, |last| last.saturating_add(2));
        let (job, secret, encrypt) = (order.universe, order.secret, encryption(&launch.params));
        let begin = RelayOrder::Begin { job, node, nodes, secret, encrypt };
        let events = (&self.events, (RELAY << 32, RELAY_ENDED << 32));
        let begun =
            self.relays.start((node, &begin), (self.signals, guard), Some(listener), events);
        begun.map(|_| ())
    }

    pub(super) fn read_relay(&mut self) {
        while let Some(notice) = self.relays.next_notice(self.own_node(), &self.events) {
            self.post(&FromAgent::Relay { notice });
        }
    }

    pub(super) fn relay_ended(&mut self) -> rustix::io::Result<()> {
        self.read_relay();
        if let Some((pid, exit)) = self.relays.take_end(self.own_node(), &self.events)? {
            self.post(&FromAgent::RelayEnded { pid: pid.cast_unsigned(), exit });
        }
        Ok(())
    }
}
