//! The segment: the memory through which one process receives.
//!
//! It is a memfd, so it has no name, survives nobody and cannot be forgotten in /dev/shm; its descriptor is handed to
//! the peers. The launcher (or a test) creates it with [`Segment::create`] and writes the boot record, its owner and
//! the owner's peers map it with [`Segment::map`]. All pages but the first are zero and take no memory until used.
//!
//! ```text
//! page 0        line 0-1  magic, version, size, boot record        rule 1
//!               line 4    status: pid, state, last call            rule 2
//!               line 8    door: word, registered                   door.rs
//!               line 16   lines of shared copies                   share.rs
//!               line 32   notes of long waits                      wait_note.rs
//! then          the inbox                                          inbox.rs
//! then, each on a page of its own, `max_rings` rings               ring/mod.rs
//! then, likewise, the control sections                             control_section.rs
//! then the pool through which the owner sends: states, data        pool.rs
//! then, on 2 MiB, the heap: memory that the owner's program uses   heap.rs
//! ```
//!
//! All but the heap is one mapping. The heap is long, and most programs never ask for it: each process maps it by itself
//! when it first needs it.
//!
//! Rules
//! 1. The boot record is written by the creator before the descriptor is handed to anybody, and never again.
//! 2. The process that claims the segment (pid from 0, compare-exchange) is its owner: it alone stores the status. All
//!    may read it, at any time; state is stored with release and loaded with acquire, last call relaxed.
//! 3. Which peer gets which ring is decided by the owner; see the fabric.

mod heap;

pub use self::heap::HUGE_PAGE;
use self::heap::HeapMapping;
use crate::{
    barrier::BarrierKind,
    bytes::{Bytes, BytesMut},
    control_section::{ControlSection, MAX_RANKS, PoolSegments},
    door::DoorWord,
    inbox::{CELL_BYTES, InboxArea},
    line::{LINE_BYTES, Line},
    pool::{PoolArea, PoolShape},
    ring::{RingArea, RingShape},
    semaphore::Semaphore,
    share::ShareLine,
    single_copy::RemoteProcess,
    wait_note::{WaitNote, WaitNotes},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
    },
};

const MAGIC: u64 = u64::from_le_bytes(*b"OxMPIseg");
/// The layout of a segment. Goes up with every change of what lies in it.
pub const LAYOUT_VERSION: u32 = 10;
const PAGE: usize = 4096;

/// The sizes of what lies in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentConfig {
    /// Cells of the inbox: a power of two.
    pub inbox_cells: u32,
    /// Slots of 64 bytes in a ring: a power of two.
    pub ring_slots: u32,
    /// Bytes of a ring's data ring: a power of two.
    pub ring_data_bytes: u32,
    /// The longest chunk of a message in the data ring, in bytes: a power of two.
    pub ring_chunk_bytes: u32,
    /// How many rings there are.
    pub max_rings: u32,
    /// How many control sections there are.
    pub control_sections: u32,
    /// How many ranks a control section has room for, at most: 64.
    pub control_section_ranks: u32,
    /// The segments of the message pool in each control section.
    pub control_section_pool: PoolSegments,
    /// Bytes of the pool for messages that its owner sends: a power of two, or 0 for none.
    pub pool_bytes: u32,
    /// Bytes of a block of the pool: a power of two.
    pub pool_block_bytes: u32,
    /// Bytes of the heap, of which whole pages are used; 0: there is none.
    pub heap_bytes: u64,
}

impl Default for SegmentConfig {
    fn default() -> Self {
        SegmentConfig {
            inbox_cells: 64,
            ring_slots: 128,
            ring_data_bytes: 64 << 10,
            ring_chunk_bytes: 2 << 10,
            max_rings: 16,
            control_sections: 8,
            control_section_ranks: MAX_RANKS,
            control_section_pool: PoolSegments { count: 8, bytes: 64 << 10 },
            pool_bytes: 2 << 20,
            pool_block_bytes: 32 << 10,
            heap_bytes: 1 << 30,
        }
    }
}

impl SegmentConfig {
    /// The sizes of each ring.
    pub const fn ring_shape(&self) -> RingShape {
        RingShape {
            slots: self.ring_slots,
            data_bytes: self.ring_data_bytes,
            chunk_bytes: self.ring_chunk_bytes,
        }
    }

    /// The sizes of the pool.
    pub const fn pool_shape(&self) -> PoolShape {
        PoolShape { bytes: self.pool_bytes, block_bytes: self.pool_block_bytes }
    }

