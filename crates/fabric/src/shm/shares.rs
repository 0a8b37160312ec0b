//! The copies that this process shares with senders: which lines of its segment are taken.

use oxmpi_os::segment::{SHARES, Segment};
use std::ops::Range;
use std::sync::Arc;

/// Our own shares.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Which lines are taken, a bit for each.
    taken: u32,
    /// When something came last for the share of each line, or it was opened, in ticks.
    since: [u64; SHARES as usize],
}

const _: () = assert!(SHARES <= u32::BITS);

/// A share's name on the wire: its number and, so that it is never 0, its line plus 1.
const fn name(number: u32, line: u32) -> u64 {
    (number as u64) << 32 | (line as u64 + 1)
}

/// Number and line of a share, if there can be such a line.
fn parts(share: u64) -> Option<(u32, u32)> {
    let line = (share as u32).checked_sub(1).filter(|line| *line < SHARES)?;
    Some(((share >> 32) as u32, line))
}

/// Claims the next of `pieces` pieces of a share in `segment`, at most `most`.
pub(super) fn claim(segment: &Arc<Segment>, share: u64, pieces: u32, most: u32) -> Option<Range<u32>> {
    let (number, line) = parts(share)?;
    segment.share(line).claim(number, pieces, most)
}

impl Shares {
    /// Opens a share in our own segment, if a line is free.
    pub(super) fn open(&mut self, own: &Arc<Segment>, now: u64) -> Option<u64> {
        let line = (!self.taken).trailing_zeros();
        if line >= SHARES {
            return None;
        }
        self.taken |= 1 << line;
        self.since[line as usize] = now;
        Some(name(own.share(line).open(), line))
    }

    /// Whether nothing has come for longer than `patience`.
    pub(super) fn is_stalled(&mut self, share: u64, came: bool, now: u64, patience: u64) -> bool {
        let Some((_, line)) = parts(share) else { return false };
        let since = &mut self.since[line as usize];
        if came {
            *since = now;
        }
        now.wrapping_sub(*since) > patience
    }

    /// Closes it.
    pub(super) fn close(&mut self, own: &Arc<Segment>, share: u64) {
        if let Some((_, line)) = parts(share) {
            own.share(line).close();
            self.taken &= !(1 << line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_begins_anew_when_something_comes() {
        let mut shares = Shares::default();
        let share = name(1, 3);
        assert!(!shares.is_stalled(share, false, 10, 10));
        assert!(shares.is_stalled(share, false, 11, 10));
        assert!(!shares.is_stalled(share, true, 11, 10));
        assert!(!shares.is_stalled(share, false, 21, 10));
        assert!(shares.is_stalled(share, false, 22, 10));
    }

    #[test]
    fn names_are_never_zero_and_foreign_ones_are_refused() {
        assert_eq!(parts(name(7, 15)), Some((7, 15)));
        assert_eq!([parts(0), parts(17), parts(u64::MAX)], [None; 3]);
    }
}
