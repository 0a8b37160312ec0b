//! An endpoint: it sends and receives tagged messages, and *frames*: messages without a tag, each of which comes into one of the rooms
//! that the receiver has posted for any sender.
//!
//! A *grouped* one is a scalable endpoint (fi_scalable_ep(3)): it has pairs of a transmit and a receive context, opened when a context of the
//! caller's first uses them, so that each of those has a pair to itself as long as the provider has some.

mod completions;
mod frames;
mod posting;

pub use frames::{FrameBody, FrameRoom};
pub use posting::{Label, ShortSend, TagFilter};

use crate::declarations::{
    Av, AvAttr, Cq, CqAttr, CqEntry, Domain, Ep, FI_ADDR_UNSPEC, FI_AV_TABLE, FI_AV_UNSPEC,
    FI_CQ_FORMAT_TAGGED, FI_ENABLE, FI_GETWAIT, FI_RECV, FI_SEND, FI_WAIT_FD, FI_WAIT_NONE, Fid, FidFabric,
};
use crate::library::{Library, Provider};
use libc::{c_int, ssize_t};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::foreign::{LibraryError, keep_signals};
use std::fmt;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The longest address of an endpoint, bytes.
const ADDRESS: usize = 256;
/// Providers that give a descriptor to sleep on, and do not raise it when another process has sent something (`shm` of 1.17).
const SILENT: [&str; 2] = ["shm", "sm2"];

/// Pairs of contexts that an endpoint has at most; a provider without a limit says a great number.
const MOST_PAIRS: usize = 1 << 16;
/// Bytes of a message that an operation keeps by itself.
const KEPT: usize = 128;
/// The longest message of [`Endpoint::send_short`], bytes.
const SHORT: usize = 64;
const _: () = assert!(SHORT <= KEPT);

/// A peer, as an endpoint knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress(u64);

impl PeerAddress {
    /// That of no peer.
    pub const NOWHERE: PeerAddress = PeerAddress(FI_ADDR_UNSPEC);
}

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider {provider}: {call} says: {why}")]
pub struct EndpointError {
    /// The provider.
    pub provider: String,
    /// The call.
    pub call: &'static str,
    /// What it said.
    pub why: String,
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It was taken; an [`Ended`] says how it ends.
    Yes,
    /// There is no room now, and nothing happened.
    NoRoom,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The message is gone.
    Sent,
    /// A message has come, or was found: of `length` bytes, with this tag and the data beside it.
    Came {
        /// The tag of the message.
        tag: u64,
        /// What travelled beside it; nothing sensible if nothing did.
        data: u64,
        /// Its length, bytes; the buffer has as much of it as fits.
        length: u64,
        /// The place of the operation among all receives, in the order in which they were posted.
        order: u64,
    },
    /// There is no such message.
    Nothing,
    /// A frame has come into this room, of `length` bytes, which may be more than the room has.
    Frame {
        /// Where it lies until the room is posted again.
        room: FrameRoom,
        /// Its length, bytes.
        length: usize,
    },
    /// The receive for a frame has failed.
    NoFrame {
        /// Its room, which can be posted again.
        room: FrameRoom,
        /// What the provider says, for a person.
        why: String,
    },
    /// A message has come for a receive that was forgotten, whose tag has bits for which buffers are kept
    /// ([`Endpoint::keep_buffers`]).
    Unwanted {
        /// Its tag.
        tag: u64,
        /// The remote CQ data of it.
        data: u64,
        /// The place of the receive.
        order: u64,
    },
    /// It was cancelled.
    Cancelled,
    /// It failed; the text is for a person.
    Failed(String),
}

/// An operation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended<T> {
    /// The caller's name for it.
    pub token: T,
    /// How it ended.
    pub outcome: Ending,
}

/// Whose memory an operation uses.
enum OperationMemory {
    None,
    /// The user's, in one piece.
    User(UserBuf),
    /// Its own, of a message that leaves.
    Copy(Box<[u8]>),
    /// Its own, of a message that comes, which is for this buffer.
    For(Box<[u8]>, UserBuf),
    /// Its own, for frames that come, one after the other.
    Room(Box<[u8]>),
}

/// What libfabric is given for an operation. It stands first, for libfabric gives its address back.
#[repr(C)]
struct Operation<T> {
    /// The provider's, in the modes FI_CONTEXT and FI_CONTEXT2.
    context: [u64; 8],
    /// The message if it is a short one ([`Endpoint::send_short`]), or the head of a frame.
    short: [u8; KEPT],
    at: u32,
    /// Where it was posted.
    ep: *mut Ep,
    is_live: bool,
    /// Whether it claims the message that it finds, and stays for that.
    claims: bool,
    /// Whether anybody wants to hear of it.
    is_wanted: bool,
    /// Of a receive: its place among all, and which messages it takes.
    order: u64,
    filter: (u64, u64),
    from: u64,
    token: Option<T>,
    memory: OperationMemory,
}

