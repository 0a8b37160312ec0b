//! The heap: memory in a process's own segment for its program (MPI_Alloc_mem).
//!
//! A peer that receives a message from the heap maps the same memory and copies the message with
//! loads and stores: without a system call, without a second copy, and without permission to read
//! other memory of the process.
//!
//! Rules
//! 1. Only the owner takes and frees ranges, through its one [`Heap`]. The list of taken ranges is
//!    not shared.
//! 2. The owner maps the heap at the first request for a range, and publishes its address
//!    ([`Segment::open_heap`]) before any message can name memory in it. A peer maps the heap at
//!    the first such message.
//! 3. A peer only reads, at any address that it receives, and only inside the heap
//!    ([`Segment::heap_bytes`]). It writes only in windows of the owner ([`Segment::heap_memory`]),
//!    and makes its mapping writable at the first one.
//! 4. The heap takes no memory before it is used. A long range returns its pages to the kernel when
//!    it is freed.
//!
//! A child that the owner forks shares the memory, as any shared mapping.

mod ranges;

use self::ranges::Ranges;
use crate::segment::{HUGE_PAGE, Segment};
use oxmpi_sys::memory::Memory;
use rustix::mm::Advice;
use std::{
    fmt, io,
    ops::{Deref, DerefMut},
    os::fd::OwnedFd,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

const PAGE: usize = 4096;
const LINE: usize = 64;

/// Bytes from which a range returns its pages at once.
const LONG: usize = 64 << 10;

/// Opens the caller's own segment again.
pub type OpenOwn = Box<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// The owner's side of its heap: one in the life of a segment. Any thread may use it.
pub struct Heap {
    segment: Arc<Segment>,
    open: OpenOwn,
    /// The address of the heap; `None` if it could not be mapped.
    at: OnceLock<Option<NonNull<u8>>>,
    ranges: Mutex<Ranges>,
}

// SAFETY: the pointer is only an address. Its memory is handed out in ranges, each to one caller.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("at", &self.at.get()).finish_non_exhaustive()
    }
}

impl Heap {
    /// The heap of `segment`, which the caller owns and `open` opens. Nothing is mapped yet.
    pub fn new(segment: Arc<Segment>, open: OpenOwn) -> Heap {
        let ranges = Mutex::new(Ranges::new(segment.boot().config.heap_len()));
        Heap { segment, open, at: OnceLock::new(), ranges }
    }

    /// Takes `bytes` bytes at a multiple of `align`, at least on a cache line; a range as long as a
    /// page or a huge page is aligned to that. The content is undefined, and stays mapped while any
    /// process has the segment mapped. `None`: there is no room or no heap, or `align` is not a
    /// power of two or exceeds a huge page.
    pub fn allocate(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if !align.is_power_of_two() || align > HUGE_PAGE {
            return None;
        }
        let unit = if bytes < PAGE { LINE } else { PAGE };
        let len = bytes.max(1).checked_next_multiple_of(unit)?;
        let natural = if bytes < HUGE_PAGE { unit } else { HUGE_PAGE };
        let at = self.mapped()?;
        let offset = self.ranges().take(len, natural.max(align))?;
        // SAFETY: the range is in the heap, which is mapped while `segment` lives.
        let start = unsafe { at.add(offset) };
        if len >= HUGE_PAGE {
            let whole = len & !(HUGE_PAGE - 1);
            // SAFETY: inside the heap; the advice changes no content. Without huge pages in shared
            // memory it fails or has no effect.
            let _ =
                unsafe { rustix::mm::madvise(start.as_ptr().cast(), whole, Advice::LinuxHugepage) };
        }
        Some(start)
    }

    /// Frees memory of [`Heap::allocate`] at `address`. `false`: none was taken there.
    ///
    /// # Safety
    /// The memory is not used any more.
    pub unsafe fn free(&self, address: usize) -> bool {
        let Some(at) = self.at.get().copied().flatten() else { return false };
        let Some(offset) = address.checked_sub(at.as_ptr().addr()) else { return false };
        let mut ranges = self.ranges();
        let Some(len) = ranges.give_back(offset) else { return false };
        if len >= LONG {
            // SAFETY: the range is in the heap and, by the contract, unused; with the lock held no
            // other caller has it already. A range of a page and more is whole pages. If the call
            // fails, they stay.
            let _ = unsafe {
                rustix::mm::madvise(at.as_ptr().add(offset).cast(), len, Advice::LinuxRemove)
            };
        }
        true
    }

    /// Whether some of the `len` bytes at `address` are in the heap, which peers can map.
    pub fn overlaps(&self, address: usize, len: usize) -> bool {
        let Some(at) = self.at.get().copied().flatten() else { return false };
        let (start, end) =
            (at.as_ptr().addr(), at.as_ptr().addr() + self.segment.boot().config.heap_len());
        address < end && start < address.saturating_add(len)
    }

    /// The bytes of the heap, and of its taken ranges.
    pub fn usage(&self) -> (usize, usize) {
        (self.segment.boot().config.heap_len(), self.ranges().taken())
    }

