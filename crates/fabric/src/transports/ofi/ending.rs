//! The end of a process, and peers that are lost or have left (rules 5 and 7 of the module).

use super::{FailedOperation, GRACE, Name, Ofi, OfiPeer, OperationKind, POLLS};
use crate::FrameSink;
use oxmpi_wire::Frame;
use std::time::Instant;

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    pub(super) fn forget(&mut self, peer: u32) {
        self.unmatched.retain(|(to, ..)| *to != peer);
        self.own_frames.retain(|(to, _)| *to != peer);
        self.unfinished_frames.retain(|to| *to != peer);
        self.unanswered.retain(|to| *to != peer);
        self.introduced.remove(&peer);
        self.in_parts.forget(peer);
        for (from, room, length) in std::mem::take(&mut self.held_rooms) {
            if from == peer {
                self.post_room(room);
            } else {
                self.held_rooms.push((from, room, length));
            }
        }
        if let Some(known) = self.peer(peer) {
            (known.is_gone, known.rest, known.arriving, known.question) = (true, None, None, None);
        }
    }

    pub(super) fn lose(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.forget(peer);
        sink.lost(peer);
    }

    pub(super) fn fail(&mut self, name: Name, why: String) {
        if self.failed.iter().all(|known| known.name != name) {
            self.failed.push(FailedOperation { name, why, since: Instant::now() });
        }
        self.polls = POLLS;
    }

    /// Ignores the failure if the peer has left (rule 5); otherwise the peer is lost.
    pub(super) fn settle_failed(&mut self, failed: FailedOperation, sink: &mut dyn FrameSink) {
        let FailedOperation { name: Name { kind, token, peer }, why, since } = &failed;
        if self.sockets.has_left(*peer) && kind.is_send() {
            self.in_parts.forget_sending(*token);
            if *token != 0 {
                sink.sent(*token);
            }
        } else if self.address_to(*peer).is_none() {
        } else if since.elapsed() < GRACE {
            self.failed.push(failed);
        } else {
            self.say(&format!("nothing goes to process {peer} any more: {why}"));
            self.lose(*peer, sink);
        }
    }

    /// Whether all messages have arrived, and the peers know the same of theirs (rule 7).
    pub(super) fn has_all_arrived(&mut self) -> bool {
        let mut all = self.own_frames.is_empty() && self.unfinished_frames.is_empty();
        all &= !self.in_parts.waits_for_room();
        for at in 0..self.peers.len() as u32 {
            let is_detached = self.peer(at).is_none_or(|peer| peer.is_detached);
            all &= is_detached || self.sockets.has_left(at) || self.has_arrived_at(at);
        }
        all
    }

    pub(super) fn has_arrived_at(&mut self, at: u32) -> bool {
        let Some(&mut OfiPeer {
            is_gone, sent, delivered, last_request, received, reported, ..
        }) = self.peer(at)
        else {
            return true;
        };
        if is_gone {
            return true;
        }
        let is_reported =
            reported == received || self.send_own(at, Frame::Arrived { number: received });
        let leaves = |name: &Name| name.peer == at && name.kind.is_send();
        let mut is_requested = delivered >= sent || last_request == sent;
        if !is_requested && !self.endpoint.is_live(leaves) {
            is_requested = self.send_own(at, Frame::AskArrived { number: sent });
        }
        if let Some(peer) = self.peer(at) {
            peer.reported = if is_reported { received } else { reported };
            peer.last_request = if is_requested { sent } else { last_request };
        }
        is_reported && delivered >= sent
    }

    /// Whether the frames with these numbers have left, to peers that still exist.
    pub(super) fn has_said_all(&mut self) -> bool {
        let (peers, sockets) = (&self.peers, &mut self.sockets);
        let waits: Vec<bool> = (0..peers.len() as u32)
            .map(|at| {
                let is_there = peers[at as usize]
                    .as_ref()
                    .is_some_and(|peer| !peer.is_gone && !peer.is_detached);
                is_there && !sockets.has_left(at)
            })
            .collect();
        let is_needed = |name: &Name| {
            name.kind == OperationKind::Frame
                && waits.get(name.peer as usize).is_some_and(|waits| *waits)
        };
        !self.endpoint.is_live(is_needed)
    }

    pub(super) fn wants_report(&mut self, from: u32, number: u64) {
        if let Some(peer) = self.peer(from) {
            peer.question = Some(number);
        }
        self.report(from);
    }

    /// Sends a requested report. With one context, no earlier message can come behind the request.
    /// With several contexts, the report waits for the requested number of messages (rule 7).
    pub(super) fn report(&mut self, to: u32) {
        let Some(peer) = self.peer(to) else { return };
        let is_due = |number: &mut u64| !GROUPED || peer.received >= *number;
        if let Some(number) = peer.question.take_if(is_due) {
            peer.reported = peer.received;
            let number = number.max(peer.received);
            self.own_frames.push_back((to, Frame::Arrived { number }));
        }
    }

    pub(super) fn set_detached(&mut self, peer: u32, is_detached: bool) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = is_detached;
        }
    }
}
