//! Whether a stream is faster if it is spread (rule 8 of the pool).
//!
//! What is compared is how long the stream takes for a stretch of 1 MiB in either way, with all that both sides do meanwhile: the time of
//! the copies of one side does not tell that. Of each way some stretches count, and of these the shortest.

use std::ops::Range;

/// So many bytes are a stretch.
pub(super) const STRETCH_BYTES: u64 = 1 << 20;

/// So many of the last stretches of each way count, of which the shortest is the one to compare: others may have been disturbed.
const STRETCHES: usize = 4;

/// So many stretches of the usual way are enough to try the other one. More would make the wrong way of a program's first long
/// messages longer, and each attempt not to spread.
pub(super) const STRETCHES_USUAL: usize = 2;

/// So many stretches of what is spread are enough for a verdict. The first of them do not count: as many as the larger part of the usual
/// pool has.
pub(super) const STRETCHES_SPREAD: usize = STRETCHES + 2;

/// Spreading is worth while if it takes a sixteenth less time.
const WORTH: u64 = 16;

/// After an attempt at spreading that was not worth while, so many times as many bytes go the usual way before there is another one, and
/// twice as many after each one more, this often.
pub(super) const REFUSED: u64 = 8;
const REFUSED_DOUBLINGS: u32 = 6;

/// How long a stream took for each of its last stretches.
#[derive(Clone, Debug, Default)]
struct Stretches {
    /// When the one under way began, and the bytes of it.
    began: Option<u64>,
    bytes: u64,
    /// How many have ended, and how many ticks the last of them took, each in its turn.
    ended: usize,
    ticks: [u64; STRETCHES],
}

impl Stretches {
    /// A piece was copied at this time.
    #[inline]
    fn note(&mut self, bytes: usize, at: &Range<u64>) {
        let began = *self.began.get_or_insert(at.start);
        self.bytes += bytes as u64;
        if self.bytes >= STRETCH_BYTES {
            let ticks = u128::from(at.end.wrapping_sub(began)) * u128::from(STRETCH_BYTES);
            self.ticks[self.ended % STRETCHES] = (ticks / u128::from(self.bytes)) as u64;
            (self.began, self.bytes, self.ended) = (Some(at.end), 0, self.ended.saturating_add(1));
        }
    }

    /// The shortest of the last ones, if so many have ended.
    fn shortest_of(&self, enough: usize) -> Option<u64> {
        let shortest = self.ticks.iter().take(self.ended).min().copied();
        shortest.filter(|_| self.ended >= enough)
    }

    /// The stretch under way is over.
    fn interrupt(&mut self) {
        (self.began, self.bytes) = (None, 0);
    }
}

/// Whether a stream is faster if it is spread. That copies to lines which are written again soon are slow says only that it may
/// be: where a processor does not fetch what it overwrites they are slow elsewhere, too.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    usual: Stretches,
    spread: Stretches,
    is_given: bool,
    /// So many bytes of the usual way are left before spreading may be tried: after the first attempt in vain, and the next time.
    first: u64,
    next: u64,
    left: u64,
}

impl Verdict {
    /// After the first attempt in vain, [`REFUSED`] times `pause` bytes go the usual way.
    pub(super) fn new(pause: u64) -> Verdict {
        let first = pause.saturating_mul(REFUSED);
        Verdict { first, next: first, ..Verdict::default() }
    }

    /// A piece went the usual way. Whether enough is known of that to try another.
    #[inline]
    pub(super) fn went_usual(&mut self, bytes: usize, at: &Range<u64>) -> bool {
        self.left = self.left.saturating_sub(bytes as u64);
        self.usual.note(bytes, at);
        self.left == 0 && self.usual.shortest_of(STRETCHES_USUAL).is_some()
    }

    /// Whether spreading was not found to be of no use just now.
    #[inline]
    pub(super) const fn is_open(&self) -> bool {
        self.left == 0
    }

    /// A piece was copied while messages are spread. Whether that has turned out not to be worth while.
    #[inline]
    pub(super) fn refuses(&mut self, bytes: usize, at: &Range<u64>) -> bool {
        if self.is_given {
            return false;
        }
        self.spread.note(bytes, at);
        let (Some(usual), Some(spread)) =
            (self.usual.shortest_of(STRETCHES_USUAL), self.spread.shortest_of(STRETCHES_SPREAD))
        else {
            return false;
        };
        self.is_given = true;
        if spread.saturating_add(spread / WORTH) <= usual {
            self.next = self.first;
            return false;
        }
        self.left = self.next;
        self.next = self.next.saturating_mul(2).min(self.first.saturating_mul(1 << REFUSED_DOUBLINGS));
        true
    }

    /// The next messages go the usual way again. If there was no verdict yet, what was measured counts the next time.
    pub(super) fn pause(&mut self) {
        if self.is_given {
            return self.forget();
        }
        self.usual.interrupt();
        self.spread.interrupt();
    }

    /// What was measured is over.
    pub(super) fn forget(&mut self) {
        *self = Verdict { first: self.first, next: self.next, left: self.left, ..Verdict::default() };
    }
}
