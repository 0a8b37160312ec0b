//! Recursive halving: partners exchange halves of the vector and combine them, until each has the
//! result of a part.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::ir::{PlanBuffer, Span};
use crate::shape::{Fold, FoldRole, up};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeOrder {
    /// The farthest first: the active rank `i` ends with part `i`. For commutative operations.
    FarFirst,
    /// The nearest first, so that a combination always covers consecutive ranks: the active rank
    /// `i` ends with the part whose number is the bit reversal of `i` (Traff, "An improved
    /// algorithm for (non-commutative) reduce-scatter with an application").
    NearFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalvingEnd {
    Scatter,
    /// The root gets all parts, up a binomial tree. Only after [`ExchangeOrder::FarFirst`].
    Gather,
}

#[derive(Clone, Debug)]
pub(crate) struct HalvingTask {
    /// Counted from `first`.
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The rank of the team that counts as rank 0.
    pub(crate) first: u32,
    /// The parts of the vector: a block for each rank to scatter, a part for each active rank
    /// ([`Fold`]) to gather.
    pub(crate) cut: Cut,
    pub(crate) commutative: bool,
    pub(crate) mine: PlanBuffer,
}

/// Folds the team to a power of two, halves, and moves the results to their destination. Two
/// temporaries with the length of the vector have the combination and the received operand.
#[derive(Clone, Debug)]
pub(crate) struct Halving {
    task: HalvingTask,
    fold: Fold,
    role: FoldRole,
    order: ExchangeOrder,
    end: HalvingEnd,
    held: PlanBuffer,
    /// The first part that is still to be combined here, and the number of these parts, by active
    /// ranks.
    low: u32,
    width: u32,
    stage: HalvingStage,
}

#[derive(Clone, Copy, Debug)]
enum HalvingStage {
    Fold,
    Halve,
    Scatter,
    Gather { mask: u32 },
}

impl Halving {
    pub(crate) fn new(task: HalvingTask, order: ExchangeOrder, end: HalvingEnd) -> Self {
        let fold = Fold::new(task.size);
        let (role, held, width) = (fold.role(task.rank), task.mine, fold.active);
        Self { task, fold, role, order, end, held, low: 0, width, stage: HalvingStage::Fold }
    }

    /// The number of temporaries, each with the length of the vector.
    pub(crate) fn temporaries(&self) -> usize {
        match self.role {
            FoldRole::Active { .. } if self.task.size > 1 => 2,
            _ => 0,
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.parts(self.task.mine, 0, self.fold.active).len
    }

    fn rank(&self, counted: u32) -> u32 {
        up(counted, self.task.first, self.task.size)
    }

    /// The parts of the active ranks `first .. first + how_many` and of their partners.
    fn parts(&self, place: PlanBuffer, first: u32, how_many: u32) -> Span {
        let start = |index: u32| match self.end {
            HalvingEnd::Gather => index,
            HalvingEnd::Scatter if index == self.fold.active => self.task.size,
            HalvingEnd::Scatter => self.fold.rank(index),
        };
        self.task.cut.span(place, start(first), start(first + how_many) - start(first))
    }

    fn spare(&self) -> PlanBuffer {
        self.held.other_of([0, 1].map(PlanBuffer::Temporary))
    }

    /// Combines the held parts with the operand in the spare buffer, which comes from lower or
    /// higher ranks.
    fn combine(
        &mut self,
        steps: &mut Burst,
        received: Mark,
        from_below: bool,
        low: u32,
        width: u32,
    ) {
        let (held, spare) =
            (self.parts(self.held, low, width), self.parts(self.spare(), low, width));
        let wait = Wait::One(received);
        if self.held != self.task.mine && (from_below || self.task.commutative) {
            steps.reduce(wait, spare, held);
        } else if from_below && !self.task.commutative {
            let copy = self.parts(PlanBuffer::Temporary(1), low, width);
            let copied = steps.copy(Wait::Nothing, held, copy);
            steps.reduce(Wait::Two(received, copied), spare, copy);
            self.held = PlanBuffer::Temporary(1);
        } else {
            steps.reduce(wait, held, spare);
            self.held = self.spare();
        }
        (self.low, self.width) = (low, width);
        steps.fence();
    }

    fn part_of(&self, index: u32) -> u32 {
        match self.order {
            ExchangeOrder::FarFirst => index,
            ExchangeOrder::NearFirst if self.fold.active == 1 => 0,
            ExchangeOrder::NearFirst => {
                index.reverse_bits() >> (self.fold.active.leading_zeros() + 1)
            }
        }
    }

    fn idle(&self, steps: &mut Burst, partner: u32) {
        let whole = self.parts(self.task.mine, 0, self.fold.active);
        let sent = steps.send(Wait::Nothing, self.rank(partner), whole);
        if self.end == HalvingEnd::Scatter
            && let FoldRole::Active { index, .. } = self.fold.role(partner)
        {
            let from = self.fold.rank(self.part_of(index));
            let block = self.task.cut.block(PlanBuffer::Output, self.task.rank);
            let wait =
                if self.task.mine == PlanBuffer::Output { Wait::One(sent) } else { Wait::Nothing };
            steps.receive(wait, self.rank(from), PlanBuffer::Output.span(0, block.len));
        }
    }

    /// Sends the blocks of this active rank's part to their owners, and receives its own block.
    fn scatter(&self, steps: &mut Burst, index: u32) {
        let part = self.part_of(index);
        let owner = self.fold.rank(part);
        let own =
            PlanBuffer::Output.span(0, self.task.cut.block(PlanBuffer::Output, self.task.rank).len);
        if part == index {
            steps.copy(Wait::Nothing, self.task.cut.block(self.held, owner), own);
        } else {
            // Two ranks whose numbers are bit reversals of each other have each other's parts.
            steps.receive(Wait::Nothing, self.rank(owner), own);
            steps.send(Wait::Nothing, self.rank(owner), self.task.cut.block(self.held, owner));
        }
        if let FoldRole::Active { partner: Some(partner), .. } = self.fold.role(owner) {
            steps.send(Wait::Nothing, self.rank(partner), self.task.cut.block(self.held, partner));
        }
    }
}

impl Rounds for Halving {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (index, partner) = match self.role {
            FoldRole::Idle { partner } => {
                self.idle(steps, partner);
                return false;
            }
            FoldRole::Active { index, partner } => (index, partner),
        };
        let active = self.fold.active;
        self.stage = match self.stage {
            HalvingStage::Fold => {
                if let Some(partner) = partner {
                    let whole = self.parts(self.spare(), 0, active);
                    let received = steps.receive(Wait::Nothing, self.rank(partner), whole);
                    self.combine(steps, received, false, 0, active);
                }
                HalvingStage::Halve
            }
            HalvingStage::Halve if self.width == 1 => match self.end {
                HalvingEnd::Scatter => HalvingStage::Scatter,
                HalvingEnd::Gather => {
                    if index == 0 {
                        let own = self.parts(PlanBuffer::Output, 0, 1);
                        steps.copy(Wait::Nothing, self.parts(self.held, 0, 1), own);
                    }
                    HalvingStage::Gather { mask: 1 }
                }
            },
            HalvingStage::Halve => {
                let half = self.width / 2;
                let mask =
                    if self.order == ExchangeOrder::FarFirst { half } else { active / self.width };
                let upper = index & mask != 0;
                let peer = self.rank(self.fold.rank(index ^ mask));
                let (keep, give) =
                    if upper { (self.low + half, self.low) } else { (self.low, self.low + half) };
                let received =
                    steps.receive(Wait::Nothing, peer, self.parts(self.spare(), keep, half));
                steps.send(Wait::Nothing, peer, self.parts(self.held, give, half));
                self.combine(steps, received, upper, keep, half);
                HalvingStage::Halve
            }
            HalvingStage::Scatter => {
                self.scatter(steps, index);
                return false;
            }
            HalvingStage::Gather { mask } if mask >= active => return false,
            HalvingStage::Gather { mask } if index & mask != 0 => {
                let peer = self.rank(self.fold.rank(index - mask));
                steps.send(Wait::All, peer, self.parts(self.held, index, mask));
                return false;
            }
            HalvingStage::Gather { mask } => {
                let place = if index == 0 { PlanBuffer::Output } else { self.held };
                let peer = self.rank(self.fold.rank(index + mask));
                steps.receive(Wait::Nothing, peer, self.parts(place, index + mask, mask));
                HalvingStage::Gather { mask: mask * 2 }
            }
        };
        true
    }
}
