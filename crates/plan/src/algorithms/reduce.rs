//! Reductions to a root. Operands that do not commute stay in rank order.

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};
use crate::shape::{binomial, down, up};

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReduceTask {
    pub(crate) me: TeamMember,
    pub(crate) root: u32,
    pub(crate) count: usize,
    pub(crate) commutative: bool,
    /// This rank's contribution, read only unless this is the root's result buffer.
    pub(crate) mine: PlanBuffer,
    pub(crate) result: PlanBuffer,
}

impl ReduceTask {
    pub(super) fn whole(&self, place: PlanBuffer) -> Span {
        place.span(0, self.count)
    }

    pub(super) fn is_root(&self) -> bool {
        self.me.rank == self.root
    }

    pub(super) fn in_place(&self) -> bool {
        self.mine == self.result
    }

    /// The rank at the top of a tree: the root, or rank 0 if operands must stay in rank order.
    pub(super) fn top(&self) -> u32 {
        if self.commutative { self.root } else { 0 }
    }
}

/// The root combines one contribution after another, from the last rank to rank 0: `a0 op (a1 op
/// (... op an))`, which is rank order for any associative operation.
#[derive(Clone, Debug)]
pub(crate) struct LinearReduce {
    task: ReduceTask,
    /// The rank of the operand, counted down from the last.
    operand: u32,
    received: Mark,
    coming: Mark,
    reduced: Mark,
}

impl LinearReduce {
    pub(crate) fn new(task: ReduceTask) -> Self {
        Self { task, operand: 0, received: Mark::NONE, coming: Mark::NONE, reduced: Mark::NONE }
    }

    /// The number of temporaries with the length of the vector: two operands, and the accumulator
    /// if it cannot be the result buffer.
    pub(crate) fn temporaries(&self) -> usize {
        match (self.task.is_root(), self.accumulates_apart()) {
            (false, _) => 0,
            (true, false) => 2,
            (true, true) => 3,
        }
    }

    fn accumulates_apart(&self) -> bool {
        self.task.in_place() && self.task.root != self.task.me.size - 1
    }

    fn accumulator(&self) -> PlanBuffer {
        if self.accumulates_apart() { PlanBuffer::Temporary(2) } else { self.task.result }
    }

    fn place(&self, operand: u32) -> PlanBuffer {
        if self.rank(operand) == self.task.root {
            self.task.mine
        } else if operand == 0 {
            self.accumulator()
        } else {
            PlanBuffer::Temporary((operand % 2) as u8)
        }
    }

    fn rank(&self, operand: u32) -> u32 {
        self.task.me.size - 1 - operand
    }

    fn post_receive(&self, steps: &mut Burst, operand: u32) -> Mark {
        if operand >= self.task.me.size || self.rank(operand) == self.task.root {
            return Mark::NONE;
        }
        // The reduction of the previous operand was the last reader of this temporary.
        let into = self.task.whole(self.place(operand));
        steps.receive(Wait::One(self.reduced), self.rank(operand), into)
    }
}

impl Rounds for LinearReduce {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let task = self.task;
        if !task.is_root() {
            steps.send(Wait::Nothing, task.root, task.whole(task.mine));
            return false;
        }
        let accumulator = task.whole(self.accumulator());
        if self.operand == task.me.size {
            steps.copy(Wait::One(self.reduced), accumulator, task.whole(task.result));
            return false;
        }
        if self.operand == 0 {
            self.received = self.post_receive(steps, 0);
            self.coming = self.post_receive(steps, 1);
            if self.rank(0) == task.root {
                self.received = steps.copy(Wait::Nothing, task.whole(task.mine), accumulator);
            }
            self.reduced = self.received;
        } else {
            self.received = self.coming;
            self.coming = self.post_receive(steps, self.operand + 1);
            let left = task.whole(self.place(self.operand));
            self.reduced = steps.reduce(Wait::Two(self.received, self.reduced), left, accumulator);
        }
        self.operand += 1;
        true
    }
}

/// A binomial tree. Every subtree covers consecutive ranks counted from the top. A rank appends its
/// children's subtrees to its own contribution in order. If the operation is not commutative, the
/// top is rank 0, which sends the result to the root.
#[derive(Clone, Debug)]
pub(crate) struct BinomialReduce {
    task: ReduceTask,
    v: u32,
    child: u32,
    held: PlanBuffer,
    reduced: Mark,
}

impl BinomialReduce {
    pub(crate) fn new(task: ReduceTask) -> Self {
        let v = down(task.me.rank, task.top(), task.me.size);
        Self { task, v, child: 0, held: task.mine, reduced: Mark::NONE }
    }

    pub(crate) fn temporaries(&self) -> usize {
        let children = binomial::children(self.v, self.task.me.size) as usize;
        children.min(if self.ends_here() { 1 } else { 2 })
    }

    /// Whether this rank is both top and root, and may combine in the result buffer.
    fn ends_here(&self) -> bool {
        self.v == 0 && self.task.is_root()
    }

    fn may_write(&self, place: PlanBuffer) -> bool {
        match place {
            PlanBuffer::Temporary(0 | 1) => true,
            place => place == self.task.result && self.ends_here(),
        }
    }

    fn spare(&self) -> PlanBuffer {
        let [first, second] = [0, 1].map(PlanBuffer::Temporary);
        let two = if self.ends_here() { [self.task.result, first] } else { [first, second] };
        self.held.other_of(two)
    }
}

impl Rounds for BinomialReduce {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let task = self.task;
        let size = task.me.size;
        if self.child < binomial::children(self.v, size) {
            let from = up(self.v + (1 << self.child), task.top(), size);
            let spare = self.spare();
            let received = steps.receive(Wait::One(self.reduced), from, task.whole(spare));
            let (left, right) = if task.commutative && self.may_write(self.held) {
                (spare, self.held)
            } else {
                (self.held, spare)
            };
            self.reduced = steps.reduce(Wait::One(received), task.whole(left), task.whole(right));
            self.held = right;
            self.child += 1;
            return true;
        }
        let held = task.whole(self.held);
        if self.ends_here() {
            steps.copy(Wait::One(self.reduced), held, task.whole(task.result));
            return false;
        }
        let to =
            if self.v == 0 { task.root } else { up(binomial::parent(self.v), task.top(), size) };
        let sent = steps.send(Wait::One(self.reduced), to, held);
        if task.is_root() {
            // The contribution may be in the result buffer.
            steps.receive(Wait::Two(sent, self.reduced), task.top(), task.whole(task.result));
        }
        false
    }
}
