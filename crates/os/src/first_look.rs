//! When an answer is looked for first, where both write to the same line.
//!
//! A look that comes too early takes the line from the one who is about to write, who then has to fetch it again: that costs more
//! than to look a little later. How long an answer takes depends on how far the processors are from each other, and on what the
//! program does between: so it is learnt.

use crate::clock::{pass_few_ticks_from, pass_ticks_from, ticks, ticks_of_ns};
use std::sync::atomic::{AtomicU64, Ordering};

/// By how many nanoseconds the first look is put off if it was in vain. Each other one brings it forward by a quarter of that.
const STEP_NS: u64 = 2;
/// Up to so many nanoseconds the time is kept as close as can be. Distant answers come now sooner and now later by more than it
/// takes to read a clock.
const CLOSE_NS: u64 = 128;
/// How long it is put off at most, nanoseconds. What takes longer is looked for as usual.
const LATEST_NS: u64 = 600;

/// When somebody looks for an answer first, as has been learnt from the answers before.
#[derive(Debug, Default)]
pub struct FirstLook {
    /// After so many sixteenths of a tick. Used by one thread at a time.
    after: AtomicU64,
}

impl FirstLook {
    /// Looks once, by `is_there`, when an answer is likely to be there: to what was `written` then, in ticks ([`ticks`]). If that
    /// was long ago it looks at once, and learns nothing. `IN_LINE`: an answer lies in the line alone, so that a look that comes too early
    /// costs little, and is to come as close to its time as can be. If other lines are fetched with it, it costs more.
    #[inline(always)]
    pub fn finds<const IN_LINE: bool>(&self, written: u64, is_there: impl FnOnce() -> bool) -> bool {
        let (step, most) = (ticks_of_ns(STEP_NS * 16), ticks_of_ns(LATEST_NS * 16));
        let (wait, passed) = (self.after.load(Ordering::Relaxed), ticks().wrapping_sub(written));
        if passed.saturating_mul(16) > most {
            return is_there();
        }
        if IN_LINE && wait <= ticks_of_ns(CLOSE_NS * 16) {
            pass_few_ticks_from(written, passed, wait / 16);
        } else {
            pass_ticks_from(written, wait / 16);
        }
        let is_there = is_there();
        if !is_there {
            self.after.store((wait + step).min(most), Ordering::Relaxed);
        } else if passed < wait / 16 {
            self.after.store(wait.saturating_sub(step / 4), Ordering::Relaxed);
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ns_of_ticks;

    /// How long after what was written there was a look, in nanoseconds.
    fn look<const IN_LINE: bool>(first: &FirstLook, written: u64, is_there: bool) -> u64 {
        let mut looked = 0;
        let finds = first.finds::<IN_LINE>(written, || {
            looked = ns_of_ticks(ticks().wrapping_sub(written));
            is_there
        });
        assert_eq!(finds, is_there);
        looked
    }

    #[test]
    fn who_looks_in_vain_looks_later_and_who_finds_something_earlier() {
        let first = FirstLook::default();
        let after = || ns_of_ticks(first.after.load(Ordering::Relaxed) / 16);
        (0..50).for_each(|_| _ = look::<false>(&first, ticks(), false));
        assert!((90..110).contains(&after()), "{} ns", after());
        // It waits for as long, and never for less.
        assert!(look::<false>(&first, ticks(), false) >= 90);
        for _ in 0..1000 {
            look::<false>(&first, ticks(), true);
        }
        assert!(after() < 60, "{} ns", after());
        (0..1000).for_each(|_| _ = look::<false>(&first, ticks(), false));
        assert!((590..610).contains(&after()), "{} ns", after());
    }

    #[test]
    fn a_close_look_learns_as_well() {
        let first = FirstLook::default();
        let after = || first.after.load(Ordering::Relaxed);
        (0..60).for_each(|_| _ = look::<true>(&first, ticks(), false));
        let late = after();
        assert!(late > ticks_of_ns(CLOSE_NS / 2 * 16));
        // Those that something interrupts learn nothing.
        (0..500).for_each(|_| _ = look::<true>(&first, ticks(), true));
        assert!(after() < late);
    }

    #[test]
    fn what_was_written_long_ago_is_looked_for_at_once() {
        let first = FirstLook::default();
        (0..50).for_each(|_| _ = look::<false>(&first, ticks(), false));
        let before = first.after.load(Ordering::Relaxed);
        for is_there in [false, true] {
            look::<false>(&first, ticks().wrapping_sub(ticks_of_ns(2 * LATEST_NS)), is_there);
        }
        assert_eq!(first.after.load(Ordering::Relaxed), before, "and says nothing");
    }
}
