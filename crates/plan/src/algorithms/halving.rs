//! Recursive halving: partners exchange halves of what they still have to combine, until each has the result of a part.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::ir::{Place, Span};
use crate::shape::{Fold, Role, up};

/// In which order partners meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The farthest first: the rank with number `i` ends with part `i`. For commutative operations.
    FarFirst,
    /// The nearest first, so that what is combined is always a range of ranks: the rank with number `i` ends with the
    /// part whose number has the bits of `i` in reverse order (Traff, "An improved algorithm for (non-commutative)
    /// reduce-scatter with an application").
    NearFirst,
}

/// Where the results of the parts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Each rank gets its block.
    Scatter,
    /// The root gets all, up a binomial tree. Only after [`Order::FarFirst`].
    Gather,
}

/// What a recursive halving is about.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// How many ranks, and which of them this is, counted from `first`.
    pub(crate) rank: u32,
    /// How many ranks there are.
    pub(crate) size: u32,
    /// Rank 0 of the count is that rank of the team.
    pub(crate) first: u32,
    /// The parts of the vector: a block for each rank to scatter, a part for each active rank ([`Fold`]) to gather.
    pub(crate) cut: Cut,
    /// Whether ranks may be combined in another order than theirs.
    pub(crate) commutative: bool,
    /// Where this rank's contribution is.
    pub(crate) mine: Place,
}

/// Folds the team to a power of two, halves, and brings the results where they belong. Two temporaries, each as long as
/// the vector, hold what is combined and what comes.
#[derive(Clone, Debug)]
pub(crate) struct Halving {
    task: Task,
    fold: Fold,
    role: Role,
    order: Order,
    end: End,
    held: Place,
    /// The first part that is still to be combined here, and how many there are, over active ranks.
    low: u32,
    width: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Fold,
    Halve,
    Scatter,
    Gather { mask: u32 },
}

impl Halving {
    pub(crate) fn new(task: Task, order: Order, end: End) -> Self {
        let fold = Fold::new(task.size);
        let (role, held, width) = (fold.role(task.rank), task.mine, fold.active);
        Self { task, fold, role, order, end, held, low: 0, width, stage: Stage::Fold }
    }

    /// How many temporaries there are, each as long as the vector.
    pub(crate) fn temporaries(&self) -> usize {
        match self.role {
            Role::Active { .. } if self.task.size > 1 => 2,
            _ => 0,
        }
    }

    /// The length of the vector.
    pub(crate) fn length(&self) -> usize {
        self.parts(self.task.mine, 0, self.fold.active).len
    }

    fn rank(&self, counted: u32) -> u32 {
        up(counted, self.task.first, self.task.size)
    }

    /// The parts of active ranks `first .. first + how_many`, those of their partners among them.
    fn parts(&self, place: Place, first: u32, how_many: u32) -> Span {
        let start = |index: u32| match self.end {
            End::Gather => index,
            End::Scatter if index == self.fold.active => self.task.size,
            End::Scatter => self.fold.rank(index),
        };
        self.task.cut.span(place, start(first), start(first + how_many) - start(first))
    }

    fn spare(&self) -> Place {
        if self.held == Place::Temporary(0) { Place::Temporary(1) } else { Place::Temporary(0) }
    }

    /// Combines the parts that are held with those that have come to the spare buffer, from lower ranks or higher ones.
    fn combine(&mut self, steps: &mut Burst, received: Mark, from_below: bool, low: u32, width: u32) {
        let (held, spare) = (self.parts(self.held, low, width), self.parts(self.spare(), low, width));
        let wait = Wait::One(received);
        if self.held != self.task.mine && (from_below || self.task.commutative) {
            steps.reduce(wait, spare, held);
        } else if from_below && !self.task.commutative {
            let copy = self.parts(Place::Temporary(1), low, width);
            let copied = steps.copy(Wait::Nothing, held, copy);
            steps.reduce(Wait::Two(received, copied), spare, copy);
            self.held = Place::Temporary(1);
        } else {
            steps.reduce(wait, held, spare);
            self.held = self.spare();
        }
        (self.low, self.width) = (low, width);
        steps.fence();
    }

