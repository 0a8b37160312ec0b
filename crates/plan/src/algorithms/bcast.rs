//! Broadcasts: down a tree, in segments, or by parts that are scattered and gathered again.

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::Member;
use crate::ir::Place;
use crate::shape::{Parts, Segments, binomial, down, up};

/// The tree, over ranks counted from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The root sends to all.
    Flat,
    /// Each rank sends to the next.
    Chain,
    /// `v` sends to `2v + 1` and `2v + 2`.
    Binary,
    /// `v` sends to `v + 2^k`, the largest subtree first.
    Binomial,
}

impl Shape {
    fn parent(self, v: u32) -> u32 {
        match self {
            Self::Flat => 0,
            Self::Chain => v - 1,
            Self::Binary => (v - 1) / 2,
            Self::Binomial => binomial::parent(v),
        }
    }

    fn children(self, v: u32, size: u32) -> u32 {
        match self {
            Self::Flat => {
                if v == 0 {
                    size - 1
                } else {
                    0
                }
            }
            Self::Chain => u32::from(v + 1 < size),
            Self::Binary => (size - 1).saturating_sub(v.saturating_mul(2)).min(2),
            Self::Binomial => binomial::children(v, size),
        }
    }

    fn child(self, v: u32, number: u32, size: u32) -> u32 {
        match self {
            Self::Flat | Self::Chain => v + 1 + number,
            Self::Binary => 2 * v + 1 + number,
            Self::Binomial => v + (1 << (binomial::children(v, size) - 1 - number)),
        }
    }
}

/// A broadcast: each segment is passed on when it has come, while the next one is already awaited.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    shape: Shape,
    me: Member,
    root: u32,
    v: u32,
    segments: Segments,
    segment: usize,
    child: u32,
    here: Mark,
    coming: Mark,
}

impl Tree {
    pub(crate) fn new(me: Member, root: u32, bytes: usize, segment: usize, shape: Shape) -> Self {
        Self {
            shape,
            me,
            root,
            v: down(me.rank, root, me.size),
            segments: Segments::new(bytes, segment),
            segment: 0,
            child: 0,
            here: Mark::NONE,
            coming: Mark::NONE,
        }
    }

    fn receive(&self, steps: &mut Burst, segment: usize) -> Mark {
        if self.v == 0 || segment >= self.segments.how_many() {
            return Mark::NONE;
        }
        let parent = up(self.shape.parent(self.v), self.root, self.me.size);
        steps.receive(Wait::Nothing, parent, self.segments.span(Place::Output, segment))
    }
}

impl Rounds for Tree {
    fn round(&mut self, steps: &mut Burst) -> bool {
        if self.segment >= self.segments.how_many() {
            return false;
        }
        if self.child == 0 {
            self.here = if self.segment == 0 { self.receive(steps, 0) } else { self.coming };
            self.coming = self.receive(steps, self.segment + 1);
        }
        if self.child < self.shape.children(self.v, self.me.size) {
            let child = up(self.shape.child(self.v, self.child, self.me.size), self.root, self.me.size);
            steps.send(Wait::One(self.here), child, self.segments.span(Place::Output, self.segment));
            self.child += 1;
        } else {
            (self.segment, self.child) = (self.segment + 1, 0);
        }
        true
    }
}

/// Each rank gets a part of the buffer down a binomial tree, then the parts travel around a ring (Barnett et al.,
/// "Interprocessor collective communication library"): a rank sends at most about twice the buffer, however many
/// ranks there are. For long buffers.
#[derive(Clone, Debug)]
pub(crate) struct ScatterRing {
    me: Member,
    root: u32,
    v: u32,
    /// Part `v` is that of the rank `v` above the root.
    parts: Parts,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Receive,
    /// Children still to be served.
    Pass {
        left: u32,
    },
    Ring {
        round: u32,
    },
}

impl ScatterRing {
    pub(crate) fn new(me: Member, root: u32, bytes: usize) -> Self {
        let parts = Parts { count: bytes, parts: me.size };
        Self { me, root, v: down(me.rank, root, me.size), parts, stage: Stage::Receive }
    }
}

impl Rounds for ScatterRing {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (v, size) = (self.v, self.me.size);
        let rank = |v: u32| up(v, self.root, size);
        let subtree = |v: u32| self.parts.span(Place::Output, v, binomial::extent(v, size));
        let part = |v: u32| self.parts.span(Place::Output, v, 1);
        self.stage = match self.stage {
            Stage::Receive => {
                if v != 0 {
                    steps.receive(Wait::Nothing, rank(binomial::parent(v)), subtree(v));
                    steps.fence();
                }
                Stage::Pass { left: binomial::children(v, size) }
            }
            Stage::Pass { left: 0 } => Stage::Ring { round: 1 },
            Stage::Pass { left } => {
                let child = v + (1 << (left - 1));
                steps.send(Wait::Nothing, rank(child), subtree(child));
                Stage::Pass { left: left - 1 }
            }
            Stage::Ring { round } if round >= size => return false,
            Stage::Ring { round } => {
                let (give, take) = (down(v, round - 1, size), down(v, round, size));
                steps.fence();
                // What the tree has brought already need not come again: a rank has the parts of its subtree, and
                // its neighbour below knows that.
                if take < v || take >= v + binomial::extent(v, size) {
                    steps.receive(Wait::Nothing, rank(down(v, 1, size)), part(take));
                }
                let above = up(v, 1, size);
                if give < above || give >= above + binomial::extent(above, size) {
                    steps.send(Wait::Nothing, rank(above), part(give));
                }
                Stage::Ring { round: round + 1 }
            }
        };
        true
    }
}
