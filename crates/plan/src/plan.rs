//! A plan of any algorithm, as one plain type.

use crate::algorithms::{
    Rounds, allgather, allreduce, alltoall, barrier, bcast, exchange, gather, halving, reduce,
    reduce_scatter, reduce_tree, rings, scan, scatter, smp, split_binary,
};
use crate::burst::Burst;
use crate::ir::{Generator, Step, Unit};
use crate::table::AlgorithmId;
use std::fmt;
use std::sync::Arc;

/// An algorithm that a plan can hold without knowing it. Its own variant of [`Machine`] saves each plan an allocation, and is all
/// that it needs to become one like the others.
pub(crate) trait Boxable: Rounds + fmt::Debug + Send + Sync {
    /// A copy of it.
    fn copied(&self) -> Box<dyn Boxable>;
}

impl<T: Rounds + Clone + fmt::Debug + Send + Sync + 'static> Boxable for T {
    fn copied(&self) -> Box<dyn Boxable> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Boxable> {
    fn clone(&self) -> Self {
        (**self).copied()
    }
}

macro_rules! machines {
    ($($variant:ident($algorithm:ty)),* $(,)?) => {
        /// One of the algorithms.
        #[derive(Clone, Debug)]
        pub(crate) enum Machine {
            $($variant($algorithm),)*
            /// One without a variant of its own.
            Boxed(Box<dyn Boxable>),
        }

        $(impl From<$algorithm> for Machine {
            fn from(algorithm: $algorithm) -> Self {
                Self::$variant(algorithm)
            }
        })*

        impl Rounds for Machine {
            fn round(&mut self, steps: &mut Burst) -> bool {
                match self {
                    $(Self::$variant(algorithm) => algorithm.round(steps),)*
                    Self::Boxed(algorithm) => algorithm.round(steps),
                }
            }
        }
    };
}

machines! {
    BarrierLinear(barrier::Linear),
    BarrierDissemination(barrier::Dissemination),
    BarrierDoubling(barrier::RecursiveDoubling),
    BarrierDoubleRing(barrier::DoubleRing),
    BarrierTree(barrier::Tree),
    BcastTree(bcast::Tree),
    BcastScatter(bcast::Scatter),
    BcastRing(bcast::Ring),
    BcastSplitBinary(split_binary::SplitBinary),
    GatherLinear(gather::Linear),
    GatherBinomial(gather::Binomial),
    GatherLinearSync(gather::LinearSync),
    ScatterLinear(scatter::Linear),
    ScatterBinomial(scatter::Binomial),
    Allgather(allgather::Allgather),
    AlltoallLinear(alltoall::Linear),
    AlltoallPairwise(alltoall::Pairwise),
    AlltoallBruck(alltoall::Bruck),
    ReduceLinear(reduce::Linear),
    ReduceBinomial(reduce::Binomial),
    ReduceTree(reduce_tree::Tree),
    Halving(halving::Halving),
    ReduceScatterRing(reduce_scatter::Ring),
    ReduceScatterPairwise(reduce_scatter::Pairwise),
    ReduceScatterDoubling(reduce_scatter::RecursiveDoubling),
    AllreduceDoubling(allreduce::RecursiveDoubling),
    AllreduceRing(rings::Ring),
    AllreduceSegmentedRing(rings::SegmentedRing),
    AllreduceLocal(rings::Local),
    AllreduceRabenseifner(allreduce::Rabenseifner),
    ScanLinear(scan::Linear),
    ScanDoubling(scan::RecursiveDoubling),
    Exchange(exchange::Exchange),
    Assemble(smp::Assemble),
    Carry(smp::Carry),
    Relay(smp::Relay),
}

/// An algorithm, and which ranks of the team it is for.
type Stage = (Machine, Ranks);

/// Which ranks of the team the ranks of an algorithm are.
#[derive(Clone, Debug)]
enum Ranks {
    /// All from this one on.
    From(u32),
    /// These.
    Of(Arc<[u32]>),
}

/// What an algorithm's constructor makes of a call.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// What is done, one after the other.
    stages: [Option<Stage>; 3],
    stages_len: usize,
    temporaries: [usize; 4],
    temporaries_len: usize,
    window: usize,
}

impl Draft {
    /// An algorithm without temporaries whose steps of two rounds fit into the window.
    pub(crate) fn new(first: impl Into<Machine>) -> Self {
        Self::nothing().then(first)
    }

    /// As `new`, for an algorithm that has no variant of [`Machine`]: a new one that is being tried.
    #[allow(dead_code, reason = "who tries one uses it; what stays gets a variant")]
    pub(crate) fn boxed(first: impl Boxable + 'static) -> Self {
        Self::new(Machine::Boxed(Box::new(first)))
    }

    /// No algorithm yet.
    pub(crate) fn nothing() -> Self {
        Self {
            stages: [const { None }; 3],
            stages_len: 0,
            temporaries: [0; 4],
            temporaries_len: 0,
            window: 8,
        }
    }

