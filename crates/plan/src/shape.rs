//! Arithmetic that algorithms share: rings, binomial trees, powers of two, parts of a vector.

use crate::ir::{PlanBuffer, Span};

/// The number of doublings from 1 to at least `n`, which is at least 1.
pub(crate) const fn levels(n: u32) -> u32 {
    u32::BITS - (n - 1).leading_zeros()
}

/// `rank + distance` around a ring; `distance` is at most `size`.
pub(crate) const fn up(rank: u32, distance: u32, size: u32) -> u32 {
    ((rank as u64 + distance as u64) % size as u64) as u32
}

/// `rank - distance` around a ring; `distance` is at most `size`.
pub(crate) const fn down(rank: u32, distance: u32, size: u32) -> u32 {
    up(rank, size - distance % size, size)
}

/// The binomial tree over `0..size` with root 0. Every subtree is a contiguous range: `v` leads the
/// ranks `v .. v + extent(v)`, and its child number `k` is `v + 2^k`.
pub(crate) mod binomial {
    use super::levels;

    pub(crate) const fn children(v: u32, size: u32) -> u32 {
        let fit = levels(size - v);
        if v == 0 || fit < v.trailing_zeros() { fit } else { v.trailing_zeros() }
    }

    pub(crate) const fn parent(v: u32) -> u32 {
        v & (v - 1)
    }

    pub(crate) const fn extent(v: u32, size: u32) -> u32 {
        let rest = size - v;
        if v == 0 || rest < (1 << v.trailing_zeros()) { rest } else { 1 << v.trailing_zeros() }
    }
}

/// A team folded to a power of two, in rank order: the first ranks form pairs, and the even rank of
/// a pair acts for both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    /// The number of active ranks: the largest power of two that is at most the size.
    pub(crate) active: u32,
    pairs: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum FoldRole {
    Active {
        index: u32,
        /// The rank just above, for which this rank acts.
        partner: Option<u32>,
    },
    Idle {
        /// The rank just below, which acts for this rank.
        partner: u32,
    },
}

impl Fold {
    pub(crate) const fn new(size: u32) -> Self {
        let active = 1 << (u32::BITS - 1 - size.leading_zeros());
        Self { active, pairs: size - active }
    }

    pub(crate) fn role(&self, rank: u32) -> FoldRole {
        if rank >= 2 * self.pairs {
            FoldRole::Active { index: rank - self.pairs, partner: None }
        } else if rank.is_multiple_of(2) {
            FoldRole::Active { index: rank / 2, partner: Some(rank + 1) }
        } else {
            FoldRole::Idle { partner: rank - 1 }
        }
    }

    /// The rank of the active rank `index`.
    pub(crate) const fn rank(&self, index: u32) -> u32 {
        if index < self.pairs { 2 * index } else { index + self.pairs }
    }
}

/// A vector of `count` units in `parts` parts, whose lengths differ by at most one unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorParts {
    pub(crate) count: usize,
    pub(crate) parts: u32,
}

impl VectorParts {
    /// The start of part `index`, which may be one past the last.
    pub(crate) fn start(&self, index: u32) -> usize {
        let (parts, index) = (self.parts as usize, index as usize);
        index * (self.count / parts) + index.min(self.count % parts)
    }

    pub(crate) fn span(&self, place: PlanBuffer, first: u32, how_many: u32) -> Span {
        let start = self.start(first);
        place.span(start, self.start(first + how_many) - start)
    }

    pub(crate) fn longest(&self) -> usize {
        self.start(1)
    }
}

/// A vector cut into segments of a fixed length; the last one may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    count: usize,
    length: usize,
}

impl Segments {
    /// Segments of `length` units; 0: one segment.
    pub(crate) fn new(count: usize, length: usize) -> Self {
        Self { count, length: if length == 0 { count.max(1) } else { length } }
    }

    pub(crate) fn how_many(&self) -> usize {
        self.count.div_ceil(self.length)
    }

    pub(crate) fn longest(&self) -> usize {
        self.length.min(self.count)
    }

    pub(crate) fn span(&self, place: PlanBuffer, index: usize) -> Span {
        let start = index * self.length;
        place.span(start, self.length.min(self.count - start))
    }
}
