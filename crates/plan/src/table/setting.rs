//! Constructors that several rows of the table share.

use super::DEFAULT_FANOUT;
use crate::algorithms::allgather::AllgatherRoute;
use crate::algorithms::exchange::EdgeExchange;
use crate::algorithms::halving::{self, ExchangeOrder, HalvingEnd};
use crate::algorithms::{
    allgather, alltoall, bcast, gather, inter, reduce, reduce_scatter, reduce_tree, rings, scan,
    scatter,
};
use crate::blocks::Cut;
use crate::call::{Call, InterCollective, InterRole, TeamMember};
use crate::edges::Edges;
use crate::ir::{PlanBuffer, Span};
use crate::nodes::Nodes;
use crate::plan::Draft;
use crate::shape::{Fold, VectorParts, down};
use crate::trees::Tree;

pub(super) struct Setting<'a> {
    pub(super) me: TeamMember,
    pub(super) call: &'a Call,
    pub(super) root: u32,
    pub(super) count: usize,
    pub(super) commutative: bool,
    pub(super) in_place: bool,
    pub(super) exclusive: bool,
    pub(super) segment: usize,
    pub(super) fanout: u32,
    pub(super) max_requests: usize,
    pub(super) nodes: Option<&'a Nodes>,
    pub(super) window: usize,
}

impl Setting<'_> {
    pub(super) fn bcast(&self, tree: Tree) -> Draft {
        let segment = match tree {
            Tree::Chain | Tree::Chains(_) | Tree::Binary => self.pipeline_segment(),
            Tree::Flat | Tree::Binomial | Tree::Knomial(_) => self.segment,
        };
        Draft::new(bcast::BcastTree::new(self.me, self.root, self.count, segment, tree))
            .window(self.window)
    }

    pub(super) fn chains(&self) -> Tree {
        Tree::Chains(if self.fanout == 0 { DEFAULT_FANOUT } else { self.fanout })
    }

    pub(super) fn knomial(&self) -> Tree {
        Tree::Knomial(if self.fanout == 0 { DEFAULT_FANOUT } else { self.fanout.max(2) })
    }

    pub(super) fn pipeline_segment(&self) -> usize {
        if self.segment == 0 { self.count.div_ceil(32).max(4096) } else { self.segment }
    }

    /// The blocks of all ranks that this rank knows.
    pub(super) fn all(&self) -> Cut {
        match self.call {
            Call::Gatherv { all, .. } | Call::Scatterv { all, .. } => {
                all.get().map_or(Cut::Even(0), |all| Cut::Uneven(all.clone()))
            }
            Call::Allgatherv { blocks, .. } | Call::ReduceScatter { blocks, .. } => {
                Cut::Uneven(blocks.0.clone())
            }
            _ => Cut::Even(self.count),
        }
    }

    /// The length of the block that only this rank contributes or gets.
    pub(super) fn mine(&self) -> usize {
        match self.call {
            Call::Gatherv { mine, .. } | Call::Scatterv { mine, .. } => mine.0,
            Call::Allgatherv { blocks, .. } | Call::ReduceScatter { blocks, .. } => {
                blocks.0.length(self.me.rank as usize)
            }
            _ => self.count,
        }
    }

    pub(super) fn exchanged(&self) -> (Cut, Cut) {
        match self.call {
            Call::Alltoallv { send, receive, in_place } => {
                let receive = Cut::Uneven(receive.0.clone());
                (if *in_place { receive.clone() } else { Cut::Uneven(send.0.clone()) }, receive)
            }
            _ => (Cut::Even(self.count), Cut::Even(self.count)),
        }
    }

    fn own_block(&self, all: &Cut) -> Span {
        match self.in_place {
            true => all.block(PlanBuffer::Output, self.me.rank),
            false => PlanBuffer::Input.span(0, self.mine()),
        }
    }

    pub(super) fn gather(&self) -> Draft {
        let all = self.all();
        let own = self.own_block(&all);
        Draft::new(gather::LinearGather::new(self.me, self.root, own, all)).window(self.window)
    }

    pub(super) fn gather_sync(&self) -> Draft {
        let all = self.all();
        let own = self.own_block(&all);
        let segment = if self.segment == 0 { 1024 } else { self.segment };
        Draft::new(gather::LinearSyncGather::new(self.me, self.root, own, all, segment))
            .window(self.window)
    }

    pub(super) fn scatter(&self) -> Draft {
        let (mine, all) = (self.mine(), self.all());
        Draft::new(scatter::LinearScatter::new(
            self.me,
            self.root,
            PlanBuffer::Input,
            mine,
            all,
            self.in_place,
        ))
        .window(self.window)
    }

    pub(super) fn allgather(&self, route: AllgatherRoute) -> Draft {
        let own = (!self.in_place).then_some(PlanBuffer::Input);
        Draft::new(allgather::Allgather::new(self.me, self.all(), own, route)).window(self.window)
    }

    pub(super) fn bruck(&self) -> Draft {
        self.allgather(AllgatherRoute::Bruck {
            radix: if self.fanout == 0 { 2 } else { self.fanout.max(2) },
        })
    }

    pub(super) fn gather_bcast(&self) -> Draft {
        let total = self.all().total(self.me.size);
        self.gather()
            .then(bcast::BcastTree::new(self.me, 0, total, 0, Tree::Flat))
            .window(self.window)
    }

    /// The window of an algorithm that limits its exchanges, each of two steps.
    pub(super) fn requests(&self) -> usize {
        if self.max_requests == 0 { self.window } else { self.max_requests.saturating_mul(2) }
    }

    /// At most `limit` exchanges at a time; 0: only the window limits them.
    pub(super) fn alltoall_limited(&self, limit: usize) -> Draft {
        let (send, receive) = self.exchanged();
        let spare = if self.in_place { receive.total(self.me.size) } else { 0 };
        Draft::new(alltoall::LinearAlltoall::new(self.me, send, receive, self.in_place, limit))
            .temporary(spare)
            .window(self.window)
    }

    pub(super) fn alltoall_pairwise(&self) -> Draft {
        let (send, receive) = self.exchanged();
        let spare = if self.in_place && self.me.size > 1 { receive.longest() } else { 0 };
        Draft::new(alltoall::PairwiseAlltoall::new(self.me, send, receive, self.in_place))
            .temporary(spare)
    }

    /// Reduces a whole vector to the output of the root (of rank 0 without a root).
    pub(super) fn reduce(&self) -> reduce::ReduceTask {
        reduce::ReduceTask {
            me: self.me,
            root: self.root,
            count: self.count,
            commutative: self.commutative,
            mine: if self.in_place { PlanBuffer::Output } else { PlanBuffer::Input },
            result: PlanBuffer::Output,
        }
    }

    pub(super) fn scan(&self) -> scan::ScanTask {
        let kind =
            if self.exclusive { scan::ScanKind::Exclusive } else { scan::ScanKind::Inclusive };
        scan::ScanTask { me: self.me, kind, count: self.count, in_place: self.in_place }
    }
}

