//! The memory of a pool: its sizes, its blocks and their states.

use super::trials::{LONGEST_SHORT, SHORTER};
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
    /// Whether as many bytes follow for streams of long messages (rule 8).
    pub streams: bool,
}

/// The smallest block in bytes.
pub(super) const SMALLEST: u32 = 1 << 10;

/// The first part has halves if it has so many blocks.
const LEAST_HALVED: u32 = 16;

/// States and data begin on pages of their own.
pub(super) const PAGE: usize = 4096;

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
        let PoolShape { bytes, block_bytes, streams } = *self;
        if bytes == 0 {
            return Ok(());
        }
        if !bytes.is_power_of_two() || !(4 * SMALLEST..=1 << 30).contains(&bytes) {
            return Err(format!(
                "a pool of {bytes} bytes: the number must be 0 or a power of two from 4096 to 2^30"
            ));
        }
        if streams && bytes > 1 << 29 {
            return Err(format!("a pool of {bytes} bytes with as many for streams: at most 2^29"));
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
        self.data_offset() + self.lap_bytes() as usize
    }

    /// All bytes of data, those for streams among them: from a position to the same place in the next lap.
    pub(super) const fn lap_bytes(&self) -> u32 {
        if self.streams { 2 * self.bytes } else { self.bytes }
    }

    /// Blocks of the first part (rule 8).
    pub(super) const fn first_blocks(&self) -> u32 {
        let quarter = self.usual_blocks() / 4;
        if quarter < 4 { 0 } else { quarter }
    }

    /// Blocks of the first one of its halves, which is all of it if it is small (rule 8).
    pub(super) const fn first_half_blocks(&self) -> u32 {
        let blocks = self.first_blocks();
        if blocks < LEAST_HALVED { blocks } else { blocks / 2 }
    }

    /// Whether a message lies in the first part if it can (rule 8).
    pub(super) const fn is_first(&self, len: usize) -> bool {
        len >= self.block_bytes as usize / 4
    }

    /// Whether messages of this length in the first part lie in its halves in turns: else they would be written to a few lines again
    /// and again (rule 8).
    pub(super) const fn takes_turns(&self, len: usize) -> bool {
        len < self.block_bytes as usize / 2
    }

    /// Whether a message is long, so that its sender does not run ahead of its receiver (rule 8).
    pub(crate) const fn is_long(&self, len: usize) -> bool {
        len >= 2 * self.block_bytes as usize && len >= self.bytes as usize / 16
    }

    /// How far on in its block a message lies in the next lap of the pool if it is spread (rule 8); 0: it stays.
    pub(super) const fn step(&self, len: usize) -> u32 {
        if len > self.block_bytes as usize / 2 { 0 } else { (len as u32).next_power_of_two() }
    }

    /// Whether a message lies further on in its block in each lap as long as copies to lines that are written again soon are slow
    /// (rule 8).
    pub(super) const fn is_spread_if_slow(&self, len: usize) -> bool {
        len > LONGEST_SHORT && self.step(len) > 0
    }

    /// Whether ways to lay a message are tried (rule 8).
    pub(super) const fn is_short(&self, len: usize) -> bool {
        len > SHORTER && len <= LONGEST_SHORT && !self.is_first(len)
    }

    pub(super) const fn blocks(&self) -> usize {
        if self.bytes == 0 { 0 } else { in_blocks(self.lap_bytes() as usize, self.block_bytes) }
    }

    /// Blocks without those for streams, which come behind them.
    pub(super) const fn usual_blocks(&self) -> u32 {
        if self.bytes == 0 { 0 } else { in_blocks(self.bytes as usize, self.block_bytes) as u32 }
    }

    pub(super) const fn data_offset(&self) -> usize {
        (self.blocks() * size_of::<u32>()).next_multiple_of(PAGE)
    }
}

