//! Barriers: messages without data.

use super::Rounds;
use crate::burst::{Burst, Wait};
use crate::call::TeamMember;
use crate::shape::{Fold, FoldRole, binomial, down, up};

/// All ranks signal rank 0, which signals all.
#[derive(Clone, Debug)]
pub(crate) struct LinearBarrier {
    me: TeamMember,
    releasing: bool,
    peer: u32,
}

impl LinearBarrier {
    pub(crate) fn new(me: TeamMember) -> Self {
        Self { me, releasing: false, peer: 1 }
    }
}

impl Rounds for LinearBarrier {
    fn round(&mut self, steps: &mut Burst) -> bool {
        if self.me.rank != 0 {
            steps.signal(Wait::Nothing, 0);
            steps.await_signal(Wait::Nothing, 0);
            return false;
        }
        if self.peer < self.me.size {
            if self.releasing {
                // The first release waits for all signals, and later steps wait for it.
                steps.signal(if self.peer == 1 { Wait::All } else { Wait::Nothing }, self.peer);
            } else {
                steps.await_signal(Wait::Nothing, self.peer);
            }
            self.peer += 1;
            return true;
        }
        let again = !self.releasing;
        (self.releasing, self.peer) = (true, 1);
        again
    }
}

/// Dissemination: in round `k` a rank signals the rank `2^k` above and awaits the signal of the
/// rank `2^k` below. After the last round it has the signals of all ranks (Hensgen, Finkel and
/// Manber, "Two algorithms for barrier synchronization").
#[derive(Clone, Debug)]
pub(crate) struct Dissemination {
    me: TeamMember,
    distance: u32,
}

impl Dissemination {
    pub(crate) fn new(me: TeamMember) -> Self {
        Self { me, distance: 1 }
    }
}

impl Rounds for Dissemination {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        if self.distance >= size {
            return false;
        }
        steps.signal(Wait::All, up(rank, self.distance, size));
        steps.await_signal(Wait::Nothing, down(rank, self.distance, size));
        self.distance = self.distance.saturating_mul(2);
        true
    }
}

/// Folds the team to a power of two; then pairs of ranks at distances 1, 2, 4... signal each other.
#[derive(Clone, Debug)]
pub(crate) struct BarrierDoubling {
    fold: Fold,
    role: FoldRole,
    mask: u32,
}

impl BarrierDoubling {
    pub(crate) fn new(me: TeamMember) -> Self {
        let fold = Fold::new(me.size);
        Self { fold, role: fold.role(me.rank), mask: 0 }
    }
}

impl Rounds for BarrierDoubling {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let (index, partner) = match self.role {
            FoldRole::Idle { partner } => {
                steps.signal(Wait::Nothing, partner);
                steps.await_signal(Wait::Nothing, partner);
                return false;
            }
            FoldRole::Active { index, partner } => (index, partner),
        };
        if self.mask == 0 {
            if let Some(partner) = partner {
                steps.await_signal(Wait::Nothing, partner);
            }
            self.mask = 1;
            return true;
        }
        if self.mask < self.fold.active {
            let peer = self.fold.rank(index ^ self.mask);
            steps.signal(Wait::All, peer);
            steps.await_signal(Wait::Nothing, peer);
            self.mask *= 2;
            return true;
        }
        if let Some(partner) = partner {
            steps.signal(Wait::All, partner);
        }
        false
    }
}

/// A signal passes twice around a ring. A rank that gets it for the first time knows that all lower
/// ranks have entered; for the second time, that all ranks have.
#[derive(Clone, Debug)]
pub(crate) struct DoubleRing {
    me: TeamMember,
    again: bool,
}

impl DoubleRing {
    pub(crate) fn new(me: TeamMember) -> Self {
        Self { me, again: false }
    }
}

impl Rounds for DoubleRing {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        if size == 1 {
            return false;
        }
        let (above, below) = (up(rank, 1, size), down(rank, 1, size));
        if rank == 0 {
            steps.signal(Wait::All, above);
            steps.await_signal(Wait::Nothing, below);
        } else {
            let heard = steps.await_signal(Wait::Nothing, below);
            steps.signal(Wait::One(heard), above);
        }
        !std::mem::replace(&mut self.again, true)
    }
}

/// Signals pass up a binomial tree, then down again.
#[derive(Clone, Debug)]
pub(crate) struct BarrierTree {
    me: TeamMember,
    direction: SignalDirection,
    releasing: bool,
    child: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalDirection {
    Both,
    Up,
    Down,
}

impl BarrierTree {
    pub(crate) fn new(me: TeamMember) -> Self {
        Self { me, direction: SignalDirection::Both, releasing: false, child: 0 }
    }

    /// The way up only: afterwards rank 0 knows that all ranks have entered.
    pub(crate) fn enter(me: TeamMember) -> Self {
        Self { direction: SignalDirection::Up, ..Self::new(me) }
    }

    /// The way down only: afterwards all ranks know that rank 0 has entered.
    pub(crate) fn leave(me: TeamMember) -> Self {
        // Without a child to await on the way up.
        Self { direction: SignalDirection::Down, child: u32::MAX, ..Self::new(me) }
    }
}

impl Rounds for BarrierTree {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let children = binomial::children(rank, size);
        if self.child < children {
            if self.releasing {
                // The largest subtree first.
                let child = rank + (1 << (children - 1 - self.child));
                steps.signal(Wait::Nothing, child);
            } else {
                steps.await_signal(Wait::Nothing, rank + (1 << self.child));
            }
            self.child += 1;
            return true;
        }
        if !self.releasing {
            if rank != 0 && self.direction != SignalDirection::Down {
                steps.signal(Wait::All, binomial::parent(rank));
            }
            if self.direction == SignalDirection::Up {
                return false;
            }
            if rank != 0 {
                steps.await_signal(Wait::Nothing, binomial::parent(rank));
            }
            steps.fence();
            (self.releasing, self.child) = (true, 0);
            return true;
        }
        false
    }
}
