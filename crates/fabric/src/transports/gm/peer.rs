//! What is known of one peer: where it is, the credits in both directions, and what is on its way to it (rules 2 to 5 of the module).

use oxmpi_gm::{GmSlot, GmTarget, WordId};
use std::collections::VecDeque;

/// As many as the peer likes: its messages are not counted.
pub(super) const UNCOUNTED: u32 = u32::MAX;

/// A message that GM has, or that is to be given to it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flight {
    pub(super) slot: GmSlot,
    pub(super) len: usize,
}

/// Where a peer has its port, and what messages to it need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met {
    pub(super) target: GmTarget,
    pub(super) key: u32,
    /// The address of its word.
    pub(super) word: u64,
    /// Buffers that it has provided.
    pub(super) allowed: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct GmPeer {
    /// What its messages have in their heads.
    pub(super) key: u32,
    pub(super) word: WordId,
    /// The introduction of this process was sent, with the request for the peer's.
    pub(super) has_asked: bool,
    /// The answer to that has come.
    pub(super) was_answered: bool,
    /// It has introduced itself, so it may be sent to.
    pub(super) met: Option<Met>,
    /// It is lost: nothing goes to it.
    pub(super) is_gone: bool,
    /// The two have no communicator any more, and neither waits for the other.
    pub(super) is_detached: bool,
    /// Buffers that are provided here for it.
    pub(super) granted: u32,
    /// Messages that were sent to it.
    sent: u64,
    /// How many buffers it has provided again, as it has said.
    returned: u64,
    /// Buffers that were provided again here after messages of its, and how many of these it was sent, and surely knows of.
    freed: u64,
    reported: u64,
    confirmed: u64,
    /// The word with the number that was reported last is being written.
    pub(super) is_reporting: bool,
    /// Messages that GM has, in order.
    pub(super) in_flight: VecDeque<Flight>,
    /// Messages that are to be given to GM again, in order, and before them those that GM gives back now.
    pub(super) again: VecDeque<Flight>,
    given_back: Vec<Flight>,
    /// Something has failed, and what is queued with GM is to be dropped, or being dropped.
    pub(super) needs_drop: bool,
    pub(super) is_dropping: bool,
    /// It is not reached any more, and has perhaps left.
    pub(super) has_failed: bool,
}

impl GmPeer {
    pub(super) fn new(key: u32, word: WordId, granted: u32) -> GmPeer {
        GmPeer {
            key,
            word,
            has_asked: false,
            was_answered: false,
            met: None,
            is_gone: false,
            is_detached: false,
            granted,
            sent: 0,
            returned: 0,
            freed: 0,
            reported: 0,
            confirmed: 0,
            is_reporting: false,
            in_flight: VecDeque::new(),
            again: VecDeque::new(),
            given_back: Vec::new(),
            needs_drop: false,
            is_dropping: false,
            has_failed: false,
        }
    }

    /// Messages that may be sent to it now.
    pub(super) fn credits(&self) -> u64 {
        match self.met {
            None => 0,
            Some(Met { allowed: UNCOUNTED, .. }) => u64::MAX,
            Some(Met { allowed, .. }) => (u64::from(allowed) + self.returned).saturating_sub(self.sent),
        }
    }

    /// The peer has returned so many buffers in all.
    pub(super) fn returns(&mut self, number: u64) {
        // More than were sent cannot be: credits never exceed what is provided.
        self.returned = self.returned.max(number.min(self.sent));
    }

    /// As [`GmPeer::returns`] of the lower half of the number, as a message has it.
    pub(super) fn returns_lower(&mut self, lower: u32) {
        let more = lower.wrapping_sub(self.returned as u32);
        if more <= u32::MAX / 2 {
            self.returns(self.returned + u64::from(more));
        }
    }

    /// A message is sent. What its head reports.
    pub(super) fn sends(&mut self, flight: Flight) -> u32 {
        self.sent += 1;
        self.in_flight.push_back(flight);
        self.reported = self.freed;
        self.freed as u32
    }

    /// The message that was noted last is not sent.
    pub(super) fn unsends(&mut self) {
        self.sent -= 1;
        self.in_flight.pop_back();
    }

    /// A buffer was provided again after a message of its.
    pub(super) fn frees(&mut self) {
        self.freed += 1;
    }

    /// The number that is to be written at the peer, if it is due: half of its credits are used up as far as it knows.
    pub(super) fn report_due(&self) -> Option<u64> {
        let due = u64::from(self.granted / 2).max(1);
        let is_counted = self.granted != UNCOUNTED && self.granted > 0;
        let can = self.met.is_some() && !self.is_gone && !self.is_reporting && !self.is_stopped();
        (is_counted && can && self.freed - self.reported >= due).then_some(self.freed)
    }

    /// That number is being written.
    pub(super) fn reports(&mut self) {
        (self.is_reporting, self.reported) = (true, self.freed);
    }

    /// The word was written, or not.
    pub(super) fn reported(&mut self, is_written: bool) {
        self.is_reporting = false;
        if is_written {
            self.confirmed = self.reported;
        } else {
            self.reported = self.confirmed;
        }
    }

    /// A message is over that GM had, as GM ends them in order: where it lies, and whether it is the caller's, and not to be sent again.
    pub(super) fn lands(&mut self, slot: GmSlot, is_over: bool) -> bool {
        let Some(at) = self.in_flight.iter().position(|flight| flight.slot == slot) else { return true };
        let flight = self.in_flight.remove(at);
        let is_over = is_over || self.is_gone || self.has_failed;
        if !is_over {
            self.given_back.extend(flight);
        }
        is_over
    }

    /// Puts what GM has given back before what is to be sent again, if it gives back no more. Whether that can be sent.
    pub(super) fn gather(&mut self) -> bool {
        if self.needs_drop || self.is_dropping {
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

    /// Nothing new may be sent, as something older is to be sent first, or nothing at all.
    pub(super) fn is_stopped(&self) -> bool {
        self.needs_drop
            || self.is_dropping
            || self.has_failed
            || !self.again.is_empty()
            || !self.given_back.is_empty()
    }

    /// It is gone, or is not reached any more: the slots of what would be sent again.
    pub(super) fn gives_up(&mut self) -> impl Iterator<Item = GmSlot> {
        self.given_back.drain(..).chain(self.again.drain(..)).map(|flight| flight.slot)
    }

    /// Nothing is under way to it any more.
    pub(super) fn is_quiet(&self) -> bool {
        let has_all = self.in_flight.is_empty() && self.again.is_empty() && self.given_back.is_empty();
        self.is_gone || has_all && !self.is_reporting
    }
}
