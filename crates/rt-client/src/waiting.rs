//! The note about a long wait in a rank's segment (`oxmpi_shm::wait_note`): written by the rank,
//! read by the launcher.
//!
//! ```text
//! note    u64: start of wait     u64: last arrival     u16: MPI call, 0 if none     u8: `Need`
//!         u8: peers named     u32: peers in all     u32 for each named peer     text (UTF-8)
//! ```
//!
//! All numbers are little-endian, times nanoseconds of the node's monotonic clock.

use std::time::Duration;

use oxmpi_shm::wait_note::NOTE_BYTES;

/// Which of the named peers must act before a wait can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// All peers must make a call that they have not made yet.
    All,
    /// One peer must.
    Any,
    /// All peers must be in any call of the library, or end: progress answers the request.
    Attention,
    /// A process outside the job must act, such as connect to a port, or the program itself, such
    /// as complete a generalized request: such a wait may take any time.
    Outside,
}

impl Need {
    const ALL: [Need; 4] = [Need::All, Need::Any, Need::Attention, Need::Outside];
}

/// One long wait of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// CLOCK_MONOTONIC.
    pub since_ns: u64,
    /// When a message last arrived for the process, or when the wait began.
    pub moved_ns: u64,
    /// The number of the MPI call that the process entered last before the note; 0 if none.
    pub call: u16,
    /// Which of `peers` must act.
    pub need: Need,
    /// The processes waited for, by their numbers in the launcher: the first [`MOST_PEERS`].
    pub peers: Vec<u32>,
    /// The number of processes waited for.
    pub count: u32,
    /// The event waited for, in words.
    pub text: String,
}

/// The most peers that a note names.
pub const MOST_PEERS: usize = 24;

const HEAD: usize = 24;

impl LongWait {
    /// Whether the wait has lasted `limit`.
    pub fn is_long(&self, limit: Duration, now_ns: u64) -> bool {
        u128::from(now_ns.saturating_sub(self.since_ns)) >= limit.as_nanos()
    }

    /// Whether nothing has arrived for the process for `limit`.
    pub fn is_late(&self, limit: Duration, now_ns: u64) -> bool {
        u128::from(now_ns.saturating_sub(self.moved_ns)) >= limit.as_nanos()
    }

    /// The bytes of the note; the text is cut at its end to fit.
    pub fn encode(&self) -> Vec<u8> {
        let named = self.peers.len().min(MOST_PEERS);
        let need = Need::ALL.iter().position(|need| *need == self.need).unwrap_or_default();
        let mut out = Vec::with_capacity(NOTE_BYTES);
        out.extend(self.since_ns.to_le_bytes());
        out.extend(self.moved_ns.to_le_bytes());
        out.extend(self.call.to_le_bytes());
        out.extend([need as u8, named as u8]);
        out.extend(self.count.to_le_bytes());
        self.peers.iter().take(named).for_each(|peer| out.extend(peer.to_le_bytes()));
        let room = NOTE_BYTES - out.len();
        out.extend(&self.text.as_bytes()[..self.text.floor_char_boundary(room)]);
        out
    }

    /// Reads a note; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<LongWait> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let named = usize::from(head[19]);
        let (peers, text) = rest.split_at_checked(4 * named)?;
        Some(LongWait {
            since_ns: long(0)?,
            moved_ns: long(8)?,
            call: u16::from_le_bytes([head[16], head[17]]),
            need: *Need::ALL.get(usize::from(head[18]))?,
            peers: peers.as_chunks::<4>().0.iter().map(|peer| u32::from_le_bytes(*peer)).collect(),
            count: u32::from_le_bytes([head[20], head[21], head[22], head[23]]),
            text: String::from_utf8_lossy(text).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(peers: u32, text: String) -> LongWait {
        LongWait {
            since_ns: 5,
            moved_ns: 7 << 40,
            call: 300,
            need: Need::Attention,
            peers: (0..peers).collect(),
            count: peers,
            text,
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for peers in [0, 1, MOST_PEERS as u32] {
            let waiting = waiting(peers, "a message from rank 1 on 'ä'".to_string());
            assert_eq!(LongWait::decode(&waiting.encode()), Some(waiting));
        }
    }

    #[test]
    fn a_text_that_does_not_fit_is_cut() {
        let long = waiting(99, "ä".repeat(NOTE_BYTES));
        let bytes = long.encode();
        let read = LongWait::decode(&bytes).unwrap();
        assert!(bytes.len() <= NOTE_BYTES && bytes.len() + 2 > NOTE_BYTES);
        assert_eq!((read.peers.len(), read.count), (MOST_PEERS, 99));
        assert!(long.text.starts_with(&read.text) && !read.text.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(waiting) = LongWait::decode(&bytes) {
                prop_assert!(waiting.peers.len() <= bytes.len() / 4);
            }
        }
    }
}
