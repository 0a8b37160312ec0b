//! Early records: the initiator of a greeting sends them before the acceptor has answered (rules 7
//! to 10 of `greeting.rs`).
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | kind of the message, 5 |
//! | 8..16 | index, from 0 on each connection |
//! | 16..24 | length of the record in bytes, with its zeros |
//! | 24..32 | zero |
//! | 32.. | the record |
//! | last 32 | MAC, over a label, the Hello, and all fields before |

use super::greeting::GreetingError;
use super::record::{ALIGNMENT, MAX_LEAD, RECORD_HEADER};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{HEADER_LEN, MAC, MAX_FRAME_LEN, Transcript};

/// The kind of the message, and the label of its MAC.
pub(super) const KIND_EARLY: u8 = 5;
pub(super) const EARLY_HEAD: usize = 32;
/// The most bytes of the early messages of one connection. The kernel buffers more bytes than that
/// of an unread connection, even with the smallest buffers that `rpi_tcp_sockbuf` allows.
pub const EARLY_BYTES: usize = 16 << 10;

/// The most bytes of an early message except the body.
const LONGEST_REST: usize =
    EARLY_HEAD + RECORD_HEADER + MAX_LEAD + MAX_FRAME_LEN + (ALIGNMENT - 1) + MAC;
const SHORTEST: usize = (RECORD_HEADER + HEADER_LEN).next_multiple_of(ALIGNMENT);
const _: () = assert!((EARLY_HEAD + MAC).is_multiple_of(ALIGNMENT));

#[derive(Debug)]
pub(super) struct Early {
    /// The transcript up to the Hello.
    hello: Transcript,
    next: u64,
    left: usize,
}

impl Early {
    pub(super) fn new(hello: &Transcript) -> Early {
        Early { hello: hello.clone(), next: 0, left: EARLY_BYTES }
    }

    pub(super) fn count(&self) -> u64 {
        self.next
    }

    pub(super) fn has_room(&self, len: usize) -> bool {
        LONGEST_REST.saturating_add(len) <= self.left
    }

    /// Replaces the content of `message` by the next early message, which carries these pieces of a
    /// record.
    pub(super) fn seal(&mut self, record: &[Bytes<'_>], message: &mut Vec<u8>) {
        let len: usize = record.iter().map(Bytes::len).sum();
        message.clear();
        for word in [KIND_EARLY.into(), self.next, len as u64, 0] {
            message.extend_from_slice(&word.to_le_bytes());
        }
        record.iter().for_each(|piece| piece.append_to(message));
        let mac = self.hello.mac_of(KIND_EARLY, message);
        message.extend_from_slice(&mac);
        self.next += 1;
        self.left = self.left.saturating_sub(message.len());
    }

    /// The length of the message that begins with `head`. Fails unless it is the next message.
    pub(super) fn length(&self, head: &[u8]) -> Result<usize, GreetingError> {
        let word = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let len = word(16).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
        let is_next =
            word(0) == Some(KIND_EARLY.into()) && word(8) == Some(self.next) && word(24) == Some(0);
        let fits = len >= SHORTEST && len.is_multiple_of(ALIGNMENT) && len <= EARLY_BYTES;
        match EARLY_HEAD + len + MAC {
            all if is_next && fits && all <= self.left => Ok(all),
            _ => Err(GreetingError::NotGreeting),
        }
    }

    /// Checks the MAC of the next message, and returns its record.
    pub(super) fn open<'a>(&mut self, message: &'a [u8]) -> Result<&'a [u8], GreetingError> {
        let (said, mac) = message.split_last_chunk().ok_or(GreetingError::NotGreeting)?;
        if self.length(said)? != message.len() {
            return Err(GreetingError::NotGreeting);
        }
        self.hello.check(KIND_EARLY, said, mac)?;
        self.next += 1;
        self.left -= message.len();
        Ok(&said[EARLY_HEAD..])
    }
}
