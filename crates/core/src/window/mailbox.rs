//! Requests in mailboxes: short contiguous operations on memory of this node that is not mapped.
//!
//! [`oxmpi_shm::mailbox`] has the protocol. The target polls for requests whenever it makes
//! progress. An origin has one request at a target at a time; its further operations go by messages
//! until it has flushed, which keeps the order. An origin that waits for a put or get may withdraw
//! it and copy through the kernel instead, so a target that computes need not make progress.

mod target;

use super::control::BUFFER_BYTES;
use super::message::TargetPlace;
use super::{Accumulate, ControlWords, Service, Target, TargetRoutes};
use oxmpi_engine::{Fault, Lane};
use oxmpi_fabric::{Fabric, Unreachable};
use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::{ReduceOp, Scalar};
use oxmpi_mem::layout::Layout;
use oxmpi_shm::mailbox::{CARRIED_BYTES, CARRIED_WORDS, MailboxRequest};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(super) enum RequestOp {
    Accumulate(Accumulator, FetchOld),
    /// Its data are the new element and the element to compare with.
    Swap,
    Put,
    Get,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchOld {
    Yes,
    No,
}

/// A request for `len` bytes at the offset `at` of the window's memory.
#[derive(Debug)]
pub(super) struct MailboxOperation<'a> {
    pub(super) what: RequestOp,
    pub(super) at: i64,
    pub(super) len: usize,
    pub(super) data: &'a UserBuf,
    pub(super) into: Option<UserBuf>,
}

#[derive(Debug)]
pub(super) struct MailboxRequests {
    sent: Box<[OriginRequests]>,
    seen: Box<[u64]>,
    /// The target whose request uses the buffer of this process.
    has_buffer: Option<u32>,
    is_denied: bool,
}

#[derive(Debug, Default)]
struct OriginRequests {
    number: u64,
    pending: Option<PendingRequest>,
    /// The fault of a completed request, until a flush reports the fault.
    fault: Option<Fault>,
}

#[derive(Debug)]
struct PendingRequest {
    what: RequestOp,
    at: i64,
    len: usize,
    into: Option<UserBuf>,
    /// The data, if the request itself carries them.
    carried: Option<[u8; CARRIED_BYTES]>,
    /// The operands, if the request carries their address.
    operands: Option<UserBuf>,
}

const DONE: u64 = 0;
/// The target does not expose the memory.
const OUTSIDE: u64 = 1;
/// The target cannot read the data, and has changed nothing.
const UNREACHED: u64 = 2;

/// Set if the request carries the addresses of operands and results. The target copies these
/// through the kernel.
const BY_ADDRESS: u64 = 1 << 32;
/// In bytes. Two copies of shorter operands take less time than a copy by the kernel (measured on
/// an AMD EPYC, family 25, model 17).
const BY_ADDRESS_LEAST: usize = 16 << 10;
/// In bytes. Longer operations would block the target's other origins too long.
const BY_ADDRESS_MOST: usize = 1 << 20;

impl RequestOp {
    fn word(self) -> u64 {
        let place = |found: Option<usize>| found.unwrap_or(u8::MAX.into()) as u64;
        match self {
            RequestOp::Accumulate(accumulator, fetch) => {
                let op = place(ReduceOp::ALL.iter().position(|op| *op == accumulator.op()));
                let scalar =
                    place(Scalar::ALL.iter().position(|scalar| *scalar == accumulator.scalar()));
                1 | op << 8 | scalar << 16 | u64::from(fetch == FetchOld::Yes) << 24
            }
            RequestOp::Swap => 2,
            RequestOp::Put => 3,
            RequestOp::Get => 4,
        }
    }

    /// The operation of a word; `None` for words that no process of this library sends.
    fn of(word: u64) -> Option<RequestOp> {
        let part = |shift: u32| usize::from((word >> shift) as u8);
        Some(match word & 0xff {
            1 => {
                let accumulator =
                    Accumulator::new(*ReduceOp::ALL.get(part(8))?, *Scalar::ALL.get(part(16))?)?;
                RequestOp::Accumulate(
                    accumulator,
                    if part(24) == 0 { FetchOld::No } else { FetchOld::Yes },
                )
            }
            2 => RequestOp::Swap,
            3 => RequestOp::Put,
            4 => RequestOp::Get,
            _ => return None,
        })
    }

