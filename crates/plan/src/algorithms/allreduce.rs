//! Allreductions. The results of all ranks are bitwise equal: one rank computes a part for all, or
//! all ranks compute the same expression.

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};
use crate::shape::{Fold, FoldRole, VectorParts};

/// The steps of a rank outside of the folded team: it sends its contribution to its partner and
/// receives the result.
fn idle(steps: &mut Burst, partner: u32, count: usize, in_place: bool) {
    let mine = if in_place { PlanBuffer::Output } else { PlanBuffer::Input };
    let sent = steps.send(Wait::Nothing, partner, mine.span(0, count));
    let wait = if in_place { Wait::One(sent) } else { Wait::Nothing };
    steps.receive(wait, partner, PlanBuffer::Output.span(0, count));
}

/// Partners at distances 1, 2, 4... exchange their combined contributions. A combination always
/// covers consecutive ranks, and the lower ranks are the left operand on both sides, so all ranks
/// compute the same expression in rank order.
#[derive(Clone, Debug)]
pub(crate) struct AllreduceDoubling {
    fold: Fold,
    role: FoldRole,
    count: usize,
    in_place: bool,
    /// The distance to the next partner; 0 before the fold.
    mask: u32,
    held: PlanBuffer,
    reduced: Mark,
}

impl AllreduceDoubling {
    pub(crate) fn new(me: TeamMember, count: usize, in_place: bool) -> Self {
        let fold = Fold::new(me.size);
        let held = if in_place { PlanBuffer::Output } else { PlanBuffer::Input };
        Self { fold, role: fold.role(me.rank), count, in_place, mask: 0, held, reduced: Mark::NONE }
    }

    fn whole(&self, place: PlanBuffer) -> Span {
        place.span(0, self.count)
    }

    fn spare(&self) -> PlanBuffer {
        self.held.other_of([PlanBuffer::Output, PlanBuffer::Temporary(0)])
    }
}

impl Rounds for AllreduceDoubling {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (index, partner) = match self.role {
            FoldRole::Idle { partner } => {
                idle(steps, partner, self.count, self.in_place);
                return false;
            }
            FoldRole::Active { index, partner } => (index, partner),
        };
        if self.mask == 0 {
            self.mask = 1;
            if let Some(partner) = partner {
                let spare = self.spare();
                let received = steps.receive(Wait::Nothing, partner, self.whole(spare));
                self.reduced =
                    steps.reduce(Wait::One(received), self.whole(self.held), self.whole(spare));
                self.held = spare;
            }
            return true;
        }
        if self.mask < self.fold.active {
            let peer_index = index ^ self.mask;
            let peer = self.fold.rank(peer_index);
            self.mask *= 2;
            let mut sent = steps.send(Wait::All, peer, self.whole(self.held));
            if peer_index < index {
                if self.held == PlanBuffer::Input {
                    // The right operand is overwritten, so it must be a copy of the input.
                    sent = steps.copy(
                        Wait::Nothing,
                        self.whole(PlanBuffer::Input),
                        self.whole(PlanBuffer::Output),
                    );
                    self.held = PlanBuffer::Output;
                }
                let spare = self.spare();
                let received = steps.receive(Wait::Nothing, peer, self.whole(spare));
                self.reduced = steps.reduce(
                    Wait::Two(sent, received),
                    self.whole(spare),
                    self.whole(self.held),
                );
            } else {
                let spare = self.spare();
                let received = steps.receive(Wait::Nothing, peer, self.whole(spare));
                self.reduced =
                    steps.reduce(Wait::One(received), self.whole(self.held), self.whole(spare));
                self.held = spare;
            }
            return true;
        }
        // A send of the last exchange may still read the output.
        steps.copy(Wait::All, self.whole(self.held), self.whole(PlanBuffer::Output));
        if let Some(partner) = partner {
            steps.send(Wait::One(self.reduced), partner, self.whole(self.held));
        }
        false
    }
}

/// Recursive halving of the vector, then recursive doubling of the results (Rabenseifner,
/// "Optimization of collective reduction operations"): few messages and little data, for long
/// vectors and commutative operations.
#[derive(Clone, Debug)]
pub(crate) struct Rabenseifner {
    fold: Fold,
    role: FoldRole,
    parts: VectorParts,
    in_place: bool,
    /// The buffer of the combination so far: first the contribution, then the output.
    held: PlanBuffer,
    stage: RabenseifnerStage,
}

#[derive(Clone, Copy, Debug)]
enum RabenseifnerStage {
    Fold,
    Halve { mask: u32 },
    Double { mask: u32 },
}

impl Rabenseifner {
    pub(crate) fn new(me: TeamMember, count: usize, in_place: bool) -> Self {
        let fold = Fold::new(me.size);
        let parts = VectorParts { count, parts: fold.active };
        let held = if in_place { PlanBuffer::Output } else { PlanBuffer::Input };
        Self {
            fold,
            role: fold.role(me.rank),
            parts,
            in_place,
            held,
            stage: RabenseifnerStage::Fold,
        }
    }

