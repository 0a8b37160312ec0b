//! A plan of any algorithm, as one plain type.

use crate::algorithms::{
    Rounds, allgather, allreduce, alltoall, barrier, bcast, exchange, gather, halving, reduce,
    reduce_scatter, reduce_tree, rings, scan, scatter, smp, split_binary,
};
use crate::burst::Burst;
use crate::ir::{Generator, PlanStep, PlanUnit};
use crate::table::AlgorithmId;
use std::fmt;
use std::sync::Arc;

/// An algorithm that a plan can hold as a trait object, without a variant of [`AlgorithmState`]. A
/// variant saves the allocation.
pub(crate) trait Boxable: Rounds + fmt::Debug + Send + Sync {
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

macro_rules! algorithm_states {
    ($($variant:ident($algorithm:ty)),* $(,)?) => {
        #[derive(Clone, Debug)]
        pub(crate) enum AlgorithmState {
            $($variant($algorithm),)*
            /// An algorithm without its own variant.
            Boxed(Box<dyn Boxable>),
        }

        $(impl From<$algorithm> for AlgorithmState {
            fn from(algorithm: $algorithm) -> Self {
                Self::$variant(algorithm)
            }
        })*

        impl Rounds for AlgorithmState {
            fn round(&mut self, steps: &mut Burst) -> bool {
                match self {
                    $(Self::$variant(algorithm) => algorithm.round(steps),)*
                    Self::Boxed(algorithm) => algorithm.round(steps),
                }
            }
        }
    };
}

algorithm_states! {
    BarrierLinear(barrier::LinearBarrier),
    BarrierDissemination(barrier::Dissemination),
    BarrierDoubling(barrier::BarrierDoubling),
    BarrierDoubleRing(barrier::DoubleRing),
    BarrierTree(barrier::BarrierTree),
    BcastTree(bcast::BcastTree),
    BcastScatter(bcast::BcastScatter),
    BcastRing(bcast::BcastRing),
    BcastSplitBinary(split_binary::SplitBinary),
    GatherLinear(gather::LinearGather),
    GatherBinomial(gather::BinomialGather),
    GatherLinearSync(gather::LinearSyncGather),
    ScatterLinear(scatter::LinearScatter),
    ScatterBinomial(scatter::BinomialScatter),
    Allgather(allgather::Allgather),
    AlltoallLinear(alltoall::LinearAlltoall),
    AlltoallPairwise(alltoall::PairwiseAlltoall),
    AlltoallBruck(alltoall::BruckAlltoall),
    ReduceLinear(reduce::LinearReduce),
    ReduceBinomial(reduce::BinomialReduce),
    ReduceTree(reduce_tree::ReduceTree),
    Halving(halving::Halving),
    ReduceScatterRing(reduce_scatter::ReduceScatterRing),
    ReduceScatterPairwise(reduce_scatter::PairwiseReduceScatter),
    ReduceScatterDoubling(reduce_scatter::ReduceScatterDoubling),
    AllreduceDoubling(allreduce::AllreduceDoubling),
    AllreduceRing(rings::AllreduceRing),
    AllreduceSegmentedRing(rings::SegmentedAllreduceRing),
    AllreduceLocal(rings::LocalReduce),
    AllreduceRabenseifner(allreduce::Rabenseifner),
    ScanLinear(scan::LinearScan),
    ScanDoubling(scan::ScanDoubling),
    Exchange(exchange::EdgeExchange),
    Assemble(smp::NodeAllgather),
    Carry(smp::ScanCarry),
    Relay(smp::ChainBcast),
}

type PlanStage = (AlgorithmState, StageRanks);

#[derive(Clone, Debug)]
enum StageRanks {
    From(u32),
    Of(Arc<[u32]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Draft {
    stages: [Option<PlanStage>; 3],
    stages_len: usize,
    temporaries: [usize; 4],
    temporaries_len: usize,
    window: usize,
}

impl Draft {
    /// An algorithm without temporaries. The window has room for the steps of two rounds.
    pub(crate) fn new(first: impl Into<AlgorithmState>) -> Self {
        Self::nothing().then(first)
    }

    /// As `new`, for an algorithm without a variant of [`AlgorithmState`].
    #[allow(dead_code, reason = "for algorithms under development; a settled one gets a variant")]
    pub(crate) fn boxed(first: impl Boxable + 'static) -> Self {
        Self::new(AlgorithmState::Boxed(Box::new(first)))
    }

    pub(crate) fn nothing() -> Self {
        Self {
            stages: [const { None }; 3],
            stages_len: 0,
            temporaries: [0; 4],
            temporaries_len: 0,
            window: 8,
        }
    }

    /// Adds an algorithm, which begins when this rank has finished the earlier ones.
    pub(crate) fn then(self, next: impl Into<AlgorithmState>) -> Self {
        self.then_within(0, next)
    }

    /// As `then`, on the ranks of the team from `first` on.
    pub(crate) fn then_within(self, first: u32, next: impl Into<AlgorithmState>) -> Self {
        self.stage(next.into(), StageRanks::From(first))
    }

    /// As `then`, on these ranks of the team.
    pub(crate) fn then_among(self, ranks: &Arc<[u32]>, next: impl Into<AlgorithmState>) -> Self {
        self.stage(next.into(), StageRanks::Of(ranks.clone()))
    }

    fn stage(mut self, state: AlgorithmState, ranks: StageRanks) -> Self {
        self.stages[self.stages_len] = Some((state, ranks));
        self.stages_len += 1;
        self
    }

    pub(crate) fn temporary(mut self, length: usize) -> Self {
        self.temporaries[self.temporaries_len] = length;
        self.temporaries_len += 1;
        self
    }

    pub(crate) fn temporaries(self, how_many: usize, length: usize) -> Self {
        (0..how_many).fold(self, |draft, _| draft.temporary(length))
    }

    /// Sets the window, in steps, of an algorithm that makes progress with any window.
    pub(crate) fn exactly(mut self, window: usize) -> Self {
        self.window = window.max(2);
        self
    }

    /// Sets the window, to at least the 8 steps that any algorithm needs.
    pub(crate) fn window(mut self, window: usize) -> Self {
        self.window = window.max(8);
        self
    }
}

/// A plan of any algorithm, made by [`make`](crate::table::make): a value of a few hundred bytes. A
/// clone of an unused plan is an unused plan.
#[derive(Clone, Debug)]
pub struct AnyPlan {
    steps: Burst,
    /// The algorithms in order; `None` after the last.
    stages: [Option<PlanStage>; 3],
    stage: usize,
    unit: PlanUnit,
    temporaries: [usize; 4],
    temporaries_len: usize,
    window: usize,
    made_by: Option<(AlgorithmId, usize)>,
}

impl AnyPlan {
    pub(crate) fn new(unit: PlanUnit, draft: Draft) -> Self {
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

    pub(crate) fn made_by(self, algorithm: AlgorithmId, count: usize) -> Self {
        Self { made_by: Some((algorithm, count)), ..self }
    }

    /// The algorithm that has made the plan, and the call's [`Call::count`](crate::Call::count).
    #[must_use]
    pub fn algorithm(&self) -> Option<(AlgorithmId, usize)> {
        self.made_by
    }

    /// The plan of a call that moves no data.
    pub(crate) fn empty(unit: PlanUnit) -> Self {
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
    fn next(&mut self) -> Option<PlanStep> {
        loop {
            if let Some(step) = self.steps.pop() {
                return Some(step);
            }
            let (state, ranks) = self.stages.get_mut(self.stage)?.as_mut()?;
            match ranks {
                StageRanks::From(first) => self.steps.count_ranks_from(*first),
                StageRanks::Of(ranks) => self.steps.count_ranks_among(ranks),
            }
            if !state.round(&mut self.steps) {
                self.stage += 1;
                // The steps of this round are queued, so the fence applies to the next round.
                self.steps.fence();
            }
        }
    }

    fn unit(&self) -> PlanUnit {
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
    use crate::call::TeamMember;

    #[test]
    fn a_boxed_algorithm_has_the_same_steps() {
        for rank in 0..5 {
            let me = TeamMember { rank, size: 5 };
            let [known, boxed] = [
                Draft::new(barrier::BarrierTree::new(me)),
                Draft::boxed(barrier::BarrierTree::new(me)),
            ]
            .map(|draft| AnyPlan::new(PlanUnit::Bytes, draft));
            let steps = |mut plan: AnyPlan| {
                std::iter::from_fn(|| plan.next())
                    .map(|step| format!("{step:?}"))
                    .collect::<Vec<_>>()
            };
            let fresh = boxed.clone();
            assert_eq!(steps(boxed), steps(known.clone()), "rank {rank}");
            assert_eq!(steps(fresh), steps(known), "rank {rank}, of a copy");
        }
    }
}
