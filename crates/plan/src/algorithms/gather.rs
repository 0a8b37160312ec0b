//! Gathers: a block from each rank to the root.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};
use crate::shape::{binomial, down, up};

/// The root receives each block at its position.
#[derive(Clone, Debug)]
pub(crate) struct LinearGather {
    me: TeamMember,
    root: u32,
    own: Span,
    all: Cut,
    peer: u32,
}

impl LinearGather {
    /// `own` is this rank's block; only the root uses `all`, the blocks of all ranks.
    pub(crate) fn new(me: TeamMember, root: u32, own: Span, all: Cut) -> Self {
        Self { me, root, own, all, peer: 0 }
    }
}

impl Rounds for LinearGather {
    fn round(&mut self, steps: &mut Burst) -> bool {
        if self.me.rank != self.root {
            steps.send(Wait::Nothing, self.root, self.own);
            return false;
        }
        if self.peer == self.me.size {
            return false;
        }
        let slot = self.all.block(PlanBuffer::Output, self.peer);
        if self.peer != self.root {
            steps.receive(Wait::Nothing, self.peer, slot);
        } else {
            steps.copy(Wait::Nothing, self.own, slot);
        }
        self.peer += 1;
        true
    }
}

/// The root calls one rank after another. A called rank sends the first segment of its block, then
/// the rest; the root calls the next rank when the first segment has arrived, so few blocks arrive
/// at the same time. For long blocks.
#[derive(Clone, Debug)]
pub(crate) struct LinearSyncGather {
    me: TeamMember,
    root: u32,
    own: Span,
    all: Cut,
    segment: usize,
    peer: u32,
    /// The receive of the first segment of the last called rank.
    head: Mark,
}

impl LinearSyncGather {
    /// As [`LinearGather::new`]; `segment` is the length of the first segment, in units.
    pub(crate) fn new(me: TeamMember, root: u32, own: Span, all: Cut, segment: usize) -> Self {
        Self { me, root, own, all, segment, peer: 0, head: Mark::NONE }
    }

    fn cut(&self, block: Span) -> [Span; 2] {
        let head = block.len.min(self.segment);
        [block.part(0, head), block.part(head, block.len - head)]
    }
}

impl Rounds for LinearSyncGather {
    fn round(&mut self, steps: &mut Burst) -> bool {
        if self.me.rank != self.root {
            let called = steps.await_signal(Wait::Nothing, self.root);
            let [head, rest] = self.cut(self.own);
            steps.send(Wait::One(called), self.root, head);
            steps.send(Wait::Nothing, self.root, rest);
            return false;
        }
        if self.peer == self.me.size {
            return false;
        }
        let slot = self.all.block(PlanBuffer::Output, self.peer);
        if self.peer != self.root {
            let [head, rest] = self.cut(slot);
            let before = std::mem::replace(&mut self.head, Mark::NONE);
            steps.signal(Wait::One(before), self.peer);
            self.head = steps.receive(Wait::Nothing, self.peer, head);
            steps.receive(Wait::Nothing, self.peer, rest);
        } else {
            steps.copy(Wait::Nothing, self.own, slot);
        }
        self.peer += 1;
        true
    }
}

/// A binomial tree: a rank collects its subtree in a temporary and sends it in one message. The
/// root receives each subtree at its position, in two messages if it wraps around the last rank.
#[derive(Clone, Debug)]
pub(crate) struct BinomialGather {
    me: TeamMember,
    root: u32,
    v: u32,
    block: usize,
    in_place: bool,
    child: u32,
    started: bool,
}

impl BinomialGather {
    pub(crate) fn new(me: TeamMember, root: u32, block: usize, in_place: bool) -> Self {
        Self {
            me,
            root,
            v: down(me.rank, root, me.size),
            block,
            in_place,
            child: 0,
            started: false,
        }
    }

    /// In units; 0 for a leaf and for the root.
    pub(crate) fn temporary(&self) -> usize {
        let extent = binomial::extent(self.v, self.me.size);
        if self.v == 0 || extent == 1 { 0 } else { extent as usize * self.block }
    }
}

impl Rounds for BinomialGather {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let children = binomial::children(self.v, size);
        let own = PlanBuffer::Input.span(0, self.block);
        if !self.started {
            self.started = true;
            if self.v == 0 && !self.in_place {
                steps.copy(
                    Wait::Nothing,
                    own,
                    PlanBuffer::Output.span(rank as usize * self.block, self.block),
                );
            } else if self.v != 0 && children > 0 {
                steps.copy(Wait::Nothing, own, PlanBuffer::Temporary(0).span(0, self.block));
            }
        }
        if self.child < children {
            let child = self.v + (1 << self.child);
            let from = up(child, self.root, size);
            let extent = binomial::extent(child, size);
            if self.v == 0 {
                for part in Cut::Even(self.block).wrapped(PlanBuffer::Output, from, extent, size) {
                    steps.receive(Wait::Nothing, from, part);
                }
            } else {
                let offset = (child - self.v) as usize * self.block;
                steps.receive(
                    Wait::Nothing,
                    from,
                    PlanBuffer::Temporary(0).span(offset, extent as usize * self.block),
                );
            }
            self.child += 1;
            return true;
        }
        if self.v == 0 {
            return false;
        }
        let parent = up(binomial::parent(self.v), self.root, size);
        let extent = binomial::extent(self.v, size);
        let collected = if children == 0 {
            own
        } else {
            PlanBuffer::Temporary(0).span(0, extent as usize * self.block)
        };
        if binomial::parent(self.v) == 0 {
            // Split where the blocks wrap around in the root's buffer.
            let [head, tail] =
                Cut::Even(self.block).wrapped(PlanBuffer::Output, rank, extent, size);
            steps.send(Wait::All, parent, collected.part(0, head.len));
            steps.send(Wait::Nothing, parent, collected.part(head.len, tail.len));
        } else {
            steps.send(Wait::All, parent, collected);
        }
        false
    }
}
