//! The state of a lane for each peer: sequence numbers, the backlog, and early messages.

use crate::request::RequestId;
use oxmpi_wire::{Announced, Envelope, Frame};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The number of the next message to the peer: messages sent before.
    pub(crate) next_send: u64,
    /// The number of the next message from the peer: messages that have arrived in order.
    pub(crate) expected: u64,
    pub(crate) bytes_sent: u64,
    /// With announced messages.
    pub(crate) bytes_received: u64,
    pub(crate) backlog: VecDeque<BacklogEntry>,
    /// Announced messages whose data are being sent.
    pub(crate) streams: VecDeque<RequestId>,
    /// Messages that arrived before an earlier one, by their number.
    pub(crate) early: BTreeMap<u64, Early>,
    /// The sender's requests of messages that were withdrawn before they arrived.
    pub(crate) withdrawn: Vec<u64>,
    /// The sender's requests of messages that no receive will take, before their notice was sent.
    pub(crate) unmatchable: Vec<u64>,
    /// The place for the next parts of a long body.
    pub(crate) body: Option<BodyTarget>,
    pub(crate) lost: bool,
    pub(crate) listed: bool,
}

#[derive(Debug)]
pub(crate) enum BacklogEntry {
    Start(RequestId),
    Answer(Frame),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyTarget {
    Receive {
        request: RequestId,
        base: usize,
    },
    Unexpected {
        context: u32,
        key: u32,
    },
    Message(RequestId),
    /// The early message with this number.
    Early(u64),
    Nowhere,
}

#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) envelope: Envelope,
    pub(crate) kind: EarlyKind,
}

#[derive(Debug)]
pub(crate) enum EarlyKind {
    /// The data that have arrived; `sync` is the sender's request if the sender waits for the
    /// match.
    Eager {
        data: Vec<u8>,
        total: usize,
        sync: Option<u64>,
    },
    Rendezvous {
        announced: Announced,
        first: Vec<u8>,
    },
}

/// The place of an arriving message in the order of its sender.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArrivalOrder {
    Due,
    /// An earlier message is missing; this is the number, not modulo 256.
    Early(u64),
    Duplicate,
}

impl EarlyKind {
    pub(crate) fn length(&self) -> u64 {
        match self {
            EarlyKind::Eager { total, .. } => *total as u64,
            EarlyKind::Rendezvous { announced, .. } => announced.length,
        }
    }
}

impl Peer {
    #[inline(always)]
    pub(crate) fn count_out(&mut self, bytes: u64) {
        self.next_send = self.next_send.wrapping_add(1);
        self.bytes_sent = self.bytes_sent.wrapping_add(bytes);
    }

    #[inline(always)]
    pub(crate) fn count_in(&mut self, bytes: u64) {
        self.expected = self.expected.wrapping_add(1);
        self.bytes_received = self.bytes_received.wrapping_add(bytes);
    }

    /// The order of a number modulo 256. At most 127 messages are under way, so its distance from
    /// the expected number fits a signed byte.
    #[inline]
    pub(crate) fn order_of(&self, sequence: u8) -> ArrivalOrder {
        let ahead = sequence.wrapping_sub(self.expected as u8) as i8;
        match ahead {
            0 => ArrivalOrder::Due,
            1.. => ArrivalOrder::Early(self.expected.wrapping_add(ahead as u64)),
            _ => ArrivalOrder::Duplicate,
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.backlog.is_empty() || !self.streams.is_empty()
    }

    /// Takes the expected message if it has arrived early and is whole. The caller counts it by
    /// [`Peer::count_in`].
    pub(crate) fn take_early(&mut self) -> Option<Early> {
        let due = self.early.get(&self.expected)?;
        if let EarlyKind::Eager { data, total, .. } = &due.kind
            && data.len() < *total
        {
            return None;
        }
        self.early.remove(&self.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_modulo_256_finds_its_order() {
        let mut p = Peer { expected: 254, ..Peer::default() };
        assert_eq!(p.order_of(254), ArrivalOrder::Due);
        assert_eq!(p.order_of(1), ArrivalOrder::Early(257));
        assert_eq!(p.order_of(253), ArrivalOrder::Duplicate);
        p.expected = u64::MAX;
        assert_eq!(p.order_of(0), ArrivalOrder::Early(0));
    }
}
