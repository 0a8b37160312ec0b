//! Endpoints, which send and receive tagged messages and *frames*. A frame is a message without a
//! tag; it arrives in one of the rooms that the receiver has posted for any sender.
//!
//! A *grouped* endpoint is a scalable endpoint (fi_scalable_ep(3)) with pairs of a transmit and a
//! receive context. The first use of an MPI context opens its pair. The two successive contexts of
//! a communicator share a pair; other contexts share pairs if the provider has too few.

mod completions;
mod frames;
mod posting;

pub use frames::{FrameBody, FrameRoom};
pub use posting::{Label, ShortSend, TagFilter};

use crate::declarations::{
    Av, AvAttr, Cq, CqAttr, CqEntry, Domain, Ep, FI_ADDR_UNSPEC, FI_AV_TABLE, FI_AV_UNSPEC,
    FI_CQ_FORMAT_TAGGED, FI_ENABLE, FI_GETWAIT, FI_RECV, FI_SEND, FI_WAIT_FD, FI_WAIT_NONE, Fid,
    FidFabric,
};
use crate::library::{Library, Provider};
use libc::{c_int, ssize_t};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::foreign::{LibraryError, keep_signals};
use std::fmt;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The longest address of an endpoint, in bytes.
const ADDRESS_BYTES: usize = 256;
/// Providers whose descriptor does not become readable when another process has sent a message
/// (`shm` of 1.17).
const SILENT_PROVIDERS: [&str; 2] = ["shm", "sm2"];

/// The most context pairs of an endpoint: providers without a limit report huge numbers.
const MAX_PAIRS: usize = 1 << 16;
/// The longest message or head of a frame that an [`Operation`] itself stores, in bytes.
const INLINE_BYTES: usize = 128;
/// The longest message of [`Endpoint::send_short`], in bytes.
const SHORT: usize = 64;
const _: () = assert!(SHORT <= INLINE_BYTES);

/// The address of a peer in the table of an endpoint (`fi_addr_t`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress(u64);

impl PeerAddress {
    /// The address of no peer.
    pub const NOWHERE: PeerAddress = PeerAddress(FI_ADDR_UNSPEC);
}

/// The failure of a call to a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider {provider}: {call} says: {why}")]
pub struct EndpointError {
    pub provider: String,
    pub call: &'static str,
    pub why: String,
}

/// Whether the provider has accepted an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The operation has started; an [`Ended`] reports its end.
    Yes,
    /// The provider has no room now (FI_EAGAIN); the call had no effect.
    NoRoom,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Sent,
    /// A receive has got a message, or a peek has found one.
    Came {
        tag: u64,
        /// The remote CQ data; undefined if the sender gave none.
        data: u64,
        /// The length of the message in bytes; the buffer has the part that fits.
        length: u64,
        /// The number of the receive or peek, counted from 1 in posting order.
        order: u64,
    },
    /// A peek has found no message.
    Nothing,
    Frame {
        /// Has the frame until [`Endpoint::post_room`].
        room: FrameRoom,
        /// The length of the frame in bytes, which can exceed the room.
        length: usize,
    },
    /// The receive for a frame has failed; the room can be posted again.
    NoFrame {
        room: FrameRoom,
        why: String,
    },
    /// A forgotten receive ([`Endpoint::forget`]) has got a message whose tag has bits of
    /// [`Endpoint::keep_buffers`].
    Unwanted {
        tag: u64,
        data: u64,
        order: u64,
    },
    Cancelled,
    Failed(String),
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended<T> {
    pub token: T,
    pub outcome: Ending,
}

enum OperationMemory {
    None,
    User(UserBuf),
    Copy(Box<[u8]>),
    /// Memory for a message that is unpacked into the buffer on arrival.
    Unpacked(Box<[u8]>, UserBuf),
    /// Memory for one frame at a time.
    Room(Box<[u8]>),
}

/// An operation in libfabric. `context` is the first field, because a completion has its address.
#[repr(C)]
struct Operation<T> {
    /// Scratch memory of the provider in the modes FI_CONTEXT and FI_CONTEXT2.
    context: [u64; 8],
    /// A short message ([`Endpoint::send_short`]), a short frame, or the head of a frame.
    short: [u8; INLINE_BYTES],
    /// The index in `Endpoint::operations`.
    at: u32,
    /// The endpoint or context that has the operation.
    ep: *mut Ep,
    is_live: bool,
    /// Whether the peek claims its message; the operation is then kept for the receive.
    claims: bool,
    /// Whether the caller wants an [`Ended`]; false after [`Endpoint::forget`].
    is_wanted: bool,
    /// The number of a receive or peek in posting order; 0 for others.
    order: u64,
    /// The tag that a receive matches, and the bits to ignore.
    filter: (u64, u64),
    from: u64,
    token: Option<T>,
    memory: OperationMemory,
}

