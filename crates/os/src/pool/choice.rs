//! Choosing between plain and streaming copies.
//!
//! A plain copy into shared memory is the fastest one if the lines it writes have reached a cache that both cores
//! share. If reader and writer share none, or the lines are still in the reader's private cache, each line costs a
//! transfer, and stores that go past the caches are several times as fast. Which it is depends on where the system has put the
//! two processes, and changes while they run: so it is measured, on the copies made anyway.

use crate::bytes::CopyKind;

/// The shortest plain copy whose time says anything, in bytes: of a shorter one the processor's store buffer hides too
/// much.
pub const SHORTEST_MEASURED: usize = 4 << 10;

/// How many plain copies in a row must be slow. One alone may have met an interrupt, or cold memory of the user.
pub(crate) const SLOW_IN_A_ROW: u8 = 12;

/// Each time that a new attempt with plain copies has failed, the next one is made after twice as many pieces, up to
/// as many times the first number. Each fast copy halves it again.
const LONGEST_PAUSE: u32 = 16;

/// Says how the next piece is to be copied, from how long earlier ones took. It reads no clock.
#[derive(Clone, Debug)]
pub struct CopyChoice {
    /// A plain copy that takes longer is slow; `None`: the kind never changes.
    slow_ticks_per_kib: Option<u64>,
    /// Pieces that are streamed before plain copies are tried again: the first time, and the next time.
    first_pause: u32,
    pause: u32,
    /// Pieces still to be streamed; 0: copies are plain.
    streaming_left: u32,
    /// Plain copies that were slow, in a row.
    slow: u8,
}

impl CopyChoice {
    /// How many pieces are streamed before plain copies are tried again, if nobody says otherwise.
    pub const PAUSE: u32 = 256;

    /// The usual limit for plain copies, in nanoseconds for a KiB: 8 GB/s. Between cores that share a cache 99 of 100
    /// copies were measured to be faster, between others 9 of 10 slower.
    pub const SLOW_NS_PER_KIB: u64 = 120;

    /// Plain copies until several in a row take more than `slow_ticks_per_kib` ticks per KiB; then streaming ones for
    /// `pause` pieces, then plain ones again.
    ///
    /// # Panics
    /// If `pause` is 0.
    pub fn new(slow_ticks_per_kib: u64, pause: u32) -> CopyChoice {
        assert!(pause > 0, "a pause of 0 pieces between attempts with plain copies");
        CopyChoice {
            slow_ticks_per_kib: Some(slow_ticks_per_kib),
            first_pause: pause,
            pause,
            streaming_left: 0,
            slow: 0,
        }
    }

    /// Always the same kind.
    pub const fn always(kind: CopyKind) -> CopyChoice {
        CopyChoice {
            slow_ticks_per_kib: None,
            first_pause: 1,
            pause: 1,
            streaming_left: matches!(kind, CopyKind::Streaming) as u32,
            slow: 0,
        }
    }

    /// How the next piece is to be copied.
    #[inline]
    pub const fn kind(&self) -> CopyKind {
        if self.streaming_left == 0 { CopyKind::Plain } else { CopyKind::Streaming }
    }

    /// Whether the next piece of `len` bytes is worth measuring.
    #[inline]
    pub const fn wants_time(&self, len: usize) -> bool {
        self.streaming_left == 0 && self.slow_ticks_per_kib.is_some() && len >= SHORTEST_MEASURED
    }

    /// A plain copy of `bytes` bytes took so many ticks. Copies shorter than [`SHORTEST_MEASURED`] say nothing.
    #[inline]
    pub fn plain_took(&mut self, bytes: usize, ticks: u64) {
        let Some(limit) = self.slow_ticks_per_kib else { return };
        if bytes < SHORTEST_MEASURED {
            return;
        }
        if ticks.saturating_mul(1024) <= limit.saturating_mul(bytes as u64) {
            self.slow = 0;
            self.pause = (self.pause / 2).max(self.first_pause);
            return;
        }
        self.slow += 1;
        if self.slow == SLOW_IN_A_ROW {
            self.stream();
        }
    }

    /// The reader says that its copies of several pieces in a row were slow, whatever ours are.
    #[inline]
    pub fn reader_was_slow(&mut self) {
        if self.slow_ticks_per_kib.is_some() && self.streaming_left == 0 {
            self.stream();
        }
    }

    fn stream(&mut self) {
        self.slow = 0;
        self.streaming_left = self.pause;
        self.pause = self.pause.saturating_mul(2).min(self.first_pause.saturating_mul(LONGEST_PAUSE));
    }

    /// A piece was streamed.
    #[inline]
    pub const fn streamed(&mut self) {
        if self.slow_ticks_per_kib.is_some() && self.streaming_left > 0 {
            self.streaming_left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 ticks per KiB is the limit, 10 pieces the pause.
    fn choice() -> CopyChoice {
        CopyChoice::new(100, 10)
    }

    fn slow(choice: &mut CopyChoice, times: usize) {
        (0..times).for_each(|_| choice.plain_took(4096, 401));
    }

    /// Streams until a plain copy is tried; how many pieces that were.
    fn stream(choice: &mut CopyChoice) -> usize {
        let mut pieces = 0;
        while choice.kind() == CopyKind::Streaming {
            choice.streamed();
            pieces += 1;
        }
        pieces
    }

    #[test]
    fn fast_copies_stay_plain() {
        let mut choice = choice();
        (0..1000).for_each(|_| choice.plain_took(4096, 400));
        assert_eq!(choice.kind(), CopyKind::Plain);
        assert!(choice.wants_time(4096) && !choice.wants_time(4095));
    }

    #[test]
    fn only_slow_copies_in_a_row_count() {
        let mut choice = choice();
        for _ in 0..100 {
            slow(&mut choice, usize::from(SLOW_IN_A_ROW) - 1);
            choice.plain_took(8192, 800);
        }
        // Too short to say anything.
        (0..100).for_each(|_| choice.plain_took(4095, 1 << 40));
        assert_eq!(choice.kind(), CopyKind::Plain);
        slow(&mut choice, usize::from(SLOW_IN_A_ROW));
        assert_eq!(choice.kind(), CopyKind::Streaming);
        assert!(!choice.wants_time(8192));
    }

    #[test]
    fn plain_copies_are_tried_again_ever_more_seldom() {
        let mut choice = choice();
        for pause in [10, 20, 40, 80, 160, 160] {
            slow(&mut choice, usize::from(SLOW_IN_A_ROW));
            assert_eq!(stream(&mut choice), pause);
        }
        // Fast again: one slow spell later is like the first one.
        (0..4).for_each(|_| choice.plain_took(8192, 0));
        slow(&mut choice, usize::from(SLOW_IN_A_ROW));
        assert_eq!(stream(&mut choice), 10);
    }

    #[test]
    fn a_fixed_kind_stays() {
        for kind in [CopyKind::Plain, CopyKind::Streaming] {
            let mut choice = CopyChoice::always(kind);
            slow(&mut choice, 100);
            choice.streamed();
            assert!(choice.kind() == kind && !choice.wants_time(8192));
        }
    }
}
