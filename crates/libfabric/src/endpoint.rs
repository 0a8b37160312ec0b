//! An endpoint: it sends and receives tagged messages.

use crate::declarations::{
    Av, AvAttr, Cq, CqAttr, CqEntry, CqError, Domain, Ep, FI_ADDR_UNSPEC, FI_AV_TABLE, FI_AV_UNSPEC,
    FI_CLAIM, FI_CQ_FORMAT_TAGGED, FI_EAGAIN, FI_EAVAIL, FI_ECANCELED, FI_ENABLE, FI_ENOMSG, FI_ETRUNC,
    FI_GETWAIT, FI_PEEK, FI_RECV, FI_SEND, FI_WAIT_FD, FI_WAIT_NONE, Fid, FidFabric, TaggedMessage,
};
use crate::library::{Library, LibraryError, Provider};
use libc::{c_int, c_void, iovec, ssize_t};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ffi::CStr;
use std::fmt;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The longest address of an endpoint, bytes.
const ADDRESS: usize = 256;
/// Completions that are read at a time.
const ENTRIES: usize = 32;

/// A peer, as an endpoint knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress(u64);

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
    },
    /// There is no such message.
    Nothing,
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
}

/// What libfabric is given for an operation. It stands first, for libfabric gives its address back.
#[repr(C)]
struct Operation<T> {
    /// The provider's, in the modes FI_CONTEXT and FI_CONTEXT2.
    context: [u64; 8],
    at: u32,
    is_live: bool,
    /// Whether it claims the message that it finds, and stays for that.
    claims: bool,
    /// Whether anybody wants to hear of it.
    is_wanted: bool,
    token: Option<T>,
    memory: OperationMemory,
}

/// An endpoint of a provider, with a queue of completions and the addresses of its peers. One thread at a time uses it.
pub struct Endpoint<T> {
    library: Arc<Library>,
    provider: String,
    max_message: usize,
    fabric: *mut FidFabric,
    domain: *mut Domain,
    av: *mut Av,
    cq: *mut Cq,
    ep: *mut Ep,
    address: Box<[u8]>,
    wait_fd: Option<RawFd>,
    /// Their places in memory stay: the provider has their addresses.
    #[allow(clippy::vec_box)]
    operations: Vec<Box<Operation<T>>>,
    free: Vec<u32>,
}

// SAFETY: the objects are this value's alone, and libfabric binds none of them to a thread (FI_THREAD_DOMAIN: one at a time).
unsafe impl<T: Send> Send for Endpoint<T> {}

impl<T> fmt::Debug for Endpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl<T> Drop for Endpoint<T> {
    fn drop(&mut self) {
        // What is under way ends with the endpoint; its memory stays until that is closed.
        let fids: [*mut Fid; 5] =
            [self.ep.cast(), self.cq.cast(), self.av.cast(), self.domain.cast(), self.fabric.cast()];
        for fid in fids {
            if !fid.is_null() {
                // SAFETY: an object of the library's that was opened here and is closed once, before those that it was made from.
                unsafe { ((*(*fid).ops).close)(fid) };
            }
        }
    }
}

