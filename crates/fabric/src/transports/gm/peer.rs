//! One peer: its address, the credits in both directions, and the messages under way to it (rules 2
//! to 5 of the module).

use crate::credits::Credits;
use oxmpi_gm::{GmSlot, GmTarget, WordId};
use std::collections::VecDeque;

/// The number of buffers if a process does not count them.
pub(super) const UNCOUNTED: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueuedMessage {
    pub(super) slot: GmSlot,
    pub(super) len: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PeerPort {
    pub(super) target: GmTarget,
    pub(super) key: u32,
    pub(super) word: u64,
    /// Buffers that the peer has provided.
    pub(super) allowed: u32,
}

#[derive(Debug)]
pub(super) struct GmPeer {
    pub(super) key: u32,
    pub(super) word: WordId,
    /// The introduction was sent, with a request for the peer's.
    pub(super) has_requested: bool,
    pub(super) was_answered: bool,
    /// `Some` after the peer's introduction: messages may be sent.
    pub(super) met: Option<PeerPort>,
    pub(super) is_gone: bool,
    /// The two have no communicator any more, and neither waits for the other.
    pub(super) is_detached: bool,
    pub(super) granted: u32,
    pub(super) credits: Credits,
    /// The last number of freed buffers that certainly reached the peer's word.
    confirmed: u64,
    pub(super) is_reporting: bool,
    /// Messages that GM has, in order.
    pub(super) in_flight: VecDeque<QueuedMessage>,
    /// Messages that GM will get again, in order; `given_back` goes before them.
    pub(super) again: VecDeque<QueuedMessage>,
    given_back: Vec<QueuedMessage>,
    /// A send has failed: the queued sends must be dropped.
    pub(super) needs_drop: bool,
    /// The queued sends are being dropped.
    pub(super) is_dropping: bool,
    /// The drop has ended. Nothing is sent until the dropped messages have come back, too.
    is_draining: bool,
    /// The peer is unreachable, and has perhaps left.
    pub(super) has_failed: bool,
}

impl GmPeer {
    pub(super) fn new(key: u32, word: WordId, granted: u32) -> GmPeer {
        GmPeer {
            key,
            word,
            has_requested: false,
            was_answered: false,
            met: None,
            is_gone: false,
            is_detached: false,
            granted,
            credits: Credits::default(),
            confirmed: 0,
            is_reporting: false,
            in_flight: VecDeque::new(),
            again: VecDeque::new(),
            given_back: Vec::new(),
            needs_drop: false,
            is_dropping: false,
            is_draining: false,
            has_failed: false,
        }
    }

    pub(super) fn credits(&self) -> u64 {
        match self.met {
            None => 0,
            Some(PeerPort { allowed: UNCOUNTED, .. }) => u64::MAX,
            Some(PeerPort { allowed, .. }) => self.credits.available(allowed),
        }
    }

    pub(super) fn sends(&mut self, flight: QueuedMessage) -> u32 {
        self.in_flight.push_back(flight);
        self.credits.count_sent()
    }

    pub(super) fn unsends(&mut self) {
        self.credits.sent -= 1;
        self.in_flight.pop_back();
    }

    /// The number for the peer's word, if it is due (rule 4).
    pub(super) fn report_due(&self) -> Option<u64> {
        let is_counted = self.granted != UNCOUNTED && self.granted > 0;
        let can = self.met.is_some() && !self.is_gone && !self.is_reporting && !self.is_stopped();
        (is_counted && can && self.credits.is_report_due(self.granted))
            .then_some(self.credits.freed)
    }

    pub(super) fn reports(&mut self) {
        (self.is_reporting, self.credits.reported) = (true, self.credits.freed);
    }

    pub(super) fn reported(&mut self, is_written: bool) {
        self.is_reporting = false;
        if is_written {
            self.confirmed = self.credits.reported;
        } else {
            self.credits.reported = self.confirmed;
        }
    }

    /// Ends a message, in GM's order. Returns whether its slot is free.
    pub(super) fn lands(&mut self, slot: GmSlot, is_over: bool) -> bool {
        let Some(at) = self.in_flight.iter().position(|flight| flight.slot == slot) else {
            return true;
        };
        let flight = self.in_flight.remove(at);
        self.is_draining &= !self.in_flight.is_empty();
        let is_over = is_over || self.is_gone || self.has_failed;
        if !is_over {
            self.given_back.extend(flight);
        }
        is_over
    }

    /// The drop of all messages to the peer has ended.
    pub(super) fn drop_ended(&mut self) {
        (self.is_dropping, self.is_draining) = (false, !self.in_flight.is_empty());
    }

    /// Puts returned messages before the messages that will be sent again. Returns whether all
    /// these can be sent.
    pub(super) fn gather(&mut self) -> bool {
        if self.needs_drop || self.is_dropping || self.is_draining {
            return false;
        }
        if !self.given_back.is_empty() {
            if !self.in_flight.is_empty() {
                return false;
            }
            for flight in self.given_back.drain(..).rev() {
                self.again.push_front(flight);
            }
        }
        !self.again.is_empty()
    }

    /// Whether older messages go first, or no message may be sent.
    pub(super) fn is_stopped(&self) -> bool {
        self.needs_drop
            || self.is_dropping
            || self.is_draining
            || self.has_failed
            || !self.again.is_empty()
            || !self.given_back.is_empty()
    }

    /// Returns the slots of messages that would be sent again.
    pub(super) fn gives_up(&mut self) -> impl Iterator<Item = GmSlot> {
        self.given_back.drain(..).chain(self.again.drain(..)).map(|flight| flight.slot)
    }

    pub(super) fn is_quiet(&self) -> bool {
        let has_all =
            self.in_flight.is_empty() && self.again.is_empty() && self.given_back.is_empty();
        self.is_gone || has_all && !self.is_reporting
    }
}
