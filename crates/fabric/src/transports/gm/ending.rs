//! Peers that leave, fail, are lost or belong to another job, and the waits of a process that ends
//! (rules 5 and 7 of the module).

use super::peer::{self, GmPeer};
use super::{GRACE, Gm, GmPort, POLLS};
use crate::transports::peer_of;
use crate::{FrameSink, Membership};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct FailedSend {
    pub(super) peer: u32,
    pub(super) why: String,
    pub(super) since: Instant,
}

impl<P: GmPort> Gm<P> {
    pub(super) fn forget(&mut self, peer: u32) {
        self.unanswered.retain(|to| *to != peer);
        let Some(known) = peer_of(&mut self.peers, peer) else {
            return;
        };
        if !std::mem::replace(&mut known.is_gone, true) {
            let granted = std::mem::take(&mut known.granted);
            self.send_slots.extend(known.gives_up());
            if granted != peer::UNCOUNTED {
                self.spare += granted;
            }
        }
        self.forget_landings(peer);
        self.forget_lent(peer);
    }

    pub(super) fn lose(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.forget(peer);
        sink.lost(peer);
    }

    /// A send to a peer has failed, for another reason than a lack of buffers.
    pub(super) fn fail(&mut self, to: u32, why: String) {
        if self.is_resting {
            return;
        }
        let Some(peer) = peer_of(&mut self.peers, to) else {
            return;
        };
        if !peer.is_gone && !std::mem::replace(&mut peer.has_failed, true) {
            self.send_slots.extend(peer.gives_up());
            self.failed.push(FailedSend { peer: to, why, since: Instant::now() });
        }
        self.polls = POLLS;
    }

    pub(super) fn settle_failed(&mut self, failed: FailedSend, sink: &mut dyn FrameSink) {
        let FailedSend { peer, why, since } = &failed;
        if self.sockets.has_left(*peer) {
            self.drain(sink);
            self.forget(*peer);
        } else if self.peer(*peer).is_none_or(|peer| peer.is_gone) {
        } else if since.elapsed() < GRACE {
            self.failed.push(failed);
        } else {
            self.say(&format!("nothing goes to process {peer} any more: {why}"));
            self.lose(*peer, sink);
        }
    }

    /// Whether all messages have arrived (rule 7), and no peer waits for this process.
    pub(super) fn has_all_arrived(&mut self) -> bool {
        let Gm { peers, sockets, lending, landings, owed, .. } = self;
        let mut is_over = |(at, peer): (usize, &Option<Box<GmPeer>>)| {
            let at = at as u32;
            let owes =
                || lending.owes(at) || landings.owes(at) || owed.iter().any(|(to, ..)| *to == at);
            peer.as_ref().is_none_or(|peer| peer.is_quiet() && !owes() || peer.is_detached)
                || sockets.has_left(at)
        };
        let has_arrived = peers.iter().enumerate().all(&mut is_over);
        let waiting = self.unanswered.clone();
        has_arrived && !waiting.into_iter().any(|to| self.awaits(to) && !self.is_detached(to))
    }

    pub(super) fn is_detached(&mut self, peer: u32) -> bool {
        self.peer(peer).is_some_and(|peer| peer.is_detached)
    }
}

impl<P: GmPort> Membership for Gm<P> {
    fn has_left(&mut self, peer: u32) -> bool {
        let has_left = self.sockets.has_left(peer);
        if has_left {
            self.polls = POLLS;
        }
        has_left
    }

    fn attach(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = false;
        }
        self.sockets.attach(peer);
    }

    fn settle(&mut self, peer: u32) -> bool {
        let owes = self.lending.owes(peer)
            || self.landings.owes(peer)
            || self.owed.iter().any(|(to, ..)| *to == peer);
        let is_quiet = !owes && self.peer(peer).is_none_or(|peer| peer.is_quiet());
        (is_quiet || self.sockets.has_left(peer)) && self.sockets.settle(peer)
    }

    fn detach(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = true;
        }
        self.sockets.detach(peer);
    }

    fn lost_messages(&mut self) -> Option<String> {
        self.sockets.lost_messages()
    }

    fn leave(&mut self) -> bool {
        self.has_all_arrived() && self.sockets.leave()
    }

    fn rest(&mut self) -> bool {
        self.has_all_arrived() && self.sockets.rest()
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.drain(sink);
        self.sockets.await_end(peer, &mut self.introductions.watch(sink));
        self.end_introductions();
    }

    fn remove_failed(&mut self, peer: u32) {
        self.forget(peer);
        self.sockets.remove_failed(peer);
    }
}
