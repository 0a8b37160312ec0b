//! The segment: the memory through which one process receives.
//!
//! It is a memfd without a name, so nothing can remain in /dev/shm. The launcher (or a test)
//! creates it with [`Segment::create`] and writes the boot record. Its owner and the owner's peers
//! get its descriptor and map it with [`Segment::map`]. All pages but the first are zero and take
//! no memory until they are used.
//!
//! ```text
//! page 0        line 0-1  magic, version, size, boot record        rule 1
//!               line 4    status: pid, state, last call            rule 2
//!               line 8    door: word, registered                   door.rs
//!               line 9    whether the owner is away, and waits     door/wait.rs
//!               line 32   notes of long waits                      wait_note.rs
//! page 1        announcements: messages that wait with the owner   announcement.rs
//! then          the inbox                                          inbox.rs
//! then, each on its own page, `max_rings` rings                    ring/mod.rs
//! then, likewise, the control sections                             control_section.rs
//! then the pool through which the owner sends: states, data        pool.rs
//! then, on 2 MiB, the heap: memory that the owner's program uses   heap.rs
//! ```
//!
//! All but the heap is one mapping. The heap is long and most programs never use it, so each
//! process maps it when it first needs it.
//!
//! Rules
//! 1. The creator writes the boot record before it hands out the descriptor, and never again.
//! 2. The process that claims the segment (pid from 0, compare-exchange) is its owner and alone
//!    stores the status. Every process may read the status at any time. The state is stored with
//!    release and loaded with acquire, the last call relaxed.
//! 3. The owner assigns the rings to peers (`fabric/src/shm.rs`).

mod boot;
mod config;
mod heap;
mod status;

pub use self::boot::Boot;
use self::boot::{Header, read_header};
pub use self::config::SegmentConfig;
pub use self::heap::HUGE_PAGE;
use self::heap::HeapMapping;
pub use self::status::{CheckpointCall, OwnerStatus, RankState};
use crate::{
    announcement::{ANNOUNCEMENTS, AnnouncementArea, AnnouncementEntry},
    control_section::ControlSection,
    door::DoorWord,
    inbox::{CELL_BYTES, InboxArea},
    pool::PoolArea,
    ring::RingArea,
    wait_note::{WaitNote, WaitNotes},
};
use oxmpi_sys::{
    barrier::BarrierKind,
    bytes::{Bytes, BytesMut},
    line::LINE_BYTES,
    nameless,
    semaphore::Semaphore,
    single_copy::RemoteProcess,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

const MAGIC: u64 = u64::from_le_bytes(*b"OxMPIseg");
/// The version of a segment's layout, incremented with every change of it.
pub const LAYOUT_VERSION: u32 = 22;
const PAGE: usize = 4096;

#[repr(C, align(64))]
#[derive(Debug)]
struct DoorLine {
    word: DoorWord,
    /// 1 if the owner has registered for asymmetric barriers.
    registered: AtomicU32,
    /// The semaphore on which the owner sleeps, 0 if none.
    semaphore: AtomicU64,
}

const STATUS_AT: usize = 256;
const DOOR_AT: usize = 512;
const AWAY_AT: usize = DOOR_AT + LINE_BYTES;
const NOTES_AT: usize = 2048;

const _: () = assert!(AWAY_AT + LINE_BYTES <= NOTES_AT);
const _: () = assert!(ANNOUNCEMENTS as usize * size_of::<AnnouncementEntry>() <= PAGE);
const _: () = assert!(NOTES_AT + size_of::<WaitNotes>() <= PAGE);
const _: () = assert!(size_of::<Header>() <= STATUS_AT && size_of::<DoorLine>() == 64);

/// The reason why a descriptor could not be used as a segment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    #[error("cannot {what} a segment of {bytes} bytes: {error}")]
    Kernel { what: &'static str, bytes: usize, error: io::Error },
    #[error("this file is no segment: it is {bytes} bytes long and begins with {magic:#018x}")]
    NoSegment { bytes: u64, magic: u64 },
    #[error(
        "the segment has layout {found}, this library knows layout {LAYOUT_VERSION}: launcher and library must come from the same installation"
    )]
    Version { found: u32 },
    #[error(
        "the segment of rank {rank} is {found} bytes long, but its boot record says {expected}"
    )]
    Size {
        /// The owner by the boot record.
        rank: u32,
        found: u64,
        expected: u64,
    },
    #[error("the segment of rank {rank} has {wrong}")]
    Config { rank: u32, wrong: String },
}

/// A mapped segment. It stays mapped while any area made from it lives.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    boot: Boot,
    heap: OnceLock<HeapMapping>,
}

