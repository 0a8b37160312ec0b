//! What a lane keeps about each process it talks to: sequence numbers, what waits to leave, what came too early.

use crate::request::RequestId;
use oxmpi_wire::{Announced, Envelope, Frame};
use std::collections::{BTreeMap, VecDeque};

/// One peer.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Number of the next message that matches, to it: how many were sent to it so far.
    pub(crate) next_send: u64,
    /// Number of the next message that matches, from it: how many have come in their turn so far.
    pub(crate) expected: u64,
    /// Bytes of the messages sent to it so far.
    pub(crate) bytes_sent: u64,
    /// Bytes of the messages that have come from it, or were announced, in their turn so far.
    pub(crate) bytes_received: u64,
    /// What could not leave yet, in order.
    pub(crate) waiting: VecDeque<Waiting>,
    /// Announced messages whose data are being sent.
    pub(crate) streams: VecDeque<RequestId>,
    /// Messages that came before their turn, by their number.
    pub(crate) early: BTreeMap<u64, Early>,
    /// The sender's requests of messages that it has withdrawn before they came.
    pub(crate) withdrawn: Vec<u64>,
    /// The sender's requests of messages that nobody gets, which it was not told.
    pub(crate) nobodys: Vec<u64>,
    /// Where the next parts of a long body go.
    pub(crate) body: Option<BodyTarget>,
    /// Nothing more comes from it and nothing goes to it.
    pub(crate) lost: bool,
    /// Whether it stands in the lane's list of peers with work.
    pub(crate) listed: bool,
}

/// Something that waits for room.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A send that has not begun.
    Start(RequestId),
    /// An answer of the protocols.
    Answer(Frame),
}

/// Where the rest of a body goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyTarget {
    /// Into the buffer of a receive, its first byte at packed byte `base`.
    Receive {
        /// The receive.
        request: RequestId,
        /// Place of the body in the message.
        base: usize,
    },
    /// Into an unexpected message.
    Unexpected {
        /// Its context.
        context: u32,
        /// Its key there.
        key: u32,
    },
    /// Into a message that was matched by a probe.
    Message(RequestId),
    /// Into a message that came before its turn, with this number.
    Early(u64),
    /// Nowhere: nobody wants it.
    Nowhere,
}

/// A message that came before its turn.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) envelope: Envelope,
    pub(crate) kind: EarlyKind,
}

/// What came.
#[derive(Debug)]
pub(crate) enum EarlyKind {
    /// The data, as far as they have come, and the sender's request if it waits for the match.
    Eager { data: Vec<u8>, total: usize, sync: Option<u64> },
    /// An announcement, and what came with it of the data.
    Rendezvous { announced: Announced, first: Vec<u8> },
}

/// When a message comes, judged by its number modulo 256.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Now.
    Now,
    /// Too early; this is its full number.
    Early(u64),
    /// It has come before.
    Again,
}

impl EarlyKind {
    /// Length of the whole message, bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            EarlyKind::Eager { total, .. } => *total as u64,
            EarlyKind::Rendezvous { announced, .. } => announced.length,
        }
    }
}

impl Peer {
    /// A message of so many bytes has gone to it.
    #[inline(always)]
    pub(crate) fn count_out(&mut self, bytes: u64) {
        self.next_send = self.next_send.wrapping_add(1);
        self.bytes_sent = self.bytes_sent.wrapping_add(bytes);
    }

    /// A message of so many bytes has come from it in its turn.
    #[inline(always)]
    pub(crate) fn count_in(&mut self, bytes: u64) {
        self.expected = self.expected.wrapping_add(1);
        self.bytes_received = self.bytes_received.wrapping_add(bytes);
    }

    /// Judges a message by its number modulo 256. At most 127 are under way, so its distance from the expected one
    /// fits a signed byte.
    #[inline]
    pub(crate) fn turn(&self, sequence: u8) -> Turn {
        let ahead = sequence.wrapping_sub(self.expected as u8) as i8;
        match ahead {
            0 => Turn::Now,
            1.. => Turn::Early(self.expected.wrapping_add(ahead as u64)),
            _ => Turn::Again,
        }
    }

    /// Whether anything waits to leave.
    pub(crate) fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.streams.is_empty()
    }

    /// The next message whose turn has come, if it is whole. The caller counts it ([`Peer::count_in`]).
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
    fn a_number_modulo_256_finds_its_turn() {
        let mut p = Peer { expected: 254, ..Peer::default() };
        assert_eq!(p.turn(254), Turn::Now);
        assert_eq!(p.turn(1), Turn::Early(257));
        assert_eq!(p.turn(253), Turn::Again);
        p.expected = u64::MAX;
        assert_eq!(p.turn(0), Turn::Early(0));
    }
}
