//! What is asked for: the collectives and the arguments of a call that a plan depends on.

use std::fmt;

use crate::knowledge::Shared;

/// The collectives that have plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collective {
    /// `MPI_Barrier`, MPI-5.0 section 6.3.
    Barrier,
    /// `MPI_Bcast`, section 6.4.
    Bcast,
    /// `MPI_Gather`, section 6.5.
    Gather,
    /// `MPI_Scatter`, section 6.6.
    Scatter,
    /// `MPI_Allgather`, section 6.7.
    Allgather,
    /// `MPI_Alltoall`, section 6.8.
    Alltoall,
    /// `MPI_Reduce`, section 6.9.1.
    Reduce,
    /// `MPI_Allreduce`, section 6.9.6.
    Allreduce,
    /// `MPI_Reduce_scatter_block`, section 6.10.1.
    ReduceScatterBlock,
    /// `MPI_Scan`, section 6.11.1.
    Scan,
    /// `MPI_Exscan`, section 6.11.2.
    Exscan,
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 11] = [
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

    /// The name used in parameters and messages, such as `reduce_scatter_block`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatterBlock => "reduce_scatter_block",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose plan it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// This rank in the team, below `size`.
    pub rank: u32,
    /// How many ranks the team has, at least 1.
    pub size: u32,
}

/// One collective call, as far as a plan depends on it.
///
/// Counts are packed bytes for the collectives that move data and elements for reductions ([`Unit`](crate::Unit)).
/// `in_place` says whether *this* rank gave `MPI_IN_PLACE`; where only the root may give it, the others say `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Wait for all.
    Barrier,
    /// The root's buffer to all. The only buffer is the output, at the root too.
    Bcast {
        /// The rank that has the data.
        root: u32,
        /// The packed length of the buffer.
        bytes: Shared<usize>,
    },
    /// A block from each rank to the root, in rank order. Input: one block; output, at the root only: `size` blocks.
    Gather {
        /// The rank that gets the blocks.
        root: u32,
        /// The packed length of one block.
        block: Shared<usize>,
        /// At the root: its own block is in the output already.
        in_place: bool,
    },
    /// A block from the root to each rank. Input, at the root only: `size` blocks; output: one block.
    Scatter {
        /// The rank that has the blocks.
        root: u32,
        /// The packed length of one block.
        block: Shared<usize>,
        /// At the root: its own block stays where it is, and the root has no output.
        in_place: bool,
    },
    /// A block from each rank to all. Input: one block; output: `size` blocks.
    Allgather {
        /// The packed length of one block.
        block: Shared<usize>,
        /// The own block is in the output already.
        in_place: bool,
    },
    /// A block from each rank to each rank. Input and output: `size` blocks.
    Alltoall {
        /// The packed length of one block.
        block: Shared<usize>,
        /// The blocks to send are in the output, and are replaced there.
        in_place: bool,
    },
    /// All contributions combined at the root. Input: `count` elements; output, at the root only: `count` elements.
    Reduce {
        /// The rank that gets the result.
        root: u32,
        /// Elements in each rank's contribution.
        count: Shared<usize>,
        /// Whether the operation is commutative: if not, contributions are combined in rank order.
        commutative: bool,
        /// At the root: its contribution is in the output.
        in_place: bool,
    },
    /// All contributions combined, at all ranks. Input and output: `count` elements.
    Allreduce {
        /// Elements in each rank's contribution.
        count: Shared<usize>,
        /// Whether the operation is commutative.
        commutative: bool,
        /// The contribution is in the output.
        in_place: bool,
    },
    /// All contributions combined, block `r` of the result at rank `r`. Input: `size` blocks; output: one block, or
    /// `size` blocks if in place.
    ReduceScatterBlock {
        /// Elements in one block.
        block: Shared<usize>,
        /// Whether the operation is commutative.
        commutative: bool,
        /// The contribution is in the output (`size` blocks); the result is put in its first block.
        in_place: bool,
    },
    /// At rank `r` the contributions of ranks `0..=r` combined. Input and output: `count` elements.
    Scan {
        /// Elements in each rank's contribution.
        count: Shared<usize>,
        /// Whether the operation is commutative.
        commutative: bool,
        /// The contribution is in the output.
        in_place: bool,
    },
    /// At rank `r > 0` the contributions of ranks `0..r` combined; the output of rank 0 is never written.
    Exscan {
        /// Elements in each rank's contribution.
        count: Shared<usize>,
        /// Whether the operation is commutative.
        commutative: bool,
        /// The contribution is in the output.
        in_place: bool,
    },
}

impl Call {
    /// Which collective it is.
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
        }
    }

    /// The root, if the collective has one.
    #[must_use]
    pub const fn root(&self) -> Option<u32> {
        match *self {
            Self::Bcast { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. }
            | Self::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    /// Whether contributions may be combined in any order: true for collectives that combine nothing.
    #[must_use]
    pub const fn commutative(&self) -> bool {
        match *self {
            Self::Reduce { commutative, .. }
            | Self::Allreduce { commutative, .. }
            | Self::ReduceScatterBlock { commutative, .. }
            | Self::Scan { commutative, .. }
            | Self::Exscan { commutative, .. } => commutative,
            _ => true,
        }
    }

    /// Whether this rank gave `MPI_IN_PLACE`.
    #[must_use]
    pub const fn in_place(&self) -> bool {
        match *self {
            Self::Barrier | Self::Bcast { .. } => false,
            Self::Gather { in_place, .. }
            | Self::Scatter { in_place, .. }
            | Self::Allgather { in_place, .. }
            | Self::Alltoall { in_place, .. }
            | Self::Reduce { in_place, .. }
            | Self::Allreduce { in_place, .. }
            | Self::ReduceScatterBlock { in_place, .. }
            | Self::Scan { in_place, .. }
            | Self::Exscan { in_place, .. } => in_place,
        }
    }

    /// The count of the call as all ranks know it: the whole vector of a broadcast, reduction or scan, one block of
    /// the others, 0 for a barrier.
    #[must_use]
    pub const fn count(&self) -> Shared<usize> {
        match *self {
            Self::Barrier => Shared(0),
            Self::Bcast { bytes, .. } => bytes,
            Self::Gather { block, .. }
            | Self::Scatter { block, .. }
            | Self::Allgather { block, .. }
            | Self::Alltoall { block, .. }
            | Self::ReduceScatterBlock { block, .. } => block,
            Self::Reduce { count, .. }
            | Self::Allreduce { count, .. }
            | Self::Scan { count, .. }
            | Self::Exscan { count, .. } => count,
        }
    }
}
