//! Memory that several processes or threads access at the same time, such as a window's.
//!
//! A [`Memory`] promises only that its bytes are mapped while it or a clone lives. They are copied
//! ([`Memory::bytes`]) or used as atomic words ([`Memory::word`]), never through a Rust reference.

use crate::bytes::BytesMut;
use crate::line::Keep;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Mapped bytes that may change at any time. All clones refer to the same bytes.
#[derive(Clone)]
pub struct Memory {
    at: NonNull<u8>,
    len: usize,
    keep: Keep,
}

// SAFETY: an address and the owner of its mapping; accesses are copies and atomics, on any thread.
unsafe impl Send for Memory {}
// SAFETY: an address and the owner of its mapping; accesses are copies and atomics, on any thread.
unsafe impl Sync for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("at", &self.at)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Creates the pages of `len` bytes at `at` in one call, which is faster than a page fault for each
/// page. Before Linux 5.14 each page is created at its first use.
///
/// # Safety
/// The bytes, and all of each page that they touch, must be mapped and writable.
pub unsafe fn populate(at: NonNull<u8>, len: usize) {
    let before = at.addr().get() % rustix::param::page_size();
    // SAFETY: the caller guarantees mapped and writable pages; their content stays.
    let _ = unsafe {
        rustix::mm::madvise(
            at.as_ptr().wrapping_sub(before).cast(),
            len + before,
            rustix::mm::Advice::LinuxPopulateWrite,
        )
    };
}

struct Mapped {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the value only unmaps its own mapping.
unsafe impl Send for Mapped {}
// SAFETY: the value only unmaps its own mapping.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `Memory::of_file` has mapped this length, and only this line unmaps it, when no
        // `Memory` is left.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap(2): {unmapped:?}");
    }
}

struct Private {
    given: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value only frees its own allocation.
unsafe impl Send for Private {}
// SAFETY: the value only frees its own allocation.
unsafe impl Sync for Private {}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: `Memory::zeroed` has allocated this layout, and only this line frees it, when no
        // `Memory` is left.
        unsafe { dealloc(self.given.as_ptr(), self.layout) };
    }
}

impl Memory {
    /// Allocates `len` zeroed bytes at a multiple of `align` for this process alone. `None` without
    /// enough memory, or if `align` is no power of two.
    pub fn zeroed(len: usize, align: usize) -> Option<Memory> {
        if !align.is_power_of_two() {
            return None;
        }
        let align = align.max(64);
        // For a small alignment the allocator takes zeroed pages from the kernel; for a greater one
        // it writes to all of them. So `align` bytes more are allocated, at a small alignment.
        let layout = Layout::from_size_align(len.checked_add(align)?, 8).ok()?;
        // SAFETY: the size is not zero.
        let given = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: fewer than `align` bytes are skipped, and the allocation has `align` extra bytes.
        let at = unsafe { given.add(given.align_offset(align)) };
        Some(Memory { at, len, keep: Arc::new(Private { given, layout }) })
    }

    /// Maps the first `len` bytes of a file, shared with all other mappings of it. The file may be
    /// closed afterwards. No other process should be able to truncate the file
    /// ([`crate::nameless::seal`]): an access behind its end kills this process by SIGBUS. Errors:
    /// `InvalidInput` if `len` is 0 or the file is shorter; the errors of fstat(2) and mmap(2).
    pub fn of_file(file: impl AsFd, len: usize) -> io::Result<Memory> {
        let there = rustix::fs::fstat(&file)?.st_size;
        if len == 0 || usize::try_from(there).is_ok_and(|there| there < len) {
            let why = format!("{len} bytes of a file of {there} cannot be mapped");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { at, len, keep: Arc::new(Mapped { at, len }) })
    }

    /// `len` bytes at `at`, whose owner is `keep`.
    ///
    /// # Safety
    /// The bytes must be mapped, readable and writable as long as `keep` or a clone of it exists.
    pub unsafe fn from_raw(at: NonNull<u8>, len: usize, keep: Keep) -> Memory {
        Memory { at, len, keep }
    }

    /// The address in this process.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `offset` on as a `Memory`; `None` if they do not lie inside.
    pub fn part(&self, offset: usize, len: usize) -> Option<Memory> {
        let inside = offset <= self.len && len <= self.len - offset;
        // SAFETY: `inside` says that `offset` lies inside the mapped bytes.
        inside.then(|| Memory { at: unsafe { self.at.add(offset) }, len, keep: self.keep.clone() })
    }

    /// The `len` bytes from `offset` on as a view; `None` if they do not lie inside.
    #[inline(always)]
    pub fn bytes(&self, offset: usize, len: usize) -> Option<BytesMut<'_>> {
        let inside = offset <= self.len && len <= self.len - offset;
        // SAFETY: the range lies inside the bytes, which are mapped while `self` lives.
        inside.then(|| unsafe { BytesMut::from_raw(self.at.as_ptr().add(offset), len) })
    }

    /// Word `index` of 8 bytes.
    ///
    /// # Panics
    /// If there are fewer words, or the memory does not begin at a multiple of 8.
    #[inline(always)]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(
            index < self.len / 8 && self.at.addr().get().is_multiple_of(8),
            "word {index} of {self:?}"
        );
        // SAFETY: the word is inside, aligned, and mapped while `self` lives; all bit patterns are
        // valid. This process uses atomic words only as atomics; a peer that writes at any time can
        // spoil only the value.
        unsafe { self.at.cast::<AtomicU64>().add(index).as_ref() }
    }

    /// Sets all bytes to zero.
    pub fn clear(&self) {
        // SAFETY: the bytes are mapped and writable.
        unsafe { self.at.as_ptr().write_bytes(0, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use std::sync::atomic::Ordering;

    #[test]
    fn only_ranges_inside_are_given_out() {
        let memory = Memory::zeroed(100, 4096).unwrap();
        assert!(memory.start().addr().get().is_multiple_of(4096));
        assert!(memory.bytes(0, 100).is_some() && memory.bytes(100, 0).is_some());
        assert!(memory.bytes(1, 100).is_none() && memory.bytes(usize::MAX, 2).is_none());
        Bytes::from(&7u64.to_ne_bytes()).copy_to(memory.bytes(8, 8).unwrap());
        assert_eq!(memory.word(1).load(Ordering::Relaxed), 7);
        let part = memory.part(8, 16).unwrap();
        drop(memory);
        assert_eq!((part.word(0).load(Ordering::Relaxed), part.len()), (7, 16));
        part.clear();
        assert_eq!(part.word(0).load(Ordering::Relaxed), 0);
        assert!(part.part(9, 8).is_none());
        assert!(Memory::zeroed(8, 48).is_none());
    }

    #[test]
    fn all_mappings_of_a_file_are_the_same_memory() {
        let file = crate::nameless::create("test").unwrap();
        crate::nameless::set_length(&file, 16).unwrap();
        let one = Memory::of_file(&file, 16).unwrap();
        let other = Memory::of_file(&file, 16).unwrap();
        for wrong in [0, 17] {
            let said = Memory::of_file(&file, wrong).unwrap_err().to_string();
            assert_eq!(said, format!("{wrong} bytes of a file of 16 cannot be mapped"));
        }
        drop(file);
        one.word(1).store(7, Ordering::Relaxed);
        let part = other.part(8, 8).unwrap();
        drop((one, other));
        assert_eq!(part.word(0).load(Ordering::Relaxed), 7);
    }
}
