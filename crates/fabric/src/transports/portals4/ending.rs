//! The end of a process, and peers that are lost or have left (rule 6 of the module).

use super::{GRACE, POLLS, Portals, PortalsFailure};
use crate::FrameSink;
use std::time::Instant;

impl Portals {
    pub(super) fn forget(&mut self, peer: u32) {
        self.introduced.remove(&peer);
        self.never_met.insert(peer);
        self.unanswered.retain(|to| *to != peer);
        self.outbox.retain(|(to, ..)| *to != peer);
        if let Some(known) = self.peer(peer) {
            known.is_gone = true;
            known.wants_stop = false;
            known.refused.clear();
        }
    }

    pub(super) fn lose(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.forget(peer);
        sink.lost(peer);
    }

    pub(super) fn fail(&mut self, peer: u32, why: String) {
        if self.failed.iter().all(|known| known.peer != peer) {
            self.failed.push(PortalsFailure { peer, why, since: Instant::now() });
        }
        self.polls = POLLS;
    }

    pub(super) fn settle_failures(&mut self, sink: &mut dyn FrameSink) {
        for failed in std::mem::take(&mut self.failed) {
            let PortalsFailure { peer, why, since } = &failed;
            if self.peer(*peer).is_none_or(|peer| peer.is_gone) {
            } else if self.sockets.has_left(*peer) {
                self.end_sends_to(*peer, sink);
            } else if since.elapsed() < GRACE {
                self.failed.push(failed);
            } else {
                (self.tell.0)(&format!(
                    "rank {}: Portals 4: nothing goes to process {peer} any more: {why}",
                    self.own
                ));
                self.lose(*peer, sink);
            }
        }
    }

    fn end_sends_to(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        let is_to =
            |(number, (to, token)): (&u32, &(u32, u64))| (*to == peer).then_some((*number, *token));
        for (number, token) in self.announced.iter().filter_map(is_to).collect::<Vec<_>>() {
            self.withdraw_exposed(number);
            self.announced.remove(&number);
            sink.sent(token);
        }
        if let Some(peer) = self.peer(peer) {
            peer.refused.clear();
        }
    }

    /// Whether all sent messages have arrived, and all announced ones were received.
    pub(super) fn has_all_arrived(&mut self) -> bool {
        (0..self.peers.len() as u32)
            .all(|at| self.peer(at).is_none_or(|peer| peer.is_detached) || self.has_arrived_at(at))
    }

    pub(super) fn has_arrived_at(&mut self, at: u32) -> bool {
        let Some(peer) = self.peer(at).filter(|peer| !peer.is_gone) else { return true };
        let is_through = peer.under_way == 0 && peer.refused.is_empty() && !peer.wants_stop;
        let is_done = is_through
            && self.fetches.iter().all(|one| one.from != at)
            && self.announced.values().all(|(to, _)| *to != at)
            && self.outbox.iter().all(|(to, ..)| *to != at);
        is_done || self.sockets.has_left(at)
    }

    pub(super) fn set_detached(&mut self, peer: u32, is_detached: bool) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = is_detached;
        }
    }
}
