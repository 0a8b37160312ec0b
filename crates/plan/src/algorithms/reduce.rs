//! Reductions to a root. The operand order is rank order wherever the operation is not commutative.

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::Member;
use crate::ir::{Place, Span};
use crate::shape::{binomial, down, up};

/// What a reduction is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// Whose plan it is.
    pub(crate) me: Member,
    /// Who gets the result.
    pub(crate) root: u32,
    /// Elements of the vector.
    pub(crate) count: usize,
    /// Whether the ranks may be combined in another order than theirs.
    pub(crate) commutative: bool,
    /// Where this rank's contribution is: read only, except at the root if it is the place of the result.
    pub(crate) mine: Place,
    /// Where the root wants the result.
    pub(crate) result: Place,
}

impl Task {
    pub(super) fn whole(&self, place: Place) -> Span {
        place.span(0, self.count)
    }

    pub(super) fn is_root(&self) -> bool {
        self.me.rank == self.root
    }

    pub(super) fn in_place(&self) -> bool {
        self.mine == self.result
    }

    /// The rank at the top of a tree: the root, or rank 0 if ranks must stay in order.
    pub(super) fn top(&self) -> u32 {
        if self.commutative { self.root } else { 0 }
    }
}

/// The root combines one contribution after the other, from the last rank down to rank 0:
/// `a0 op (a1 op (... op an))`, which is rank order for any associative operation.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    task: Task,
    /// The operand number, which is `rank` counted down from the last.
    operand: u32,
    /// The operand that has been asked for.
    received: Mark,
    coming: Mark,
    reduced: Mark,
}

impl Linear {
    pub(crate) fn new(task: Task) -> Self {
        Self { task, operand: 0, received: Mark::NONE, coming: Mark::NONE, reduced: Mark::NONE }
    }

    /// Temporaries of this rank, each as long as the vector: two operands, and the accumulator if it cannot be in
    /// the place of the result from the start.
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

    fn accumulator(&self) -> Place {
        if self.accumulates_apart() { Place::Temporary(2) } else { self.task.result }
    }

    /// Where an operand is when it is combined.
    fn place(&self, operand: u32) -> Place {
        if self.rank(operand) == self.task.root {
            self.task.mine
        } else if operand == 0 {
            self.accumulator()
        } else {
            Place::Temporary((operand % 2) as u8)
        }
    }

    fn rank(&self, operand: u32) -> u32 {
        self.task.me.size - 1 - operand
    }

    /// Asks for an operand, if there is such a one and it is elsewhere.
    fn ask(&self, steps: &mut Burst, operand: u32) -> Mark {
        if operand >= self.task.me.size || self.rank(operand) == self.task.root {
            return Mark::NONE;
        }
        // Its temporary was last used by the operand before the one that is combined now.
        let into = self.task.whole(self.place(operand));
        steps.receive(Wait::One(self.reduced), self.rank(operand), into)
    }
}

impl Rounds for Linear {
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
            self.received = self.ask(steps, 0);
            self.coming = self.ask(steps, 1);
            if self.rank(0) == task.root {
                self.received = steps.copy(Wait::Nothing, task.whole(task.mine), accumulator);
            }
            self.reduced = self.received;
        } else {
            self.received = self.coming;
            self.coming = self.ask(steps, self.operand + 1);
            let left = task.whole(self.place(self.operand));
            self.reduced = steps.reduce(Wait::Two(self.received, self.reduced), left, accumulator);
        }
        self.operand += 1;
        true
    }
}

/// A binomial tree. Every subtree is a contiguous range of ranks counted from the top, and a rank appends its
/// children's ranges to its own in order. If the operation is not commutative the top is rank 0, which sends the
/// result to the root.
#[derive(Clone, Debug)]
pub(crate) struct Binomial {
    task: Task,
    v: u32,
    child: u32,
    /// Where the combination so far is.
    held: Place,
    reduced: Mark,
}

impl Binomial {
    pub(crate) fn new(task: Task) -> Self {
        let v = down(task.me.rank, task.top(), task.me.size);
        Self { task, v, child: 0, held: task.mine, reduced: Mark::NONE }
    }

    /// Temporaries of this rank, each as long as the vector.
    pub(crate) fn temporaries(&self) -> usize {
        let children = binomial::children(self.v, self.task.me.size) as usize;
        children.min(if self.ends_here() { 1 } else { 2 })
    }

    /// Whether this rank is the top and the root too, so that it may combine in the place of the result.
    fn ends_here(&self) -> bool {
        self.v == 0 && self.task.is_root()
    }

    fn may_write(&self, place: Place) -> bool {
        match place {
            Place::Temporary(0 | 1) => true,
            place => place == self.task.result && self.ends_here(),
        }
    }

    /// A buffer other than the one that holds the combination.
    fn spare(&self) -> Place {
        let [first, second] = if self.ends_here() {
            [self.task.result, Place::Temporary(0)]
        } else {
            [Place::Temporary(0), Place::Temporary(1)]
        };
        if self.held == first { second } else { first }
    }
}

impl Rounds for Binomial {
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
        let to = if self.v == 0 { task.root } else { up(binomial::parent(self.v), task.top(), size) };
        let sent = steps.send(Wait::One(self.reduced), to, held);
        if task.is_root() {
            // The contribution may be where the result goes.
            steps.receive(Wait::Two(sent, self.reduced), task.top(), task.whole(task.result));
        }
        false
    }
}
