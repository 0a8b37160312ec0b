//! Early records: what the initiator of a greeting sends before the acceptor's process has answered (`greeting.rs` rules 7 to 10).
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | kind of the message, 5 |
//! | 8..16 | index, from 0 on each connection |
//! | 16..24 | length of the record in bytes, with its zeros |
//! | 24..32 | zero |
//! | 32.. | the record |
//! | last 32 | MAC, over a label, the Hello, and all before it |

use super::greeting::GreetingError;
use super::record::{ALIGNMENT, MAX_LEAD, RECORD_HEADER};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{HEADER_LEN, MAC, MAX_FRAME_LEN, Transcript};

/// The kind of the message, and the label of its MAC.
pub(super) const KIND_EARLY: u8 = 5;
/// Bytes before the record.
pub(super) const EARLY_HEAD: usize = 32;
/// Bytes of the early messages of one connection, at most. The kernel buffers more of a connection that nobody reads, with the
/// smallest buffers that `rpi_tcp_sockbuf` allows as well.
pub const EARLY_BYTES: usize = 16 << 10;

/// Bytes of an early message without the body, at most.
const LONGEST_REST: usize = EARLY_HEAD + RECORD_HEADER + MAX_LEAD + MAX_FRAME_LEN + (ALIGNMENT - 1) + MAC;
/// Bytes of the shortest record.
const SHORTEST: usize = (RECORD_HEADER + HEADER_LEN).next_multiple_of(ALIGNMENT);
const _: () = assert!((EARLY_HEAD + MAC).is_multiple_of(ALIGNMENT));

/// The early messages of a connection, on either side.
#[derive(Debug)]
pub(super) struct Early {
    /// Up to the Hello.
    hello: Transcript,
    /// Index of the next one.
    next: u64,
    /// Bytes that more of them may have.
    left: usize,
}

impl Early {
    /// After the Hello, whose transcript this is.
    pub(super) fn new(hello: &Transcript) -> Early {
        Early { hello: hello.clone(), next: 0, left: EARLY_BYTES }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.next
    }

    /// Whether a message with a body of `len` bytes may still be one.
    pub(super) fn has_room(&self, len: usize) -> bool {
        LONGEST_REST.saturating_add(len) <= self.left
    }

    /// Puts the next message, with these pieces of a record, in place of what is in `message`.
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

    /// Length of the message that begins with `head`, which must be the next one.
    ///
    /// # Errors
    /// If it cannot be.
    pub(super) fn length(&self, head: &[u8]) -> Result<usize, GreetingError> {
        let word = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let len = word(16).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
        let is_next = word(0) == Some(KIND_EARLY.into()) && word(8) == Some(self.next) && word(24) == Some(0);
        let fits = len >= SHORTEST && len.is_multiple_of(ALIGNMENT) && len <= EARLY_BYTES;
        match EARLY_HEAD + len + MAC {
            all if is_next && fits && all <= self.left => Ok(all),
            _ => Err(GreetingError::NotGreeting),
        }
    }

    /// Opens the next message, of the length that [`Early::length`] has said. Returns its record.
    ///
    /// # Errors
    /// If it is none, or from somebody who does not know the secret.
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
