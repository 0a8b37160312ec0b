//! Allgathers: a block from each rank to all. Every block travels straight to its place in the output.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Wait};
use crate::call::Member;
use crate::ir::Place;
use crate::shape::{down, up};

/// How blocks travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Each rank sends its block to every other.
    Direct,
    /// Round by round the ranks pass on to the next what they got from the one before.
    Ring,
    /// Round `k`: partners at distance `2^k` exchange all they have. Powers of two only.
    Doubling,
    /// Round `k`: the ranks send all they have to the one `2^k` below (Bruck et al., "Efficient algorithms for
    /// all-to-all communications in multiport message-passing systems"). Blocks are not rotated in a temporary:
    /// sender and receiver cut a message in two where it wraps around the last rank.
    Bruck,
}

/// An allgather, by one of the routes.
#[derive(Clone, Debug)]
pub(crate) struct Allgather {
    route: Route,
    me: Member,
    all: Cut,
    in_place: bool,
    round: u32,
}

impl Allgather {
    pub(crate) fn new(me: Member, all: Cut, in_place: bool, route: Route) -> Self {
        Self { route, me, all, in_place, round: 0 }
    }

    /// What passes in the exchange number `self.round`, or `None` if there are no more.
    fn exchange(&self) -> Option<Exchange> {
        let Member { rank, size } = self.me;
        let round = self.round;
        match self.route {
            Route::Direct | Route::Ring => {
                let direct = self.route == Route::Direct;
                (round < size).then(|| Exchange {
                    to: up(rank, if direct { round } else { 1 }, size),
                    give: if direct { rank } else { down(rank, round - 1, size) },
                    from: down(rank, if direct { round } else { 1 }, size),
                    take: down(rank, round, size),
                    how_many: 1,
                })
            }
            Route::Doubling => {
                let mask = 1_u32.checked_shl(round - 1).filter(|mask| *mask < size)?;
                let peer = rank ^ mask;
                Some(Exchange {
                    to: peer,
                    give: rank & !(mask - 1),
                    from: peer,
                    take: peer & !(mask - 1),
                    how_many: mask,
                })
            }
            Route::Bruck => {
                let distance = 1_u32.checked_shl(round - 1).filter(|distance| *distance < size)?;
                let from = up(rank, distance, size);
                Some(Exchange {
                    to: down(rank, distance, size),
                    give: rank,
                    from,
                    take: from,
                    how_many: distance.min(size - distance),
                })
            }
        }
    }
}

/// One exchange: the blocks from `give` on to one rank, those from `take` on from another.
struct Exchange {
    to: u32,
    give: u32,
    from: u32,
    take: u32,
    how_many: u32,
}

impl Rounds for Allgather {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let Member { rank, size } = self.me;
        if self.round == 0 {
            self.round = 1;
            if !self.in_place {
                let slot = self.all.block(Place::Output, rank);
                steps.copy(Wait::Nothing, Place::Input.span(0, slot.len), slot);
            }
            steps.fence(); // sends read the output
            return true;
        }
        let Some(Exchange { to, give, from, take, how_many }) = self.exchange() else {
            return false;
        };
        // A round of its own needs what came before, except that blocks sent directly need only the first copy.
        if self.route != Route::Direct {
            steps.fence();
        }
        for part in self.all.wrapped(Place::Output, take, how_many, size) {
            steps.receive(Wait::Nothing, from, part);
        }
        for part in self.all.wrapped(Place::Output, give, how_many, size) {
            steps.send(Wait::Nothing, to, part);
        }
        self.round += 1;
        true
    }
}
