//! Choosing between plain and streaming copies.
//!
//! A plain copy into shared memory is the fastest one if the lines it writes have reached a cache that both cores
//! share. If reader and writer share none, or the lines are still in the reader's private cache, each line costs a
//! transfer, and stores that go past the caches are several times as fast. Which it is depends on where the system has put the
//! two processes, and changes while they run: so it is measured, on the copies made anyway. Those of short messages say too little;
//! how these had better be laid is tried (`trials.rs`).
//!
//! Copies to lines that are written again soon may be slow because the lines have to come from the reader's cache. Then those to
//! other lines are faster. Or they may be slow because all are. So that they are slow is a reason to try other lines, and what decides is
//! how long a stream takes for a stretch of 1 MiB in either way (`verdict.rs`).

use super::Way;
use super::verdict::Verdict;
use crate::bytes::CopyKind;
use std::ops::Range;

/// The shortest plain copy whose time says anything, in bytes: of a shorter one the processor's store buffer hides too
/// much.
pub const SHORTEST_MEASURED: usize = 4 << 10;

/// Each time that a new attempt with plain copies has failed, the next one is made after twice as many bytes, this often.
const STREAMING_DOUBLINGS: u32 = 6;

/// The first attempt not to spread comes after so many times as many bytes as one with plain copies, for spreading was compared with
/// the usual way when it began; and so often after twice as many each time.
const SPREADING_TIMES: u64 = 8;
const SPREADING_DOUBLINGS: u32 = 4;

/// So many bytes of the usual copies after others say nothing: what was streamed lies in memory, and has to come back to the
/// caches. As much as the first part of a pool has.
const SETTLING_BYTES: u64 = 512 << 10;

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

/// Another way to do something, taken while the usual one is slow; now and then, after so many bytes of the other, the usual one
/// is tried again. It reads no clock.
#[derive(Clone, Debug)]
struct Detour {
    /// Bytes of the detour before the usual way is tried again: the first time, at most, and the next time.
    first: u64,
    longest: u64,
    next: u64,
    /// Bytes of it that are left; 0: the usual way is taken.
    left: u64,
    /// Bytes of the usual way that still say nothing.
    settling: u64,
    /// How often the usual way was taken since then, and whether it was slow.
    usual: u32,
    spell: Spell,
}

impl Detour {
    fn new(first: u64, doublings: u32) -> Detour {
        assert!(first > 0, "0 bytes between attempts with plain copies");
        Detour {
            first,
            longest: first.saturating_mul(1 << doublings),
            // The first attempt is made before there was any.
            next: first.div_ceil(2),
            left: 0,
            settling: 0,
            usual: 0,
            spell: Spell { excess: 0 },
        }
    }

    #[inline]
    const fn is_taken(&self) -> bool {
        self.left > 0
    }

    /// Whether a piece of so many bytes went the usual way too soon to say anything.
    #[inline]
    const fn settles(&mut self, bytes: usize) -> bool {
        let settles = self.settling > 0;
        self.settling = self.settling.saturating_sub(bytes as u64);
        settles
    }

    /// A piece that says something went the usual way, and was slow or not.
    #[inline]
    fn went_usual(&mut self, is_slow: bool) {
        self.usual = self.usual.saturating_add(1);
        if self.spell.note(is_slow) {
            self.take();
        }
    }

    /// Somebody else says that the usual way is slow.
    #[inline]
    fn was_slow(&mut self) {
        if !self.is_taken() && self.settling == 0 {
            self.take();
        }
    }

    fn take(&mut self) {
        self.next =
            if self.usual < ATTEMPT { self.next.saturating_mul(2).min(self.longest) } else { self.first };
        self.left = self.next;
        self.settling = SETTLING_BYTES;
        self.usual = 0;
        self.spell = Spell::default();
    }

    /// Goes back to the usual way, which has not failed thereby.
    fn end(&mut self) {
        (self.left, self.settling, self.usual) = (0, 0, ATTEMPT);
        self.spell = Spell::default();
    }

    /// A piece went by the detour.
    #[inline]
    const fn went(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }
}

/// From which time on copies into a pool are made otherwise.
#[derive(Clone, Copy, Debug)]
pub struct SlowCopies {
    /// Ticks per KiB of a plain copy to lines that are written again soon, such as those of the first part of a pool: what follows
    /// is spread over the other part, to lines that have left the reader's cache (rule 8 of the pool).
    pub reused: u64,
    /// Ticks per KiB of any plain copy: what follows is streamed. Copies that may still be spread may take five thirds of that.
    pub anywhere: u64,
}

