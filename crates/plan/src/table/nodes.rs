//! The rows of two levels: algorithms of one level, used within nodes and between the leaders of
//! nodes.

use super::setting::Setting;
use crate::algorithms::{allreduce, barrier, bcast, reduce, reduce_tree, scan, scatter, smp};
use crate::call::{Collective, TeamMember};
use crate::ir::PlanBuffer;
use crate::nodes::Nodes;
use crate::plan::Draft;
use crate::shape::{down, levels as doublings, up};
use crate::trees::{InOrder, Tree};
use std::sync::Arc;

/// From this number of elements on, the leaders of nodes combine parts of the vector.
const LONG: usize = 4096;

/// The number of temporaries of the reductions used here.
const SCRATCH: usize = 2;
/// The temporary of a node's contribution.
const OF_NODE: u8 = 2;
/// The temporary of the result before it is scattered.
const OF_ALL: u8 = 3;

struct Levels {
    /// This rank among the ranks of its node.
    here: TeamMember,
    members: Arc<[u32]>,
    /// The index in `members` of the rank that leads the node.
    leader: u32,
    there: TeamMember,
    leaders: Arc<[u32]>,
}

impl Levels {
    /// `root` leads its node.
    fn new(nodes: &Nodes, rank: u32, root: u32) -> Levels {
        let node = nodes.of(rank);
        let members = nodes.members(node);
        let place = |rank: u32| members.binary_search(&rank).unwrap_or(0) as u32;
        let leads_already = nodes.leaders()[nodes.of(root) as usize] == root;
        let leaders = match leads_already {
            true => nodes.leaders().clone(),
            false => {
                let root_for =
                    |leader: &u32| if nodes.of(*leader) == nodes.of(root) { root } else { *leader };
                nodes.leaders().iter().map(root_for).collect()
            }
        };
        Levels {
            here: TeamMember { rank: place(rank), size: members.len() as u32 },
            leader: place(leaders[node as usize]),
            members: members.clone(),
            there: TeamMember { rank: node, size: nodes.how_many() },
            leaders,
        }
    }

    fn leads(&self) -> bool {
        self.here.rank == self.leader
    }

    /// This rank's links of the chains: from the root's node to the other nodes in order, and in
    /// each node from its leader on. Left: the leader of the next node; right: the next rank of
    /// this node.
    fn chains(&self, root_node: u32) -> InOrder {
        let (here, there) = (self.here, self.there);
        let (at, node) =
            (down(here.rank, self.leader, here.size), down(there.rank, root_node, there.size));
        let member = |at: u32| self.members[up(at, self.leader, here.size) as usize];
        let leader = |node: u32| self.leaders[up(node, root_node, there.size) as usize];
        InOrder {
            parent: match (at, node) {
                (0, 0) => None,
                (0, node) => Some(leader(node - 1)),
                (at, _) => Some(member(at - 1)),
            },
            left: (at == 0 && node + 1 < there.size).then(|| leader(node + 1)),
            right: (at + 1 < here.size).then(|| member(at + 1)),
        }
    }
}

/// Bytes of a segment of the row smp for a call of `bytes` bytes whose ranks have a processor each;
/// 0: no segments. Depends only on shared knowledge.
///
/// Whole vectors go down trees, whose top rank sends one message after another. Segments go along
/// chains, where each rank sends at most one message on each level, but the first segment takes one
/// hop for each node and for each rank of a node. The variant with fewer times of a segment is
/// taken; `tests/smp.rs` compares it with the cost model.
#[must_use]
pub fn segment_bytes(
    collective: Collective,
    nodes: &Nodes,
    bytes: usize,
    commutative: bool,
) -> usize {
    const SEGMENT: usize = 64 << 10;
    let segments = bytes.div_ceil(SEGMENT);
    let (nodes, ranks) = (nodes.how_many(), nodes.largest());
    let chains = segments.saturating_sub(1) + (nodes + ranks - 2) as usize;
    let trees = match collective {
        Collective::Bcast => doublings(nodes) + doublings(ranks),
        Collective::Reduce if commutative => doublings(nodes) + doublings(ranks),
        // Between nodes the vector is exchanged twice, so one doubling counts.
        Collective::Allreduce if commutative => doublings(ranks) + 1,
        _ => return 0,
    };
    if segments > 1 && chains < trees as usize * segments { SEGMENT } else { 0 }
}

/// Combines contributions along the chains to `root`, in segments.
fn gather_up(setting: &Setting, levels: &Levels, (root, root_node): (u32, u32)) -> Draft {
    let task = reduce::ReduceTask { root, ..setting.reduce() };
    let algorithm = reduce_tree::ReduceTree::given(task, levels.chains(root_node), setting.segment);
    let temporary = algorithm.temporary();
    Draft::new(algorithm).temporary(temporary).window(setting.window)
}

/// A call without nodes was refused before.
fn draft(setting: &Setting, of: impl FnOnce(&Nodes) -> Draft) -> Draft {
    setting.nodes.map_or_else(Draft::nothing, of)
}

pub(super) fn barrier(setting: &Setting) -> Draft {
    draft(setting, |nodes| {
        let levels = Levels::new(nodes, setting.me.rank, 0);
        let mut draft =
            Draft::nothing().then_among(&levels.members, barrier::BarrierTree::enter(levels.here));
        if levels.leads() {
            draft = draft.then_among(&levels.leaders, barrier::Dissemination::new(levels.there));
        }
        draft
            .then_among(&levels.members, barrier::BarrierTree::leave(levels.here))
            .window(setting.window)
    })
}

