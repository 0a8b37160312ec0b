//! Blocks of different lengths: one for each rank of the v and w forms, one for each edge of a neighbourhood.

use std::sync::Arc;

use crate::ir::{Place, Span};
use crate::shape::Parts;

/// The lengths of blocks that follow each other in a packed buffer, in units of the plan. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Where each block begins; the last is the end of all.
    starts: Arc<[usize]>,
}

impl Blocks {
    /// Blocks of these lengths. `None` if they are more than memory can hold together.
    pub fn new(lengths: impl IntoIterator<Item = usize>) -> Option<Self> {
        let mut starts = vec![0_usize];
        let mut end = 0_usize;
        for length in lengths {
            end = end.checked_add(length).filter(|end| isize::try_from(*end).is_ok())?;
            starts.push(end);
        }
        Some(Self { starts: starts.into() })
    }

    /// How many there are.
    #[must_use]
    pub fn how_many(&self) -> usize {
        self.starts.len() - 1
    }

    /// The length of all together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.starts[self.how_many()]
    }

    /// Where a block begins; `index` may be one past the last.
    ///
    /// # Panics
    /// If there are fewer blocks.
    #[must_use]
    pub fn start(&self, index: usize) -> usize {
        self.starts[index]
    }

    /// The length of a block.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn length(&self, index: usize) -> usize {
        self.starts[index + 1] - self.starts[index]
    }

    /// The length of the longest block.
    #[must_use]
    pub fn longest(&self) -> usize {
        (0..self.how_many()).map(|index| self.length(index)).max().unwrap_or(0)
    }

    /// The block in which a unit lies, and its place there.
    ///
    /// # Panics
    /// If the unit lies beyond the last block.
    #[must_use]
    pub fn find(&self, unit: usize) -> (usize, usize) {
        assert!(unit < self.total(), "unit {unit} of blocks of {} units", self.total());
        // The last block that begins there or before: those before it that begin at the same place are empty.
        let index = self.starts.partition_point(|start| *start <= unit) - 1;
        (index, unit - self.starts[index])
    }
}

/// A buffer cut into one block for each rank.
#[derive(Clone, Debug)]
pub(crate) enum Cut {
    /// All of one length.
    Even(usize),
    /// Each of its own.
    Uneven(Blocks),
    /// A vector cut into parts that differ by at most one unit.
    Parts(Parts),
}

impl Cut {
    fn start(&self, index: u32) -> usize {
        match self {
            Self::Even(length) => index as usize * length,
            Self::Uneven(blocks) => blocks.start(index as usize),
            Self::Parts(parts) => parts.start(index),
        }
    }

    /// One block of a buffer.
    pub(crate) fn block(&self, place: Place, index: u32) -> Span {
        self.span(place, index, 1)
    }

    /// Blocks `first .. first + how_many` of a buffer.
    pub(crate) fn span(&self, place: Place, first: u32, how_many: u32) -> Span {
        let start = self.start(first);
        place.span(start, self.start(first + how_many) - start)
    }

    /// Blocks from `first` on, around the end of a buffer of `size` of them: two spans, the second often empty.
    pub(crate) fn wrapped(&self, place: Place, first: u32, how_many: u32, size: u32) -> [Span; 2] {
        let head = how_many.min(size - first);
        [self.span(place, first, head), self.span(place, 0, how_many - head)]
    }

    /// The length of `size` blocks together.
    pub(crate) fn total(&self, size: u32) -> usize {
        self.start(size)
    }

    /// The length of the longest block.
    pub(crate) fn longest(&self) -> usize {
        match self {
            Self::Even(length) => *length,
            Self::Uneven(blocks) => blocks.longest(),
            Self::Parts(parts) => parts.longest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_behind_empty_blocks() {
        let blocks = Blocks::new([0, 3, 0, 0, 2, 0]).unwrap();
        assert_eq!((blocks.how_many(), blocks.total(), blocks.longest()), (6, 5, 3));
        assert_eq!([0, 2, 3, 4].map(|unit| blocks.find(unit)), [(1, 0), (1, 2), (4, 0), (4, 1)]);
        assert_eq!((blocks.length(2), blocks.start(4), blocks.start(6)), (0, 3, 5));
        assert_eq!(Blocks::new([]).unwrap().total(), 0);
    }

    #[test]
    fn more_than_memory_can_hold_is_refused() {
        assert!(Blocks::new([usize::MAX / 2, 1]).is_none());
        assert!(Blocks::new([usize::MAX, usize::MAX]).is_none());
        assert!(Blocks::new([isize::MAX as usize]).is_some());
    }
}
