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
//! states    for each block 32 bits: the position after it when it was freed last
//! data      on a page of their own, the blocks
//! position  bytes before it since the start of all time; 32 bits, wraps
//! ```
//!
//! Rules
//! 1. *One writer.* The segment's owner alone writes data, through its one [`Pool`]. All memory is zero at the start.
//! 2. *Take.* The sender takes whole blocks for each message, in order, from the position `head` on; none that is in use
//!    since the lap before, which are those from `tail` on. Nothing is touched before its first use, so a pool that is
//!    never used takes no memory.
//! 3. *Hand over.* Which bytes hold which piece of a message is said by a slot of the destination's ring, or a cell of its inbox, whose
//!    publication (release) and observation (acquire) order the copies of both sides. A piece begins with a block and takes as many
//!    side by side as its bytes need, which hold nothing else. Only the destination of that slot or cell reads it.
//! 4. *Free and reclaim.* When the receiver has read a block for the last time it stores the position after the block to the block's state
//!    (release). When the sender is short of room it moves `tail` over all blocks
//!    at whose state it finds (acquire) the position after the block. A state holds the position of another lap until then.
//!    What lies there for a destination that is known to be dead the owner frees: [`Pool::forget`].
//! 5. *Nobody waits for the pool.* Blocks are freed in any order but reclaimed in that of the ring, so that one slow
//!    receiver can make the pool look full for all. A sender without room uses the destination's data ring, or
//!    announces the message; it must not wait for room, for no receiver knows that it should wake it.

mod area;
#[cfg(all(test, not(loom)))]
mod tests;

pub use area::{PoolArea, PoolShape};

use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::sync::Ordering;

/// The sending side: one in the life of a pool.
#[derive(Debug)]
pub struct Pool {
    /// The positions of the first block that may be taken, and of the first one that is not yet reclaimed.
    head: u32,
    tail: u32,
    /// How many blocks lie between the two.
    taken: u32,
    blocks: u32,
    /// For each block taken, for whom.
    destinations: Box<[u32]>,
    area: PoolArea,
}

impl Pool {
    /// The sending side of a pool from which nobody has taken anything yet.
    pub fn new(area: PoolArea) -> Pool {
        let blocks = area.shape.blocks();
        let destinations = vec![u32::MAX; blocks].into_boxed_slice();
        Pool { head: 0, tail: 0, taken: 0, blocks: blocks as u32, destinations, area }
    }

    /// The pool's sizes.
    pub const fn shape(&self) -> PoolShape {
        self.area.shape
    }

    /// Whether a message of `len` bytes could be taken now. Reclaims what has been freed if need be.
    #[inline]
    pub fn room_for(&mut self, len: usize) -> bool {
        let blocks = self.area.blocks_of(len);
        len <= self.area.shape.max_message()
            && (blocks <= (self.blocks - self.taken) as usize || {
                self.reclaim();
                blocks <= (self.blocks - self.taken) as usize
            })
    }

    /// Rule 4.
    #[cold]
    fn reclaim(&mut self) {
        while self.taken > 0
            && self.area.state(self.area.block(self.tail)).load(Ordering::Acquire)
                == self.area.block_end(self.tail)
        {
            self.tail = self.area.block_end(self.tail);
            self.taken -= 1;
        }
    }

    /// Reclaims what has been freed, and says how many bytes there are to take.
    #[cold]
    pub fn free_bytes(&mut self) -> usize {
        self.reclaim();
        (self.blocks - self.taken) as usize * self.area.shape.block_bytes as usize
    }

    /// Frees what lies here for process `to`, *which must be known to be dead* (rule 4).
    pub fn forget(&mut self, to: u32) {
        let mut position = self.tail;
        for _ in 0..self.taken {
            let (block, end) = (self.area.block(position), self.area.block_end(position));
            if self.destinations[block] == to {
                self.area.state(block).store(end, Ordering::Release);
            }
            position = end;
        }
    }

