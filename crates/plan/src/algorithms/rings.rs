//! Allreductions around a ring, and local reductions after an allgather.

use super::Rounds;
use crate::blocks::Cut;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};
use crate::shape::{Segments, VectorParts, down, up};

/// Parts of the vector pass once around a ring and collect all contributions, then the results pass
/// around. For long vectors and commutative operations.
#[derive(Clone, Debug)]
pub(crate) struct AllreduceRing {
    me: TeamMember,
    parts: VectorParts,
    in_place: bool,
    round: u32,
    reduced: Mark,
}

impl AllreduceRing {
    pub(crate) fn new(me: TeamMember, count: usize, in_place: bool) -> Self {
        let parts = VectorParts { count, parts: me.size };
        Self { me, parts, in_place, round: 0, reduced: Mark::NONE }
    }

    pub(crate) fn temporary(&self) -> usize {
        if self.in_place && self.me.size > 1 { self.parts.longest() } else { 0 }
    }
}

impl Rounds for AllreduceRing {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let (above, below) = (up(rank, 1, size), down(rank, 1, size));
        let part = |place: PlanBuffer, index: u32| self.parts.span(place, index, 1);
        if size == 1 {
            if !self.in_place {
                steps.copy(Wait::Nothing, part(PlanBuffer::Input, 0), part(PlanBuffer::Output, 0));
            }
            return false;
        }
        let round = self.round;
        self.round += 1;
        if round < size - 1 {
            let (give, take) = (down(rank, round, size), down(rank, round + 1, size));
            let first = round == 0 && !self.in_place;
            let given = part(if first { PlanBuffer::Input } else { PlanBuffer::Output }, give);
            let result = part(PlanBuffer::Output, take);
            steps.fence();
            if self.in_place {
                let coming = PlanBuffer::Temporary(0).span(0, result.len);
                let received = steps.receive(Wait::Nothing, below, coming);
                steps.send(Wait::One(self.reduced), above, given);
                self.reduced = steps.reduce(Wait::One(received), coming, result);
            } else {
                let received = steps.receive(Wait::Nothing, below, result);
                steps.send(Wait::One(self.reduced), above, given);
                self.reduced =
                    steps.reduce(Wait::One(received), part(PlanBuffer::Input, take), result);
            }
            return true;
        }
        let round = round - (size - 1);
        if round == size - 1 {
            return false;
        }
        let (give, take) = (down(up(rank, 1, size), round, size), down(rank, round, size));
        steps.fence();
        steps.receive(Wait::Nothing, below, part(PlanBuffer::Output, take));
        steps.send(Wait::One(self.reduced), above, part(PlanBuffer::Output, give));
        true
    }
}

/// The first half of a ring allreduction in segments: parts of the vector pass once around and
/// collect all contributions, while the receive of the next segment is posted. Part `r` ends at
/// rank `r`, in the output. For commutative operations.
#[derive(Clone, Debug)]
pub(crate) struct SegmentedAllreduceRing {
    me: TeamMember,
    parts: VectorParts,
    segment: usize,
    in_place: bool,
    round: u32,
    at: usize,
    coming: Mark,
    reduced: Mark,
}

impl SegmentedAllreduceRing {
    /// `segment` is the length of a segment; 0: one segment.
    pub(crate) fn new(me: TeamMember, count: usize, segment: usize, in_place: bool) -> Self {
        let parts = VectorParts { count, parts: me.size };
        let segment = Segments::new(parts.longest(), segment).longest();
        let none = Mark::NONE;
        Self { me, parts, segment, in_place, round: 0, at: 0, coming: none, reduced: none }
    }

    /// Units of the temporary: two segments.
    pub(crate) fn temporary(&self) -> usize {
        if self.in_place && self.me.size > 1 { 2 * self.segment } else { 0 }
    }

    /// The number of segments of the longest part; shorter parts have empty segments.
    fn segments(&self) -> usize {
        self.parts.longest().div_ceil(self.segment)
    }

    fn piece(&self, place: PlanBuffer, part: u32, at: usize) -> Span {
        let part = self.parts.span(place, part, 1);
        let start = (at * self.segment).min(part.len);
        part.part(start, self.segment.min(part.len - start))
    }

    fn taken(&self, round: u32) -> u32 {
        down(down(self.me.rank, round, self.me.size), 2, self.me.size)
    }

    fn arrival(&self, round: u32, at: usize) -> Span {
        let result = self.piece(PlanBuffer::Output, self.taken(round), at);
        if !self.in_place {
            return result;
        }
        let slot = (round as usize % 2 * self.segments() + at) % 2;
        PlanBuffer::Temporary(0).span(slot * self.segment, result.len)
    }

    fn post_receive(&self, steps: &mut Burst, round: u32, at: usize) -> Mark {
        let (round, at) = if at == self.segments() { (round + 1, 0) } else { (round, at) };
        if round + 1 >= self.me.size {
            return Mark::NONE;
        }
        let below = down(self.me.rank, 1, self.me.size);
        steps.receive(Wait::One(self.reduced), below, self.arrival(round, at))
    }
}

impl Rounds for SegmentedAllreduceRing {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.me;
        let (round, at) = (self.round, self.at);
        if size == 1 {
            if !self.in_place {
                steps.copy(
                    Wait::Nothing,
                    self.parts.span(PlanBuffer::Input, 0, 1),
                    self.parts.span(PlanBuffer::Output, 0, 1),
                );
            }
            return false;
        }
        let received =
            if (round, at) == (0, 0) { self.post_receive(steps, 0, 0) } else { self.coming };
        let first = round == 0 && !self.in_place;
        let source = if first { PlanBuffer::Input } else { PlanBuffer::Output };
        let given = self.piece(source, down(down(rank, round, size), 1, size), at);
        steps.send(Wait::One(self.reduced), up(rank, 1, size), given);
        self.coming = self.post_receive(steps, round, at + 1);
        let (arrival, result) =
            (self.arrival(round, at), self.piece(PlanBuffer::Output, self.taken(round), at));
        let left = if self.in_place {
            arrival
        } else {
            self.piece(PlanBuffer::Input, self.taken(round), at)
        };
        let reduced = steps.reduce(Wait::Two(received, self.reduced), left, result);
        if reduced != Mark::NONE {
            self.reduced = reduced;
        }
        (self.round, self.at) =
            if at + 1 == self.segments() { (round + 1, 0) } else { (round, at + 1) };
        self.round + 1 < size
    }
}

/// Combines contributions in a buffer of this rank one after another, from the last to the first.
#[derive(Clone, Debug)]
pub(crate) struct LocalReduce {
    all: Cut,
    from: PlanBuffer,
    left: u32,
    started: bool,
    reduced: Mark,
}

impl LocalReduce {
    pub(crate) fn new(size: u32, count: usize, from: PlanBuffer) -> Self {
        Self { all: Cut::Even(count), from, left: size - 1, started: false, reduced: Mark::NONE }
    }
}

impl Rounds for LocalReduce {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let contribution = self.all.block(self.from, self.left);
        let result = PlanBuffer::Output.span(0, contribution.len);
        if !self.started {
            self.started = true;
            self.reduced = steps.copy(Wait::All, contribution, result);
        } else {
            self.reduced = steps.reduce(Wait::One(self.reduced), contribution, result);
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }
}