pub(super) fn reduce_linear(setting: &Setting) -> Draft {
    let algorithm = reduce::LinearReduce::new(setting.reduce());
    let temporaries = algorithm.temporaries();
    Draft::new(algorithm).temporaries(temporaries, setting.count)
}

pub(super) fn reduce_binomial(setting: &Setting) -> Draft {
    let algorithm = reduce::BinomialReduce::new(setting.reduce());
    let temporaries = algorithm.temporaries();
    Draft::new(algorithm).temporaries(temporaries, setting.count)
}

/// Up a tree in segments; k-nomial trees have one segment by default.
pub(super) fn reduce_tree(setting: &Setting, tree: Tree) -> Draft {
    let segment = match tree {
        Tree::Knomial(_) => setting.segment,
        _ => setting.pipeline_segment(),
    };
    reduced(reduce_tree::ReduceTree::new(setting.reduce(), tree, segment), setting)
}

pub(super) fn reduce_in_order(setting: &Setting) -> Draft {
    reduced(
        reduce_tree::ReduceTree::in_order(setting.reduce(), setting.pipeline_segment()),
        setting,
    )
}

fn reduced(algorithm: reduce_tree::ReduceTree, setting: &Setting) -> Draft {
    let temporary = algorithm.temporary();
    Draft::new(algorithm).temporary(temporary).window(setting.window)
}

