//! Connections between two processes (rules 1 and 5 of the module).

use super::introduction::{IbIntroduction, WITHOUT_PORT};
use super::peer::IbPeer;
use super::reconnecting::NO_MORE;
use super::{Ib, IbPort};
use crate::transports::peer_of;
use crate::{Body, OutgoingMessage, Sent, Unreachable};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::fill_random;
use oxmpi_verbs::VerbsError;
use oxmpi_wire::Frame;

impl<P: IbPort> Ib<P> {
    /// Whether messages go over the port: not to other launchers or to processes without a port.
    pub(super) fn goes_by_port(&mut self, peer: u32) -> bool {
        !self.portless.contains(&peer)
            && self.nodes.as_mut().is_none_or(|nodes| nodes.node(peer).is_some())
    }

    fn go_by_sockets(&mut self, peer: u32) {
        self.portless.insert(peer);
        self.unanswered.retain(|to| *to != peer);
        let known = self.peers.get_mut(peer as usize).and_then(Option::take);
        if let Some(known) = known {
            self.port.close(known.end.queue_pair);
            // The queue pair has received nothing, so all its envelopes are in the shared queue.
            if self.settings.shared.is_some() {
                self.spare += known.granted;
            }
        }
    }

    pub(super) fn grant(&self) -> u32 {
        let most = self.settings.envelopes;
        let Some(limit) = self.settings.shared else { return most };
        let granted = self.posted.saturating_sub(self.spare);
        let first_half = (limit / 2).saturating_sub(granted);
        most.min(first_half.max(1)).min(limit.saturating_sub(granted))
    }

    pub(super) fn make_end(&mut self, to: u32) -> Result<(), String> {
        if self.peer(to).is_some() {
            return Ok(());
        }
        // Accesses to the own memory use no envelopes.
        let granted = if to == self.own { 0 } else { self.grant() };
        if granted == 0 && to != self.own {
            let limit = self.settings.shared.unwrap_or(0);
            return Err(format!(
                "all {limit} envelopes of the shared receive queue are granted to others: lower rpi_ib_num_envelopes, or set rpi_ib_srq to 0"
            ));
        }
        let mut number = [0; 4];
        fill_random(&mut number)
            .map_err(|error| format!("the system has no random numbers: {error}"))?;
        let first_packet = u32::from_le_bytes(number) & 0xff_ffff;
        let end = self.port.create(first_packet).map_err(|error| error.to_string())?;
        if let Err(why) = self.post_envelopes(end.queue_pair, granted) {
            self.port.close(end.queue_pair);
            return Err(format!("{why} (memory that a process may lock: 'ulimit -l')"));
        }
        self.numbers.insert(end.queue_pair, to);
        let at = to as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.peers[at] = Some(Box::new(IbPeer::new(end, granted)));
        Ok(())
    }

    /// After an error none is granted: the envelopes in the shared queue are for other peers.
    pub(super) fn post_envelopes(&mut self, queue_pair: u32, count: u32) -> Result<(), VerbsError> {
        if self.settings.shared.is_none() {
            return (0..count).try_for_each(|_| self.post_new(queue_pair));
        }
        for _ in self.spare..count {
            self.post_new(queue_pair)?;
            (self.posted, self.spare) = (self.posted + 1, self.spare + 1);
        }
        self.spare -= count;
        Ok(())
    }

    pub(super) fn post_new(&mut self, queue_pair: u32) -> Result<(), VerbsError> {
        if self.receive_slots.is_empty() {
            self.receive_slots = self.port.more_slots()?;
        }
        let Some(slot) = self.receive_slots.pop() else {
            return Err(VerbsError::Exhausted { device: self.port.describe(), what: "slots" });
        };
        self.port.receive(queue_pair, slot).inspect_err(|_| self.receive_slots.push(slot))
    }

    /// Introduces this process to a peer and requests the peer's introduction, once.
    pub(super) fn request_introduction(&mut self, to: u32) -> Result<(), Unreachable> {
        if to == self.own {
            return self.join_itself();
        }
        self.make_end(to).map_err(|why| Unreachable { peer: to, why })?;
        let is_due = self
            .peer(to)
            .is_some_and(|peer| !peer.has_requested && !peer.is_connected && !peer.is_closing());
        let has_requested = is_due && self.introduce(to, true)?;
        if let Some(peer) = self.peer(to) {
            peer.has_requested |= has_requested;
        }
        Ok(())
    }

