//! The pool: memory in a sender's own segment through which its longer messages go to all its destinations.
//!
//! A pair ring's data ring is small, and so soon written again: each of its lines is then still in the receiver's
//! private cache, and storing to it costs a transfer between cores. The pool is large enough for its lines to have
//! fallen out to a cache that all cores share before their turn comes again; and, since one pool serves all
//! destinations, memory does not grow with their number. The *slots* of a message that lies in the pool go through the
//! receiver's ring as always: see the pool chunk of [`ring`](crate::ring).
//!
//! The pool is a ring of *blocks*. Positions in it are bytes counted from the start of all time, in 32 bits, and wrap.
//!
//! ```text
//! states  for each block 32 bits: the position after its last byte when it was freed last
//! data    the blocks, on pages of their own
//! ```
//!
//! Rules
//! 1. *One writer.* The segment's owner alone, through its one [`Pool`], writes data; only receivers, through their
//!    [`PoolView`]s, write states. All memory is zero at the start.
//! 2. *Take.* The sender takes whole blocks for each message, in order, from the position `head` on; none that lies
//!    `pool size` or more after `tail`. Nothing is touched before its first use, so a pool that is never used takes no
//!    memory.
//! 3. *Hand over.* Which bytes hold which piece of a message is said by a slot of the destination's ring, whose
//!    publication (release) and observation (acquire) order the copies of both sides. A piece never crosses a block. Only
//!    the destination reads a block.
//! 4. *Free.* After its last look at a block the receiver stores the position after the block to the block's state
//!    (release). It has taken the last piece in a block if that piece ends the block, or the message.
//! 5. *Reclaim.* When the sender is short of room it moves `tail` over all blocks at whose state it finds (acquire) the
//!    position after the block. A state holds the position of another lap until then: the position returns only after
//!    2^32 bytes, several laps.
//! 6. *Nobody waits for the pool.* Blocks are freed in any order but reclaimed in that of the ring, so that one slow
//!    receiver can make the pool look full for all. A sender without room uses the destination's data ring, or
//!    announces the message; it must not wait for room, for no receiver knows that it should wake it.
//! 7. *Death.* What lies in the pool for a destination known to be dead (it will never run again) is free, whatever the
//!    state says: [`Pool::forget`].

mod choice;

pub(crate) use choice::SLOW_IN_A_ROW;
pub use choice::{CopyChoice, SHORTEST_MEASURED};

use crate::{
    bytes::{Bytes, BytesMut},
    line::{Keep, LINE_BYTES, Touch, Watched, heap_data},
    sync::{AtomicU32, Ordering},
};
use std::{ptr::NonNull, sync::Arc};

/// The sizes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Bytes of data: a power of two to 1 GiB; 0: there is no pool.
    pub bytes: u32,
    /// Bytes of a block: a power of two, 64 to a quarter of the pool.
    pub block_bytes: u32,
}

/// States and data begin on pages of their own.
const PAGE: usize = 4096;