pub(super) fn reduce_rabenseifner(setting: &Setting) -> Draft {
    let me = setting.me;
    let parts = VectorParts { count: setting.count, parts: Fold::new(me.size).active };
    let task = halving::HalvingTask {
        rank: down(me.rank, setting.root, me.size),
        first: setting.root,
        ..halving_task(setting, Cut::Parts(parts))
    };
    halved(setting, halving::Halving::new(task, ExchangeOrder::FarFirst, HalvingEnd::Gather))
}

pub(super) fn reduce_scatter_halving(setting: &Setting, order: ExchangeOrder) -> Draft {
    halved(
        setting,
        halving::Halving::new(halving_task(setting, setting.all()), order, HalvingEnd::Scatter),
    )
}

fn halving_task(setting: &Setting, cut: Cut) -> halving::HalvingTask {
    let TeamMember { rank, size } = setting.me;
    let mine = setting.reduce().mine;
    halving::HalvingTask { rank, size, first: 0, cut, commutative: setting.commutative, mine }
}

fn halved(setting: &Setting, algorithm: halving::Halving) -> Draft {
    let (temporaries, length) = (algorithm.temporaries(), algorithm.length());
    Draft::new(algorithm).temporaries(temporaries, length).window(setting.window)
}

pub(super) fn reduce_scatter_ring(setting: &Setting) -> Draft {
    let all = setting.all();
    let length = if setting.me.size > 1 { all.longest() } else { 0 };
    Draft::new(reduce_scatter::ReduceScatterRing::new(setting.me, all, setting.reduce().mine))
        .temporaries(2, length)
}

pub(super) fn reduce_scatter_pairwise(setting: &Setting) -> Draft {
    let algorithm = reduce_scatter::PairwiseReduceScatter::new(
        setting.me,
        setting.all(),
        setting.reduce().mine,
    );
    Draft::new(algorithm).temporaries(4, setting.mine())
}

pub(super) fn reduce_scatter_doubling(setting: &Setting) -> Draft {
    let all = setting.all();
    let algorithm =
        reduce_scatter::ReduceScatterDoubling::new(setting.me, all.clone(), setting.reduce().mine);
    let temporaries = algorithm.temporaries();
    Draft::new(algorithm).temporaries(temporaries, all.total(setting.me.size))
}

pub(super) fn allreduce_segmented_ring(setting: &Setting) -> Draft {
    let Setting { me, count, .. } = *setting;
    let parts = VectorParts { count, parts: me.size };
    let segment = match setting.segment {
        0 => parts.longest().div_ceil(32).max(4096),
        segment => segment,
    };
    let algorithm = rings::SegmentedAllreduceRing::new(me, count, segment, setting.in_place);
    let temporary = algorithm.temporary();
    Draft::new(algorithm)
        .then(allgather::Allgather::new(me, Cut::Parts(parts), None, AllgatherRoute::Ring))
        .temporary(temporary)
        .window(setting.window)
}

pub(super) fn allgather_reduce(setting: &Setting) -> Draft {
    let Setting { me, count, .. } = *setting;
    let all = PlanBuffer::Temporary(0);
    let mine = setting.reduce().mine;
    let allgather = allgather::Allgather::new(
        me,
        Cut::Even(count),
        Some(mine),
        AllgatherRoute::Bruck { radix: 2 },
    );
    Draft::new(allgather.into(all))
        .then(rings::LocalReduce::new(me.size, count, all))
        .temporary(count * me.size as usize)
        .window(setting.window)
}

pub(super) fn bcast_scatter_allgather(setting: &Setting) -> Draft {
    let Setting { me, root, count, .. } = *setting;
    let parts = Cut::Parts(VectorParts { count, parts: me.size });
    let allgather = allgather::Allgather::new(me, parts, None, AllgatherRoute::Bruck { radix: 2 })
        .after_scatter(root);
    bcast_scatter(setting).then(allgather)
}

pub(super) fn bcast_scatter_ring(setting: &Setting) -> Draft {
    bcast_scatter(setting).then(bcast::BcastRing::new(setting.me, setting.root, setting.count))
}

fn bcast_scatter(setting: &Setting) -> Draft {
    Draft::new(bcast::BcastScatter::new(setting.me, setting.root, setting.count))
        .window(setting.window)
}

pub(super) fn broadcast_after(draft: Draft, setting: &Setting, tree: Tree) -> Draft {
    draft
        .then(bcast::BcastTree::new(setting.me, 0, setting.count, setting.segment, tree))
        .window(setting.window)
}

