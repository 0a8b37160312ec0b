//! The mappings of a segment's heap: see [`crate::heap`].

use super::{PAGE, Segment, read_header};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::memory::Memory;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::{
    ffi::c_void,
    io,
    os::fd::{AsFd, BorrowedFd},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// In bytes. The heap begins at a multiple of it, in the segment and in memory.
pub const HUGE_PAGE: usize = 2 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Of the owner, whose program uses the memory.
    Own,
    /// Of a peer, which reads messages there, and writes in windows.
    Peer,
}

#[derive(Debug)]
pub(super) struct HeapMapping {
    at: NonNull<u8>,
    bytes: usize,
    writable: AtomicBool,
}

impl Segment {
    /// Maps the heap for its owner, the caller, and publishes the address: from now on peers may
    /// read there. `fd` is the segment's. Returns the address, a multiple of [`HUGE_PAGE`]. No page
    /// is touched and no memory is reserved. `Unsupported` if the segment has no heap,
    /// `InvalidInput` if `fd` is another file.
    pub fn open_heap(&self, fd: impl AsFd) -> io::Result<NonNull<u8>> {
        let at = self.mapped_heap(fd.as_fd(), Access::Own)?.at;
        self.status().heap_at.store(at.as_ptr().expose_provenance() as u64, Ordering::Release);
        Ok(at)
    }

    /// Maps the heap of a peer for reading.
    pub fn map_heap(&self, fd: impl AsFd) -> io::Result<()> {
        self.mapped_heap(fd.as_fd(), Access::Peer).map(drop)
    }

    /// Whether the heap is mapped here.
    pub fn has_heap(&self) -> bool {
        self.heap.get().is_some()
    }

    /// Whether all `len` bytes at `address` in the owner's memory are in its heap. Takes any
    /// values.
    #[inline]
    pub fn is_in_heap(&self, address: u64, len: usize) -> bool {
        self.heap_offset_of(address, len).is_some()
    }

    /// The `len` bytes at the owner's `address`, if they are in its heap, which is mapped here.
    #[inline]
    pub fn heap_bytes(&self, address: u64, len: usize) -> Option<Bytes<'_>> {
        let heap = self.heap.get()?;
        let offset = self.heap_offset_of(address, len)?;
        // SAFETY: `heap_offset_of` has checked that the bytes are in the `heap_len()` bytes that
        // are mapped there as long as `self` lives.
        Some(unsafe { Bytes::from_raw(heap.at.as_ptr().add(offset), len) })
    }

    /// The whole heap, mapped here to read and write, with the owner's address. `None`: it is not
    /// mapped here, or the owner has not mapped it, or the kernel forbids writing.
    pub fn heap_memory(self: &Arc<Self>) -> Option<(u64, Memory)> {
        let heap = self.heap.get()?;
        let there = match self.status().heap_at.load(Ordering::Acquire) {
            0 => return None,
            at => at,
        };
        if !heap.writable.load(Ordering::Acquire) {
            let prot = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: the mapping is ours; the call adds a permission and changes no content.
            unsafe { rustix::mm::mprotect(heap.at.as_ptr().cast(), heap.bytes, prot) }.ok()?;
            heap.writable.store(true, Ordering::Release);
        }
        // SAFETY: these bytes are mapped to read and write while the segment lives.
        Some((there, unsafe { Memory::from_raw(heap.at, heap.bytes, self.clone()) }))
    }

    /// The offset in the heap of the `len` bytes at the owner's `address`, if all are inside.
    #[inline]
    fn heap_offset_of(&self, address: u64, len: usize) -> Option<usize> {
        match self.status().heap_at.load(Ordering::Acquire) {
            0 => None,
            // The owner may have stored any address; the result is always inside our mapping.
            at => offset_within(at, self.boot.config.heap_len(), address, len),
        }
    }

    fn mapped_heap(&self, fd: BorrowedFd<'_>, access: Access) -> io::Result<&HeapMapping> {
        if let Some(there) = self.heap.get() {
            return Ok(there);
        }
        let config = &self.boot.config;
        if config.heap_len() == 0 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this segment has no heap"));
        }
        let (found, header) = (rustix::fs::fstat(fd)?.st_size, read_header(fd)?);
        // A shorter file would raise SIGBUS in the middle of a message.
        if found as u64 != config.bytes() as u64 || header.boot() != self.boot {
            let text =
                format!("the file is not the segment of rank {} of this job", self.boot.rank);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let new = HeapMapping::new(fd, config.heap_offset(), config.heap_len(), access)?;
        // If another thread was faster, its mapping is used, and this one is dropped.
        Ok(self.heap.get_or_init(|| new))
    }
}

#[inline]
fn offset_within(at: u64, room: usize, address: u64, len: usize) -> Option<usize> {
    let offset = usize::try_from(address.checked_sub(at)?).ok()?;
    (offset <= room && len <= room - offset).then_some(offset)
}