    fn given(self, len: usize) -> usize {
        match self {
            RequestOp::Accumulate(accumulator, _) if accumulator.op() == ReduceOp::NoOp => 0,
            RequestOp::Accumulate(..) | RequestOp::Put => len,
            RequestOp::Swap => 2 * len,
            RequestOp::Get => 0,
        }
    }

    fn returned(self, len: usize) -> usize {
        match self {
            RequestOp::Accumulate(_, FetchOld::No) | RequestOp::Put => 0,
            RequestOp::Accumulate(_, FetchOld::Yes) | RequestOp::Get | RequestOp::Swap => len,
        }
    }

    fn is_carried(self, len: usize) -> bool {
        self.given(len).max(self.returned(len)) <= CARRIED_BYTES
    }

    fn may_be_withdrawn(self) -> bool {
        matches!(self, RequestOp::Put | RequestOp::Get)
    }
}

fn bytes_of(words: &[u64; CARRIED_WORDS], len: usize) -> [u8; CARRIED_BYTES] {
    let mut bytes = [0; CARRIED_BYTES];
    for (to, from) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = from.to_ne_bytes();
    }
    bytes[len.min(CARRIED_BYTES)..].fill(0);
    bytes
}

fn words_of(bytes: &[u8; CARRIED_BYTES]) -> [u64; CARRIED_WORDS] {
    let mut words = [0; CARRIED_WORDS];
    for (to, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *to = u64::from_ne_bytes(*from);
    }
    words
}

impl MailboxRequests {
    pub(super) fn new(ranks: u32) -> MailboxRequests {
        MailboxRequests {
            sent: (0..ranks).map(|_| OriginRequests::default()).collect(),
            seen: vec![0; ranks as usize].into(),
            has_buffer: None,
            is_denied: false,
        }
    }

    fn give_back_buffer(&mut self, rank: u32) {
        self.has_buffer = self.has_buffer.filter(|holder| *holder != rank);
    }

    fn is_idle(&self) -> bool {
        self.sent.iter().all(|sent| sent.pending.is_none())
    }
}

impl Service {
    fn routes<F: Fabric>(&self, lane: &mut Lane<F>, rank: u32) -> Option<&TargetRoutes> {
        let target = self.targets.get(rank as usize)?;
        match target.routes.get() {
            Some(routes) => Some(routes),
            None => Some(target.find_routes(lane.fabric_mut(), self.team.size(), self.flavor)),
        }
    }

    pub(super) fn has_no_request(&self) -> bool {
        self.boxes.as_ref().is_none_or(MailboxRequests::is_idle)
    }

    pub(super) fn note_messages(&mut self, rank: u32) {
        self.by_messages.entry(rank).or_default().issued += 1;
    }

    /// The number of operations that went to a rank by messages, if some may be incomplete.
    fn messages_at(&self, rank: u32) -> Option<u64> {
        let counts =
            self.by_messages.get(&rank).filter(|counts| counts.issued > counts.complete)?;
        Some(counts.issued)
    }

    /// The number of the last request if it may be incomplete, and [`Service::messages_at`].
    pub(super) fn incomplete_at(&self, rank: u32) -> (Option<u64>, Option<u64>) {
        let sent = self.boxes.as_ref().map(|boxes| &boxes.sent[rank as usize]);
        let number = sent
            .filter(|sent| sent.pending.is_some() || sent.fault.is_some())
            .map(|sent| sent.number);
        (number, self.messages_at(rank))
    }

    pub(super) fn note_complete(&mut self, rank: u32, messages: u64) {
        let complete = &mut self.by_messages.entry(rank).or_default().complete;
        *complete = messages.max(*complete);
    }