/// A transmit and a receive context of a scalable endpoint.
#[derive(Clone, Copy, Debug)]
struct Pair {
    transmit: *mut Ep,
    receive: *mut Ep,
}

impl Pair {
    const CLOSED: Pair = Pair { transmit: null_mut(), receive: null_mut() };

    /// Closes what of it is open, which is not used any more.
    fn close(&self) {
        for one in [self.transmit, self.receive] {
            close(one.cast());
        }
    }
}

/// Closes an object, if there is one: it was opened here, and is not used any more.
fn close(fid: *mut Fid) {
    if !fid.is_null() {
        // SAFETY: an object of the library's that is open, and is closed once, before those that it was made from.
        unsafe { ((*(*fid).ops).close)(fid) };
    }
}

/// An endpoint of a provider, with a queue of completions and the addresses of its peers. One thread at a time uses it. `GROUPED`: it is
/// a scalable one.
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
    /// Those of a grouped endpoint; a null pointer is one that is not open.
    pairs: Box<[Pair]>,
    /// The bits of an address that name a receive context.
    pair_bits: u32,
    entries: Box<[CqEntry]>,
    address: Box<[u8]>,
    wait_fd: Option<RawFd>,
    /// Their places in memory stay: the provider has their addresses.
    #[allow(clippy::vec_box)]
    operations: Vec<Box<Operation<T>>>,
    free: Vec<u32>,
    /// How many receives were posted.
    receives: u64,
    /// Which bits of a tag say that the buffer into which the message has come is to be kept, and such buffers, by the order of their receives.
    kept_bits: u64,
    kept: Vec<(u64, UserBuf)>,
}

// SAFETY: the objects are this value's alone, and libfabric binds none of them to a thread (FI_THREAD_DOMAIN: one at a time).
unsafe impl<T: Send, const GROUPED: bool> Send for Endpoint<T, GROUPED> {}

impl<T, const GROUPED: bool> fmt::Debug for Endpoint<T, GROUPED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl<T, const GROUPED: bool> Drop for Endpoint<T, GROUPED> {
    fn drop(&mut self) {
        // What is under way ends with the endpoint; its memory stays until that is closed.
        self.pairs.iter().for_each(Pair::close);
        let fids: [*mut Fid; 5] =
            [self.ep.cast(), self.cq.cast(), self.av.cast(), self.domain.cast(), self.fabric.cast()];
        fids.into_iter().for_each(close);
    }
}

impl<T: Copy, const GROUPED: bool> Endpoint<T, GROUPED> {
    /// Opens an endpoint of a provider, of which `completions` are read at a time.
    ///
    /// # Errors
    /// What libfabric says.
    pub fn open(provider: &Provider, completions: usize) -> Result<Endpoint<T, GROUPED>, LibraryError> {
        // A provider starts what it stands on when its first fabric or endpoint is opened.
        keep_signals(|| Endpoint::start(provider, completions))
    }

    fn start(provider: &Provider, completions: usize) -> Result<Endpoint<T, GROUPED>, LibraryError> {
        let library = provider.library.clone();
        let pairs = if GROUPED { provider.contexts.clamp(1, MOST_PAIRS) } else { 1 };
        let pair_bits = pairs.next_power_of_two().ilog2();
        let empty = CqEntry { op_context: null_mut(), flags: 0, len: 0, buf: null_mut(), data: 0, tag: 0 };
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
            pairs: if GROUPED { vec![Pair::CLOSED; pairs].into() } else { Box::default() },
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
        // SAFETY: a whole description of the library's; the objects are made in libfabric's order, each from one that is open, and
        // closed by `drop` also if a later one fails.
        unsafe {
            let none = null_mut();
            library
                .check("fi_fabric", (library.symbols.fi_fabric)((*info).fabric_attr, &mut it.fabric, none))?;
            let fabric = it.fabric;
            library.check("fi_domain", ((*(*fabric).ops).domain)(fabric, info, &mut it.domain, none))?;
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
            library.check("fi_av_open", ((*(*domain).ops).av_open)(domain, &mut av, &mut it.av, none))?;
            it.open_queue()?;
            if GROUPED {
                (*(*info).ep_attr).tx_ctx_cnt = pairs;
                (*(*info).ep_attr).rx_ctx_cnt = pairs;
                let answer = ((*(*domain).ops).scalable_ep)(domain, info, &mut it.ep, none);
                library.check("fi_scalable_ep", answer)?;
            } else {
                library.check("fi_endpoint", ((*(*domain).ops).endpoint)(domain, info, &mut it.ep, none))?;
            }
            let ep: *mut Fid = it.ep.cast();
            let ops = (*ep).ops;
            if !GROUPED {
                library.check("fi_ep_bind", ((*ops).bind)(ep, it.cq.cast(), FI_SEND | FI_RECV))?;
            }
            library.check("fi_ep_bind", ((*ops).bind)(ep, it.av.cast(), 0))?;
            library.check("fi_enable", ((*ops).control)(ep, FI_ENABLE, null_mut()))?;
            let (mut address, mut len) = ([0u8; ADDRESS], ADDRESS);
            let getname = (*(*it.ep).cm).getname;
            library.check("fi_getname", getname(ep, address.as_mut_ptr().cast(), &mut len))?;
            it.address = address[..len.min(ADDRESS)].into();
        }
        Ok(it)
    }