impl SlowCopies {
    /// From which time on copies are streamed. Where a processor fetches the lines that it overwrites, copies to lines that are written
    /// again soon take 40 to 140 ns for a KiB, and up to 180, if the cores share a cache: then spreading, 20 to 60, is faster
    /// than streaming. If they share none, they take 220 to 440.
    const fn for_streaming(self, may_be_spread: bool) -> u64 {
        if may_be_spread { self.anywhere.saturating_add(self.anywhere / 3 * 2) } else { self.anywhere }
    }
}

/// Says how the next piece is to be copied, and whether it is to be spread (rule 8 of the pool), from how long earlier ones took.
#[derive(Clone, Debug)]
pub struct CopyChoice {
    /// It never changes.
    fixed: Option<CopyKind>,
    slow: SlowCopies,
    streaming: Detour,
    spreading: Detour,
    verdict: Verdict,
    /// Pieces that were streamed because plain copies were slow, or as trials say.
    pieces_streamed: u64,
    /// Messages that were spread over the larger part of the pool because copies to lines that are written again soon were slow, or
    /// as trials say.
    messages_spread: u64,
}

impl CopyChoice {
    /// How many bytes are streamed before plain copies are tried again, if nobody says otherwise: to try costs a few
    /// [`SETTLING_BYTES`].
    pub const PAUSE: u64 = 8 << 20;

    /// The usual limit for plain copies, in nanoseconds for a KiB; what each piece costs beside is added. Streaming takes 55 to
    /// 110 ns for a KiB of a message of 64 KiB. Plain copies were measured to take 20 between cores that share a cache, 50 to 65
    /// between others, and 200 to 470 where a processor fetches the lines that it overwrites. Copies that may still be
    /// spread may take five thirds of that.
    pub const SLOW_NS_PER_KIB: u64 = 120;

    /// The same for lines that are written again soon, such as those of the first part of a pool. Between cores that share a cache
    /// copies took 20 to 24 there and elsewhere, and 60 there and 35 elsewhere where a processor fetches the lines that it
    /// overwrites.
    pub const SLOW_NS_PER_KIB_REUSED: u64 = 45;

    /// Plain copies until several in a row are slow; then others for `pause` bytes, or spread ones for eight times as many, then the usual
    /// ones again.
    ///
    /// # Panics
    /// If `pause` is 0.
    pub fn new(slow: SlowCopies, pause: u64) -> CopyChoice {
        CopyChoice {
            fixed: None,
            slow,
            streaming: Detour::new(pause, STREAMING_DOUBLINGS),
            spreading: Detour::new(pause.saturating_mul(SPREADING_TIMES), SPREADING_DOUBLINGS),
            verdict: Verdict::new(pause),
            pieces_streamed: 0,
            messages_spread: 0,
        }
    }

    /// The same where the first so many bytes of plain copies say nothing: they go to pages that are made meanwhile.
    #[must_use]
    pub fn unused(mut self, bytes: u64) -> CopyChoice {
        self.streaming.settling = bytes;
        self
    }

    /// Always the first part of a pool, and always the same kind, but for what lies in place.
    pub fn always(kind: CopyKind) -> CopyChoice {
        let never = SlowCopies { reused: u64::MAX, anywhere: u64::MAX };
        CopyChoice { fixed: Some(kind), ..CopyChoice::new(never, 1) }
    }

    /// How the next piece is to be copied.
    #[inline]
    pub const fn kind(&self) -> CopyKind {
        match self.fixed {
            Some(kind) => kind,
            None if self.streaming.is_taken() => CopyKind::Streaming,
            None => CopyKind::Plain,
        }
    }

    /// Whether the next message had better be spread over the larger part of the pool: never while pieces are streamed, which go
    /// to memory wherever they lie.
    #[inline]
    pub const fn spreads(&self) -> bool {
        self.fixed.is_none() && self.spreading.is_taken()
    }

    /// Whether the next piece of `len` bytes is worth measuring.
    #[inline]
    pub const fn wants_time(&self, len: usize) -> bool {
        self.fixed.is_none() && !self.streaming.is_taken() && len >= SHORTEST_MEASURED
    }