/// A transmit and a receive context of a scalable endpoint.
#[derive(Clone, Copy, Debug)]
struct ContextPair {
    transmit: *mut Ep,
    receive: *mut Ep,
}

impl ContextPair {
    const CLOSED: ContextPair = ContextPair { transmit: null_mut(), receive: null_mut() };

    fn close(&self) {
        for one in [self.transmit, self.receive] {
            close(one.cast());
        }
    }
}

/// Closes an object unless the pointer is null. The caller does not use it afterwards.
fn close(fid: *mut Fid) {
    if !fid.is_null() {
        // SAFETY: the object is open. It is closed once, before the objects from which it was made.
        unsafe { ((*(*fid).ops).close)(fid) };
    }
}

/// An endpoint of a provider, with a completion queue and the addresses of its peers.
///
/// One thread at a time uses the endpoint. `GROUPED`: the endpoint is a scalable endpoint. `T`: the
/// caller's name of an operation.
pub struct Endpoint<T, const GROUPED: bool> {
    library: Arc<Library>,
    provider: String,
    max_message: usize,
    pieces: usize,
    fabric: *mut FidFabric,
    domain: *mut Domain,
    av: *mut Av,
    cq: *mut Cq,
    ep: *mut Ep,
    /// The pairs of a grouped endpoint; null pointers until the pair is open.
    pairs: Box<[ContextPair]>,
    /// The number of the address bits that name a receive context.
    pair_bits: u32,
    entries: Box<[CqEntry]>,
    address: Box<[u8]>,
    wait_fd: Option<RawFd>,
    /// Boxed, because the provider has the address of each operation.
    #[allow(clippy::vec_box)]
    operations: Vec<Box<Operation<T>>>,
    free: Vec<u32>,
    receives: u64,
    /// If the tag of a received message has one of these bits, its buffer goes to `kept`.
    kept_bits: u64,
    /// The buffers for [`Endpoint::take_kept`] with the numbers of their receives.
    kept: Vec<(u64, UserBuf)>,
}

// SAFETY: this value alone owns the objects. FI_THREAD_DOMAIN requires one thread at a time, and
// binds no object to a thread.
unsafe impl<T: Send, const GROUPED: bool> Send for Endpoint<T, GROUPED> {}

impl<T, const GROUPED: bool> fmt::Debug for Endpoint<T, GROUPED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl<T, const GROUPED: bool> Drop for Endpoint<T, GROUPED> {
    fn drop(&mut self) {
        // Closing the endpoint ends its operations, whose memory is a field and lives until then.
        self.pairs.iter().for_each(ContextPair::close);
        let fids: [*mut Fid; 5] = [
            self.ep.cast(),
            self.cq.cast(),
            self.av.cast(),
            self.domain.cast(),
            self.fabric.cast(),
        ];
        fids.into_iter().for_each(close);
    }
}

impl<T: Copy, const GROUPED: bool> Endpoint<T, GROUPED> {
    /// Opens an endpoint whose [`Endpoint::read`] reads at most `completions` completions.
    pub fn open(
        provider: &Provider,
        completions: usize,
    ) -> Result<Endpoint<T, GROUPED>, LibraryError> {
        // The first fabric or endpoint of a provider starts the libraries below it.
        keep_signals(|| Endpoint::open_objects(provider, completions))
    }

