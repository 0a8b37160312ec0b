//! A shared copy: who copies which part of a long message, when both sides may.
//!
//! The receiver of an announced message opens a share: a line in its own segment. The message is parted into pieces of
//! equal length, numbered from 0. Whoever wants to copy one claims it first: the receiver reads its pieces from the
//! sender's memory, the sender gives its pieces to the receiver by the rings. So none is copied twice, each side takes
//! as many as it has time for, and neither needs the other to be there.
//!
//! ```text
//! line    word 0: number of the share 32 | next piece 32
//! ```
//!
//! Rules
//! 1. *Open.* The segment's owner alone opens a share: it gives the word a new number and piece 0, by a compare-exchange. It
//!    tells the sender number and line in the frame with which it asks for the data.
//! 2. *Claim.* Both sides claim the next piece, or some of the next ones, by a compare-exchange that adds as many, if the number
//!    is the one they know and the pieces exist. The word orders nothing but the claims.
//! 3. *Close.* The owner gives it the next number, which no frame has named: a claim that comes later fails.

use crate::{
    line::{Keep, Line, heap_lines},
    sync::{AtomicU64, Ordering},
};
use std::{ops::Range, ptr::NonNull, sync::Arc};

/// The line of a share, in a segment or on the heap. Cloning it gives another view of the same line.
#[derive(Clone, Debug)]
pub struct ShareLine {
    line: NonNull<Line>,
    _keep: Keep,
}

// SAFETY: the memory behind the pointer is atomics; `_keep` keeps it mapped.
unsafe impl Send for ShareLine {}
// SAFETY: as above.
unsafe impl Sync for ShareLine {}

const NEXT_MASK: u64 = u32::MAX as u64;

impl ShareLine {
    /// A line on the heap, for threads of one process.
    pub fn on_heap() -> ShareLine {
        let lines = heap_lines(1);
        ShareLine { line: NonNull::from(&lines[0]), _keep: Arc::new(lines) }
    }

    /// A line at `line`.
    ///
    /// # Safety
    /// It must stay mapped and writable while `keep` lives.
    #[cfg(not(loom))]
    pub(crate) const unsafe fn from_raw(line: NonNull<Line>, keep: Keep) -> ShareLine {
        ShareLine { line, _keep: keep }
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: mapped while `_keep` lives.
        unsafe { &self.line.as_ref().words[0] }
    }

    /// Opens a new share and says its number. For the owner, when no share is open here (rule 1).
    pub fn open(&self) -> u32 {
        self.renew(0)
    }

    /// Gives the line the next number. By compare-exchange, because a claim may come between.
    fn renew(&self, next_piece: u64) -> u32 {
        let mut word = self.word().load(Ordering::Acquire);
        loop {
            let number = ((word >> 32) as u32).wrapping_add(1);
            let renewed = u64::from(number) << 32 | next_piece;
            match self.word().compare_exchange(word, renewed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return number,
                Err(now) => word = now,
            }
        }
    }

    /// Claims the next of `pieces` pieces of share `number`, at most `most` of them and at least one. `None`: all are claimed, or
    /// the share is closed (rule 2).
    pub fn claim(&self, number: u32, pieces: u32, most: u32) -> Option<Range<u32>> {
        let mut word = self.word().load(Ordering::Acquire);
        loop {
            let next = (word & NEXT_MASK) as u32;
            if (word >> 32) as u32 != number || next >= pieces {
                return None;
            }
            let end = next.saturating_add(most.max(1)).min(pieces);
            let claimed = word + u64::from(end - next);
            match self.word().compare_exchange(word, claimed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(next..end),
                Err(now) => word = now,
            }
        }
    }

    /// Closes the share that is open. For the owner (rule 3).
    pub fn close(&self) {
        self.renew(NEXT_MASK);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_claimed_once_and_none_of_another_share() {
        let line = ShareLine::on_heap();
        assert_eq!(line.claim(1, 3, 1), None, "nothing is open");
        let first = line.open();
        assert_eq!(
            [line.claim(first, 2, 1), line.claim(first, 2, 1), line.claim(first, 2, 1)],
            [Some(0..1), Some(1..2), None]
        );
        line.close();
        assert_eq!(line.claim(first, 9, 1), None);
        let second = line.open();
        assert_ne!(first, second);
        assert_eq!(line.claim(first, 9, 1), None);
        assert_eq!(line.claim(second, 9, 1), Some(0..1));
        assert_eq!(line.claim(second, 9, 5), Some(1..6));
        assert_eq!(line.claim(second, 9, 5), Some(6..9), "no more than there are");
        assert_eq!(line.claim(second, 9, 5), None);
        line.close();
        assert_eq!(
            line.claim(second.wrapping_add(1), 9, 1),
            None,
            "a closed line has no piece left under its number"
        );
    }
}
