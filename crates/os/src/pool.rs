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
//!    moves; of long ones, of at least two blocks and a sixteenth of the pool, if its sender does not run ahead of its receiver:
//!    [`Pool::room_beside`]. A quarter of fewer than four blocks is no part. As long as copies to lines that are written again so
//!    soon are slow ([`CopyChoice::spreads`]), of which so many lie in the receiver's private cache, these messages lie in the other
//!    part if there is room, senders of long ones wait for room there, and messages of more than 4 KiB that take at most half of
//!    a block lie further on in it in each lap of the pool, so that the lines of the part take turns: they are *spread*. Copies of
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
mod choice;
mod trials;

pub use answers::OwnView;
pub use choice::{CopyChoice, SHORTEST_MEASURED, SlowCopies};
pub(crate) use choice::{Spell, is_slow};
pub(crate) use trials::Way;

use answers::Answers;
use trials::{LONGEST_SHORT, SHORTER, Trials};

use crate::{
    bytes::{Bytes, BytesMut},
    line::{Keep, Touch, Watched, heap_data},
    sync::{AtomicU32, Ordering},
};
use std::{ptr::NonNull, sync::Arc};

/// The sizes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Bytes of data: a power of two from 4 KiB to 1 GiB; 0: there is no pool.
    pub bytes: u32,
    /// Bytes of a block: a power of two, 1 KiB to a quarter of the pool.
    pub block_bytes: u32,
}

/// The smallest block in bytes.
const SMALLEST: u32 = 1 << 10;

/// States and data begin on pages of their own.
const PAGE: usize = 4096;

/// How many blocks, or pieces, of `each` bytes a number of bytes takes. `each` is a power of two that the compiler does not know: a
/// message asks this some ten times, and would divide.
#[inline(always)]
pub(crate) const fn in_blocks(bytes: usize, each: u32) -> usize {
    debug_assert!(each.is_power_of_two());
    (bytes + (each as usize - 1)) >> each.trailing_zeros()
}

impl PoolShape {
    /// What is wrong with these sizes, if anything.
    pub fn check(&self) -> Result<(), String> {
        let PoolShape { bytes, block_bytes } = *self;
        if bytes == 0 {
            return Ok(());
        }
        if !bytes.is_power_of_two() || !(4 * SMALLEST..=1 << 30).contains(&bytes) {
            return Err(format!(
                "a pool of {bytes} bytes: the number must be 0 or a power of two from 4096 to 2^30"
            ));
        }
        if !block_bytes.is_power_of_two() || !(SMALLEST..=bytes / 4).contains(&block_bytes) {
            return Err(format!(
                "pool blocks of {block_bytes} bytes: the number must be a power of two from {SMALLEST} to {} (a quarter of the pool)",
                bytes / 4
            ));
        }
        Ok(())
    }

    /// The longest message that may go through the pool, in bytes: half of it, so that the next one can be written
    /// while this one is read.
    pub const fn max_message(&self) -> usize {
        self.bytes as usize / 2
    }

    /// Bytes of memory a pool takes.
    pub const fn area_bytes(&self) -> usize {
        self.data_offset() + self.bytes as usize
    }

    /// Blocks of the first part (rule 8).
    const fn first_blocks(&self) -> u32 {
        let quarter = self.blocks() as u32 / 4;
        if quarter < 4 { 0 } else { quarter }
    }

    /// Whether a message lies in the first part if it can (rule 8).
    const fn is_first(&self, len: usize) -> bool {
        len >= self.block_bytes as usize / 4
    }

    /// Whether a message is long, so that its sender does not run ahead of its receiver (rule 8).
    pub(crate) const fn is_long(&self, len: usize) -> bool {
        len >= 2 * self.block_bytes as usize && len >= self.bytes as usize / 16
    }

    /// How far on in its block a message lies in the next lap of the pool if it is spread (rule 8); 0: it stays.
    const fn step(&self, len: usize) -> u32 {
        if len > self.block_bytes as usize / 2 { 0 } else { (len as u32).next_power_of_two() }
    }

    /// Whether a message lies further on in its block in each lap as long as copies to lines that are written again soon are slow
    /// (rule 8).
    const fn is_spread_if_slow(&self, len: usize) -> bool {
        len > LONGEST_SHORT && self.step(len) > 0
    }

    /// Whether ways to lay a message are tried (rule 8).
    const fn is_short(&self, len: usize) -> bool {
        len > SHORTER && len <= LONGEST_SHORT && !self.is_first(len)
    }

    const fn blocks(&self) -> usize {
        if self.bytes == 0 { 0 } else { in_blocks(self.bytes as usize, self.block_bytes) }
    }

    const fn data_offset(&self) -> usize {
        (self.blocks() * size_of::<u32>()).next_multiple_of(PAGE)
    }
}

/// The memory of a pool, in a segment or on the heap. Cloning it gives another view of the same pool.
#[derive(Clone, Debug)]
pub struct PoolArea {
    states: NonNull<AtomicU32>,
    data: NonNull<u8>,
    shape: PoolShape,
    watched: Watched,
    _keep: Keep,
}

// SAFETY: the memory behind the pointers is atomics, and bytes that the protocol hands from the sender to one receiver
// and back (rules 2 to 5); `_keep` keeps it mapped.
unsafe impl Send for PoolArea {}
// SAFETY: as above; nothing can be done through a shared `PoolArea` but to clone it.
unsafe impl Sync for PoolArea {}