/// The memory of a pool, in a segment or on the heap. Cloning it gives another view of the same pool.
#[derive(Clone, Debug)]
pub struct PoolArea {
    pub(super) states: NonNull<AtomicU32>,
    pub(super) data: NonNull<u8>,
    pub(super) shape: PoolShape,
    pub(super) watched: Watched,
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
        let data = heap_data(shape.lap_bytes() as usize);
        PoolArea {
            states: NonNull::from(&states[0]),
            data: NonNull::from(&data[..]).cast(),
            shape,
            watched: Watched::new(shape.lap_bytes() as usize),
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
        PoolArea {
            states: at.cast(),
            data,
            shape,
            watched: Watched::new(shape.lap_bytes() as usize),
            _keep: keep,
        }
    }

    /// The pool's sizes.
    pub const fn shape(&self) -> PoolShape {
        self.shape
    }

    /// Where `position` lies in the data.
    #[inline(always)]
    pub(super) const fn at(&self, position: u32) -> usize {
        (position & (self.shape.lap_bytes() - 1)) as usize
    }

    /// The number of the lap in which `position` lies.
    #[inline(always)]
    pub(super) const fn lap(&self, position: u32) -> u32 {
        position >> self.shape.lap_bytes().trailing_zeros()
    }

    /// Where `position` lies in its block.
    #[inline(always)]
    pub(super) const fn offset(&self, position: u32) -> usize {
        (position & (self.shape.block_bytes - 1)) as usize
    }

    /// The number of the block in which `position` lies.
    #[inline(always)]
    pub(super) const fn block(&self, position: u32) -> usize {
        self.at(position) >> self.shape.block_bytes.trailing_zeros()
    }

    /// The state of that block.
    #[inline(always)]
    pub(super) fn state(&self, block: usize) -> &AtomicU32 {
        debug_assert!(block < self.shape.blocks());
        // SAFETY: `block` reduces all positions to the numbers of blocks that there are; mapped while `_keep` lives.
        unsafe { self.states.add(block).as_ref() }
    }

    /// Whether a piece of `len` bytes may lie at `position` (rule 3).
    #[inline(always)]
    pub(super) const fn holds(&self, position: u32, len: usize) -> bool {
        let offset = self.offset(position);
        len <= self.shape.block_bytes as usize - offset
            || offset == 0 && len <= self.shape.lap_bytes() as usize - self.at(position)
    }

    /// Where a message of `len` bytes lies in the block that begins at `position` if it is spread (rule 8).
    #[inline]
    pub(super) const fn spread_offset(&self, position: u32, len: usize) -> u32 {
        // Blocks side by side begin with different lines, which lie in different sets of the caches.
        let turn = self.lap(position).wrapping_add(self.block(position) as u32);
        turn.wrapping_mul(self.shape.step(len)) & (self.shape.block_bytes - 1)
    }

    /// The position after the block in which `position` lies.
    #[inline(always)]
    pub(super) const fn block_end(&self, position: u32) -> u32 {
        (position | (self.shape.block_bytes - 1)).wrapping_add(1)
    }

    /// How many blocks a message takes.
    #[inline]
    pub(super) const fn blocks_of(&self, len: usize) -> usize {
        if len == 0 { 1 } else { in_blocks(len, self.shape.block_bytes) }
    }