/// The temporary with the result of [`reduce_for`].
const RESULT: u8 = 2;

/// Reduces to rank 0 of `task`, into a temporary.
pub(super) fn reduce_for(task: reduce::ReduceTask, first: u32) -> Draft {
    let result = PlanBuffer::Temporary(RESULT);
    let reduce = reduce::BinomialReduce::new(reduce::ReduceTask { root: 0, result, ..task });
    let used = reduce.temporaries();
    let mut draft = Draft::nothing().then_within(first, reduce).temporaries(used, task.count);
    if task.me.rank == 0 {
        draft = draft.temporaries(usize::from(RESULT) - used, 0).temporary(task.count);
    }
    draft
}

pub(super) fn reduce_scatter(setting: &Setting) -> Draft {
    let (me, all) = (setting.me, setting.all());
    let draft = reduce_for(reduce::ReduceTask { count: all.total(me.size), ..setting.reduce() }, 0);
    let result = PlanBuffer::Temporary(RESULT);
    draft
        .then(scatter::LinearScatter::new(me, 0, result, setting.mine(), all, false))
        .window(setting.window)
}

/// [`reduce_scatter()`] in strict rank order, from the last rank on.
pub(super) fn reduce_scatter_linear(setting: &Setting) -> Draft {
    let (me, all) = (setting.me, setting.all());
    let (count, result) = (all.total(me.size), PlanBuffer::Temporary(RESULT));
    let reduce = reduce::LinearReduce::new(reduce::ReduceTask {
        root: 0,
        count,
        result,
        ..setting.reduce()
    });
    let used = reduce.temporaries();
    let mut draft = Draft::new(reduce).temporaries(used, count);
    if me.rank == 0 {
        draft = draft.temporary(count);
    }
    draft
        .then(scatter::LinearScatter::new(me, 0, result, setting.mine(), all, false))
        .window(setting.window)
}

pub(super) fn neighbor(setting: &Setting) -> Draft {
    let Call::Neighbor { edges } = setting.call else { return Draft::nothing() };
    exchange(setting, edges.0.clone())
}

fn exchange(setting: &Setting, edges: Edges) -> Draft {
    let exchange = EdgeExchange::new(setting.me.rank, edges);
    let steps = exchange.steps();
    Draft::new(exchange).window(steps)
}

pub(super) fn inter_move(setting: &Setting) -> Draft {
    let Call::Inter { groups, what } = setting.call else { return Draft::nothing() };
    exchange(setting, inter::movement(setting.me, *groups, what))
}

pub(super) fn inter_reduce(setting: &Setting) -> Draft {
    let (me, Call::Inter { groups, what }) = (setting.me, setting.call) else {
        return Draft::nothing();
    };
    let local = groups.local(me);
    let here = TeamMember { rank: me.rank - local.start, size: local.len() as u32 };
    let (contributes, count) = match what {
        InterCollective::Reduce { part, count, .. } => {
            (matches!(part, InterRole::Leaf { .. }), count.0)
        }
        InterCollective::Allreduce { count, .. } => (true, count.0),
        InterCollective::ReduceScatter { local, .. } => (true, local.0.total()),
        _ => (false, 0),
    };
    let draft = if contributes && count > 0 {
        reduce_for(reduce::ReduceTask { me: here, count, ..setting.reduce() }, local.start)
    } else {
        Draft::nothing()
    };
    let edges = inter::results(me, *groups, what);
    let steps = edges.sends.len() + edges.receives.len();
    let result = PlanBuffer::Temporary(RESULT);
    let InterCollective::ReduceScatter { local: blocks, .. } = what else {
        return draft
            .then(EdgeExchange::between(me.rank, edges, result, PlanBuffer::Output))
            .window(steps);
    };
    // The leaders swap the results of their groups, and scatter the other group's result within
    // their own group.
    let theirs = PlanBuffer::Temporary(RESULT + 1);
    let draft = draft.then(EdgeExchange::between(me.rank, edges, result, theirs));
    let draft = if here.rank == 0 && count > 0 { draft.temporary(count) } else { draft };
    let mine = blocks.0.length(here.rank as usize);
    let scatter =
        scatter::LinearScatter::new(here, 0, theirs, mine, Cut::Uneven(blocks.0.clone()), false);
    draft.then_within(local.start, scatter).window(setting.window)
}
