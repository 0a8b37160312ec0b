//! Broadcasts: down a tree, in segments, or by scattering and gathering parts.

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::PlanBuffer;
use crate::shape::{Segments, VectorParts, binomial, down, up};
use crate::trees;

/// Forwards each segment on arrival, while the receive of the next one is posted.
#[derive(Clone, Debug)]
pub(crate) struct BcastTree {
    shape: trees::Tree,
    me: TeamMember,
    root: u32,
    v: u32,
    segments: Segments,
    segment: usize,
    child: u32,
    here: Mark,
    coming: Mark,
}

impl BcastTree {
    pub(crate) fn new(
        me: TeamMember,
        root: u32,
        bytes: usize,
        segment: usize,
        shape: trees::Tree,
    ) -> Self {
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
        let parent = up(self.shape.parent(self.v, self.me.size), self.root, self.me.size);
        steps.receive(Wait::Nothing, parent, self.segments.span(PlanBuffer::Output, segment))
    }
}

impl Rounds for BcastTree {
    fn round(&mut self, steps: &mut Burst) -> bool {
        if self.segment >= self.segments.how_many() {
            return false;
        }
        if self.child == 0 {
            self.here = if self.segment == 0 { self.receive(steps, 0) } else { self.coming };
            self.coming = self.receive(steps, self.segment + 1);
        }
        let children = self.shape.children(self.v, self.me.size);
        if self.child < children {
            let number =
                if self.shape.last_first() { children - 1 - self.child } else { self.child };
            let child = up(self.shape.child(self.v, number, self.me.size), self.root, self.me.size);
            steps.send(
                Wait::One(self.here),
                child,
                self.segments.span(PlanBuffer::Output, self.segment),
            );
            self.child += 1;
        } else {
            (self.segment, self.child) = (self.segment + 1, 0);
        }
        true
    }
}

/// Each rank gets the parts of its subtree of a binomial tree. Part `v` belongs to the rank `v`
/// above the root.
#[derive(Clone, Debug)]
pub(crate) struct BcastScatter {
    me: TeamMember,
    root: u32,
    v: u32,
    parts: VectorParts,
    /// Children without their parts; `None` before this rank has its parts.
    left: Option<u32>,
}

impl BcastScatter {
    pub(crate) fn new(me: TeamMember, root: u32, bytes: usize) -> Self {
        let parts = VectorParts { count: bytes, parts: me.size };
        Self { me, root, v: down(me.rank, root, me.size), parts, left: None }
    }
}

impl Rounds for BcastScatter {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (v, size) = (self.v, self.me.size);
        let rank = |v: u32| up(v, self.root, size);
        let subtree = |v: u32| self.parts.span(PlanBuffer::Output, v, binomial::extent(v, size));
        let left = match self.left {
            None => {
                if v != 0 {
                    steps.receive(Wait::Nothing, rank(binomial::parent(v)), subtree(v));
                    steps.fence();
                }
                binomial::children(v, size)
            }
            Some(0) => return false,
            Some(left) => {
                let child = v + (1 << (left - 1));
                steps.send(Wait::Nothing, rank(child), subtree(child));
                left - 1
            }
        };
        self.left = Some(left);
        true
    }
}

/// After a [`BcastScatter`] the parts pass around a ring (Barnett et al., "Interprocessor
/// collective communication library"). For long buffers: a rank sends about twice the buffer, for
/// any number of ranks.
#[derive(Clone, Debug)]
pub(crate) struct BcastRing {
    me: TeamMember,
    root: u32,
    v: u32,
    parts: VectorParts,
    round: u32,
}

impl BcastRing {
    pub(crate) fn new(me: TeamMember, root: u32, bytes: usize) -> Self {
        let parts = VectorParts { count: bytes, parts: me.size };
        Self { me, root, v: down(me.rank, root, me.size), parts, round: 1 }
    }
}

impl Rounds for BcastRing {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (v, size, round) = (self.v, self.me.size, self.round);
        if round >= size {
            return false;
        }
        let rank = |v: u32| up(v, self.root, size);
        let part = |v: u32| self.parts.span(PlanBuffer::Output, v, 1);
        let (give, take) = (down(v, round - 1, size), down(v, round, size));
        steps.fence();
        // The scatter has given the rank the parts of its subtree, so its neighbour does not send
        // them.
        if take < v || take >= v + binomial::extent(v, size) {
            steps.receive(Wait::Nothing, rank(down(v, 1, size)), part(take));
        }
        let above = up(v, 1, size);
        if give < above || give >= above + binomial::extent(above, size) {
            steps.send(Wait::Nothing, rank(above), part(give));
        }
        self.round += 1;
        true
    }
}
