//! The verifier: runs the plans of all ranks at once, on symbols instead of data.
//!
//! A unit of a buffer holds what it stands for: in a collective that moves data the rank and position it came from,
//! in a reduction the contributions that were combined in it, and by which expression. At the end every rank must
//! hold exactly what the MPI standard says. On the way the rules of [`ir`](crate::ir) are held against the plan:
//!
//! - Sends are synchronous: they complete only with their receive. What then cannot go on is a deadlock.
//! - Messages between two ranks match in the order of issue, and both sides must say the same length.
//! - A step may not touch memory that an earlier step may still be using. That is decided by what the plan has
//!   *waited for*, not by what happens to be complete in this run, so no lucky order of events hides a mistake.
//! - Steps complete in an order that depends on a seed.
//! - Nothing undefined is read, the user's input is not written, and buffers that the standard calls not significant
//!   at a rank are not touched.
//!
//! - No rank leaves a barrier before it has heard of all, by messages whose senders had heard of them before.
//!
//! If the operation is not commutative, contributions must be joined in rank order (any grouping is right, since
//! operations are associative). If it is, they are compared as multisets, by number and a 64-bit sum of hashes.

mod heard;
mod symbol;
mod world;

use crate::call::{Call, Member};
use crate::ir::{Action, Generator, Span};

/// What is to be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The call that each rank makes. `in_place` is the root's choice where only the root has one.
    pub calls: Vec<Call>,
    /// Chooses the order in which steps complete.
    pub seed: u64,
}

impl Check {
    /// All ranks make the same call.
    #[must_use]
    pub fn new(size: u32, call: &Call, seed: u64) -> Self {
        Self { calls: vec![call.clone(); size as usize], seed }
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        u32::try_from(self.calls.len()).unwrap_or(u32::MAX)
    }
}

/// What a correct run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Steps of all ranks together.
    pub steps: u64,
    /// Messages of all ranks together.
    pub messages: u64,
    /// Units in these messages.
    pub units: u64,
    /// The most steps that one rank had outstanding.
    pub outstanding: usize,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Nothing can complete, and some rank is not through.
    #[error("deadlock: {} ranks wait, the first are {:?}", waiting.len(), &waiting[..waiting.len().min(4)])]
    Deadlock {
        /// The ranks that are not through, each with what it has outstanding that is oldest, if anything.
        waiting: Vec<(u32, Option<Action>)>,
    },
    /// A message is not as long as its receive.
    #[error("rank {from} sends {sent} units to rank {to}, which receives {received}")]
    Length {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// Units sent.
        sent: usize,
        /// Units of the receive that matched.
        received: usize,
    },
    /// A step uses memory that an earlier one may still be using.
    #[error("rank {rank}: {action:?} (step {step}) may run while {earlier:?} (step {earlier_step}) does")]
    Hazard {
        /// The rank.
        rank: u32,
        /// The number of the step, from 0.
        step: u64,
        /// What it does.
        action: Action,
        /// The number of the earlier step.
        earlier_step: u64,
        /// What that does.
        earlier: Box<Action>,
    },
    /// A step reads what has not been written.
    #[error("rank {rank}: {action:?} reads undefined memory at unit {unit}")]
    Undefined {
        /// The rank.
        rank: u32,
        /// What the step does.
        action: Action,
        /// The first undefined unit.
        unit: usize,
    },
    /// A step reads or writes a buffer the rank does not have, or beyond its end, or writes one that is only read.
    #[error("rank {rank}: {action:?} may not use {span:?}")]
    Access {
        /// The rank.
        rank: u32,
        /// What the step does.
        action: Action,
        /// The span in question.
        span: Span,
    },
    /// A step makes no sense: a peer that is not in the team or is the rank itself, two spans of different length
    /// or that overlap, a dependency on a step that never was.
    #[error("rank {rank}: step {step}, {action:?}, is malformed: {why}")]
    Malformed {
        /// The rank.
        rank: u32,
        /// The number of the step.
        step: u64,
        /// What it does.
        action: Action,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Operands are combined that must not be: of different positions, or not in rank order.
    #[error("rank {rank}: {action:?} combines at unit {unit} {left} with {right}")]
    Combination {
        /// The rank.
        rank: u32,
        /// What the step does.
        action: Action,
        /// The unit of the left span.
        unit: usize,
        /// The left operand.
        left: String,
        /// The right operand.
        right: String,
    },
    /// The result is not what the standard says.
    #[error("rank {rank}: unit {unit} of the output is {found}, not {expected}")]
    Result {
        /// The rank.
        rank: u32,
        /// The unit of the output.
        unit: usize,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// A barrier does not hold.
    #[error("rank {rank} may leave the barrier before rank {missing} enters it")]
    Early {
        /// The rank that leaves.
        rank: u32,
        /// The rank of which it has not heard.
        missing: u32,
    },
    /// Two ranks computed a result by different expressions: in floating point they may differ.
    #[error("rank {rank} computes unit {unit} by another expression than rank 0")]
    Expression {
        /// The rank.
        rank: u32,
        /// The unit of the output.
        unit: usize,
    },
    /// The generator breaks its own rules: more than four temporaries, no window, or no end.
    #[error("rank {rank}: {why}")]
    Generator {
        /// The rank.
        rank: u32,
        /// What is wrong.
        why: &'static str,
    },
}

/// Runs the plans of all ranks, which `plan` makes.
///
/// # Errors
/// The first violation that is found.
pub fn verify<G: Generator>(check: &Check, mut plan: impl FnMut(Member) -> G) -> Result<Cost, Violation> {
    let size = check.size();
    let plans = (0..size).map(|rank| plan(Member { rank, size })).collect();
    world::World::new(check, plans)?.run()
}

#[cfg(test)]
mod tests;
