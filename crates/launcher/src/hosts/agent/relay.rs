//! The relay on an agent's host, in a job whose messages go through daemons.

use std::os::fd::AsFd;

use oxmpi_fabric::encryption;
use oxmpi_sys::net::Listener;
use oxmpi_sys::spawn::Guard;
use oxmpi_wire::relay::Order as RelayOrder;
use rustix::event::epoll;

use super::{Agent, RELAY, RELAY_ENDED};
use crate::launch::parts::{RelayProcess, listener};
use crate::launch::{Launch, LaunchError, kernel};
use oxmpi_rt_client::control::Reply;
use oxmpi_rt_proto::agent::{AgentOrder, FromAgent};

/// The relay's listener and its address, if the job has relays.
pub(super) fn listen(launch: &Launch) -> Result<Option<(Listener, String)>, LaunchError> {
    match launch.transport.has_daemons() {
        true => listener(&launch.params, &launch.hostmap).map(Some),
        false => Ok(None),
    }
}

impl Agent<'_> {
    /// Starts the relay. The head sends it the addresses of the other relays.
    pub(super) fn start_relay(
        &mut self,
        (order, launch): (&AgentOrder, &Launch),
        guard: &Guard,
        listener: &Listener,
    ) -> Result<(), LaunchError> {
        // One more node: the head's host.
        let nodes = order.nodes.iter().max().map_or(1, |last| last.saturating_add(2));
        let begin = RelayOrder::Begin {
            job: order.universe,
            node: self.node.unwrap_or_default(),
            nodes,
            secret: order.secret,
            encrypt: encryption(&launch.params),
        };
        let relay = RelayProcess::start(self.signals, guard, &begin, Some(listener))?;
        let listened = self
            .listen(&self.events, relay.control(), RELAY, 0)
            .and_then(|()| self.listen(&self.events, relay.end_seen(), RELAY_ENDED, 0));
        self.relay = Some(relay);
        kernel("watch a daemon", listened)
    }

    pub(super) fn give_relay(&mut self, rank: u32) {
        let none = || "the job was started without daemons (rpi lamd)".to_string();
        let is_first = self.relayed.insert(rank);
        let socket = match !is_first {
            true => Err("it has got its socket to the daemon".to_string()),
            false => self.relay.as_ref().ok_or_else(none).and_then(|relay| relay.connect(rank)),
        };
        let reply = match &socket {
            Ok(_) => Reply::Relay,
            Err(reason) => Reply::Refused { rank, reason: reason.clone() },
        };
        self.answer(rank, &reply, socket.as_ref().ok().map(AsFd::as_fd));
    }

    /// The relay forwards the rank's messages before others learn of its end.
    pub(super) fn report_end_to_relay(&self, rank: u32) {
        if let Some(relay) = &self.relay {
            let _ = relay.send(&RelayOrder::Ended { number: rank }, None);
        }
    }

    pub(super) fn read_relay(&mut self) {
        while let Some(relay) = &self.relay {
            match relay.next_notice() {
                Some(notice) => self.post(&FromAgent::Relay { notice }),
                None => {
                    if !relay.runs() {
                        let _ = epoll::delete(&self.events, relay.control());
                    }
                    return;
                }
            }
        }
    }

    pub(super) fn relay_ended(&mut self) -> rustix::io::Result<()> {
        self.read_relay();
        let Some(relay) = &mut self.relay else { return Ok(()) };
        let Some(exit) = relay.take_end()? else { return Ok(()) };
        let pid = relay.pid().cast_unsigned();
        epoll::delete(&self.events, relay.end_seen())?;
        let _ = epoll::delete(&self.events, relay.control());
        self.post(&FromAgent::RelayEnded { pid, exit });
        Ok(())
    }
}
