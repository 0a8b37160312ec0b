//! The symbols of buffers before the call, and the required ones after it.

use std::fmt;
use std::ops::Range;

use crate::blocks::Blocks;
use crate::call::{Call, Groups, InterCollective, InterRole, TeamMember};
use crate::edges::Edge;
use crate::ir::PlanBuffer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Undefined,
    Moved { rank: u32, position: usize },
    Combined { position: usize, ranks: Contributors, expression: u64 },
}

/// Contributing ranks, in order or as a multiset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contributors {
    Ordered { low: u32, high: u32 },
    Multiset { how_many: u32, sum: u64 },
}

impl Contributors {
    pub(super) fn below(high: u32, commutative: bool) -> Self {
        Self::within(0..high, commutative)
    }

    fn within(ranks: Range<u32>, commutative: bool) -> Self {
        let Range { start: low, end: high } = ranks;
        if commutative {
            let sum = ranks.fold(0_u64, |sum, rank| sum.wrapping_add(mix(u64::from(rank))));
            Self::Multiset { how_many: high - low, sum }
        } else {
            Self::Ordered { low, high }
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
            (
                Self::Multiset { how_many, sum },
                Self::Multiset { how_many: other_many, sum: other_sum },
            ) => Some(Self::Multiset {
                how_many: how_many.checked_add(other_many)?,
                sum: sum.wrapping_add(other_sum),
            }),
            _ => None,
        }
    }
}

impl Symbol {
    /// `left op right`; `None` if the two must not be combined.
    pub(super) fn combine(left: Self, right: Self) -> Option<Self> {
        let Self::Combined { position, ranks, expression } = left else { return None };
        let Self::Combined { position: other, ranks: right_ranks, expression: right } = right
        else {
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
            Self::Combined { position, ranks: Contributors::Ordered { low, high }, .. } => {
                write!(f, "element {position} of ranks {low}..{high}")
            }
            Self::Combined {
                position, ranks: Contributors::Multiset { how_many, sum }, ..
            } => {
                write!(f, "element {position} of {how_many} contributions (hash {sum:016x})")
            }
        }
    }
}

/// Scrambles a number (the finalizer of SplitMix64, Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators").
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Debug, Default)]
pub(super) struct SymbolBuffer {
    pub(super) units: Vec<Symbol>,
    pub(super) writable: bool,
}

impl SymbolBuffer {
    pub(super) fn scratch(len: usize) -> Self {
        Self { units: vec![Symbol::Undefined; len], writable: true }
    }
}

/// The buffers of a rank before the call, and the result that the standard requires.
pub(super) struct Requirement<'a> {
    pub(super) calls: &'a [Call],
    pub(super) rank: u32,
}

