//! The verifier: runs the plans of all ranks at once, on symbols instead of data.
//!
//! The symbol of a unit is the rank and position of its origin or, in a reduction, the combined
//! contributions and their expression. At the end every rank must have exactly the result that the
//! MPI standard defines. The verifier also checks the rules of [`ir`](crate::ir):
//!
//! - Sends are synchronous, so a plan that relies on buffering deadlocks.
//! - Messages between two ranks match in the order of issue, with the same length on both sides.
//! - A step does not touch memory that an earlier step may still use. This depends on the
//!   *dependencies* of the steps, not on the steps that are complete in this run, so a lucky order
//!   of events hides no mistake.
//! - Steps complete in an order that depends on a seed.
//! - Undefined memory is not read, the input is not written, and buffers that are not significant
//!   at a rank by the standard are not touched.
//! - No rank leaves a barrier before a chain of messages from every rank has reached it.
//!
//! If the operation is not commutative, contributions must be joined in rank order, in any
//! grouping. Otherwise they are compared as multisets, by number and a 64-bit sum of hashes.

mod entered;
mod symbol;
mod world;

use crate::call::{Call, TeamMember};
use crate::ir::{Action, Generator, Span};

/// The input of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The call of each rank. With a root, `in_place` matters only at the root.
    pub calls: Vec<Call>,
    /// Selects the order in which steps complete.
    pub seed: u64,
}

impl Check {
    /// The same call on all ranks.
    #[must_use]
    pub fn new(size: u32, call: &Call, seed: u64) -> Self {
        Self { calls: vec![call.clone(); size as usize], seed }
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        u32::try_from(self.calls.len()).unwrap_or(u32::MAX)
    }
}

/// The cost of a correct run, summed over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub steps: u64,
    pub messages: u64,
    pub units: u64,
    /// The most outstanding steps of one rank.
    pub outstanding: usize,
}

/// A fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("deadlock: {} ranks wait, the first are {:?}", waiting.len(), &waiting[..waiting.len().min(4)])]
    Deadlock {
        /// The ranks that have not finished, each with its oldest outstanding step.
        waiting: Vec<(u32, Option<Action>)>,
    },
    #[error("rank {from} sends {sent} units to rank {to}, which receives {received}")]
    Length { from: u32, to: u32, sent: usize, received: usize },
    #[error(
        "rank {rank}: {action:?} (step {step}) may run while {earlier:?} (step {earlier_step}) does"
    )]
    Hazard { rank: u32, step: u64, action: Action, earlier_step: u64, earlier: Box<Action> },
    #[error("rank {rank}: {action:?} reads undefined memory at unit {unit}")]
    Undefined { rank: u32, action: Action, unit: usize },
    /// A step uses a buffer that the rank does not have, exceeds a buffer, or writes a read-only
    /// one.
    #[error("rank {rank}: {action:?} may not use {span:?}")]
    Access { rank: u32, action: Action, span: Span },
    /// A step is invalid: its peer is not in the team or is the rank itself, its spans have
    /// different lengths or overlap, or it depends on a step that does not exist.
    #[error("rank {rank}: step {step}, {action:?}, is malformed: {why}")]
    Malformed { rank: u32, step: u64, action: Action, why: &'static str },
    #[error("rank {rank}: {action:?} combines at unit {unit} {left} with {right}")]
    Combination { rank: u32, action: Action, unit: usize, left: String, right: String },
    #[error("rank {rank}: unit {unit} of the output is {found}, not {expected}")]
    Result { rank: u32, unit: usize, found: String, expected: String },
    #[error("rank {rank} may leave the barrier before rank {missing} enters it")]
    Early {
        rank: u32,
        /// A rank whose messages have not reached `rank`.
        missing: u32,
    },
    /// Two ranks have computed a result by different expressions, whose values may differ in
    /// floating point.
    #[error("rank {rank} computes unit {unit} by another expression than rank 0")]
    Expression { rank: u32, unit: usize },
    #[error("rank {rank}: {why}")]
    Generator { rank: u32, why: &'static str },
}

/// Runs the plans of all ranks, which `plan` makes.
pub fn verify<G: Generator>(
    check: &Check,
    mut plan: impl FnMut(TeamMember) -> G,
) -> Result<Cost, Violation> {
    let size = check.size();
    let plans = (0..size).map(|rank| plan(TeamMember { rank, size })).collect();
    world::PlanSimulation::new(check, plans)?.run()
}

#[cfg(test)]
mod tests;