impl<T: Copy> Endpoint<T> {
    /// Opens an endpoint of a provider.
    ///
    /// # Errors
    /// What libfabric says.
    pub fn open(provider: &Provider) -> Result<Endpoint<T>, LibraryError> {
        let library = provider.library.clone();
        let mut it = Endpoint {
            library: library.clone(),
            provider: provider.name.clone(),
            max_message: provider.max_message,
            fabric: null_mut(),
            domain: null_mut(),
            av: null_mut(),
            cq: null_mut(),
            ep: null_mut(),
            address: Box::default(),
            wait_fd: None,
            operations: Vec::new(),
            free: Vec::new(),
        };
        let info = provider.info;
        // SAFETY: a whole description of the library's; the objects are made in libfabric's order, each from one that is open, and
        // closed by `drop` also if a later one fails.
        unsafe {
            let none = null_mut();
            library
                .check("fi_fabric", (library.symbols.fabric)((*info).fabric_attr, &mut it.fabric, none))?;
            let fabric = it.fabric;
            library.check("fi_domain", ((*(*fabric).ops).domain)(fabric, info, &mut it.domain, none))?;
            let domain = it.domain;
            let kind = match (*(*info).domain_attr).av_type {
                FI_AV_UNSPEC => FI_AV_TABLE,
                kind => kind,
            };
            let mut av = AvAttr {
                kind,
                rx_ctx_bits: 0,
                count: 0,
                ep_per_node: 0,
                name: null(),
                map_addr: null_mut(),
                flags: 0,
            };
            library.check("fi_av_open", ((*(*domain).ops).av_open)(domain, &mut av, &mut it.av, none))?;
            it.open_queue()?;
            library.check("fi_endpoint", ((*(*domain).ops).endpoint)(domain, info, &mut it.ep, none))?;
            let ep: *mut Fid = it.ep.cast();
            let ops = (*ep).ops;
            library.check("fi_ep_bind", ((*ops).bind)(ep, it.cq.cast(), FI_SEND | FI_RECV))?;
            library.check("fi_ep_bind", ((*ops).bind)(ep, it.av.cast(), 0))?;
            library.check("fi_enable", ((*ops).control)(ep, FI_ENABLE, null_mut()))?;
            let (mut address, mut len) = ([0u8; ADDRESS], ADDRESS);
            let getname = (*(*it.ep).cm).getname;
            library.check("fi_getname", getname(ep, address.as_mut_ptr().cast(), &mut len))?;
            it.address = address[..len.min(ADDRESS)].into();
        }
        Ok(it)
    }

