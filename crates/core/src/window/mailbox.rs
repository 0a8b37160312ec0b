//! Requests in mailboxes: operations on memory of this node that the origin has not mapped, if they are short and contiguous.
//!
//! The protocol is that of [`oxmpi_shm::mailbox`]. The target polls for requests whenever it makes progress, so a request needs
//! no message and no matching, and its answer says that it is complete: a flush needs no message. An origin has one request at a
//! target. Operations that it starts meanwhile go by messages, until it has flushed: a target carries out the request before the messages
//! that were sent after it, and there is no request while messages may be on their way, so the order is kept.
//!
//! A put or get may be withdrawn by a waiting origin, which then copies through the kernel: a target that computes need do nothing.

mod target;

use super::control::BUFFER_BYTES;
use super::message::Place;
use super::service::Accumulating;
use super::{Control, Near, Service, Target};
use oxmpi_engine::{Fault, Lane};
use oxmpi_fabric::{Fabric, Unreachable};
use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::{Op, Scalar};
use oxmpi_mem::layout::Layout;
use oxmpi_shm::mailbox::{CARRIED_BYTES, CARRIED_WORDS, MailboxRequest};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// The operation of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Accumulate(Accumulator, Fetch),
    /// The data are the new element and the one to compare with.
    Swap,
    Put,
    Get,
}

/// Whether the values from before are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    Yes,
    No,
}

/// A request for `len` bytes at a place of the window's memory.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    pub(super) what: What,
    pub(super) at: i64,
    pub(super) len: usize,
    /// The data that go with it.
    pub(super) data: &'a UserBuf,
    /// Where those go that come back.
    pub(super) into: Option<UserBuf>,
}

/// The requests of a window, in both directions.
#[derive(Debug)]
pub(super) struct Boxes {
    /// By the rank of the target.
    sent: Box<[Sent]>,
    /// By the rank of the origin, the number of the last request that was seen.
    seen: Box<[u64]>,
    /// The target whose request has the buffer.
    has_buffer: Option<u32>,
    /// A target could not read operands where they lie.
    is_denied: bool,
}

/// The requests of this process at a target.
#[derive(Debug, Default)]
struct Sent {
    /// The number of the last request.
    number: u64,
    pending: Option<Pending>,
    /// The fault of a completed request, until a flush reports it.
    fault: Option<Fault>,
}

#[derive(Debug)]
struct Pending {
    what: What,
    at: i64,
    len: usize,
    into: Option<UserBuf>,
    /// Its data, if it carries them.
    carried: Option<[u8; CARRIED_BYTES]>,
    /// Its operands, if it says where they lie.
    operands: Option<UserBuf>,
}

/// How a request went.
const DONE: u64 = 0;
/// The place is outside of the exposed memory.
const OUTSIDE: u64 = 1;
/// The target cannot reach the data, and has done nothing.
const UNREACHED: u64 = 2;

/// The bit of a request that carries the addresses of its operands and of the place for the values from before: the target copies
/// them through the kernel.
const BY_ADDRESS: u64 = 1 << 32;
/// The shortest of those, bytes: shorter ones are copied twice in less time than such a call takes (measured on an AMD EPYC, family 25,
/// model 17).
const BY_ADDRESS_LEAST: usize = 16 << 10;
/// The longest of those, bytes: others wait for the target meanwhile.
const BY_ADDRESS_MOST: usize = 1 << 20;

impl What {
    fn word(self) -> u64 {
        let place = |found: Option<usize>| found.unwrap_or(u8::MAX.into()) as u64;
        match self {
            What::Accumulate(accumulator, fetch) => {
                let op = place(Op::ALL.iter().position(|op| *op == accumulator.op()));
                let scalar = place(Scalar::ALL.iter().position(|scalar| *scalar == accumulator.scalar()));
                1 | op << 8 | scalar << 16 | u64::from(fetch == Fetch::Yes) << 24
            }
            What::Swap => 2,
            What::Put => 3,
            What::Get => 4,
        }
    }

    /// `None`: no process of this library says so.
    fn of(word: u64) -> Option<What> {
        let part = |shift: u32| usize::from((word >> shift) as u8);
        Some(match word & 0xff {
            1 => {
                let accumulator = Accumulator::new(*Op::ALL.get(part(8))?, *Scalar::ALL.get(part(16))?)?;
                What::Accumulate(accumulator, if part(24) == 0 { Fetch::No } else { Fetch::Yes })
            }
            2 => What::Swap,
            3 => What::Put,
            4 => What::Get,
            _ => return None,
        })
    }

