//! How operations begin, and how they are withdrawn.

use super::{
    Admission, Claimed, Endpoint, EndpointError, KEPT, Operation, OperationMemory, Pair, PeerAddress, SHORT,
};
use crate::declarations::{
    Ep, FI_ADDR_UNSPEC, FI_CLAIM, FI_EAGAIN, FI_ENOMSG, FI_PEEK, Fid, TaggedMessage, TaggedOps,
};
use libc::{c_void, iovec, ssize_t};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ptr::{null, null_mut};

/// How a message is named to the provider.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// The context, which says by which pair it goes.
    pub context: u32,
    /// The bits of its tag.
    pub tag: u64,
    /// Its remote CQ data.
    pub data: Option<u64>,
}

/// A short message that was given to the provider just now.
#[derive(Clone, Copy, Debug)]
pub struct ShortSend(pub(super) u32);

/// Which messages an operation takes.
#[derive(Clone, Copy, Debug)]
pub struct TagFilter {
    /// The context, which says by which pair they come.
    pub context: u32,
    /// From one peer, or from anybody.
    pub from: Option<PeerAddress>,
    /// The tag.
    pub tag: u64,
    /// Bits of it that do not matter.
    pub ignore: u64,
}

impl<T: Copy, const GROUPED: bool> Endpoint<T, GROUPED> {
    /// The transmit context of a context, and by which address its messages reach a peer. The context may be a peer's.
    #[inline(always)]
    pub(super) fn way_to(&mut self, to: PeerAddress, context: u32) -> Result<(*mut Ep, u64), EndpointError> {
        if !GROUPED {
            return Ok((self.ep, to.0));
        }
        Ok((self.opened(context)?.transmit, self.at_pair(to, context)))
    }

