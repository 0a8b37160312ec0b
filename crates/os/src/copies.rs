//! Copies into memory that a team of processes shares, by whichever kind is fast there.

use crate::bytes::{Bytes, BytesMut, CopyKind};
use crate::clock;
use crate::pool::{CopyChoice, SHORTEST_MEASURED};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a process copies what others will read, into memory in which they have read before: plain copies as long as these are
/// fast, else past the caches ([`CopyChoice`]). All its threads share what was learnt.
#[derive(Debug)]
pub struct Copies {
    choice: Mutex<CopyChoice>,
    /// Pieces that were streamed, by all that count here.
    streamed: Arc<AtomicU64>,
}

impl Copies {
    /// Copies that `choice` chooses and learns from; pieces that were streamed are added to `streamed`.
    pub fn new(choice: CopyChoice, streamed: Arc<AtomicU64>) -> Copies {
        Copies { choice: Mutex::new(choice), streamed }
    }

    /// Copies all bytes to `to`. What the caller stores later is seen later.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy(&self, from: Bytes<'_>, to: BytesMut<'_>) {
        if from.len() < SHORTEST_MEASURED { from.copy_to(to) } else { self.copy_long(from, to) }
    }

    #[inline(never)]
    fn copy_long(&self, from: Bytes<'_>, to: BytesMut<'_>) {
        let len = from.len();
        // Nothing is half done where a thread may panic.
        let choice = || self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = choice().kind();
        match kind {
            CopyKind::Plain => {
                let before = clock::ticks();
                from.copy_over(to);
                let after = clock::ticks();
                choice().plain_took(len, before..after, false);
            }
            CopyKind::Streaming => {
                from.copy_past_caches(to);
                choice().streamed(len);
                self.streamed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::SlowCopies;

    #[test]
    fn copies_are_whole_and_those_that_were_streamed_are_counted() {
        let streamed = Arc::<AtomicU64>::default();
        for (anywhere, streams) in [(0, true), (u64::MAX, false)] {
            let slow = SlowCopies { reused: 0, anywhere };
            let copies = Copies::new(CopyChoice::new(slow, 64 << 10), streamed.clone());
            let before = streamed.load(Ordering::Relaxed);
            for number in 0..100_usize {
                let len = [10, SHORTEST_MEASURED - 1, SHORTEST_MEASURED, 20_001][number % 4];
                let from: Vec<u8> = (0..len).map(|at| (at * 7 + number) as u8).collect();
                let mut to = vec![0; len];
                copies.copy(Bytes::from(&from[..]), BytesMut::from(&mut to[..]));
                assert_eq!(from, to, "copy {number}");
            }
            assert_eq!(streamed.load(Ordering::Relaxed) > before, streams);
        }
    }
}