    /// Takes the blocks of a message of `len` bytes for process `to`, for which there must be room ([`Pool::room_for`]); the
    /// position of the first (rule 2).
    #[inline]
    pub(crate) fn take(&mut self, len: usize, to: u32) -> u32 {
        let start = self.head;
        for _ in 0..self.area.blocks_of(len) {
            debug_assert!(self.taken < self.blocks);
            self.destinations[self.area.block(self.head)] = to;
            self.head = self.area.block_end(self.head);
            self.taken += 1;
        }
        start
    }

    /// Takes the blocks of a message of `len` bytes for process `to`, for which there must be room ([`Pool::room_for`]), and has
    /// `fill` write what begins at some byte of it. Where it lies: the positions of two pieces and their bytes, of which the
    /// second one may have none. The receiver frees each ([`PoolView::free`]).
    pub fn lay(&mut self, len: usize, to: u32, mut fill: impl FnMut(usize, BytesMut<'_>)) -> [(u32, u32); 2] {
        let start = self.take(len, to);
        // A pool has 2^30 bytes at most.
        let first = (len as u32).min(self.side_by_side(start));
        fill(0, self.piece(start, first as usize));
        let rest = len as u32 - first;
        let next = start.wrapping_add(first);
        if rest == 0 {
            return [(start, first), (start, 0)];
        }
        fill(first as usize, self.piece(next, rest as usize));
        [(start, first), (next, rest)]
    }

    /// Frees what [`Pool::lay`] has laid, of which nobody was told.
    pub fn clear(&mut self, pieces: [(u32, u32); 2]) {
        for (position, bytes) in pieces {
            if bytes > 0 {
                self.area.free(position, bytes as usize);
            }
        }
    }

    /// Names this moment for [`Pool::laid_since`].
    pub const fn mark(&self) -> u32 {
        self.head
    }

    /// The blocks that were taken since a moment, less than a lap ago, if any were.
    pub const fn laid_since(&self, mark: u32) -> Option<Laid> {
        let bytes = self.head.wrapping_sub(mark) as usize;
        if bytes == 0 { None } else { Some(Laid { end: self.head, bytes }) }
    }

    /// Whether the last of these blocks, which were taken for process `to`, is not yet freed. (A receiver frees them in order.)
    pub fn is_laid(&self, laid: &Laid, to: u32) -> bool {
        let block = self.area.block(laid.end.wrapping_sub(1));
        // After a lap the block is another one's, or is free.
        self.head.wrapping_sub(laid.end) < self.area.shape.bytes
            && self.destinations[block] == to
            && self.area.state(block).load(Ordering::Acquire) != laid.end
    }

    /// How many bytes from `position` on lie side by side before the message goes on at the beginning of the pool.
    #[inline]
    pub(crate) const fn side_by_side(&self, position: u32) -> u32 {
        self.area.shape.bytes - self.area.at(position) as u32
    }

    /// `len` bytes at `position` to write: of blocks that were taken and whose slot is not yet published.
    #[inline]
    pub(crate) fn piece(&mut self, position: u32, len: usize) -> BytesMut<'_> {
        // SAFETY: taken, says the caller, which alone has the pool.
        unsafe { self.area.piece(position, len) }
    }
}

/// Blocks that were taken one after the other for one destination.
#[derive(Clone, Copy, Debug)]
pub struct Laid {
    /// The position after them.
    end: u32,
    /// Their bytes.
    pub bytes: usize,
}

/// The receiving side, of a peer's pool: any number of them, one in each process.
#[derive(Debug)]
pub struct PoolView {
    area: PoolArea,
}

impl PoolView {
    /// A view of a peer's pool.
    pub const fn new(area: PoolArea) -> PoolView {
        PoolView { area }
    }

    /// The `len` bytes of a piece at `position`; none if no piece lies there (rule 3).
    #[inline]
    pub fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
        self.area.bytes(position, len)
    }

    /// Frees the blocks in which the piece of `len` bytes at `position` lies (rule 4).
    #[inline]
    pub fn free(&mut self, position: u32, len: usize) {
        self.area.free(position, len);
    }
}
