//! The pool: memory in a sender's own segment through which its longer messages go to all its destinations.
//!
//! A pair ring's data ring is small, and so soon written again: each of its lines is then still in the receiver's
//! private cache, and storing to it costs a transfer between cores. The pool is large enough for its lines to have
//! fallen out to a cache that all cores share before their turn comes again; and, since one pool serves all
//! destinations, memory does not grow with their number. The *slots* of a message that lies in the pool go through the
//! receiver's ring as always: see the pool chunk of [`ring`](crate::ring).
//!
//! The pool is a ring of *blocks*, which lie side by side: a processor that reads a block to its end fetches some lines beyond
//! it in advance, and in a longer message these are the ones that it reads next.
//!
//! ```text
//! states    for each block 32 bits: the position after it when it was freed last, a multiple of 1024, plus holder
//! data      on a page of their own, the blocks
//! position  bytes before it since the start of all time; 32 bits, wraps
//! holder    0: nobody      the number of a process, plus 1: it has claimed the block      1023: the owner
//! ```
//!
//! Rules
//! 1. *One writer.* The segment's owner, through its one [`Pool`], writes to the blocks that it has taken, and who has claimed a
//!    block (rule 9) writes to that one. All memory is zero at the start.
//! 2. *Take.* The sender takes whole blocks for each message, in order, from the position `head` on; none that is in use
//!    since the lap before, which are those from `tail` on. Nothing is touched before its first use, so a pool that is
//!    never used takes no memory.
//! 3. *Hand over.* Which bytes hold which piece of a message is said by a slot of the destination's ring, or a cell of its inbox, whose
//!    publication (release) and observation (acquire) order the copies of both sides. A piece lies in one block, or takes
//!    blocks that lie side by side, the first from its beginning on and all but the last to their ends; it is the last piece in
//!    each of them. Only who is told of a block so reads it.
//! 4. *Free.* After its last look at a block the receiver stores the position after the block to the block's state
//!    (release). The slot of the last piece in a block says so.
//! 5. *Reclaim.* When the sender is short of room it moves `tail` over all blocks at whose state it finds (acquire) the
//!    position after the block. A state holds the position of another lap until then: a position returns only after
//!    several laps.
//! 6. *Nobody waits for the pool.* Blocks are freed in any order but reclaimed in that of the ring, so that one slow
//!    receiver can make the pool look full for all. A sender without room uses the destination's data ring, or
//!    announces the message; it must not wait for room, for no receiver knows that it should wake it.
//! 7. *Death.* What lies in the pool for a destination known to be dead (it will never run again), and what that one has
//!    claimed, its owner frees: [`Pool::forget`].
//! 8. *Streams keep together.* The blocks are parted in two, each part a ring of its own: after its last block comes its
//!    first one, in the next lap. A message of at least a quarter of a block lies in the first part, which is a quarter of the
//!    pool, if there is room, else in the other one as all others do. So a stream of them leaves the caches to the data that it
//!    moves. If the first part has sixteen blocks or more it is two halves, each such a ring, and no message lies in both: a message lies in
//!    the first half if that has room, and so do all of a stream whose receiver follows it; one that takes less than half of a block
//!    lies in the two by turns, as few of the lines of a block are used. Of long messages, of at least two blocks and a sixteenth of
//!    the pool, the sender does not run ahead of its receiver: [`Pool::room_beside`], if they have room in a half at all. A quarter
//!    of fewer than four blocks is no part. As long as copies to lines that are written again so
//!    soon are slow, and a stream is faster without ([`CopyChoice::spreads`]), these messages lie in the other
//!    part if there is room, senders of long ones wait for room there, and messages of more than 4 KiB that take at most half of
//!    a block lie further on in it in each lap of the pool, so that the lines of the part take turns: they are *spread*. A stream of
//!    long messages that its receiver stores past the caches leaves what it reads in its cache, and lines are written with less
//!    delay after all of them have fallen out: then the part has the blocks for streams as well, which come
//!    behind it, until enough was laid there after one ([`Pool::widen`]). It changes only when all of its blocks are reclaimed. Copies of
//!    messages of 513 bytes to 4 KiB in the other part say too little: whether they are laid as usual, spread, or streamed is tried
//!    ([`Pool::with_trials`]).
//! 9. *Answers.* The lines of a message are in the cache of the one who has read it last; wherever else that one writes,
//!    lines have to come from another core first. So it writes a message to the owner of the pool into the blocks of the one
//!    that it has freed last, if these are still free and it has claimed nothing there since (of many messages under way at
//!    once the lines had better fall out to the cache that all share): it claims them, each by a compare and swap (acquire)
//!    from free to its own number, and the slots say in whose pool the message lies. The owner has read the answer, and keeps
//!    the blocks for its next message to that process: their states still name it as the holder, and stay as they are. A
//!    process whose number is too high for a holder's claims nothing. Whatever else the owner does with them, it frees them
//!    before (rule 4): when it is short of room, and when others come back. So nobody keeps a block of another's pool in
//!    which nothing lies. What is written where its writer has read at least as much is *in place*.