    /// What is wrong with these sizes, if anything.
    pub fn check(&self) -> Result<(), String> {
        InboxArea::check(self.inbox_cells)?;
        self.ring_shape().check()?;
        self.pool_shape().check()?;
        if self.max_rings > 1 << 16 {
            return Err(format!("{} rings: at most 65536 fit a segment", self.max_rings));
        }
        self.control_section_pool.check()?;
        if self.control_sections > 1 << 16 || self.control_section_ranks > MAX_RANKS {
            return Err(format!(
                "{} control sections for {} ranks: at most 65536 for {MAX_RANKS} fit a segment",
                self.control_sections, self.control_section_ranks
            ));
        }
        if self.heap_bytes > HEAP_MOST {
            return Err(format!("a heap of {} bytes: at most {HEAP_MOST} fit a segment", self.heap_bytes));
        }
        Ok(())
    }

    /// Bytes of a whole segment.
    pub const fn bytes(&self) -> usize {
        self.heap_offset() + self.heap_len()
    }

    /// Bytes of all that is mapped at once: the segment without the heap.
    const fn mapped_bytes(&self) -> usize {
        self.pool_offset() + self.pool_shape().area_bytes()
    }

    /// Bytes of the heap that are used: whole pages.
    pub const fn heap_len(&self) -> usize {
        self.heap_bytes as usize & !(PAGE - 1)
    }

    /// These sizes with a heap no longer than leaves room for the rest in a file of `limit` bytes, for which the pools of the
    /// control sections become smaller as well.
    fn within(&self, limit: u64) -> SegmentConfig {
        let mut within = *self;
        while within.control_section_pool.bytes > LEAST_SEGMENT && within.heap_offset() as u64 >= limit {
            within.control_section_pool.bytes =
                (within.control_section_pool.bytes / 2).next_multiple_of(LINE_BYTES as u32);
        }
        within.heap_bytes = within.heap_bytes.min(limit.saturating_sub(within.heap_offset() as u64));
        within
    }

    /// Where the heap begins: where a huge page can.
    const fn heap_offset(&self) -> usize {
        match self.heap_len() {
            0 => self.mapped_bytes(),
            _ => self.mapped_bytes().next_multiple_of(HUGE_PAGE),
        }
    }

    const fn pool_offset(&self) -> usize {
        self.control_section_offset(self.control_sections)
    }

    const fn control_section_offset(&self, index: u32) -> usize {
        self.ring_offset(self.max_rings)
            + index as usize
                * whole_pages(ControlSection::bytes(self.control_section_ranks, &self.control_section_pool))
    }

    const fn ring_offset(&self, index: u32) -> usize {
        PAGE + whole_pages(InboxArea::bytes(self.inbox_cells))
            + index as usize * whole_pages(self.ring_shape().bytes())
    }
}

/// The shortest segment of a control section's pool that a limit on files makes, bytes.
const LEAST_SEGMENT: u32 = 1 << 10;

/// The longest heap, bytes.
const HEAP_MOST: u64 = 1 << 42;

const fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

/// What a process must know before it can talk to anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Names the launcher's work, all jobs of it; all its segments have the same.
    pub job_id: u64,
    /// The owner's number among all processes of its launcher: those of the first job, then those that were spawned.
    pub rank: u32,
    /// The number of the first process of the owner's own job (of its MPI_COMM_WORLD): 0 unless that was spawned.
    pub base: u32,
    /// Ranks of the owner's own job.
    pub size: u32,
    /// The owner's number on its node.
    pub local_rank: u32,
    /// Ranks on the node.
    pub local_size: u32,
    /// Which of the job's programs the owner runs, counted from 0 (MPI_APPNUM).
    pub app: u32,
    /// There are more ranks on the node than processors for them.
    pub oversubscribed: bool,
    /// All processes of the node use asymmetric barriers, else symmetric ones (see [`crate::barrier`]).
    pub asymmetric: bool,
    /// The ranks of the job talk over sockets, not through their segments.
    pub sockets: bool,
    /// On which of the job's nodes the owner is, if there are several: only processes of one node can share memory.
    pub node: Option<u32>,
    /// The sizes of the segment.
    pub config: SegmentConfig,
}

/// What a rank is doing, for those who watch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum RankState {
    /// The segment is there, no process yet.
    Created = 0,
    /// A process has claimed it: the library is loaded.
    Loaded = 1,
    /// MPI is initialised.
    Initialized = 2,
    /// MPI is finalised.
    Finalized = 3,
    /// The rank has called for an abort.
    Aborting = 4,
    /// MPI is finalised; a session may initialise it again.
    Resting = 5,
    /// MPI is being finalised: by MPI_Finalize, or that of the last session. No user of it is left that could wait for a message.
    Finalizing = 6,
}

