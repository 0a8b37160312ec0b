//! Notes about long waits of the threads of a segment's owner, for the processes that watch it.
//!
//! A thread that has waited long leaves a note in the first page of its segment and removes it
//! after the wait. Any process that has mapped the segment can read the note at any time, even if
//! the owner is stuck. This module does not interpret the bytes of a note.
//!
//! ```text
//! note    u32: 1 if a thread has it     u32: its version, odd while it is being written
//!         u64: bytes of its text, 0 if there is none     then the text, in words
//! ```
//!
//! Rules
//! 1. A thread of the owner takes a note (0 to 1, compare-exchange with acquire) and returns it
//!    empty (release). Between the two only this thread writes it.
//! 2. Before the first word is written the version is made odd, after a release fence the words are
//!    stored, then the version is made even (release).
//! 3. A reader loads the version (acquire), the words, and after an acquire fence the version
//!    again. The note is valid if both versions are the same and even.

use oxmpi_sys::line::LINE_BYTES;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The most threads of a process that leave a note at a time.
pub const NOTES: usize = 4;

/// The room of a note, in bytes.
pub const NOTE_BYTES: usize = 8 * WORDS;

const WORDS: usize = 62;

/// The most attempts of a reader at a note that is being written.
const TRIES: u32 = 100;

/// A note of one thread.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct WaitNote {
    taken: AtomicU32,
    version: AtomicU32,
    len: AtomicU64,
    words: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<WaitNote>() == 8 * LINE_BYTES);

/// All notes of a segment.
pub type WaitNotes = [WaitNote; NOTES];

impl WaitNote {
    /// Takes the note for the calling thread, if no other has it (rule 1).
    pub fn take(&self) -> bool {
        self.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Writes `text` into the note, which the caller has taken: at most [`NOTE_BYTES`] bytes of it.
    pub fn write(&self, text: &[u8]) {
        let text = &text[..text.len().min(NOTE_BYTES)];
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.len.store(text.len() as u64, Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(text.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        self.version.store((version | 1).wrapping_add(1), Ordering::Release);
    }

    /// Returns the note, empty.
    pub fn give_back(&self) {
        self.write(&[]);
        self.taken.store(0, Ordering::Release);
    }

    /// The text of the note; `None` if it is empty, or if its writer died while writing.
    pub fn read(&self) -> Option<Vec<u8>> {
        for _ in 0..TRIES {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let len = (self.len.load(Ordering::Relaxed) as usize).min(NOTE_BYTES);
                let words = self
                    .words
                    .iter()
                    .take(len.div_ceil(8))
                    .map(|word| word.load(Ordering::Relaxed));
                let mut text: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
                text.truncate(len);
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return Some(text).filter(|text| !text.is_empty());
                }
            }
            std::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn note() -> WaitNote {
        WaitNote {
            taken: AtomicU32::new(0),
            version: AtomicU32::new(0),
            len: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    #[test]
    fn rule_1_a_note_is_one_threads_until_it_is_given_back() {
        let note = note();
        assert_eq!(note.read(), None);
        assert!(note.take() && !note.take());
        note.write(b"for rank 3");
        assert_eq!(note.read().as_deref(), Some(&b"for rank 3"[..]));
        note.give_back();
        assert_eq!(note.read(), None);
        assert!(note.take());
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let note = note();
        note.write(&[7; NOTE_BYTES + 9]);
        assert_eq!(note.read(), Some(vec![7; NOTE_BYTES]));
    }

    #[test]
    fn rules_2_and_3_a_reader_never_sees_two_notes_in_one() {
        let note = Arc::new(note());
        let writer = note.clone();
        let writing = std::thread::spawn(move || {
            for n in 0..20_000_u32 {
                writer.write(&[n as u8; NOTE_BYTES][..1 + (n as usize * 7) % NOTE_BYTES]);
            }
        });
        while !writing.is_finished() {
            if let Some(text) = note.read() {
                assert!(text.iter().all(|byte| *byte == text[0]), "{text:?}");
            }
        }
        writing.join().unwrap();
    }
}
