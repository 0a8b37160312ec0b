//! Closes the port, so that an image of the process contains nothing of GM, and opens another one
//! (rule 9 of the module).

use super::{Gm, GmPort, POLLS};
use crate::{Connections, FrameSink};
use oxmpi_sys::net::Listener;
use std::io;

impl<P: GmPort> Gm<P> {
    /// Whether each requested introduction has arrived: a later one would name a closed port.
    fn has_met_all(&mut self) -> bool {
        let Gm { peers, sockets, .. } = self;
        let mut waits = |(at, peer): (usize, &Option<Box<super::GmPeer>>)| {
            peer.as_ref()
                .is_some_and(|peer| peer.has_requested && !peer.was_answered && !peer.is_gone)
                && !sockets.has_left(at as u32)
        };
        !peers.iter().enumerate().any(&mut waits)
    }

    fn close_port(&mut self, sink: &mut dyn FrameSink) {
        if self.is_closed {
            return;
        }
        // Takes messages that arrived with the last callbacks of their senders.
        self.drain(sink);
        self.port.close();
        self.is_closed = true;
        for peer in
            self.peers.iter_mut().filter(|peer| peer.as_ref().is_some_and(|peer| !peer.is_gone))
        {
            *peer = None;
        }
        (self.provided, self.spare, self.made_send_slots) = (0, 0, 0);
        self.send_slots.clear();
        self.receive_slots.clear();
        self.unanswered.clear();
        self.stopped.clear();
        self.unreported.clear();
        self.failed.clear();
        self.owed.clear();
        self.early.clear();
        self.lending.forget_words();
        self.landings.forget_words();
    }
}

impl<P: GmPort> Connections for Gm<P> {
    fn listen_also(&mut self, listener: Listener) -> io::Result<()> {
        self.listeners += 1;
        self.sockets.connections().map_or(Ok(()), |sockets| sockets.listen_also(listener))
    }

    fn listeners(&self) -> usize {
        self.listeners
    }

    fn quiesce(&mut self) -> bool {
        self.polls = POLLS;
        // The sockets carry introductions until the last peer has got its own.
        self.is_resting = (self.is_closed || self.has_all_arrived() && self.has_met_all())
            && self.sockets.connections().is_none_or(|sockets| sockets.quiesce());
        self.is_resting
    }

    fn give_up_connections(&mut self, sink: &mut dyn FrameSink) {
        self.close_port(sink);
        let Gm { sockets, introductions, .. } = self;
        if let Some(sockets) = sockets.connections() {
            sockets.give_up_connections(&mut introductions.watch(sink));
        }
    }

    fn give_up_lost_connections(&mut self, sink: &mut dyn FrameSink) {
        // A process with an open port cannot be imaged.
        self.close_port(sink);
        let Gm { sockets, introductions, .. } = self;
        if let Some(sockets) = sockets.connections() {
            sockets.give_up_lost_connections(&mut introductions.watch(sink));
        }
    }

    fn listen_anew(&mut self, listeners: Vec<Listener>) -> io::Result<()> {
        self.sockets.connections().map_or(Ok(()), |sockets| sockets.listen_anew(listeners))
    }

    fn resume(&mut self) -> Result<(), String> {
        if !self.is_closed {
            return Ok(());
        }
        self.port.reopen()?;
        (self.is_closed, self.is_resting) = (false, false);
        self.tokens = self.port.send_tokens();
        if let Some(sockets) = self.sockets.connections() {
            sockets.resume()?;
        }
        Ok(())
    }
}