mod answers;
mod area;
mod choice;
mod part;
#[cfg(all(test, not(loom)))]
mod tests;
mod touched;
mod trials;
mod verdict;
mod view;

use answers::Answers;
pub use answers::OwnView;
pub(crate) use area::{Again, in_blocks};
use area::{NOBODY, OWNER, held, holder};
pub use area::{PoolArea, PoolShape};
pub use choice::{CopyChoice, SHORTEST_MEASURED, SlowCopies};
pub(crate) use choice::{Spell, is_slow};
use part::Part;
use touched::Touched;
use trials::Trials;
pub(crate) use trials::Way;
pub use view::PoolView;

use crate::{bytes::BytesMut, sync::Ordering};
use std::sync::Arc;

/// The sending side: one in the life of a pool.
#[derive(Debug)]
pub struct Pool {
    /// The halves of the first part, for what rule 8 names, and the other part, for all.
    first: [Part; 2],
    rest: Part,
    /// How many blocks of the other part are to be taken before it need not have those for streams as well (rule 8).
    wide_for: u32,
    /// The half in which the last message was laid that lies in one.
    last_half: usize,
    /// For each block taken, for whom.
    destinations: Box<[u32]>,
    answers: Arc<Answers>,
    touched: Touched,
    /// How short messages had better be laid (rule 8); `None`: that is not tried.
    trials: Option<Trials>,
    area: PoolArea,
}

/// The time, for trials; a model has none.
fn now() -> u64 {
    #[cfg(not(loom))]
    return crate::clock::ticks();
    #[cfg(loom)]
    0
}

impl Pool {
    /// The sending side of a pool from which nobody has taken anything yet.
    pub fn new(area: PoolArea) -> Pool {
        let shape = area.shape;
        let destinations = vec![u32::MAX; shape.blocks()].into_boxed_slice();
        let (half, blocks) = (shape.first_half_blocks(), shape.first_blocks());
        let first = [Part::new(0, half, &shape), Part::new(half, blocks - half, &shape)];
        let rest = Part::new(blocks, shape.usual_blocks() - blocks, &shape);
        let touched = Touched::new(&area);
        let (wide_for, last_half, answers, trials) = (0, 0, Arc::default(), None);
        Pool { first, rest, wide_for, last_half, destinations, answers, touched, trials, area }
    }

    /// The same where it is tried how streams of short messages had better be laid (rule 8), again after so many laps at most.
    ///
    /// # Panics
    /// If that is 0.
    #[must_use]
    pub fn with_trials(mut self, after_laps: u32) -> Pool {
        assert!(after_laps > 0, "trials after 0 laps");
        let (largest_lap, block_bytes) = (self.area.lap(u32::MAX), self.area.shape.block_bytes);
        self.trials = Some(Trials::new(self.rest.blocks, block_bytes, largest_lap, after_laps));
        self
    }

    /// The pool's sizes.
    pub const fn shape(&self) -> PoolShape {
        self.area.shape
    }

    /// Says that long messages are a stream that its receiver stores past the caches: until `bytes` bytes have been laid in the larger
    /// part it had better have the blocks for streams as well (rule 8). It changes when nothing lies there.
    #[inline]
    pub fn widen(&mut self, bytes: u64) {
        if self.area.shape.streams {
            self.wide_for = u32::try_from(bytes / u64::from(self.area.shape.block_bytes)).unwrap_or(u32::MAX);
        }
    }

