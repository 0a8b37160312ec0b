//! Scatters: a block from the root to each rank.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Wait};
use crate::call::TeamMember;
use crate::ir::PlanBuffer;
use crate::shape::{binomial, down, up};

/// The root sends each block from its position.
#[derive(Clone, Debug)]
pub(crate) struct LinearScatter {
    me: TeamMember,
    root: u32,
    source: PlanBuffer,
    mine: usize,
    all: Cut,
    in_place: bool,
    peer: u32,
}

impl LinearScatter {
    /// `source` is the root's buffer; `mine` is the length of this rank's block; only the root uses
    /// `all`, the blocks of all ranks.
    pub(crate) fn new(
        me: TeamMember,
        root: u32,
        source: PlanBuffer,
        mine: usize,
        all: Cut,
        in_place: bool,
    ) -> Self {
        Self { me, root, source, mine, all, in_place, peer: 0 }
    }
}

impl Rounds for LinearScatter {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let own = PlanBuffer::Output.span(0, self.mine);
        if self.me.rank != self.root {
            steps.receive(Wait::Nothing, self.root, own);
            return false;
        }
        if self.peer == self.me.size {
            return false;
        }
        let slot = self.all.block(self.source, self.peer);
        if self.peer != self.root {
            steps.send(Wait::Nothing, self.peer, slot);
        } else if !self.in_place {
            steps.copy(Wait::Nothing, slot, own);
        }
        self.peer += 1;
        true
    }
}

/// A binomial tree: a rank receives the blocks of its subtree in one message and forwards the
/// larger subtrees first. The root sends each subtree from its position, in two messages if it
/// wraps around the last rank.
#[derive(Clone, Debug)]
pub(crate) struct BinomialScatter {
    me: TeamMember,
    root: u32,
    v: u32,
    block: usize,
    in_place: bool,
    left: u32,
    started: bool,
}

impl BinomialScatter {
    pub(crate) fn new(me: TeamMember, root: u32, block: usize, in_place: bool) -> Self {
        let v = down(me.rank, root, me.size);
        let left = binomial::children(v, me.size);
        Self { me, root, v, block, in_place, left, started: false }
    }

    /// In units; 0 for a leaf and for the root.
    pub(crate) fn temporary(&self) -> usize {
        let extent = binomial::extent(self.v, self.me.size);
        if self.v == 0 || extent == 1 { 0 } else { extent as usize * self.block }
    }
}

impl Rounds for BinomialScatter {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let own = PlanBuffer::Output.span(0, self.block);
        if !self.started {
            self.started = true;
            if self.v == 0 {
                return true;
            }
            let parent = up(binomial::parent(self.v), self.root, size);
            let extent = binomial::extent(self.v, size);
            let into = if extent == 1 {
                own
            } else {
                PlanBuffer::Temporary(0).span(0, extent as usize * self.block)
            };
            if binomial::parent(self.v) == 0 {
                // Split where the blocks wrap around in the root's buffer.
                let [head, tail] =
                    Cut::Even(self.block).wrapped(PlanBuffer::Input, rank, extent, size);
                steps.receive(Wait::Nothing, parent, into.part(0, head.len));
                steps.receive(Wait::Nothing, parent, into.part(head.len, tail.len));
            } else {
                steps.receive(Wait::Nothing, parent, into);
            }
            steps.fence(); // all further steps read the blocks
            return true;
        }
        if self.left > 0 {
            self.left -= 1;
            let child = self.v + (1 << self.left);
            let to = up(child, self.root, size);
            let extent = binomial::extent(child, size);
            if self.v == 0 {
                for part in Cut::Even(self.block).wrapped(PlanBuffer::Input, to, extent, size) {
                    steps.send(Wait::Nothing, to, part);
                }
            } else {
                let offset = (child - self.v) as usize * self.block;
                let blocks = PlanBuffer::Temporary(0).span(offset, extent as usize * self.block);
                steps.send(Wait::Nothing, to, blocks);
            }
            return true;
        }
        if self.v == 0 && !self.in_place {
            steps.copy(
                Wait::Nothing,
                PlanBuffer::Input.span(rank as usize * self.block, self.block),
                own,
            );
        } else if self.v != 0 && binomial::extent(self.v, size) > 1 {
            steps.copy(Wait::Nothing, PlanBuffer::Temporary(0).span(0, self.block), own);
        }
        false
    }
}
