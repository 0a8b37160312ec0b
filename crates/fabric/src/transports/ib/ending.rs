//! Peers that leave, fail or are lost, and the end of the process (rules 5 to 7 of the module).

use super::peer::IbPeer;
use super::{Ib, IbPort};
use crate::FrameSink;
use crate::transports::peer_of;

impl<P: IbPort> Ib<P> {
    pub(super) fn poll_sockets(&mut self, sink: &mut dyn FrameSink) -> bool {
        let came = self.sockets.poll(None, &mut self.introductions.watch(sink));
        self.end_introductions();
        self.regain();
        for peer in self.introductions.take_lost() {
            self.drain(sink);
            self.lose(peer, sink);
        }
        self.end_sends_to_left();
        self.settle_broken(sink);
        came
    }

    /// Returns the tokens of unfinished messages, whose memory is no longer used.
    pub(super) fn forget(&mut self, peer: u32) -> Vec<u64> {
        self.unanswered.retain(|to| *to != peer);
        self.unconfirmed.retain(|to| *to != peer);
        let Some(known) = peer_of(&mut self.peers, peer) else {
            return Vec::new();
        };
        if !std::mem::replace(&mut known.is_gone, true) {
            // Failed sends have no further completion.
            let ended = known.unacknowledged.len().saturating_sub(known.in_flight as usize);
            self.send_slots.extend(known.unacknowledged.drain(..ended).map(|(_, slot, _)| slot));
            if self.numbers.contains_key(&known.end.queue_pair) {
                self.port.close(known.end.queue_pair);
            } else if self.settings.shared.is_some() {
                self.spare += std::mem::take(&mut known.granted);
            }
        }
        self.forget_readings(peer);
        self.forget_accesses(peer);
        self.forget_lent(peer)
    }

    /// Grants the envelopes of closed queue pairs again (rule 5), after all their completions.
    pub(super) fn regain(&mut self) {
        for queue_pair in self.port.take_closed() {
            let number = self.numbers.remove(&queue_pair);
            self.untouched.remove(&queue_pair);
            if let Some(number) = number
                && self.peer(number).is_some_and(|peer| !peer.is_gone)
            {
                self.closed(number);
                continue;
            }
            let peer = number.and_then(|number| self.peer(number));
            let granted = peer.map_or(0, |peer| std::mem::take(&mut peer.granted));
            if self.settings.shared.is_some() {
                self.spare += granted;
            }
        }
    }

    pub(super) fn lose(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.forget(peer);
        // Without this connection the process only cannot access its own memory by the adapter.
        if peer != self.own {
            sink.lost(peer);
        }
    }

    /// Whether all messages have arrived (rule 6), and no peer waits for this process.
    pub(super) fn has_all_arrived(&mut self) -> bool {
        let Ib { peers, sockets, lending, readings, accesses, .. } = self;
        let mut is_over = |(at, peer): (usize, &Option<Box<IbPeer>>)| {
            let at = at as u32;
            let owes = || lending.owes(at) || readings.owes(at) || accesses.owes(at);
            let is_quiet = |peer: &IbPeer| peer.is_quiet() && !owes();
            peer.as_ref().is_none_or(|peer| is_quiet(peer) || peer.is_detached)
                || sockets.has_left(at)
        };
        let has_arrived = peers.iter().enumerate().all(&mut is_over);
        let waiting = [&self.unconfirmed[..], &self.unanswered[..]].concat();
        has_arrived && !waiting.into_iter().any(|to| self.awaits(to) && !self.is_detached(to))
    }

    pub(super) fn is_detached(&mut self, peer: u32) -> bool {
        self.peer(peer).is_some_and(|peer| peer.is_detached)
    }
}