    /// The `len` bytes at a position, to write.
    ///
    /// # Safety
    /// The caller has taken or claimed the blocks, and has not yet published the slot that says what lies there.
    #[inline]
    pub(super) unsafe fn piece(&self, position: u32, len: usize) -> BytesMut<'_> {
        let at = self.at(position);
        debug_assert!(self.holds(position, len));
        self.watched.touch(at, len, Touch::Write);
        // SAFETY: inside the data, as a piece lies in blocks side by side, and mapped while `self` lives. Nobody else uses
        // these bytes: their last reader has freed the blocks (rules 5 and 9), the next one knows of them only by the slot.
        unsafe { BytesMut::from_raw(self.data.as_ptr().add(at), len) }
    }

    /// The `len` bytes of a piece at `position`; none if no piece lies there (rule 3).
    #[inline]
    pub(super) fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
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
    pub(super) const fn span(&self, position: u32, len: usize) -> Span {
        let block_bytes = self.shape.block_bytes;
        let first = position & !(block_bytes - 1);
        let end = self.offset(position) + len;
        let blocks = self.blocks_of(end) as u32;
        Span { first, blocks, last_bytes: end as u32 - (blocks - 1) * block_bytes, whole: blocks - 1 }
    }

    /// The states of the blocks of a span, each with the position after the block.
    #[inline]
    pub(super) fn states(&self, span: Span) -> impl Iterator<Item = (&AtomicU32, u32)> {
        let ends = (0..span.blocks)
            .map(move |at| self.block_end(span.first.wrapping_add(at * self.shape.block_bytes)));
        ends.map(|end| (self.state(self.block(end.wrapping_sub(1))), end))
    }

    /// Rule 4.
    #[inline]
    pub(super) fn free(&self, span: Span) {
        self.states(span).for_each(|(state, end)| state.store(held(end, NOBODY), Ordering::Release));
    }

    /// Rule 9: claims free blocks for a holder, all or none.
    #[inline]
    pub(super) fn claim(&self, span: Span, holder: u32) -> bool {
        let missed = self.states(span).position(|(state, end)| !change_free(state, end, holder));
        if let Some(claimed) = missed {
            self.free(Span { blocks: claimed as u32, ..span });
        }
        missed.is_none()
    }

    /// The blocks of both spans if the second one comes behind the first one, in the same part and without going back to its
    /// beginning; else those of the second one.
    #[inline]
    pub(super) fn join(&self, first: Option<Span>, second: Span) -> Span {
        let block = self.block(second.first) as u32;
        match first {
            Some(Span { first, blocks, last_bytes, whole })
                if first.wrapping_add(blocks * self.shape.block_bytes) == second.first
                    && ![0, self.shape.first_half_blocks(), self.shape.first_blocks()].contains(&block) =>
            {
                let before = if last_bytes == self.shape.block_bytes { whole + 1 } else { 0 };
                Span { first, blocks: blocks + second.blocks, whole: second.whole + before, ..second }
            }
            _ => second,
        }
    }

    /// The blocks of a span for a message of `len` bytes, which takes all of them.
    #[inline]
    pub(super) const fn again(&self, span: Span, len: usize) -> Again {
        Again { first: span.first, is_in_place: span.has_read(len, self.shape.block_bytes) }
    }

    /// The last blocks of a span, enough for `len` bytes, and what is left before them; `None`: there are not so many.
    #[inline]
    pub(super) fn split_last(&self, span: Span, len: usize) -> Option<(Span, Option<Span>)> {
        let blocks = self.blocks_of(len) as u32;
        let left = span.blocks.checked_sub(blocks)?;
        let first = span.first.wrapping_add(left * self.shape.block_bytes);
        // What is left is freed.
        Some((Span { first, blocks, ..span }, (left > 0).then_some(Span { blocks: left, ..span })))
    }
}

/// Blocks that lie side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The position of the first one.
    pub(super) first: u32,
    pub(super) blocks: u32,
    /// How many bytes from the beginning of the last one on were read here, and how many blocks just before it were read to
    /// their ends. Of a message that began further on, which is spread, that is too much: its answer is taken for in place.
    pub(super) last_bytes: u32,
    pub(super) whole: u32,
}

impl Span {
    /// Whether a message of `len` bytes that takes as many blocks lies where as much was read.
    #[inline]
    pub(super) const fn has_read(&self, len: usize, block_bytes: u32) -> bool {
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
pub(super) const NOBODY: u32 = 0;
pub(super) const OWNER: u32 = SMALLEST - 1;

/// Process `number` as a holder, if it can be one.
pub(super) const fn holder(number: u32) -> Option<u32> {
    if number < OWNER - 1 { Some(number + 1) } else { None }
}

/// The state of a block that was freed at this position, a multiple of [`SMALLEST`], and has this holder since.
pub(super) const fn held(end: u32, holder: u32) -> u32 {
    end | holder
}

/// Gives a free block a holder. Whether it was free.
#[inline]
pub(super) fn change_free(state: &AtomicU32, end: u32, holder: u32) -> bool {
    let free = held(end, NOBODY);
    state.compare_exchange(free, held(end, holder), Ordering::Acquire, Ordering::Relaxed).is_ok()
}