    /// The bytes that go with a request for `len`.
    fn given(self, len: usize) -> usize {
        match self {
            What::Accumulate(accumulator, _) if accumulator.op() == Op::NoOp => 0,
            What::Accumulate(..) | What::Put => len,
            What::Swap => 2 * len,
            What::Get => 0,
        }
    }

    /// The bytes that come back.
    fn returned(self, len: usize) -> usize {
        match self {
            What::Accumulate(_, Fetch::No) | What::Put => 0,
            What::Accumulate(_, Fetch::Yes) | What::Get | What::Swap => len,
        }
    }

    fn is_carried(self, len: usize) -> bool {
        self.given(len).max(self.returned(len)) <= CARRIED_BYTES
    }

    fn may_be_withdrawn(self) -> bool {
        matches!(self, What::Put | What::Get)
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

impl Boxes {
    pub(super) fn new(ranks: u32) -> Boxes {
        Boxes {
            sent: (0..ranks).map(|_| Sent::default()).collect(),
            seen: vec![0; ranks as usize].into(),
            has_buffer: None,
            is_denied: false,
        }
    }

    /// The request at a rank is over: if it had the buffer, another one may have it.
    fn give_back_buffer(&mut self, rank: u32) {
        self.has_buffer = self.has_buffer.filter(|holder| *holder != rank);
    }

    fn is_idle(&self) -> bool {
        self.sent.iter().all(|sent| sent.pending.is_none())
    }
}

impl Service {
    /// How to get to a rank.
    fn near<F: Fabric>(&self, lane: &mut Lane<F>, rank: u32) -> Option<&Near> {
        let target = self.targets.get(rank as usize)?;
        match target.near.get() {
            Some(near) => Some(near),
            None => Some(target.approach(lane.fabric_mut(), self.team.size(), self.flavor)),
        }
    }

    /// Whether no request is pending.
    pub(super) fn has_no_request(&self) -> bool {
        self.boxes.as_ref().is_none_or(Boxes::is_idle)
    }

    /// An operation goes to a rank by messages.
    pub(super) fn note_messages(&mut self, rank: u32) {
        self.by_messages.entry(rank).or_default().said += 1;
    }

    /// How many operations went to a rank by messages, if not all of them are known to be complete.
    fn messages_at(&self, rank: u32) -> Option<u64> {
        let counts = self.by_messages.get(&rank).filter(|counts| counts.said > counts.complete)?;
        Some(counts.said)
    }

    /// What may not be complete at a rank: the number of the last request, and how many operations went by messages.
    pub(super) fn asked_of(&self, rank: u32) -> (Option<u64>, Option<u64>) {
        let sent = self.boxes.as_ref().map(|boxes| &boxes.sent[rank as usize]);
        let number =
            sent.filter(|sent| sent.pending.is_some() || sent.fault.is_some()).map(|sent| sent.number);
        (number, self.messages_at(rank))
    }

    /// So many messages to a rank are known to be complete.
    pub(super) fn note_complete(&mut self, rank: u32, messages: u64) {
        let complete = &mut self.by_messages.entry(rank).or_default().complete;
        *complete = messages.max(*complete);
    }

    /// Takes the answer to the request at a rank, if it is there. Whether none is pending any more.
    fn take_answer<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32) -> bool {
        let (own, exposure) = (self.team.rank, self.exposure.clone());
        let pending = |service: &Service| {
            let sent = &service.boxes.as_ref()?.sent[rank as usize];
            sent.pending.is_some().then_some(sent.number)
        };
        let Some(number) = pending(self) else { return true };
        let control = self.near(lane, rank).and_then(|near| near.control.as_ref());
        let Some(answer) = control.and_then(|control| control.mailboxes()?.answered(own, number)) else {
            return false;
        };
        let Some(boxes) = &mut self.boxes else { return true };
        let sent = &mut boxes.sent[rank as usize];
        let Some(Pending { what, at, into, len, carried, operands }) = sent.pending.take() else {
            return true;
        };
        match (answer.status, into) {
            (DONE, None) => {}
            (DONE, Some(into)) if carried.is_some() && operands.is_none() => {
                let bytes = bytes_of(&answer.data, len);
                into.unpack(0, Bytes::from(&bytes[..len]));
            }
            // They are there.
            (DONE, Some(_)) if operands.is_some() => {}
            (DONE, Some(into)) => {
                if let Some((_, back)) = exposure.control.buffers(len) {
                    into.unpack(0, back.as_bytes());
                }
            }
            (OUTSIDE, _) => sent.fault = Some(Fault::Outside),
            (_, fetch) => {
                boxes.is_denied = true;
                if let Err(fault) = self.say_instead(lane, rank, (what, at, len), (operands, fetch)) {
                    self.boxes.iter_mut().for_each(|boxes| boxes.sent[rank as usize].fault = Some(fault));
                }
                return true;
            }
        }
        boxes.give_back_buffer(rank);
        true
    }

    /// Sends an accumulate by messages that the target could not carry out.
    #[cold]
    fn say_instead<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        (what, at, len): (What, i64, usize),
        (operands, fetch): (Option<UserBuf>, Option<UserBuf>),
    ) -> Result<(), Fault> {
        let (What::Accumulate(accumulator, _), Some(operands)) = (what, operands) else {
            return Err(Fault::NoMemory);
        };
        let size = accumulator.size();
        let place = Place { at, count: len / size, layout: Arc::new(Layout::basic(size, size)) };
        self.note_messages(rank);
        self.accumulate(lane, (rank, place), (Accumulating { operands, accumulator, fetch }, len), false)
            .map(drop)
    }

