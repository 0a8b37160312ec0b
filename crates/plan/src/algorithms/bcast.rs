//! Broadcasts down a tree, in segments.

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::Member;
use crate::ir::Place;
use crate::shape::{Segments, binomial, down, up};

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