impl PoolArea {
    /// A pool of zeroes on the heap, for threads of one process.
    ///
    /// # Panics
    /// If [`PoolShape::check`] finds something wrong, or the pool has no bytes.
    pub fn on_heap(shape: PoolShape) -> PoolArea {
        if let Err(wrong) = shape.check() {
            panic!("{wrong}");
        }
        assert!(shape.bytes > 0, "a pool of no bytes");
        let states: Arc<[AtomicU32]> = (0..shape.blocks()).map(|_| AtomicU32::new(0)).collect();
        let data = heap_data(shape.bytes as usize);
        PoolArea {
            states: NonNull::from(&states[0]),
            data: NonNull::from(&data[..]).cast(),
            shape,
            watched: Watched::new(shape.bytes as usize),
            _keep: Arc::new((states, data)),
        }
    }

    /// A pool at `at`.
    ///
    /// # Safety
    /// [`PoolShape::area_bytes`] bytes at `at`, aligned to a page, must be zero or a pool of this shape, and stay mapped
    /// and writable while `keep` lives. The shape must have passed its check and have bytes.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(at: NonNull<u8>, shape: PoolShape, keep: Keep) -> Self {
        debug_assert!(shape.check().is_ok() && shape.bytes > 0);
        // SAFETY: the data lie inside the `area_bytes()` which the caller vouches for.
        let data = unsafe { at.add(shape.data_offset()) };
        PoolArea { states: at.cast(), data, shape, watched: Watched::new(shape.bytes as usize), _keep: keep }
    }

    /// The pool's sizes.
    pub const fn shape(&self) -> PoolShape {
        self.shape
    }

    /// Where `position` lies in the data.
    #[inline(always)]
    const fn at(&self, position: u32) -> usize {
        (position & (self.shape.bytes - 1)) as usize
    }

    /// Where `position` lies in its block.
    #[inline(always)]
    const fn offset(&self, position: u32) -> usize {
        (position & (self.shape.block_bytes - 1)) as usize
    }

    /// The number of the block in which `position` lies.
    #[inline(always)]
    const fn block(&self, position: u32) -> usize {
        self.at(position) >> self.shape.block_bytes.trailing_zeros()
    }

    /// The state of that block.
    #[inline(always)]
    fn state(&self, block: usize) -> &AtomicU32 {
        debug_assert!(block < self.shape.blocks());
        // SAFETY: `block` reduces all positions to the numbers of blocks that there are; mapped while `_keep` lives.
        unsafe { self.states.add(block).as_ref() }
    }

    /// Whether a piece of `len` bytes may lie at `position` (rule 3).
    #[inline(always)]
    const fn holds(&self, position: u32, len: usize) -> bool {
        let offset = self.offset(position);
        len <= self.shape.block_bytes as usize - offset
            || offset == 0 && len <= self.shape.bytes as usize - self.at(position)
    }

    /// Where a message of `len` bytes lies in the block that begins at `position` if it is spread (rule 8).
    #[inline]
    const fn spread_offset(&self, position: u32, len: usize) -> u32 {
        // Blocks side by side begin with different lines, which lie in different sets of the caches.
        let turn = (position >> self.shape.bytes.trailing_zeros()).wrapping_add(self.block(position) as u32);
        turn.wrapping_mul(self.shape.step(len)) & (self.shape.block_bytes - 1)
    }

    /// The position after the block in which `position` lies.
    #[inline(always)]
    const fn block_end(&self, position: u32) -> u32 {
        (position | (self.shape.block_bytes - 1)).wrapping_add(1)
    }

    /// How many blocks a message takes.
    #[inline]
    const fn blocks_of(&self, len: usize) -> usize {
        if len == 0 { 1 } else { in_blocks(len, self.shape.block_bytes) }
    }

    /// The `len` bytes at a position, to write.
    ///
    /// # Safety
    /// The caller has taken or claimed the blocks, and has not yet published the slot that says what lies there.
    #[inline]
    unsafe fn piece(&self, position: u32, len: usize) -> BytesMut<'_> {
        let at = self.at(position);
        debug_assert!(self.holds(position, len));
        self.watched.touch(at, len, Touch::Write);
        // SAFETY: inside the data, as a piece lies in blocks side by side, and mapped while `self` lives. Nobody else uses
        // these bytes: their last reader has freed the blocks (rules 5 and 9), the next one knows of them only by the slot.
        unsafe { BytesMut::from_raw(self.data.as_ptr().add(at), len) }
    }

    /// The `len` bytes of a piece at `position`; none if no piece lies there (rule 3).
    #[inline]
    fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
        if !self.holds(position, len) {
            return None;
        }
        let at = self.at(position);
        self.watched.touch(at, len, Touch::Read);
        // SAFETY: inside the data, mapped while `self` lives.
        Some(unsafe { Bytes::from_raw(self.data.as_ptr().add(at), len) })
    }

    /// The blocks in which `len` bytes at a position lie.
    #[inline]
    const fn span(&self, position: u32, len: usize) -> Span {
        let block_bytes = self.shape.block_bytes;
        let first = position & !(block_bytes - 1);
        let end = self.offset(position) + len;
        let blocks = self.blocks_of(end) as u32;
        Span { first, blocks, last_bytes: end as u32 - (blocks - 1) * block_bytes, whole: blocks - 1 }
    }

    /// The states of the blocks of a span, each with the position after the block.
    #[inline]
    fn states(&self, span: Span) -> impl Iterator<Item = (&AtomicU32, u32)> {
        let ends = (0..span.blocks)
            .map(move |at| self.block_end(span.first.wrapping_add(at * self.shape.block_bytes)));
        ends.map(|end| (self.state(self.block(end.wrapping_sub(1))), end))
    }

    /// Rule 4.
    #[inline]
    fn free(&self, span: Span) {
        self.states(span).for_each(|(state, end)| state.store(held(end, NOBODY), Ordering::Release));
    }

    /// Rule 9: claims free blocks for a holder, all or none.
    #[inline]
    fn claim(&self, span: Span, holder: u32) -> bool {
        let missed = self.states(span).position(|(state, end)| !change_free(state, end, holder));
        if let Some(claimed) = missed {
            self.free(Span { blocks: claimed as u32, ..span });
        }
        missed.is_none()
    }

    /// The blocks of both spans if the second one comes behind the first one, in the same part and without going back to its
    /// beginning; else those of the second one.
    #[inline]
    fn join(&self, first: Option<Span>, second: Span) -> Span {
        let block = self.block(second.first) as u32;
        match first {
            Some(Span { first, blocks, last_bytes, whole })
                if first.wrapping_add(blocks * self.shape.block_bytes) == second.first
                    && block != 0
                    && block != self.shape.first_blocks() =>
            {
                let before = if last_bytes == self.shape.block_bytes { whole + 1 } else { 0 };
                Span { first, blocks: blocks + second.blocks, whole: second.whole + before, ..second }
            }
            _ => second,
        }
    }

    /// The blocks of a span for a message of `len` bytes, which takes all of them.
    #[inline]
    const fn again(&self, span: Span, len: usize) -> Again {
        Again { first: span.first, is_in_place: span.has_read(len, self.shape.block_bytes) }
    }

    /// The last blocks of a span, enough for `len` bytes, and what is left before them; `None`: there are not so many.
    #[inline]
    fn split_last(&self, span: Span, len: usize) -> Option<(Span, Option<Span>)> {
        let blocks = self.blocks_of(len) as u32;
        let left = span.blocks.checked_sub(blocks)?;
        let first = span.first.wrapping_add(left * self.shape.block_bytes);
        // What is left is freed.
        Some((Span { first, blocks, ..span }, (left > 0).then_some(Span { blocks: left, ..span })))
    }
}