    /// A context of the caller's is there: its pair is opened, so that peers can send to it. Nothing happens where the endpoint is not
    /// grouped.
    ///
    /// # Errors
    /// What libfabric says.
    pub fn open_pair(&mut self, context: u32) -> Result<(), LibraryError> {
        if !GROUPED || !self.pair(context).transmit.is_null() {
            return Ok(());
        }
        let mut pair = Pair::CLOSED;
        let at = self.pair_number(context);
        let opened = self.open_at(at, &mut pair);
        if opened.is_err() {
            pair.close();
            return opened;
        }
        self.pairs[at] = pair;
        Ok(())
    }

    /// Opens the pair with a number, as far as it can be.
    fn open_at(&self, at: usize, pair: &mut Pair) -> Result<(), LibraryError> {
        let (ep, cq, none) = (self.ep, self.cq, null_mut());
        // SAFETY: the endpoint and the queue are open; no attributes are those of the endpoint.
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

    /// How many pairs are open; 0 of an endpoint that is not grouped.
    pub fn open_pairs(&self) -> usize {
        self.pairs.iter().filter(|pair| !pair.transmit.is_null()).count()
    }

    /// The pair of a context. Those of one communicator are mostly two in a row.
    fn pair_number(&self, context: u32) -> usize {
        (context >> 1) as usize % self.pairs.len()
    }

    fn pair(&self, context: u32) -> Pair {
        self.pairs[self.pair_number(context)]
    }

    /// Opens the queue of completions, with a descriptor to sleep on if the provider has one.
    ///
    /// # Safety
    /// The domain is open.
    unsafe fn open_queue(&mut self) -> Result<(), LibraryError> {
        let mut answer = 0;
        let is_silent = self.provider.split(';').any(|layer| SILENT.contains(&layer));
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
            // SAFETY: as the caller says; the attributes live during the call.
            answer = unsafe { ((*(*domain).ops).cq_open)(domain, &mut attr, &mut self.cq, null_mut()) };
            if answer < 0 {
                continue;
            }
            if wait_obj == FI_WAIT_FD {
                let (cq, mut fd): (*mut Fid, RawFd) = (self.cq.cast(), -1);
                // SAFETY: the queue is open; of one with FI_WAIT_FD this gives the descriptor.
                let given = unsafe { ((*(*cq).ops).control)(cq, FI_GETWAIT, (&raw mut fd).cast()) };
                self.wait_fd = (given == 0 && fd >= 0).then_some(fd);
            }
            break;
        }
        self.library.check("fi_cq_open", answer)
    }

    /// Where peers find it ([`Endpoint::insert`]).
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// The name of the provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The longest message, bytes.
    pub fn max_message(&self) -> usize {
        self.max_message
    }

    /// A descriptor that is readable when something has come, if the provider has one. Before a sleep on it [`Endpoint::may_wait`].
    pub fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the queue has it open as long as it is open itself.
        self.wait_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether a sleep on the descriptor does not miss anything that is there already.
    pub fn may_wait(&mut self) -> bool {
        let mut fids: [*mut Fid; 1] = [self.cq.cast()];
        // SAFETY: both objects are open, and the list has one element.
        unsafe { ((*(*self.fabric).ops).trywait)(self.fabric, fids.as_mut_ptr(), 1) == 0 }
    }

    /// Makes a peer known by its address.
    ///
    /// # Errors
    /// If it is no address of this provider's.
    pub fn insert(&mut self, address: &[u8]) -> Result<PeerAddress, EndpointError> {
        // As long as any address: providers look at what theirs has.
        let mut whole = [0u8; ADDRESS];
        let len = address.len().min(ADDRESS);
        whole[..len].copy_from_slice(&address[..len]);
        let mut found = FI_ADDR_UNSPEC;
        let av = self.av;
        // SAFETY: the table of addresses is open; the address is longer than any.
        let inserted =
            unsafe { ((*(*av).ops).insert)(av, whole.as_ptr().cast(), 1, &mut found, 0, null_mut()) };
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
