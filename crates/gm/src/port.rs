use crate::declarations::{
    GM_API_VERSION_2_0, GM_BUSY, GM_FAST_HIGH_PEER_RECV_EVENT, GM_FAST_RECV_EVENT,
    GM_HIGH_PRIORITY, GM_INVALID_PARAMETER, GM_INVALID_PORT_NUMBER, GM_LOW_PRIORITY,
    GM_NO_RECV_EVENT, GM_RECV_EVENT, GM_SEND_DROPPED, GM_SEND_TIMED_OUT, GM_STILL_SHUTTING_DOWN,
    GM_SUCCESS, RawPort, RecvEvent,
};
use crate::library::{GmError, GmLibrary};
use crate::regions::{GmRegion, Regions};
use crate::slots::{GmSlot, Slots};
use libc::{c_int, c_ulong, c_void};
use oxmpi_sys::foreign::keep_signals;
use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BATCH: usize = 64;
/// Words in one allocation.
const WORDS: usize = 64;

/// A port of a node; `node` is the number by which this interface knows that node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GmTarget {
    pub node: u32,
    pub port: u32,
}

/// A pair of words: a peer writes the first, and writes to the peer take their value from the
/// second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordId(pub u32);

/// An operation that a port carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GmOperation {
    /// [`OpenPort::send`] of a slot, which belongs to the caller again.
    Send(GmSlot),
    PutWord,
    GetWord(WordId),
    /// [`OpenPort::put`] from this region.
    Put(GmRegion),
    /// [`OpenPort::get`] into this region.
    Get(GmRegion),
    Drop,
}

/// The result of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GmStatus {
    Done,
    /// The target exists but has provided no buffer in time (GM_SEND_TIMED_OUT).
    TimedOut,
    /// [`OpenPort::drop_sends`] has dropped the operation.
    Dropped,
    /// GM's text of another failure.
    Failed(String),
}

/// An event of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GmEvent {
    /// A message has come into a slot, which belongs to the caller again.
    Received {
        slot: GmSlot,
        /// In bytes.
        len: usize,
        from: GmTarget,
    },
    /// An operation has ended, and its send token is free.
    Ended {
        /// The caller's number for the target.
        label: u32,
        operation: GmOperation,
        status: GmStatus,
    },
}

/// The context of GM's callback. Its address is fixed while the port is open.
struct CallbackRecord {
    at: u32,
    ended: *const UnsafeCell<Vec<(u32, c_int)>>,
    label: u32,
    operation: GmOperation,
}

/// GM calls this from gm_unknown().
pub(crate) unsafe extern "C" fn callback(_: *mut RawPort, context: *mut c_void, status: c_int) {
    // SAFETY: the context is a record of the port that is being polled. Record and list live as
    // long as the port, and the poll that has called gm_unknown() refers to neither meanwhile.
    unsafe {
        let record = context.cast::<CallbackRecord>().cast_const();
        (*(*(*record).ended).get()).push(((*record).at, status));
    }
}

/// One port of an interface. One thread at a time uses it.
pub struct OpenPort {
    library: Arc<GmLibrary>,
    raw: *mut RawPort,
    number: u32,
    /// The global identifier of this node.
    node: u32,
    size: u32,
    slots: Slots,
    send_tokens: u32,
    receive_tokens: u32,
    words: Vec<*mut u8>,
    made_words: usize,
    #[allow(clippy::vec_box)] // GM has their addresses
    records: Vec<Box<CallbackRecord>>,
    free_records: Vec<u32>,
    regions: Regions,
    /// The place of the record, and the status, of each callback.
    ended: Box<UnsafeCell<Vec<(u32, c_int)>>>,
}

// SAFETY: GM binds a port to no thread, and only one thread at a time has this value.
unsafe impl Send for OpenPort {}

impl fmt::Debug for OpenPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenPort")
            .field("number", &self.number)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        // SAFETY: the port is open, and closed once. GM calls back only from gm_unknown(), and
        // frees its allocations for the port.
        unsafe {
            (self.library.symbols.gm_close)(self.raw);
            (self.library.symbols.gm_finalize)();
        }
    }
}