    /// Gives the larger part the blocks for streams, or takes them from it, if nothing lies there.
    #[cold]
    fn change_width(&mut self) {
        let Pool { rest, answers, area, wide_for, .. } = self;
        rest.reclaim(area);
        if rest.taken > 0 && answers.free_all(area) {
            rest.reclaim(area);
        }
        if rest.taken > 0 {
            return;
        }
        let shape = area.shape;
        if *wide_for == 0 {
            return rest.resize(shape.usual_blocks(), area);
        }
        // Memory of zeroes would be the state of a block that was freed at position 0.
        for block in shape.usual_blocks() as usize..shape.blocks() {
            area.state(block).store(OWNER, Ordering::Relaxed);
        }
        rest.resize(shape.blocks() as u32, area);
    }

    /// Whether the larger part has the blocks for streams as well.
    #[inline]
    const fn is_wide(&self) -> bool {
        self.rest.end > self.area.shape.bytes
    }

    /// Whether a message of `len` bytes could be taken now.
    #[inline]
    pub fn room_for(&mut self, len: usize) -> bool {
        len <= self.area.shape.max_message() && (self.has_room_in_first(len) || self.has_room_in_rest(len))
    }

    /// In how many blocks something lies for process `to` that it has not freed; where an answer of its lay (rule 9) nothing counts.
    #[cold]
    pub fn blocks_for(&self, to: u32) -> usize {
        let unread = |position: &u32| {
            let (block, end) = (self.area.block(*position), self.area.block_end(*position));
            self.destinations[block] == to && self.area.state(block).load(Ordering::Relaxed) & !OWNER != end
        };
        self.parts().flat_map(|part| part.taken(&self.area)).filter(unread).count()
    }

    /// Whether a piece of `len` bytes of a longer message to process `to` could be taken now without running far ahead of that
    /// process: a long piece must find room in its part, unless what is in its way there is for somebody else. `spreads`: that is
    /// the larger one.
    pub fn room_beside(&mut self, len: usize, to: u32, spreads: bool) -> bool {
        let shape = self.area.shape;
        if !shape.is_long(len) || self.area.blocks_of(len) > shape.first_half_blocks() as usize {
            return self.room_for(len);
        }
        self.has_room_in(spreads, len) || self.is_another_in(spreads, to) && self.has_room_in(!spreads, len)
    }

    fn has_room_in(&mut self, rest: bool, len: usize) -> bool {
        if rest { self.has_room_in_rest(len) } else { self.has_room_in_first(len) }
    }

    /// Whether something in a part is for another process than `to`.
    fn is_another_in(&self, rest: bool, to: u32) -> bool {
        let parts = if rest { std::slice::from_ref(&self.rest) } else { &self.first };
        let mut taken = parts.iter().flat_map(|part| part.taken(&self.area));
        taken.any(|position| self.destinations[self.area.block(position)] != to)
    }

    /// Whether a message of `len` bytes that starts at `position` lies in the larger part, and would if it were spread as copies are
    /// slow.
    #[inline]
    pub(crate) const fn lies_where_spread(&self, position: u32, len: usize) -> bool {
        let shape = self.area.shape;
        (shape.is_first(len) || shape.is_spread_if_slow(len)) && !self.is_in_first(position)
    }

    /// Whether a message of `len` bytes that starts at `position` and is not spread lies in lines that are written again soon, so
    /// that it had better be spread if they are slow to be copied to.
    #[inline]
    pub(crate) const fn is_reused(&self, position: u32, len: usize) -> bool {
        self.is_in_first(position) || self.area.shape.is_spread_if_slow(len)
    }

    /// Whether a message that may lie in the first part has room there.
    #[inline]
    fn has_room_in_first(&mut self, len: usize) -> bool {
        self.half_with_room(len).is_some()
    }

    /// The half of the first part in which a message is to lie, if it may lie there and has room.
    #[inline]
    fn half_with_room(&mut self, len: usize) -> Option<usize> {
        let Pool { first, answers, area, last_half, .. } = self;
        let blocks = area.blocks_of(len);
        // They are as long as each other, but for what does not divide.
        if !area.shape.is_first(len) || blocks > first[0].blocks.max(first[1].blocks) as usize {
            return None;
        }
        let begin = usize::from(*last_half == 0 && area.shape.takes_turns(len));
        let mut half_with_room = || {
            [begin, 1 - begin].into_iter().find(|half| {
                let half = &mut first[*half];
                blocks <= half.blocks as usize && half.has_room(blocks, area)
            })
        };
        half_with_room().or_else(|| if answers.free_all(area) { half_with_room() } else { None })
    }