    /// The pair of a context, which is opened if it is not.
    fn opened(&mut self, context: u32) -> Result<Pair, EndpointError> {
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
    fn at_pair(&self, peer: PeerAddress, context: u32) -> u64 {
        match self.pair_bits {
            0 => peer.0,
            bits => (self.pair_number(context) as u64) << (u64::BITS - bits) | peer.0,
        }
    }

    #[inline(always)]
    pub(super) fn receiving(&mut self, context: u32) -> Result<*mut Ep, EndpointError> {
        if GROUPED { Ok(self.opened(context)?.receive) } else { Ok(self.ep) }
    }

    /// A new place for an operation.
    #[cold]
    #[inline(never)]
    fn new_operation(&mut self) -> u32 {
        let at = self.operations.len() as u32;
        self.operations.push(Box::new(Operation {
            context: [0; 8],
            short: [0; KEPT],
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

    /// A place for an operation.
    #[inline]
    pub(super) fn operation(&mut self, ep: *mut Ep, token: T, memory: OperationMemory) -> &mut Operation<T> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.new_operation(),
        };
        let operation = &mut *self.operations[at as usize];
        (operation.is_live, operation.is_wanted, operation.claims) = (true, true, false);
        operation.ep = ep;
        operation.order = 0;
        operation.token = Some(token);
        // What is free has none: there is nothing to drop.
        std::mem::forget(std::mem::replace(&mut operation.memory, memory));
        operation
    }

    pub(super) fn give_back(&mut self, at: u32) -> OperationMemory {
        let operation = &mut self.operations[at as usize];
        operation.is_live = false;
        self.free.push(at);
        std::mem::replace(&mut operation.memory, OperationMemory::None)
    }

    /// What a call for the operation `at` has answered.
    pub(super) fn posted(
        &mut self,
        call: &'static str,
        at: u32,
        answer: ssize_t,
    ) -> Result<Admission, EndpointError> {
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

    /// Gives a message to the provider.
    ///
    /// # Safety
    /// The memory is readable until the operation ends, and so is the operation in its place.
    #[inline(always)]
    unsafe fn post(
        &self,
        (ep, to): (*mut Ep, u64),
        label: Label,
        (start, len): (*const u8, usize),
        operation: *mut c_void,
    ) -> ssize_t {
        // SAFETY: the endpoint is open; the rest is as the caller says.
        unsafe {
            let ops: *const TaggedOps = (*ep).tagged;
            let (start, none) = (start.cast(), null_mut());
            match label.data {
                Some(data) => ((*ops).senddata)(ep, start, len, none, data, to, label.tag, operation),
                None => ((*ops).send)(ep, start, len, none, to, label.tag, operation),
            }
        }
    }

    /// Sends a message of at most [`Endpoint::SHORT`] bytes, whose memory is the caller's again at once. It is gone when the operation has
    /// ended, and not before: [`Endpoint::read_after`] checks that. `None`: there is no room now, and nothing happened.
    ///
    /// # Errors
    /// What the provider says.
    #[inline(always)]
    pub fn send_short(
        &mut self,
        to: PeerAddress,
        label: Label,
        bytes: Bytes<'_>,
        token: T,
    ) -> Result<Option<ShortSend>, EndpointError> {
        let way = self.way_to(to, label.context)?;
        let operation = self.operation(way.0, token, OperationMemory::None);
        let len = bytes.len().min(SHORT);
        bytes.slice(0, len).copy_to(BytesMut::from(&mut operation.short[..len]));
        let (at, short) = (operation.at, operation.short.as_ptr());
        let context = (&raw mut *operation).cast::<c_void>();
        // SAFETY: the operation holds the message, and is kept in its place.
        let answer = unsafe { self.post(way, label, (short, len), context) };
        if answer == 0 {
            return Ok(Some(ShortSend(at)));
        }
        Ok(match self.posted("fi_tsend", at, answer)? {
            Admission::Yes => Some(ShortSend(at)),
            Admission::NoRoom => None,
        })
    }

    /// The longest message of [`Endpoint::send_short`], bytes.
    pub const SHORT: usize = SHORT;

    /// Sends all of a buffer.
    ///
    /// # Errors
    /// What the provider says.
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
        let way = self.way_to(to, label.context)?;
        let operation = self.operation(way.0, token, memory);
        let (at, context) = (operation.at, (&raw mut *operation).cast::<c_void>());
        let piece = match &operation.memory {
            OperationMemory::Copy(copy) => (copy.as_ptr(), copy.len()),
            _ => buffer.as_contiguous().map_or((null(), 0), |bytes| (bytes.as_ptr(), bytes.len())),
        };
        // SAFETY: the memory is the operation's until its completion; the user's is readable as long as the buffer that it holds says.
        let answer = unsafe { self.post(way, label, piece, context) };
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
    pub(super) fn place(memory: &mut OperationMemory) -> (*mut c_void, usize) {
        match memory {
            OperationMemory::User(buffer) => buffer
                .as_contiguous_mut()
                .map_or((null_mut(), 0), |mut bytes| (bytes.as_mut_ptr().cast(), bytes.len())),
            OperationMemory::For(own, _) | OperationMemory::Room(own) => (own.as_mut_ptr().cast(), own.len()),
            OperationMemory::None | OperationMemory::Copy(_) => (null_mut(), 0),
        }
    }

    /// Receives a message.
    ///
    /// # Errors
    /// What the provider says.
    #[inline(always)]
    pub fn receive(
        &mut self,
        wanted: TagFilter,
        buffer: &UserBuf,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let ep = self.receiving(wanted.context)?;
        let from = self.source(wanted);
        let order = self.next_order();
        let operation = self.operation(ep, token, Self::room(buffer));
        let (at, context) = (operation.at, (&raw mut *operation).cast::<c_void>());
        let (start, len) = Self::place(&mut operation.memory);
        let TagFilter { tag, ignore, .. } = wanted;
        (operation.order, operation.filter, operation.from) = (order, (tag, ignore), from);
        // SAFETY: as for `send`; the user's memory may be written as long as the buffer that the operation holds says.
        let answer =
            unsafe { ((*(*ep).tagged).recv)(ep, start, len, null_mut(), from, tag, ignore, context) };
        self.posted("fi_trecv", at, answer)
    }

    fn next_order(&mut self) -> u64 {
        self.receives += 1;
        self.receives
    }

    /// The receives before this place that go on and would take a message with such a tag of this peer (`None`: of one whose address is not known): as a message goes to the first one that takes
    /// it, each of these has got an earlier one, which is still coming.
    pub fn receives_before(&self, order: u64, tag: u64, from: Option<PeerAddress>, context: u32) -> Vec<u64> {
        let from = from.map(|from| if GROUPED { self.at_pair(from, context) } else { from.0 });
        let takes = |one: &&Operation<T>| {
            let (wanted, ignored) = one.filter;
            let is_receive = matches!(one.memory, OperationMemory::User(_) | OperationMemory::For(..));
            is_receive
                && one.is_live
                && (1..order).contains(&one.order)
                && (tag ^ wanted) & !ignored == 0
                && (one.from == FI_ADDR_UNSPEC || Some(one.from) == from)
        };
        self.operations.iter().map(|one| &**one).filter(takes).map(|one| one.order).collect()
    }

    /// Whether the receive with this place goes on.
    pub fn is_receiving(&self, order: u64) -> bool {
        self.operations.iter().any(|one| one.is_live && one.order == order)
    }

    /// From now on the buffers into which messages come that have one of these bits in their tags are kept, for [`Endpoint::take_kept`].
    pub fn keep_buffers(&mut self, bits: u64) {
        self.kept_bits = bits;
    }

    /// Takes the buffer of the receive with this place, which has ended with such a message.
    pub fn take_kept(&mut self, order: u64) -> Option<UserBuf> {
        let at = self.kept.iter().position(|(of, _)| *of == order)?;
        Some(self.kept.swap_remove(at).1)
    }

    /// The address of the source that is wanted.
    #[inline]
    fn source(&self, TagFilter { context, from, .. }: TagFilter) -> u64 {
        match from {
            Some(from) if GROUPED => self.at_pair(from, context),
            Some(from) => from.0,
            None => FI_ADDR_UNSPEC,
        }
    }

    /// Looks for such a message that has come ([`Ending::Came`](super::Ending::Came) or [`Ending::Nothing`](super::Ending::Nothing)). With
    /// `claims` it is kept for [`Endpoint::receive_claimed`] with the operation that this answers, and for nothing else.
    ///
    /// # Errors
    /// What the provider says.
    pub fn peek(
        &mut self,
        wanted: TagFilter,
        claims: bool,
        token: T,
    ) -> Result<(Admission, Claimed), EndpointError> {
        let ep = self.receiving(wanted.context)?;
        let order = self.next_order();
        let operation = self.operation(ep, token, OperationMemory::None);
        (operation.order, operation.claims) = (order, claims);
        let claimed = Claimed(operation.at);
        let flags = FI_PEEK | if claims { FI_CLAIM } else { 0 };
        let answer = self.receive_message(claimed, wanted, flags);
        // Some say at once that there is none.
        let answer = if answer == -(FI_ENOMSG as ssize_t) { -FI_EAGAIN } else { answer };
        Ok((self.posted("fi_trecvmsg", claimed.0, answer)?, claimed))
    }

    /// Receives a message that was claimed.
    ///
    /// # Errors
    /// What the provider says.
    pub fn receive_claimed(
        &mut self,
        claimed: Claimed,
        (context, tag): (u32, u64),
        buffer: &UserBuf,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let kept_bits = self.kept_bits;
        // The provider knows the message by the context of the operation that has claimed it.
        let operation = &mut *self.operations[claimed.0 as usize];
        (operation.is_live, operation.is_wanted, operation.claims) = (true, true, false);
        operation.token = Some(token);
        // It is the first to take its message, from any source.
        (operation.filter, operation.from) = ((tag, kept_bits), FI_ADDR_UNSPEC);
        operation.memory = Self::room(buffer);
        let wanted = TagFilter { context, from: None, tag, ignore: 0 };
        let answer = self.receive_message(claimed, wanted, FI_CLAIM);
        if answer == -FI_EAGAIN {
            // It keeps its message.
            let operation = &mut *self.operations[claimed.0 as usize];
            (operation.is_live, operation.claims, operation.memory) = (false, true, OperationMemory::None);
            return Ok(Admission::NoRoom);
        }
        self.posted("fi_trecvmsg", claimed.0, answer)
    }

    /// What the provider says to a receive with such flags, for an operation that is there.
    fn receive_message(&mut self, Claimed(at): Claimed, wanted: TagFilter, flags: u64) -> ssize_t {
        let addr = self.source(wanted);
        let operation = &mut *self.operations[at as usize];
        let ep = operation.ep;
        let (start, len) = Self::place(&mut operation.memory);
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
        // SAFETY: as for `receive`; the description is read during the call.
        unsafe { ((*(*ep).tagged).recvmsg)(ep, &message, flags) }
    }

    /// Cancels operations by their names; an [`Ended`] says how each ends.
    pub fn cancel(&mut self, is_it: impl Fn(&T) -> bool) {
        let live =
            self.operations.iter_mut().filter(|one| one.is_live && one.token.as_ref().is_some_and(&is_it));
        for operation in live {
            let ep = operation.ep;
            let fid: *mut Fid = ep.cast();
            // SAFETY: the endpoint is open, and has this context until its completion.
            unsafe { ((*(*ep).ops).cancel)(fid, (&raw mut **operation).cast()) };
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
}
