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
        self.in_parts.forget(peer);
        for (from, room, length) in std::mem::take(&mut self.held) {
            if from == peer {
                self.post_room(room);
            } else {
                self.held.push((from, room, length));
            }
        }
        if let Some(known) = self.peer(peer) {
            (known.is_gone, known.rest, known.arriving, known.asks) = (true, None, None, None);
        }
    }

    /// A peer is lost.
    pub(super) fn lose(&mut self, peer: u32, sink: &mut dyn Sink) {
        self.forget(peer);
        sink.lost(peer);
    }

    /// Something to a peer, or from one, has failed.
    pub(super) fn fail(&mut self, name: Name, why: String) {
        if self.failed.iter().all(|known| known.name != name) {
            self.failed.push(Failed { name, why, since: Instant::now() });
        }
        self.polls = POLLS;
    }

    /// Whether something that has failed does not matter, as the peer has left (rule 5); else the peer is lost.
    pub(super) fn settle_failed(&mut self, failed: Failed, sink: &mut dyn Sink) {
        let Failed { name: Name { kind, token, peer }, why, since } = &failed;
        if self.sockets.has_left(*peer) && matches!(kind, Kind::Send | Kind::Frame | Kind::Part) {
            self.in_parts.forget_sending(*token);
            if *token != 0 {
                sink.sent(*token);
            }
        } else if self.address_to(*peer).is_none() {
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
        all &= !self.in_parts.waits_for_room();
        for at in 0..self.peers.len() as u32 {
            let is_detached = self.peer(at).is_none_or(|peer| peer.is_detached);
            all &= is_detached || self.sockets.has_left(at) || self.has_arrived_at(at);
        }
        all
    }

    /// As [`Ofi::has_all_arrived`], of one peer.
    pub(super) fn has_arrived_at(&mut self, at: u32) -> bool {
        let Some(&mut Peer { is_gone, sent, arrived, asked, came, said, .. }) = self.peer(at) else {
            return true;
        };
        if is_gone {
            return true;
        }
        let is_said = said == came || self.send_own(at, Frame::Arrived { number: came });
        let leaves =
            |name: &Name| name.peer == at && matches!(name.kind, Kind::Send | Kind::Frame | Kind::Part);
        let mut is_asked = arrived >= sent || asked == sent;
        if !is_asked && !self.endpoint.is_live(leaves) {
            is_asked = self.send_own(at, Frame::AskArrived { number: sent });
        }
        if let Some(peer) = self.peer(at) {
            peer.said = if is_said { came } else { said };
            peer.asked = if is_asked { sent } else { asked };
        }
        is_said && arrived >= sent
    }

    /// Whether the frames are gone that say so to peers which are still there.
    pub(super) fn has_said_all(&mut self) -> bool {
        let (peers, sockets) = (&self.peers, &mut self.sockets);
        let waits: Vec<bool> = (0..peers.len() as u32)
            .map(|at| {
                let is_there =
                    peers[at as usize].as_ref().is_some_and(|peer| !peer.is_gone && !peer.is_detached);
                is_there && !sockets.has_left(at)
            })
            .collect();
        let is_needed = |name: &Name| {
            name.kind == Kind::Frame && waits.get(name.peer as usize).is_some_and(|waits| *waits)
        };
        !self.endpoint.is_live(is_needed)
    }

    /// A peer asks whether so many messages of its have come.
    pub(super) fn asked_whether_arrived(&mut self, from: u32, number: u64) {
        let Some(peer) = self.peer(from) else { return };
        // Behind the question nothing can come that was sent before it, if there is one context for all (rule 7).
        if GROUPED && peer.came < number {
            peer.asks = Some(number);
            return;
        }
        peer.said = peer.came;
        self.owed.push_back((from, Frame::Arrived { number: number.max(self.came_from(from)) }));
    }

    fn came_from(&self, from: u32) -> u64 {
        self.peers.get(from as usize).and_then(Option::as_ref).map_or(0, |peer| peer.came)
    }

    /// Answers a peer whose question waited for messages, if they have come.
    pub(super) fn answer_question(&mut self, from: u32) {
        let Some(peer) = self.peer(from) else { return };
        if let Some(number) = peer.asks.take_if(|number| peer.came >= *number) {
            peer.said = peer.came;
            self.owed.push_back((from, Frame::Arrived { number }));
        }
    }

    /// Whether this process and a peer wait for each other at their ends.
    pub(super) fn set_detached(&mut self, peer: u32, is_detached: bool) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = is_detached;
        }
    }
}
