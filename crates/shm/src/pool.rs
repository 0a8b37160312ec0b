//! The pool: memory in a sender's own segment for its longer messages to all destinations.
//!
//! The data area of a ring is so small that each line is still in the receiver's private cache when
//! it is written again, which costs a transfer between cores. The lines of the pool have been
//! evicted by then to a cache that all cores share. One pool serves all destinations, so memory
//! does not grow with their number. The *slots* of its messages go through the receiver's ring (the
//! pool chunk of [`ring`](crate::ring)).
//!
//! The pool is a ring of adjacent *blocks*: a processor that reads a block to its end prefetches
//! lines beyond it, and these belong to the next block of the message.
//!
//! ```text
//! states    for each block 32 bits: the position after it when it was freed last
//! data      on separate pages, the blocks
//! position  bytes taken before it since the start, 32 bits, wraps
//! ```
//!
//! Rules
//! 1. *One writer.* Only the segment's owner writes data, through its one [`Pool`]. All memory is
//!    zero at the start.
//! 2. *Take.* The sender takes whole blocks for each message, in order, from `head` up to `tail`,
//!    the first block still in use since the previous lap. An unused pool takes no memory.
//! 3. *Hand over.* A slot of the destination's ring, or a cell of its inbox, names the bytes of a
//!    piece. Its publication (release) and observation (acquire) order the copies of both sides. A
//!    piece has its own adjacent blocks, which only the destination reads.
//! 4. *Free and reclaim.* After its last read of a block the receiver stores the position after the
//!    block to the block's state (release). A sender without room moves `tail` over all blocks with
//!    this state (acquire); any other state is of another lap. The owner frees the blocks of a
//!    destination that is known to be dead ([`Pool::forget`]).
//! 5. *No process waits for the pool.* Blocks are reclaimed in the order of the ring, so one slow
//!    receiver can make the pool full for all. A sender without room uses the data ring, or
//!    announces the message. It must not sleep, since no receiver knows that it should ring.

mod area;
#[cfg(all(test, not(loom)))]
mod tests;

pub use area::{PoolArea, PoolShape};

use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::sync::Ordering;

/// The sender's side: one in the life of a pool.
#[derive(Debug)]
pub struct Pool {
    /// The positions of the next block to take, and of the first one that is not reclaimed.
    head: u32,
    tail: u32,
    taken: u32,
    blocks: u32,
    destinations: Box<[u32]>,
    area: PoolArea,
}

impl Pool {
    /// The sending side of a new pool.
    pub fn new(area: PoolArea) -> Pool {
        let blocks = area.shape.blocks();
        let destinations = vec![u32::MAX; blocks].into_boxed_slice();
        Pool { head: 0, tail: 0, taken: 0, blocks: blocks as u32, destinations, area }
    }

    /// The sizes of the pool.
    pub const fn shape(&self) -> PoolShape {
        self.area.shape
    }

    /// Whether a message of `len` bytes could be taken now. Reclaims freed blocks if needed.
    #[inline]
    pub fn room_for(&mut self, len: usize) -> bool {
        let blocks = self.area.blocks_of(len);
        len <= self.area.shape.max_message()
            && (blocks <= (self.blocks - self.taken) as usize || {
                self.reclaim();
                blocks <= (self.blocks - self.taken) as usize
            })
    }

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

    /// Reclaims freed blocks, and returns the number of bytes that can be taken.
    #[cold]
    pub fn free_bytes(&mut self) -> usize {
        self.reclaim();
        (self.blocks - self.taken) as usize * self.area.shape.block_bytes as usize
    }

    /// Frees the blocks for process `to`, *which must be known to be dead* (rule 4).
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

    /// Takes the blocks of a message for process `to`, which must fit; returns the first position
    /// (rule 2).
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

    /// Takes the blocks of a message for process `to`, for which there must be room
    /// ([`Pool::room_for`]). `fill` writes the bytes from an offset on. Returns position and bytes
    /// of two pieces, the second perhaps empty, which the receiver frees ([`PoolView::free`]).
    pub fn lay(
        &mut self,
        len: usize,
        to: u32,
        mut fill: impl FnMut(usize, BytesMut<'_>),
    ) -> [(u32, u32); 2] {
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

    /// Frees pieces of [`Pool::lay`] that were not announced.
    pub fn clear(&mut self, pieces: [(u32, u32); 2]) {
        for (position, bytes) in pieces {
            if bytes > 0 {
                self.area.free(position, bytes as usize);
            }
        }
    }

    /// The present position, for [`Pool::laid_since`].
    pub const fn mark(&self) -> u32 {
        self.head
    }

    /// The blocks that were taken since `mark`, which is less than a lap ago; `None` if there are
    /// none.
    pub const fn laid_since(&self, mark: u32) -> Option<Laid> {
        let bytes = self.head.wrapping_sub(mark) as usize;
        if bytes == 0 { None } else { Some(Laid { end: self.head, bytes }) }
    }

    /// Whether the last of these blocks for process `to` is still in use. Receivers free in order.
    pub fn is_laid(&self, laid: &Laid, to: u32) -> bool {
        let block = self.area.block(laid.end.wrapping_sub(1));
        // After a lap the block is free or belongs to another message.
        self.head.wrapping_sub(laid.end) < self.area.shape.bytes
            && self.destinations[block] == to
            && self.area.state(block).load(Ordering::Acquire) != laid.end
    }

    /// The bytes from `position` to the end of the pool.
    #[inline]
    pub(crate) const fn side_by_side(&self, position: u32) -> u32 {
        self.area.shape.bytes - self.area.at(position) as u32
    }

    #[inline]
    pub(crate) fn piece(&mut self, position: u32, len: usize) -> BytesMut<'_> {
        // SAFETY: the caller, which alone has the pool, has taken these bytes.
        unsafe { self.area.piece(position, len) }
    }
}

/// Blocks that were taken one after another for one destination.
#[derive(Clone, Copy, Debug)]
pub struct Laid {
    end: u32,
    pub bytes: usize,
}

/// The receiver's side of a peer's pool.
#[derive(Debug)]
pub struct PoolView {
    area: PoolArea,
}

impl PoolView {
    /// A view of a peer's pool.
    pub const fn new(area: PoolArea) -> PoolView {
        PoolView { area }
    }

    /// The `len` bytes of a piece at `position`; `None` if no piece can be there (rule 3).
    #[inline]
    pub fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
        self.area.bytes(position, len)
    }

    /// Frees the blocks of the piece of `len` bytes at `position` (rule 4).
    #[inline]
    pub fn free(&mut self, position: u32, len: usize) {
        self.area.free(position, len);
    }
}