// SAFETY: a segment gives access only to atomics, or to areas with their own protocols.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a segment and writes its boot record. The descriptor is close-on-exec. If
    /// RLIMIT_FSIZE forbids the length, the heap is made shorter first, then the pools of control
    /// sections. `InvalidInput` if the sizes are impossible.
    pub fn create(boot: &Boot) -> io::Result<OwnedFd> {
        boot.config.check().map_err(|wrong| io::Error::new(io::ErrorKind::InvalidInput, wrong))?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let config = boot.config.within(limit.unwrap_or(u64::MAX));
        let bytes = config.bytes();
        let fd = nameless::create("oxmpi")?;
        nameless::set_length(&fd, bytes as u64)?;
        nameless::seal(&fd)?;
        let header = Header::new(boot, &config);
        let raw = header.as_bytes();
        let written = rustix::io::pwrite(&fd, raw, 0)?;
        if written != raw.len() {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("wrote {written} bytes of the boot record"),
            ));
        }
        Ok(fd)
    }

    /// Maps a segment. The descriptor is not needed afterwards.
    pub fn map(fd: impl AsFd) -> Result<Arc<Segment>, SegmentError> {
        let fd = fd.as_fd();
        let kernel = |what, bytes| {
            move |error: rustix::io::Errno| SegmentError::Kernel {
                what,
                bytes,
                error: error.into(),
            }
        };
        let found = rustix::fs::fstat(fd).map_err(kernel("examine", 0))?.st_size as u64;
        let header = read_header(fd).map_err(kernel("read", found as usize))?;
        if found < PAGE as u64 || header.magic != MAGIC {
            return Err(SegmentError::NoSegment { bytes: found, magic: header.magic });
        }
        if header.version != LAYOUT_VERSION || header.inbox_cell_bytes != CELL_BYTES as u32 {
            return Err(SegmentError::Version { found: header.version });
        }
        let boot = header.boot();
        boot.config.check().map_err(|wrong| SegmentError::Config { rank: boot.rank, wrong })?;
        let expected = boot.config.bytes() as u64;
        if found != expected || header.segment_bytes != found {
            return Err(SegmentError::Size { rank: boot.rank, found, expected });
        }
        let bytes = boot.config.mapped_bytes();
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                fd,
                0,
            )
        }
        .map_err(kernel("map", bytes))?;
        let base = NonNull::new(base.cast())
            .expect("mmap(2) gave a null pointer for a mapping of its choice");
        Ok(Arc::new(Segment { base, boot, heap: OnceLock::new() }))
    }

    /// Publishes the address of the owner's mapping, for [`Segment::is_readable_in`].
    pub fn advertise(&self) {
        self.status()
            .mapped_at
            .store(self.base.as_ptr().expose_provenance() as u64, Ordering::Release);
    }

    /// Whether this process may read the memory of the owner, which is `process`: the same boot
    /// record must be at the owner's address. `false` for a forbidden call, a process of another
    /// PID namespace, and an unrelated process.
    pub fn is_readable_in(&self, process: RemoteProcess) -> bool {
        let address = self.status().mapped_at.load(Ordering::Acquire);
        let mut there = [0; STATUS_AT];
        if address == 0 || process.read(address, BytesMut::from(&mut there[..])).is_err() {
            return false;
        }
        // SAFETY: the boot record is the first `STATUS_AT` bytes of the mapping.
        unsafe { Bytes::from_raw(self.base.as_ptr(), STATUS_AT) }.to_vec() == there
    }

    /// The boot record.
    pub fn boot(&self) -> &Boot {
        &self.boot
    }

    /// The status line.
    #[inline]
    pub fn status(&self) -> &OwnerStatus {
        // SAFETY: in the first page, mapped while `self` lives, aligned, atomics only.
        unsafe { self.base.add(STATUS_AT).cast().as_ref() }
    }

    /// The word of the owner's door.
    #[inline]
    pub fn door_word(&self) -> &DoorWord {
        &self.door_line().word
    }

    /// Records whether the owner has yielded its processor: a hint for peers that wait for the
    /// owner.
    #[inline]
    pub fn set_away(&self, away: bool) {
        self.away().store(u32::from(away), Ordering::Relaxed);
    }

    /// Whether the owner has yielded or sleeps. If not, it usually runs on another processor.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.away().load(Ordering::Relaxed) != 0 || self.door_word().has_sleepers()
    }

    /// Records whether the owner waits in the library, a hint for peers that may pull a message.
    #[inline]
    pub fn set_waiting(&self, waits: bool) {
        self.away_line()[1].store(u32::from(waits), Ordering::Relaxed);
    }

    /// Whether the owner waits in the library, and so serves a pull at once.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.away_line()[1].load(Ordering::Relaxed) != 0
    }

    fn away(&self) -> &AtomicU32 {
        &self.away_line()[0]
    }

    fn away_line(&self) -> &[AtomicU32; 2] {
        // SAFETY: as for the status line.
        unsafe { self.base.add(AWAY_AT).cast().as_ref() }
    }

    /// The notes of the owner's threads about long waits.
    pub fn wait_notes(&self) -> &[WaitNote] {
        // SAFETY: as for the status line.
        let notes: &WaitNotes = unsafe { self.base.add(NOTES_AT).cast().as_ref() };
        notes
    }

    /// Records whether the owner has registered for asymmetric barriers.
    pub fn set_registered(&self, registered: bool) {
        self.door_line().registered.store(u32::from(registered), Ordering::Release);
    }

    /// Whether the owner has registered for asymmetric barriers.
    pub fn is_registered(&self) -> bool {
        self.door_line().registered.load(Ordering::Acquire) != 0
    }

    /// Publishes the semaphore on which the owner will sleep.
    pub fn set_semaphore(&self, semaphore: Semaphore) {
        self.door_line().semaphore.store(semaphore.to_word(), Ordering::Release);
    }

    /// The semaphore on which the owner has slept last, if any.
    pub fn semaphore(&self) -> Option<Semaphore> {
        Semaphore::from_word(self.door_line().semaphore.load(Ordering::Acquire))
    }

    /// Wakes the owner if it sleeps on a semaphore (rule 2 of the semaphores).
    pub fn raise_semaphore(&self) {
        if let Some(semaphore) = self.semaphore() {
            semaphore.raise();
        }
    }

    /// Wakes the owner regardless of its door word (rule 8 of the door); `raise` raises its alarm.
    pub fn ring_after_death(&self, raise: impl FnOnce()) {
        self.door_word().ring_after_death(|| {
            raise();
            self.raise_semaphore();
        });
    }

    /// The inbox.
    pub fn inbox(self: &Arc<Self>) -> InboxArea {
        let config = &self.boot.config;
        // SAFETY: the inbox is between its offset and that of the first ring.
        unsafe {
            InboxArea::from_raw(
                self.base.add(config.inbox_offset()),
                config.inbox_cells,
                self.clone(),
            )
        }
    }

    /// The announcements of the owner's messages.
    pub fn announcements(self: &Arc<Self>) -> AnnouncementArea {
        // SAFETY: the announcements have the second page.
        unsafe { AnnouncementArea::from_raw(self.base.add(PAGE).cast(), self.clone()) }
    }

    /// Ring number `index`, for a process with barriers of this `kind`. Panics if there is none.
    pub fn ring(self: &Arc<Self>, index: u32, kind: BarrierKind) -> RingArea {
        let config = &self.boot.config;
        assert!(
            index < config.max_rings,
            "ring {index} of a segment that has {}",
            config.max_rings
        );
        // SAFETY: the ring is between its offset and that of the next one, inside the mapping,
        // which has `ring_offset(max_rings)` bytes; `map` has checked the shape.
        unsafe {
            RingArea::from_raw(
                self.base.add(config.ring_offset(index)),
                config.ring_shape(),
                kind,
                self.clone(),
            )
        }
    }

    /// Zeroes ring number `index` and returns its memory to the kernel. Only the segment's owner
    /// may do this, after the end of the ring's other process.
    pub fn clear_ring(&self, index: u32) -> io::Result<()> {
        let config = &self.boot.config;
        if index >= config.max_rings {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (start, end) = (config.ring_offset(index), config.ring_offset(index + 1));
        // SAFETY: whole pages of our own mapping, of a file of fixed length. They read as zero
        // afterwards, which is a valid value for every part of a ring.
        unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().add(start).cast(),
                end - start,
                rustix::mm::Advice::LinuxRemove,
            )?;
        }
        Ok(())
    }

    /// Control section number `index` for `ranks` ranks, for a process with barriers of this
    /// `kind`. Panics if there is none, or no room.
    pub fn control_section(
        self: &Arc<Self>,
        index: u32,
        ranks: u32,
        kind: BarrierKind,
    ) -> ControlSection {
        let config = &self.boot.config;
        assert!(
            index < config.control_sections && ranks <= config.control_section_ranks,
            "control section {index} for {ranks} ranks of a segment that has {} for {}",
            config.control_sections,
            config.control_section_ranks
        );
        // SAFETY: the section is between its offset and that of the next one, inside the mapping.
        unsafe {
            ControlSection::from_raw(
                self.base.add(config.control_section_offset(index)),
                (ranks, config.control_section_ranks),
                config.control_section_pool,
                kind,
                self.clone(),
            )
        }
    }

    /// The pool through which the owner sends, if it has one.
    pub fn pool(self: &Arc<Self>) -> Option<PoolArea> {
        let config = &self.boot.config;
        // SAFETY: the pool is the last part of the mapping, which has `config.mapped_bytes()`
        // bytes, and begins with a page; `map` has checked the shape.
        (config.pool_bytes > 0).then(|| unsafe {
            PoolArea::from_raw(
                self.base.add(config.pool_offset()),
                config.pool_shape(),
                self.clone(),
            )
        })
    }

    fn door_line(&self) -> &DoorLine {
        // SAFETY: as for the status line.
        unsafe { self.base.add(DOOR_AT).cast().as_ref() }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by this value; all areas hold an `Arc` of it, so none is left.
        let unmapped = unsafe {
            rustix::mm::munmap(self.base.as_ptr().cast(), self.boot.config.mapped_bytes())
        };
        debug_assert!(unmapped.is_ok());
    }
}