    /// A plain copy of `bytes` bytes was made from one time to another, in ticks. Copies shorter than [`SHORTEST_MEASURED`] say
    /// nothing. `is_reused`: it went to lines that are written again soon, if it was not spread.
    #[inline]
    pub fn plain_took(&mut self, bytes: usize, at: Range<u64>, is_reused: bool) {
        if self.fixed.is_some() || bytes < SHORTEST_MEASURED {
            return;
        }
        let ticks = at.end.wrapping_sub(at.start);
        // What was streamed lies in memory, from where it comes slowly to any part.
        let settles = self.streaming.settles(bytes);
        if !settles {
            let may_be_spread = is_reused && !self.spreading.is_taken() && self.verdict.is_open();
            self.streaming.went_usual(is_slow(self.slow.for_streaming(may_be_spread), bytes, ticks));
        }
        if self.streaming.is_taken() {
            self.end_spreading();
        } else if self.spreading.is_taken() {
            if self.verdict.refuses(bytes, &at) {
                self.end_spreading();
            }
        } else if !settles
            && !self.spreading.settles(bytes)
            && self.verdict.went_usual(bytes, &at)
            && is_reused
        {
            self.spreading.went_usual(is_slow(self.slow.reused, bytes, ticks));
        }
    }

    /// From now on nothing is spread until copies have been slow again.
    fn end_spreading(&mut self) {
        self.spreading.end();
        self.verdict.forget();
    }

    /// The reader says that its copies of several pieces in a row were slow, whatever ours are.
    #[inline]
    pub fn reader_was_slow(&mut self) {
        if self.fixed.is_none() {
            self.streaming.was_slow();
            if self.streaming.is_taken() {
                self.end_spreading();
            }
        }
    }

    /// A piece of `bytes` bytes was streamed.
    #[inline]
    pub const fn streamed(&mut self, bytes: usize) {
        if self.fixed.is_none() && self.streaming.is_taken() {
            self.streaming.went(bytes);
            self.pieces_streamed += 1;
        }
    }

    /// Whether it never changes.
    #[inline]
    pub(crate) const fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Counts a message that was laid as trials say (rule 8 of the pool).
    #[inline]
    pub(crate) const fn tried(&mut self, way: Option<Way>) {
        match way {
            Some(Way::Streamed) => self.pieces_streamed += 1,
            Some(Way::Spread) => self.messages_spread += 1,
            Some(Way::Usual) | None => {}
        }
    }

    /// A message of `bytes` bytes was spread.
    #[inline]
    pub fn spread(&mut self, bytes: usize) {
        if self.spreads() {
            self.spreading.went(bytes);
            self.messages_spread += 1;
            if !self.spreading.is_taken() {
                self.verdict.pause();
            }
        }
    }

    /// How many messages were spread because copies to lines that are written again soon were slow, or as trials say.
    pub const fn messages_spread(&self) -> u64 {
        self.messages_spread
    }