    /// One more algorithm, that begins when this rank is through with those before.
    pub(crate) fn then(self, next: impl Into<Machine>) -> Self {
        self.then_within(0, next)
    }

    /// As `then`, for an algorithm of only a part of the team, which begins with rank `first`.
    pub(crate) fn then_within(self, first: u32, next: impl Into<Machine>) -> Self {
        self.stage(next.into(), Ranks::From(first))
    }

    /// As `then`, for an algorithm of these ranks of the team.
    pub(crate) fn then_among(self, ranks: &Arc<[u32]>, next: impl Into<Machine>) -> Self {
        self.stage(next.into(), Ranks::Of(ranks.clone()))
    }

    fn stage(mut self, machine: Machine, ranks: Ranks) -> Self {
        self.stages[self.stages_len] = Some((machine, ranks));
        self.stages_len += 1;
        self
    }

    /// One more temporary.
    pub(crate) fn temporary(mut self, length: usize) -> Self {
        self.temporaries[self.temporaries_len] = length;
        self.temporaries_len += 1;
        self
    }

    /// That many more temporaries of one length.
    pub(crate) fn temporaries(self, how_many: usize, length: usize) -> Self {
        (0..how_many).fold(self, |draft, _| draft.temporary(length))
    }

    /// The window of an algorithm that makes progress with any, in steps.
    pub(crate) fn exactly(mut self, window: usize) -> Self {
        self.window = window.max(2);
        self
    }

    /// The window, from a parameter; at least what any algorithm needs.
    pub(crate) fn window(mut self, window: usize) -> Self {
        self.window = window.max(8);
        self
    }
}

/// A plan of any algorithm: what [`make`](crate::table::make) returns. It is a plain value of a few hundred bytes,
/// and a clone of a fresh one is a fresh one.
#[derive(Clone, Debug)]
pub struct AnyPlan {
    steps: Burst,
    /// What is done, one after the other; `None` when it is over, or there never was one.
    stages: [Option<Stage>; 3],
    stage: usize,
    unit: Unit,
    temporaries: [usize; 4],
    temporaries_len: usize,
    window: usize,
    /// The algorithm, and what the call counts.
    made_by: Option<(AlgorithmId, usize)>,
}

impl AnyPlan {
    pub(crate) fn new(unit: Unit, draft: Draft) -> Self {
        Self {
            steps: Burst::new(),
            stages: draft.stages,
            stage: 0,
            unit,
            temporaries: draft.temporaries,
            temporaries_len: draft.temporaries_len,
            window: draft.window,
            made_by: None,
        }
    }

    /// The plan, made by this algorithm for a call of `count`.
    pub(crate) fn made_by(self, algorithm: AlgorithmId, count: usize) -> Self {
        Self { made_by: Some((algorithm, count)), ..self }
    }

    /// The algorithm that made it, if it is one of the table, and the call's [`Call::count`](crate::Call::count).
    #[must_use]
    pub fn algorithm(&self) -> Option<(AlgorithmId, usize)> {
        self.made_by
    }

    /// The plan of a call that moves nothing.
    pub(crate) fn empty(unit: Unit) -> Self {
        Self {
            steps: Burst::new(),
            stages: [const { None }; 3],
            stage: 0,
            unit,
            temporaries: [0; 4],
            temporaries_len: 0,
            window: 1,
            made_by: None,
        }
    }
}

impl Generator for AnyPlan {
    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.steps.pop() {
                return Some(step);
            }
            let (machine, ranks) = self.stages.get_mut(self.stage)?.as_mut()?;
            match ranks {
                Ranks::From(first) => self.steps.count_ranks_from(*first),
                Ranks::Of(ranks) => self.steps.count_ranks_among(ranks),
            }
            if !machine.round(&mut self.steps) {
                self.stage += 1;
                // Takes effect on the next step that is pushed: the rest of this round is in the queue already.
                self.steps.fence();
            }
        }
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn temporaries(&self) -> &[usize] {
        &self.temporaries[..self.temporaries_len]
    }

    fn window(&self) -> usize {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Member;

    #[test]
    fn an_algorithm_without_a_variant_has_the_same_steps() {
        for rank in 0..5 {
            let me = Member { rank, size: 5 };
            let [known, boxed] = [Draft::new(barrier::Tree::new(me)), Draft::boxed(barrier::Tree::new(me))]
                .map(|draft| AnyPlan::new(Unit::Bytes, draft));
            let steps = |mut plan: AnyPlan| {
                std::iter::from_fn(|| plan.next()).map(|step| format!("{step:?}")).collect::<Vec<_>>()
            };
            let fresh = boxed.clone();
            assert_eq!(steps(boxed), steps(known.clone()), "rank {rank}");
            assert_eq!(steps(fresh), steps(known), "rank {rank}, of a copy");
        }
    }
}
