//! How a process ends, and what becomes of peers that are lost or have left (rules 5 and 7 of the module).

use super::{Failed, GRACE, Kind, Name, Ofi, POLLS, Peer};
use crate::Sink;
use oxmpi_wire::Frame;
use std::time::Instant;

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    /// Nothing is kept of a peer any more.
    pub(super) fn forget(&mut self, peer: u32) {
        self.unmatched.retain(|(to, ..)| *to != peer);
        self.owed.retain(|(to, _)| *to != peer);
        self.begun.retain(|to| *to != peer);
        self.unmet.retain(|to| *to != peer);
        self.awaited.remove(&peer);
        self.messages.forget(peer);
        for (from, room, length) in std::mem::take(&mut self.held) {
            if from == peer {
                self.post_room(room);
            } else {
                self.held.push((from, room, length));
            }
        }
        if let Some(known) = self.peers.get_mut(peer as usize) {
            *known = None;
        }
    }

    /// A peer is lost.
    pub(super) fn lose(&mut self, peer: u32, sink: &mut dyn Sink) {
        self.forget(peer);
        sink.lost(peer);
    }

    /// Something to a peer, or from one, has failed.
    pub(super) fn fail(&mut self, name: Name, why: String) {
        self.failed.push(Failed { name, why, since: Instant::now() });
        self.polls = POLLS;
    }

    /// Whether something that has failed does not matter, as the peer has left (rule 5); else the peer is lost.
    pub(super) fn settle_failed(&mut self, failed: Failed, sink: &mut dyn Sink) {
        let Failed { name: Name { kind, token, peer }, why, since } = &failed;
        if self.sockets.has_left(*peer) && matches!(kind, Kind::Send | Kind::Frame) {
            if *token != 0 {
                sink.sent(*token);
            }
        } else if self.address_of(*peer).is_none() {
            // It is lost by now.
        } else if since.elapsed() < GRACE {
            self.failed.push(failed);
        } else {
            (self.tell.0)(&format!(
                "rank {}: libfabric, provider {}: nothing goes to process {peer} any more: {why}",
                self.own,
                self.endpoint.provider()
            ));
            self.lose(*peer, sink);
        }
    }

    /// Whether all that was sent has arrived, and the peers know what has come from them (rule 7).
    pub(super) fn has_all_arrived(&mut self) -> bool {
        let mut all = self.owed.is_empty() && self.begun.is_empty();
        all &= !self.messages.waits_for_room();
        for at in 0..self.peers.len() as u32 {
            all &= self.sockets.has_left(at) || self.has_arrived_at(at);
        }
        all && !self.endpoint.is_live(|name| name.kind == Kind::Frame)
    }

    /// As [`Ofi::has_all_arrived`], of one peer.
    pub(super) fn has_arrived_at(&mut self, at: u32) -> bool {
        let Some(&mut Peer { sent, arrived, asked, came, said, .. }) = self.peer(at) else { return true };
        let is_said = said == came || self.send_own(at, Frame::Arrived { number: came });
        let is_asked =
            arrived >= sent || asked == sent || self.send_own(at, Frame::AskArrived { number: sent });
        if let Some(peer) = self.peer(at) {
            peer.said = if is_said { came } else { said };
            peer.asked = if is_asked { sent } else { asked };
        }
        is_said && arrived >= sent
    }
}
