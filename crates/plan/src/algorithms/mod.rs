//! The algorithms, each a small struct in the module of its collective or data movement.

pub(crate) mod allgather;
pub(crate) mod allreduce;
pub(crate) mod alltoall;
pub(crate) mod barrier;
pub(crate) mod bcast;
pub(crate) mod exchange;
pub(crate) mod gather;
pub(crate) mod halving;
pub(crate) mod inter;
pub(crate) mod reduce;
pub(crate) mod reduce_scatter;
pub(crate) mod reduce_tree;
pub(crate) mod rings;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod smp;
pub(crate) mod split_binary;

use crate::burst::Burst;

pub(crate) trait Rounds {
    /// Pushes the next steps, at most five and possibly none. Returns false after the last round.
    fn round(&mut self, steps: &mut Burst) -> bool;
}
