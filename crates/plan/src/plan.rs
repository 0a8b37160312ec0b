//! A plan of any algorithm, as one plain type.

use crate::algorithms::{
    Rounds, allgather, allreduce, alltoall, barrier, bcast, gather, reduce, scan, scatter,
};
use crate::burst::Burst;
use crate::ir::{Generator, Step, Unit};

macro_rules! machines {
    ($($variant:ident($algorithm:ty)),* $(,)?) => {
        /// One of the algorithms.
        #[derive(Clone, Debug)]
        pub(crate) enum Machine {
            $($variant($algorithm)),*
        }

        $(impl From<$algorithm> for Machine {
            fn from(algorithm: $algorithm) -> Self {
                Self::$variant(algorithm)
            }
        })*

        impl Rounds for Machine {
            fn round(&mut self, steps: &mut Burst) -> bool {
                match self {
                    $(Self::$variant(algorithm) => algorithm.round(steps)),*
                }
            }
        }
    };
}

machines! {
    BarrierLinear(barrier::Linear),
    BarrierDissemination(barrier::Dissemination),
    BarrierDoubling(barrier::RecursiveDoubling),
    BcastTree(bcast::Tree),
    BcastScatterRing(bcast::ScatterRing),
    GatherLinear(gather::Linear),
    GatherBinomial(gather::Binomial),
    ScatterLinear(scatter::Linear),
    ScatterBinomial(scatter::Binomial),
    Allgather(allgather::Allgather),
    AlltoallLinear(alltoall::Linear),
    AlltoallPairwise(alltoall::Pairwise),
    AlltoallBruck(alltoall::Bruck),
    ReduceLinear(reduce::Linear),
    ReduceBinomial(reduce::Binomial),
    ReduceChain(reduce::Chain),
    AllreduceDoubling(allreduce::RecursiveDoubling),
    AllreduceRing(allreduce::Ring),
    AllreduceRabenseifner(allreduce::Rabenseifner),
    ScanLinear(scan::Linear),
    ScanDoubling(scan::RecursiveDoubling),
}

/// What an algorithm's constructor makes of a call.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    first: Machine,
    second: Option<Machine>,
    temporaries: [usize; 4],
    temporaries_len: usize,
    window: usize,
}

impl Draft {
    /// An algorithm without temporaries whose steps of two rounds fit into the window.
    pub(crate) fn new(first: impl Into<Machine>) -> Self {
        Self { first: first.into(), second: None, temporaries: [0; 4], temporaries_len: 0, window: 8 }
    }

    /// A second algorithm that begins when this rank is through with the first.
    pub(crate) fn then(mut self, second: impl Into<Machine>) -> Self {
        self.second = Some(second.into());
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
    /// What runs now and what follows it; `None` when a stage is over, or there never was one.
    now: Option<Machine>,
    then: Option<Machine>,
    unit: Unit,
    temporaries: [usize; 4],
    temporaries_len: usize,
    window: usize,
}

impl AnyPlan {
    pub(crate) fn new(unit: Unit, draft: Draft) -> Self {
        Self {
            steps: Burst::new(),
            now: Some(draft.first),
            then: draft.second,
            unit,
            temporaries: draft.temporaries,
            temporaries_len: draft.temporaries_len,
            window: draft.window,
        }
    }

    /// The plan of a call that moves nothing.
    pub(crate) fn empty(unit: Unit) -> Self {
        Self {
            steps: Burst::new(),
            now: None,
            then: None,
            unit,
            temporaries: [0; 4],
            temporaries_len: 0,
            window: 1,
        }
    }
}

impl Generator for AnyPlan {
    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.steps.pop() {
                return Some(step);
            }
            if !self.now.as_mut()?.round(&mut self.steps) {
                self.now = self.then.take();
                if self.now.is_some() {
                    // Takes effect on the next step that is pushed: the rest of this round is in the queue already.
                    self.steps.fence();
                }
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