    /// Connects a queue pair with itself, for atomic operations on the own memory (rule 11).
    pub(super) fn join_itself(&mut self) -> Result<(), Unreachable> {
        let own = self.own;
        let unreachable = |why| Unreachable { peer: own, why };
        self.make_end(own).map_err(unreachable)?;
        let Ib { peers, port, .. } = self;
        let Some(peer) = peer_of(peers, own) else {
            return Ok(());
        };
        if peer.is_gone {
            return Err(unreachable("its connection with itself was given up".into()));
        }
        if !peer.is_connected && !peer.is_closing() {
            port.connect(&peer.end, &peer.end).map_err(|error| unreachable(error.to_string()))?;
            (peer.is_connected, peer.is_ready, peer.broken) = (true, true, None);
        }
        Ok(())
    }

    pub(super) fn introduce(&mut self, to: u32, wants_answer: bool) -> Result<bool, Unreachable> {
        let envelope = self.settings.envelope_len() as u32;
        let Some(peer) = self.peer(to) else { return Ok(true) };
        let body = peer.introduction(envelope).encode();
        let body = Body::Bytes(Bytes::from(&body[..]));
        let message = OutgoingMessage::new(Frame::Meet { wants_answer }, body);
        Ok(self.sockets.send(to, &message)? != Sent::Full)
    }

    pub(super) fn take_introduction(
        &mut self,
        from: u32,
        wants_answer: bool,
        body: &[u8],
    ) -> Result<(), String> {
        let its = IbIntroduction::decode(body).ok_or("its introduction is invalid")?;
        if its.connection == WITHOUT_PORT {
            // A peer that has sent anything over a connection had a port.
            if self.peer(from).is_none_or(|peer| !peer.is_connected) {
                self.go_by_sockets(from);
            }
            return Ok(());
        }
        let own = self.settings.envelope_len();
        if its.envelope as usize != own {
            let its = its.envelope;
            return Err(format!(
                "its envelopes are {its} bytes long, and those of this process {own}"
            ));
        }
        if its.connection == NO_MORE {
            if self.peer(from).is_some_and(|peer| !peer.is_gone) {
                self.say(&format!("process {from} has given up its connection to this one"));
                self.lost.push(from);
            }
            return Ok(());
        }
        self.make_end(from)?;
        if self.peer(from).is_some_and(|peer| !peer.is_gone)
            && self.is_current(from, &its, wants_answer)
        {
            return self.connect_end(from, &its, wants_answer);
        }
        Ok(())
    }

    pub(super) fn connect_end(
        &mut self,
        from: u32,
        its: &IbIntroduction,
        wants_answer: bool,
    ) -> Result<(), String> {
        let Some(peer) = peer_of(&mut self.peers, from) else {
            return Ok(());
        };
        if !peer.is_connected {
            if let Err(error) = self.port.connect(&peer.end, &its.end) {
                return self.refused(from, (*its, wants_answer), error.to_string());
            }
            self.send_slots.extend(peer.connected(its));
        }
        if wants_answer {
            self.unanswered.push(from);
        } else {
            self.becomes_ready(from);
            self.unconfirmed.push(from);
        }
        Ok(())
    }

    pub(super) fn end_introductions(&mut self) {
        for (from, wants_answer, body) in self.introductions.take() {
            if let Err(why) = self.take_introduction(from, wants_answer, &body) {
                if self.peer(from).is_some_and(|peer| !peer.is_gone) {
                    self.try_again(from, format!("a connection cannot be made: {why}"));
                    continue;
                }
                self.say(&format!("there is no contact with process {from}: {why}"));
                self.lost.push(from);
            }
        }
        for to in std::mem::take(&mut self.unanswered) {
            if !self.awaits(to) {
                continue;
            }
            match self.introduce(to, false) {
                Ok(true) => {}
                Ok(false) => self.unanswered.push(to),
                Err(_) => self.lost.push(to),
            }
        }
    }

    pub(super) fn awaits(&mut self, to: u32) -> bool {
        self.peer(to).is_some_and(|peer| !peer.is_gone && !peer.was_sent_to && peer.is_connected)
            && !self.sockets.has_left(to)
    }
}
