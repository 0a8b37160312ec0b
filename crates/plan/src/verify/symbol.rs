//! What a unit of a buffer stands for, what it is at first, and what it must be at the end.

use std::fmt;

use crate::call::Call;
use crate::ir::Place;

/// What one unit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    /// Nothing was ever written there.
    Undefined,
    /// A unit of a rank's contribution, to be moved.
    Moved {
        /// Whose.
        rank: u32,
        /// Which unit of it.
        position: usize,
    },
    /// Contributions that have been combined.
    Combined {
        /// Which element of each.
        position: usize,
        /// Whose.
        ranks: Ranks,
        /// A hash of the expression.
        expression: u64,
    },
}

/// Contributing ranks, in order or as a multiset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranks {
    /// `low..high`, in that order.
    Ordered { low: u32, high: u32 },
    /// Any.
    Multiset { how_many: u32, sum: u64 },
}

impl Ranks {
    /// The ranks `0..high`.
    pub(super) fn below(high: u32, commutative: bool) -> Self {
        if commutative {
            let sum = (0..high).fold(0_u64, |sum, rank| sum.wrapping_add(mix(u64::from(rank))));
            Self::Multiset { how_many: high, sum }
        } else {
            Self::Ordered { low: 0, high }
        }
    }

    fn one(rank: u32, commutative: bool) -> Self {
        if commutative {
            Self::Multiset { how_many: 1, sum: mix(u64::from(rank)) }
        } else {
            Self::Ordered { low: rank, high: rank + 1 }
        }
    }

    fn join(self, right: Self) -> Option<Self> {
        match (self, right) {
            (Self::Ordered { low, high: middle }, Self::Ordered { low: next, high }) => {
                (middle == next).then_some(Self::Ordered { low, high })
            }
            (Self::Multiset { how_many, sum }, Self::Multiset { how_many: other_many, sum: other_sum }) => {
                Some(Self::Multiset {
                    how_many: how_many.checked_add(other_many)?,
                    sum: sum.wrapping_add(other_sum),
                })
            }
            _ => None,
        }
    }
}

impl Symbol {
    /// `left op right`, or `None` if the two must not be combined.
    pub(super) fn combine(left: Self, right: Self) -> Option<Self> {
        let Self::Combined { position, ranks, expression } = left else { return None };
        let Self::Combined { position: other, ranks: right_ranks, expression: right } = right else {
            return None;
        };
        if position != other {
            return None;
        }
        let expression = mix(expression.wrapping_mul(3).wrapping_add(mix(right)));
        Some(Self::Combined { position, ranks: ranks.join(right_ranks)?, expression })
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined => f.write_str("undefined"),
            Self::Moved { rank, position } => write!(f, "unit {position} of rank {rank}"),
            Self::Combined { position, ranks: Ranks::Ordered { low, high }, .. } => {
                write!(f, "element {position} of ranks {low}..{high}")
            }
            Self::Combined { position, ranks: Ranks::Multiset { how_many, sum }, .. } => {
                write!(f, "element {position} of {how_many} contributions (hash {sum:016x})")
            }
        }
    }
}

/// Scrambles a number (the finalizer of SplitMix64, Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators").
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A buffer of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// What its units stand for; none if the rank does not have it.
    pub(super) units: Vec<Symbol>,
    /// Whether a plan may write it.
    pub(super) writable: bool,
}

impl Buffer {
    /// A buffer that is undefined at first.
    pub(super) fn scratch(len: usize) -> Self {
        Self { units: vec![Symbol::Undefined; len], writable: true }
    }
}

/// How long input and output of a rank are, and what the standard wants.
pub(super) struct Requirement<'a> {
    pub(super) call: &'a Call,
    pub(super) size: u32,
    pub(super) rank: u32,
}

