//! The memory of a pool: its sizes, its blocks and their states.

use oxmpi_sys::{
    bytes::{Bytes, BytesMut},
    line::{Keep, Touch, Watched, heap_data},
    sync::{AtomicU32, Ordering},
};
use std::{ptr::NonNull, sync::Arc};

/// The sizes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// A power of two from 4 KiB to 1 GiB; 0: there is no pool.
    pub bytes: u32,
    /// A power of two, 1 KiB to a quarter of the pool.
    pub block_bytes: u32,
}

const SMALLEST: u32 = 1 << 10;

const PAGE: usize = 4096;

/// A shift: the compiler does not know that `each` is a power of two, and would divide.
#[inline(always)]
const fn in_blocks(bytes: usize, each: u32) -> usize {
    debug_assert!(each.is_power_of_two());
    (bytes + (each as usize - 1)) >> each.trailing_zeros()
}

impl PoolShape {
    /// Checks the sizes; the error is a text for the user.
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

    /// The longest message, in bytes: half the pool, so that writing and reading overlap.
    pub const fn max_message(&self) -> usize {
        self.bytes as usize / 2
    }

    /// Bytes of memory a pool takes.
    pub const fn area_bytes(&self) -> usize {
        self.data_offset() + self.bytes as usize
    }

    pub(super) const fn blocks(&self) -> usize {
        if self.bytes == 0 { 0 } else { in_blocks(self.bytes as usize, self.block_bytes) }
    }

    const fn data_offset(&self) -> usize {
        (self.blocks() * size_of::<u32>()).next_multiple_of(PAGE)
    }
}

/// The memory of a pool, in a segment or on the heap. A clone is a view of the same pool.
#[derive(Clone, Debug)]
pub struct PoolArea {
    states: NonNull<AtomicU32>,
    data: NonNull<u8>,
    pub(super) shape: PoolShape,
    watched: Watched,
    _keep: Keep,
}

// SAFETY: the memory behind the pointers is atomics, and bytes that the protocol hands from the
// sender to one receiver and back (rules 2 to 4); `_keep` keeps it mapped.
unsafe impl Send for PoolArea {}
// SAFETY: as above; a shared `PoolArea` can only be cloned.
unsafe impl Sync for PoolArea {}

impl PoolArea {
    /// A pool of zeroes on the heap, for threads of one process. Panics if [`PoolShape::check`]
    /// returns an error, or the pool has no bytes.
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

    /// Safety: [`PoolShape::area_bytes`] bytes at `at`, aligned to a page, are zero or a pool of
    /// this shape, and stay mapped and writable while `keep` lives. The shape has passed its check
    /// and has bytes.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(at: NonNull<u8>, shape: PoolShape, keep: Keep) -> Self {
        debug_assert!(shape.check().is_ok() && shape.bytes > 0);
        // SAFETY: the data are inside the `area_bytes()` bytes of the caller.
        let data = unsafe { at.add(shape.data_offset()) };
        PoolArea {
            states: at.cast(),
            data,
            shape,
            watched: Watched::new(shape.bytes as usize),
            _keep: keep,
        }
    }

    /// The pool's sizes.
    pub const fn shape(&self) -> PoolShape {
        self.shape
    }

    #[inline(always)]
    pub(super) const fn at(&self, position: u32) -> usize {
        (position & (self.shape.bytes - 1)) as usize
    }

    #[inline(always)]
    pub(super) const fn block(&self, position: u32) -> usize {
        self.at(position) >> self.shape.block_bytes.trailing_zeros()
    }

    #[inline(always)]
    pub(super) fn state(&self, block: usize) -> &AtomicU32 {
        debug_assert!(block < self.shape.blocks());
        // SAFETY: `block` maps every position to an existing block; mapped while `_keep` lives.
        unsafe { self.states.add(block).as_ref() }
    }

    /// Whether a piece of `len` bytes may be at `position` (rule 3).
    #[inline(always)]
    const fn holds(&self, position: u32, len: usize) -> bool {
        position & (self.shape.block_bytes - 1) == 0
            && len <= self.shape.bytes as usize - self.at(position)
    }

    #[inline(always)]
    pub(super) const fn block_end(&self, position: u32) -> u32 {
        (position | (self.shape.block_bytes - 1)).wrapping_add(1)
    }

    #[inline]
    pub(super) const fn blocks_of(&self, len: usize) -> usize {
        if len == 0 { 1 } else { in_blocks(len, self.shape.block_bytes) }
    }

    /// The `len` bytes at a position, to write. Safety: the caller has taken the blocks, and has
    /// not yet published the slot that names them.
    #[inline]
    pub(super) unsafe fn piece(&self, position: u32, len: usize) -> BytesMut<'_> {
        let at = self.at(position);
        debug_assert!(self.holds(position, len));
        self.watched.touch(at, len, Touch::Write);
        // SAFETY: inside the data, as a piece is in adjacent blocks, and mapped while `self` lives.
        // No other process uses these bytes: their last reader has freed the blocks (rule 4), and
        // the next reader knows of them only by the slot.
        unsafe { BytesMut::from_raw(self.data.as_ptr().add(at), len) }
    }

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

    /// Rule 4: frees the blocks of the `len` bytes at a position.
    #[inline]
    pub(super) fn free(&self, position: u32, len: usize) {
        let mut end = self.block_end(position);
        for _ in 0..self.blocks_of(len) {
            self.state(self.block(end.wrapping_sub(1))).store(end, Ordering::Release);
            end = end.wrapping_add(self.shape.block_bytes);
        }
    }
}