    /// Where the operands of a long accumulate lie and its values from before go, if the target can copy them through the kernel.
    fn addresses<F: Fabric>(
        &self,
        lane: &mut Lane<F>,
        rank: u32,
        (what, len): (What, usize),
        (data, into): (&UserBuf, Option<&UserBuf>),
    ) -> Option<[u64; CARRIED_WORDS]> {
        let is_long = (BY_ADDRESS_LEAST..=BY_ADDRESS_MOST).contains(&len);
        if !is_long || !matches!(what, What::Accumulate(..)) || self.boxes.as_ref()?.is_denied {
            return None;
        }
        let address = |bytes: *const u8| bytes.expose_provenance() as u64;
        let operands = if what.given(len) == 0 { 0 } else { address(data.as_contiguous()?.as_ptr()) };
        let old = into.map(|into| into.as_contiguous_mut().map(|mut into| address(into.as_mut_ptr())));
        let old = old.map_or(Some(0), |old| old)?;
        self.near(lane, rank)?.single_copy.then_some([operands, old, 0, 0])
    }

    /// Posts a request in a rank's mailbox. `false`: it has none, or an earlier operation has to complete first; nothing was done then.
    ///
    /// # Errors
    /// It has failed.
    pub(super) fn post<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        asking: Asking<'_>,
    ) -> Result<bool, Fault> {
        let Asking { what, at, len, data, into } = asking;
        if self.boxes.is_none() || !self.take_answer(lane, rank) {
            return Ok(false);
        }
        self.check(lane, rank)?;
        let (own, exposure, is_carried) = (self.team.rank, self.exposure.clone(), what.is_carried(len));
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
        let Some(near) = self.near(lane, rank) else { return Ok(false) };
        let (Some(control), Some(bell)) = (&near.control, &near.bell) else { return Ok(false) };
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
            let pending = Pending { what, at, len, into, carried, operands };
            (sent.number, sent.pending) = (number, Some(pending));
            if needs_buffer {
                boxes.has_buffer = Some(rank);
            }
        }
        Ok(true)
    }

    /// Whether the requests at a rank are complete up to a number: if so, whether all went well, and whether an operation may be pending that went by
    /// messages.
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

    /// Withdraws the put or get that is pending at a rank, if the target has not begun with it, and copies through the kernel.
    ///
    /// # Errors
    /// The kernel does not reach the memory.
    pub(super) fn copy_instead<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
    ) -> Result<(), Unreachable> {
        let (own, exposure) = (self.team.rank, self.exposure.clone());
        let Some(Target { process, base, .. }) = self.targets.get(rank as usize) else { return Ok(()) };
        let (process, base) = (*process, *base);
        let Some(Sent { number, pending: Some(pending), .. }) =
            self.boxes.as_ref().map(|boxes| &boxes.sent[rank as usize])
        else {
            return Ok(());
        };
        if !pending.what.may_be_withdrawn() {
            return Ok(());
        }
        let number = *number;
        let is_withdrawn = self.near(lane, rank).is_some_and(|near| {
            let mailboxes = near.control.as_ref().and_then(Control::mailboxes);
            near.single_copy && mailboxes.is_some_and(|mailboxes| mailboxes.withdraw(own, number))
        });
        let Some(boxes) = self.boxes.as_mut().filter(|_| is_withdrawn) else { return Ok(()) };
        let Some(pending) = boxes.sent[rank as usize].pending.take() else { return Ok(()) };
        let Pending { what, at, len, into, carried, .. } = pending;
        boxes.give_back_buffer(rank);
        let address = base.wrapping_add(at.cast_unsigned());
        let mut bytes = carried.map_or_else(Vec::new, |carried| carried.to_vec());
        if carried.is_none() {
            bytes.resize(len, 0);
        }
        match what {
            What::Put => {
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