impl OpenPort {
    /// Opens the first free port of an interface (`unit`) among `candidates`, for messages of at
    /// least `message_len` bytes.
    pub fn open(
        library: &Arc<GmLibrary>,
        unit: u32,
        candidates: impl Iterator<Item = u32>,
        message_len: usize,
    ) -> Result<OpenPort, GmError> {
        keep_signals(|| OpenPort::start(library, unit, candidates, message_len))
    }

    fn start(
        library: &Arc<GmLibrary>,
        unit: u32,
        candidates: impl Iterator<Item = u32>,
        message_len: usize,
    ) -> Result<OpenPort, GmError> {
        let symbols = &library.symbols;
        // SAFETY: it may be called any number of times; gm_finalize() undoes each call, here or
        // when the port is closed.
        library.check("gm_init", unsafe { (symbols.gm_init)() })?;
        let mut last = None;
        for number in candidates {
            let mut raw = null_mut();
            // SAFETY: the name ends with a zero, and `raw` has room for a pointer.
            let status = unsafe {
                (symbols.gm_open)(&mut raw, unit, number, c"OxMPI".as_ptr(), GM_API_VERSION_2_0)
            };
            if status == GM_SUCCESS && !raw.is_null() {
                return OpenPort::opened(library, raw, number, message_len);
            }
            let is_in_use = matches!(status, GM_BUSY | GM_STILL_SHUTTING_DOWN);
            let is_beyond = matches!(status, GM_INVALID_PARAMETER | GM_INVALID_PORT_NUMBER);
            // For a port number beyond its last port the interface returns an error that says less
            // than the error of an existing port.
            if !is_beyond || last.is_none() {
                last = Some(library.error("gm_open", status));
            }
            if !is_in_use {
                break;
            }
        }
        // SAFETY: undoes gm_init() above.
        unsafe { (symbols.gm_finalize)() };
        Err(last.unwrap_or_else(|| library.error("gm_open", GM_INVALID_PARAMETER)))
    }

    fn opened(
        library: &Arc<GmLibrary>,
        raw: *mut RawPort,
        number: u32,
        message_len: usize,
    ) -> Result<OpenPort, GmError> {
        let symbols = &library.symbols;
        // SAFETY: the port is open; these calls only compute or read.
        let (size, len, send_tokens, receive_tokens) = unsafe {
            let size = (symbols.gm_min_size_for_length)(message_len as c_ulong);
            let len = (symbols.gm_max_length_for_size)(size);
            (size, len, (symbols.gm_num_send_tokens)(raw), (symbols.gm_num_receive_tokens)(raw))
        };
        let mut it = OpenPort {
            library: library.clone(),
            raw,
            number,
            node: 0,
            size,
            slots: Slots::new(len as usize),
            send_tokens,
            receive_tokens,
            words: Vec::new(),
            made_words: 0,
            records: Vec::new(),
            free_records: Vec::new(),
            regions: Regions::default(),
            ended: Box::default(),
        };
        let mut node = 0;
        // SAFETY: the port is open, `drop` closes it after an error; each call writes a number.
        unsafe {
            library.check("gm_get_node_id", (symbols.gm_get_node_id)(raw, &mut node))?;
            library.check(
                "gm_node_id_to_global_id",
                (symbols.gm_node_id_to_global_id)(raw, node, &mut it.node),
            )?;
            let low = (symbols.gm_set_acceptable_sizes)(raw, GM_LOW_PRIORITY, 1 << size);
            library.check("gm_set_acceptable_sizes", low)?;
            let high = (symbols.gm_set_acceptable_sizes)(raw, GM_HIGH_PRIORITY, 0);
            library.check("gm_set_acceptable_sizes", high)?;
            library.check(
                "gm_allow_remote_memory_access",
                (symbols.gm_allow_remote_memory_access)(raw),
            )?;
        }
        Ok(it)
    }