/// The status line (rule 2).
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Status {
    pid: AtomicU32,
    state: AtomicU32,
    last_call: AtomicU16,
    /// Where the owner has mapped this segment, 0 if it has not said.
    mapped_at: AtomicU64,
    /// Where the owner has mapped the heap, 0 if it has not.
    heap_at: AtomicU64,
    /// How many processes of the job have died that the owner should hear of. Only the launcher writes it.
    deaths: AtomicU32,
    /// The step that the owner's messages shall take on their way to standing still, and back. Only the launcher writes it.
    quiesce: AtomicU32,
    /// How often the launcher has let processes that share no memory with the owner know where they can reach it. Only the launcher
    /// writes it.
    sought: AtomicU32,
}

impl Status {
    /// Makes the process `pid` the owner. `Err` has the pid of the process that is it already.
    pub fn claim(&self, pid: u32) -> Result<(), u32> {
        self.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire)?;
        self.state.store(RankState::Loaded as u32, Ordering::Release);
        Ok(())
    }

    /// The owner's process, if it has come.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Acquire)).filter(|&pid| pid != 0)
    }

    /// What the owner is doing.
    pub fn state(&self) -> RankState {
        match self.state.load(Ordering::Acquire) {
            0 => RankState::Created,
            1 => RankState::Loaded,
            2 => RankState::Initialized,
            3 => RankState::Finalized,
            5 => RankState::Resting,
            6 => RankState::Finalizing,
            _ => RankState::Aborting,
        }
    }

    /// Says what the owner is doing from now on.
    pub fn set_state(&self, state: RankState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// How many processes of the job have died, as the launcher has said.
    #[inline(always)]
    pub fn deaths(&self) -> u32 {
        // Relaxed: who they are is asked over a socket.
        self.deaths.load(Ordering::Relaxed)
    }

    /// The launcher says that another process of the job has died. Ring the owner's door afterwards.
    pub fn note_death(&self) {
        self.deaths.fetch_add(1, Ordering::Release);
    }

    /// The number of the last step that the launcher has asked for of all whose messages shall stand still for some time.
    #[inline(always)]
    pub fn quiesce_step(&self) -> u32 {
        // What was made for the step is given over a socket.
        self.quiesce.load(Ordering::Relaxed)
    }

    /// The launcher asks for this step. Ring the owner's door afterwards.
    pub fn ask_quiesce_step(&self, step: u32) {
        self.quiesce.store(step, Ordering::Release);
    }

    /// How often processes that share no memory with the owner were told where they can reach it, as it does not know yet.
    pub fn sought(&self) -> u32 {
        // What was made for it is given over a socket.
        self.sought.load(Ordering::Relaxed)
    }

    /// The launcher has told such processes. Ring the owner's door afterwards.
    pub fn note_sought(&self) {
        self.sought.fetch_add(1, Ordering::Release);
    }

    /// The number of the MPI call that the owner entered last; 0 if none.
    pub fn last_call(&self) -> u16 {
        self.last_call.load(Ordering::Relaxed)
    }

    /// Where the number of the last call is noted, for a caller that stores it on each of its calls.
    pub fn last_call_cell(&self) -> &AtomicU16 {
        &self.last_call
    }

    /// Notes that the owner enters MPI call number `call`: one plain store.
    #[inline]
    pub fn set_last_call(&self, call: u16) {
        self.last_call.store(call, Ordering::Relaxed);
    }
}

/// The door's line: see [`crate::door`].
#[repr(C, align(64))]
#[derive(Debug)]
struct DoorLine {
    word: DoorWord,
    /// 1 if the owner has registered for asymmetric barriers.
    registered: AtomicU32,
    /// On which semaphore the owner sleeps, if it does so on one.
    semaphore: AtomicU64,
}

/// The first page, as it lies in memory.
#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    header_bytes: u32,
    segment_bytes: u64,
    job_id: u64,
    heap_bytes: u64,
    rank: u32,
    base: u32,
    size: u32,
    local_rank: u32,
    local_size: u32,
    app: u32,
    node: u32,
    flags: u32,
    inbox_cells: u32,
    inbox_cell_bytes: u32,
    ring_slots: u32,
    ring_data_bytes: u32,
    ring_chunk_bytes: u32,
    max_rings: u32,
    control_sections: u32,
    control_section_ranks: u32,
    control_section_segments: u32,
    control_section_segment_bytes: u32,
    pool_bytes: u32,
    pool_block_bytes: u32,
}

