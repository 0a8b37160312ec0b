//! The collectives, and the arguments of a call on which a plan depends.

use std::fmt;
use std::ops::Range;

use crate::blocks::Blocks;
use crate::edges::Edges;
use crate::knowledge::{Paired, RootOnly, Shared};

/// Defines [`Collective`] from the variants and their names.
macro_rules! collectives {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// The collectives that have plans (MPI-5.0 sections 6.3 to 6.11, and 8.6).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Collective {
            $($(#[$doc])* $variant,)*
        }

        impl Collective {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name used in parameters and messages, such as `reduce_scatter_block`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

collectives! {
    Barrier "barrier",
    Bcast "bcast",
    Gather "gather",
    Scatter "scatter",
    Allgather "allgather",
    Alltoall "alltoall",
    Reduce "reduce",
    Allreduce "allreduce",
    ReduceScatterBlock "reduce_scatter_block",
    Scan "scan",
    Exscan "exscan",
    Gatherv "gatherv",
    Scatterv "scatterv",
    Allgatherv "allgatherv",
    /// `MPI_Alltoallv` and `MPI_Alltoallw`.
    Alltoallv "alltoallv",
    ReduceScatter "reduce_scatter",
    /// The neighbourhood collectives.
    Neighbor "neighbor",
    /// The collectives of an intercommunicator that move data (section 6.2.2).
    InterMove "inter_move",
    /// The collectives of an intercommunicator that combine.
    InterReduce "inter_reduce",
}

impl Collective {
    /// The collectives of one group whose blocks all have the same length.
    pub const REGULAR: [Self; 11] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Alltoall,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatterBlock,
        Self::Scan,
        Self::Exscan,
    ];
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rank of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TeamMember {
    /// Below `size`.
    pub rank: u32,
    /// The number of ranks of the team, at least 1.
    pub size: u32,
}

/// The arguments of a collective call on which a plan depends.
///
/// Counts are packed bytes for collectives that move data, and elements for reductions
/// ([`PlanUnit`](crate::PlanUnit)). `in_place`: whether *this* rank gave `MPI_IN_PLACE`; if only
/// the root may give it, `false` on all other ranks. Without `commutative`, contributions are
/// combined in rank order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Barrier,
    /// The root's buffer to all. The only buffer is the output, also at the root.
    Bcast {
        root: u32,
        bytes: Shared<usize>,
    },
    /// A block from each rank to the root, in rank order. Input: one block; output, at the root
    /// only: `size` blocks.
    Gather {
        root: u32,
        block: Shared<usize>,
        /// At the root: whether its own block is already in the output.
        in_place: bool,
    },
    /// A block from the root to each rank. Input, at the root only: `size` blocks; output: one
    /// block.
    Scatter {
        root: u32,
        block: Shared<usize>,
        /// At the root: whether its own block stays in the input, and the root has no output.
        in_place: bool,
    },
    /// A block from each rank to all. Input: one block; output: `size` blocks.
    Allgather {
        block: Shared<usize>,
        in_place: bool,
    },
    /// A block from each rank to each rank. Input and output: `size` blocks.
    Alltoall {
        block: Shared<usize>,
        /// Whether the blocks to send are in the output, and are replaced there.
        in_place: bool,
    },
    /// All contributions combined at the root. Input: `count` elements; output, at the root only:
    /// `count` elements.
    Reduce {
        root: u32,
        count: Shared<usize>,
        commutative: bool,
        in_place: bool,
    },
    /// All contributions combined, at all ranks. Input and output: `count` elements.
    Allreduce {
        count: Shared<usize>,
        commutative: bool,
        in_place: bool,
    },
    /// All contributions combined, block `r` of the result at rank `r`. Input: `size` blocks;
    /// output: one block, or `size` blocks if in place.
    ReduceScatterBlock {
        block: Shared<usize>,
        commutative: bool,
        /// Whether the contribution is in the output (`size` blocks), whose first block the result
        /// replaces.
        in_place: bool,
    },
    /// The contributions of ranks `0..=r` combined at rank `r`. Input and output: `count` elements.
    Scan {
        count: Shared<usize>,
        commutative: bool,
        in_place: bool,
    },
    /// The contributions of ranks `0..r` combined at rank `r > 0`. Rank 0 has no output.
    Exscan {
        count: Shared<usize>,
        commutative: bool,
        in_place: bool,
    },
    /// A block from each rank to the root, each with its own length. Input: one block; output, at
    /// the root only: all blocks.
    Gatherv {
        root: u32,
        /// The packed length of this rank's block. Not used in place.
        mine: Paired<usize>,
        all: RootOnly<Blocks>,
        in_place: bool,
    },
    /// A block from the root to each rank, each with its own length. Input, at the root only: all
    /// blocks; output: one block.
    Scatterv {
        root: u32,
        mine: Paired<usize>,
        all: RootOnly<Blocks>,
        in_place: bool,
    },
    /// A block from each rank to all, each with its own length. Input: one block; output: all
    /// blocks.
    Allgatherv {
        blocks: Shared<Blocks>,
        in_place: bool,
    },
    /// A block from each rank to each rank, each with its own length. Input: the blocks to send;
    /// output: the blocks to receive.
    Alltoallv {
        /// The packed lengths of the blocks to each rank. Not used in place.
        send: Paired<Blocks>,
        receive: Paired<Blocks>,
        /// Whether the blocks to send are in the output, where blocks of the same lengths replace
        /// them.
        in_place: bool,
    },
    /// All contributions combined, block `r` of the result at rank `r`. Input: all blocks; output:
    /// one block, or all blocks if in place.
    ReduceScatter {
        blocks: Shared<Blocks>,
        commutative: bool,
        /// Whether the contribution is in the output, whose beginning the result replaces.
        in_place: bool,
    },
    Neighbor {
        edges: Paired<Edges>,
    },
    Inter {
        groups: Groups,
        what: InterCollective,
    },
}

/// Two groups of one team: the ranks of the first, then those of the second, at least one in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    pub first: u32,
}

impl Groups {
    /// The ranks of this rank's group.
    #[must_use]
    pub fn local(&self, me: TeamMember) -> Range<u32> {
        if me.rank < self.first { 0..self.first } else { self.first..me.size }
    }

    /// The ranks of the other group.
    #[must_use]
    pub fn remote(&self, me: TeamMember) -> Range<u32> {
        if me.rank < self.first { self.first..me.size } else { 0..self.first }
    }
}

/// The role of a rank in a collective of two groups with a root (MPI-5.0 section 6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterRole {
    Root,
    /// In the root's group, but not the root (`MPI_PROC_NULL`): without any step.
    Idle,
    Leaf {
        root: u32,
    },
}