    pub(crate) fn library(&self) -> &Arc<GmLibrary> {
        &self.library
    }

    pub(crate) fn raw(&self) -> *mut RawPort {
        self.raw
    }

    pub(crate) fn regions(&mut self) -> &mut Regions {
        &mut self.regions
    }

    pub(crate) fn known_regions(&self) -> &Regions {
        &self.regions
    }

    /// The number of the port.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The identifier of the own node in the whole network.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// The number of free send tokens.
    pub fn send_tokens(&self) -> u32 {
        self.send_tokens
    }

    /// The number of free receive tokens.
    pub fn receive_tokens(&self) -> u32 {
        self.receive_tokens
    }

    /// The length of a slot, and so of the longest message, in bytes.
    pub fn slot_len(&self) -> usize {
        self.slots.slot_len()
    }

    /// The number by which this interface knows a node of the network.
    pub fn resolve(&self, node: u32) -> Result<u32, GmError> {
        let mut local = 0;
        // SAFETY: the port is open; the call writes a number.
        let status =
            unsafe { (self.library.symbols.gm_global_id_to_node_id)(self.raw, node, &mut local) };
        self.library.check("gm_global_id_to_node_id", status)?;
        Ok(local)
    }

    fn allocate(&self, len: usize) -> Result<*mut u8, GmError> {
        // SAFETY: the port is open.
        let start =
            unsafe { (self.library.symbols.gm_dma_malloc)(self.raw, len as c_ulong) }.cast::<u8>();
        if start.is_null() {
            return Err(GmError::Exhausted {
                port: self.number,
                what: "memory for DMA (gm_dma_malloc)",
            });
        }
        // SAFETY: `len` bytes were allocated; GM leaves their content undefined.
        unsafe { start.write_bytes(0, len) };
        Ok(start)
    }

    /// Makes `count` more slots.
    pub fn more_slots(&mut self, count: usize) -> Result<Vec<GmSlot>, GmError> {
        let start = self.allocate(count * self.slots.stride())?;
        // SAFETY: the memory was just allocated, and is freed when the port is closed.
        Ok(unsafe { self.slots.add(start, count) })
    }

    /// The bytes of a slot; none while GM has it.
    pub fn slot(&self, slot: GmSlot) -> &[u8] {
        self.slots.slot(slot)
    }