    /// The part of the active rank `index` at the end of the halving.
    fn part_of(&self, index: u32) -> u32 {
        match self.order {
            Order::FarFirst => index,
            Order::NearFirst if self.fold.active == 1 => 0,
            Order::NearFirst => index.reverse_bits() >> (self.fold.active.leading_zeros() + 1),
        }
    }

    /// What a rank that is not active does.
    fn idle(&self, steps: &mut Burst, partner: u32) {
        let whole = self.parts(self.task.mine, 0, self.fold.active);
        let sent = steps.send(Wait::Nothing, self.rank(partner), whole);
        if self.end == End::Scatter
            && let Role::Active { index, .. } = self.fold.role(partner)
        {
            let from = self.fold.rank(self.part_of(index));
            let block = self.task.cut.block(Place::Output, self.task.rank);
            let wait = if self.task.mine == Place::Output { Wait::One(sent) } else { Wait::Nothing };
            steps.receive(wait, self.rank(from), Place::Output.span(0, block.len));
        }
    }

    /// The blocks of the part that this active rank has go to their owners, and its own comes.
    fn scatter(&self, steps: &mut Burst, index: u32) {
        let part = self.part_of(index);
        let owner = self.fold.rank(part);
        let own = Place::Output.span(0, self.task.cut.block(Place::Output, self.task.rank).len);
        if part == index {
            steps.copy(Wait::Nothing, self.task.cut.block(self.held, owner), own);
        } else {
            // Two ranks whose numbers are each other's in reverse have each other's parts.
            steps.receive(Wait::Nothing, self.rank(owner), own);
            steps.send(Wait::Nothing, self.rank(owner), self.task.cut.block(self.held, owner));
        }
        if let Role::Active { partner: Some(partner), .. } = self.fold.role(owner) {
            steps.send(Wait::Nothing, self.rank(partner), self.task.cut.block(self.held, partner));
        }
    }
}

impl Rounds for Halving {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (index, partner) = match self.role {
            Role::Idle { partner } => {
                self.idle(steps, partner);
                return false;
            }
            Role::Active { index, partner } => (index, partner),
        };
        let active = self.fold.active;
        self.stage = match self.stage {
            Stage::Fold => {
                if let Some(partner) = partner {
                    let whole = self.parts(self.spare(), 0, active);
                    let received = steps.receive(Wait::Nothing, self.rank(partner), whole);
                    self.combine(steps, received, false, 0, active);
                }
                Stage::Halve
            }
            Stage::Halve if self.width == 1 => match self.end {
                End::Scatter => Stage::Scatter,
                End::Gather => {
                    if index == 0 {
                        let own = self.parts(Place::Output, 0, 1);
                        steps.copy(Wait::Nothing, self.parts(self.held, 0, 1), own);
                    }
                    Stage::Gather { mask: 1 }
                }
            },
            Stage::Halve => {
                let half = self.width / 2;
                let mask = if self.order == Order::FarFirst { half } else { active / self.width };
                let upper = index & mask != 0;
                let peer = self.rank(self.fold.rank(index ^ mask));
                let (keep, give) =
                    if upper { (self.low + half, self.low) } else { (self.low, self.low + half) };
                let received = steps.receive(Wait::Nothing, peer, self.parts(self.spare(), keep, half));
                steps.send(Wait::Nothing, peer, self.parts(self.held, give, half));
                self.combine(steps, received, upper, keep, half);
                Stage::Halve
            }
            Stage::Scatter => {
                self.scatter(steps, index);
                return false;
            }
            Stage::Gather { mask } if mask >= active => return false,
            Stage::Gather { mask } if index & mask != 0 => {
                let peer = self.rank(self.fold.rank(index - mask));
                steps.send(Wait::All, peer, self.parts(self.held, index, mask));
                return false;
            }
            Stage::Gather { mask } => {
                let place = if index == 0 { Place::Output } else { self.held };
                let peer = self.rank(self.fold.rank(index + mask));
                steps.receive(Wait::Nothing, peer, self.parts(place, index + mask, mask));
                Stage::Gather { mask: mask * 2 }
            }
        };
        true
    }
}