    /// As [`Heap::allocate`], for a value that only this process writes and that is freed when
    /// dropped.
    pub fn block(self: &Arc<Self>, len: usize) -> Option<HeapBlock> {
        let at = self.allocate(len, 1)?;
        Some(HeapBlock { at, len, heap: self.clone() })
    }

    /// As [`Heap::allocate`], for memory that peers may write and that is freed when dropped.
    pub fn memory(self: &Arc<Self>, len: usize, align: usize) -> Option<Memory> {
        let at = self.allocate(len, align)?;
        let range = Range { at, heap: self.clone() };
        // SAFETY: mapped to read and write while the heap lives, taken while `range` lives.
        Some(unsafe { Memory::from_raw(at, len, Arc::new(range)) })
    }

    fn mapped(&self) -> Option<NonNull<u8>> {
        *self.at.get_or_init(|| (self.open)().and_then(|fd| self.segment.open_heap(fd)).ok())
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        // The operations on the lists do not panic, so they are whole even after a panic of a
        // thread.
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory in the heap, freed when dropped. Peers read messages in it.
#[derive(Debug)]
pub struct HeapBlock {
    at: NonNull<u8>,
    len: usize,
    heap: Arc<Heap>,
}

// SAFETY: only this block uses its range.
unsafe impl Send for HeapBlock {}
// SAFETY: as above; shared, it can only be read.
unsafe impl Sync for HeapBlock {}

impl Deref for HeapBlock {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped while `heap` lives, and all memory of a file is initialised. No other
        // process writes: peers only read.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for HeapBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl Drop for HeapBlock {
    fn drop(&mut self) {
        // SAFETY: the range was taken by `Heap::block`, and its users have borrowed the block.
        let freed = unsafe { self.heap.free(self.at.as_ptr().addr()) };
        debug_assert!(freed);
    }
}

struct Range {
    at: NonNull<u8>,
    heap: Arc<Heap>,
}

// SAFETY: the value only frees its own range.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: no `Memory` of this process is left. All processes of a window free it together,
        // so no peer uses the range.
        unsafe { self.heap.free(self.at.as_ptr().addr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Boot, SegmentConfig};

    const MIB: usize = 1 << 20;

    fn heap(heap_bytes: u64) -> (Arc<Heap>, OwnedFd) {
        let fd = Segment::create(&Boot {
            config: SegmentConfig { heap_bytes, ..SegmentConfig::default() },
            ..Boot::on_one_node(1, 0, 1)
        })
        .unwrap();
        let (segment, own) = (Segment::map(&fd).unwrap(), fd.try_clone().unwrap());
        (Arc::new(Heap::new(segment, Box::new(move || own.try_clone()))), fd)
    }

    fn used(fd: &OwnedFd) -> usize {
        rustix::fs::fstat(fd).unwrap().st_blocks as usize * 512
    }

    #[test]
    fn addresses_are_aligned_as_requested_and_by_length() {
        let (heap, _fd) = heap(64 << 20);
        for (bytes, align, wanted) in [
            (0, 1, 64),
            (1, 1, 64),
            (100, 4096, 4096),
            (4095, 1, 64),
            (4096, 64, 4096),
            (2 * MIB - 1, 1, 4096),
            (2 * MIB, 1, 2 * MIB),
            (5, 2 * MIB, 2 * MIB),
        ] {
            let at = heap.allocate(bytes, align).unwrap();
            assert!(at.as_ptr().addr().is_multiple_of(wanted), "{bytes} bytes at {align}");
        }
        for (bytes, align) in [(1, 0), (1, 3), (1, 4 * MIB), (65 * MIB, 1), (usize::MAX, 1)] {
            assert!(heap.allocate(bytes, align).is_none(), "{bytes} bytes at {align}");
        }
    }

    #[test]
    fn what_is_freed_gives_its_pages_back_and_comes_again() {
        let (heap, fd) = heap(64 << 20);
        let at_first = used(&fd);
        let mut block = heap.block(50 * MIB).unwrap();
        assert_eq!(used(&fd), at_first, "nothing takes memory before it is used");
        block[..40 * MIB].fill(7);
        assert!(used(&fd) >= at_first + 40 * MIB);
        assert!(heap.block(20 * MIB).is_none(), "there is no room");
        drop(block);
        assert_eq!(used(&fd), at_first);
        let block = heap.block(50 * MIB).unwrap();
        assert!(block.iter().all(|byte| *byte == 0), "new pages");
    }

    #[test]
    fn nothing_is_freed_that_was_not_allocated() {
        let (heap, _fd) = heap(1 << 20);
        // SAFETY: memory that is freed here is unused.
        let free = |address| unsafe { heap.free(address) };
        assert!(!free(0x1000), "nothing is mapped");
        let at = heap.allocate(100, 1).unwrap().as_ptr().addr();
        for wrong in [0, at - 1, at + 1, at + 64, at + (1 << 20), usize::MAX] {
            assert!(!free(wrong), "{wrong:#x}");
        }
        assert!(free(at) && !free(at));
    }

    #[test]
    fn a_segment_without_a_heap_has_no_room() {
        assert!(heap(0).0.allocate(1, 1).is_none());
        let (heap, _fd) = heap(4095);
        assert!(heap.allocate(1, 1).is_none(), "not a whole page");
    }
}
