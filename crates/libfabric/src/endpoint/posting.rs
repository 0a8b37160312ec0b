//! Starts, cancels and forgets operations.

use super::{
    Admission, Claimed, ContextPair, Endpoint, EndpointError, INLINE_BYTES, Operation,
    OperationMemory, PeerAddress, SHORT,
};
use crate::declarations::{
    Ep, FI_ADDR_UNSPEC, FI_CLAIM, FI_EAGAIN, FI_ENOMSG, FI_PEEK, Fid, TaggedMessage, TaggedOps,
};
use libc::{c_void, iovec, ssize_t};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ptr::{null, null_mut};

/// The context, tag and remote CQ data of a sent message.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// The MPI context, which selects the pair of a grouped endpoint.
    pub context: u32,
    pub tag: u64,
    pub data: Option<u64>,
}

/// A message of [`Endpoint::send_short`], for [`Endpoint::read_after`].
#[derive(Clone, Copy, Debug)]
pub struct ShortSend(pub(super) u32);

/// The messages that a receive or a peek matches.
#[derive(Clone, Copy, Debug)]
pub struct TagFilter {
    pub context: u32,
    /// `None` matches each peer.
    pub from: Option<PeerAddress>,
    pub tag: u64,
    pub ignore: u64,
}

impl<T: Copy, const GROUPED: bool> Endpoint<T, GROUPED> {
    /// The transmit context of an MPI context, and the address of the peer's receive context.
    #[inline(always)]
    pub(super) fn transmit_route(
        &mut self,
        to: PeerAddress,
        context: u32,
    ) -> Result<(*mut Ep, u64), EndpointError> {
        if !GROUPED {
            return Ok((self.ep, to.0));
        }
        Ok((self.opened_pair(context)?.transmit, self.pair_address(to, context)))
    }

    fn opened_pair(&mut self, context: u32) -> Result<ContextPair, EndpointError> {
        match self.open_pair(context) {
            Ok(()) => Ok(self.pair(context)),
            Err(error) => Err(EndpointError {
                provider: self.provider.clone(),
                call: "a transmit and a receive context",
                why: error.to_string(),
            }),
        }
    }

    /// The address of a peer's receive context (fi_rx_addr(3)).
    fn pair_address(&self, peer: PeerAddress, context: u32) -> u64 {
        match self.pair_bits {
            0 => peer.0,
            bits => (self.pair_number(context) as u64) << (u64::BITS - bits) | peer.0,
        }
    }

    #[inline(always)]
    pub(super) fn receive_endpoint(&mut self, context: u32) -> Result<*mut Ep, EndpointError> {
        if GROUPED { Ok(self.opened_pair(context)?.receive) } else { Ok(self.ep) }
    }

    #[cold]
    #[inline(never)]
    fn new_operation(&mut self) -> u32 {
        let at = self.operations.len() as u32;
        self.operations.push(Box::new(Operation {
            context: [0; 8],
            short: [0; INLINE_BYTES],
            at,
            ep: null_mut(),
            is_live: false,
            claims: false,
            is_wanted: true,
            order: 0,
            filter: (0, 0),
            from: FI_ADDR_UNSPEC,
            token: None,
            memory: OperationMemory::None,
        }));
        at
    }

