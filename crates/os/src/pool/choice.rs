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

/// Each time that a new attempt with plain copies has failed, the next one is made after twice as many pieces, up to
/// as many times the first number.
const LONGEST_PAUSE: u32 = 64;

/// So many plain copies after streamed ones say nothing: what was streamed lies in memory, and has to come back to the
/// caches.
const SETTLING: u32 = 256;

/// A new attempt has failed if slow copies prevail before so many were made.
const ATTEMPT: u32 = 64;

/// What a piece costs beside its bytes (its first lines are missed, the clock is read), as so many bytes more.
const START_BYTES: u64 = 2752;

/// Whether a copy of `bytes` bytes that took so many ticks was slow.
#[inline]
pub(crate) const fn is_slow(ticks_per_kib: u64, bytes: usize, ticks: u64) -> bool {
    ticks.saturating_mul(1024) > ticks_per_kib.saturating_mul(bytes as u64 + START_BYTES)
}

/// Whether slow copies prevail. One alone may have met an interrupt, or cold memory of the user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spell {
    /// How many more were slow than fast.
    excess: u8,
}

impl Spell {
    /// How many more must be slow.
    pub(crate) const PREVAILS: u8 = 8;

    /// Notes a copy. `true`: slow ones prevail; the count begins anew.
    #[inline]
    pub(crate) const fn note(&mut self, is_slow: bool) -> bool {
        if !is_slow {
            self.excess = self.excess.saturating_sub(1);
            return false;
        }
        self.excess += 1;
        let prevails = self.excess == Spell::PREVAILS;
        if prevails {
            self.excess = 0;
        }
        prevails
    }
}

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
    /// Plain copies that still say nothing.
    settling: u32,
    /// Plain copies since then, and whether they were slow.
    plain: u32,
    spell: Spell,
    /// Pieces that were streamed because plain copies were slow.
    pieces_streamed: u64,
}

impl CopyChoice {
    /// How many pieces are streamed before plain copies are tried again, if nobody says otherwise.
    pub const PAUSE: u32 = 256;

    /// The usual limit for plain copies, in nanoseconds for a KiB; what each piece costs beside is added. Streaming takes 55 to
    /// 110 ns for a KiB of a message of 64 KiB. Plain copies were measured to take 20 between cores that share a cache, 50 to 65
    /// between others, and 470 where a processor fetches the lines that it overwrites.
    pub const SLOW_NS_PER_KIB: u64 = 200;

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
            // The first attempt is made before there was any.
            pause: pause.div_ceil(2),
            streaming_left: 0,
            settling: 0,
            plain: 0,
            spell: Spell { excess: 0 },
            pieces_streamed: 0,
        }
    }

    /// Always the same kind.
    pub const fn always(kind: CopyKind) -> CopyChoice {
        CopyChoice {
            slow_ticks_per_kib: None,
            first_pause: 1,
            pause: 1,
            streaming_left: matches!(kind, CopyKind::Streaming) as u32,
            settling: 0,
            plain: 0,
            spell: Spell { excess: 0 },
            pieces_streamed: 0,
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
        if self.settling > 0 {
            self.settling -= 1;
            return;
        }
        self.plain = self.plain.saturating_add(1);
        if self.spell.note(is_slow(limit, bytes, ticks)) {
            self.stream();
        }
    }

    /// The reader says that its copies of several pieces in a row were slow, whatever ours are.
    #[inline]
    pub fn reader_was_slow(&mut self) {
        if self.slow_ticks_per_kib.is_some() && self.streaming_left == 0 && self.settling == 0 {
            self.stream();
        }
    }

    fn stream(&mut self) {
        let longest = self.first_pause.saturating_mul(LONGEST_PAUSE);
        self.pause =
            if self.plain < ATTEMPT { self.pause.saturating_mul(2).min(longest) } else { self.first_pause };
        self.streaming_left = self.pause;
        self.settling = SETTLING;
        self.plain = 0;
        self.spell = Spell::default();
    }

    /// A piece was streamed.
    #[inline]
    pub const fn streamed(&mut self) {
        if self.slow_ticks_per_kib.is_some() && self.streaming_left > 0 {
            self.streaming_left -= 1;
            self.pieces_streamed += 1;
        }
    }

    /// How many pieces were streamed because plain copies were slow.
    pub const fn pieces_streamed(&self) -> u64 {
        self.pieces_streamed
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
        (0..times).for_each(|_| choice.plain_took(4096, 669));
    }

    /// Makes the plain copies that say nothing after streamed ones, slow as they are.
    fn settle(choice: &mut CopyChoice) {
        choice.reader_was_slow();
        slow(choice, SETTLING as usize);
        assert_eq!(choice.kind(), CopyKind::Plain);
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
        (0..1000).for_each(|_| choice.plain_took(4096, 668));
        assert_eq!(choice.kind(), CopyKind::Plain);
        assert!(choice.wants_time(4096) && !choice.wants_time(4095));
    }

    #[test]
    fn slow_copies_count_if_they_prevail() {
        let mut choice = choice();
        for _ in 0..100 {
            slow(&mut choice, usize::from(Spell::PREVAILS) - 1);
            (0..Spell::PREVAILS).for_each(|_| choice.plain_took(8192, 800));
        }
        // Too short to say anything.
        (0..100).for_each(|_| choice.plain_took(4095, 1 << 40));
        assert_eq!(choice.kind(), CopyKind::Plain);
        // Two of three.
        for _ in 0..Spell::PREVAILS {
            slow(&mut choice, 2);
            choice.plain_took(8192, 0);
        }
        assert_eq!(choice.kind(), CopyKind::Streaming);
        assert!(!choice.wants_time(8192));
    }

    #[test]
    fn plain_copies_are_tried_again_ever_more_seldom() {
        let mut choice = choice();
        for pause in [10, 20, 40, 80, 160, 320, 640, 640] {
            slow(&mut choice, usize::from(Spell::PREVAILS));
            assert_eq!(stream(&mut choice), pause);
            settle(&mut choice);
        }
        // A reader that complains is as good.
        choice.reader_was_slow();
        choice.reader_was_slow();
        assert_eq!(stream(&mut choice), 640);
        settle(&mut choice);
        // Fast for a while: the next slow spell is like the first one.
        (0..ATTEMPT).for_each(|_| choice.plain_took(8192, 0));
        slow(&mut choice, usize::from(Spell::PREVAILS));
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
