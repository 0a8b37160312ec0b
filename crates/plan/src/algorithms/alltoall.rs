//! Alltoalls: a block from each rank to each rank.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};
use crate::shape::{down, up};
use std::collections::VecDeque;

fn source(in_place: bool) -> PlanBuffer {
    if in_place { PlanBuffer::Output } else { PlanBuffer::Input }
}

/// All exchanges at once within the window, or a limited number at a time. In place, the blocks are
/// first copied to a temporary.
#[derive(Clone, Debug)]
pub(crate) struct LinearAlltoall {
    me: TeamMember,
    send: Cut,
    receive: Cut,
    in_place: bool,
    distance: u32,
    /// The most outstanding exchanges, each a receive and a send; 0: no limit.
    limit: usize,
    /// The receives and sends of the latest exchanges; empty without a limit.
    pairs: VecDeque<(Mark, Mark)>,
}

impl LinearAlltoall {
    /// In place, the blocks to send have the lengths of the blocks to receive.
    pub(crate) fn new(
        me: TeamMember,
        send: Cut,
        receive: Cut,
        in_place: bool,
        limit: usize,
    ) -> Self {
        Self { me, send, receive, in_place, distance: 0, limit, pairs: VecDeque::new() }
    }
}

impl Rounds for LinearAlltoall {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        if self.distance == 0 {
            if self.in_place {
                let whole = self.receive.total(size);
                steps.copy(
                    Wait::Nothing,
                    PlanBuffer::Output.span(0, whole),
                    PlanBuffer::Temporary(0).span(0, whole),
                );
                steps.fence();
            } else {
                let own = self.send.block(PlanBuffer::Input, rank);
                steps.copy(Wait::Nothing, own, self.receive.block(PlanBuffer::Output, rank));
            }
        } else if self.distance < size {
            let (to, from) = (up(rank, self.distance, size), down(rank, self.distance, size));
            // A window of `2 * limit` steps is not enough: receives alone could fill it.
            let wait = match self.pairs.len() == self.limit {
                true => self
                    .pairs
                    .pop_front()
                    .map_or(Wait::Nothing, |(received, sent)| Wait::Two(received, sent)),
                false => Wait::Nothing,
            };
            let received = steps.receive(wait, from, self.receive.block(PlanBuffer::Output, from));
            let given = if self.in_place {
                self.receive.block(PlanBuffer::Temporary(0), to)
            } else {
                self.send.block(PlanBuffer::Input, to)
            };
            let sent = steps.send(wait, to, given);
            if self.limit > 0 {
                self.pairs.push_back((received, sent));
            }
        } else {
            return false;
        }
        self.distance += 1;
        true
    }
}

/// One exchange at a time: with a different rank on each side or, in place, by pairs that swap
/// blocks.
#[derive(Clone, Debug)]
pub(crate) struct PairwiseAlltoall {
    me: TeamMember,
    send: Cut,
    receive: Cut,
    in_place: bool,
    round: u32,
}

impl PairwiseAlltoall {
    /// In place, the blocks to send have the lengths of the blocks to receive.
    pub(crate) fn new(me: TeamMember, send: Cut, receive: Cut, in_place: bool) -> Self {
        Self { me, send, receive, in_place, round: 0 }
    }
}

impl Rounds for PairwiseAlltoall {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let round = self.round;
        if round == size {
            return false;
        }
        self.round += 1;
        if self.in_place {
            // Ranks whose sum is `round` modulo the size swap. This relation is symmetric, and each
            // pair swaps once.
            let peer = down(round, rank, size);
            if peer != rank {
                let block = self.receive.block(PlanBuffer::Output, peer);
                let spare = PlanBuffer::Temporary(0).span(0, block.len);
                let sent = steps.send(Wait::All, peer, block);
                let received = steps.receive(Wait::Nothing, peer, spare);
                steps.copy(Wait::Two(sent, received), spare, block);
            }
        } else if round == 0 {
            let own = self.send.block(PlanBuffer::Input, rank);
            steps.copy(Wait::Nothing, own, self.receive.block(PlanBuffer::Output, rank));
        } else {
            let (to, from) = (up(rank, round, size), down(rank, round, size));
            steps.fence(); // the first of the two steps waits; either may be empty
            steps.receive(Wait::Nothing, from, self.receive.block(PlanBuffer::Output, from));
            steps.send(Wait::Nothing, to, self.send.block(PlanBuffer::Input, to));
        }
        true
    }
}