const FLAG_OVERSUBSCRIBED: u32 = 1;
const FLAG_ASYMMETRIC: u32 = 2;
const FLAG_SOCKETS: u32 = 4;
const FLAG_NODES: u32 = 8;
const STATUS_AT: usize = 256;
const DOOR_AT: usize = 512;
const SHARES_AT: usize = 1024;
const NOTES_AT: usize = 2048;

/// How many copies may be shared at a time with the owner of a segment.
pub const SHARES: u32 = 16;

const _: () = assert!(SHARES_AT + SHARES as usize * LINE_BYTES <= NOTES_AT);
const _: () = assert!(NOTES_AT + size_of::<WaitNotes>() <= PAGE);
const _: () = assert!(size_of::<Header>() <= STATUS_AT && size_of::<DoorLine>() == 64);

/// Why a descriptor could not be used as a segment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The kernel refused.
    #[error("cannot {what} a segment of {bytes} bytes: {error}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// The size of the segment.
        bytes: usize,
        /// The answer.
        error: io::Error,
    },
    /// It is something else.
    #[error("this file is no segment: it is {bytes} bytes long and begins with {magic:#018x}")]
    NoSegment {
        /// The length of the file.
        bytes: u64,
        /// Its first word.
        magic: u64,
    },
    /// It was made by another version of the library.
    #[error(
        "the segment has layout {found}, this library knows layout {LAYOUT_VERSION}: launcher and library must come from the same installation"
    )]
    Version {
        /// Its layout.
        found: u32,
    },
    /// Its size does not fit what it says about itself.
    #[error("the segment of rank {rank} is {found} bytes long, but its boot record says {expected}")]
    Size {
        /// The owner by the boot record.
        rank: u32,
        /// The length of the file.
        found: u64,
        /// What the boot record makes of it.
        expected: u64,
    },
    /// Its sizes are impossible.
    #[error("the segment of rank {rank} has {wrong}")]
    Config {
        /// The owner by the boot record.
        rank: u32,
        /// What is wrong.
        wrong: String,
    },
}

/// A mapped segment. It stays mapped while any area made from it lives.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    boot: Boot,
    heap: OnceLock<HeapMapping>,
}

