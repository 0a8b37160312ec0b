//! Allgathers: a block from each rank to all. Each block is received at its position in the output.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Wait};
use crate::call::TeamMember;
use crate::ir::PlanBuffer;
use crate::shape::{binomial, down, up};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllgatherRoute {
    /// Each rank sends its block to every other rank.
    Direct,
    /// In each round the ranks send the block of the previous round to the next rank.
    Ring,
    /// In round `k` partners at distance `2^k` exchange all their blocks. Powers of two only.
    Doubling,
    /// In round `i` the ranks send all their blocks to the ranks `j k^i` below, for each `0 < j <
    /// k` (Bruck et al., "Efficient algorithms for all-to-all communications in multiport
    /// message-passing systems"). Blocks are not rotated in a temporary: sender and receiver split
    /// a message where it wraps around the last rank.
    Bruck {
        /// `k`, at least 2.
        radix: u32,
    },
    /// The ranks exchange with the neighbours on both sides alternately: first their own block,
    /// then in each round the two blocks of the previous round (Chen et al., "Performance
    /// evaluation of allgather algorithms on terascale Linux cluster with Fast Ethernet"). Even
    /// sizes only.
    Neighbor,
    /// Every block goes down a binomial tree, the longest distance first, so that most blocks are
    /// sent over the shortest distance (Loch and Koslovski, "Sparbit: a new logarithmic-cost and
    /// data locality-aware MPI allgather algorithm").
    Sparbit,
}

#[derive(Clone, Debug)]
pub(crate) struct Allgather {
    route: AllgatherRoute,
    me: TeamMember,
    all: Cut,
    /// The buffer of this rank's block; `None` if the block is in its position in the output.
    own: Option<PlanBuffer>,
    target: PlanBuffer,
    /// The rank of the team that is rank 0 of the algorithm.
    first: u32,
    /// Whether each rank has the blocks of its subtree of a binomial tree, which are not sent
    /// again.
    scattered: bool,
    started: bool,
    /// The number of the exchange within the round.
    item: u32,
    /// The number of the round, or a distance that grows or shrinks.
    round: u32,
}

struct BlockExchange {
    to: u32,
    give: u32,
    from: u32,
    take: u32,
    how_many: u32,
}

impl Allgather {
    pub(crate) fn new(
        me: TeamMember,
        all: Cut,
        own: Option<PlanBuffer>,
        route: AllgatherRoute,
    ) -> Self {
        let round = match route {
            AllgatherRoute::Direct
            | AllgatherRoute::Ring
            | AllgatherRoute::Doubling
            | AllgatherRoute::Bruck { .. } => 1,
            AllgatherRoute::Neighbor => 0,
            AllgatherRoute::Sparbit => me.size.next_power_of_two() / 2,
        };
        let target = PlanBuffer::Output;
        Self {
            route,
            me,
            all,
            own,
            target,
            first: 0,
            scattered: false,
            started: false,
            item: 0,
            round,
        }
    }

    /// Collects the blocks in `target` instead of the output.
    pub(crate) fn into(self, target: PlanBuffer) -> Self {
        Self { target, ..self }
    }

    /// For Bruck's algorithm after a scatter: ranks are counted from `root`, and each has the
    /// blocks of its subtree of a binomial tree.
    pub(crate) fn after_scatter(self, root: u32) -> Self {
        let rank = down(self.me.rank, root, self.me.size);
        Self { first: root, scattered: true, me: TeamMember { rank, ..self.me }, ..self }
    }

    /// The number of blocks that a rank has of the ranks from `distance` above it on.
    fn known(&self, rank: u32, distance: u32) -> u32 {
        let extent = if self.scattered { binomial::extent(rank, self.me.size) } else { 0 };
        extent.saturating_sub(distance)
    }