    fn open_objects(
        provider: &Provider,
        completions: usize,
    ) -> Result<Endpoint<T, GROUPED>, LibraryError> {
        let library = provider.library.clone();
        let pairs = if GROUPED { provider.contexts.clamp(1, MAX_PAIRS) } else { 1 };
        let pair_bits = pairs.next_power_of_two().ilog2();
        let empty =
            CqEntry { op_context: null_mut(), flags: 0, len: 0, buf: null_mut(), data: 0, tag: 0 };
        let mut it = Endpoint {
            library: library.clone(),
            provider: provider.name.clone(),
            max_message: provider.max_message,
            pieces: provider.pieces,
            fabric: null_mut(),
            domain: null_mut(),
            av: null_mut(),
            cq: null_mut(),
            ep: null_mut(),
            pairs: if GROUPED { vec![ContextPair::CLOSED; pairs].into() } else { Box::default() },
            pair_bits,
            entries: vec![empty; completions.max(1)].into(),
            address: Box::default(),
            wait_fd: None,
            operations: Vec::new(),
            free: Vec::new(),
            receives: 0,
            kept_bits: 0,
            kept: Vec::new(),
        };
        let info = provider.info;
        // SAFETY: `info` is a complete description. Each object is made from an open one in
        // libfabric's order, and `drop` closes them, also if a later call fails.
        unsafe {
            let none = null_mut();
            library.check(
                "fi_fabric",
                (library.symbols.fi_fabric)((*info).fabric_attr, &mut it.fabric, none),
            )?;
            let fabric = it.fabric;
            library.check(
                "fi_domain",
                ((*(*fabric).ops).domain)(fabric, info, &mut it.domain, none),
            )?;
            let domain = it.domain;
            let kind = match (*(*info).domain_attr).av_type {
                FI_AV_UNSPEC => FI_AV_TABLE,
                kind => kind,
            };
            let mut av = AvAttr {
                kind,
                rx_ctx_bits: pair_bits as c_int,
                count: 0,
                ep_per_node: 0,
                name: null(),
                map_addr: null_mut(),
                flags: 0,
            };
            library.check(
                "fi_av_open",
                ((*(*domain).ops).av_open)(domain, &mut av, &mut it.av, none),
            )?;
            it.open_queue()?;
            if GROUPED {
                (*(*info).ep_attr).tx_ctx_cnt = pairs;
                (*(*info).ep_attr).rx_ctx_cnt = pairs;
                let answer = ((*(*domain).ops).scalable_ep)(domain, info, &mut it.ep, none);
                library.check("fi_scalable_ep", answer)?;
            } else {
                library.check(
                    "fi_endpoint",
                    ((*(*domain).ops).endpoint)(domain, info, &mut it.ep, none),
                )?;
            }
            let ep: *mut Fid = it.ep.cast();
            let ops = (*ep).ops;
            if !GROUPED {
                library.check("fi_ep_bind", ((*ops).bind)(ep, it.cq.cast(), FI_SEND | FI_RECV))?;
            }
            library.check("fi_ep_bind", ((*ops).bind)(ep, it.av.cast(), 0))?;
            library.check("fi_enable", ((*ops).control)(ep, FI_ENABLE, null_mut()))?;
            let (mut address, mut len) = ([0u8; ADDRESS_BYTES], ADDRESS_BYTES);
            let getname = (*(*it.ep).cm).getname;
            library.check("fi_getname", getname(ep, address.as_mut_ptr().cast(), &mut len))?;
            it.address = address[..len.min(ADDRESS_BYTES)].into();
        }
        Ok(it)
    }

    /// Opens the pair of an MPI context unless it is open, so that peers can send to it. Has no
    /// effect on an endpoint that is not grouped.
    pub fn open_pair(&mut self, context: u32) -> Result<(), LibraryError> {
        if !GROUPED || !self.pair(context).transmit.is_null() {
            return Ok(());
        }
        let mut pair = ContextPair::CLOSED;
        let at = self.pair_number(context);
        let opened = self.open_contexts(at, &mut pair);
        if opened.is_err() {
            pair.close();
            return opened;
        }
        self.pairs[at] = pair;
        Ok(())
    }

    /// Opens both contexts of pair `at`. After an error `pair` has the contexts that are open.
    fn open_contexts(&self, at: usize, pair: &mut ContextPair) -> Result<(), LibraryError> {
        let (ep, cq, none) = (self.ep, self.cq, null_mut());
        // SAFETY: the endpoint and the queue are open; a null pointer for the attributes selects
        // the attributes of the endpoint.
        unsafe {
            let ops = (*ep).ops;
            let answer = ((*ops).tx_ctx)(ep, at as c_int, null_mut(), &mut pair.transmit, none);
            self.library.check("fi_tx_context", answer)?;
            let answer = ((*ops).rx_ctx)(ep, at as c_int, null_mut(), &mut pair.receive, none);
            self.library.check("fi_rx_context", answer)?;
            for (one, direction) in [(pair.transmit, FI_SEND), (pair.receive, FI_RECV)] {
                let one: *mut Fid = one.cast();
                let ops = (*one).ops;
                self.library.check("fi_ep_bind", ((*ops).bind)(one, cq.cast(), direction))?;
                self.library.check("fi_enable", ((*ops).control)(one, FI_ENABLE, null_mut()))?;
            }
        }
        Ok(())
    }