fn is_cut(setting: &Setting) -> bool {
    setting.segment > 0 && setting.count > setting.segment
}

pub(super) fn bcast(setting: &Setting) -> Draft {
    draft(setting, |nodes| {
        let Setting { root, count, segment, .. } = *setting;
        let levels = Levels::new(nodes, setting.me.rank, root);
        if is_cut(setting) {
            let relay = smp::ChainBcast::new(levels.chains(nodes.of(root)), count, segment);
            return Draft::new(relay).window(setting.window);
        }
        let mut draft = Draft::nothing();
        if levels.leads() {
            let among =
                bcast::BcastTree::new(levels.there, nodes.of(root), count, segment, Tree::Binomial);
            draft = draft.then_among(&levels.leaders, among);
        }
        spread(draft, &levels, setting, count)
    })
}

/// Broadcasts the output of the node's leader within the node.
fn spread(draft: Draft, levels: &Levels, setting: &Setting, count: usize) -> Draft {
    let within =
        bcast::BcastTree::new(levels.here, levels.leader, count, setting.segment, Tree::Binomial);
    draft.then_among(&levels.members, within).window(setting.window)
}

fn reduce_within(setting: &Setting, levels: &Levels, count: usize, result: PlanBuffer) -> Draft {
    let task = reduce::ReduceTask {
        me: levels.here,
        root: levels.leader,
        count,
        result,
        ..setting.reduce()
    };
    Draft::nothing().then_among(&levels.members, reduce::BinomialReduce::new(task))
}

fn reduce_among(
    draft: Draft,
    setting: &Setting,
    nodes: &Nodes,
    (levels, count, result): (&Levels, usize, PlanBuffer),
) -> Draft {
    let mine = PlanBuffer::Temporary(OF_NODE);
    let (me, root) = (levels.there, nodes.of(setting.root));
    let task = reduce::ReduceTask { me, root, count, mine, result, ..setting.reduce() };
    draft.then_among(&levels.leaders, reduce::BinomialReduce::new(task))
}

pub(super) fn reduce(setting: &Setting) -> Draft {
    draft(setting, |nodes| {
        let count = setting.count;
        let levels = Levels::new(nodes, setting.me.rank, setting.root);
        if is_cut(setting) && setting.commutative {
            return gather_up(setting, &levels, (setting.root, nodes.of(setting.root)));
        }
        let draft = reduce_within(setting, &levels, count, PlanBuffer::Temporary(OF_NODE));
        let draft = draft.temporaries(SCRATCH, count);
        if !levels.leads() {
            return draft;
        }
        reduce_among(draft, setting, nodes, (&levels, count, PlanBuffer::Output)).temporary(count)
    })
}

pub(super) fn allreduce(setting: &Setting) -> Draft {
    draft(setting, |nodes| {
        let count = setting.count;
        let levels = Levels::new(nodes, setting.me.rank, 0);
        if is_cut(setting) && setting.commutative {
            let up = gather_up(setting, &levels, (0, nodes.of(0)));
            return up.then(smp::ChainBcast::new(
                levels.chains(nodes.of(0)),
                count,
                setting.segment,
            ));
        }
        let mut draft = reduce_within(setting, &levels, count, PlanBuffer::Output);
        if levels.leads() {
            draft = match setting.commutative && count >= LONG {
                true => {
                    let among = allreduce::Rabenseifner::new(levels.there, count, true);
                    draft.then_among(&levels.leaders, among)
                }
                false => {
                    let among = allreduce::AllreduceDoubling::new(levels.there, count, true);
                    draft.then_among(&levels.leaders, among)
                }
            };
        }
        spread(draft.temporaries(SCRATCH, count), &levels, setting, count)
    })
}

pub(super) fn allgather(setting: &Setting) -> Draft {
    draft(setting, |nodes| {
        let (all, me) = (setting.all(), setting.me);
        let total = all.total(me.size);
        let own = (!setting.in_place).then(|| PlanBuffer::Input.span(0, setting.mine()));
        let levels = Levels::new(nodes, me.rank, nodes.leaders()[0]);
        spread(
            Draft::new(smp::NodeAllgather::new(me.rank, nodes, all, own)),
            &levels,
            setting,
            total,
        )
    })
}

pub(super) fn reduce_scatter(setting: &Setting) -> Draft {
    draft(setting, |nodes| {
        let (all, me) = (setting.all(), setting.me);
        let (count, mine) = (all.total(me.size), setting.mine());
        let levels = Levels::new(nodes, me.rank, 0);
        let result = PlanBuffer::Temporary(OF_ALL);
        let mut draft = reduce_within(setting, &levels, count, PlanBuffer::Temporary(OF_NODE));
        draft = draft.temporaries(SCRATCH, count);
        if levels.leads() {
            draft = reduce_among(draft, setting, nodes, (&levels, count, result)).temporary(count);
        }
        if me.rank == 0 {
            draft = draft.temporary(count);
        }
        draft
            .then(scatter::LinearScatter::new(me, 0, result, mine, all, false))
            .window(setting.window)
    })
}

pub(super) fn scan(setting: &Setting) -> Draft {
    draft(setting, |nodes| {
        let count = setting.count;
        let levels = Levels::new(nodes, setting.me.rank, 0);
        let within = scan::ScanDoubling::new(scan::ScanTask { me: levels.here, ..setting.scan() });
        Draft::nothing()
            .then_among(&levels.members, within)
            .then(smp::ScanCarry::new(setting.me.rank, nodes, count))
            .temporaries(SCRATCH, count)
            .window(setting.window)
    })
}
