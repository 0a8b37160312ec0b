//! Which pages of a pool this process has used.

use super::area::{PAGE, PoolArea};

/// The pages of the pool to or from which this process has copied in a way that is timed, a bit for each: others may have no memory
/// here yet, and a copy there takes the time in which the kernel makes them.
#[derive(Clone, Debug)]
pub(super) struct Touched(Box<[u64]>);

impl Touched {
    pub(super) fn new(area: &PoolArea) -> Touched {
        let pages = (area.shape.lap_bytes() as usize).div_ceil(PAGE);
        Touched(vec![0; pages.div_ceil(64)].into_boxed_slice())
    }

    /// Notes a copy that is timed, of the `len` bytes at a position. Whether there was one of all of their pages before.
    #[inline]
    pub(super) fn note(&mut self, area: &PoolArea, position: u32, len: usize) -> bool {
        let at = area.at(position);
        let (mut page, last) = (at / PAGE, (at + len.max(1) - 1) / PAGE);
        let mut all = true;
        while page <= last {
            let word = page / 64;
            // Those of this word: from `page` to its end, or to `last`.
            let until = (last - word * 64).min(63);
            let pages = (!0 << (page % 64)) & (!0 >> (63 - until));
            all &= self.0[word] & pages == pages;
            self.0[word] |= pages;
            page = (word + 1) * 64;
        }
        all
    }
}