// SAFETY: what can be reached through a segment is atomics, or areas with their own protocols.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a segment and writes its boot record. The descriptor is close-on-exec. If this process may not make so long
    /// a file (RLIMIT_FSIZE), though most of it is never written, the heap is shorter, and then the pools of control sections.
    ///
    /// # Errors
    /// `InvalidInput` if the sizes are impossible; else what memfd_create(2) or ftruncate(2) says.
    pub fn create(boot: &Boot) -> io::Result<OwnedFd> {
        use rustix::fs::{MemfdFlags, SealFlags};
        boot.config.check().map_err(|wrong| io::Error::new(io::ErrorKind::InvalidInput, wrong))?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let config = boot.config.within(limit.unwrap_or(u64::MAX));
        let bytes = config.bytes();
        let fd = rustix::fs::memfd_create("oxmpi", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        // Nobody can shrink it and so have its peers die of SIGBUS.
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let header = Header {
            magic: MAGIC,
            version: LAYOUT_VERSION,
            header_bytes: size_of::<Header>() as u32,
            segment_bytes: bytes as u64,
            job_id: boot.job_id,
            heap_bytes: config.heap_bytes,
            rank: boot.rank,
            base: boot.base,
            size: boot.size,
            local_rank: boot.local_rank,
            local_size: boot.local_size,
            app: boot.app,
            node: boot.node.unwrap_or(0),
            flags: u32::from(boot.oversubscribed) * FLAG_OVERSUBSCRIBED
                + u32::from(boot.asymmetric) * FLAG_ASYMMETRIC
                + u32::from(boot.sockets) * FLAG_SOCKETS
                + u32::from(boot.node.is_some()) * FLAG_NODES,
            inbox_cells: config.inbox_cells,
            inbox_cell_bytes: CELL_BYTES as u32,
            ring_slots: config.ring_slots,
            ring_data_bytes: config.ring_data_bytes,
            ring_chunk_bytes: config.ring_chunk_bytes,
            max_rings: config.max_rings,
            control_sections: config.control_sections,
            control_section_ranks: config.control_section_ranks,
            control_section_segments: config.control_section_pool.count,
            control_section_segment_bytes: config.control_section_pool.bytes,
            pool_bytes: config.pool_bytes,
            pool_block_bytes: config.pool_block_bytes,
        };
        // SAFETY: `Header` is `repr(C)` and all integers; its fields leave no padding but at the very end.
        let raw = unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(&header).cast::<u8>(),
                std::mem::offset_of!(Header, pool_block_bytes) + 4,
            )
        };
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
    ///
    /// # Errors
    /// See [`SegmentError`].
    pub fn map(fd: impl AsFd) -> Result<Arc<Segment>, SegmentError> {
        let fd = fd.as_fd();
        let kernel = |what, bytes| {
            move |error: rustix::io::Errno| SegmentError::Kernel { what, bytes, error: error.into() }
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
        let base =
            NonNull::new(base.cast()).expect("mmap(2) gave a null pointer for a mapping of its choice");
        Ok(Arc::new(Segment { base, boot, heap: OnceLock::new() }))
    }

    /// Says where the caller, who must be the owner, has mapped its segment, so that others can find out whether they
    /// may read its memory.
    pub fn advertise(&self) {
        self.status().mapped_at.store(self.base.as_ptr().expose_provenance() as u64, Ordering::Release);
    }

    /// Whether we may read the memory of the owner, which is `process`: what we read there, where the owner has
    /// mapped this segment, must be the boot record that we see here. A process number of another namespace, a
    /// forbidden call and a stranger's memory all fail.
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
    pub fn status(&self) -> &Status {
        // SAFETY: the status line lies in the first page, mapped while `self` lives, aligned, atomics only.
        unsafe { self.base.add(STATUS_AT).cast().as_ref() }
    }

    /// The word of the owner's door.
    #[inline]
    pub fn door_word(&self) -> &DoorWord {
        &self.door_line().word
    }

    /// What threads of the owner wait for, as they say.
    pub fn wait_notes(&self) -> &[WaitNote] {
        // SAFETY: as for the status line.
        let notes: &WaitNotes = unsafe { self.base.add(NOTES_AT).cast().as_ref() };
        notes
    }

    /// Notes whether the owner has registered for asymmetric barriers.
    pub fn set_registered(&self, registered: bool) {
        self.door_line().registered.store(u32::from(registered), Ordering::Release);
    }

    /// Whether the owner has registered for asymmetric barriers.
    pub fn is_registered(&self) -> bool {
        self.door_line().registered.load(Ordering::Acquire) != 0
    }

    /// Says on which semaphore the owner will sleep.
    pub fn set_semaphore(&self, semaphore: Semaphore) {
        self.door_line().semaphore.store(semaphore.to_word(), Ordering::Release);
    }

    /// On which semaphore the owner has slept last, if it has on one.
    pub fn semaphore(&self) -> Option<Semaphore> {
        Semaphore::from_word(self.door_line().semaphore.load(Ordering::Acquire))
    }

    /// Wakes the owner if it sleeps on a semaphore (rule 2 of the semaphores).
    pub fn raise_semaphore(&self) {
        if let Some(semaphore) = self.semaphore() {
            semaphore.raise();
        }
    }

    /// Wakes the owner whatever its door says (rule 8 of the door). `raise` raises its alarm, if it has one.
    pub fn ring_after_death(&self, raise: impl FnOnce()) {
        self.door_word().ring_after_death(|| {
            raise();
            self.raise_semaphore();
        });
    }

    /// The inbox.
    pub fn inbox(self: &Arc<Self>) -> InboxArea {
        // SAFETY: the inbox begins with the second page and ends before the first ring (`ring_offset`).
        unsafe { InboxArea::from_raw(self.base.add(PAGE), self.boot.config.inbox_cells, self.clone()) }
    }

    /// Ring number `index`, for a process whose barriers are of this `kind`.
    ///
    /// # Panics
    /// If there are not as many rings.
    pub fn ring(self: &Arc<Self>, index: u32, kind: BarrierKind) -> RingArea {
        let config = &self.boot.config;
        assert!(index < config.max_rings, "ring {index} of a segment that has {}", config.max_rings);
        // SAFETY: the ring lies between its offset and that of the next one, inside the mapping, which has
        // `ring_offset(max_rings)` bytes; `map` has checked the shape.
        unsafe {
            RingArea::from_raw(
                self.base.add(config.ring_offset(index)),
                config.ring_shape(),
                kind,
                self.clone(),
            )
        }
    }

    /// Makes ring number `index` as it was at first, and gives its memory back. Only its owner does that, and when the other
    /// process that has used it is gone.
    ///
    /// # Errors
    /// `InvalidInput` if there are not as many rings; what madvise(2) says.
    pub fn clear_ring(&self, index: u32) -> io::Result<()> {
        let config = &self.boot.config;
        if index >= config.max_rings {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (start, end) = (config.ring_offset(index), config.ring_offset(index + 1));
        // SAFETY: whole pages of our own mapping, of a file that grows and shrinks no more. They read as zero afterwards,
        // which is a value of all that lies in a ring.
        unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().add(start).cast(),
                end - start,
                rustix::mm::Advice::LinuxRemove,
            )?;
        }
        Ok(())
    }

    /// Control section number `index` for `ranks` ranks, for a process whose barriers are of this `kind`.
    ///
    /// # Panics
    /// If there are not as many sections, or not as much room in one.
    pub fn control_section(self: &Arc<Self>, index: u32, ranks: u32, kind: BarrierKind) -> ControlSection {
        let config = &self.boot.config;
        assert!(
            index < config.control_sections && ranks <= config.control_section_ranks,
            "control section {index} for {ranks} ranks of a segment that has {} for {}",
            config.control_sections,
            config.control_section_ranks
        );
        // SAFETY: the section lies between its offset and that of the next one, inside the mapping.
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

    /// Line `index` of the copies that the owner shares with senders.
    ///
    /// # Panics
    /// If there are fewer than that.
    pub fn share(self: &Arc<Self>, index: u32) -> ShareLine {
        assert!(index < SHARES, "line {index} of {SHARES} for shared copies");
        // SAFETY: the lines lie in the first page, which is mapped while `self` lives.
        unsafe {
            let first: NonNull<Line> = self.base.add(SHARES_AT).cast();
            ShareLine::from_raw(first.add(index as usize), self.clone())
        }
    }

    /// The pool through which the owner sends, if it has one.
    pub fn pool(self: &Arc<Self>) -> Option<PoolArea> {
        let config = &self.boot.config;
        // SAFETY: the pool is the last in the mapping, which has `config.mapped_bytes()` bytes, and begins with a page;
        // `map` has checked the shape.
        (config.pool_bytes > 0).then(|| unsafe {
            PoolArea::from_raw(self.base.add(config.pool_offset()), config.pool_shape(), self.clone())
        })
    }

    fn door_line(&self) -> &DoorLine {
        // SAFETY: as for the status line.
        unsafe { self.base.add(DOOR_AT).cast().as_ref() }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: we mapped as many bytes there; all areas hold an `Arc` of us, so nobody uses them any more.
        let unmapped =
            unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.boot.config.mapped_bytes()) };
        debug_assert!(unmapped.is_ok());
    }
}