/// A collective of two groups; a barrier is one of the whole team. All data go from one group to
/// the other. One group may contribute nothing while the other does, so lengths are known only to
/// pairs of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InterCollective {
    /// The root's buffer to all ranks of the other group. Input at the root, output at the others.
    Bcast { part: InterRole, bytes: Paired<usize> },
    /// A block from each rank of the other group to the root. Input of a leaf: one block; output of
    /// the root: all blocks.
    Gather {
        part: InterRole,
        /// At a leaf: the packed length of its block.
        mine: Paired<usize>,
        all: RootOnly<Blocks>,
    },
    /// A block from the root to each rank of the other group. Input of the root: all blocks; output
    /// of a leaf: one block.
    Scatter { part: InterRole, mine: Paired<usize>, all: RootOnly<Blocks> },
    /// A block from each rank to all ranks of the other group. Input: one block; output: the blocks
    /// of the other group.
    Allgather { mine: Paired<usize>, remote: Paired<Blocks> },
    /// A block from each rank to each rank of the other group. Input and output: a block for each
    /// rank of the other group.
    Alltoall { send: Paired<Blocks>, receive: Paired<Blocks> },
    /// The contributions of the other group combined at the root. Input of a leaf and output of the
    /// root: `count` elements.
    Reduce { part: InterRole, count: Paired<usize>, commutative: bool },
    /// The contributions of each group combined at all ranks of the other group. Input and output:
    /// `count` elements.
    Allreduce {
        /// Elements of a contribution, the same in both groups.
        count: Shared<usize>,
        commutative: bool,
    },
    /// The contributions of each group combined, and the result cut into a block for each rank of
    /// the other group.
    ReduceScatter {
        /// Elements of the block of each rank of the local group. The sums of both groups are
        /// equal.
        local: Paired<Blocks>,
        commutative: bool,
    },
}

impl InterCollective {
    /// Whether contributions may be combined in any order.
    #[must_use]
    pub const fn commutative(&self) -> bool {
        match *self {
            Self::Reduce { commutative, .. }
            | Self::Allreduce { commutative, .. }
            | Self::ReduceScatter { commutative, .. } => commutative,
            _ => true,
        }
    }

    /// The role of this rank, if the collective has a root.
    #[must_use]
    pub const fn part(&self) -> Option<InterRole> {
        match *self {
            Self::Bcast { part, .. }
            | Self::Gather { part, .. }
            | Self::Scatter { part, .. }
            | Self::Reduce { part, .. } => Some(part),
            _ => None,
        }
    }

    const fn collective(&self) -> Collective {
        match self {
            Self::Reduce { .. } | Self::Allreduce { .. } | Self::ReduceScatter { .. } => {
                Collective::InterReduce
            }
            _ => Collective::InterMove,
        }
    }
}