    /// How many pieces were streamed because plain copies were slow, or as trials say.
    pub const fn pieces_streamed(&self) -> u64 {
        self.pieces_streamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::verdict::{REFUSED, STRETCH_BYTES, STRETCHES_SPREAD, STRETCHES_USUAL};

    const PIECE: usize = 4096;

    /// 100 ticks per KiB is the limit, 10 pieces the pause.
    fn choice() -> CopyChoice {
        let slow = SlowCopies { reused: 30, anywhere: 100 };
        CopyChoice::new(slow, 10 * PIECE as u64)
    }

    fn slow(choice: &mut CopyChoice, times: usize) {
        (0..times).for_each(|_| choice.plain_took(PIECE, 0..669, false));
    }

    /// Makes the plain copies that say nothing after streamed ones, slow as they are.
    fn settle(choice: &mut CopyChoice) {
        choice.reader_was_slow();
        slow(choice, SETTLING_BYTES as usize / PIECE);
        assert_eq!(choice.kind(), CopyKind::Plain);
    }

    /// Streams until a plain copy is tried; how many pieces that were.
    fn stream(choice: &mut CopyChoice) -> usize {
        let mut pieces = 0;
        while choice.kind() == CopyKind::Streaming {
            choice.streamed(PIECE);
            pieces += 1;
        }
        pieces
    }

    #[test]
    fn fast_copies_stay_plain() {
        let mut choice = choice();
        (0..1000).for_each(|_| choice.plain_took(4096, 0..668, false));
        assert_eq!(choice.kind(), CopyKind::Plain);
        assert!(choice.wants_time(4096) && !choice.wants_time(4095));
    }

    #[test]
    fn slow_copies_count_if_they_prevail() {
        let mut choice = choice();
        for _ in 0..100 {
            slow(&mut choice, usize::from(Spell::PREVAILS) - 1);
            (0..Spell::PREVAILS).for_each(|_| choice.plain_took(8192, 0..800, false));
        }
        // Too short to say anything.
        (0..100).for_each(|_| choice.plain_took(4095, 0..1 << 40, false));
        assert_eq!(choice.kind(), CopyKind::Plain);
        // Two of three.
        for _ in 0..Spell::PREVAILS {
            slow(&mut choice, 2);
            choice.plain_took(8192, 0..0, false);
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
        (0..ATTEMPT).for_each(|_| choice.plain_took(8192, 0..0, false));
        slow(&mut choice, usize::from(Spell::PREVAILS));
        assert_eq!(stream(&mut choice), 10);
    }

    #[test]
    fn what_goes_to_new_pages_says_nothing() {
        let mut choice = choice().unused(20 * PIECE as u64);
        slow(&mut choice, 20 + usize::from(Spell::PREVAILS) - 1);
        assert_eq!(choice.kind(), CopyKind::Plain);
        slow(&mut choice, 1);
        assert_eq!(choice.kind(), CopyKind::Streaming);
    }

    /// The pieces of so many stretches.
    const fn pieces_of(stretches: usize) -> usize {
        stretches * STRETCH_BYTES as usize / PIECE
    }

    /// A choice that is told of pieces one behind the other.
    struct Stream {
        choice: CopyChoice,
        now: u64,
    }

    impl Stream {
        /// As [`choice`], with a pause of so many pieces.
        fn new(pause: usize) -> Stream {
            let slow = SlowCopies { reused: 30, anywhere: 100 };
            Stream { choice: CopyChoice::new(slow, (pause * PIECE) as u64), now: 0 }
        }

        /// Pieces that take so many ticks each, until they are spread, or are no more.
        fn until(&mut self, spreads: bool, ticks: u64) -> usize {
            let mut pieces = 0;
            while self.choice.spreads() != spreads {
                self.piece(ticks);
                pieces += 1;
            }
            pieces
        }

        fn piece(&mut self, ticks: u64) {
            let at = self.now..self.now + ticks;
            self.now = at.end;
            let is_spread = self.choice.spreads();
            self.choice.plain_took(PIECE, at, true);
            if is_spread {
                self.choice.spread(PIECE);
            }
        }
    }

    const PREVAILS: usize = Spell::PREVAILS as usize;
    const SPREADING: usize = SPREADING_TIMES as usize;

    /// Copies that took longer are slow where lines are reused.
    const LIMIT: u64 = 200;

    #[test]
    fn what_is_slow_in_reused_lines_is_spread() {
        let mut choice = choice();
        (0..2000).for_each(|_| choice.plain_took(PIECE, 0..LIMIT, true));
        (0..100).for_each(|_| choice.plain_took(PIECE, 0..300, false));
        assert!(!choice.spreads());
        (0..PREVAILS).for_each(|_| choice.plain_took(PIECE, 0..300, true));
        assert!(choice.spreads() && choice.kind() == CopyKind::Plain && choice.wants_time(PIECE));

        // How long it takes the usual way is known first.
        let mut stream = Stream::new(1);
        let mut usual = pieces_of(STRETCHES_USUAL) - 1 + PREVAILS;
        for times in [1, 2, 4, 8, 16, 16] {
            assert_eq!((stream.until(true, 300), stream.until(false, 300)), (usual, times * SPREADING));
            usual = SETTLING_BYTES as usize / PIECE + PREVAILS;
        }
    }

    #[test]
    fn what_is_not_faster_for_being_spread_is_spread_no_more() {
        let (pause, judged) = (10_000, pieces_of(STRETCHES_SPREAD));
        for (ticks, stays) in [(300, false), (290, false), (283, false), (282, true), (100, true)] {
            let mut stream = Stream::new(pause);
            stream.until(true, 300);
            let pieces = stream.until(false, ticks);
            assert_eq!(
                pieces,
                if stays { pause * SPREADING } else { judged },
                "{ticks} ticks instead of 300"
            );
        }
        // Each time in vain it is left alone for longer, until it was good for something.
        let mut stream = Stream::new(pause);
        stream.until(true, 300);
        for times in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(stream.until(false, 300), judged);
            let usual = stream.until(true, 300);
            let refused = times * REFUSED as usize * pause;
            assert!((refused..refused + pieces_of(1)).contains(&usual), "{usual} pieces after {times}");
        }
        stream.until(false, 200);
        stream.until(true, 300);
        assert_eq!(stream.until(false, 300), judged);
        assert!(stream.until(true, 300) < 2 * REFUSED as usize * pause);
    }

    #[test]
    fn an_attempt_not_to_spread_is_judged_anew() {
        let mut stream = Stream::new(10_000);
        stream.until(true, 300);
        let settling = SETTLING_BYTES as usize / PIECE;
        let attempt = settling + pieces_of(STRETCHES_USUAL) - 1 + PREVAILS;
        for times in [1, 2, 4] {
            assert_eq!(stream.until(false, 200), times * 10_000 * SPREADING);
            // What was slow for having been elsewhere does not count.
            (0..settling).for_each(|_| stream.piece(600));
            assert_eq!(stream.until(true, 300), attempt - settling);
        }
        assert_eq!(stream.until(false, 300), pieces_of(STRETCHES_SPREAD));
    }

    #[test]
    fn what_is_measured_in_short_attempts_adds_up_to_a_verdict() {
        let mut stream = Stream::new(pieces_of(1) / SPREADING);
        let (mut spread, mut refused) = (0, false);
        while !refused {
            stream.until(true, 300);
            spread += stream.until(false, 300);
            refused = !stream.choice.verdict.is_open();
        }
        let judged = pieces_of(STRETCHES_SPREAD);
        assert!((judged..2 * judged).contains(&spread), "{spread} pieces");
    }

    #[test]
    fn the_shortest_of_the_last_stretches_counts() {
        // Nearly all of the usual ones were disturbed, and then all that were spread but one.
        for (usual, spread, stays) in [(900, 300, false), (300, 900, false), (900, 200, true)] {
            let mut stream = Stream::new(10_000);
            let mut at = 0;
            while !stream.choice.spreads() {
                let ticks = if at / pieces_of(1) == 1 { 300 } else { usual };
                stream.now += ticks;
                stream.choice.plain_took(PIECE, stream.now - 300..stream.now, true);
                at += 1;
            }
            at = 0;
            while stream.choice.spreads() && at < 5000 {
                let ticks = if at / pieces_of(1) == 3 { spread.min(300) } else { spread };
                stream.now += ticks;
                stream.choice.plain_took(PIECE, stream.now - ticks.min(300)..stream.now, true);
                at += 1;
            }
            assert_eq!(stream.choice.spreads(), stays, "{usual} and {spread} ticks");
        }
    }

    #[test]
    fn what_is_streamed_is_not_spread() {
        let prevails = usize::from(Spell::PREVAILS);
        for complains in [false, true] {
            let mut choice = Stream::new(pieces_of(1)).choice;
            let usual = pieces_of(STRETCHES_USUAL) + prevails;
            (0..usual).for_each(|_| choice.plain_took(PIECE, 0..300, true));
            assert!(choice.spreads());
            match complains {
                false => slow(&mut choice, prevails),
                true => choice.reader_was_slow(),
            }
            assert!(choice.kind() == CopyKind::Streaming && !choice.spreads());
            // What is tried then are plain copies to lines that are written again soon.
            stream(&mut choice);
            assert!(!choice.spreads());
        }
        // What was counted before that says nothing later.
        let mut counted = choice();
        (0..pieces_of(STRETCHES_USUAL)).for_each(|_| counted.plain_took(PIECE, 0..LIMIT, true));
        (1..prevails).for_each(|_| counted.plain_took(PIECE, 0..300, true));
        counted.reader_was_slow();
        stream(&mut counted);
        settle(&mut counted);
        (0..pieces_of(STRETCHES_USUAL)).for_each(|_| counted.plain_took(PIECE, 0..LIMIT, true));
        (1..prevails).for_each(|_| counted.plain_took(PIECE, 0..300, true));
        assert!(!counted.spreads());
        counted.plain_took(PIECE, 0..300, true);
        assert!(counted.spreads());
    }

    #[test]
    fn copies_to_reused_lines_may_take_longer_before_all_is_streamed() {
        for (ticks, streams) in [(1110, false), (1111, true)] {
            let mut choice = choice();
            (0..PREVAILS).for_each(|_| choice.plain_took(PIECE, 0..ticks, true));
            assert_eq!(choice.kind() == CopyKind::Streaming, streams, "{ticks} ticks");
        }
        // What is spread, and what was not worth spreading, may not.
        for spread_ticks in [200, 300] {
            let mut stream = Stream::new(10_000);
            stream.until(true, 300);
            (0..pieces_of(STRETCHES_SPREAD)).for_each(|_| stream.piece(spread_ticks));
            assert_eq!(stream.choice.spreads(), spread_ticks == 200);
            (0..PREVAILS).for_each(|_| stream.choice.plain_took(PIECE, 0..669, true));
            assert_eq!(stream.choice.kind(), CopyKind::Streaming);
        }
    }

    #[test]
    fn a_fixed_kind_stays() {
        for kind in [CopyKind::Plain, CopyKind::Streaming] {
            let mut choice = CopyChoice::always(kind);
            slow(&mut choice, 100);
            choice.streamed(PIECE);
            assert!(choice.kind() == kind && !choice.wants_time(8192) && !choice.spreads());
        }
    }
}