impl Header {
    fn boot(&self) -> Boot {
        Boot {
            job_id: self.job_id,
            rank: self.rank,
            base: self.base,
            size: self.size,
            local_rank: self.local_rank,
            local_size: self.local_size,
            app: self.app,
            oversubscribed: self.flags & FLAG_OVERSUBSCRIBED != 0,
            asymmetric: self.flags & FLAG_ASYMMETRIC != 0,
            sockets: self.flags & FLAG_SOCKETS != 0,
            node: (self.flags & FLAG_NODES != 0).then_some(self.node),
            config: SegmentConfig {
                inbox_cells: self.inbox_cells,
                ring_slots: self.ring_slots,
                ring_data_bytes: self.ring_data_bytes,
                ring_chunk_bytes: self.ring_chunk_bytes,
                max_rings: self.max_rings,
                control_sections: self.control_sections,
                control_section_ranks: self.control_section_ranks,
                control_section_pool: PoolSegments {
                    count: self.control_section_segments,
                    bytes: self.control_section_segment_bytes,
                },
                pool_bytes: self.pool_bytes,
                pool_block_bytes: self.pool_block_bytes,
                heap_bytes: self.heap_bytes,
            },
        }
    }
}

/// The header of `fd`, with zeroes for what the file is too short for.
fn read_header(fd: std::os::fd::BorrowedFd<'_>) -> rustix::io::Result<Header> {
    let mut raw = [0u8; size_of::<Header>()];
    rustix::io::pread(fd, &mut raw[..], 0)?;
    // SAFETY: `Header` is all integers, for which any bytes are a value.
    Ok(unsafe { raw.as_ptr().cast::<Header>().read_unaligned() })
}
