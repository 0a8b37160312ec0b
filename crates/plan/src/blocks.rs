//! Blocks of different lengths: one for each rank (v and w forms), or one for each edge of a
//! neighbourhood.

use std::sync::Arc;

use crate::ir::{PlanBuffer, Span};
use crate::shape::VectorParts;

/// The lengths of consecutive blocks in a packed buffer, in units of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The start of each block, and the end of the last.
    starts: Arc<[usize]>,
}

impl Blocks {
    /// Blocks of these lengths; `None` if their sum exceeds `isize::MAX`.
    pub fn new(lengths: impl IntoIterator<Item = usize>) -> Option<Self> {
        let mut starts = vec![0_usize];
        let mut end = 0_usize;
        for length in lengths {
            end = end.checked_add(length).filter(|end| isize::try_from(*end).is_ok())?;
            starts.push(end);
        }
        Some(Self { starts: starts.into() })
    }

    /// The number of blocks.
    #[must_use]
    pub fn how_many(&self) -> usize {
        self.starts.len() - 1
    }

    /// The sum of the lengths.
    #[must_use]
    pub fn total(&self) -> usize {
        self.starts[self.how_many()]
    }

    /// The start of a block; `index` may be one past the last. Panics if it is larger.
    #[must_use]
    pub fn start(&self, index: usize) -> usize {
        self.starts[index]
    }

    /// The length of a block. Panics if there is no such block.
    #[must_use]
    pub fn length(&self, index: usize) -> usize {
        self.starts[index + 1] - self.starts[index]
    }

    /// The length of the longest block.
    #[must_use]
    pub fn longest(&self) -> usize {
        (0..self.how_many()).map(|index| self.length(index)).max().unwrap_or(0)
    }

    /// The block that contains a unit, and the unit's offset in it. Panics if the unit is beyond
    /// the last block.
    #[must_use]
    pub fn find(&self, unit: usize) -> (usize, usize) {
        assert!(unit < self.total(), "unit {unit} of blocks of {} units", self.total());
        // Empty blocks may start at the same unit: the last block with this start is not empty.
        let index = self.starts.partition_point(|start| *start <= unit) - 1;
        (index, unit - self.starts[index])
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Cut {
    Even(usize),
    Uneven(Blocks),
    /// Lengths differ by at most one unit.
    Parts(VectorParts),
}

impl Cut {
    fn start(&self, index: u32) -> usize {
        match self {
            Self::Even(length) => index as usize * length,
            Self::Uneven(blocks) => blocks.start(index as usize),
            Self::Parts(parts) => parts.start(index),
        }
    }

    pub(crate) fn block(&self, place: PlanBuffer, index: u32) -> Span {
        self.span(place, index, 1)
    }

    pub(crate) fn span(&self, place: PlanBuffer, first: u32, how_many: u32) -> Span {
        let start = self.start(first);
        place.span(start, self.start(first + how_many) - start)
    }

    /// `how_many` blocks from `first` on, wrapping around the end of a buffer of `size` blocks: two
    /// spans, the second often empty.
    pub(crate) fn wrapped(
        &self,
        place: PlanBuffer,
        first: u32,
        how_many: u32,
        size: u32,
    ) -> [Span; 2] {
        let head = how_many.min(size - first);
        [self.span(place, first, head), self.span(place, 0, how_many - head)]
    }

    pub(crate) fn total(&self, size: u32) -> usize {
        self.start(size)
    }

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
    fn units_are_found_after_empty_blocks() {
        let blocks = Blocks::new([0, 3, 0, 0, 2, 0]).unwrap();
        assert_eq!((blocks.how_many(), blocks.total(), blocks.longest()), (6, 5, 3));
        assert_eq!([0, 2, 3, 4].map(|unit| blocks.find(unit)), [(1, 0), (1, 2), (4, 0), (4, 1)]);
        assert_eq!((blocks.length(2), blocks.start(4), blocks.start(6)), (0, 3, 5));
        assert_eq!(Blocks::new([]).unwrap().total(), 0);
    }

    #[test]
    fn lengths_beyond_isize_max_are_refused() {
        assert!(Blocks::new([usize::MAX / 2, 1]).is_none());
        assert!(Blocks::new([usize::MAX, usize::MAX]).is_none());
        assert!(Blocks::new([isize::MAX as usize]).is_some());
    }
}