/// Bruck's algorithm: a block for the rank `d` above makes one hop for each bit of `d`, together
/// with all other blocks that make this hop (Bruck et al., "Efficient algorithms for all-to-all
/// communications in multiport message-passing systems"). Few messages, but each block is sent
/// several times: for short blocks.
///
/// Temporary 0 has, at block `d`, the block that moves by `d` ranks. Temporaries 1 and 2 have the
/// sent and the received blocks of one hop.
#[derive(Clone, Debug)]
pub(crate) struct BruckAlltoall {
    me: TeamMember,
    block: usize,
    in_place: bool,
    stage: BruckStage,
}

#[derive(Clone, Copy, Debug)]
enum BruckStage {
    Rotate,
    Pack { hop: u32, run: u32 },
    Exchange { hop: u32 },
    Unpack { hop: u32, run: u32 },
    Deliver { distance: u32 },
}

impl BruckAlltoall {
    pub(crate) fn new(me: TeamMember, block: usize, in_place: bool) -> Self {
        Self { me, block, in_place, stage: BruckStage::Rotate }
    }

    /// The largest number of blocks in one hop.
    pub(crate) fn longest(size: u32) -> u32 {
        (0..u32::BITS)
            .map_while(|bit| 1_u32.checked_shl(bit).filter(|hop| *hop < size))
            .map(|hop| Self::hopping(hop, size))
            .max()
            .unwrap_or(0)
    }

    /// The number of distances in `0..size` with the bit `hop` set.
    fn hopping(hop: u32, size: u32) -> u32 {
        let period = u64::from(hop) * 2;
        let whole = u64::from(size) / period;
        let rest = (u64::from(size) % period).saturating_sub(u64::from(hop));
        u32::try_from(whole * u64::from(hop) + rest).unwrap_or(u32::MAX)
    }

    /// Run `run` of the distances with the bit `hop` set: its span in temporary 0, and in the list
    /// of the hop.
    fn run(&self, hop: u32, run: u32, list: PlanBuffer) -> Option<(Span, Span)> {
        let first = u64::from(hop) * (2 * u64::from(run) + 1);
        let size = u64::from(self.me.size);
        if first >= size {
            return None;
        }
        let len = u64::from(hop).min(size - first) as usize * self.block;
        let in_list = u64::from(hop) * u64::from(run);
        Some((
            PlanBuffer::Temporary(0).span(first as usize * self.block, len),
            list.span(in_list as usize * self.block, len),
        ))
    }
}

impl Rounds for BruckAlltoall {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let block = self.block;
        self.stage = match self.stage {
            BruckStage::Rotate => {
                let (first, source) = ((size - rank) as usize * block, source(self.in_place));
                let here = rank as usize * block;
                steps.copy(
                    Wait::Nothing,
                    source.span(here, first),
                    PlanBuffer::Temporary(0).span(0, first),
                );
                steps.copy(
                    Wait::Nothing,
                    source.span(0, here),
                    PlanBuffer::Temporary(0).span(first, here),
                );
                steps.fence();
                if size == 1 {
                    BruckStage::Deliver { distance: 0 }
                } else {
                    BruckStage::Pack { hop: 1, run: 0 }
                }
            }
            BruckStage::Pack { hop, run } => match self.run(hop, run, PlanBuffer::Temporary(1)) {
                Some((from, into)) => {
                    steps.copy(Wait::Nothing, from, into);
                    BruckStage::Pack { hop, run: run + 1 }
                }
                None => BruckStage::Exchange { hop },
            },
            BruckStage::Exchange { hop } => {
                let len = Self::hopping(hop, size) as usize * block;
                steps.send(Wait::All, up(rank, hop, size), PlanBuffer::Temporary(1).span(0, len));
                steps.receive(
                    Wait::Nothing,
                    down(rank, hop, size),
                    PlanBuffer::Temporary(2).span(0, len),
                );
                steps.fence();
                BruckStage::Unpack { hop, run: 0 }
            }
            BruckStage::Unpack { hop, run } => match self.run(hop, run, PlanBuffer::Temporary(2)) {
                Some((into, from)) => {
                    steps.copy(Wait::Nothing, from, into);
                    BruckStage::Unpack { hop, run: run + 1 }
                }
                None => {
                    steps.fence();
                    if u64::from(hop) * 2 < u64::from(size) {
                        BruckStage::Pack { hop: hop * 2, run: 0 }
                    } else {
                        BruckStage::Deliver { distance: 0 }
                    }
                }
            },
            BruckStage::Deliver { distance } => {
                if distance == size {
                    return false;
                }
                let from = down(rank, distance, size) as usize * block;
                let travelled = PlanBuffer::Temporary(0).span(distance as usize * block, block);
                steps.copy(Wait::Nothing, travelled, PlanBuffer::Output.span(from, block));
                BruckStage::Deliver { distance: distance + 1 }
            }
        };
        true
    }
}