    /// A free or new slot of `operations`, set up for this operation.
    #[inline]
    pub(super) fn prepare_operation(
        &mut self,
        ep: *mut Ep,
        token: T,
        memory: OperationMemory,
    ) -> &mut Operation<T> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.new_operation(),
        };
        let operation = &mut *self.operations[at as usize];
        (operation.is_live, operation.is_wanted, operation.claims) = (true, true, false);
        operation.ep = ep;
        operation.order = 0;
        operation.token = Some(token);
        // A free operation has `OperationMemory::None`, so the old value needs no drop.
        std::mem::forget(std::mem::replace(&mut operation.memory, memory));
        operation
    }

    pub(super) fn release(&mut self, at: u32) -> OperationMemory {
        let operation = &mut self.operations[at as usize];
        operation.is_live = false;
        self.free.push(at);
        std::mem::replace(&mut operation.memory, OperationMemory::None)
    }

    /// Converts the answer of a call, and frees the operation unless it has started.
    pub(super) fn admission(
        &mut self,
        call: &'static str,
        at: u32,
        answer: ssize_t,
    ) -> Result<Admission, EndpointError> {
        match answer {
            0 => Ok(Admission::Yes),
            again if again == -FI_EAGAIN => {
                self.release(at);
                Ok(Admission::NoRoom)
            }
            other => {
                self.release(at);
                Err(self.error(call, other))
            }
        }
    }

    /// Posts a tagged send.
    ///
    /// # Safety
    /// The memory is readable, and `operation` does not move, until the operation ends.
    #[inline(always)]
    unsafe fn post(
        &self,
        (ep, to): (*mut Ep, u64),
        label: Label,
        (start, len): (*const u8, usize),
        operation: *mut c_void,
    ) -> ssize_t {
        // SAFETY: the endpoint is open; the rest is the contract of this function.
        unsafe {
            let ops: *const TaggedOps = (*ep).tagged;
            let (start, none) = (start.cast(), null_mut());
            match label.data {
                Some(data) => {
                    ((*ops).senddata)(ep, start, len, none, data, to, label.tag, operation)
                }
                None => ((*ops).send)(ep, start, len, none, to, label.tag, operation),
            }
        }
    }

    /// Sends a copy of a message of at most [`Endpoint::SHORT`] bytes. [`Endpoint::read_after`]
    /// checks its completion. Returns `None`, without effect, if the provider has no room now.
    #[inline(always)]
    pub fn send_short(
        &mut self,
        to: PeerAddress,
        label: Label,
        bytes: Bytes<'_>,
        token: T,
    ) -> Result<Option<ShortSend>, EndpointError> {
        let route = self.transmit_route(to, label.context)?;
        let operation = self.prepare_operation(route.0, token, OperationMemory::None);
        let len = bytes.len().min(SHORT);
        bytes.slice(0, len).copy_to(BytesMut::from(&mut operation.short[..len]));
        let (at, short) = (operation.at, operation.short.as_ptr());
        let context = (&raw mut *operation).cast::<c_void>();
        // SAFETY: the operation holds the message, and does not move.
        let answer = unsafe { self.post(route, label, (short, len), context) };
        if answer == 0 {
            return Ok(Some(ShortSend(at)));
        }
        Ok(match self.admission("fi_tsend", at, answer)? {
            Admission::Yes => Some(ShortSend(at)),
            Admission::NoRoom => None,
        })
    }

    /// The longest message of [`Endpoint::send_short`], in bytes.
    pub const SHORT: usize = SHORT;

    /// Sends a buffer.
    #[inline(always)]
    pub fn send(
        &mut self,
        to: PeerAddress,
        label: Label,
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
        let route = self.transmit_route(to, label.context)?;
        let operation = self.prepare_operation(route.0, token, memory);
        let (at, context) = (operation.at, (&raw mut *operation).cast::<c_void>());
        let piece = match &operation.memory {
            OperationMemory::Copy(copy) => (copy.as_ptr(), copy.len()),
            _ => buffer.as_contiguous().map_or((null(), 0), |bytes| (bytes.as_ptr(), bytes.len())),
        };
        // SAFETY: until completion the operation owns the copy, or holds the readable `UserBuf`.
        let answer = unsafe { self.post(route, label, piece, context) };
        self.admission("fi_tsend", at, answer)
    }

    fn memory_for(buffer: &UserBuf) -> OperationMemory {
        match buffer.as_contiguous_mut() {
            Some(bytes) if !bytes.is_empty() => OperationMemory::User(buffer.clone()),
            // Some providers do not report the truncation of a message into 0 bytes.
            _ => OperationMemory::Unpacked(
                vec![0; buffer.packed_len().max(1)].into_boxed_slice(),
                buffer.clone(),
            ),
        }
    }

    pub(super) fn receive_memory(memory: &mut OperationMemory) -> (*mut c_void, usize) {
        match memory {
            OperationMemory::User(buffer) => buffer
                .as_contiguous_mut()
                .map_or((null_mut(), 0), |mut bytes| (bytes.as_mut_ptr().cast(), bytes.len())),
            OperationMemory::Unpacked(own, _) | OperationMemory::Room(own) => {
                (own.as_mut_ptr().cast(), own.len())
            }
            OperationMemory::None | OperationMemory::Copy(_) => (null_mut(), 0),
        }
    }

    /// Posts a receive.
    #[inline(always)]
    pub fn receive(
        &mut self,
        wanted: TagFilter,
        buffer: &UserBuf,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let ep = self.receive_endpoint(wanted.context)?;
        let from = self.source_address(wanted);
        let order = self.next_order();
        let operation = self.prepare_operation(ep, token, Self::memory_for(buffer));
        let (at, context) = (operation.at, (&raw mut *operation).cast::<c_void>());
        let (start, len) = Self::receive_memory(&mut operation.memory);
        let TagFilter { tag, ignore, .. } = wanted;
        (operation.order, operation.filter, operation.from) = (order, (tag, ignore), from);
        // SAFETY: the endpoint is open; the operation does not move, and owns its memory or holds
        // the `UserBuf`, whose memory stays writable, until its completion.
        let answer = unsafe {
            ((*(*ep).tagged).recv)(ep, start, len, null_mut(), from, tag, ignore, context)
        };
        self.admission("fi_trecv", at, answer)
    }

    fn next_order(&mut self) -> u64 {
        self.receives += 1;
        self.receives
    }

    /// The numbers of the active receives before `order` that match this tag and peer (`None`: a
    /// peer without a known address). A message goes to the first receive that matches. If receive
    /// `order` has got such a message, each earlier receive therefore has a message that is
    /// still arriving.
    pub fn receives_before(
        &self,
        order: u64,
        tag: u64,
        from: Option<PeerAddress>,
        context: u32,
    ) -> Vec<u64> {
        let from = from.map(|from| if GROUPED { self.pair_address(from, context) } else { from.0 });
        let takes = |one: &&Operation<T>| {
            let (wanted, ignored) = one.filter;
            let is_receive =
                matches!(one.memory, OperationMemory::User(_) | OperationMemory::Unpacked(..));
            is_receive
                && one.is_live
                && (1..order).contains(&one.order)
                && (tag ^ wanted) & !ignored == 0
                && (one.from == FI_ADDR_UNSPEC || Some(one.from) == from)
        };
        self.operations.iter().map(|one| &**one).filter(takes).map(|one| one.order).collect()
    }

    /// Whether the receive with this number in posting order is active.
    pub fn is_receiving(&self, order: u64) -> bool {
        self.operations.iter().any(|one| one.is_live && one.order == order)
    }

    /// Sets the tag bits of the messages whose buffers are kept for [`Endpoint::take_kept`].
    pub fn keep_buffers(&mut self, bits: u64) {
        self.kept_bits = bits;
    }

    /// Takes the buffer of an ended receive, by its number, after [`Endpoint::keep_buffers`].
    pub fn take_kept(&mut self, order: u64) -> Option<UserBuf> {
        let at = self.kept.iter().position(|(of, _)| *of == order)?;
        Some(self.kept.swap_remove(at).1)
    }

    #[inline]
    fn source_address(&self, TagFilter { context, from, .. }: TagFilter) -> u64 {
        match from {
            Some(from) if GROUPED => self.pair_address(from, context),
            Some(from) => from.0,
            None => FI_ADDR_UNSPEC,
        }
    }

    /// Searches for an arrived message. Ends with [`Ending::Came`](super::Ending::Came) or
    /// [`Ending::Nothing`](super::Ending::Nothing). With `claims` only
    /// [`Endpoint::receive_claimed`] with the returned [`Claimed`] can receive the message.
    pub fn peek(
        &mut self,
        wanted: TagFilter,
        claims: bool,
        token: T,
    ) -> Result<(Admission, Claimed), EndpointError> {
        let ep = self.receive_endpoint(wanted.context)?;
        let order = self.next_order();
        let operation = self.prepare_operation(ep, token, OperationMemory::None);
        (operation.order, operation.claims) = (order, claims);
        let claimed = Claimed(operation.at);
        let flags = FI_PEEK | if claims { FI_CLAIM } else { 0 };
        let answer = self.receive_message(claimed, wanted, flags);
        // Some providers return FI_ENOMSG from the call, not as a completion.
        let answer = if answer == -(FI_ENOMSG as ssize_t) { -FI_EAGAIN } else { answer };
        Ok((self.admission("fi_trecvmsg", claimed.0, answer)?, claimed))
    }

    /// Receives a claimed message.
    pub fn receive_claimed(
        &mut self,
        claimed: Claimed,
        (context, tag): (u32, u64),
        buffer: &UserBuf,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let kept_bits = self.kept_bits;
        // The provider finds the message by the context of the operation that has claimed it.
        let operation = &mut *self.operations[claimed.0 as usize];
        (operation.is_live, operation.is_wanted, operation.claims) = (true, true, false);
        operation.token = Some(token);
        // For `receives_before`: this tag without `kept_bits`, from any source.
        (operation.filter, operation.from) = ((tag, kept_bits), FI_ADDR_UNSPEC);
        operation.memory = Self::memory_for(buffer);
        let wanted = TagFilter { context, from: None, tag, ignore: 0 };
        let answer = self.receive_message(claimed, wanted, FI_CLAIM);
        if answer == -FI_EAGAIN {
            // The claim stays.
            let operation = &mut *self.operations[claimed.0 as usize];
            (operation.is_live, operation.claims, operation.memory) =
                (false, true, OperationMemory::None);
            return Ok(Admission::NoRoom);
        }
        self.admission("fi_trecvmsg", claimed.0, answer)
    }

    /// Posts a receive with flags for an operation that exists, and returns the answer.
    fn receive_message(&mut self, Claimed(at): Claimed, wanted: TagFilter, flags: u64) -> ssize_t {
        let addr = self.source_address(wanted);
        let operation = &mut *self.operations[at as usize];
        let ep = operation.ep;
        let (start, len) = Self::receive_memory(&mut operation.memory);
        let piece = iovec { iov_base: start, iov_len: len };
        let message = TaggedMessage {
            iov: &piece,
            desc: null_mut(),
            iov_count: usize::from(len > 0),
            addr,
            tag: wanted.tag,
            ignore: wanted.ignore,
            context: (&raw mut *operation).cast(),
            data: 0,
        };
        // SAFETY: the endpoint is open; the operation does not move, and owns or holds its memory
        // until its completion. libfabric reads `message` and `piece` during the call.
        unsafe { ((*(*ep).tagged).recvmsg)(ep, &message, flags) }
    }

    /// Cancels the operations whose tokens fit; an [`Ended`](super::Ended) reports the end of each.
    pub fn cancel(&mut self, fits: impl Fn(&T) -> bool) {
        let live = self
            .operations
            .iter_mut()
            .filter(|one| one.is_live && one.token.as_ref().is_some_and(&fits));
        for operation in live {
            let ep = operation.ep;
            let fid: *mut Fid = ep.cast();
            // SAFETY: the endpoint is open, and the operation does not move until its completion.
            unsafe { ((*(*ep).ops).cancel)(fid, (&raw mut **operation).cast()) };
        }
    }

    /// Suppresses the [`Ended`](super::Ended) of the active operations whose tokens fit, except
    /// [`Ending::Unwanted`](super::Ending::Unwanted). Returns whether there are such operations.
    pub fn forget(&mut self, fits: impl Fn(&T) -> bool) -> bool {
        let mut found = false;
        for operation in self
            .operations
            .iter_mut()
            .filter(|one| one.is_live && one.token.as_ref().is_some_and(&fits))
        {
            operation.is_wanted = false;
            found = true;
        }
        found
    }

    /// Whether an operation whose token fits is active and uses its memory, forgotten or not.
    pub fn is_live(&self, fits: impl Fn(&T) -> bool) -> bool {
        self.operations.iter().any(|one| one.is_live && one.token.as_ref().is_some_and(&fits))
    }
}