    #[inline]
    fn has_room_in_rest(&mut self, len: usize) -> bool {
        if self.is_wide() != (self.wide_for > 0) {
            self.change_width();
        }
        let Pool { rest, answers, area, .. } = self;
        let blocks = area.blocks_of(len);
        rest.has_room(blocks, area) || answers.free_all(area) && rest.has_room(blocks, area)
    }

    /// Reclaims what has been freed, and says how many bytes there are to take.
    #[cold]
    pub fn free_bytes(&mut self) -> usize {
        let Pool { first, rest, answers, area, .. } = self;
        answers.free_all(area);
        first.iter_mut().chain([&mut *rest]).for_each(|part| part.reclaim(area));
        let free: u32 = self.parts().map(|part| part.blocks - part.taken).sum();
        free as usize * self.area.shape.block_bytes as usize
    }

    /// Bytes of all parts as they are now.
    pub fn bytes(&self) -> usize {
        let blocks: u32 = self.parts().map(|part| part.blocks).sum();
        blocks as usize * self.area.shape.block_bytes as usize
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.first.iter().chain([&self.rest])
    }

    /// Frees what lies here for process `to`, *which must be known to be dead*, and what it has claimed (rule 7).
    pub fn forget(&mut self, to: u32) {
        self.answers.free_all(&self.area);
        for position in self.parts().flat_map(|part| part.taken(&self.area)) {
            let (block, end) = (self.area.block(position), self.area.block_end(position));
            let state = self.area.state(block);
            // Acquire: who frees a block has read it.
            let found = state.load(Ordering::Acquire);
            let is_of_this_lap = found & !OWNER == end && found != held(end, OWNER);
            let was_its = if is_of_this_lap {
                holder(to).is_some_and(|its| found == held(end, its))
            } else {
                self.destinations[block] == to
            };
            if was_its {
                state.store(held(end, NOBODY), Ordering::Release);
            }
        }
    }

    /// The receiving side for the answers of process `from` that lie here (rule 9).
    pub fn own_view(&self, from: u32) -> OwnView {
        OwnView::new(from, self.answers.clone(), self.area.clone())
    }

    /// Whether blocks are kept in which an answer of process `to` came (rule 9).
    pub fn has_answer_of(&self, to: u32) -> bool {
        self.answers.has(to)
    }

    /// The blocks in which an answer of process `to` came, for a message of `len` bytes to it (rule 9).
    #[inline]
    pub(crate) fn take_back(&mut self, len: usize, to: u32) -> Option<Again> {
        let span = self.answers.take(len, to, &self.area)?;
        for at in 0..span.blocks {
            let position = span.first.wrapping_add(at * self.area.shape.block_bytes);
            self.destinations[self.area.block(position)] = to;
        }
        Some(self.area.again(span, len))
    }

    /// Takes the blocks of a message of `len` bytes for process `to`, for which there must be room; the position of the first
    /// (rules 2 and 8). `spreads`: those of the larger part, if it has room, and further on in a block in each lap.
    #[inline]
    pub(crate) fn take(&mut self, len: usize, to: u32, spreads: bool) -> u32 {
        let blocks = self.area.blocks_of(len);
        let half = self.half_with_room(len).filter(|_| !(spreads && self.has_room_in_rest(len)));
        if let Some(half) = half {
            self.last_half = half;
        }
        let start = self.take_in(half, blocks, to);
        let moves = spreads && half.is_none() && self.area.shape.is_spread_if_slow(len);
        if moves { start + self.area.spread_offset(start, len) } else { start }
    }

