//! Messages to peers, messages that are sent again, and the words by which buffers are returned
//! (rules 3 to 5 of the module).

use super::peer::{GmPeer, PeerPort, QueuedMessage};
use super::{Gm, GmPort, HEAD};
use crate::transports::peer_of;
use crate::{OutgoingMessage, Sent, Unreachable};
use oxmpi_gm::{GmSlot, GmTarget};
use oxmpi_wire::MAX_FRAME_LEN;

const SLOTS: usize = 8;

impl<P: GmPort> Gm<P> {
    /// Whether a message may take a send token: the last token is for words and drops (rule 4).
    fn has_token(&self) -> bool {
        self.port.send_tokens() > 1
    }

    /// The most messages to one peer, so that a peer that does not answer leaves tokens for others.
    fn most_in_flight(&self) -> usize {
        (self.tokens as usize * 3 / 4).max(1)
    }

    /// Makes at most two slots for each token: one for a message that GM has, one for a returned
    /// one.
    fn send_slot(&mut self) -> Result<Option<GmSlot>, String> {
        if self.send_slots.is_empty() && self.made_send_slots < 2 * self.tokens {
            match self.port.more_slots(SLOTS) {
                Ok(slots) => {
                    self.made_send_slots += slots.len() as u32;
                    self.send_slots = slots;
                }
                Err(_) if self.made_send_slots > 0 => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(self.send_slots.pop())
    }

    pub(super) fn has_room(&mut self, to: u32) -> bool {
        let (has_token, most) = (self.has_token(), self.most_in_flight());
        let Gm { peers, port, .. } = self;
        let known = peer_of(peers, to);
        let Some(peer) = known.filter(|peer| !peer.is_gone && peer.met.is_some()) else {
            return false;
        };
        if peer.credits() == 0 {
            peer.credits.take_returned(port.word(peer.word));
        }
        has_token && peer.credits() > 0 && !peer.is_stopped() && peer.in_flight.len() < most
    }

    pub(super) fn send_message(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
    ) -> Result<Sent, Unreachable> {
        let has_room = self.has_room(to);
        let Some(peer) = self.peer(to).filter(|peer| !peer.is_gone) else {
            return Err(Unreachable { peer: to, why: "it is gone".into() });
        };
        let (Some(met), true) = (peer.met, has_room) else { return Ok(Sent::Full) };
        let slot = self.send_slot().map_err(|why| Unreachable { peer: to, why })?;
        let Some(slot) = slot else { return Ok(Sent::Full) };
        let Some(len) = self.fill(slot, message) else {
            self.send_slots.push(slot);
            let why = format!("a body of {} bytes is longer than a message", message.body.len());
            return Err(Unreachable { peer: to, why });
        };
        Ok(self.dispatch_slot(to, met, QueuedMessage { slot, len }))
    }

    /// Returns the whole length in bytes; `None`: the message does not fit.
    fn fill(&mut self, slot: GmSlot, message: &OutgoingMessage<'_>) -> Option<usize> {
        let bytes = self.port.slot_mut(slot);
        let mut encoded = [0; MAX_FRAME_LEN];
        let frame = message.frame.encode(message.sequence, self.own, &mut encoded);
        let end = HEAD + frame + message.body.len();
        let (frame_room, body_room) = bytes.get_mut(HEAD..end)?.split_at_mut(frame);
        frame_room.copy_from_slice(&encoded[..frame]);
        message.body.fill(0, body_room.into());
        Some(end)
    }

    fn dispatch_slot(&mut self, to: u32, met: PeerPort, flight: QueuedMessage) -> Sent {
        let Some(peer) = peer_of(&mut self.peers, to) else {
            self.send_slots.push(flight.slot);
            return Sent::Full;
        };
        let returned = peer.sends(flight);
        if let Some(head) = self.port.slot_mut(flight.slot).first_chunk_mut::<HEAD>() {
            head[..4].copy_from_slice(&returned.to_le_bytes());
            head[4..].copy_from_slice(&met.key.to_le_bytes());
        }
        if self.port.send(to, met.target, flight.slot, flight.len).is_err() {
            peer.unsends();
            self.send_slots.push(flight.slot);
            return Sent::Full;
        }
        Sent::Done
    }

    pub(super) fn report(&mut self, to: u32) {
        let Some(peer) = peer_of(&mut self.peers, to) else {
            return;
        };
        let (Some(number), Some(met)) = (peer.report_due(), peer.met) else { return };
        match self.port.put_word(to, met.target, peer.word, (met.word, number)) {
            Ok(()) => peer.reports(),
            Err(_) if self.unreported.contains(&to) => {}
            Err(_) => self.unreported.push(to),
        }
    }

    pub(super) fn go_on(&mut self) {
        self.begin_gets();
        self.begin_puts();
        for to in std::mem::take(&mut self.stopped) {
            self.start_again(to);
            if self
                .peer(to)
                .is_some_and(|peer| peer.is_stopped() && !peer.has_failed || peer.needs_drop)
            {
                self.stopped.push(to);
            } else {
                self.report(to);
            }
        }
        if self.port.send_tokens() > 0 {
            for to in std::mem::take(&mut self.unreported) {
                self.report(to);
            }
        }
    }

    /// The peers at a port: one process, and processes that had the port before it.
    pub(super) fn peers_of(
        &mut self,
        target: GmTarget,
    ) -> impl Iterator<Item = (u32, &mut GmPeer)> {
        let known =
            (0..).zip(&mut self.peers).filter_map(|(at, peer)| Some((at, peer.as_deref_mut()?)));
        known.filter(move |(_, peer)| peer.met.is_some_and(|met| met.target == target))
    }

    /// If it is due, drops everything that GM has for the port of a peer. Another process may have
    /// the port now. This process sends nothing to it until the drop has ended, and then sends the
    /// dropped messages again, so that they stay in order.
    fn drop_if_due(&mut self, to: u32) {
        let Some(peer) = self.peer(to).filter(|peer| peer.needs_drop) else { return };
        let Some(PeerPort { target, .. }) = peer.met else { return };
        if self.port.drop_sends(to, target).is_err() {
            return;
        }
        let mut stopped = Vec::new();
        for (at, peer) in self.peers_of(target) {
            (peer.needs_drop, peer.is_dropping) = (false, true);
            stopped.push(at);
        }
        stopped.retain(|at| *at != to && !self.stopped.contains(at));
        self.stopped.append(&mut stopped);
    }

    fn start_again(&mut self, to: u32) {
        self.drop_if_due(to);
        let Gm { peers, port, .. } = self;
        let Some(peer) = peer_of(peers, to) else {
            return;
        };
        let Some(met) = peer.met else { return };
        if !peer.gather() || peer.is_gone {
            return;
        }
        while port.send_tokens() > 1
            && let Some(flight) = peer.again.front().copied()
            && port.send(to, met.target, flight.slot, flight.len).is_ok()
        {
            peer.again.pop_front();
            peer.in_flight.push_back(flight);
        }
    }
}
