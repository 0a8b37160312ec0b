//! How a process uses its port.

use oxmpi_wire::MAX_FRAME_LEN;
use std::time::Duration;

/// Reads from one peer that may be under way.
pub(super) const READS: u32 = 8;
/// One-sided accesses to one peer that may be under way.
pub(super) const ACCESSES: u32 = 16;
/// Bytes before the frame in an envelope.
pub(super) const HEAD: usize = 4;

/// How a process uses its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IbSettings {
    /// The longest body of an envelope, bytes.
    pub tiny: usize,
    /// Envelopes for each peer.
    pub envelopes: u32,
    /// How many all peers share at most; `None`: each has its own.
    pub shared: Option<u32>,
    /// The MTU of connections, bytes.
    pub mtu: usize,
    /// How long a peer may be out of reach.
    pub timeout: Duration,
    /// How long a connection that has failed is left alone before its next end is made.
    pub pause: Duration,
    /// Whether windows are accessed by the adapter.
    pub rma: bool,
}

impl IbSettings {
    /// The length of an envelope, bytes.
    pub fn envelope_len(&self) -> usize {
        HEAD + MAX_FRAME_LEN + self.tiny
    }

    /// The longest body of a piece of a long message, bytes: an envelope of more than a packet is filled up to the end of a packet, since
    /// the few bytes beyond would cost one more for each piece.
    pub fn piece_len(&self) -> usize {
        let len = self.envelope_len();
        let packets = len.checked_div(self.mtu).unwrap_or(0);
        let full = (packets * self.mtu).saturating_sub(HEAD + MAX_FRAME_LEN);
        if full == 0 { self.tiny } else { full }
    }

    /// Operations that may be under way to one peer.
    pub fn send_depth(&self) -> u32 {
        // One more for the word.
        self.envelopes + 1 + READS + if self.rma { ACCESSES } else { 0 }
    }
}
