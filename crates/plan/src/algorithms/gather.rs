//! Gathers: a block from each rank to the root.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Wait};
use crate::call::Member;
use crate::ir::Place;
use crate::shape::{binomial, down, up};

/// The root receives each block where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    me: Member,
    root: u32,
    mine: usize,
    all: Cut,
    in_place: bool,
    peer: u32,
}

impl Linear {
    /// `mine` is the length of this rank's block, `all` are those of all: only the root looks at them.
    pub(crate) fn new(me: Member, root: u32, mine: usize, all: Cut, in_place: bool) -> Self {
        Self { me, root, mine, all, in_place, peer: 0 }
    }
}

impl Rounds for Linear {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let own = Place::Input.span(0, self.mine);
        if self.me.rank != self.root {
            steps.send(Wait::Nothing, self.root, own);
            return false;
        }
        if self.peer == self.me.size {
            return false;
        }
        let slot = self.all.block(Place::Output, self.peer);
        if self.peer != self.root {
            steps.receive(Wait::Nothing, self.peer, slot);
        } else if !self.in_place {
            steps.copy(Wait::Nothing, own, slot);
        }
        self.peer += 1;
        true
    }
}

/// A binomial tree: a rank collects its subtree in a temporary and sends it on in one message. The root receives
/// each subtree where it belongs, in two messages if that wraps around the last rank.
#[derive(Clone, Debug)]
pub(crate) struct Binomial {
    me: Member,
    root: u32,
    v: u32,
    block: usize,
    in_place: bool,
    child: u32,
    started: bool,
}

impl Binomial {
    pub(crate) fn new(me: Member, root: u32, block: usize, in_place: bool) -> Self {
        Self { me, root, v: down(me.rank, root, me.size), block, in_place, child: 0, started: false }
    }

    /// Units of the temporary: none for a leaf and the root.
    pub(crate) fn temporary(&self) -> usize {
        let extent = binomial::extent(self.v, self.me.size);
        if self.v == 0 || extent == 1 { 0 } else { extent as usize * self.block }
    }
}

impl Rounds for Binomial {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let Member { rank, size } = self.me;
        let children = binomial::children(self.v, size);
        let own = Place::Input.span(0, self.block);
        if !self.started {
            self.started = true;
            if self.v == 0 && !self.in_place {
                steps.copy(Wait::Nothing, own, Place::Output.span(rank as usize * self.block, self.block));
            } else if self.v != 0 && children > 0 {
                steps.copy(Wait::Nothing, own, Place::Temporary(0).span(0, self.block));
            }
        }
        if self.child < children {
            let child = self.v + (1 << self.child);
            let from = up(child, self.root, size);
            let extent = binomial::extent(child, size);
            if self.v == 0 {
                for part in Cut::Even(self.block).wrapped(Place::Output, from, extent, size) {
                    steps.receive(Wait::Nothing, from, part);
                }
            } else {
                let offset = (child - self.v) as usize * self.block;
                steps.receive(
                    Wait::Nothing,
                    from,
                    Place::Temporary(0).span(offset, extent as usize * self.block),
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
        let collected =
            if children == 0 { own } else { Place::Temporary(0).span(0, extent as usize * self.block) };
        if binomial::parent(self.v) == 0 {
            // Cut where the root cuts.
            let [head, tail] = Cut::Even(self.block).wrapped(Place::Output, rank, extent, size);
            steps.send(Wait::All, parent, collected.part(0, head.len));
            steps.send(Wait::Nothing, parent, collected.part(head.len, tail.len));
        } else {
            steps.send(Wait::All, parent, collected);
        }
        false
    }
}