    /// The writable bytes of a slot; none while GM has it.
    pub fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8] {
        self.slots.slot_mut(slot)
    }

    /// Provides a slot for a message of any sender. It takes a receive token.
    pub fn provide(&mut self, slot: GmSlot) -> Result<(), GmError> {
        if self.receive_tokens == 0 {
            return Err(GmError::Exhausted { port: self.number, what: "receive tokens" });
        }
        let start =
            self.slots.lend(slot).ok_or(GmError::Exhausted { port: self.number, what: "slots" })?;
        self.receive_tokens -= 1;
        // SAFETY: the slot has the length of messages of this size, lies in GM's memory, and is
        // inaccessible here until its event.
        unsafe {
            let priority = GM_LOW_PRIORITY as u32;
            (self.library.symbols.gm_provide_receive_buffer_with_tag)(
                self.raw,
                start.cast(),
                self.size,
                priority,
                0,
            );
        }
        Ok(())
    }

    /// Takes a send token, and makes the context of the callback.
    pub(crate) fn record(
        &mut self,
        label: u32,
        operation: GmOperation,
    ) -> Result<*mut c_void, GmError> {
        if self.send_tokens == 0 {
            return Err(GmError::Exhausted { port: self.number, what: "send tokens" });
        }
        self.send_tokens -= 1;
        let at = self.free_records.pop().unwrap_or_else(|| {
            let at = self.records.len() as u32;
            self.records.push(Box::new(CallbackRecord {
                at,
                ended: &raw const *self.ended,
                label,
                operation,
            }));
            at
        });
        let record = &mut self.records[at as usize];
        (record.label, record.operation) = (label, operation);
        Ok((&raw mut **record).cast())
    }

    /// Sends the first `len` bytes of a slot. It takes a send token.
    pub fn send(
        &mut self,
        label: u32,
        to: GmTarget,
        slot: GmSlot,
        len: usize,
    ) -> Result<(), GmError> {
        let context = self.record(label, GmOperation::Send(slot))?;
        let Some(start) = self.slots.lend(slot) else {
            self.send_tokens += 1;
            return Err(GmError::Exhausted { port: self.number, what: "slots" });
        };
        let len = len.min(self.slot_len()) as c_ulong;
        let (size, priority) = (self.size, GM_LOW_PRIORITY as u32);
        // SAFETY: the slot has `len` bytes, lies in GM's memory, and is inaccessible here until its
        // event; the record stays.
        unsafe {
            let send = self.library.symbols.gm_send_with_callback;
            send(self.raw, start.cast(), size, len, priority, to.node, to.port, callback, context);
        }
        Ok(())
    }

    /// Makes a word, initially 0, that a peer may write.
    pub fn new_word(&mut self) -> Result<WordId, GmError> {
        if self.made_words == self.words.len() * WORDS {
            let start = self.allocate(WORDS * 16)?;
            self.words.push(start);
        }
        self.made_words += 1;
        Ok(WordId(self.made_words as u32 - 1))
    }

    /// The address of a pair's first word; the second is 8 bytes behind it.
    fn place(&self, word: WordId) -> Option<*mut u8> {
        let at = word.0 as usize;
        let region = self.words.get(at / WORDS).filter(|_| at < self.made_words)?;
        // SAFETY: the region has room for `WORDS` pairs.
        Some(unsafe { region.add(at % WORDS * 16) })
    }

    /// The value that the peer has written.
    pub fn word(&self, word: WordId) -> u64 {
        let Some(place) = self.place(word) else { return 0 };
        // SAFETY: eight aligned bytes in memory that lives as long as the port; only interfaces and
        // this process change them.
        unsafe { AtomicU64::from_ptr(place.cast()) }.load(Ordering::Acquire)
    }

    /// Sets a word that peers only read.
    pub fn set_word(&mut self, word: WordId, value: u64) {
        let Some(place) = self.place(word) else { return };
        // SAFETY: eight aligned bytes in memory that lives as long as the port; only interfaces and
        // this process change them.
        unsafe { AtomicU64::from_ptr(place.cast()) }.store(value, Ordering::SeqCst);
    }

    /// The address of a word, for the peer.
    pub fn word_address(&self, word: WordId) -> u64 {
        self.place(word).map_or(0, |place| place as u64)
    }

    /// Writes a word at a peer, at the address that the peer has reported. It takes a send token.
    /// For each word, one write at a time may be under way.
    pub fn put_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        (address, value): (u64, u64),
    ) -> Result<(), GmError> {
        let place =
            self.place(word).ok_or(GmError::Exhausted { port: self.number, what: "words" })?;
        let context = self.record(label, GmOperation::PutWord)?;
        // SAFETY: eight bytes behind the incoming word, in GM's memory, read by the interface until
        // the callback; the record stays.
        unsafe {
            let from = place.add(8);
            AtomicU64::from_ptr(from.cast()).store(value, Ordering::Release);
            self.begin_put(to, (from.cast(), 8), address, context);
        }
        Ok(())
    }

    /// Writes `len` bytes at `local` to the peer's memory at `remote`.
    ///
    /// # Safety
    /// GM may read `local` until the callback of `context`, which [`OpenPort::record`] has made.
    pub(crate) unsafe fn begin_put(
        &self,
        to: GmTarget,
        (local, len): (*mut c_void, c_ulong),
        remote: u64,
        context: *mut c_void,
    ) {
        let (put, port) = (self.library.symbols.gm_put, self.raw);
        // SAFETY: the port is open; the caller guarantees the rest.
        unsafe {
            put(port, local, remote, len, GM_LOW_PRIORITY, to.node, to.port, callback, context)
        }
    }

    /// Reads `len` bytes of the peer's memory at `remote` to `local`.
    ///
    /// # Safety
    /// As for [`OpenPort::begin_put`], but GM may write `local`.
    pub(crate) unsafe fn begin_get(
        &self,
        to: GmTarget,
        (local, len): (*mut c_void, c_ulong),
        remote: u64,
        context: *mut c_void,
    ) {
        let (get, port) = (self.library.symbols.gm_get, self.raw);
        // SAFETY: the port is open; the caller guarantees the rest.
        unsafe {
            get(port, remote, local, len, GM_LOW_PRIORITY, to.node, to.port, callback, context)
        }
    }

    /// Drops all messages that are queued for a target, and allows later messages to it. Each
    /// failed operation requires one call. It takes a send token.
    pub fn drop_sends(&mut self, label: u32, to: GmTarget) -> Result<(), GmError> {
        let context = self.record(label, GmOperation::Drop)?;
        // SAFETY: the port is open; the record stays.
        unsafe {
            let priority = GM_LOW_PRIORITY as u32;
            (self.library.symbols.gm_drop_sends)(
                self.raw, priority, to.node, to.port, callback, context,
            );
        }
        Ok(())
    }

    /// Appends new events to `into`.
    pub fn poll(&mut self, into: &mut Vec<GmEvent>) {
        for _ in 0..BATCH {
            // SAFETY: the port is open; the event is valid until the next call for this port.
            let event = unsafe { (self.library.symbols.gm_receive)(self.raw) };
            // SAFETY: the event is valid until the next call for this port.
            let kind = if event.is_null() { GM_NO_RECV_EVENT } else { unsafe { (*event).kind } };
            match kind {
                GM_NO_RECV_EVENT => break,
                GM_RECV_EVENT..=GM_FAST_HIGH_PEER_RECV_EVENT => {
                    // SAFETY: the event is valid until the next call for this port, and events of
                    // these kinds are messages.
                    into.extend(unsafe { self.received(&*event) });
                }
                // SAFETY: the event is the last one read. Callbacks access records and `ended`.
                _ => unsafe { (self.library.symbols.gm_unknown)(self.raw, event) },
            }
        }
        let ended = std::mem::take(self.ended.get_mut());
        for (at, status) in ended {
            let Some(record) = self.records.get(at as usize) else { continue };
            let (label, operation) = (record.label, record.operation);
            self.free_records.push(at);
            self.send_tokens += 1;
            match operation {
                GmOperation::Send(slot) => self.slots.take_back(slot),
                GmOperation::Put(region) | GmOperation::Get(region) => self.regions.ended(region),
                GmOperation::PutWord | GmOperation::GetWord(_) | GmOperation::Drop => {}
            }
            let status = match status {
                GM_SUCCESS => GmStatus::Done,
                GM_SEND_TIMED_OUT => GmStatus::TimedOut,
                GM_SEND_DROPPED => GmStatus::Dropped,
                other => GmStatus::Failed(self.library.error("send", other).to_string()),
            };
            into.push(GmEvent::Ended { label, operation, status });
        }
    }

    /// # Safety
    /// `event` is the last result of gm_receive(), and a message.
    unsafe fn received(&mut self, event: &RecvEvent) -> Option<GmEvent> {
        let slot = self.slots.at(u64::from_be(event.buffer) as usize)?;
        let len = (u32::from_be(event.length) as usize).min(self.slot_len());
        self.slots.take_back(slot);
        self.receive_tokens += 1;
        if event.kind >= GM_FAST_RECV_EVENT {
            let message = u64::from_be(event.message) as *const u8;
            // SAFETY: a fast message stays in the receive queue until the next event is read.
            let message = unsafe { std::slice::from_raw_parts(message, len) };
            self.slots.slot_mut(slot)[..len].copy_from_slice(message);
        }
        let from = GmTarget {
            node: u16::from_be(event.sender_node_id).into(),
            port: event.sender_port_id.into(),
        };
        Some(GmEvent::Received { slot, len, from })
    }
}
