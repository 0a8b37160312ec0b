//! Reductions up a tree, in segments.

use super::Rounds;
use super::reduce::ReduceTask;
use crate::burst::{Burst, Mark, Wait};
use crate::ir::{PlanBuffer, Span};
use crate::shape::{Segments, down, up};
use crate::trees::{self, InOrder};

#[derive(Clone, Copy, Debug)]
enum ReduceTreeShape {
    /// Over ranks counted from the top: the root or, for an operation that is not commutative, rank
    /// 0, which sends each segment of the result to the root.
    Counted { tree: trees::Tree, v: u32 },
    /// Over ranks in their order, with the root at the top.
    InOrder(InOrder),
}

/// The slots of a rank's temporary that are in use at once, for a receive, a reduction and a send.
const SLOTS: usize = 3;

/// A rank combines its contribution with the operands of its children one by one, on the side of
/// their ranks, and sends the result to its parent, while the receive of the next operand is
/// posted. An operand is received into a slot; the previous combination is its left operand.
#[derive(Clone, Debug)]
pub(crate) struct ReduceTree {
    task: ReduceTask,
    shape: ReduceTreeShape,
    segments: Segments,
    segment: usize,
    operand: u32,
    coming: Mark,
    /// The step after which the combination so far is complete.
    ready: Mark,
    /// The last step that uses each slot.
    released: [Mark; SLOTS],
}

impl ReduceTree {
    /// Up a tree that keeps rank order, or any tree if the operation is commutative.
    pub(crate) fn new(task: ReduceTask, tree: trees::Tree, segment: usize) -> Self {
        debug_assert!(task.commutative || tree.keeps_order(), "{tree:?} mixes ranks");
        let v = down(task.me.rank, task.top(), task.me.size);
        Self::of(task, ReduceTreeShape::Counted { tree, v }, segment)
    }

    pub(crate) fn in_order(task: ReduceTask, segment: usize) -> Self {
        let here = InOrder::new(task.me.rank, task.root, task.me.size);
        Self::of(task, ReduceTreeShape::InOrder(here), segment)
    }

    /// Up the tree in which `here` is this rank's node. The operation is commutative, and the root
    /// is at the top.
    pub(crate) fn given(task: ReduceTask, here: InOrder, segment: usize) -> Self {
        Self::of(task, ReduceTreeShape::InOrder(here), segment)
    }

    fn of(task: ReduceTask, shape: ReduceTreeShape, segment: usize) -> Self {
        let segments = Segments::new(task.count, segment);
        let none = Mark::NONE;
        let released = [none; SLOTS];
        Self { task, shape, segments, segment: 0, operand: 0, coming: none, ready: none, released }
    }

    pub(crate) fn temporary(&self) -> usize {
        let operands = (self.operands() as usize).saturating_mul(self.segments.how_many());
        self.segments.longest() * operands.min(SLOTS)
    }

    fn parent(&self) -> Option<u32> {
        let ReduceTask { me, root, .. } = self.task;
        match self.shape {
            ReduceTreeShape::Counted { v: 0, .. } => (me.rank != root).then_some(root),
            ReduceTreeShape::Counted { tree, v } => {
                Some(up(tree.parent(v, me.size), self.task.top(), me.size))
            }
            ReduceTreeShape::InOrder(here) => here.parent,
        }
    }

    fn is_sent_the_result(&self) -> bool {
        self.task.is_root() && self.parent().is_some()
    }

    /// Whether the root may combine in the result buffer, which holds its contribution.
    fn accumulates(&self) -> bool {
        self.task.in_place() && self.task.commutative && self.parent().is_none()
    }

    /// The operands of one segment that need a slot: those of the children, and this rank's own if
    /// it has a left child and the order matters.
    fn operands(&self) -> u32 {
        match self.shape {
            ReduceTreeShape::Counted { tree, v } => tree.children(v, self.task.me.size),
            ReduceTreeShape::InOrder(here) => {
                let children = u32::from(here.left.is_some()) + u32::from(here.right.is_some());
                children + u32::from(self.copies())
            }
        }
    }

    /// Whether this rank's contribution is copied to a slot, because it is not the leftmost
    /// operand.
    fn copies(&self) -> bool {
        !self.accumulates()
            && matches!(self.shape, ReduceTreeShape::InOrder(InOrder { left: Some(_), .. }))
    }