impl<'a> Requirement<'a> {
    fn call(&self) -> &'a Call {
        &self.calls[self.rank as usize]
    }

    fn size(&self) -> usize {
        self.calls.len()
    }

    fn me(&self) -> TeamMember {
        TeamMember { rank: self.rank, size: self.size() as u32 }
    }

    fn in_place(&self) -> bool {
        self.call().in_place() && self.call().root().is_none_or(|root| root == self.rank)
    }

    pub(super) fn buffers(&self) -> (SymbolBuffer, SymbolBuffer) {
        let (given, wanted) = self.lengths();
        let contribution =
            |len| (0..len).map(|position| self.contribution(position)).collect::<Vec<_>>();
        if matches!(self.call(), Call::Bcast { root, .. } if *root == self.rank) {
            return (
                SymbolBuffer::default(),
                SymbolBuffer { units: contribution(given), writable: false },
            );
        }
        if !self.in_place() {
            let input = SymbolBuffer { units: contribution(given), writable: false };
            return (input, self.output(SymbolBuffer::scratch(wanted)));
        }
        let own_block = |start: usize, len: usize| {
            let mut output = SymbolBuffer::scratch(wanted);
            output.units[start..start + len].copy_from_slice(&contribution(len));
            output
        };
        let rank = self.rank as usize;
        let output = match self.call() {
            // The root of a scatter has no output and keeps its input.
            Call::Scatter { .. } | Call::Scatterv { .. } => {
                return (
                    SymbolBuffer { units: contribution(given), writable: false },
                    SymbolBuffer::default(),
                );
            }
            Call::Gather { block, .. } | Call::Allgather { block, .. } => {
                own_block(rank * block.0, block.0)
            }
            Call::Gatherv { all, .. } => {
                let all = blocks_of(all.get());
                own_block(all.start(rank), all.length(rank))
            }
            Call::Allgatherv { blocks, .. } => {
                own_block(blocks.0.start(rank), blocks.0.length(rank))
            }
            _ => SymbolBuffer { units: contribution(given), writable: true },
        };
        (SymbolBuffer::default(), self.output(output))
    }

    fn output(&self, buffer: SymbolBuffer) -> SymbolBuffer {
        let untouched = matches!(self.call(), Call::Exscan { .. }) && self.rank == 0;
        SymbolBuffer { writable: !untouched, ..buffer }
    }

    fn lengths(&self) -> (usize, usize) {
        let (size, rank) = (self.size(), self.rank as usize);
        let at_root = |len: usize| if self.call().root() == Some(self.rank) { len } else { 0 };
        let count = self.call().count().0;
        match self.call() {
            Call::Barrier => (0, 0),
            Call::Bcast { .. } => (at_root(count), count),
            Call::Gather { .. } => (count, at_root(size * count)),
            Call::Scatter { .. } => (at_root(size * count), count),
            Call::Allgather { .. } => (count, size * count),
            Call::Alltoall { .. } => (size * count, size * count),
            Call::Reduce { .. } => (count, at_root(count)),
            Call::Allreduce { .. } | Call::Scan { .. } | Call::Exscan { .. } => (count, count),
            Call::ReduceScatterBlock { .. } => (size * count, count),
            Call::Gatherv { mine, all, .. } => (mine.0, at_root(blocks_of(all.get()).total())),
            Call::Scatterv { mine, all, .. } => (at_root(blocks_of(all.get()).total()), mine.0),
            Call::Allgatherv { blocks, .. } => (blocks.0.length(rank), blocks.0.total()),
            Call::Alltoallv { receive, in_place: true, .. } => {
                (receive.0.total(), receive.0.total())
            }
            Call::Alltoallv { send, receive, .. } => (send.0.total(), receive.0.total()),
            Call::ReduceScatter { blocks, .. } => (blocks.0.total(), blocks.0.length(rank)),
            Call::Neighbor { edges } => {
                let end = |edges: &[Edge]| {
                    edges.iter().map(|edge| edge.start + edge.len).max().unwrap_or(0)
                };
                (end(&edges.0.sends), end(&edges.0.receives))
            }
            Call::Inter { groups, what } => self.inter_lengths(*groups, what),
        }
    }

    fn inter_lengths(&self, groups: Groups, what: &InterCollective) -> (usize, usize) {
        let sides = |root: usize, leaf: usize| match what.part() {
            Some(InterRole::Root) => (root, 0),
            Some(InterRole::Leaf { .. }) => (0, leaf),
            _ => (0, 0),
        };
        let turned = |(one, other): (usize, usize)| (other, one);
        match what {
            InterCollective::Bcast { bytes, .. } => sides(bytes.0, bytes.0),
            InterCollective::Gather { mine, all, .. } => {
                turned(sides(blocks_of(all.get()).total(), mine.0))
            }
            InterCollective::Scatter { mine, all, .. } => {
                sides(blocks_of(all.get()).total(), mine.0)
            }
            InterCollective::Allgather { mine, remote } => (mine.0, remote.0.total()),
            InterCollective::Alltoall { send, receive } => (send.0.total(), receive.0.total()),
            InterCollective::Reduce { count, .. } => turned(sides(count.0, count.0)),
            InterCollective::Allreduce { count, .. } => (count.0, count.0),
            InterCollective::ReduceScatter { local, .. } => {
                let index = self.rank - groups.local(self.me()).start;
                (local.0.total(), local.0.length(index as usize))
            }
        }
    }

    fn reduces(&self) -> bool {
        crate::table::unit(self.call().collective()) == crate::ir::PlanUnit::Elements
    }

    fn contribution(&self, position: usize) -> Symbol {
        if self.reduces() {
            let ranks = Contributors::one(self.rank, self.call().commutative());
            Symbol::Combined { position, ranks, expression: mix(u64::from(self.rank)) }
        } else {
            Symbol::Moved { rank: self.rank, position }
        }
    }

    /// The number of units of the output with a required value.
    pub(super) fn required(&self) -> usize {
        match self.call() {
            Call::Scatter { .. } | Call::Scatterv { .. } if self.in_place() => 0,
            Call::Exscan { .. } if self.rank == 0 => 0,
            _ => self.lengths().1,
        }
    }

    /// The required symbol of a unit of the output, without the expression. `Undefined`: the unit
    /// must not be written.
    pub(super) fn expected(&self, unit: usize, everyone: Contributors) -> Symbol {
        let (rank, count) = (self.rank as usize, self.call().count().0);
        let commutative = self.call().commutative();
        match self.call() {
            Call::Barrier => Symbol::Undefined,
            Call::Bcast { root, .. } => moved(*root as usize, unit),
            Call::Gather { .. } | Call::Allgather { .. } => moved(unit / count, unit % count),
            Call::Scatter { root, .. } => moved(*root as usize, rank * count + unit),
            Call::Alltoall { .. } => moved(unit / count, rank * count + unit % count),
            Call::Reduce { .. } | Call::Allreduce { .. } => combined(unit, everyone),
            Call::ReduceScatterBlock { .. } => combined(rank * count + unit, everyone),
            Call::Scan { .. } => combined(unit, Contributors::below(self.rank + 1, commutative)),
            Call::Exscan { .. } => combined(unit, Contributors::below(self.rank, commutative)),
            Call::Gatherv { all, .. } => {
                let (from, at) = blocks_of(all.get()).find(unit);
                moved(from, at)
            }
            Call::Allgatherv { blocks, .. } => {
                let (from, at) = blocks.0.find(unit);
                moved(from, at)
            }
            Call::Scatterv { root, .. } => match &self.calls[*root as usize] {
                Call::Scatterv { all, .. } => {
                    moved(*root as usize, blocks_of(all.get()).start(rank) + unit)
                }
                _ => Symbol::Undefined,
            },
            Call::Alltoallv { receive, .. } => {
                let (from, at) = receive.0.find(unit);
                match &self.calls[from] {
                    Call::Alltoallv { receive: there, in_place: true, .. }
                    | Call::Alltoallv { send: there, .. } => moved(from, there.0.start(rank) + at),
                    _ => Symbol::Undefined,
                }
            }
            Call::ReduceScatter { blocks, .. } => combined(blocks.0.start(rank) + unit, everyone),
            Call::Neighbor { edges } => self.along_edge(&edges.0.receives, unit),
            Call::Inter { groups, what } => self.inter_expected(*groups, what, unit),
        }
    }

    /// The symbol of a unit received along an edge. The first edge from a peer carries the data of
    /// the peer's first edge to this rank.
    fn along_edge(&self, receives: &[Edge], unit: usize) -> Symbol {
        let covers = |edge: &Edge| edge.start <= unit && unit < edge.start + edge.len;
        let Some(at) = receives.iter().position(covers) else { return Symbol::Undefined };
        let edge = receives[at];
        let number = receives[..at].iter().filter(|earlier| earlier.peer == edge.peer).count();
        let Call::Neighbor { edges } = &self.calls[edge.peer as usize] else {
            return Symbol::Undefined;
        };
        let mut to_here = edges.0.sends.iter().filter(|sent| sent.peer == self.rank);
        let Some(sent) = to_here.nth(number) else { return Symbol::Undefined };
        moved(edge.peer as usize, sent.start + unit - edge.start)
    }

    fn inter_expected(&self, groups: Groups, what: &InterCollective, unit: usize) -> Symbol {
        let (local, remote) = (groups.local(self.me()), groups.remote(self.me()));
        let index = (self.rank - local.start) as usize;
        let theirs = |peer: usize| match &self.calls[peer] {
            Call::Inter { what, .. } => Some(what),
            _ => None,
        };
        let everyone = Contributors::within(remote.clone(), what.commutative());
        let first = remote.start as usize;
        match what {
            InterCollective::Bcast { part: InterRole::Leaf { root }, .. } => {
                moved(*root as usize, unit)
            }
            InterCollective::Gather { all, .. } => {
                let (from, at) = blocks_of(all.get()).find(unit);
                moved(first + from, at)
            }
            InterCollective::Scatter { part: InterRole::Leaf { root }, .. } => {
                match theirs(*root as usize) {
                    Some(InterCollective::Scatter { all, .. }) => {
                        moved(*root as usize, blocks_of(all.get()).start(index) + unit)
                    }
                    _ => Symbol::Undefined,
                }
            }
            InterCollective::Allgather { remote, .. } => {
                let (from, at) = remote.0.find(unit);
                moved(first + from, at)
            }
            InterCollective::Alltoall { receive, .. } => {
                let (from, at) = receive.0.find(unit);
                match theirs(first + from) {
                    Some(InterCollective::Alltoall { send, .. }) => {
                        moved(first + from, send.0.start(index) + at)
                    }
                    _ => Symbol::Undefined,
                }
            }
            InterCollective::Reduce { .. } | InterCollective::Allreduce { .. } => {
                combined(unit, everyone)
            }
            InterCollective::ReduceScatter { local, .. } => {
                combined(local.0.start(index) + unit, everyone)
            }
            _ => Symbol::Undefined,
        }
    }
}

fn moved(rank: usize, position: usize) -> Symbol {
    Symbol::Moved { rank: rank as u32, position }
}

fn combined(position: usize, ranks: Contributors) -> Symbol {
    Symbol::Combined { position, ranks, expression: 0 }
}

fn blocks_of(all: Option<&Blocks>) -> Blocks {
    all.cloned()
        .or_else(|| Blocks::new([]))
        .unwrap_or_else(|| unreachable!("no blocks have no length"))
}

/// Whether a symbol is the required one, apart from the expression.
pub(super) fn agrees(found: Symbol, expected: Symbol) -> bool {
    match (found, expected) {
        (
            Symbol::Combined { position, ranks, .. },
            Symbol::Combined { position: wanted, ranks: wanted_ranks, .. },
        ) => position == wanted && ranks == wanted_ranks,
        (found, expected) => found == expected,
    }
}

pub(super) fn index(place: PlanBuffer) -> usize {
    match place {
        PlanBuffer::Input => 0,
        PlanBuffer::Output => 1,
        PlanBuffer::Temporary(n) => 2 + usize::from(n),
    }
}
