//! A port of a device in use: connections, slots, completions.

mod accesses;
mod connections;
mod lasting;
mod posting;
mod regions;
mod words;

pub use self::accesses::AtomicOperation;
#[cfg(test)]
pub(crate) use self::connections::DRAIN;
pub use self::connections::RETRIES;
pub use self::regions::{RegionId, RemoteMemory};
pub use crate::limits::AtomicScope;

use self::lasting::LastingMemories;
use self::regions::Regions;

use crate::arena::{Arena, RegisteredMemory};
use crate::declarations::{
    CompletionChannel, Cq, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,
    IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, Opaque, Qp, Srq, SrqInitAttr, Wc,
};
use crate::library::{DevicePort, OpenContext, VerbsError, VerbsLibrary, last_errno};
use crate::limits::DeviceLimits;
use libc::c_int;
use std::collections::HashMap;
use std::fmt;
use std::mem::zeroed;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

const ENTRIES: usize = 32;
/// The initial length of the completion queue.
const FIRST_ROOM: u32 = 1024;

/// The number of a slot: a piece of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotId(pub u32);

/// The use of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSettings {
    pub device: String,
    pub port: u8,
    /// In bytes: a power of two from 256 to 4096.
    pub mtu: usize,
    pub slot_len: usize,
    pub slots: usize,
    /// The most slots in the shared receive queue; `None`: each connection has a queue.
    pub shared: Option<u32>,
    /// The most sends under way on a connection.
    pub send_depth: u32,
    /// The most posted receives of a connection without a shared queue.
    pub receive_depth: u32,
    /// The time before an unanswered packet is repeated: 4.096 us times two to this power.
    pub ack_timeout: u8,
}

/// The data by which a peer connects to one end of a connection, and the word that the peer may
/// write here.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LocalEnd {
    pub queue_pair: u32,
    pub first_packet: u32,
    /// The local identifier of the port; 0 over Ethernet.
    pub lid: u16,
    /// The global identifier of the port; zeros if it has none.
    pub gid: [u8; 16],
    /// The address of the word, and its remote key.
    pub word: (u64, u32),
    /// The most simultaneous reads of the peer that this end serves.
    pub reads: u8,
}

/// The other end of a connection.
pub type RemoteEnd = LocalEnd;

/// An operation that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdapterOperation {
    Send(SlotId),
    /// This number of bytes has come into a slot.
    Receive(SlotId, usize),
    WriteWord,
    /// A read into a region ([`Adapter::read`], [`Adapter::read_check`]).
    Read(RegionId),
    /// A write from a region into a peer's memory ([`Adapter::write`]).
    Write(RegionId),
    /// A read from a peer's memory into a slot ([`Adapter::read_into_slot`]).
    ReadSlot(SlotId),
    /// A write of a slot into a peer's memory ([`Adapter::write_slot`]).
    WriteSlot(SlotId),
    /// An atomic operation; the slot has the value from before ([`Adapter::atomic`]).
    AtomicSlot(SlotId),
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub queue_pair: u32,
    /// Its slot belongs to the caller again.
    pub operation: AdapterOperation,
    /// The error in the words of the library and the vendor.
    pub error: Option<String>,
    /// The peer has not answered any repetition of a packet.
    pub has_timed_out: bool,
    /// Set if the operation itself was refused, so that another connection would not help.
    pub refusal: Option<Refusal>,
}

/// The kind of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// By the peer's adapter, which has done nothing: the memory is not registered for the
    /// operation. It also refuses everything that follows on the connection (InfiniBand
    /// Architecture Specification, volume 1, "Responder error behavior").
    Untouched,
    /// By one of the two adapters, after an unknown part of the operation.
    Unclear,
}

const SEND: u64 = 1 << 56;
const RECEIVE: u64 = 2 << 56;
const WRITE_WORD: u64 = 3 << 56;
const READ: u64 = 4 << 56;
const WRITE: u64 = 5 << 56;
const READ_SLOT: u64 = 6 << 56;
const WRITE_SLOT: u64 = 7 << 56;
const ATOMIC_SLOT: u64 = 8 << 56;

fn refusal(status: c_int) -> Option<Refusal> {
    match status {
        IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_ACCESS_ERR => Some(Refusal::Untouched),
        IBV_WC_LOC_PROT_ERR | IBV_WC_REM_OP_ERR => Some(Refusal::Unclear),
        _ => None,
    }
}

struct QueuePair {
    raw: *mut Qp,
    remote: RemoteEnd,
    /// The index of the connection's two words: one that the peer writes, and the source of writes
    /// to the peer.
    words: usize,
    /// The number of its operations under way, without receives of a shared queue.
    live: u32,
    closing: Option<Instant>,
}

/// A port of a device in use. One thread at a time uses it.
pub struct Adapter {
    library: Arc<VerbsLibrary>,
    settings: AdapterSettings,
    limits: DeviceLimits,
    port: DevicePort,
    pd: *mut Opaque,
    channel: *mut CompletionChannel,
    cq: *mut Cq,
    srq: *mut Srq,
    /// The most completions that may be outstanding, and the length of the queue.
    expected: u32,
    room: u32,
    arena: Arena,
    regions: Regions,
    lasting: LastingMemories,
    words: Vec<RegisteredMemory>,
    free_words: Vec<usize>,
    queue_pairs: HashMap<u32, QueuePair>,
    closing: usize,
    /// Whether the last poll found nothing.
    is_empty: bool,
    context: OpenContext,
}

