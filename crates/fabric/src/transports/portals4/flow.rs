//! Flow control for the entry for messages, which the network disables if it has no room.
//!
//! Events, blocks and the network's own places for unexpected messages are limited. An entry
//! without room for a message refuses it and all later messages, from all processes, until it is
//! enabled. If it were enabled while messages of a peer are under way, it could take a later
//! message after it has refused an earlier one. So
//!
//! 1. The process with the disabled entry sends [`Word::Stop`] to all introduced peers, and
//!    introduces itself to no other.
//! 2. A peer that gets it puts nothing more there. When each of its puts was acknowledged or
//!    refused, it sends [`Word::Stopped`].
//! 3. When all peers have sent that, or are lost, the process enables the entry and sends
//!    [`Word::Go`].
//! 4. A peer that gets it puts the refused messages again, in their old order, before new ones.

use super::exchange::Word;
use super::{Portals, PortalsName};
use oxmpi_portals::{PortalsEnding, PutMessage};
use std::collections::HashSet;

/// The own entry is disabled.
#[derive(Debug)]
pub(super) struct ClosedEntry {
    /// Peers that have not sent [`Word::Stopped`].
    waiting: HashSet<u32>,
    /// Peers that get [`Word::Go`].
    notified: Vec<u32>,
}

impl Portals {
    pub(super) fn close_entry(&mut self) {
        if self.closed.is_some() {
            return;
        }
        let known = self.peers.iter().enumerate();
        let known = known.filter(|(_, peer)| peer.as_ref().is_some_and(|peer| !peer.is_gone));
        let mut notified: Vec<u32> = known.map(|(at, _)| at as u32).collect();
        notified.extend(self.introduced.iter().copied());
        for to in notified.clone() {
            self.say(to, false, Word::Stop);
        }
        self.closed = Some(ClosedEntry { waiting: notified.iter().copied().collect(), notified });
    }

    pub(super) fn take_word(&mut self, from: u32, word: Word) {
        self.is_flow_due = true;
        match word {
            Word::Stop => match self.peer(from) {
                Some(peer) => (peer.is_stopped, peer.wants_stop) = (true, true),
                None => self.say(from, false, Word::Stopped),
            },
            Word::Go => {
                if let Some(peer) = self.peer(from) {
                    peer.is_stopped = false;
                }
            }
            Word::Stopped => {
                if let Some(closed) = &mut self.closed {
                    closed.waiting.remove(&from);
                }
            }
            Word::Introduction(_) => {}
        }
    }

    pub(super) fn go_on_with_flow(&mut self) {
        if std::mem::take(&mut self.is_flow_due) {
            for at in 0..self.peers.len() as u32 {
                self.go_on_with_peer(at);
            }
        }
        let Some(mut closed) = self.closed.take() else { return };
        closed.waiting.retain(|peer| {
            let at = *peer as usize;
            let is_gone =
                self.peers.get(at).is_some_and(|one| one.as_ref().is_some_and(|one| one.is_gone));
            !is_gone && !self.never_met.contains(peer) && !self.sockets.has_left(*peer)
        });
        if !closed.waiting.is_empty() {
            self.closed = Some(closed);
            return;
        }
        if let Err(error) = self.interface.enable() {
            self.give_up(&error.to_string());
        }
        for to in closed.notified {
            self.say(to, false, Word::Go);
        }
    }

    fn go_on_with_peer(&mut self, at: u32) {
        let Some(peer) = self.peer(at) else { return };
        if peer.wants_stop && peer.under_way == 0 {
            peer.wants_stop = false;
            self.say(at, false, Word::Stopped);
        } else if !peer.is_stopped && !peer.refused.is_empty() {
            self.put_refused(at);
        }
        let waits = self.peer(at).is_some_and(|peer| peer.wants_stop || !peer.refused.is_empty());
        self.is_flow_due |= waits;
    }

    fn put_refused(&mut self, to: u32) {
        while let Some(peer) = self.peer(to)
            && let Some((number, message)) = peer.refused.pop_first()
        {
            match self.put(to, number, message) {
                Ok(None) => {}
                Ok(Some(message)) => {
                    if let Some(peer) = self.peer(to) {
                        peer.refused.insert(number, message);
                    }
                    return;
                }
                Err(why) => return self.fail(to, why),
            }
        }
    }

    pub(super) fn put(
        &mut self,
        to: u32,
        number: u64,
        message: PutMessage,
    ) -> Result<Option<PutMessage>, String> {
        let Some(entry) = self.peer(to).map(|peer| peer.messages) else { return Ok(Some(message)) };
        let put = self.interface.put(entry, message, PortalsName::Put { to, number });
        match put.map_err(|error| error.to_string())? {
            Ok(()) => {
                if let Some(peer) = self.peer(to) {
                    peer.under_way += 1;
                }
                Ok(None)
            }
            Err(message) => Ok(Some(message)),
        }
    }

    pub(super) fn end_put(&mut self, to: u32, number: u64, ending: PortalsEnding) {
        let Some(peer) = self.peer(to) else { return };
        peer.under_way = peer.under_way.saturating_sub(1);
        match ending {
            PortalsEnding::Refused(message) if !peer.is_gone => {
                peer.is_stopped = true;
                peer.refused.insert(number, message);
                self.is_flow_due = true;
            }
            PortalsEnding::Failed(why) => self.fail(to, why),
            _ => {}
        }
    }
}
