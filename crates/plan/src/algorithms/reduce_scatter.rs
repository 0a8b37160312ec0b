//! Reduce-scatters: a block of the combined contributions to each rank ([`super::halving`] has
//! others).

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};
use crate::shape::{Fold, FoldRole, down, up};

/// Blocks pass once around a ring and collect all contributions; block `r` ends at rank `r`. For
/// commutative operations. Two temporaries with the length of the longest block.
#[derive(Clone, Debug)]
pub(crate) struct ReduceScatterRing {
    me: TeamMember,
    cut: Cut,
    mine: PlanBuffer,
    round: u32,
}

impl ReduceScatterRing {
    pub(crate) fn new(me: TeamMember, cut: Cut, mine: PlanBuffer) -> Self {
        Self { me, cut, mine, round: 0 }
    }
}

impl Rounds for ReduceScatterRing {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let round = self.round;
        let own = PlanBuffer::Output.span(0, self.cut.block(self.mine, rank).len);
        if size == 1 {
            steps.copy(Wait::Nothing, self.cut.block(self.mine, 0), own);
            return false;
        }
        let slot = |round: u32, block: u32| {
            PlanBuffer::Temporary((round % 2) as u8).span(0, self.cut.block(self.mine, block).len)
        };
        let (give, take) = (down(rank, round + 1, size), down(down(rank, round, size), 2, size));
        let given = match round {
            0 => self.cut.block(self.mine, give),
            _ => slot(round - 1, give),
        };
        steps.fence();
        let received = steps.receive(Wait::Nothing, down(rank, 1, size), slot(round, take));
        steps.send(Wait::Nothing, up(rank, 1, size), given);
        let reduced =
            steps.reduce(Wait::One(received), self.cut.block(self.mine, take), slot(round, take));
        self.round += 1;
        if self.round + 1 < size {
            return true;
        }
        // In place, the last send may still read the first block of the contribution.
        let wait = if self.mine == PlanBuffer::Output { Wait::All } else { Wait::One(reduced) };
        steps.copy(wait, slot(round, rank), own);
        false
    }
}

/// Every rank gets the contributions to its block one by one, from the ranks 1, 2, 3... below. It
/// combines those of lower and of higher ranks separately, in rank order. Four temporaries with the
/// length of the rank's block.
#[derive(Clone, Debug)]
pub(crate) struct PairwiseReduceScatter {
    me: TeamMember,
    cut: Cut,
    mine: PlanBuffer,
    round: u32,
    reduced: Mark,
}

impl PairwiseReduceScatter {
    /// The combinations of this rank and all lower ranks, and of all higher ranks.
    const LOWER: PlanBuffer = PlanBuffer::Temporary(2);
    const HIGHER: PlanBuffer = PlanBuffer::Temporary(3);

    pub(crate) fn new(me: TeamMember, cut: Cut, mine: PlanBuffer) -> Self {
        Self { me, cut, mine, round: 0, reduced: Mark::NONE }
    }
}

impl Rounds for PairwiseReduceScatter {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let own = self.cut.block(self.mine, rank);
        let at = |place: PlanBuffer| place.span(0, own.len);
        let round = self.round;
        self.round += 1;
        if round == 0 {
            self.reduced = steps.copy(Wait::Nothing, own, at(Self::LOWER));
            return true;
        }
        if round < size {
            let (give, take) = (up(rank, round, size), down(rank, round, size));
            let is_first_higher = round == rank + 1;
            let slot = PlanBuffer::Temporary((round % 2) as u8);
            let into = if is_first_higher { Self::HIGHER } else { slot };
            steps.fence();
            let received = steps.receive(Wait::Nothing, take, at(into));
            steps.send(Wait::Nothing, give, self.cut.block(self.mine, give));
            if !is_first_higher {
                let sum = if take < rank { Self::LOWER } else { Self::HIGHER };
                self.reduced = steps.reduce(Wait::One(received), at(slot), at(sum));
            }
            return true;
        }
        steps.fence();
        let result = if rank + 1 < size { Self::HIGHER } else { Self::LOWER };
        if result == Self::HIGHER {
            self.reduced = steps.reduce(Wait::Nothing, at(Self::LOWER), at(Self::HIGHER));
        }
        steps.copy(Wait::One(self.reduced), at(result), at(PlanBuffer::Output));
        false
    }
}

/// Partners at distances 1, 2, 4... exchange their combinations, without the blocks of ranks whose
/// contributions the receiver already has. A combination always covers consecutive ranks, in order.
/// Two temporaries with the length of the vector.
#[derive(Clone, Debug)]
pub(crate) struct ReduceScatterDoubling {
    me: TeamMember,
    fold: Fold,
    role: FoldRole,
    cut: Cut,
    mine: PlanBuffer,
    held: PlanBuffer,
    stage: DoublingStage,
}