// SAFETY: all objects belong to this value, and the library binds none to a thread.
unsafe impl Send for Adapter {}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdapterSettings { device, port, .. } = &self.settings;
        f.debug_struct("Adapter")
            .field("device", device)
            .field("port", port)
            .finish_non_exhaustive()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let symbols = &self.library.symbols;
        // SAFETY: each object is open, is closed once, and before the objects that it was made
        // from; when the queue pairs and the shared receive queue are gone no operation is under
        // way, so the memory is free.
        unsafe {
            for (_, pair) in self.queue_pairs.drain() {
                (symbols.ibv_destroy_qp)(pair.raw);
            }
            if !self.srq.is_null() {
                (symbols.ibv_destroy_srq)(self.srq);
            }
            if !self.cq.is_null() {
                (symbols.ibv_destroy_cq)(self.cq);
            }
            if !self.channel.is_null() {
                (symbols.ibv_destroy_comp_channel)(self.channel);
            }
            self.regions.free(&self.library);
            self.lasting.free(&self.library);
            for region in self.words.iter_mut().chain(&mut self.arena.regions) {
                region.free(&self.library);
            }
            if !self.pd.is_null() {
                (symbols.ibv_dealloc_pd)(self.pd);
            }
        }
    }
}

impl Adapter {
    /// Opens a port.
    pub fn open(
        library: &Arc<VerbsLibrary>,
        settings: AdapterSettings,
    ) -> Result<Adapter, VerbsError> {
        let context = library.open_named(&settings.device)?;
        let limits = DeviceLimits::of(&library.query_device(&settings.device, &context)?);
        let settings = AdapterSettings { shared: limits.check(&settings)?, ..settings };
        let first_room = FIRST_ROOM.min(limits.completions);
        let ports = library.ports(&settings.device, &context)?;
        let port = ports.into_iter().find(|port| port.number == settings.port);
        let port =
            port.ok_or_else(|| library.error(&settings.device, "ibv_query_port", libc::ENODEV))?;
        let arena = Arena::new(settings.slot_len, settings.slots);
        let mut it = Adapter {
            library: library.clone(),
            limits,
            port,
            pd: null_mut(),
            channel: null_mut(),
            cq: null_mut(),
            srq: null_mut(),
            expected: 0,
            room: first_room,
            arena,
            regions: Regions::default(),
            lasting: LastingMemories::default(),
            words: Vec::new(),
            free_words: Vec::new(),
            queue_pairs: HashMap::new(),
            closing: 0,
            is_empty: false,
            settings,
            context,
        };
        let symbols = it.library.symbols;
        // SAFETY: each object is made from an open one; after a failure `drop` closes them.
        unsafe {
            it.pd = it.made("ibv_alloc_pd", (symbols.ibv_alloc_pd)(it.context.raw))?;
            it.channel = it.made(
                "ibv_create_comp_channel",
                (symbols.ibv_create_comp_channel)(it.context.raw),
            )?;
            let flags = libc::fcntl((*it.channel).fd, libc::F_GETFL);
            if flags < 0
                || libc::fcntl((*it.channel).fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0
            {
                return Err(it.error("fcntl", last_errno()));
            }
            let cq = (symbols.ibv_create_cq)(
                it.context.raw,
                first_room as c_int,
                null_mut(),
                it.channel,
                0,
            );
            it.cq = it.made("ibv_create_cq", cq)?;
            if let Some(most) = it.settings.shared {
                let mut init =
                    SrqInitAttr { srq_context: null_mut(), max_wr: most, max_sge: 1, srq_limit: 0 };
                it.srq = it.made("ibv_create_srq", (symbols.ibv_create_srq)(it.pd, &mut init))?;
            }
        }
        it.expect(it.settings.shared.unwrap_or(0))?;
        Ok(it)
    }

    fn made<T>(&self, call: &'static str, raw: *mut T) -> Result<*mut T, VerbsError> {
        if raw.is_null() { Err(self.error(call, last_errno())) } else { Ok(raw) }
    }

    fn error(&self, call: &'static str, errno: c_int) -> VerbsError {
        self.library.error(&self.settings.device, call, errno)
    }

    fn check(&self, call: &'static str, answer: c_int) -> Result<(), VerbsError> {
        if answer == 0 { Ok(()) } else { Err(self.error(call, answer)) }
    }

    /// The state of the port when it was opened.
    pub fn port(&self) -> &DevicePort {
        &self.port
    }

    /// The name of the device.
    pub fn device(&self) -> &str {
        &self.settings.device
    }

    /// Makes room for `more` outstanding completions: a queue that overflows loses completions.
    fn expect(&mut self, more: u32) -> Result<(), VerbsError> {
        let expected = self.expected.saturating_add(more);
        if expected > self.room {
            let Some(rooms) = self.limits.completion_queue(expected) else {
                let device = self.settings.device.clone();
                return Err(VerbsError::Exhausted { device, what: "room in a completion queue" });
            };
            // A device without memory for the doubled length may have enough for the needed one.
            self.resize(rooms[0]).or_else(|_| self.resize(rooms[1]))?;
        }
        self.expected = expected;
        Ok(())
    }

    fn resize(&mut self, room: u32) -> Result<(), VerbsError> {
        // SAFETY: the queue is open.
        let answer = unsafe { (self.library.symbols.ibv_resize_cq)(self.cq, room as c_int) };
        self.check("ibv_resize_cq", answer)?;
        self.room = room;
        Ok(())
    }

    /// The length of the shared receive queue: that of the settings, or the device's limit.
    pub fn shared(&self) -> Option<u32> {
        self.settings.shared
    }

    /// Makes more slots. Fails if the limit on locked memory (`ulimit -l`) or the device's memory
    /// is exhausted.
    pub fn more_slots(&mut self) -> Result<Vec<SlotId>, VerbsError> {
        self.with_room(|it| {
            let Adapter { arena, library, settings, pd, .. } = it;
            arena.grow(|len| RegisteredMemory::new(library, (&settings.device, *pd), len, 0))
        })
    }

    /// The bytes of a slot; none while it is posted.
    pub fn slot(&self, slot: SlotId) -> &[u8] {
        self.arena.slot(slot)
    }

    /// The writable bytes of a slot; none while it is posted.
    pub fn slot_mut(&mut self, slot: SlotId) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    /// Reads completions. After an error the queue is unusable.
    pub fn poll(&mut self, into: &mut Vec<Completion>) -> Result<(), VerbsError> {
        // SAFETY: zeros are valid for these structures of numbers.
        let mut entries: [Wc; ENTRIES] = unsafe { zeroed() };
        // SAFETY: the queue is open, and there is room for `ENTRIES` completions.
        let count = unsafe {
            ((*self.context.raw).ops.poll_cq)(self.cq, ENTRIES as c_int, entries.as_mut_ptr())
        };
        if count < 0 {
            return Err(self.error("ibv_poll_cq", libc::EIO));
        }
        for wc in entries.iter().take(count as usize) {
            let slot = SlotId(wc.wr_id as u32);
            let operation = match wc.wr_id & !u64::from(u32::MAX) {
                SEND => AdapterOperation::Send(slot),
                RECEIVE => AdapterOperation::Receive(slot, wc.byte_len as usize),
                READ => AdapterOperation::Read(RegionId(wc.wr_id as u32)),
                WRITE => AdapterOperation::Write(RegionId(wc.wr_id as u32)),
                READ_SLOT => AdapterOperation::ReadSlot(slot),
                WRITE_SLOT => AdapterOperation::WriteSlot(slot),
                ATOMIC_SLOT => AdapterOperation::AtomicSlot(slot),
                _ => AdapterOperation::WriteWord,
            };
            let is_own = !matches!(operation, AdapterOperation::Receive(..)) || self.srq.is_null();
            match operation {
                AdapterOperation::Send(slot)
                | AdapterOperation::Receive(slot, _)
                | AdapterOperation::ReadSlot(slot)
                | AdapterOperation::WriteSlot(slot)
                | AdapterOperation::AtomicSlot(slot) => self.arena.take_back(slot),
                AdapterOperation::Read(region) | AdapterOperation::Write(region) => {
                    self.regions.use_ended(region)
                }
                AdapterOperation::WriteWord => {}
            }
            let error = (wc.status != IBV_WC_SUCCESS).then(|| {
                let (status, vendor) = (self.library.status(wc.status), wc.vendor_err);
                format!("{status} (vendor error {vendor:#x})")
            });
            into.push(Completion {
                queue_pair: wc.qp_num,
                operation,
                error,
                has_timed_out: wc.status == IBV_WC_RETRY_EXC_ERR,
                refusal: refusal(wc.status),
            });
            if let Some(pair) = self.queue_pairs.get_mut(&wc.qp_num).filter(|_| is_own) {
                pair.live = pair.live.saturating_sub(1);
            }
        }
        self.is_empty = count == 0;
        Ok(())
    }

    /// A descriptor that becomes readable with a completion, after [`Adapter::arm`].
    pub fn wait_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is open as long as the adapter is.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// Makes the next completion signal the descriptor. Completions from before do not: poll once
    /// more afterwards.
    pub fn arm(&mut self) -> Result<(), VerbsError> {
        // SAFETY: the queue is open.
        let answer = unsafe { ((*self.context.raw).ops.req_notify_cq)(self.cq, 0) };
        self.check("ibv_req_notify_cq", answer)
    }

    /// Reads the events of the channel, so that its descriptor is not readable any more.
    pub fn take_events(&mut self) {
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: channel and queue are open; the descriptor does not block.
        unsafe {
            while (self.library.symbols.ibv_get_cq_event)(self.channel, &mut cq, &mut context) == 0
            {
                (self.library.symbols.ibv_ack_cq_events)(cq, 1);
            }
        }
    }
}
