//! Ends all connections and makes them again (rules 10 and 11 of the module).

use super::peer::ConnectionState;
use super::{LISTENER, Tcp};
use crate::{Connections, FrameSink, Membership as _};
use oxmpi_sys::net::{Listener, Socket};
use std::io;

impl Connections for Tcp {
    fn listen_also(&mut self, listener: Listener) -> io::Result<()> {
        self.poller.add(&listener, LISTENER, false)?;
        self.listeners.push(listener);
        Ok(())
    }

    fn listeners(&self) -> usize {
        self.listeners.len()
    }

    fn quiesce(&mut self) -> bool {
        self.is_quiet = self.is_quiet || self.rest();
        self.is_quiet
    }

    fn give_up_connections(&mut self, sink: &mut dyn FrameSink) {
        self.stop_listening();
        let now = self.now();
        for at in 0..self.peers.len() as u32 {
            let Some(peer) = self.known(at) else { continue };
            if matches!(
                peer.state,
                ConnectionState::Apart | ConnectionState::Left | ConnectionState::Lost(_)
            ) {
                continue;
            }
            // A peer that was not quiesced belongs to another launcher, and is connected again.
            let state = if peer.link.has_delivered() {
                ConnectionState::Apart
            } else {
                ConnectionState::Pause { until: now }
            };
            self.end_connection(at, state);
            self.wake_at(now);
        }
        self.tell_news(sink);
    }

    fn give_up_lost_connections(&mut self, sink: &mut dyn FrameSink) {
        // In the restored process their numbers belong to other descriptors, which stay open.
        self.listeners.iter_mut().for_each(Listener::adopt);
        self.peers
            .iter_mut()
            .flatten()
            .filter_map(|peer| peer.state.socket_mut())
            .for_each(Socket::adopt);
        self.greetings.adopt();
        self.give_up_connections(sink);
    }

    fn listen_anew(&mut self, listeners: Vec<Listener>) -> io::Result<()> {
        listeners.into_iter().try_for_each(|listener| self.listen_also(listener))?;
        self.is_quiet = false;
        Ok(())
    }
}
