//! The state of one peer: its end of the connection, and the credits in both directions (rules 2
//! and 3 of the module).

use super::introduction::IbIntroduction;
use super::reconnecting::BrokenConnection;
use oxmpi_verbs::{LocalEnd, SlotId};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct IbPeer {
    pub(super) end: LocalEnd,
    /// The introduction of this process was sent, with the request for the peer's.
    pub(super) has_requested: bool,
    /// The own queue pair is connected with the peer's.
    pub(super) is_connected: bool,
    /// The peer's queue pair is connected with this one: messages may be sent.
    pub(super) is_ready: bool,
    /// The number of the connection, from 1.
    pub(super) connection: u32,
    /// The connection has failed, and nothing has arrived over another one yet.
    pub(super) broken: Option<BrokenConnection>,
    /// Envelopes whose sends have not succeeded yet, the oldest first: number, slot, length.
    pub(super) unacknowledged: VecDeque<(u64, SlotId, usize)>,
    pub(super) was_sent_to: bool,
    pub(super) taken: u64,
    pub(super) is_gone: bool,
    /// The two have no communicator any more, and neither waits for the other.
    pub(super) is_detached: bool,
    /// Envelopes that are posted here for it.
    pub(super) granted: u32,
    /// Envelopes that it has posted for this process.
    allowed: u32,
    sent: u64,
    /// The number of these that it has returned.
    returned: u64,
    /// Its envelopes that were posted again here, and the number of these that was sent to it.
    freed: u64,
    reported: u64,
    pub(super) is_reporting: bool,
    pub(super) in_flight: u32,
    pub(super) reads: u32,
    pub(super) accesses: u32,
}

impl IbPeer {
    pub(super) fn new(end: LocalEnd, granted: u32) -> IbPeer {
        IbPeer {
            end,
            has_requested: false,
            is_connected: false,
            is_ready: false,
            connection: 1,
            broken: None,
            unacknowledged: VecDeque::new(),
            was_sent_to: false,
            taken: 0,
            is_gone: false,
            is_detached: false,
            granted,
            allowed: 0,
            sent: 0,
            returned: 0,
            freed: 0,
            reported: 0,
            is_reporting: false,
            in_flight: 0,
            reads: 0,
            accesses: 0,
        }
    }

    /// Returns the slots of envelopes that had arrived before.
    pub(super) fn connected(&mut self, with: &IbIntroduction) -> Vec<SlotId> {
        (self.is_connected, self.allowed) = (true, with.granted);
        self.returns(with.freed);
        let arrived = self.unacknowledged.iter().take_while(|(number, ..)| *number <= with.taken).count();
        self.unacknowledged.drain(..arrived).map(|(_, slot, _)| slot).collect()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.broken.as_ref().is_some_and(|broken| !broken.is_made)
    }

    pub(super) fn introduction(&self, envelope: u32) -> IbIntroduction {
        let IbPeer { end, granted, connection, taken, freed, .. } = *self;
        IbIntroduction { end, granted, envelope, connection, taken, freed }
    }

    /// The head is the result of [`IbPeer::sends`].
    pub(super) fn posted(&mut self, slot: SlotId, len: usize) {
        self.unacknowledged.push_back((self.sent, slot, len));
        self.was_sent_to = true;
    }

    pub(super) fn acknowledged(&mut self, slot: SlotId) {
        self.unacknowledged.retain(|(_, known, _)| *known != slot);
    }

    pub(super) fn credits(&self) -> u64 {
        (u64::from(self.allowed) + self.returned).saturating_sub(self.sent)
    }

    pub(super) fn returns(&mut self, number: u64) {
        // Credits never exceed the posted envelopes.
        self.returned = self.returned.max(number.min(self.sent));
    }

    pub(super) fn returns_lower(&mut self, lower: u32) {
        let more = lower.wrapping_sub(self.returned as u32);
        if more <= u32::MAX / 2 {
            self.returns(self.returned + u64::from(more));
        }
    }

    pub(super) fn sends(&mut self) -> u32 {
        self.sent += 1;
        self.in_flight += 1;
        self.reported = self.freed;
        self.freed as u32
    }

    pub(super) fn frees(&mut self) {
        self.freed += 1;
    }

    /// The number for its word, due when the peer has used up half of the credits it knows of.
    pub(super) fn report(&mut self) -> Option<u64> {
        let due = u64::from(self.granted / 2).max(1);
        let is_due =
            self.is_ready && !self.is_gone && !self.is_reporting && self.freed - self.reported >= due;
        if !is_due {
            return None;
        }
        (self.is_reporting, self.reported) = (true, self.freed);
        Some(self.freed)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.is_gone || self.in_flight == 0 && self.unacknowledged.is_empty() && !self.is_reporting
    }
}