    /// The sender of an operand; `None`: this rank.
    fn sender(&self, operand: u32) -> Option<u32> {
        match self.shape {
            ReduceTreeShape::Counted { tree, v } => {
                let size = self.task.me.size;
                Some(up(tree.child(v, operand, size), self.task.top(), size))
            }
            ReduceTreeShape::InOrder(here) => match (operand, here.left) {
                (0, Some(left)) => Some(left),
                (1, Some(_)) if self.copies() => None,
                _ => here.right,
            },
        }
    }

    fn slot_of(&self, segment: usize, operand: u32) -> usize {
        (segment % SLOTS * self.operands() as usize + operand as usize) % SLOTS
    }

    fn place(&self, segment: usize, operand: u32) -> Span {
        let there = self.segments.span(self.task.result, segment);
        if operand + 1 == self.operands() && self.parent().is_none() && !self.task.in_place() {
            there
        } else {
            let start = self.slot_of(segment, operand) * self.segments.longest();
            PlanBuffer::Temporary(0).span(start, there.len)
        }
    }

    fn post_operand(&self, steps: &mut Burst, segment: usize, operand: u32) -> Mark {
        if segment >= self.segments.how_many() {
            return Mark::NONE;
        }
        let wait = Wait::One(self.released[self.slot_of(segment, operand)]);
        let into = self.place(segment, operand);
        match self.sender(operand) {
            Some(from) => steps.receive(wait, from, into),
            None => steps.copy(wait, self.segments.span(self.task.mine, segment), into),
        }
    }

    fn leaf(&mut self, steps: &mut Burst) -> bool {
        let (mine, result) = self.pair();
        match self.parent() {
            Some(parent) => {
                let sent = steps.send(Wait::Nothing, parent, mine);
                self.finish(steps, sent, result);
            }
            None => {
                steps.copy(Wait::Nothing, mine, result);
            }
        }
        self.segment += 1;
        true
    }

    fn pair(&self) -> (Span, Span) {
        let segment = |place| self.segments.span(place, self.segment);
        (segment(self.task.mine), segment(self.task.result))
    }

    /// At a root that is not the top: receives a segment of the result after the last use of the
    /// root's contribution, which may be in the same buffer.
    fn finish(&self, steps: &mut Burst, used: Mark, result: Span) {
        if self.is_sent_the_result() {
            let wait = if self.task.in_place() { Wait::One(used) } else { Wait::Nothing };
            steps.receive(wait, self.task.top(), result);
        }
    }
}

impl Rounds for ReduceTree {
    fn round(&mut self, steps: &mut Burst) -> bool {
        if self.segment >= self.segments.how_many() {
            return false;
        }
        let operands = self.operands();
        if operands == 0 {
            return self.leaf(steps);
        }
        let (segment, operand) = (self.segment, self.operand);
        let last = operand + 1 == operands;
        let received =
            if (segment, operand) == (0, 0) { self.post_operand(steps, 0, 0) } else { self.coming };
        self.coming = if last {
            self.post_operand(steps, segment + 1, 0)
        } else {
            self.post_operand(steps, segment, operand + 1)
        };
        let (slot, here) = (self.slot_of(segment, operand), self.place(segment, operand));
        let (mine, result) = self.pair();
        if self.accumulates() {
            let before = if operand == 0 { Mark::NONE } else { self.ready };
            self.ready = steps.reduce(Wait::Two(received, before), here, result);
            self.released[slot] = self.ready;
        } else if operand > 0 {
            let before = self.place(segment, operand - 1);
            self.ready = steps.reduce(Wait::Two(received, self.ready), before, here);
            self.released[self.slot_of(segment, operand - 1)] = self.ready;
        } else if self.copies() {
            self.ready = received;
        } else {
            self.ready = steps.reduce(Wait::One(received), mine, here);
        }
        if !last {
            self.operand += 1;
            return true;
        }
        if let Some(parent) = self.parent() {
            self.released[slot] = steps.send(Wait::One(self.ready), parent, here);
            self.finish(steps, self.ready, result);
        } else if !self.accumulates() && here != result {
            self.released[slot] = steps.copy(Wait::One(self.ready), here, result);
        }
        (self.segment, self.operand) = (segment + 1, 0);
        true
    }
}