    fn exchange(&mut self) -> Option<BlockExchange> {
        let TeamMember { rank, size } = self.me;
        let round = self.round;
        match self.route {
            AllgatherRoute::Direct | AllgatherRoute::Ring => {
                let direct = self.route == AllgatherRoute::Direct;
                self.round += 1;
                (round < size).then(|| BlockExchange {
                    to: up(rank, if direct { round } else { 1 }, size),
                    give: if direct { rank } else { down(rank, round - 1, size) },
                    from: down(rank, if direct { round } else { 1 }, size),
                    take: down(rank, round, size),
                    how_many: 1,
                })
            }
            AllgatherRoute::Doubling => {
                let peer = rank ^ round;
                self.round = round.saturating_mul(2);
                (round < size).then(|| BlockExchange {
                    to: peer,
                    give: rank & !(round - 1),
                    from: peer,
                    take: peer & !(round - 1),
                    how_many: round,
                })
            }
            AllgatherRoute::Bruck { radix } => {
                let distance =
                    round.checked_mul(self.item + 1).filter(|distance| *distance < size)?;
                self.item += 1;
                if self.item + 1 == radix {
                    (self.round, self.item) = (round.saturating_mul(radix), 0);
                }
                let from = up(rank, distance, size);
                Some(BlockExchange {
                    to: down(rank, distance, size),
                    give: rank,
                    from,
                    take: from,
                    how_many: round.min(size - distance),
                })
            }
            AllgatherRoute::Neighbor => {
                self.round += 1;
                (round < size / 2).then(|| self.neighbors(round))
            }
            AllgatherRoute::Sparbit => {
                // A rank has the blocks of the ranks 2 * round, 4 * round... below it.
                let there = self.item.checked_mul(2).and_then(|twice| twice.checked_mul(round));
                let back = there.and_then(|there| there.checked_add(round));
                match (there, back) {
                    (Some(there), Some(back)) if round > 0 && back < size => {
                        self.item += 1;
                        let from = down(rank, round, size);
                        Some(BlockExchange {
                            to: up(rank, round, size),
                            give: down(rank, there, size),
                            from,
                            take: down(rank, back, size),
                            how_many: 1,
                        })
                    }
                    _ if round <= 1 => None,
                    _ => {
                        (self.round, self.item) = (round / 2, 0);
                        self.exchange()
                    }
                }
            }
        }
    }

    /// Round `round` of the neighbour exchange, with the blocks of an even rank and the next rank.
    fn neighbors(&self, round: u32) -> BlockExchange {
        let TeamMember { rank, size } = self.me;
        let even = rank.is_multiple_of(2);
        let pair = rank - rank % 2;
        if round == 0 {
            let peer = rank ^ 1;
            return BlockExchange { to: peer, give: rank, from: peer, take: peer, how_many: 1 };
        }
        // An even rank gets blocks of lower pairs first, then of higher pairs; an odd rank the
        // reverse.
        let heard = |round: u32| match (round, even == (round % 2 == 1)) {
            (0, _) => pair,
            (round, true) => down(pair, round.div_ceil(2) * 2, size),
            (round, false) => up(pair, round.div_ceil(2) * 2, size),
        };
        let peer = if even == (round % 2 == 1) { down(rank, 1, size) } else { up(rank, 1, size) };
        BlockExchange {
            to: peer,
            give: heard(round - 1),
            from: peer,
            take: heard(round),
            how_many: 2,
        }
    }

    fn rank(&self, counted: u32) -> u32 {
        up(counted, self.first, self.me.size)
    }
}

impl Rounds for Allgather {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        if !self.started {
            self.started = true;
            if let Some(own) = self.own {
                let slot = self.all.block(self.target, rank);
                steps.copy(Wait::Nothing, own.span(0, slot.len), slot);
            }
            steps.fence(); // sends read the output
            return true;
        }
        let before = (self.round, self.item);
        let Some(BlockExchange { to, give, from, take, how_many }) = self.exchange() else {
            return false;
        };
        // A new round depends on the previous one; blocks sent directly depend only on the first
        // copy.
        if self.route != AllgatherRoute::Direct
            && (before.1 == 0 || before.0 != self.round && self.item == 1)
        {
            steps.fence();
        }
        let known = self.known(rank, down(take, rank, size)).min(how_many);
        for part in self.all.wrapped(self.target, up(take, known, size), how_many - known, size) {
            steps.receive(Wait::Nothing, self.rank(from), part);
        }
        let known = self.known(to, down(give, to, size)).min(how_many);
        for part in self.all.wrapped(self.target, up(give, known, size), how_many - known, size) {
            steps.send(Wait::Nothing, self.rank(to), part);
        }
        true
    }
}