#[derive(Clone, Copy, Debug)]
enum DoublingStage {
    Fold,
    Exchange { mask: u32 },
    Combine { mask: u32, piece: u32 },
}

impl ReduceScatterDoubling {
    pub(crate) fn new(me: TeamMember, cut: Cut, mine: PlanBuffer) -> Self {
        let fold = Fold::new(me.size);
        Self {
            me,
            fold,
            role: fold.role(me.rank),
            cut,
            mine,
            held: mine,
            stage: DoublingStage::Fold,
        }
    }

    pub(crate) fn temporaries(&self) -> usize {
        match self.role {
            FoldRole::Active { .. } if self.me.size > 1 => 2,
            _ => 0,
        }
    }

    fn spare(&self) -> PlanBuffer {
        self.held.other_of([0, 1].map(PlanBuffer::Temporary))
    }

    fn blocks(&self, place: PlanBuffer, first: u32, end: u32) -> Span {
        let start = |index: u32| {
            if index == self.fold.active { self.me.size } else { self.fold.rank(index) }
        };
        self.cut.span(place, start(first), start(end) - start(first))
    }

    /// The blocks before and behind those of the group of `mask` active ranks that contains
    /// `index`.
    fn outside(&self, place: PlanBuffer, index: u32, mask: u32) -> [Span; 2] {
        let first = index & !(mask - 1);
        [self.blocks(place, 0, first), self.blocks(place, first + mask, self.fold.active)]
    }
}

impl Rounds for ReduceScatterDoubling {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (rank, size) = (self.me.rank, self.me.size);
        let own = PlanBuffer::Output.span(0, self.cut.block(self.mine, rank).len);
        let (index, partner) = match self.role {
            FoldRole::Idle { partner } => {
                let sent = steps.send(Wait::Nothing, partner, self.cut.span(self.mine, 0, size));
                let wait =
                    if self.mine == PlanBuffer::Output { Wait::One(sent) } else { Wait::Nothing };
                steps.receive(wait, partner, own);
                return false;
            }
            FoldRole::Active { index, partner } => (index, partner),
        };
        self.stage = match self.stage {
            DoublingStage::Fold => {
                if let Some(partner) = partner {
                    let spare = self.spare();
                    let received =
                        steps.receive(Wait::Nothing, partner, self.cut.span(spare, 0, size));
                    let held = self.cut.span(self.held, 0, size);
                    steps.reduce(Wait::One(received), held, self.cut.span(spare, 0, size));
                    self.held = spare;
                }
                DoublingStage::Exchange { mask: 1 }
            }
            DoublingStage::Exchange { mask } if mask >= self.fold.active => {
                steps.fence();
                steps.copy(Wait::Nothing, self.cut.block(self.held, rank), own);
                if let Some(partner) = partner {
                    steps.send(Wait::All, partner, self.cut.block(self.held, partner));
                }
                return false;
            }
            DoublingStage::Exchange { mask } => {
                let peer = index ^ mask;
                steps.fence();
                for span in self.outside(self.spare(), peer, mask) {
                    steps.receive(Wait::Nothing, self.fold.rank(peer), span);
                }
                for span in self.outside(self.held, index, mask) {
                    steps.send(Wait::Nothing, self.fold.rank(peer), span);
                }
                steps.fence();
                DoublingStage::Combine { mask, piece: 0 }
            }
            DoublingStage::Combine { mask, piece } => {
                // Pieces 0 and 1: the blocks of other ranks, before and behind. Piece 2: the blocks
                // of this rank and its partner.
                let below = index & mask != 0;
                let copies = below && self.held == self.mine;
                let target = if copies { PlanBuffer::Temporary(1) } else { self.held };
                let span = |place| match piece {
                    2 => self.blocks(place, index, index + 1),
                    piece => self.outside(place, index, 2 * mask)[piece as usize],
                };
                let (held, spare) = (span(self.held), span(self.spare()));
                if copies {
                    let copied = steps.copy(Wait::Nothing, held, span(target));
                    steps.reduce(Wait::One(copied), spare, span(target));
                } else if below {
                    steps.reduce(Wait::Nothing, spare, held);
                } else {
                    steps.reduce(Wait::Nothing, held, spare);
                }
                if piece < 2 {
                    DoublingStage::Combine { mask, piece: piece + 1 }
                } else {
                    self.held = if below { target } else { self.spare() };
                    DoublingStage::Exchange { mask: 2 * mask }
                }
            }
        };
        true
    }
}
