//! A broadcast in two halves (Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations").

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::Member;
use crate::ir::{Place, Span};
use crate::shape::{Segments, down, up};
use crate::trees::Tree;

/// The ranks but the root form two binary trees. The root sends the first half of the buffer down the one and the second
/// half down the other, in segments; then each rank swaps halves with the one at the same place of the other tree. If
/// the first tree has a rank more, that gets the second half from the root.
#[derive(Clone, Debug)]
pub(crate) struct SplitBinary {
    me: Member,
    root: u32,
    /// Where the second half begins.
    middle: usize,
    bytes: usize,
    segment: usize,
    at: usize,
    child: u32,
    here: Mark,
    coming: Mark,
}

/// Where a rank other than the root is.
#[derive(Clone, Copy, Debug)]
struct Seat {
    /// Whether it is in the second tree.
    second: bool,
    /// Its number in its tree.
    index: u32,
}

impl SplitBinary {
    /// `segment` is the length of a segment; 0 stands for one.
    pub(crate) fn new(me: Member, root: u32, bytes: usize, segment: usize) -> Self {
        let none = Mark::NONE;
        let middle = bytes.div_ceil(2);
        Self { me, root, middle, bytes, segment, at: 0, child: 0, here: none, coming: none }
    }

    /// How many ranks a tree has.
    fn members(&self, second: bool) -> u32 {
        let others = self.me.size - 1;
        if second { others / 2 } else { others.div_ceil(2) }
    }

    /// Where this rank is; none for the root.
    fn seat(&self) -> Option<Seat> {
        let v = down(self.me.rank, self.root, self.me.size).checked_sub(1)?;
        let first = self.members(false);
        Some(if v < first {
            Seat { second: false, index: v }
        } else {
            Seat { second: true, index: v - first }
        })
    }

    fn rank(&self, seat: Seat) -> u32 {
        let v = if seat.second { self.members(false) + seat.index } else { seat.index };
        up(v + 1, self.root, self.me.size)
    }

    fn half(&self, second: bool) -> Span {
        let whole = Place::Output.span(0, self.bytes);
        if second { whole.part(self.middle, self.bytes - self.middle) } else { whole.part(0, self.middle) }
    }

    /// A segment of a half; none beyond its end.
    fn segment(&self, second: bool, index: usize) -> Option<Span> {
        let half = self.half(second);
        let segments = Segments::new(half.len, self.segment);
        (index < segments.how_many()).then(|| {
            let there = segments.span(Place::Output, index);
            half.part(there.start, there.len)
        })
    }

    fn serve(&mut self, steps: &mut Burst) -> bool {
        let halves = [false, true].map(|second| (second, self.segment(second, self.at)));
        if halves[0].1.is_none() {
            // What the last rank of the longer tree misses.
            let unpaired = self.members(false) > self.members(true);
            if unpaired {
                let last = Seat { second: false, index: self.members(false) - 1 };
                steps.send(Wait::Nothing, self.rank(last), self.half(true));
            }
            return false;
        }
        for (second, segment) in halves {
            if let Some(segment) = segment
                && self.members(second) > 0
            {
                steps.send(Wait::Nothing, self.rank(Seat { second, index: 0 }), segment);
            }
        }
        self.at += 1;
        true
    }

    fn ask(&self, steps: &mut Burst, seat: Seat, index: usize) -> Mark {
        let from = match seat.index {
            0 => self.root,
            index => {
                let members = self.members(seat.second);
                self.rank(Seat { index: Tree::Binary.parent(index, members), ..seat })
            }
        };
        self.segment(seat.second, index)
            .map_or(Mark::NONE, |segment| steps.receive(Wait::Nothing, from, segment))
    }
}

impl Rounds for SplitBinary {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let Some(seat) = self.seat() else { return self.serve(steps) };
        let members = self.members(seat.second);
        let Some(segment) = self.segment(seat.second, self.at) else {
            let (mine, other) = (self.half(seat.second), self.half(!seat.second));
            steps.fence();
            if seat.index < self.members(!seat.second) {
                let peer = self.rank(Seat { second: !seat.second, ..seat });
                steps.receive(Wait::Nothing, peer, other);
                steps.send(Wait::Nothing, peer, mine);
            } else {
                steps.receive(Wait::Nothing, self.root, other);
            }
            return false;
        };
        if self.child == 0 {
            self.here = if self.at == 0 { self.ask(steps, seat, 0) } else { self.coming };
            self.coming = self.ask(steps, seat, self.at + 1);
        }
        if self.child < Tree::Binary.children(seat.index, members) {
            let index = Tree::Binary.child(seat.index, self.child, members);
            steps.send(Wait::One(self.here), self.rank(Seat { index, ..seat }), segment);
            self.child += 1;
        } else {
            (self.at, self.child) = (self.at + 1, 0);
        }
        true
    }
}
