//! A broadcast in two halves (Pjesivac-Grbovic et al., "Performance analysis of MPI collective
//! operations").

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};
use crate::shape::{Segments, down, up};
use crate::trees::Tree;

/// All ranks but the root form two binary trees. The root sends the first half of the buffer down
/// the first tree and the second half down the other, in segments. Then each rank swaps halves with
/// the rank at the same position of the other tree. If the first tree has one rank more, its last
/// rank gets the second half from the root.
#[derive(Clone, Debug)]
pub(crate) struct SplitBinary {
    me: TeamMember,
    root: u32,
    middle: usize,
    bytes: usize,
    segment: usize,
    at: usize,
    child: u32,
    here: Mark,
    coming: Mark,
}

#[derive(Clone, Copy, Debug)]
struct TreePosition {
    /// Whether the rank is in the second tree.
    second: bool,
    index: u32,
}

impl SplitBinary {
    /// `segment` is the length of a segment; 0: one segment.
    pub(crate) fn new(me: TeamMember, root: u32, bytes: usize, segment: usize) -> Self {
        let none = Mark::NONE;
        let middle = bytes.div_ceil(2);
        Self { me, root, middle, bytes, segment, at: 0, child: 0, here: none, coming: none }
    }

    fn members(&self, second: bool) -> u32 {
        let others = self.me.size - 1;
        if second { others / 2 } else { others.div_ceil(2) }
    }

    fn position(&self) -> Option<TreePosition> {
        let v = down(self.me.rank, self.root, self.me.size).checked_sub(1)?;
        let first = self.members(false);
        Some(if v < first {
            TreePosition { second: false, index: v }
        } else {
            TreePosition { second: true, index: v - first }
        })
    }

    fn rank(&self, position: TreePosition) -> u32 {
        let v = if position.second { self.members(false) + position.index } else { position.index };
        up(v + 1, self.root, self.me.size)
    }

    fn half(&self, second: bool) -> Span {
        let whole = PlanBuffer::Output.span(0, self.bytes);
        if second {
            whole.part(self.middle, self.bytes - self.middle)
        } else {
            whole.part(0, self.middle)
        }
    }

    fn segment(&self, second: bool, index: usize) -> Option<Span> {
        let half = self.half(second);
        let segments = Segments::new(half.len, self.segment);
        (index < segments.how_many()).then(|| {
            let there = segments.span(PlanBuffer::Output, index);
            half.part(there.start, there.len)
        })
    }

    fn serve(&mut self, steps: &mut Burst) -> bool {
        let halves = [false, true].map(|second| (second, self.segment(second, self.at)));
        if halves[0].1.is_none() {
            // The last rank of the longer tree has no partner.
            let unpaired = self.members(false) > self.members(true);
            if unpaired {
                let last = TreePosition { second: false, index: self.members(false) - 1 };
                steps.send(Wait::Nothing, self.rank(last), self.half(true));
            }
            return false;
        }
        for (second, segment) in halves {
            if let Some(segment) = segment
                && self.members(second) > 0
            {
                steps.send(Wait::Nothing, self.rank(TreePosition { second, index: 0 }), segment);
            }
        }
        self.at += 1;
        true
    }

    fn post_receive(&self, steps: &mut Burst, position: TreePosition, index: usize) -> Mark {
        let from = match position.index {
            0 => self.root,
            index => {
                let members = self.members(position.second);
                self.rank(TreePosition { index: Tree::Binary.parent(index, members), ..position })
            }
        };
        self.segment(position.second, index)
            .map_or(Mark::NONE, |segment| steps.receive(Wait::Nothing, from, segment))
    }
}

impl Rounds for SplitBinary {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let Some(position) = self.position() else { return self.serve(steps) };
        let members = self.members(position.second);
        let Some(segment) = self.segment(position.second, self.at) else {
            let (mine, other) = (self.half(position.second), self.half(!position.second));
            steps.fence();
            if position.index < self.members(!position.second) {
                let peer = self.rank(TreePosition { second: !position.second, ..position });
                steps.receive(Wait::Nothing, peer, other);
                steps.send(Wait::Nothing, peer, mine);
            } else {
                steps.receive(Wait::Nothing, self.root, other);
            }
            return false;
        };
        if self.child == 0 {
            self.here =
                if self.at == 0 { self.post_receive(steps, position, 0) } else { self.coming };
            self.coming = self.post_receive(steps, position, self.at + 1);
        }
        if self.child < Tree::Binary.children(position.index, members) {
            let index = Tree::Binary.child(position.index, self.child, members);
            steps.send(
                Wait::One(self.here),
                self.rank(TreePosition { index, ..position }),
                segment,
            );
            self.child += 1;
        } else {
            (self.at, self.child) = (self.at + 1, 0);
        }
        true
    }
}