    /// The number of open pairs; 0 if the endpoint is not grouped.
    pub fn open_pairs(&self) -> usize {
        self.pairs.iter().filter(|pair| !pair.transmit.is_null()).count()
    }

    /// The index of the pair of an MPI context. A communicator usually has two successive ones.
    fn pair_number(&self, context: u32) -> usize {
        (context >> 1) as usize % self.pairs.len()
    }

    fn pair(&self, context: u32) -> ContextPair {
        self.pairs[self.pair_number(context)]
    }

    /// Opens the completion queue, with a descriptor to sleep on if the provider has one.
    ///
    /// # Safety
    /// The domain is open.
    unsafe fn open_queue(&mut self) -> Result<(), LibraryError> {
        let mut answer = 0;
        let is_silent = self.provider.split(';').any(|layer| SILENT_PROVIDERS.contains(&layer));
        let waits: &[_] = if is_silent { &[FI_WAIT_NONE] } else { &[FI_WAIT_FD, FI_WAIT_NONE] };
        for &wait_obj in waits {
            let mut attr = CqAttr {
                size: 0,
                flags: 0,
                format: FI_CQ_FORMAT_TAGGED,
                wait_obj,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: null_mut(),
            };
            let domain = self.domain;
            // SAFETY: the caller has opened the domain; the attributes live during the call.
            answer =
                unsafe { ((*(*domain).ops).cq_open)(domain, &mut attr, &mut self.cq, null_mut()) };
            if answer < 0 {
                continue;
            }
            if wait_obj == FI_WAIT_FD {
                let (cq, mut fd): (*mut Fid, RawFd) = (self.cq.cast(), -1);
                // SAFETY: the queue is open and has FI_WAIT_FD, so FI_GETWAIT writes a descriptor.
                let given = unsafe { ((*(*cq).ops).control)(cq, FI_GETWAIT, (&raw mut fd).cast()) };
                self.wait_fd = (given == 0 && fd >= 0).then_some(fd);
            }
            break;
        }
        self.library.check("fi_cq_open", answer)
    }

    /// The address that peers give to [`Endpoint::insert`].
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// The names of the layers of the provider, joined by `;`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The longest message, in bytes.
    pub fn max_message(&self) -> usize {
        self.max_message
    }

    /// A descriptor that becomes readable when a completion arrives, if the provider has one. The
    /// caller checks [`Endpoint::may_wait`] before it sleeps on the descriptor.
    pub fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the queue, which `self` owns.
        self.wait_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether a sleep on the descriptor misses no completion that has arrived (fi_trywait(3)).
    pub fn may_wait(&mut self) -> bool {
        let mut fids: [*mut Fid; 1] = [self.cq.cast()];
        // SAFETY: both objects are open, and the list has one element.
        unsafe { ((*(*self.fabric).ops).trywait)(self.fabric, fids.as_mut_ptr(), 1) == 0 }
    }

    /// Adds a peer by its [`Endpoint::address`].
    pub fn insert(&mut self, address: &[u8]) -> Result<PeerAddress, EndpointError> {
        // Providers read as many bytes as their own addresses have, so short input is padded.
        let mut whole = [0u8; ADDRESS_BYTES];
        let len = address.len().min(ADDRESS_BYTES);
        whole[..len].copy_from_slice(&address[..len]);
        let mut found = FI_ADDR_UNSPEC;
        let av = self.av;
        // SAFETY: the address table is open; `whole` is longer than any address of a provider.
        let inserted = unsafe {
            ((*(*av).ops).insert)(av, whole.as_ptr().cast(), 1, &mut found, 0, null_mut())
        };
        if inserted == 1 && len > 0 {
            return Ok(PeerAddress(found));
        }
        Err(self.error("fi_av_insert", if inserted < 0 { inserted as ssize_t } else { -22 }))
    }

    fn error(&self, call: &'static str, answer: ssize_t) -> EndpointError {
        let why = self.library.text_of(answer as c_int);
        EndpointError { provider: self.provider.clone(), call, why }
    }
}

/// The operation that has claimed a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claimed(u32);