    pub(crate) fn temporary(&self) -> usize {
        match self.role {
            FoldRole::Idle { .. } if self.in_place => self.upper().len,
            FoldRole::Idle { .. } => 0,
            FoldRole::Active { .. } => {
                self.parts.start(self.fold.active.div_ceil(2)).max(self.parts.count.div_ceil(2))
            }
        }
    }

    /// The half of the vector that an active rank combines for itself and its partner, which
    /// combines [`Self::upper`].
    fn lower(&self) -> Span {
        PlanBuffer::Output.span(0, self.parts.count.div_ceil(2))
    }

    fn upper(&self) -> Span {
        let start = self.parts.count.div_ceil(2);
        PlanBuffer::Output.span(start, self.parts.count - start)
    }

    fn idle(&self, steps: &mut Burst, partner: u32) {
        let (lower, upper) = (self.lower(), self.upper());
        let into = if self.in_place { PlanBuffer::Temporary(0).span(0, upper.len) } else { upper };
        let received = steps.receive(Wait::Nothing, partner, into);
        steps.send(Wait::Nothing, partner, Span { place: self.held, ..lower });
        let left = if self.in_place { into } else { Span { place: PlanBuffer::Input, ..upper } };
        let reduced = steps.reduce(Wait::One(received), left, upper);
        steps.send(Wait::One(reduced), partner, upper);
        // Each of the two ranks of the last exchange sends one half of the result.
        let FoldRole::Active { index, .. } = self.fold.role(partner) else { return };
        let half = self.fold.active / 2;
        steps.fence();
        for first in [0, half] {
            let from = self.fold.rank(index & !half | first);
            steps.receive(Wait::Nothing, from, self.parts.span(PlanBuffer::Output, first, half));
        }
    }

    fn partner_of(&self, index: u32) -> Option<u32> {
        match self.fold.role(self.fold.rank(index)) {
            FoldRole::Active { partner, .. } => partner,
            FoldRole::Idle { .. } => None,
        }
    }

    fn combine(
        &mut self,
        steps: &mut Burst,
        from: u32,
        span: impl Fn(PlanBuffer) -> Span,
        sent: Option<(u32, Span)>,
    ) {
        steps.fence();
        let result = span(PlanBuffer::Output);
        let apart = self.held == PlanBuffer::Output;
        let into = if apart { PlanBuffer::Temporary(0).span(0, result.len) } else { result };
        let received = steps.receive(Wait::Nothing, from, into);
        if let Some((to, what)) = sent {
            steps.send(Wait::Nothing, to, what);
        }
        let left = if apart { into } else { span(PlanBuffer::Input) };
        steps.reduce(Wait::One(received), left, result);
        self.held = PlanBuffer::Output;
    }
}

impl Rounds for Rabenseifner {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (index, partner) = match self.role {
            FoldRole::Idle { partner } => {
                self.idle(steps, partner);
                return false;
            }
            FoldRole::Active { index, partner } => (index, partner),
        };
        let (fold, parts) = (self.fold, self.parts);
        self.stage = match self.stage {
            RabenseifnerStage::Fold => {
                if let Some(partner) = partner {
                    let (lower, upper) = (self.lower(), self.upper());
                    let given = (partner, Span { place: self.held, ..upper });
                    self.combine(steps, partner, |place| Span { place, ..lower }, Some(given));
                    steps.receive(Wait::All, partner, upper);
                } else if fold.active == 1 {
                    steps.copy(
                        Wait::Nothing,
                        self.held.span(0, parts.count),
                        PlanBuffer::Output.span(0, parts.count),
                    );
                }
                RabenseifnerStage::Halve { mask: fold.active / 2 }
            }
            RabenseifnerStage::Halve { mask: 0 } => RabenseifnerStage::Double { mask: 1 },
            RabenseifnerStage::Halve { mask } => {
                let peer = index ^ mask;
                let (keep, give) = (index & !(mask - 1), peer & !(mask - 1));
                let given = parts.span(self.held, give, mask);
                let to = fold.rank(peer);
                self.combine(steps, to, |place| parts.span(place, keep, mask), Some((to, given)));
                RabenseifnerStage::Halve { mask: mask / 2 }
            }
            RabenseifnerStage::Double { mask } if mask >= fold.active => return false,
            RabenseifnerStage::Double { mask } => {
                let peer = index ^ mask;
                let (give, take) = (index & !(mask - 1), peer & !(mask - 1));
                let given = parts.span(PlanBuffer::Output, give, mask);
                steps.fence();
                steps.receive(
                    Wait::Nothing,
                    fold.rank(peer),
                    parts.span(PlanBuffer::Output, take, mask),
                );
                steps.send(Wait::Nothing, fold.rank(peer), given);
                if 2 * mask == fold.active {
                    for idle in [partner, self.partner_of(peer)].into_iter().flatten() {
                        steps.send(Wait::Nothing, idle, given);
                    }
                }
                RabenseifnerStage::Double { mask: mask * 2 }
            }
        };
        true
    }
}