impl Call {
    /// The collective of the call.
    #[must_use]
    pub const fn collective(&self) -> Collective {
        match self {
            Self::Barrier => Collective::Barrier,
            Self::Bcast { .. } => Collective::Bcast,
            Self::Gather { .. } => Collective::Gather,
            Self::Scatter { .. } => Collective::Scatter,
            Self::Allgather { .. } => Collective::Allgather,
            Self::Alltoall { .. } => Collective::Alltoall,
            Self::Reduce { .. } => Collective::Reduce,
            Self::Allreduce { .. } => Collective::Allreduce,
            Self::ReduceScatterBlock { .. } => Collective::ReduceScatterBlock,
            Self::Scan { .. } => Collective::Scan,
            Self::Exscan { .. } => Collective::Exscan,
            Self::Gatherv { .. } => Collective::Gatherv,
            Self::Scatterv { .. } => Collective::Scatterv,
            Self::Allgatherv { .. } => Collective::Allgatherv,
            Self::Alltoallv { .. } => Collective::Alltoallv,
            Self::ReduceScatter { .. } => Collective::ReduceScatter,
            Self::Neighbor { .. } => Collective::Neighbor,
            Self::Inter { what, .. } => what.collective(),
        }
    }

    /// The call with all operands in rank order, regardless of the operation.
    #[must_use]
    pub fn in_rank_order(mut self) -> Self {
        match &mut self {
            Self::Reduce { commutative, .. }
            | Self::Allreduce { commutative, .. }
            | Self::ReduceScatterBlock { commutative, .. }
            | Self::ReduceScatter { commutative, .. }
            | Self::Scan { commutative, .. }
            | Self::Exscan { commutative, .. }
            | Self::Inter {
                what:
                    InterCollective::Reduce { commutative, .. }
                    | InterCollective::Allreduce { commutative, .. }
                    | InterCollective::ReduceScatter { commutative, .. },
                ..
            } => *commutative = false,
            _ => {}
        }
        self
    }

    /// The root, if all ranks know it.
    #[must_use]
    pub const fn root(&self) -> Option<u32> {
        match *self {
            Self::Bcast { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. }
            | Self::Gatherv { root, .. }
            | Self::Scatterv { root, .. }
            | Self::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    /// Whether contributions may be combined in any order; `true` without a reduction.
    #[must_use]
    pub const fn commutative(&self) -> bool {
        match self {
            Self::Reduce { commutative, .. }
            | Self::Allreduce { commutative, .. }
            | Self::ReduceScatterBlock { commutative, .. }
            | Self::ReduceScatter { commutative, .. }
            | Self::Scan { commutative, .. }
            | Self::Exscan { commutative, .. } => *commutative,
            Self::Inter { what, .. } => what.commutative(),
            _ => true,
        }
    }

    /// Whether this rank gave `MPI_IN_PLACE`.
    #[must_use]
    pub const fn in_place(&self) -> bool {
        match *self {
            Self::Barrier | Self::Bcast { .. } | Self::Neighbor { .. } | Self::Inter { .. } => {
                false
            }
            Self::Gather { in_place, .. }
            | Self::Scatter { in_place, .. }
            | Self::Allgather { in_place, .. }
            | Self::Alltoall { in_place, .. }
            | Self::Reduce { in_place, .. }
            | Self::Allreduce { in_place, .. }
            | Self::ReduceScatterBlock { in_place, .. }
            | Self::Gatherv { in_place, .. }
            | Self::Scatterv { in_place, .. }
            | Self::Allgatherv { in_place, .. }
            | Self::Alltoallv { in_place, .. }
            | Self::ReduceScatter { in_place, .. }
            | Self::Scan { in_place, .. }
            | Self::Exscan { in_place, .. } => in_place,
        }
    }

    /// The count of the call as all ranks know it: the whole vector of a broadcast, reduction or
    /// scan, otherwise one block (the average, if lengths differ); 0 for a barrier, and if not all
    /// ranks know the lengths.
    #[must_use]
    pub fn count(&self) -> Shared<usize> {
        match self {
            Self::Bcast { bytes, .. } => *bytes,
            Self::Gather { block, .. }
            | Self::Scatter { block, .. }
            | Self::Allgather { block, .. }
            | Self::Alltoall { block, .. }
            | Self::ReduceScatterBlock { block, .. } => *block,
            Self::Reduce { count, .. }
            | Self::Allreduce { count, .. }
            | Self::Scan { count, .. }
            | Self::Exscan { count, .. } => *count,
            Self::Allgatherv { blocks, .. } | Self::ReduceScatter { blocks, .. } => {
                Shared(blocks.0.total() / blocks.0.how_many().max(1))
            }
            Self::Barrier
            | Self::Gatherv { .. }
            | Self::Scatterv { .. }
            | Self::Alltoallv { .. }
            | Self::Neighbor { .. }
            | Self::Inter { .. } => Shared(0),
        }
    }
}