    /// Takes so many blocks of a half of the first part, or of the other part; the position of the first.
    #[inline]
    fn take_in(&mut self, half: Option<usize>, blocks: usize, to: u32) -> u32 {
        let Pool { first, rest, destinations, area, wide_for, .. } = self;
        let part = match half {
            Some(half) => &mut first[half],
            None => {
                *wide_for = wide_for.saturating_sub(blocks as u32);
                rest
            }
        };
        let start = part.head;
        for _ in 0..blocks {
            debug_assert!(part.taken < part.blocks);
            destinations[area.block(part.head)] = to;
            part.head = part.after(part.head, area);
            part.taken += 1;
        }
        start
    }

    /// Whether ways to lay a message are tried (rule 8).
    #[inline]
    pub(crate) const fn is_short(&self, len: usize) -> bool {
        self.area.shape.is_short(len)
    }

    /// Takes the block of a short message for process `to`, for which there must be room. Where the message lies, and how it had better
    /// be laid, if that is known, or tried (rule 8).
    #[inline]
    pub(crate) fn take_short(&mut self, len: usize, to: u32) -> (u32, Option<Way>) {
        let start = self.take_in(None, 1, to);
        let lap = self.area.lap(start);
        let way = self.trials.as_mut().and_then(|trials| trials.lay(len, lap, now));
        match way {
            Some(Way::Spread) => (start + self.area.spread_offset(start, len), way),
            _ => (start, way),
        }
    }

    /// A message of `len` bytes, for which there was no room here, went another way.
    #[inline]
    pub fn went_elsewhere(&mut self, len: usize) {
        if let Some(trials) = &mut self.trials
            && self.area.shape.is_short(len)
        {
            trials.went_elsewhere(len);
        }
    }

    /// Takes the blocks of a message of `len` bytes for process `to`, for which there must be room ([`Pool::room_for`]), and has
    /// `fill` write what begins at some byte of it. Where it lies: the positions of two pieces and their bytes, of which the
    /// second one may have none. The receiver frees each ([`PoolView::free`]).
    pub fn lay(&mut self, len: usize, to: u32, mut fill: impl FnMut(usize, BytesMut<'_>)) -> [(u32, u32); 2] {
        let start = self.take(len, to, false);
        // A pool has 2^30 bytes at most.
        let first = (len as u32).min(self.side_by_side(start));
        fill(0, self.piece(start, first as usize));
        let rest = len as u32 - first;
        if rest == 0 {
            return [(start, first), (start, 0)];
        }
        let next = self.after(start.wrapping_add(first - 1));
        fill(first as usize, self.piece(next, rest as usize));
        [(start, first), (next, rest)]
    }

    /// Frees what [`Pool::lay`] has laid, of which nobody was told.
    pub fn clear(&mut self, pieces: [(u32, u32); 2]) {
        for (position, bytes) in pieces {
            if bytes > 0 {
                self.area.free(self.area.span(position, bytes as usize));
            }
        }
    }

    /// The position of the block after the one in which `position` lies, in a message of several.
    #[inline]
    pub(crate) const fn after(&self, position: u32) -> u32 {
        self.part_at(position).after(position, &self.area)
    }

    /// How many bytes from `position` on lie side by side before the message goes on at the beginning of its part.
    #[inline]
    pub(crate) const fn side_by_side(&self, position: u32) -> u32 {
        self.part_at(position).end - self.area.at(position) as u32
    }

    /// The part in which `position` lies.
    #[inline]
    const fn part_at(&self, position: u32) -> &Part {
        let ([first, second], at) = (&self.first, self.area.at(position) as u32);
        // Parts lie side by side.
        if at >= second.end {
            &self.rest
        } else if at < first.end {
            first
        } else {
            second
        }
    }

    /// Whether `position` lies in the first part.
    #[inline]
    pub(crate) const fn is_in_first(&self, position: u32) -> bool {
        (self.area.at(position) as u32) < self.first[1].end
    }

    /// `len` bytes at `position` to write: of blocks that were taken and whose slot is not yet published.
    #[inline]
    pub(crate) fn piece(&mut self, position: u32, len: usize) -> BytesMut<'_> {
        // SAFETY: taken, says the caller, which alone has the pool.
        unsafe { self.area.piece(position, len) }
    }

    /// Notes that the `len` bytes at `position` are copied, and timed. Whether the time of that says something about the caches:
    /// not while pages are made.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn note_use(&mut self, position: u32, len: usize) -> bool {
        self.touched.note(&self.area, position, len)
    }
}