impl HeapMapping {
    /// Maps `bytes` bytes of `fd` from `offset` on to a multiple of [`HUGE_PAGE`].
    fn new(
        fd: BorrowedFd<'_>,
        offset: usize,
        bytes: usize,
        access: Access,
    ) -> io::Result<HeapMapping> {
        debug_assert!(offset.is_multiple_of(HUGE_PAGE) && bytes.is_multiple_of(PAGE) && bytes > 0);
        // Reserves more addresses than needed, to choose an aligned part; the rest is unmapped.
        let reserved = bytes + HUGE_PAGE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                reserved,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let before = start.cast::<u8>().align_offset(HUGE_PAGE);
        let at = start.wrapping_byte_add(before);
        let prot = match access {
            Access::Own => ProtFlags::READ | ProtFlags::WRITE,
            Access::Peer => ProtFlags::READ,
        };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: replaces addresses that were reserved above and that no other code knows.
        let mapped = unsafe { rustix::mm::mmap(at, bytes, prot, flags, fd, offset as u64) };
        if let Err(error) = mapped {
            unmap(start, reserved);
            return Err(error.into());
        }
        let after = at.wrapping_byte_add(bytes);
        unmap(start, before);
        unmap(after, HUGE_PAGE - before);
        if access == Access::Peer {
            // SAFETY: mapped above; the advice changes no content. Only the owner's core dump needs
            // the heap; if the advice fails, other core dumps are longer.
            let _ = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxDontDump) };
        }
        let at = NonNull::new(at.cast())
            .expect("mmap(2) gave a null pointer for a mapping of its choice");
        Ok(HeapMapping { at, bytes, writable: AtomicBool::new(access == Access::Own) })
    }
}

impl Drop for HeapMapping {
    fn drop(&mut self) {
        unmap(self.at.as_ptr().cast(), self.bytes);
    }
}

fn unmap(at: *mut c_void, bytes: usize) {
    if bytes > 0 {
        // SAFETY: parts of mappings made here. No views are left, as views borrow the segment.
        let unmapped = unsafe { rustix::mm::munmap(at, bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

// SAFETY: the mapping is only an address; its content is bytes that may change at any time.
unsafe impl Send for HeapMapping {}
// SAFETY: as above.
unsafe impl Sync for HeapMapping {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Boot, SegmentConfig};
    use std::os::fd::OwnedFd;

    fn created(rank: u32, heap_bytes: u64) -> OwnedFd {
        Segment::create(&Boot {
            config: SegmentConfig { heap_bytes, ..SegmentConfig::default() },
            ..Boot::on_one_node(7, rank, 2)
        })
        .unwrap()
    }

    #[test]
    fn only_what_lies_inside_is_inside() {
        let (at, room) = (1 << 40, 4096);
        for (address, len, offset) in
            [(at, 4096, 0), (at + 4096, 0, 4096), (at + 1, 4095, 1), (at + 8, 8, 8)]
        {
            assert_eq!(offset_within(at, room, address, len), Some(offset));
        }
        for (address, len) in [
            (at - 1, 1),
            (at, 4097),
            (at + 1, 4096),
            (at + 4097, 0),
            (at + 4000, usize::MAX),
            (u64::MAX, 1),
            (u64::MAX, usize::MAX),
            (0, 1),
        ] {
            assert_eq!(offset_within(at, room, address, len), None, "{len} at {address:#x}");
        }
        assert_eq!(offset_within(u64::MAX - 5, room, u64::MAX, 4096), None);
        assert_eq!(
            offset_within(u64::MAX - 5, room, u64::MAX, 4000),
            Some(5),
            "an owner that lies harms nobody"
        );
    }

    #[test]
    fn a_peer_reads_what_the_owner_writes() {
        let fd = created(0, 5 << 20);
        let (own, peer) = (Segment::map(&fd).unwrap(), Segment::map(&fd).unwrap());
        assert!(!peer.is_in_heap(4096, 1), "it is mapped nowhere");
        let at = own.open_heap(&fd).unwrap();
        assert!(at.as_ptr().addr().is_multiple_of(HUGE_PAGE));
        let address = at.as_ptr().addr() as u64;
        assert!(peer.is_in_heap(address, 5 << 20) && !peer.is_in_heap(address, (5 << 20) + 1));
        assert!(
            !peer.is_in_heap(address - 1, 1)
                && !peer.is_in_heap(address.wrapping_neg(), usize::MAX)
        );
        assert!(peer.heap_bytes(address, 8).is_none(), "it is not mapped here");
        peer.map_heap(&fd).unwrap();
        // SAFETY: the heap is mapped and no other code uses it.
        unsafe { at.add((5 << 20) - 3).copy_from_nonoverlapping(NonNull::from(b"end").cast(), 3) };
        assert_eq!(peer.heap_bytes(address + (5 << 20) - 3, 3).unwrap().to_vec(), b"end");
        assert!(peer.heap_bytes(address + (5 << 20) - 3, 4).is_none());
        assert_eq!(own.open_heap(&fd).unwrap(), at, "it is mapped once");
    }

    #[test]
    fn a_limit_on_the_file_makes_the_heap_shorter() {
        let config = SegmentConfig::default();
        assert_eq!(config.within(u64::MAX), config);
        for limit in [config.bytes() as u64 - 1, 200 << 20, (200 << 20) + 1, 10 << 20] {
            let within = config.within(limit);
            assert!(
                within.bytes() as u64 <= limit && within.bytes() + PAGE > limit as usize,
                "{limit}"
            );
        }
        let none = config.within(1);
        assert_eq!((none.heap_len(), none.bytes()), (0, none.mapped_bytes()));
        assert!(none.mapped_bytes() < config.mapped_bytes());
        assert_eq!(config.within(200 << 20).control_section_pool, config.control_section_pool);
    }

    #[test]
    fn another_file_is_no_heap() {
        let (own, other, none) = (created(0, 1 << 20), created(1, 1 << 20), created(0, 0));
        let segment = Segment::map(&own).unwrap();
        let error = segment.map_heap(&other).unwrap_err();
        assert!(
            error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains("rank 0"),
            "{error}"
        );
        let without = Segment::map(&none).unwrap();
        assert_eq!(without.open_heap(&none).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(!segment.has_heap() && !without.has_heap());
    }
}