    /// Opens the queue of completions, with a descriptor to sleep on if the provider has one.
    ///
    /// # Safety
    /// The domain is open.
    unsafe fn open_queue(&mut self) -> Result<(), LibraryError> {
        let mut answer = 0;
        for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
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

    /// A place for an operation.
    fn operation(&mut self, token: T, memory: OperationMemory) -> &mut Operation<T> {
        let at = self.free.pop().unwrap_or_else(|| {
            let at = self.operations.len() as u32;
            let new = Operation {
                context: [0; 8],
                at,
                is_live: false,
                claims: false,
                is_wanted: true,
                token: None,
                memory: OperationMemory::None,
            };
            self.operations.push(Box::new(new));
            at
        });
        let operation = &mut *self.operations[at as usize];
        (operation.is_live, operation.is_wanted, operation.claims) = (true, true, false);
        (operation.token, operation.memory) = (Some(token), memory);
        operation
    }

    fn give_back(&mut self, at: u32) -> OperationMemory {
        let operation = &mut self.operations[at as usize];
        operation.is_live = false;
        self.free.push(at);
        std::mem::replace(&mut operation.memory, OperationMemory::None)
    }

    /// What a call for the operation `at` has answered.
    fn posted(&mut self, call: &'static str, at: u32, answer: ssize_t) -> Result<Admission, EndpointError> {
        match answer {
            0 => Ok(Admission::Yes),
            again if again == -FI_EAGAIN => {
                self.give_back(at);
                Ok(Admission::NoRoom)
            }
            other => {
                self.give_back(at);
                Err(self.error(call, other))
            }
        }
    }

    /// Sends all of a buffer, with `data` beside it if there are some.
    ///
    /// # Errors
    /// What the provider says.
    pub fn send(
        &mut self,
        to: PeerAddress,
        tag: u64,
        data: Option<u64>,
        buffer: &UserBuf,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let memory = match buffer.as_contiguous() {
            Some(_) => OperationMemory::User(buffer.clone()),
            None => {
                let mut copy = vec![0; buffer.packed_len()].into_boxed_slice();
                buffer.pack(0, BytesMut::from(&mut copy[..]));
                OperationMemory::Copy(copy)
            }
        };
        let ep = self.ep;
        let operation = self.operation(token, memory);
        let (at, context) = (operation.at, (&raw mut operation.context).cast::<c_void>());
        let (start, len) = match &operation.memory {
            OperationMemory::Copy(copy) => (copy.as_ptr(), copy.len()),
            _ => buffer.as_contiguous().map_or((null(), 0), |bytes| (bytes.as_ptr(), bytes.len())),
        };
        // SAFETY: the endpoint is open. The memory is the operation's until its completion, and so is the context; the user's is
        // readable as long as the buffer that it holds says.
        let answer = unsafe {
            let ops = (*ep).tagged;
            match data {
                Some(data) => ((*ops).senddata)(ep, start.cast(), len, null_mut(), data, to.0, tag, context),
                None => ((*ops).send)(ep, start.cast(), len, null_mut(), to.0, tag, context),
            }
        };
        self.posted("fi_tsend", at, answer)
    }

    /// The memory that a message for `buffer` comes into.
    fn room(buffer: &UserBuf) -> OperationMemory {
        match buffer.as_contiguous_mut() {
            Some(bytes) if !bytes.is_empty() => OperationMemory::User(buffer.clone()),
            // Some providers do not say that a message was cut if there is no room at all.
            _ => OperationMemory::For(vec![0; buffer.packed_len().max(1)].into_boxed_slice(), buffer.clone()),
        }
    }

    /// Where a message comes into.
    fn place(memory: &mut OperationMemory) -> (*mut c_void, usize) {
        match memory {
            OperationMemory::User(buffer) => buffer
                .as_contiguous_mut()
                .map_or((null_mut(), 0), |mut bytes| (bytes.as_mut_ptr().cast(), bytes.len())),
            OperationMemory::For(own, _) => (own.as_mut_ptr().cast(), own.len()),
            OperationMemory::None | OperationMemory::Copy(_) => (null_mut(), 0),
        }
    }

    /// Receives a message with a tag that is `tag` but for the bits of `ignore`, from one peer or from anybody.
    ///
    /// # Errors
    /// What the provider says.
    pub fn receive(
        &mut self,
        from: Option<PeerAddress>,
        (tag, ignore): (u64, u64),
        buffer: &UserBuf,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let ep = self.ep;
        let operation = self.operation(token, Self::room(buffer));
        let (at, context) = (operation.at, (&raw mut operation.context).cast::<c_void>());
        let (start, len) = Self::place(&mut operation.memory);
        let from = from.map_or(FI_ADDR_UNSPEC, |from| from.0);
        // SAFETY: as for `send`; the user's memory may be written as long as the buffer that the operation holds says.
        let answer =
            unsafe { ((*(*ep).tagged).recv)(ep, start, len, null_mut(), from, tag, ignore, context) };
        self.posted("fi_trecv", at, answer)
    }

    /// Looks for such a message that has come ([`Ending::Came`] or [`Ending::Nothing`]). With `claims` it is kept for
    /// [`Endpoint::receive_claimed`] with the operation that this answers, and for nothing else.
    ///
    /// # Errors
    /// What the provider says.
    pub fn peek(
        &mut self,
        from: Option<PeerAddress>,
        (tag, ignore): (u64, u64),
        claims: bool,
        token: T,
    ) -> Result<(Admission, Claimed), EndpointError> {
        let operation = self.operation(token, OperationMemory::None);
        operation.claims = claims;
        let claimed = Claimed(operation.at);
        let flags = FI_PEEK | if claims { FI_CLAIM } else { 0 };
        let posted = self.receive_message(claimed, from, (tag, ignore), flags)?;
        Ok((posted, claimed))
    }

    /// Receives a message that was claimed.
    ///
    /// # Errors
    /// What the provider says.
    pub fn receive_claimed(
        &mut self,
        claimed: Claimed,
        tag: u64,
        buffer: &UserBuf,
        token: T,
    ) -> Result<Admission, EndpointError> {
        // The provider knows the message by the context of the operation that has claimed it.
        let operation = &mut *self.operations[claimed.0 as usize];
        (operation.is_live, operation.is_wanted, operation.claims) = (true, true, false);
        operation.token = Some(token);
        operation.memory = Self::room(buffer);
        self.receive_message(claimed, None, (tag, 0), FI_CLAIM)
    }

    fn receive_message(
        &mut self,
        Claimed(at): Claimed,
        from: Option<PeerAddress>,
        (tag, ignore): (u64, u64),
        flags: u64,
    ) -> Result<Admission, EndpointError> {
        let ep = self.ep;
        let operation = &mut *self.operations[at as usize];
        let (start, len) = Self::place(&mut operation.memory);
        let piece = iovec { iov_base: start, iov_len: len };
        let message = TaggedMessage {
            iov: &piece,
            desc: null_mut(),
            iov_count: usize::from(len > 0),
            addr: from.map_or(FI_ADDR_UNSPEC, |from| from.0),
            tag,
            ignore,
            context: (&raw mut operation.context).cast(),
            data: 0,
        };
        // SAFETY: as for `receive`; the description is read during the call.
        let answer = unsafe { ((*(*ep).tagged).recvmsg)(ep, &message, flags) };
        // Some say at once that there is none.
        let answer = if answer == -(FI_ENOMSG as ssize_t) { -FI_EAGAIN } else { answer };
        self.posted("fi_trecvmsg", at, answer)
    }

    /// Cancels operations by their names; an [`Ended`] says how each ends.
    pub fn cancel(&mut self, is_it: impl Fn(&T) -> bool) {
        let ep: *mut Fid = self.ep.cast();
        let ops = self.ep;
        let live =
            self.operations.iter_mut().filter(|one| one.is_live && one.token.as_ref().is_some_and(&is_it));
        for operation in live {
            // SAFETY: the endpoint is open, and has this context until its completion.
            unsafe { ((*(*ops).ops).cancel)(ep, (&raw mut operation.context).cast()) };
        }
    }

    /// Nobody wants to hear of these operations any more. Whether there are some.
    pub fn forget(&mut self, is_it: impl Fn(&T) -> bool) -> bool {
        let mut found = false;
        for operation in
            self.operations.iter_mut().filter(|one| one.is_live && one.token.as_ref().is_some_and(&is_it))
        {
            operation.is_wanted = false;
            found = true;
        }
        found
    }

    /// Whether one of these operations goes on, and uses its memory, wanted or not.
    pub fn is_live(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.operations.iter().any(|one| one.is_live && one.token.as_ref().is_some_and(&is_it))
    }

    /// How many operations go on.
    pub fn live(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    /// Reads completions, up to about `most`, and lets the provider make progress.
    ///
    /// # Errors
    /// If the queue itself is of no use any more.
    pub fn read(&mut self, most: usize, events: &mut Vec<Ended<T>>) -> Result<(), EndpointError> {
        let empty = CqEntry { op_context: null_mut(), flags: 0, len: 0, buf: null_mut(), data: 0, tag: 0 };
        let mut entries = [empty; ENTRIES];
        let mut left = most.max(1);
        while left > 0 {
            let cq = self.cq;
            let wanted = left.min(ENTRIES);
            // SAFETY: the queue is open and has this format; there is room for so many entries.
            let came = unsafe { ((*(*cq).ops).read)(cq, entries.as_mut_ptr().cast(), wanted) };
            match came {
                came if came > 0 => {
                    for entry in &entries[..came as usize] {
                        self.complete(entry, events);
                    }
                    left -= (came as usize).min(left);
                    if (came as usize) < wanted {
                        return Ok(());
                    }
                }
                none if none == 0 || none == -FI_EAGAIN => return Ok(()),
                error if error == -FI_EAVAIL => {
                    self.read_error(events)?;
                    left -= 1;
                }
                error => return Err(self.error("fi_cq_read", error)),
            }
        }
        Ok(())
    }

    /// The operation whose context libfabric has given back.
    fn of_context(&self, context: *mut c_void) -> Option<u32> {
        if context.is_null() {
            return None;
        }
        // SAFETY: libfabric gives back what it was given: the beginning of an operation of this endpoint, which stays in its place.
        let at = unsafe { (*context.cast::<Operation<T>>()).at };
        let operation = self.operations.get(at as usize)?;
        ((&raw const operation.context).cast::<c_void>() == context.cast_const()).then_some(at)
    }

    fn complete(&mut self, entry: &CqEntry, events: &mut Vec<Ended<T>>) {
        let Some(at) = self.of_context(entry.op_context) else { return };
        let is_send = entry.flags & FI_SEND != 0;
        let data = entry.data;
        let outcome = if is_send {
            Ending::Sent
        } else {
            Ending::Came { tag: entry.tag, data, length: entry.len as u64 }
        };
        self.end(at, outcome, entry.len, events);
    }

    fn end(&mut self, at: u32, outcome: Ending, stored: usize, events: &mut Vec<Ended<T>>) {
        let Operation { token, is_wanted, claims, .. } = *self.operations[at as usize];
        if claims && matches!(outcome, Ending::Came { .. }) {
            self.operations[at as usize].is_live = false;
            events.extend(token.map(|token| Ended { token, outcome }));
            return;
        }
        if let OperationMemory::For(own, buffer) = self.give_back(at)
            && is_wanted
            && matches!(outcome, Ending::Came { .. })
        {
            let stored = stored.min(buffer.packed_len());
            buffer.unpack(0, Bytes::from(&own[..stored]));
        }
        if is_wanted {
            events.extend(token.map(|token| Ended { token, outcome }));
        }
    }

    fn read_error(&mut self, events: &mut Vec<Ended<T>>) -> Result<(), EndpointError> {
        let mut error = CqError {
            op_context: null_mut(),
            flags: 0,
            len: 0,
            buf: null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: null_mut(),
            err_data_size: 0,
            later: [0; 2],
        };
        let cq = self.cq;
        // SAFETY: the queue is open; there is room for the entry of any version.
        let read = unsafe { ((*(*cq).ops).readerr)(cq, &mut error, 0) };
        if read == 0 || read == -FI_EAGAIN {
            return Ok(());
        }
        if read < 0 {
            return Err(self.error("fi_cq_readerr", read));
        }
        let Some(at) = self.of_context(error.op_context) else { return Ok(()) };
        let (data, mut stored) = (error.data, error.len);
        // Some providers give the number with a sign.
        let outcome = match error.err.abs() {
            FI_ECANCELED => Ending::Cancelled,
            FI_ENOMSG => Ending::Nothing,
            // Some providers leave the length of the message 0, or that of what has come.
            FI_ETRUNC => {
                stored = Self::place(&mut self.operations[at as usize].memory).1;
                let length = (error.len + error.olen).max(stored + 1) as u64;
                Ending::Came { tag: error.tag, data, length }
            }
            code => {
                let mut text = [0; 256];
                // SAFETY: the queue is open, and has not been read since; the text ends with a zero within its room.
                let said = unsafe {
                    let strerror = (*(*cq).ops).strerror;
                    let said = strerror(cq, error.prov_errno, error.err_data, text.as_mut_ptr(), text.len());
                    if said.is_null() {
                        String::new()
                    } else {
                        CStr::from_ptr(said).to_string_lossy().into_owned()
                    }
                };
                Ending::Failed(format!("{} ({said})", self.library.text_of(code)))
            }
        };
        self.end(at, outcome, stored, events);
        Ok(())
    }
}

/// The operation that has claimed a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claimed(u32);