impl Requirement<'_> {
    /// The user's send and receive buffers before the call.
    pub(super) fn buffers(&self) -> (Buffer, Buffer) {
        let (given, wanted) = self.lengths();
        let contribution = |len| (0..len).map(|position| self.contribution(position)).collect::<Vec<_>>();
        if matches!(self.call, Call::Bcast { root, .. } if *root == self.rank) {
            return (Buffer::default(), Buffer { units: contribution(given), writable: false });
        }
        let in_place = self.call.in_place() && self.call.root().is_none_or(|root| root == self.rank);
        if !in_place {
            let input = Buffer { units: contribution(given), writable: false };
            return (input, self.output(Buffer::scratch(wanted)));
        }
        let output = match *self.call {
            // The root of a scatter has no output, and goes on having its input.
            Call::Scatter { .. } => {
                return (Buffer { units: contribution(given), writable: false }, Buffer::default());
            }
            Call::Gather { block, .. } | Call::Allgather { block, .. } => {
                let mut output = Buffer::scratch(wanted);
                let start = self.rank as usize * block.0;
                output.units[start..start + block.0].copy_from_slice(&contribution(block.0));
                output
            }
            _ => Buffer { units: contribution(given), writable: true },
        };
        (Buffer::default(), self.output(output))
    }

    fn output(&self, buffer: Buffer) -> Buffer {
        let untouched = matches!(self.call, Call::Exscan { .. }) && self.rank == 0;
        Buffer { writable: !untouched, ..buffer }
    }

    /// Units this rank contributes, and units of its output.
    fn lengths(&self) -> (usize, usize) {
        let size = self.size as usize;
        let at_root = |len: usize| if self.call.root() == Some(self.rank) { len } else { 0 };
        let count = self.call.count().0;
        match self.call {
            Call::Barrier => (0, 0),
            Call::Bcast { .. } => (at_root(count), count),
            Call::Gather { .. } => (count, at_root(size * count)),
            Call::Scatter { .. } => (at_root(size * count), count),
            Call::Allgather { .. } => (count, size * count),
            Call::Alltoall { .. } => (size * count, size * count),
            Call::Reduce { .. } => (count, at_root(count)),
            Call::Allreduce { .. } | Call::Scan { .. } | Call::Exscan { .. } => (count, count),
            Call::ReduceScatterBlock { .. } => (size * count, count),
        }
    }

    fn reduces(&self) -> bool {
        crate::table::unit(self.call.collective()) == crate::ir::Unit::Elements
    }

    fn contribution(&self, position: usize) -> Symbol {
        if self.reduces() {
            let ranks = Ranks::one(self.rank, self.call.commutative());
            Symbol::Combined { position, ranks, expression: mix(u64::from(self.rank)) }
        } else {
            Symbol::Moved { rank: self.rank, position }
        }
    }

    /// How many units of the output have a required value.
    pub(super) fn required(&self) -> usize {
        match *self.call {
            Call::Scatter { root, in_place: true, .. } if root == self.rank => 0,
            Call::Exscan { .. } if self.rank == 0 => 0,
            _ => self.lengths().1,
        }
    }

    /// What a unit of the output must stand for: moved data itself, or the ranks that are combined.
    pub(super) fn expected(&self, unit: usize, everyone: Ranks) -> Symbol {
        let (rank, count) = (self.rank as usize, self.call.count().0);
        let moved = |rank: usize, position| Symbol::Moved { rank: rank as u32, position };
        let combined = |position, ranks| Symbol::Combined { position, ranks, expression: 0 };
        let commutative = self.call.commutative();
        match *self.call {
            Call::Barrier => Symbol::Undefined,
            Call::Bcast { root, .. } => moved(root as usize, unit),
            Call::Gather { .. } | Call::Allgather { .. } => moved(unit / count, unit % count),
            Call::Scatter { root, .. } => moved(root as usize, rank * count + unit),
            Call::Alltoall { .. } => moved(unit / count, rank * count + unit % count),
            Call::Reduce { .. } | Call::Allreduce { .. } => combined(unit, everyone),
            Call::ReduceScatterBlock { .. } => combined(rank * count + unit, everyone),
            Call::Scan { .. } => combined(unit, Ranks::below(self.rank + 1, commutative)),
            Call::Exscan { .. } => combined(unit, Ranks::below(self.rank, commutative)),
        }
    }
}

/// Whether a unit is as expected, whatever the expression.
pub(super) fn agrees(found: Symbol, expected: Symbol) -> bool {
    match (found, expected) {
        (
            Symbol::Combined { position, ranks, .. },
            Symbol::Combined { position: wanted, ranks: wanted_ranks, .. },
        ) => position == wanted && ranks == wanted_ranks,
        (found, expected) => found == expected,
    }
}

/// A place as an index: input, output, temporaries.
pub(super) fn index(place: Place) -> usize {
    match place {
        Place::Input => 0,
        Place::Output => 1,
        Place::Temporary(n) => 2 + usize::from(n),
    }
}