impl PoolShape {
    /// What is wrong with these sizes, if anything.
    pub fn check(&self) -> Result<(), String> {
        let PoolShape { bytes, block_bytes } = *self;
        if bytes == 0 {
            return Ok(());
        }
        if !bytes.is_power_of_two() || !(1 << 10..=1 << 30).contains(&bytes) {
            return Err(format!(
                "a pool of {bytes} bytes: the number must be 0 or a power of two from 1024 to 2^30"
            ));
        }
        if !block_bytes.is_power_of_two() || !(LINE_BYTES as u32..=bytes / 4).contains(&block_bytes) {
            return Err(format!(
                "pool blocks of {block_bytes} bytes: the number must be a power of two from {LINE_BYTES} to {} (a quarter of the pool)",
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

    const fn blocks(&self) -> usize {
        if self.bytes == 0 { 0 } else { (self.bytes / self.block_bytes) as usize }
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

    /// The position after the block in which `position` lies.
    #[inline(always)]
    const fn block_end(&self, position: u32) -> u32 {
        (position | (self.shape.block_bytes - 1)).wrapping_add(1)
    }
}

/// The sending side: one in the life of a pool.
#[derive(Debug)]
pub struct Pool {
    /// The positions of the first block that may be taken, and of the first one that is not yet reclaimed.
    head: u32,
    tail: u32,
    /// For each block taken, for whom; `None` if that process is dead (rule 7).
    destinations: Box<[Option<u32>]>,
    /// Whether all blocks have been used: before that the kernel makes pages while we copy.
    is_warm: bool,
    area: PoolArea,
}

impl Pool {
    /// The sending side of a pool from which nobody has taken anything yet.
    pub fn new(area: PoolArea) -> Pool {
        let destinations = vec![None; area.shape.blocks()].into_boxed_slice();
        Pool { head: 0, tail: 0, destinations, is_warm: false, area }
    }

    /// The pool's sizes.
    pub const fn shape(&self) -> PoolShape {
        self.area.shape
    }

    /// Whether a message of `len` bytes could be taken now.
    #[inline]
    pub fn room_for(&mut self, len: usize) -> bool {
        let shape = self.area.shape;
        let wanted = len.max(1).next_multiple_of(shape.block_bytes as usize);
        len <= shape.max_message() && (wanted <= self.known_free() || wanted <= self.free_bytes())
    }

    /// Reclaims what has been freed, and says how many bytes there are to take.
    #[cold]
    pub fn free_bytes(&mut self) -> usize {
        // Rule 5, rule 7.
        while self.tail != self.head {
            let (block, end) = (self.area.block(self.tail), self.area.block_end(self.tail));
            if self.destinations[block].is_some() && self.area.state(block).load(Ordering::Acquire) != end {
                break;
            }
            self.tail = end;
        }
        self.known_free()
    }

    /// Frees what lies here for process `to`, *which must be known to be dead* (rule 7).
    pub fn forget(&mut self, to: u32) {
        for destination in &mut self.destinations {
            if *destination == Some(to) {
                *destination = None;
            }
        }
    }

    fn known_free(&self) -> usize {
        (self.area.shape.bytes - self.head.wrapping_sub(self.tail)) as usize
    }

    /// Takes blocks for `len` bytes for process `to`, for which there must be room; the position of the first (rule 2).
    #[inline]
    pub(crate) fn take(&mut self, len: usize, to: u32) -> u32 {
        let start = self.head;
        loop {
            debug_assert!(self.known_free() > 0);
            let block = self.area.block(self.head);
            self.destinations[block] = Some(to);
            self.head = self.area.block_end(self.head);
            self.is_warm |= self.area.at(self.head) == 0;
            if self.head.wrapping_sub(start) as usize >= len {
                return start;
            }
        }
    }

    /// `len` bytes at `position` to write: of blocks that were taken and whose slot is not yet published.
    #[inline]
    pub(crate) fn piece(&mut self, position: u32, len: usize) -> BytesMut<'_> {
        let at = self.area.at(position);
        debug_assert!(
            at % self.area.shape.block_bytes as usize + len <= self.area.shape.block_bytes as usize
        );
        self.area.watched.touch(at, len, Touch::Write);
        // SAFETY: inside the data, as a piece never crosses a block, and mapped while `area` lives. Nobody else uses
        // these bytes: their last reader has freed the block (rule 5), the next one knows of them only by the slot.
        unsafe { BytesMut::from_raw(self.area.data.as_ptr().add(at), len) }
    }

    /// Whether the time of a copy says something about the caches: not while pages are made.
    #[inline]
    pub(crate) const fn is_warm(&self) -> bool {
        self.is_warm
    }
}

/// The receiving side, of a peer's pool: any number of them.
#[derive(Clone, Debug)]
pub struct PoolView {
    area: PoolArea,
}

impl PoolView {
    /// A view of a peer's pool.
    pub fn new(area: PoolArea) -> PoolView {
        PoolView { area }
    }

    /// The `len` bytes of a piece at `position`; none if they do not lie within one block.
    #[inline]
    pub fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
        let (at, block) = (self.area.at(position), self.area.shape.block_bytes as usize);
        if len > block - (at & (block - 1)) {
            return None;
        }
        self.area.watched.touch(at, len, Touch::Read);
        // SAFETY: inside the block and so inside the data, mapped while `area` lives.
        Some(unsafe { Bytes::from_raw(self.area.data.as_ptr().add(at), len) })
    }

    /// Whether a piece of `len` bytes at `position` ends its block.
    #[inline]
    pub(crate) const fn ends_block(&self, position: u32, len: usize) -> bool {
        (position.wrapping_add(len as u32)) & (self.area.shape.block_bytes - 1) == 0 && len > 0
    }

    /// Frees the block in which `position` lies (rule 4).
    #[inline]
    pub fn free(&self, position: u32) {
        self.area.state(self.area.block(position)).store(self.area.block_end(position), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SHAPE: PoolShape = PoolShape { bytes: 4096, block_bytes: 512 };

    fn pool() -> (Pool, PoolView) {
        let area = PoolArea::on_heap(SHAPE);
        (Pool::new(area.clone()), PoolView::new(area))
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_with_their_values() {
        let wrong = |bytes, block_bytes| PoolShape { bytes, block_bytes }.check().unwrap_err();
        assert!(wrong(1000, 64).contains("1000 bytes"));
        assert!(wrong(1 << 31, 64).contains("2147483648 bytes"));
        assert!(wrong(4096, 2048).contains("blocks of 2048 bytes"));
        assert!(wrong(4096, 0).contains("blocks of 0 bytes"));
        assert_eq!(PoolShape { bytes: 0, block_bytes: 0 }.check(), Ok(()));
        assert_eq!(SHAPE.area_bytes(), 4096 + 4096);
    }

    #[test]
    fn rule_5_blocks_are_reclaimed_in_order_for_ever() {
        let (mut pool, view) = pool();
        // As if 2^32 bytes were nearly through.
        (pool.head, pool.tail) = (u32::MAX - 4095, u32::MAX - 4095);
        for _ in 0..20 {
            assert_eq!(pool.free_bytes(), 4096);
            let starts = [1500, 512, 0].map(|len| pool.take(len, 7));
            assert_eq!(pool.free_bytes(), 4096 - 5 * 512);
            view.free(starts[1]);
            view.free(starts[2].wrapping_add(100));
            assert_eq!(pool.free_bytes(), 4096 - 5 * 512, "the first block is not free");
            (0..3).for_each(|block| view.free(starts[0].wrapping_add(block * 512)));
        }
    }

    #[test]
    fn rules_2_and_7_room_and_the_dead() {
        let (mut pool, view) = pool();
        assert!(pool.room_for(2048) && !pool.room_for(2049), "half of the pool is the limit");
        pool.take(2048, 1);
        pool.take(1, 2);
        pool.take(1024, 1);
        assert!(pool.room_for(512) && !pool.room_for(513));
        pool.forget(1);
        assert_eq!(pool.free_bytes(), 4096 - 3 * 512, "the message for 2 lies in between");
        view.free(2048);
        assert_eq!(pool.free_bytes(), 4096);
    }

    #[test]
    fn rule_3_a_piece_that_crosses_its_block_is_none() {
        let (_, view) = pool();
        assert_eq!(view.bytes(u32::MAX - 511, 512).map(|bytes| bytes.len()), Some(512));
        assert!(
            view.bytes(1, 512).is_none() && view.bytes(511, 2).is_none() && view.bytes(0, 4096).is_none()
        );
        assert!(view.bytes(0, usize::MAX).is_none());
        assert!(view.ends_block(0, 512) && view.ends_block(511, 1) && !view.ends_block(512, 0));
    }
}
