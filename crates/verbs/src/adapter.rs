//! One port of a device in use: connections, slots, completions.

use crate::arena::{Arena, Registered};
use crate::declarations::{
    Channel, Cq, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QP_ACCESS_FLAGS, IBV_QP_AV,
    IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER,
    IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN,
    IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QP_TIMEOUT, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
    IBV_QPT_RC, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_RDMA_WRITE, IBV_WR_SEND, Opaque, Qp, QpAttr, QpCap,
    QpInitAttr, RecvWr, SendWr, Sge, Srq, SrqInitAttr, Wc,
};
use crate::library::{Library, OpenContext, Port, VerbsError, last_errno};
use crate::limits::QueueLimits;
use libc::c_int;
use std::collections::HashMap;
use std::fmt;
use std::mem::zeroed;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Completions that are read at a time.
const ENTRIES: usize = 32;
/// Completions for which the queue has room at first.
const FIRST_ROOM: u32 = 1024;
/// Connections whose words lie in one region.
const WORDS: usize = 256;
/// How often a packet is repeated before a connection has failed: the most that there is.
const RETRIES: u8 = 7;
/// Reads that may be under way on a connection in each direction.
const READS: u8 = 1;

/// For how long a queue pair on a shared receive queue stays in the error state before it is destroyed.
pub(crate) const DRAIN: Duration = Duration::from_secs(1);

/// A piece of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotId(pub u32);

/// How a port is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSettings {
    /// The device.
    pub device: String,
    /// The number of the port.
    pub port: u8,
    /// The MTU of connections, bytes: a power of two from 256 to 4096.
    pub mtu: usize,
    /// The length of a slot, bytes.
    pub slot_len: usize,
    /// Slots that are made at a time.
    pub slots: usize,
    /// Whether connections share one receive queue, and how many slots it holds at most.
    pub shared: Option<u32>,
    /// Sends that may be under way on a connection.
    pub send_depth: u32,
    /// Receives that may be posted on a connection without a shared queue.
    pub receive_depth: u32,
    /// After which time without an answer a packet is repeated: 4.096 microseconds times two to this power.
    pub ack_timeout: u8,
}

/// Where a peer finds one end of a connection, and the word that it may write here.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LocalEnd {
    /// The number of the queue pair.
    pub queue_pair: u32,
    /// The number of the first packet that comes from this end.
    pub first_packet: u32,
    /// The local identifier of the port; 0 over Ethernet.
    pub lid: u16,
    /// The global identifier of the port; zeros if it has none.
    pub gid: [u8; 16],
    /// The address of the word, and its remote key.
    pub word: (u64, u32),
}

/// The other end of a connection.
pub type RemoteEnd = LocalEnd;

/// What has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A slot was sent: the peer's adapter has it.
    Send(SlotId),
    /// So many bytes have come into a slot.
    Receive(SlotId, usize),
    /// The word was written.
    WriteWord,
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The queue pair.
    pub queue_pair: u32,
    /// What has ended. Its slot is the caller's again.
    pub operation: Operation,
    /// Why it failed, in the library's and the vendor's words.
    pub error: Option<String>,
}

const SEND: u64 = 1 << 56;
const RECEIVE: u64 = 2 << 56;
const WRITE_WORD: u64 = 3 << 56;

struct QueuePair {
    raw: *mut Qp,
    remote: RemoteEnd,
    /// Its two words: what the peer writes, and what is written to the peer.
    words: usize,
    /// Operations of its own queues that are under way.
    live: u32,
    /// Since when it is being closed.
    closing: Option<Instant>,
}

/// See the module. One thread at a time uses it.
pub struct Adapter {
    library: Arc<Library>,
    settings: AdapterSettings,
    limits: QueueLimits,
    port: Port,
    pd: *mut Opaque,
    channel: *mut Channel,
    cq: *mut Cq,
    srq: *mut Srq,
    /// Completions that may be there at the same time, and for which there is room.
    expected: u32,
    room: u32,
    arena: Arena,
    words: Vec<Registered>,
    free_words: Vec<usize>,
    queue_pairs: HashMap<u32, QueuePair>,
    /// How many of these are being closed.
    closing: usize,
    /// The last poll found nothing.
    is_empty: bool,
    context: OpenContext,
}

