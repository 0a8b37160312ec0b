//! Collectives in two levels: within nodes, and among them.
//!
//! Most are put together from algorithms of one level (`table/nodes.rs`). Here is what they lack.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::ir::{Place, Span};
use crate::nodes::Nodes;
use crate::shape::{Segments, down, up};
use crate::trees::InOrder;

/// Blocks of all ranks to the lowest rank of each node: first those of the node, then those of the other nodes travel around
/// a ring of these ranks.
#[derive(Clone, Debug)]
pub(crate) struct Assemble {
    rank: u32,
    nodes: Nodes,
    all: Cut,
    /// Where this rank's block is, if not in the output.
    own: Option<Span>,
    /// Members of the node that were asked, then steps around the ring.
    at: usize,
    /// Rounds of the ring that are over; none before the node's blocks are here.
    round: Option<u32>,
}

impl Assemble {
    pub(crate) fn new(rank: u32, nodes: &Nodes, all: Cut, own: Option<Span>) -> Self {
        Self { rank, nodes: nodes.clone(), all, own, at: 0, round: None }
    }

    /// The blocks of some of a node's ranks that follow one another.
    fn run(&self, node: u32, at: usize) -> Option<Span> {
        let (first, how_many) = *self.nodes.runs(node).get(at)?;
        Some(self.all.span(Place::Output, first, how_many))
    }

    fn collect(&mut self, steps: &mut Burst) -> bool {
        let members = self.nodes.members(self.nodes.of(self.rank));
        let block = self.all.block(Place::Output, self.rank);
        if members[0] != self.rank {
            steps.send(Wait::Nothing, members[0], self.own.unwrap_or(block));
            return false;
        }
        match (members.get(self.at), self.own) {
            (None, _) => self.round = Some(0),
            (Some(member), _) if self.at > 0 => {
                steps.receive(Wait::Nothing, *member, self.all.block(Place::Output, *member));
            }
            (Some(_), Some(own)) => _ = steps.copy(Wait::Nothing, own, block),
            (Some(_), None) => {}
        }
        self.at = if self.round.is_some() { 0 } else { self.at + 1 };
        true
    }
}

impl Rounds for Assemble {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let Some(round) = self.round else { return self.collect(steps) };
        let (node, how_many) = (self.nodes.of(self.rank), self.nodes.how_many());
        if round + 1 >= how_many {
            return false;
        }
        let leader = |node: u32| self.nodes.leaders()[node as usize];
        let (give, take) = (down(node, round, how_many), down(node, round + 1, how_many));
        if self.at == 0 {
            // What is given came in the round before.
            steps.fence();
        }
        let (mine, theirs) = (self.run(give, self.at), self.run(take, self.at));
        // A receive goes before each send: with any window, somebody's send meets its receive.
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

/// A broadcast in segments along chains: the ranks that act for their nodes pass each segment to the next of them, and within
/// their nodes to the next rank, which does so too. The next segment is already awaited.
#[derive(Clone, Debug)]
pub(crate) struct Relay {
    parent: Option<u32>,
    /// In the next node, and in the own one.
    children: [Option<u32>; 2],
    segments: Segments,
    segment: usize,
    coming: Mark,
}

impl Relay {
    /// `here` has the next node on the left, the next rank of the own one on the right.
    pub(crate) fn new(here: InOrder, count: usize, segment: usize) -> Self {
        let segments = Segments::new(count, segment);
        let children = [here.left, here.right];
        Self { parent: here.parent, children, segments, segment: 0, coming: Mark::NONE }
    }

    fn receive(&self, steps: &mut Burst, segment: usize) -> Mark {
        match self.parent.filter(|_| segment < self.segments.how_many()) {
            Some(parent) => steps.receive(Wait::Nothing, parent, self.segments.span(Place::Output, segment)),
            None => Mark::NONE,
        }
    }
}

impl Rounds for Relay {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let at = self.segment;
        if at >= self.segments.how_many() {
            return false;
        }
        let here = if at == 0 { self.receive(steps, 0) } else { self.coming };
        self.coming = self.receive(steps, at + 1);
        for child in self.children.into_iter().flatten() {
            steps.send(Wait::One(here), child, self.segments.span(Place::Output, at));
        }
        self.segment += 1;
        true
    }
}

/// After a scan within each node, what the nodes before have contributed is put on the left of it. It travels along the last
/// ranks of the nodes, which tell it to the others of theirs. The ranks of each node follow one another.
#[derive(Clone, Debug)]
pub(crate) struct Carry {
    rank: u32,
    nodes: Nodes,
    count: usize,
    /// Members of the node that were told; none before the carry has come.
    told: Option<usize>,
    carried: Mark,
}

impl Carry {
    /// The temporaries for what comes, and what goes on: they are as long as the vector.
    pub(crate) const COMES: u8 = 0;
    const GOES: u8 = 1;

    pub(crate) fn new(rank: u32, nodes: &Nodes, count: usize) -> Self {
        Self { rank, nodes: nodes.clone(), count, told: None, carried: Mark::NONE }
    }
}

impl Rounds for Carry {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let whole = |place: Place| place.span(0, self.count);
        let output = whole(Place::Output);
        let (comes, goes) = (whole(Place::Temporary(Self::COMES)), whole(Place::Temporary(Self::GOES)));
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
        let Some(told) = self.told else {
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
            self.told = Some(0);
            return true;
        };
        match members.get(told).filter(|member| **member != last) {
            Some(member) => {
                steps.send(Wait::One(self.carried), *member, comes);
                self.told = Some(told + 1);
                true
            }
            None => {
                steps.reduce(Wait::One(self.carried), comes, output);
                false
            }
        }
    }
}
