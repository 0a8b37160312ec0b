//! Parts of collectives on two levels, within nodes and between nodes. `table/nodes.rs` combines
//! them with algorithms of one level.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::ir::{PlanBuffer, Span};
use crate::nodes::Nodes;
use crate::shape::{Segments, down, up};
use crate::trees::InOrder;

/// Gathers the blocks of all ranks at the lowest rank of each node: first those of the node, then
/// those of the other nodes around a ring of the lowest ranks.
#[derive(Clone, Debug)]
pub(crate) struct NodeAllgather {
    rank: u32,
    nodes: Nodes,
    all: Cut,
    /// This rank's block, unless it is in the output.
    own: Option<Span>,
    /// The next member of the node, later the next step around the ring.
    at: usize,
    /// The completed rounds of the ring; `None` before the node's blocks have arrived.
    round: Option<u32>,
}

impl NodeAllgather {
    pub(crate) fn new(rank: u32, nodes: &Nodes, all: Cut, own: Option<Span>) -> Self {
        Self { rank, nodes: nodes.clone(), all, own, at: 0, round: None }
    }

    /// The blocks of run `at` of a node's consecutive ranks.
    fn run(&self, node: u32, at: usize) -> Option<Span> {
        let (first, how_many) = *self.nodes.runs(node).get(at)?;
        Some(self.all.span(PlanBuffer::Output, first, how_many))
    }

    fn collect(&mut self, steps: &mut Burst) -> bool {
        let members = self.nodes.members(self.nodes.of(self.rank));
        let block = self.all.block(PlanBuffer::Output, self.rank);
        if members[0] != self.rank {
            steps.send(Wait::Nothing, members[0], self.own.unwrap_or(block));
            return false;
        }
        match (members.get(self.at), self.own) {
            (None, _) => self.round = Some(0),
            (Some(member), _) if self.at > 0 => {
                steps.receive(Wait::Nothing, *member, self.all.block(PlanBuffer::Output, *member));
            }
            (Some(_), Some(own)) => _ = steps.copy(Wait::Nothing, own, block),
            (Some(_), None) => {}
        }
        self.at = if self.round.is_some() { 0 } else { self.at + 1 };
        true
    }
}

impl Rounds for NodeAllgather {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let Some(round) = self.round else { return self.collect(steps) };
        let (node, how_many) = (self.nodes.of(self.rank), self.nodes.how_many());
        if round + 1 >= how_many {
            return false;
        }
        let leader = |node: u32| self.nodes.leaders()[node as usize];
        let (give, take) = (down(node, round, how_many), down(node, round + 1, how_many));
        if self.at == 0 {
            steps.fence();
        }
        let (mine, theirs) = (self.run(give, self.at), self.run(take, self.at));
        // A receive before each send, so that every send meets a posted receive with any window.
        if let Some(theirs) = theirs {
            steps.receive(Wait::Nothing, leader(down(node, 1, how_many)), theirs);
        }
        if let Some(mine) = mine {
            steps.send(Wait::Nothing, leader(up(node, 1, how_many)), mine);
        }
        (self.round, self.at) = match (mine, theirs) {
            (None, None) => (Some(round + 1), 0),
            _ => (Some(round), self.at + 1),
        };
        true
    }
}

/// A broadcast in segments along chains: the leaders of the nodes forward each segment to the next
/// leader and to the next rank of their node, which forwards it within the node. The receive of the
/// next segment is posted meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct ChainBcast {
    parent: Option<u32>,
    /// In the next node, and in this node.
    children: [Option<u32>; 2],
    segments: Segments,
    segment: usize,
    coming: Mark,
}

impl ChainBcast {
    /// `here` has the next node on the left, and the next rank of this node on the right.
    pub(crate) fn new(here: InOrder, count: usize, segment: usize) -> Self {
        let segments = Segments::new(count, segment);
        let children = [here.left, here.right];
        Self { parent: here.parent, children, segments, segment: 0, coming: Mark::NONE }
    }

    fn receive(&self, steps: &mut Burst, segment: usize) -> Mark {
        match self.parent.filter(|_| segment < self.segments.how_many()) {
            Some(parent) => steps.receive(
                Wait::Nothing,
                parent,
                self.segments.span(PlanBuffer::Output, segment),
            ),
            None => Mark::NONE,
        }
    }
}

impl Rounds for ChainBcast {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let at = self.segment;
        if at >= self.segments.how_many() {
            return false;
        }
        let here = if at == 0 { self.receive(steps, 0) } else { self.coming };
        self.coming = self.receive(steps, at + 1);
        for child in self.children.into_iter().flatten() {
            steps.send(Wait::One(here), child, self.segments.span(PlanBuffer::Output, at));
        }
        self.segment += 1;
        true
    }
}

/// After a scan within each node, puts the contributions of all lower nodes on the left. They pass
/// along the last ranks of the nodes, which send them to the other ranks of their node. Each node
/// has consecutive ranks.
#[derive(Clone, Debug)]
pub(crate) struct ScanCarry {
    rank: u32,
    nodes: Nodes,
    count: usize,
    /// The number of members that have the carry; `None` before it has arrived.
    served: Option<usize>,
    carried: Mark,
}

impl ScanCarry {
    /// The temporaries for the received and the sent carry, with the length of the vector.
    pub(crate) const COMES: u8 = 0;
    const GOES: u8 = 1;

    pub(crate) fn new(rank: u32, nodes: &Nodes, count: usize) -> Self {
        Self { rank, nodes: nodes.clone(), count, served: None, carried: Mark::NONE }
    }
}

impl Rounds for ScanCarry {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let whole = |place: PlanBuffer| place.span(0, self.count);
        let output = whole(PlanBuffer::Output);
        let (comes, goes) =
            (whole(PlanBuffer::Temporary(Self::COMES)), whole(PlanBuffer::Temporary(Self::GOES)));
        let node = self.nodes.of(self.rank);
        let last_of = |node: u32| self.nodes.members(node).last().copied().unwrap_or(0);
        let members = self.nodes.members(node);
        let (is_first, last) = (node == 0, last_of(node));
        if self.rank != last {
            if !is_first {
                let received = steps.receive(Wait::Nothing, last, comes);
                steps.reduce(Wait::One(received), comes, output);
            }
            return false;
        }
        let has_next = node + 1 < self.nodes.how_many();
        let Some(served) = self.served else {
            if is_first {
                steps.send(Wait::Nothing, last_of(node + 1), output);
                return false;
            }
            self.carried = steps.receive(Wait::Nothing, last_of(node - 1), comes);
            if has_next {
                let copied = steps.copy(Wait::Nothing, output, goes);
                let reduced = steps.reduce(Wait::Two(self.carried, copied), comes, goes);
                steps.send(Wait::One(reduced), last_of(node + 1), goes);
            }
            self.served = Some(0);
            return true;
        };
        match members.get(served).filter(|member| **member != last) {
            Some(member) => {
                steps.send(Wait::One(self.carried), *member, comes);
                self.served = Some(served + 1);
                true
            }
            None => {
                steps.reduce(Wait::One(self.carried), comes, output);
                false
            }
        }
    }
}