// SAFETY: all objects are this value's alone, and the library binds none to a thread.
unsafe impl Send for Adapter {}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdapterSettings { device, port, .. } = &self.settings;
        f.debug_struct("Adapter").field("device", device).field("port", port).finish_non_exhaustive()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let symbols = &self.library.symbols;
        // SAFETY: each object is open, is closed once, and before those that it was made from; no operation is under way when its queue
        // pair and the shared receive queue are gone, so the memory is free.
        unsafe {
            for (_, pair) in self.queue_pairs.drain() {
                (symbols.destroy_qp)(pair.raw);
            }
            if !self.srq.is_null() {
                (symbols.destroy_srq)(self.srq);
            }
            if !self.cq.is_null() {
                (symbols.destroy_cq)(self.cq);
            }
            if !self.channel.is_null() {
                (symbols.destroy_comp_channel)(self.channel);
            }
            for region in self.words.iter_mut().chain(&mut self.arena.regions) {
                region.free(&self.library);
            }
            if !self.pd.is_null() {
                (symbols.dealloc_pd)(self.pd);
            }
        }
    }
}

impl Adapter {
    /// Opens a port.
    ///
    /// # Errors
    /// What the library says.
    pub fn open(library: &Arc<Library>, settings: AdapterSettings) -> Result<Adapter, VerbsError> {
        let context = library.open_named(&settings.device)?;
        let limits = QueueLimits::of(&library.query_device(&settings.device, &context)?);
        let settings = AdapterSettings { shared: limits.check(&settings)?, ..settings };
        let first_room = FIRST_ROOM.min(limits.completions);
        let ports = library.ports(&settings.device, &context)?;
        let port = ports.into_iter().find(|port| port.number == settings.port);
        let port = port.ok_or_else(|| library.error(&settings.device, "ibv_query_port", libc::ENODEV))?;
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
            words: Vec::new(),
            free_words: Vec::new(),
            queue_pairs: HashMap::new(),
            closing: 0,
            is_empty: false,
            settings,
            context,
        };
        let symbols = it.library.symbols;
        // SAFETY: each object is made from one that is open; what was made is closed by `drop` also if a later one fails.
        unsafe {
            it.pd = it.made("ibv_alloc_pd", (symbols.alloc_pd)(it.context.raw))?;
            it.channel = it.made("ibv_create_comp_channel", (symbols.create_comp_channel)(it.context.raw))?;
            let flags = libc::fcntl((*it.channel).fd, libc::F_GETFL);
            if flags < 0 || libc::fcntl((*it.channel).fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
                return Err(it.error("fcntl", last_errno()));
            }
            let cq = (symbols.create_cq)(it.context.raw, first_room as c_int, null_mut(), it.channel, 0);
            it.cq = it.made("ibv_create_cq", cq)?;
            if let Some(most) = it.settings.shared {
                let mut init =
                    SrqInitAttr { srq_context: null_mut(), max_wr: most, max_sge: 1, srq_limit: 0 };
                it.srq = it.made("ibv_create_srq", (symbols.create_srq)(it.pd, &mut init))?;
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

    /// The port, as it was when it was opened.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The name of the device.
    pub fn device(&self) -> &str {
        &self.settings.device
    }

    /// So many more completions may be there at the same time: a queue that overflows loses them.
    fn expect(&mut self, more: u32) -> Result<(), VerbsError> {
        let expected = self.expected.saturating_add(more);
        if expected > self.room {
            let Some(rooms) = self.limits.completion_queue(expected) else {
                let device = self.settings.device.clone();
                return Err(VerbsError::Exhausted { device, what: "room in a completion queue" });
            };
            // A device without memory for a queue of twice the length may have enough for what is needed.
            self.resize(rooms[0]).or_else(|_| self.resize(rooms[1]))?;
        }
        self.expected = expected;
        Ok(())
    }

    fn resize(&mut self, room: u32) -> Result<(), VerbsError> {
        // SAFETY: the queue is open.
        let answer = unsafe { (self.library.symbols.resize_cq)(self.cq, room as c_int) };
        self.check("ibv_resize_cq", answer)?;
        self.room = room;
        Ok(())
    }

    /// The length of the shared receive queue, if there is one: that of the settings, or less if the device supports less.
    pub fn shared(&self) -> Option<u32> {
        self.settings.shared
    }

    /// Makes more slots.
    ///
    /// # Errors
    /// If they cannot be registered: the memory that a process may lock is exhausted (`ulimit -l`), or the device's.
    pub fn more_slots(&mut self) -> Result<Vec<SlotId>, VerbsError> {
        let Adapter { arena, library, settings, pd, .. } = self;
        arena.grow(|len| Registered::new(library, (&settings.device, *pd), len, 0))
    }

    /// What a slot has; nothing while it is posted.
    pub fn slot(&self, slot: SlotId) -> &[u8] {
        self.arena.slot(slot)
    }

    /// As [`Adapter::slot`], to be filled.
    pub fn slot_mut(&mut self, slot: SlotId) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    /// Makes one end of a connection, whose first packet has this number (24 bits).
    ///
    /// # Errors
    /// What the library says.
    pub fn create(&mut self, first_packet: u32) -> Result<LocalEnd, VerbsError> {
        let completions = self.completions();
        self.expect(completions)?;
        let made = self.new_words().and_then(|words| {
            let made = self.create_with(first_packet, words);
            if made.is_err() {
                self.free_words.push(words);
            }
            made
        });
        if made.is_err() {
            self.expected -= completions;
        }
        made
    }

    /// Receives that may be posted on a connection's own queue.
    fn own_receives(&self) -> u32 {
        if self.srq.is_null() { self.settings.receive_depth } else { 0 }
    }

    /// Completions of one connection that may be there at the same time.
    fn completions(&self) -> u32 {
        self.settings.send_depth + self.own_receives()
    }

    fn create_with(&mut self, first_packet: u32, words: usize) -> Result<LocalEnd, VerbsError> {
        let receives = self.own_receives();
        let mut init = QpInitAttr {
            qp_context: null_mut(),
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: self.srq,
            cap: QpCap {
                max_send_wr: self.settings.send_depth,
                max_recv_wr: receives,
                max_send_sge: 1,
                max_recv_sge: u32::from(receives > 0),
                max_inline_data: 0,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 0,
        };
        let symbols = self.library.symbols;
        // SAFETY: domain and queues are open; the description lives during the call.
        let raw = unsafe { (symbols.create_qp)(self.pd, &mut init) };
        let raw = self.made("ibv_create_qp", raw)?;
        // SAFETY: the queue pair was just made.
        let number = unsafe { (*raw).qp_num };
        let (incoming, key) = self.word_address(words);
        let gid = self.port.gid.map_or([0; 16], |(_, gid)| gid);
        let end =
            LocalEnd { queue_pair: number, first_packet, lid: self.port.lid, gid, word: (incoming, key) };
        self.word(words).store(0, Ordering::Release);
        self.word(words + 1).store(0, Ordering::Release);
        // SAFETY: a structure of numbers, for which zeros are values.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = self.settings.port;
        attr.qp_access_flags = (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) as u32;
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        if let Err(error) = self.modify(raw, attr, mask) {
            // SAFETY: it is open, and nothing was posted on it.
            unsafe { (symbols.destroy_qp)(raw) };
            return Err(error);
        }
        let remote = RemoteEnd::default();
        self.queue_pairs.insert(number, QueuePair { raw, remote, words, live: 0, closing: None });
        Ok(end)
    }

    fn modify(&self, raw: *mut Qp, mut attr: QpAttr, mask: c_int) -> Result<(), VerbsError> {
        // SAFETY: the queue pair is open; the attributes live during the call.
        self.check("ibv_modify_qp", unsafe { (self.library.symbols.modify_qp)(raw, &mut attr, mask) })
    }

    /// Connects one end with a peer's: it can receive and send from now on. Receives are to be posted before.
    ///
    /// # Errors
    /// What the library says.
    pub fn connect(&mut self, local: &LocalEnd, remote: &RemoteEnd) -> Result<(), VerbsError> {
        let pair = self.queue_pairs.get_mut(&local.queue_pair);
        let Some(pair) = pair.filter(|pair| pair.closing.is_none()) else {
            return Err(self.error("ibv_modify_qp", libc::ENOTCONN));
        };
        pair.remote = *remote;
        let raw = pair.raw;
        // SAFETY: as for `create`.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = (self.settings.mtu / 128).max(2).ilog2() as c_int;
        attr.dest_qp_num = remote.queue_pair;
        attr.rq_psn = remote.first_packet;
        attr.max_dest_rd_atomic = READS;
        attr.min_rnr_timer = 12;
        attr.ah_attr.port_num = self.settings.port;
        attr.ah_attr.dlid = remote.lid;
        if let Some((at, _)) = self.port.gid.filter(|_| self.port.is_ethernet || remote.lid == 0) {
            let half = |part: &[u8]| part.try_into().map(u64::from_ne_bytes).unwrap_or(0);
            attr.ah_attr.is_global = 1;
            attr.ah_attr.grh.dgid = [half(&remote.gid[..8]), half(&remote.gid[8..])];
            attr.ah_attr.grh.sgid_index = at;
            attr.ah_attr.grh.hop_limit = 64;
        }
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        self.modify(raw, attr, mask)?;
        // SAFETY: as above.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = self.settings.ack_timeout;
        attr.retry_cnt = RETRIES;
        // A receiver always has receives posted for what its credits allow: not ready is an error.
        attr.rnr_retry = 0;
        attr.sq_psn = local.first_packet;
        attr.max_rd_atomic = READS;
        let mask = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(raw, attr, mask)
    }

    /// Ends a connection: what is under way ends with an error, whose completions are still read, and then it is gone
    /// ([`Adapter::take_closed`]).
    pub fn close(&mut self, queue_pair: u32) {
        let Some(pair) = self.queue_pairs.get_mut(&queue_pair) else { return };
        if pair.closing.replace(Instant::now()).is_some() {
            return;
        }
        self.closing += 1;
        let raw = pair.raw;
        // SAFETY: as for `create`.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_ERR;
        // It may be in that state already.
        let _ = self.modify(raw, attr, IBV_QP_STATE);
    }

    /// Destroys the connections that were closed and from which no slot comes back any more, and gives the numbers of their queue pairs. The
    /// device may give these to others, so the completions that were read have to be handled before.
    ///
    /// A library drops the unread completions of a queue pair that it destroys, and a slot whose completion is dropped never comes back.
    /// Of a queue pair's own operations it is known how many are under way. How many slots it has taken from a shared queue is not; in the
    /// error state it takes none, and those that it has taken end soon. So it stays in that state for a while, and until the completion
    /// queue is empty.
    pub fn take_closed(&mut self) -> Vec<u32> {
        if self.closing == 0 {
            return Vec::new();
        }
        let (is_shared, is_empty) = (!self.srq.is_null(), self.is_empty);
        let is_over = |pair: &QueuePair| {
            let is_drained = |since: Instant| !is_shared || is_empty && since.elapsed() >= DRAIN;
            pair.live == 0 && pair.closing.is_some_and(is_drained)
        };
        let pairs: Vec<_> = self.queue_pairs.extract_if(|_, pair| is_over(pair)).collect();
        for (_, pair) in &pairs {
            // SAFETY: it is open, and nothing of it is under way.
            unsafe { (self.library.symbols.destroy_qp)(pair.raw) };
            self.free_words.push(pair.words);
            self.expected -= self.completions();
            self.closing -= 1;
        }
        pairs.into_iter().map(|(queue_pair, _)| queue_pair).collect()
    }

    fn new_words(&mut self) -> Result<usize, VerbsError> {
        if self.free_words.is_empty() {
            let device = (&*self.settings.device, self.pd);
            let access = IBV_ACCESS_REMOTE_WRITE;
            let region = Registered::new(&self.library, device, WORDS * 16, access)?;
            let first = self.words.len() * WORDS * 2;
            self.words.push(region);
            self.free_words.extend((0..WORDS).rev().map(|at| first + 2 * at));
        }
        self.free_words
            .pop()
            .ok_or(VerbsError::Exhausted { device: self.settings.device.clone(), what: "words" })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let region = &self.words[at / (2 * WORDS)];
        // SAFETY: the region has 2 * WORDS words of zeros, aligned as a page, which are accessed as atomics alone on this side; the
        // device writes one in one piece.
        unsafe { &*region.start.cast::<AtomicU64>().add(at % (2 * WORDS)) }
    }

    fn word_address(&self, at: usize) -> (u64, u32) {
        (self.word(at).as_ptr() as u64, self.words[at / (2 * WORDS)].remote_key())
    }

    /// The word of a connection that the peer writes.
    pub fn peer_word(&self, queue_pair: u32) -> u64 {
        self.queue_pairs.get(&queue_pair).map_or(0, |pair| self.word(pair.words).load(Ordering::Acquire))
    }

    /// Writes the word of a connection at the peer. Only one such operation may be under way on a connection.
    ///
    /// # Errors
    /// What the library says.
    pub fn write_word(&mut self, queue_pair: u32, value: u64) -> Result<(), VerbsError> {
        let Some(pair) = self.queue_pairs.get(&queue_pair) else {
            return Err(self.error("ibv_post_send", libc::ENOTCONN));
        };
        let (word, remote) = (self.word(pair.words + 1), pair.remote.word);
        word.store(value, Ordering::Release);
        let lkey = self.words[pair.words / (2 * WORDS)].local_key();
        let sge = Sge { addr: word.as_ptr() as u64, length: 8, lkey };
        self.post(queue_pair, (IBV_WR_RDMA_WRITE, WRITE_WORD), sge, remote)
    }

    fn post(
        &mut self,
        queue_pair: u32,
        (opcode, name): (c_int, u64),
        mut sge: Sge,
        (remote_addr, rkey): (u64, u32),
    ) -> Result<(), VerbsError> {
        let Some(pair) = self.queue_pairs.get_mut(&queue_pair) else {
            return Err(self.error("ibv_post_send", libc::ENOTCONN));
        };
        let mut wr = SendWr {
            wr_id: name,
            next: null_mut(),
            sg_list: &mut sge,
            num_sge: 1,
            opcode,
            send_flags: IBV_SEND_SIGNALED,
            imm_data: 0,
            remote_addr,
            rkey,
            unused: [0; 9],
        };
        let mut bad = null_mut();
        // SAFETY: the queue pair is open; the request is copied during the call, and the memory that it names is registered and stays
        // until the completion.
        let answer = unsafe { ((*(*pair.raw).context).ops.post_send)(pair.raw, &mut wr, &mut bad) };
        if answer == 0 {
            pair.live += 1;
        }
        self.check("ibv_post_send", answer)
    }

    /// Sends the first `len` bytes of a slot, which is the device's until [`Operation::Send`].
    ///
    /// # Errors
    /// What the library says; the slot is the caller's then.
    pub fn send(&mut self, queue_pair: u32, slot: SlotId, len: usize) -> Result<(), VerbsError> {
        let Some(sge) = self.arena.lend(slot, len) else {
            return Err(self.error("ibv_post_send", libc::EBUSY));
        };
        let posted = self.post(queue_pair, (IBV_WR_SEND, SEND | u64::from(slot.0)), sge, (0, 0));
        if posted.is_err() {
            self.arena.take_back(slot);
        }
        posted
    }

    /// Posts a slot for what comes, on a connection or on the shared queue if there is one.
    ///
    /// # Errors
    /// What the library says; the slot is the caller's then.
    pub fn receive(&mut self, queue_pair: u32, slot: SlotId) -> Result<(), VerbsError> {
        let Some(mut sge) = self.arena.lend(slot, self.settings.slot_len) else {
            return Err(self.error("ibv_post_recv", libc::EBUSY));
        };
        let mut wr =
            RecvWr { wr_id: RECEIVE | u64::from(slot.0), next: null_mut(), sg_list: &mut sge, num_sge: 1 };
        let mut bad = null_mut();
        let answer = match self.queue_pairs.get_mut(&queue_pair) {
            // SAFETY: the shared queue is open; otherwise as for `post`.
            _ if !self.srq.is_null() => unsafe {
                ((*(*self.srq).context).ops.post_srq_recv)(self.srq, &mut wr, &mut bad)
            },
            Some(pair) => {
                pair.live += 1;
                // SAFETY: as for `post`.
                let answer = unsafe { ((*(*pair.raw).context).ops.post_recv)(pair.raw, &mut wr, &mut bad) };
                pair.live -= u32::from(answer != 0);
                answer
            }
            None => libc::ENOTCONN,
        };
        if answer != 0 {
            self.arena.take_back(slot);
        }
        self.check("ibv_post_recv", answer)
    }

    /// Reads what has ended.
    ///
    /// # Errors
    /// What the library says: the queue is of no use any more.
    pub fn poll(&mut self, into: &mut Vec<Completion>) -> Result<(), VerbsError> {
        // SAFETY: structures of numbers, for which zeros are values.
        let mut entries: [Wc; ENTRIES] = unsafe { zeroed() };
        // SAFETY: the queue is open, and there is room for so many.
        let count =
            unsafe { ((*self.context.raw).ops.poll_cq)(self.cq, ENTRIES as c_int, entries.as_mut_ptr()) };
        if count < 0 {
            return Err(self.error("ibv_poll_cq", libc::EIO));
        }
        for wc in entries.iter().take(count as usize) {
            let slot = SlotId(wc.wr_id as u32);
            let operation = match wc.wr_id & !u64::from(u32::MAX) {
                SEND => Operation::Send(slot),
                RECEIVE => Operation::Receive(slot, wc.byte_len as usize),
                _ => Operation::WriteWord,
            };
            let is_own = !matches!(operation, Operation::Receive(..)) || self.srq.is_null();
            if operation != Operation::WriteWord {
                self.arena.take_back(slot);
            }
            let error = (wc.status != IBV_WC_SUCCESS).then(|| {
                let (status, vendor) = (self.library.status(wc.status), wc.vendor_err);
                format!("{status} (vendor error {vendor:#x})")
            });
            into.push(Completion { queue_pair: wc.qp_num, operation, error });
            if let Some(pair) = self.queue_pairs.get_mut(&wc.qp_num).filter(|_| is_own) {
                pair.live = pair.live.saturating_sub(1);
            }
        }
        self.is_empty = count == 0;
        Ok(())
    }

    /// Readable when something has ended, after [`Adapter::arm`].
    pub fn wait_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is open as long as the adapter is.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// The next completion makes the descriptor readable. What is there already does not: poll once more.
    ///
    /// # Errors
    /// What the library says.
    pub fn arm(&mut self) -> Result<(), VerbsError> {
        // SAFETY: the queue is open.
        let answer = unsafe { ((*self.context.raw).ops.req_notify_cq)(self.cq, 0) };
        self.check("ibv_req_notify_cq", answer)
    }

    /// Takes the events of the channel, so that its descriptor is not readable any more.
    pub fn take_events(&mut self) {
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: channel and queue are open; the descriptor does not block.
        unsafe {
            while (self.library.symbols.get_cq_event)(self.channel, &mut cq, &mut context) == 0 {
                (self.library.symbols.ack_cq_events)(cq, 1);
            }
        }
    }
}