    fn take_answer<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32) -> bool {
        let (own, exposure) = (self.team.rank, self.exposure.clone());
        let pending = |service: &Service| {
            let sent = &service.boxes.as_ref()?.sent[rank as usize];
            sent.pending.is_some().then_some(sent.number)
        };
        let Some(number) = pending(self) else { return true };
        let control = self.routes(lane, rank).and_then(|routes| routes.control.as_ref());
        let Some(answer) = control.and_then(|control| control.mailboxes()?.answered(own, number))
        else {
            return false;
        };
        let Some(boxes) = &mut self.boxes else { return true };
        let sent = &mut boxes.sent[rank as usize];
        let Some(PendingRequest { what, at, into, len, carried, operands }) = sent.pending.take()
        else {
            return true;
        };
        match (answer.status, into) {
            (DONE, None) => {}
            (DONE, Some(into)) if carried.is_some() && operands.is_none() => {
                let bytes = bytes_of(&answer.data, len);
                into.unpack(0, Bytes::from(&bytes[..len]));
            }
            // The target has written the old values into the program's buffer.
            (DONE, Some(_)) if operands.is_some() => {}
            (DONE, Some(into)) => {
                if let Some((_, back)) = exposure.control.buffers(len) {
                    into.unpack(0, back.as_bytes());
                }
            }
            (OUTSIDE, _) => sent.fault = Some(Fault::Outside),
            (_, fetch) => {
                boxes.is_denied = true;
                if let Err(fault) =
                    self.send_by_message(lane, rank, (what, at, len), (operands, fetch))
                {
                    self.boxes
                        .iter_mut()
                        .for_each(|boxes| boxes.sent[rank as usize].fault = Some(fault));
                }
                return true;
            }
        }
        boxes.give_back_buffer(rank);
        true
    }

    #[cold]
    fn send_by_message<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        (what, at, len): (RequestOp, i64, usize),
        (operands, fetch): (Option<UserBuf>, Option<UserBuf>),
    ) -> Result<(), Fault> {
        let (RequestOp::Accumulate(accumulator, _), Some(operands)) = (what, operands) else {
            return Err(Fault::NoMemory);
        };
        let size = accumulator.size();
        let place =
            TargetPlace { at, count: len / size, layout: Arc::new(Layout::basic(size, size)) };
        self.note_messages(rank);
        self.accumulate(
            lane,
            (rank, place),
            (Accumulate { operands, accumulator, fetch }, len),
            false,
        )
        .map(drop)
    }

    /// The addresses of operands and results if the target can copy these through the kernel.
    fn addresses<F: Fabric>(
        &self,
        lane: &mut Lane<F>,
        rank: u32,
        (what, len): (RequestOp, usize),
        (data, into): (&UserBuf, Option<&UserBuf>),
    ) -> Option<[u64; CARRIED_WORDS]> {
        let is_long = (BY_ADDRESS_LEAST..=BY_ADDRESS_MOST).contains(&len);
        if !is_long || !matches!(what, RequestOp::Accumulate(..)) || self.boxes.as_ref()?.is_denied
        {
            return None;
        }
        let address = |bytes: *const u8| bytes.expose_provenance() as u64;
        let operands =
            if what.given(len) == 0 { 0 } else { address(data.as_contiguous()?.as_ptr()) };
        let old =
            into.map(|into| into.as_contiguous_mut().map(|mut into| address(into.as_mut_ptr())));
        let old = old.map_or(Some(0), |old| old)?;
        self.routes(lane, rank)?.single_copy.then_some([operands, old, 0, 0])
    }

    /// Posts a request. `false` if there is no mailbox, or if an operation must complete first.
    pub(super) fn post<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        operation: MailboxOperation<'_>,
    ) -> Result<bool, Fault> {
        let MailboxOperation { what, at, len, data, into } = operation;
        if self.boxes.is_none() || !self.take_answer(lane, rank) {
            return Ok(false);
        }
        self.check(lane, rank)?;
        let (own, exposure, is_carried) =
            (self.team.rank, self.exposure.clone(), what.is_carried(len));
        let places = self.addresses(lane, rank, (what, len), (data, into.as_ref()));
        if len > BUFFER_BYTES && places.is_none() {
            return Ok(false);
        }
        let needs_buffer = !is_carried && places.is_none();
        if let Some(user) = self.boxes.as_ref().and_then(|boxes| boxes.has_buffer)
            && needs_buffer
            && !self.take_answer(lane, user)
        {
            return Ok(false);
        }
        let Some(boxes) = &self.boxes else { return Ok(false) };
        let sent = &boxes.sent[rank as usize];
        let number = sent.number + 1;
        if self.messages_at(rank).is_some() || self.targets[own as usize].control == 0 {
            return Ok(false);
        }
        let Some(routes) = self.routes(lane, rank) else { return Ok(false) };
        let (Some(control), Some(bell)) = (&routes.control, &routes.bell) else { return Ok(false) };
        let Some(mailboxes) = control.mailboxes() else { return Ok(false) };
        let given = what.given(len);
        let mut carried = [0; CARRIED_BYTES];
        if let Some(places) = places {
            carried = bytes_of(&places, 16);
        } else if is_carried {
            data.pack(0, BytesMut::from(&mut carried[..given]));
        } else if let Some((room, _)) = exposure.control.buffers(given) {
            data.pack(0, room);
        }
        let request = MailboxRequest {
            what: what.word() | if places.is_some() { BY_ADDRESS } else { 0 },
            may_be_withdrawn: what.may_be_withdrawn(),
            at: at.cast_unsigned(),
            len: len as u64,
            data: words_of(&carried),
        };
        mailboxes.post(own, number, &request);
        bell.ring();
        if let Some(boxes) = &mut self.boxes {
            let sent = &mut boxes.sent[rank as usize];
            let carried = is_carried.then_some(carried);
            let operands = places.map(|_| data.clone());
            let pending = PendingRequest { what, at, len, into, carried, operands };
            (sent.number, sent.pending) = (number, Some(pending));
            if needs_buffer {
                boxes.has_buffer = Some(rank);
            }
        }
        Ok(true)
    }

    /// Once the request `number` is complete: its fault, or whether messages may be incomplete.
    pub(super) fn settled<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        number: u64,
    ) -> Option<Result<bool, Fault>> {
        let is_answered = self.take_answer(lane, rank);
        let fault = self.check(lane, rank).err();
        let by_messages = self.messages_at(rank).is_some();
        let boxes = self.boxes.as_mut()?;
        let sent = &mut boxes.sent[rank as usize];
        if !is_answered && sent.number <= number {
            let fault = fault?;
            sent.pending = None;
            boxes.give_back_buffer(rank);
            return Some(Err(fault));
        }
        Some(sent.fault.take().map_or(Ok(by_messages), Err))
    }

    /// Copies through the kernel if the target has not begun the pending put or get.
    pub(super) fn copy_instead<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
    ) -> Result<(), Unreachable> {
        let (own, exposure) = (self.team.rank, self.exposure.clone());
        let Some(Target { process, base, .. }) = self.targets.get(rank as usize) else {
            return Ok(());
        };
        let (process, base) = (*process, *base);
        let Some(OriginRequests { number, pending: Some(pending), .. }) =
            self.boxes.as_ref().map(|boxes| &boxes.sent[rank as usize])
        else {
            return Ok(());
        };
        if !pending.what.may_be_withdrawn() {
            return Ok(());
        }
        let number = *number;
        let is_withdrawn = self.routes(lane, rank).is_some_and(|routes| {
            let mailboxes = routes.control.as_ref().and_then(ControlWords::mailboxes);
            routes.single_copy && mailboxes.is_some_and(|mailboxes| mailboxes.withdraw(own, number))
        });
        let Some(boxes) = self.boxes.as_mut().filter(|_| is_withdrawn) else { return Ok(()) };
        let Some(pending) = boxes.sent[rank as usize].pending.take() else { return Ok(()) };
        let PendingRequest { what, at, len, into, carried, .. } = pending;
        boxes.give_back_buffer(rank);
        let address = base.wrapping_add(at.cast_unsigned());
        let mut bytes = carried.map_or_else(Vec::new, |carried| carried.to_vec());
        if carried.is_none() {
            bytes.resize(len, 0);
        }
        match what {
            RequestOp::Put => {
                if let (None, Some((data, _))) = (carried, exposure.control.buffers(len)) {
                    data.as_bytes().copy_to(BytesMut::from(&mut bytes[..]));
                }
                lane.fabric_mut().write(process, address, Bytes::from(&bytes[..len]))
            }
            _ => {
                lane.fabric_mut().read(process, address, BytesMut::from(&mut bytes[..len]))?;
                into.iter().for_each(|into| into.unpack(0, Bytes::from(&bytes[..len])));
                Ok(())
            }
        }
    }
}
