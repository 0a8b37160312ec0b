//! Events at their times: attempts to connect, limits of attempts, and sends that wait for the
//! kernel's memory. One clock in the poller wakes the process for all of them.

use super::peer::{ConnectionFailure, ConnectionState};
use super::{LISTENER, Tcp};
use std::time::Duration;

impl Tcp {
    pub(super) fn wake_at(&mut self, time: Duration) {
        if self.alarm.is_none_or(|alarm| time < alarm) {
            self.alarm = Some(time);
            self.poller.set_clock(Some(time.saturating_sub(self.now())));
        }
    }

    /// Handles the events that are due, and sets the clock again.
    pub(super) fn on_clock(&mut self) {
        self.alarm = None;
        let now = self.now();
        if self.accepts_after.is_some_and(|until| until <= now) {
            self.accepts_after = None;
            for listener in &self.listeners {
                // This fails only if the descriptor was already added.
                let _ = self.poller.add(listener, LISTENER, false);
            }
        }
        for at in 0..self.peers.len() as u32 {
            if let Some(peer) = self.known(at)
                && peer.starved_until.take_if(|until| *until <= now).is_some()
            {
                peer.is_blocked = peer.is_broken;
                self.write(at);
                // Messages may be complete now without a frame of the peer.
                self.news.push(at);
            }
            match self.known(at).map(|peer| &peer.state) {
                Some(ConnectionState::Pause { until }) if *until <= now => self.connect(at),
                Some(ConnectionState::Connecting { limit, .. }) if *limit <= now => {
                    self.connection_failed(at, &ConnectionFailure::silent());
                }
                _ => {}
            }
        }
        let peers = self.peers.iter().flatten().filter_map(|peer| match peer.state {
            ConnectionState::Pause { until: time }
            | ConnectionState::Connecting { limit: time, .. } => Some(time),
            _ => peer.starved_until,
        });
        let next = peers.chain(self.accepts_after).min();
        if let Some(time) = next {
            self.wake_at(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::PEER;
    use crate::{Body, OutgoingMessage, Transport as _};
    use oxmpi_sys::bytes::Bytes;
    use oxmpi_sys::net::Socket;
    use oxmpi_sys::poller::Poller;
    use oxmpi_wire::{Context, Envelope, Frame};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::Arc;

    #[test]
    fn a_message_that_is_written_when_the_kernel_has_memory_again_is_reported() {
        let peer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = Socket::connect(peer.local_addr().unwrap(), None).unwrap();
        let (_stream, _) = peer.accept().unwrap();
        let poller = Arc::new(Poller::new().unwrap());
        poller.add(&socket, PEER | 1, false).unwrap();
        let mut tcp = Tcp::of_a_test(2, poller);
        let peer = tcp.peer(1);
        (peer.state, peer.is_blocked, peer.starved_until) =
            (ConnectionState::Up(socket), true, Some(Duration::ZERO));
        let frame = Frame::Eager { envelope: Envelope { context: Context::Local(7), tag: 0 } };
        let body = Body::Bytes(Bytes::from(&b"a message"[..]));
        peer.link.push(0, &OutgoingMessage { sequence: 0, frame, body, lent: None, token: 5 });
        assert!(!peer.link.is_settled() && tcp.before_sleep(), "it waits for the clock");
        tcp.on_clock();
        assert!(tcp.peer(1).link.is_settled(), "it is written");
        assert_eq!(tcp.news, [1]);
        assert!(!tcp.before_sleep(), "the next poll reports it");
    }
}
