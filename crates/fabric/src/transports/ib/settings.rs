use oxmpi_wire::MAX_FRAME_LEN;
use std::time::Duration;

/// The most reads from one peer at a time.
pub(super) const READS: u32 = 8;
/// The most one-sided accesses to one peer at a time.
pub(super) const ACCESSES: u32 = 16;
pub(super) const HEAD: usize = 4;

/// The settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IbSettings {
    /// The longest body of an envelope, in bytes.
    pub tiny: usize,
    pub envelopes: u32,
    /// The most envelopes that all peers share; `None`: each peer has its own.
    pub shared: Option<u32>,
    pub mtu: usize,
    /// The longest time that a peer may be out of reach.
    pub timeout: Duration,
    pub pause: Duration,
    pub rma: bool,
}

impl IbSettings {
    /// The length of an envelope, in bytes.
    pub fn envelope_len(&self) -> usize {
        HEAD + MAX_FRAME_LEN + self.tiny
    }

    /// The longest body of a piece, in bytes: an envelope longer than a packet is filled up to the
    /// end of a packet, as more bytes would cost another packet for each piece.
    pub fn piece_len(&self) -> usize {
        let len = self.envelope_len();
        let packets = len.checked_div(self.mtu).unwrap_or(0);
        let full = (packets * self.mtu).saturating_sub(HEAD + MAX_FRAME_LEN);
        if full == 0 { self.tiny } else { full }
    }

    /// The most operations to one peer at a time.
    pub fn send_depth(&self) -> u32 {
        // One more for the word (rule 3).
        self.envelopes + 1 + READS + if self.rma { ACCESSES } else { 0 }
    }
}
