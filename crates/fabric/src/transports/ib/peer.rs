//! One peer: its end of the connection, and the credits in both directions (rules 2 and 3 of the
//! module).

use super::introduction::IbIntroduction;
use super::reconnecting::BrokenConnection;
use crate::credits::Credits;
use oxmpi_verbs::{LocalEnd, SlotId};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct IbPeer {
    pub(super) end: LocalEnd,
    /// The introduction was sent, with a request for the peer's.
    pub(super) has_requested: bool,
    /// The own queue pair is connected with the peer's.
    pub(super) is_connected: bool,
    /// The peer's queue pair is connected with the own one: messages may be sent.
    pub(super) is_ready: bool,
    /// The number of the connection, from 1.
    pub(super) connection: u32,
    /// The connection has failed, and nothing has arrived over another one.
    pub(super) broken: Option<BrokenConnection>,
    /// Envelopes whose sends have not succeeded, oldest first: number, slot, length.
    pub(super) unacknowledged: VecDeque<(u64, SlotId, usize)>,
    pub(super) was_sent_to: bool,
    pub(super) taken: u64,
    pub(super) is_gone: bool,
    /// The two have no communicator any more, and neither waits for the other.
    pub(super) is_detached: bool,
    /// Envelopes that are posted for the peer.
    pub(super) granted: u32,
    /// Envelopes that the peer has posted for this process.
    allowed: u32,
    pub(super) credits: Credits,
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
            credits: Credits::default(),
            is_reporting: false,
            in_flight: 0,
            reads: 0,
            accesses: 0,
        }
    }

    /// Returns the slots of envelopes that had arrived before.
    pub(super) fn connected(&mut self, with: &IbIntroduction) -> Vec<SlotId> {
        (self.is_connected, self.allowed) = (true, with.granted);
        self.credits.take_returned(with.freed);
        let arrived =
            self.unacknowledged.iter().take_while(|(number, ..)| *number <= with.taken).count();
        self.unacknowledged.drain(..arrived).map(|(_, slot, _)| slot).collect()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.broken.as_ref().is_some_and(|broken| !broken.is_made)
    }

    pub(super) fn introduction(&self, envelope: u32) -> IbIntroduction {
        let IbPeer { end, granted, connection, taken, .. } = *self;
        IbIntroduction { end, granted, envelope, connection, taken, freed: self.credits.freed }
    }

    /// Call it after [`IbPeer::sends`].
    pub(super) fn posted(&mut self, slot: SlotId, len: usize) {
        self.unacknowledged.push_back((self.credits.sent, slot, len));
        self.was_sent_to = true;
    }

    pub(super) fn acknowledged(&mut self, slot: SlotId) {
        self.unacknowledged.retain(|(_, known, _)| *known != slot);
    }

    pub(super) fn credits(&self) -> u64 {
        self.credits.available(self.allowed)
    }

    pub(super) fn sends(&mut self) -> u32 {
        self.in_flight += 1;
        self.credits.count_sent()
    }

    /// The number for the peer's word, if it is due (rule 3).
    pub(super) fn report(&mut self) -> Option<u64> {
        let can = self.is_ready && !self.is_gone && !self.is_reporting;
        if !can || !self.credits.is_report_due(self.granted) {
            return None;
        }
        (self.is_reporting, self.credits.reported) = (true, self.credits.freed);
        Some(self.credits.freed)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.is_gone || self.in_flight == 0 && self.unacknowledged.is_empty() && !self.is_reporting
    }
}