/// Blocks that lie side by side.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The position of the first one.
    first: u32,
    blocks: u32,
    /// How many bytes from the beginning of the last one on were read here, and how many blocks just before it were read to
    /// their ends. Of a message that began further on, which is spread, that is too much: its answer is taken for in place.
    last_bytes: u32,
    whole: u32,
}

impl Span {
    /// Whether a message of `len` bytes that takes as many blocks lies where as much was read.
    #[inline]
    const fn has_read(&self, len: usize, block_bytes: u32) -> bool {
        let in_last = len as u32 - (self.blocks - 1) * block_bytes;
        in_last <= self.last_bytes && self.blocks - 1 <= self.whole
    }
}

/// Blocks for a message where another one has lain (rule 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    /// The position of the first one.
    pub(crate) first: u32,
    /// Whether this process has read as many bytes there.
    pub(crate) is_in_place: bool,
}

/// The holders of a block that are no process that has claimed it.
const NOBODY: u32 = 0;
const OWNER: u32 = SMALLEST - 1;

/// Process `number` as a holder, if it can be one.
const fn holder(number: u32) -> Option<u32> {
    if number < OWNER - 1 { Some(number + 1) } else { None }
}

/// The state of a block that was freed at this position, a multiple of [`SMALLEST`], and has this holder since.
const fn held(end: u32, holder: u32) -> u32 {
    end | holder
}

/// Gives a free block a holder. Whether it was free.
#[inline]
fn change_free(state: &AtomicU32, end: u32, holder: u32) -> bool {
    let free = held(end, NOBODY);
    state.compare_exchange(free, held(end, holder), Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// The sending side: one in the life of a pool.
#[derive(Debug)]
pub struct Pool {
    /// The first part, for what rule 8 names, and the other one, for all.
    first: Part,
    rest: Part,
    /// For each block taken, for whom.
    destinations: Box<[u32]>,
    answers: Arc<Answers>,
    touched: Touched,
    /// How short messages had better be laid (rule 8); `None`: that is not tried.
    trials: Option<Trials>,
    area: PoolArea,
}

/// The pages of the pool to or from which this process has copied in a way that is timed, a bit for each: others may have no memory
/// here yet, and a copy there takes the time in which the kernel makes them.
#[derive(Clone, Debug)]
struct Touched(Box<[u64]>);

impl Touched {
    fn new(area: &PoolArea) -> Touched {
        let pages = (area.shape.bytes as usize).div_ceil(PAGE);
        Touched(vec![0; pages.div_ceil(64)].into_boxed_slice())
    }

    /// Notes a copy that is timed, of the `len` bytes at a position. Whether there was one of all of their pages before.
    #[inline]
    fn note(&mut self, area: &PoolArea, position: u32, len: usize) -> bool {
        let at = area.at(position);
        let (mut page, last) = (at / PAGE, (at + len.max(1) - 1) / PAGE);
        let mut all = true;
        while page <= last {
            let word = page / 64;
            // Those of this word: from `page` to its end, or to `last`.
            let until = (last - word * 64).min(63);
            let pages = (!0 << (page % 64)) & (!0 >> (63 - until));
            all &= self.0[word] & pages == pages;
            self.0[word] |= pages;
            page = (word + 1) * 64;
        }
        all
    }
}

/// A part of the blocks (rule 8).
#[derive(Clone, Debug)]
struct Part {
    /// How many there are, and how many are taken and not yet reclaimed.
    blocks: u32,
    taken: u32,
    /// The positions of the first block that may be taken, and of the first one that is not yet reclaimed.
    head: u32,
    tail: u32,
    /// The position after the part in the first lap, and how far it is from there to the beginning of the part in the next one.
    end: u32,
    back: u32,
}

impl Part {
    /// The part of `blocks` blocks from number `first` on.
    const fn new(first: u32, blocks: u32, shape: &PoolShape) -> Part {
        let (head, len) = (first * shape.block_bytes, blocks * shape.block_bytes);
        Part { blocks, taken: 0, head, tail: head, end: head + len, back: shape.bytes - len }
    }

    /// The position of the block after the one in which `position` lies.
    #[inline]
    const fn after(&self, position: u32, area: &PoolArea) -> u32 {
        let end = area.block_end(position);
        // Both may be the end of the pool, which is the beginning of its next lap.
        if area.at(end) == area.at(self.end) { end.wrapping_add(self.back) } else { end }
    }

    /// Whether so many blocks can be taken. Reclaims what has been freed if need be.
    #[inline]
    fn has_room(&mut self, blocks: usize, answers: &Answers, area: &PoolArea) -> bool {
        blocks <= (self.blocks - self.taken) as usize || {
            self.reclaim(answers, area);
            blocks <= (self.blocks - self.taken) as usize
        }
    }

    /// Rule 5.
    #[cold]
    fn reclaim(&mut self, answers: &Answers, area: &PoolArea) {
        answers.free_all(area);
        while self.taken > 0
            && change_free(area.state(area.block(self.tail)), area.block_end(self.tail), OWNER)
        {
            self.tail = self.after(self.tail, area);
            self.taken -= 1;
        }
    }

    /// The blocks that are not yet reclaimed, by their positions.
    fn taken<'a>(&'a self, area: &'a PoolArea) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(Some(self.tail), |position| Some(self.after(*position, area)))
            .take(self.taken as usize)
    }
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
        let blocks = shape.first_blocks();
        let (first, rest) =
            (Part::new(0, blocks, &shape), Part::new(blocks, shape.blocks() as u32 - blocks, &shape));
        let touched = Touched::new(&area);
        Pool { first, rest, destinations, answers: Arc::default(), touched, trials: None, area }
    }

    /// The same where it is tried how streams of short messages had better be laid (rule 8), again after so many laps at most.
    ///
    /// # Panics
    /// If that is 0.
    #[must_use]
    pub fn with_trials(mut self, after_laps: u32) -> Pool {
        assert!(after_laps > 0, "trials after 0 laps");
        let PoolShape { bytes, block_bytes } = self.area.shape;
        let largest_lap = u32::MAX >> bytes.trailing_zeros();
        self.trials = Some(Trials::new(self.rest.blocks, block_bytes, largest_lap, after_laps));
        self
    }

    /// The pool's sizes.
    pub const fn shape(&self) -> PoolShape {
        self.area.shape
    }

    /// Whether a message of `len` bytes could be taken now.
    #[inline]
    pub fn room_for(&mut self, len: usize) -> bool {
        len <= self.area.shape.max_message() && (self.has_room_in_first(len) || self.has_room_in_rest(len))
    }

    /// Whether a piece of `len` bytes of a longer message to process `to` could be taken now without running far ahead of that
    /// process: a long piece must find room in its part, unless what is in its way there is for somebody else. `spreads`: that is
    /// the larger one.
    pub fn room_beside(&mut self, len: usize, to: u32, spreads: bool) -> bool {
        let shape = self.area.shape;
        if !shape.is_long(len) || self.area.blocks_of(len) > shape.first_blocks() as usize {
            return self.room_for(len);
        }
        self.has_room_in(spreads, len) || self.is_another_in(spreads, to) && self.has_room_in(!spreads, len)
    }

    fn has_room_in(&mut self, rest: bool, len: usize) -> bool {
        if rest { self.has_room_in_rest(len) } else { self.has_room_in_first(len) }
    }

    /// Whether something in a part is for another process than `to`.
    fn is_another_in(&self, rest: bool, to: u32) -> bool {
        let part = if rest { &self.rest } else { &self.first };
        part.taken(&self.area).any(|position| self.destinations[self.area.block(position)] != to)
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
        self.area.shape.is_first(len) && {
            let blocks = self.area.blocks_of(len);
            blocks <= self.first.blocks as usize && self.first.has_room(blocks, &self.answers, &self.area)
        }
    }

    #[inline]
    fn has_room_in_rest(&mut self, len: usize) -> bool {
        let blocks = self.area.blocks_of(len);
        self.rest.has_room(blocks, &self.answers, &self.area)
    }

    /// Reclaims what has been freed, and says how many bytes there are to take.
    #[cold]
    pub fn free_bytes(&mut self) -> usize {
        self.first.reclaim(&self.answers, &self.area);
        self.rest.reclaim(&self.answers, &self.area);
        (self.area.shape.blocks() as u32 - self.first.taken - self.rest.taken) as usize
            * self.area.shape.block_bytes as usize
    }

    /// Frees what lies here for process `to`, *which must be known to be dead*, and what it has claimed (rule 7).
    pub fn forget(&mut self, to: u32) {
        self.answers.free_all(&self.area);
        for position in self.first.taken(&self.area).chain(self.rest.taken(&self.area)) {
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
        let in_first = self.has_room_in_first(len) && !(spreads && self.has_room_in_rest(len));
        let Pool { first, rest, destinations, area, .. } = self;
        let part = if in_first { first } else { rest };
        let start = part.head;
        for _ in 0..blocks {
            debug_assert!(part.taken < part.blocks);
            destinations[area.block(part.head)] = to;
            part.head = part.after(part.head, area);
            part.taken += 1;
        }
        let moves = spreads && !in_first && area.shape.is_spread_if_slow(len);
        if moves { start + area.spread_offset(start, len) } else { start }
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
        let start = self.take(len, to, false);
        let lap = start >> self.area.shape.bytes.trailing_zeros();
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
        if self.is_in_first(position) { &self.first } else { &self.rest }
    }

    /// Whether `position` lies in the first part.
    #[inline]
    pub(crate) const fn is_in_first(&self, position: u32) -> bool {
        self.area.block(position) < self.area.shape.first_blocks() as usize
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

/// The receiving side, of a peer's pool: any number of them, one in each process.
#[derive(Debug)]
pub struct PoolView {
    /// This process as a holder, if it can be one.
    reader: Option<u32>,
    /// What it has freed last, if it has claimed nothing since (rule 9).
    read: Option<Span>,
    touched: Touched,
    area: PoolArea,
}

impl PoolView {
    /// A view of a peer's pool for the process that has this number there.
    pub fn new(area: PoolArea, known_as: u32) -> PoolView {
        PoolView { reader: holder(known_as), read: None, touched: Touched::new(&area), area }
    }

    /// The pool's sizes.
    pub(crate) const fn shape(&self) -> PoolShape {
        self.area.shape
    }

    /// As [`Pool::note_use`], for this process's own pages of the pool.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn note_use(&mut self, position: u32, len: usize) -> bool {
        self.touched.note(&self.area, position, len)
    }

    /// The `len` bytes of a piece at `position`; none if no piece lies there (rule 3).
    #[inline]
    pub fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
        self.area.bytes(position, len)
    }

    /// Frees the blocks in which the piece of `len` bytes at `position` lies, of whose blocks it is the last one (rule 4).
    #[inline]
    pub fn free(&mut self, position: u32, len: usize) {
        let span = self.area.span(position, len);
        self.area.free(span);
        self.read = Some(self.area.join(self.read, span));
    }

    /// Whether something was read here that was not yet answered, and a sender whose own pool has this shape may answer here
    /// (rule 9).
    pub fn may_answer(&self, shape: PoolShape) -> bool {
        self.read.is_some() && self.area.shape == shape
    }

    /// Claims blocks that were freed last for an answer of `len` bytes, if there are so many and they still are free. Whatever is
    /// sent next is no answer (rule 9).
    #[inline]
    pub(crate) fn claim(&mut self, len: usize) -> Option<Again> {
        let (last, _) = self.area.split_last(self.read.take()?, len)?;
        self.area.claim(last, self.reader?).then(|| self.area.again(last, len))
    }

    /// `len` bytes at `position` to write: of blocks that were claimed and whose slot is not yet published.
    #[inline]
    pub(crate) fn piece(&mut self, position: u32, len: usize) -> BytesMut<'_> {
        // SAFETY: claimed, says the caller.
        unsafe { self.area.piece(position, len) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SHAPE: PoolShape = PoolShape { bytes: 8192, block_bytes: 1024 };

    /// Where the blocks are that are taken back, or claimed.
    fn take_back(pool: &mut Pool, len: usize, to: u32) -> Option<u32> {
        pool.take_back(len, to).map(|again| again.first)
    }

    fn claim(view: &mut PoolView, len: usize) -> Option<u32> {
        view.claim(len).map(|again| again.first)
    }

    fn pool() -> (Pool, PoolView) {
        let area = PoolArea::on_heap(SHAPE);
        (Pool::new(area.clone()), PoolView::new(area, 7))
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_with_their_values() {
        let wrong = |bytes, block_bytes| PoolShape { bytes, block_bytes }.check().unwrap_err();
        assert!(wrong(6000, 1024).contains("6000 bytes"));
        assert!(wrong(1 << 31, 1024).contains("2147483648 bytes"));
        assert!(wrong(8192, 4096).contains("blocks of 4096 bytes"));
        assert!(wrong(8192, 512).contains("blocks of 512 bytes"));
        assert_eq!(PoolShape { bytes: 0, block_bytes: 0 }.check(), Ok(()));
        assert_eq!(SHAPE.area_bytes(), 4096 + 8192);
    }

    #[test]
    fn rule_5_blocks_are_reclaimed_in_order_for_ever() {
        let (mut pool, mut view) = pool();
        // As if the positions were nearly through.
        (pool.rest.head, pool.rest.tail) = (u32::MAX - 16383, u32::MAX - 16383);
        for _ in 0..20 {
            assert_eq!(pool.free_bytes(), 8192);
            let starts = [3 << 10, 1 << 10, 1].map(|len| pool.take(len, 7, false));
            assert_eq!(pool.free_bytes(), 8192 - 5 * 1024);
            view.free(starts[1], 1024);
            view.free(starts[2].wrapping_add(100), 0);
            assert_eq!(pool.free_bytes(), 8192 - 5 * 1024, "the first block is not free");
            (0..3).for_each(|block| view.free(starts[0].wrapping_add(block * 1024), 1));
        }
    }

    #[test]
    fn rule_4_the_last_piece_frees_all_of_its_blocks() {
        let (mut pool, mut view) = pool();
        let start = pool.take(4096, 7, false);
        assert_eq!((pool.side_by_side(start), pool.side_by_side(start + 5000)), (8192, 3192));
        view.free(start + 1024, 3072);
        assert_eq!(pool.free_bytes(), 4096, "the first block is not free");
        view.free(start, 0);
        assert_eq!(pool.free_bytes(), 8192);
        let start = pool.take(2049, 7, false);
        view.free(start, 2049);
        assert_eq!(pool.free_bytes(), 8192, "three blocks, and not all of the third");
    }

    #[test]
    fn rule_3_a_message_that_is_laid_is_in_one_piece_or_in_two() {
        let (mut pool, mut view) = pool();
        let data: Vec<u8> = (0..4000u32).map(|at| (at * 7) as u8).collect();
        let mut pieces = Vec::new();
        for len in [1, 4000, 1024, 2500, 4000, 0, 3000] {
            assert!(pool.room_for(len));
            let laid = pool.lay(len, 7, |at, to| Bytes::from(&data[at..at + to.len()]).copy_to(to));
            let mut read = Vec::new();
            for (position, bytes) in laid.into_iter().filter(|(_, bytes)| *bytes > 0) {
                view.bytes(position, bytes as usize).unwrap().append_to(&mut read);
            }
            assert!(read == data[..len]);
            if len % 2 == 0 && len > 0 {
                pool.clear(laid);
            } else {
                view.free(laid[0].0, laid[0].1 as usize);
                laid[1..]
                    .iter()
                    .filter(|(_, bytes)| *bytes > 0)
                    .for_each(|(at, bytes)| view.free(*at, *bytes as usize));
            }
            pieces.push(laid.map(|(_, bytes)| bytes));
            assert_eq!(pool.free_bytes(), 8192, "{len} bytes");
        }
        assert_eq!(pieces[3..5], [[2048, 452], [4000, 0]], "the pool ends behind its eighth block");
    }

    #[test]
    fn rules_2_and_7_room_and_the_dead() {
        let (mut pool, mut view) = pool();
        assert!(pool.room_for(4096) && !pool.room_for(4097), "half of the pool is the limit");
        pool.take(4096, 1, false);
        pool.take(0, 2, false);
        pool.take(2048, 1, false);
        assert!(pool.room_for(1024) && !pool.room_for(1025));
        pool.forget(1);
        assert_eq!(pool.free_bytes(), 8192 - 3 * 1024, "the message for 2 lies in between");
        view.free(4096, 1);
        assert_eq!(pool.free_bytes(), 8192);
    }

    #[test]
    fn rule_7_claims_of_the_dead() {
        let (mut pool, mut view) = pool();
        let starts = [1, 7].map(|to| pool.take(1024, to, false));
        view.free(starts[1], 1024);
        assert_eq!(claim(&mut view, 1024), Some(starts[1]));
        pool.forget(1);
        assert_eq!(pool.free_bytes(), 7 << 10, "what 7 has claimed is 7's");
        // Also if another one has read it since 7 did.
        let mut other = PoolView::new(pool.area.clone(), 3);
        pool.own_view(7).keep(starts[1], 1024);
        pool.forget(3);
        other.free(starts[1], 1024);
        assert_eq!((claim(&mut other, 1024), pool.free_bytes()), (Some(starts[1]), 7 << 10));
        pool.forget(7);
        assert_eq!(pool.free_bytes(), 7 << 10, "what was taken for 7 is claimed by 3 now");
        pool.forget(3);
        assert_eq!(pool.free_bytes(), 8 << 10);
    }

    #[test]
    fn rule_9_an_answer_lies_where_the_message_lay() {
        let (mut pool, mut view) = pool();
        let own = pool.own_view(7);
        assert_eq!((take_back(&mut pool, 1, 7), claim(&mut view, 1)), (None, None), "nothing came");
        let start = pool.take(2048, 7, false);
        view.free(start, 2048);
        assert_eq!(claim(&mut view, 2049), None, "longer than what came");
        (0..2).for_each(|block| view.free(start + block * 1024, 1));
        // As if the message were sent again and again, by turns.
        for _ in 0..3 {
            assert_eq!((claim(&mut view, 2048), claim(&mut view, 1)), (Some(start), None));
            own.keep(start, 2048);
            assert_eq!((take_back(&mut pool, 1, 6), take_back(&mut pool, 2048, 7)), (None, Some(start)));
            view.free(start, 2048);
        }
        // Shorter ones take the last of them.
        assert_eq!((claim(&mut view, 1024), claim(&mut view, 0)), (Some(start + 1024), None));
        own.keep(start + 1024, 1024);
        assert_eq!([take_back(&mut pool, 0, 7), take_back(&mut pool, 0, 7)], [Some(start + 1024), None]);
        view.free(start + 1024, 0);
        // The owner does without if it is short of room.
        assert_eq!(claim(&mut view, 1024), Some(start + 1024));
        assert_eq!(pool.free_bytes(), 7 << 10);
        own.keep(start + 1024, 1024);
        assert_eq!(pool.free_bytes(), 8 << 10);
        assert_eq!((take_back(&mut pool, 1, 7), claim(&mut view, 1024)), (None, None));
        // What it has reclaimed nobody claims.
        let start = pool.take(1024, 7, false);
        view.free(start, 1024);
        assert_eq!((pool.free_bytes(), claim(&mut view, 1024)), (8 << 10, None));
    }

    #[test]
    fn rule_9_in_place_is_where_as_much_was_read() {
        // Messages, which are read one after the other, the length of an answer, and whether it is in place.
        for (messages, len, in_place) in [
            (&[3000][..], 3000, true),
            (&[3000], 3001, false),
            (&[100], 1, true),
            (&[100], 101, false),
            (&[1024, 1024, 10], 2058, true),
            (&[1024, 500, 1024, 10], 1034, true),
            (&[1024, 500, 1024, 10], 2000, false),
            (&[1024, 500, 1024, 10], 2058, false),
            (&[1024, 500], 1524, true),
        ] {
            let (mut pool, mut view) = pool();
            let starts: Vec<u32> = messages.iter().map(|len| pool.take(*len, 7, false)).collect();
            starts.iter().zip(messages).for_each(|(at, len)| view.free(*at, *len));
            let answer = view.claim(len).map(|again| again.is_in_place);
            assert_eq!(answer, Some(in_place), "{len} bytes where {messages:?} were read");
        }
        // A message where an answer lay.
        for (len, in_place) in [(1024 + 40, true), (1024 + 41, false), (40, true), (41, false)] {
            let (mut pool, mut view) = pool();
            let start = pool.take(2048, 7, false);
            view.free(start, 2048);
            assert_eq!(claim(&mut view, 1064), Some(start));
            pool.own_view(7).keep(start, 1064);
            assert_eq!(pool.take_back(len, 7).map(|again| again.is_in_place), Some(in_place), "{len} bytes");
        }
    }

    #[test]
    fn rule_9_a_process_with_a_high_number_claims_nothing() {
        for (number, claims) in [(1021, true), (1022, false), (u32::MAX, false)] {
            let (mut pool, _) = pool();
            let mut view = PoolView::new(pool.area.clone(), number);
            let start = pool.take(1024, number, false);
            view.free(start, 1024);
            assert_eq!(claim(&mut view, 1024).is_some(), claims, "{number}");
            pool.forget(number);
            assert_eq!(pool.free_bytes(), 8 << 10);
        }
    }

    #[test]
    fn rule_9_kept_blocks_are_of_few_processes_and_the_latest() {
        let (mut pool, mut view) = pool();
        let starts = [0; 8].map(|_| pool.take(1024, 7, false));
        starts.iter().for_each(|start| view.free(*start, 1024));
        assert_eq!(claim(&mut view, 8192), Some(starts[0]), "side by side");
        for (from, start) in starts.into_iter().enumerate() {
            pool.own_view(from as u32).keep(start, 1024);
        }
        let kept = [3, 4, 5, 6, 7].map(|from| pool.answers.take(1, from, &pool.area).map(|span| span.first));
        assert_eq!(kept, [None, Some(starts[4]), Some(starts[5]), Some(starts[6]), Some(starts[7])]);
        assert_eq!(pool.free_bytes(), 4096, "those of the others are free");
        // What came before makes room for what does not lie behind it; what is too short is freed.
        let own = pool.own_view(4);
        [4, 6, 7].into_iter().for_each(|at| own.keep(starts[at], 1024));
        assert_eq!(take_back(&mut pool, 2049, 4), None);
        own.keep(starts[5], 1024);
        assert_eq!(pool.free_bytes(), 8192);
    }

    #[test]
    fn rule_8_streams_keep_to_the_first_quarter() {
        let area = PoolArea::on_heap(PoolShape { bytes: 1 << 15, block_bytes: 1024 });
        let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
        // Takes blocks for process 1, and says which; who reads them frees them at once.
        let mut send = |len: usize, frees: bool| {
            assert!(pool.room_for(len));
            let mut position = pool.take(len, 1, false);
            let blocks: Vec<u32> = (0..len.div_ceil(1024))
                .map(|_| {
                    let at = position;
                    position = pool.after(position);
                    if frees {
                        view.free(at, 1);
                    }
                    at / 1024 % 32
                })
                .collect();
            (blocks[0], blocks[blocks.len() - 1])
        };
        assert_eq!([send(4096, true), send(255, true), send(5120, true)], [(0, 3), (8, 8), (4, 0)]);
        // For ever, also where parts are used only now and then.
        for turn in 0..200_000 {
            let at = (turn * 5 + 1) % 8;
            assert_eq!(send(5 << 10, true), (at, (at + 4) % 8));
        }
        assert_eq!([send(1, true), send(9 << 10, true)], [(9, 9), (10, 18)], "longer than the part");
        assert_eq!([send(4096, false), send(4096, false), send(4096, true)], [(1, 4), (5, 0), (19, 22)]);
        // The rest is a ring of its own.
        assert_eq!([send(9 << 10, true), send(1, true), send(2047, true)], [(23, 31), (8, 8), (9, 10)]);
        // Nobody runs ahead of a receiver, but of what others have to read.
        assert!(
            !pool.room_beside(4096, 1, false)
                && pool.room_beside(2047, 1, false)
                && pool.room_beside(4096, 2, false)
        );
        assert_eq!(pool.free_bytes(), 24 << 10);
        (0..4).for_each(|block| view.free(pool.first.tail + block * 1024, 1));
        assert!(pool.room_beside(4096, 1, false) && !pool.room_beside(5120, 1, false));
    }

    #[test]
    fn rule_8_messages_spread_over_the_larger_part_while_it_has_room() {
        let mut pool = Pool::new(PoolArea::on_heap(PoolShape { bytes: 32 << 10, block_bytes: 1024 }));
        let mut view = PoolView::new(pool.area.clone(), 3);
        let mut taken = Vec::new();
        let mut send = |pool: &mut Pool, len: usize, to: u32, spreads: bool| {
            let first = pool.take(len, to, spreads);
            taken.push((first, len));
            (first / 1024, pool.is_in_first(first), pool.lies_where_spread(first, len))
        };
        assert_eq!(send(&mut pool, 4096, 1, true), (8, false, true));
        assert_eq!(send(&mut pool, 4096, 1, false), (0, true, false));
        // Short ones lie there anyway.
        assert_eq!(
            [true, false].map(|spreads| send(&mut pool, 255, 1, spreads)),
            [(12, false, false), (13, false, false)]
        );
        for block in [14, 18, 22, 26] {
            assert!(pool.room_beside(4096, 1, true));
            assert_eq!(send(&mut pool, 4096, 1, true), (block, false, true));
        }
        assert_eq!(send(&mut pool, 2048, 1, true), (30, false, true));
        // A stream waits for room in its part, but not if that is in the way of others.
        assert!(!pool.room_beside(4096, 1, true) && pool.room_beside(4096, 1, false));
        assert!(pool.room_beside(4096, 2, true));
        // What must not wait goes where there is room.
        assert_eq!(send(&mut pool, 4096, 1, true), (4, true, false));
        assert!(
            !pool.room_for(1024) && !pool.room_beside(4096, 2, true) && !pool.room_beside(4096, 2, false)
        );
        for (first, len) in taken {
            for at in (0..len.max(1)).step_by(1024) {
                view.free(first + at as u32, 1024.min(len - at));
            }
        }
        assert_eq!(pool.free_bytes(), 32 << 10);
        assert!(pool.room_beside(4096, 1, true));
    }

    #[test]
    fn rule_8_what_is_spread_lies_further_on_in_its_block_in_each_lap() {
        const KIB: u32 = 1 << 10;
        /// Where messages lie in their blocks, in KiB: three laps of the larger part, which has 48.
        fn laps(len: usize, spreads: bool) -> [Vec<u32>; 3] {
            let area = PoolArea::on_heap(PoolShape { bytes: 2 << 20, block_bytes: 32 << 10 });
            let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 3));
            let mut send = || {
                assert!(pool.room_for(len));
                let at = pool.take(len, 1, spreads);
                assert!(pool.area.holds(at, len) && !pool.is_in_first(at), "{len} bytes at {at}");
                assert_eq!((pool.lies_where_spread(at, len), pool.is_reused(at, len)), {
                    let moves = (4097..=16384).contains(&len);
                    (moves || len > 8192, moves)
                });
                view.free(at, len);
                at % (32 * KIB) / KIB
            };
            [0; 3].map(|_| (0..48).map(|_| send()).collect())
        }
        // The first block is the sixteenth of the pool.
        let [first, second, third] = laps(6 << 10, true);
        assert_eq!((&first[..5], second[0], &third[..2]), (&[0, 8, 16, 24, 0][..], 8, &[16, 24][..]));
        assert_eq!(laps(16 << 10, true)[1][..3], [16, 0, 16]);
        for (len, spreads) in [(1, true), (4096, true), (4097, false), (16385, true)] {
            assert!(laps(len, spreads).iter().flatten().all(|at| *at == 0), "{len} bytes");
        }
    }

    #[test]
    fn rule_8_short_messages_are_laid_in_all_ways_by_turns() {
        let data: Vec<u8> = (0..4096u32).map(|at| (at * 7) as u8).collect();
        for (bytes, block_bytes) in [(2 << 20, 32 << 10), (1 << 16, 16 << 10), (32768, 8192)] {
            let shape = PoolShape { bytes, block_bytes };
            for len in [0, 1, 512, 513, 1000, 1024, 1025, 3000, 4096] {
                let area = PoolArea::on_heap(shape);
                let mut pool = Pool::new(area.clone()).with_trials(1);
                let mut view = PoolView::new(area, 3);
                let is_short = len > 512 && len < (block_bytes as usize / 4).min(4097);
                assert_eq!(pool.is_short(len), is_short, "{len} bytes, {shape:?}");
                if !pool.is_short(len) {
                    continue;
                }
                let mut seen = [0; 3];
                let places = pool.rest.blocks * 200;
                for _ in 0..places {
                    assert!(pool.room_for(len));
                    let (at, way) = pool.take_short(len, 3);
                    assert!(
                        pool.area.holds(at, len) && !pool.is_in_first(at),
                        "{len} bytes at {at}, {shape:?}"
                    );
                    assert!(
                        way == Some(Way::Spread) || at % block_bytes == 0,
                        "{len} bytes at {at}: {way:?}"
                    );
                    seen[way.map_or(0, |way| way as usize)] += 1;
                    Bytes::from(&data[..len]).copy_to(pool.piece(at, len));
                    let mut read = Vec::new();
                    view.bytes(at, len).unwrap().append_to(&mut read);
                    assert!(read == data[..len], "{len} bytes at {at}");
                    view.free(at, len);
                    assert_eq!(pool.free_bytes(), bytes as usize);
                }
                assert!(seen.iter().all(|count| *count > 0), "{len} bytes, {shape:?}: {seen:?}");
            }
        }
    }

    #[test]
    fn only_what_was_used_before_has_pages() {
        let area = PoolArea::on_heap(PoolShape { bytes: 2 << 20, block_bytes: 32 << 10 });
        let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
        const KIB: u32 = 1 << 10;
        assert!(!pool.note_use(5 * KIB, 100) && pool.note_use(4 * KIB, 4096));
        assert!(!pool.note_use(4 * KIB, 4097), "the next page");
        assert!(pool.note_use(9 * KIB, 10) && !pool.note_use(3 * KIB, 1), "pages before and behind");
        // Of several words of the map: from page 60 to page 200.
        assert!(!pool.note_use(240 * KIB, 141 << 12) && pool.note_use(240 * KIB, 141 << 12));
        assert!(!pool.note_use(236 * KIB, 4097) && !pool.note_use(803 * KIB, 1025));
        assert!(pool.note_use(236 * KIB, 8192) && pool.note_use(804 * KIB, 0));
        // The last one, in a later lap.
        assert!(!pool.note_use((6 << 20) - 1, 1) && pool.note_use((2 << 20) - 4096, 4096));
        assert!(!view.note_use(5 * KIB, 100) && view.note_use(5 * KIB, 100), "each process has its own");
    }

    #[test]
    fn rule_3_a_piece_crosses_blocks_only_from_the_beginning_of_one() {
        let (_, view) = pool();
        let len = |position, len| view.bytes(position, len).map(|bytes| bytes.len());
        assert_eq!(
            (len(u32::MAX - 1023, 1024), len(511, 513), len(1023, 1)),
            (Some(1024), Some(513), Some(1))
        );
        assert_eq!((len(1, 1024), len(1023, 2), len(1, 8000)), (None, None, None));
        assert_eq!((len(0, 4096), len(6144, 2048), len(7168, 1024)), (Some(4096), Some(2048), Some(1024)));
        assert_eq!(
            (len(0, 8193), len(6144, 2049), len(0, usize::MAX)),
            (None, None, None),
            "beyond the pool"
        );
        assert_eq!((len(1024, 0), len(u32::MAX, 1), len(u32::MAX, 2)), (Some(0), Some(1), None));
    }
}
