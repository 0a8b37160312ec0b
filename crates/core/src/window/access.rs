//! Accesses: puts, gets and accumulates (MPI-5.0 section 12.3).

use super::control::Listed;
use super::mailbox::{Asking, Fetch, What};
use super::message::Place;
use super::service::{Accumulating, zeros};
use super::words::{AdapterWords, Change, WORD, WordChanges, no_memory};
use super::{Control, Flavor, Service, Target, Window};
use crate::Process;
use crate::failure::check_not_revoked;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Fault, Lane, RequestId};
use oxmpi_fabric::{Direction, Fabric};
use oxmpi_mem::atomics::{Accumulator, compare_and_swap};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::Op;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_shm::robust_lock::RobustGuard;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The place of an access, as the program names it.
#[derive(Clone, Debug)]
pub struct At {
    /// The target.
    pub rank: i32,
    /// The displacement, in units of the target; the address, in a dynamic window.
    pub disp: i64,
    /// How many elements.
    pub count: usize,
    /// What an element looks like.
    pub layout: Arc<Layout>,
}

/// How the program learns that an operation is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By the end of the epoch, or a flush.
    Plain,
    /// By a request, too.
    Request,
}

/// An accumulate.
#[derive(Debug)]
pub struct Accumulate {
    /// The operands; none are looked at if the operation is MPI_NO_OP.
    pub operands: UserBuf,
    /// Where the values from before go, if they are wanted.
    pub fetch: Option<UserBuf>,
    /// What is done.
    pub accumulator: Accumulator,
}

/// The way to a place.
enum Way<'w> {
    /// It is mapped here.
    Mapped(UserBuf, &'w Control),
    /// Through the kernel, at this address of the target.
    SingleCopy(u64),
    /// By messages.
    Far,
}

/// Bytes that are copied through the kernel at a time: other threads may use the lane in between.
const SINGLE_COPY_PIECE: usize = 1 << 20;
/// The most bytes of a put or get that are not copied through the kernel if the target attends: such a call takes as long as some KiB
/// take to be copied twice (measured on an AMD EPYC, family 25, model 17).
const ASKED_MOST: usize = 4 << 10;
/// Packed bytes that are accumulated at a time, if they must be copied: a multiple of the size of all elements but those
/// with padding.
const PART_BYTES: usize = 16 << 10;

#[cold]
fn outside(what: impl std::fmt::Display) -> MpiError {
    MpiError::new(abi::MPI_ERR_RMA_RANGE, what.to_string())
}

impl Window {
    /// Something was asked of a target that may take time. The lane is locked when it is counted: a flush counts what was asked before it.
    pub(super) fn note_asked(&self, target: &Target) {
        self.far.store(true, Ordering::Relaxed);
        target.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// The place in the target's memory, checked as far as it is known here.
    fn place(&self, target: &Target, at: &At) -> Result<Place> {
        let At { rank, disp, count, layout } = at;
        let place = |at| Place { at, count: *count, layout: layout.clone() };
        // Without elements nothing is accessed, and so no place is wrong.
        if self.flavor == Flavor::Dynamic || *count == 0 || layout.size() == 0 {
            return Ok(place(*disp));
        }
        if *disp < 0 {
            let text = format!("target_disp is {disp}; it must not be negative");
            return Err(MpiError::new(abi::MPI_ERR_DISP, text));
        }
        let offset = disp.checked_mul(target.disp_unit);
        let span = layout.span(*count).ok();
        let inside = offset.zip(span).filter(|(offset, (from, to))| {
            let from = offset.checked_add(*from as i64);
            let to = offset.checked_add(*to as i64).and_then(|to| u64::try_from(to).ok());
            from.is_some_and(|from| from >= 0) && to.is_some_and(|to| to <= target.size)
        });
        match inside {
            Some((offset, _)) => Ok(place(offset)),
            None => Err(outside(format_args!(
                "an access of rank {rank} at displacement {disp} (in units of {} bytes) of {count} elements of {} \
                 bytes leaves the {} bytes that it exposes",
                target.disp_unit,
                layout.size(),
                target.size
            ))),
        }
    }
}

/// Checks that the data of one side fit the other.
fn check_fit(len: usize, room: usize, what: &str) -> Result<()> {
    if len <= room {
        return Ok(());
    }
    let text = format!("{len} bytes do not fit the {room} bytes of {what}");
    Err(MpiError::new(abi::MPI_ERR_TRUNCATE, text))
}

impl<F: Fabric> Process<F> {
    /// Checks an access and finds its place.
    fn begin<'w>(&self, window: &'w Window, at: &At, how: How) -> Result<(&'w Target, Place)> {
        let target = window.target(at.rank)?;
        let place = window.place(target, at)?;
        if how == How::Request && !window.is_locked(target) {
            return Err(window.not_locked(at.rank));
        }
        if !window.may_access(target) {
            return Err(window.no_access(at.rank));
        }
        Ok((target, place))
    }

    /// The way to a place. Accumulates take that through the kernel never: it has no atomic operations.
    fn way<'w>(
        &self,
        window: &'w Window,
        target: &'w Target,
        place: &Place,
        accumulates: bool,
    ) -> Result<Way<'w>> {
        let Place { at, count, layout } = place;
        if target.process == self.rank {
            let control = &window.exposure.control;
            return match window.exposure.buffer(place) {
                Some(buffer) => Ok(Way::Mapped(buffer, control)),
                None => {
                    Err(outside(format_args!("no attached memory holds all bytes of the access at {at:#x}")))
                }
            };
        }
        if window.comm.is_revoked() {
            // The memory may be another's already: messages say so.
            return Ok(Way::Far);
        }
        let near = self.near(window, target);
        let Some(control) = &near.control else { return Ok(Way::Far) };
        if let Some(memory) = &near.memory {
            let buffer = memory.elements(*at as isize, *count, layout);
            return buffer.map(|buffer| Way::Mapped(buffer, control)).map_err(outside);
        }
        let single_copy = near.single_copy && !accumulates && layout.is_contiguous();
        if window.flavor != Flavor::Dynamic {
            return Ok(if single_copy {
                Way::SingleCopy(target.base.wrapping_add(at.cast_unsigned()))
            } else {
                Way::Far
            });
        }
        let (from, to) = layout.span(*count).map_err(outside)?;
        let address = |offset: isize| at.cast_unsigned().wrapping_add(offset as u64);
        match control.lists(address(from), address(to)) {
            Listed::Perhaps => return Ok(Way::Far),
            Listed::No => {
                let text = "rank {} has attached no memory that holds all bytes of the access at";
                let text =
                    text.replace("{}", &window.comm.team.map.rank(target.process).unwrap_or(0).to_string());
                return Err(outside(format_args!("{text} {at:#x}")));
            }
            Listed::Yes => {}
        }
        if let Some((there, heap)) = &near.heap {
            let offset = at.cast_unsigned().wrapping_sub(*there);
            if let Ok(buffer) = heap.elements((offset as usize).cast_signed(), *count, layout) {
                return Ok(Way::Mapped(buffer, control));
            }
        }
        Ok(if single_copy { Way::SingleCopy(at.cast_unsigned()) } else { Way::Far })
    }

    /// Asks something of a target by messages.
    fn ask<R>(
        &self,
        window: &Window,
        (target, rank): (&Target, i32),
        ask: impl FnOnce(&mut Service, &mut Lane<F>) -> std::result::Result<R, Fault>,
    ) -> Result<R> {
        self.with_service(window, |service, lane| {
            window.note_asked(target);
            service.note_messages(rank as u32);
            ask(service, lane)
        })
    }

    /// Posts a request in a target's mailbox. `false`: it has none, or an earlier operation has to complete first.
    fn post(&self, window: &Window, (target, rank): (&Target, i32), asking: Asking<'_>) -> Result<bool> {
        if target.near.get().is_none_or(|near| near.bell.is_none()) || window.flavor != Flavor::Create {
            return Ok(false);
        }
        self.with_service(window, |service, lane| {
            let posted = service.post(lane, rank as u32, asking)?;
            if posted {
                window.note_asked(target);
            }
            Ok(posted)
        })
    }

    /// Puts data into a target's memory (MPI_Put, MPI_Rput). The request, if there is one to wait for.
    ///
    /// # Errors
    /// MPI_ERR_RANK, MPI_ERR_DISP, MPI_ERR_RMA_RANGE, MPI_ERR_RMA_SYNC, MPI_ERR_TRUNCATE; the target has failed.
    pub fn put(&self, window: &Window, origin: &UserBuf, at: &At, how: How) -> Result<Option<RequestId>> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(None);
        }
        let (target, place) = self.begin(window, at, how)?;
        let len = origin.packed_len();
        check_fit(len, place.count * place.layout.size(), "the target")?;
        if len == 0 {
            return Ok(None);
        }
        match self.way(window, target, &place, false)? {
            Way::Mapped(buffer, _) => {
                buffer.copy_from(0, origin, 0, len);
                window.has_stored();
            }
            Way::SingleCopy(_)
                if self.asks(len, how) && {
                    let asking = Asking { what: What::Put, at: place.at, len, data: origin, into: None };
                    self.post(window, (target, at.rank), asking)?
                } => {}
            Way::SingleCopy(address) => self.copy_out(window, target.process, address, origin)?,
            Way::Far => {
                let wanted = how == How::Request;
                let by = (target, at.rank as u32);
                let access = (Direction::Put, origin);
                if let Some(request) = self.access_by_adapter(window, by, &place, access, wanted)? {
                    return Ok(request);
                }
                return self.ask(window, (target, at.rank), |service, lane| {
                    service.put(lane, (at.rank as u32, place), (origin, len), wanted)
                });
            }
        }
        Ok(None)
    }

    /// Gets data out of a target's memory (MPI_Get, MPI_Rget). The request, if there is one to wait for.
    ///
    /// # Errors
    /// As [`Process::put`].
    pub fn get(&self, window: &Window, into: &UserBuf, at: &At, how: How) -> Result<Option<RequestId>> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(None);
        }
        let (target, place) = self.begin(window, at, how)?;
        let len = place.count * place.layout.size();
        check_fit(len, into.packed_len(), "the origin")?;
        if len == 0 {
            return Ok(None);
        }
        match self.way(window, target, &place, false)? {
            Way::Mapped(buffer, _) => into.copy_from(0, &buffer, 0, len),
            Way::SingleCopy(_)
                if self.asks(len, how) && {
                    let (data, into) = (&UserBuf::empty(), Some(into.clone()));
                    let asking = Asking { what: What::Get, at: place.at, len, data, into };
                    self.post(window, (target, at.rank), asking)?
                } => {}
            Way::SingleCopy(address) => self.copy_in(window, target.process, (address, len), into)?,
            Way::Far => {
                let wanted = how == How::Request;
                let by = (target, at.rank as u32);
                let all = into.packed_range(0, len);
                if let Some(into) = &all
                    && let Some(request) =
                        self.access_by_adapter(window, by, &place, (Direction::Get, into), wanted)?
                {
                    return Ok(request);
                }
                return self.ask(window, (target, at.rank), |service, lane| {
                    service.get(lane, (at.rank as u32, place), (into, len), wanted)
                });
            }
        }
        Ok(None)
    }

    /// Whether a put or get that may go through the kernel is a request in a mailbox.
    fn asks(&self, len: usize, how: How) -> bool {
        len <= ASKED_MOST && how == How::Plain && !self.is_crowded
    }

    /// Writes through the kernel.
    fn copy_out(&self, window: &Window, process: u32, address: u64, origin: &UserBuf) -> Result<()> {
        let len = origin.packed_len();
        let mut bounce = Vec::new();
        let mut at = 0;
        while at < len {
            let n = SINGLE_COPY_PIECE.min(len - at);
            let piece = match origin.as_contiguous() {
                Some(bytes) => bytes.slice(at, n),
                None => {
                    bounce.resize(n, 0);
                    origin.pack(at, BytesMut::from(&mut bounce[..]));
                    Bytes::from(&bounce[..])
                }
            };
            let mut domain = self.domain.lock();
            // Another thread may have heard of it between two pieces.
            check_not_revoked(&window.comm)?;
            let written = domain.lane.fabric_mut().write(process, address + at as u64, piece);
            drop(domain);
            written.map_err(|unreachable| self.unreached(process, unreachable))?;
            at += n;
        }
        Ok(())
    }

    /// Reads through the kernel.
    fn copy_in(
        &self,
        window: &Window,
        process: u32,
        (address, len): (u64, usize),
        into: &UserBuf,
    ) -> Result<()> {
        let mut bounce = Vec::new();
        let mut at = 0;
        while at < len {
            let n = SINGLE_COPY_PIECE.min(len - at);
            let address = address + at as u64;
            let mut whole = into.as_contiguous_mut();
            let piece = match &mut whole {
                Some(bytes) => bytes.slice(at, n),
                None => {
                    bounce.resize(n, 0);
                    BytesMut::from(&mut bounce[..])
                }
            };
            let mut domain = self.domain.lock();
            check_not_revoked(&window.comm)?;
            let read = domain.lane.fabric_mut().read(process, address, piece);
            drop(domain);
            read.map_err(|unreachable| self.unreached(process, unreachable))?;
            if whole.is_none() {
                into.unpack(at, Bytes::from(&bounce[..]));
            }
            at += n;
        }
        Ok(())
    }

    /// Accumulates to a target's memory, and gets what was there before if that is wanted (MPI_Accumulate,
    /// MPI_Get_accumulate, MPI_Fetch_and_op and their forms with requests). The request, if there is one to wait for.
    ///
    /// # Errors
    /// As [`Process::put`].
    pub fn accumulate(
        &self,
        window: &Window,
        what: Accumulate,
        at: &At,
        how: How,
    ) -> Result<Option<RequestId>> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(None);
        }
        let (target, place) = self.begin(window, at, how)?;
        self.accumulate_at(window, what, (target, at.rank), place, how)
    }

    /// As [`Process::accumulate`], at a place that was found.
    fn accumulate_at(
        &self,
        window: &Window,
        what: Accumulate,
        (target, rank): (&Target, i32),
        place: Place,
        how: How,
    ) -> Result<Option<RequestId>> {
        let Accumulate { operands, fetch, accumulator } = what;
        let room = place.count * place.layout.size();
        let len = if accumulator.op() == Op::NoOp { room } else { operands.packed_len() };
        check_fit(len, room, "the target")?;
        if let Some(fetch) = &fetch {
            check_fit(len, fetch.packed_len(), "the result")?;
        }
        if !len.is_multiple_of(accumulator.size()) {
            let text = format!(
                "{len} bytes of the origin are no elements of the target's {} bytes each",
                accumulator.size()
            );
            return Err(MpiError::new(abi::MPI_ERR_TYPE, text));
        }
        if len == 0 || (accumulator.op() == Op::NoOp && fetch.is_none()) {
            return Ok(None);
        }
        if accumulator.is_plain() && accumulator.size() == WORD {
            let wanted = how == How::Request;
            match self.adapter_words(window, target, &place, len)? {
                AdapterWords::Nowhere => {}
                AdapterWords::Everywhere(addresses) => {
                    let reads = if accumulator.op() == Op::NoOp { 0 } else { len };
                    let mut bytes = zeros(reads).ok_or_else(|| no_memory(len))?;
                    operands.pack(0, BytesMut::from(&mut bytes[..]));
                    let change = Change::Accumulate(accumulator, bytes);
                    let changes = WordChanges::new(addresses, target.key, change, fetch);
                    return self.change_by_adapter(window, (target, rank), changes, wanted);
                }
                AdapterWords::Somewhere(addresses) => {
                    let what = Accumulate { operands, fetch, accumulator };
                    return self.accumulate_each(window, &what, (target, rank), addresses, how);
                }
            }
        }
        match self.way(window, target, &place, true)? {
            Way::Mapped(buffer, control) => {
                let what = Accumulate { operands, fetch, accumulator };
                let done = accumulate_mapped(&what, &buffer, len, || self.hold_elements(window, control));
                window.has_stored();
                done.map(|()| None)
            }
            Way::SingleCopy(_) | Way::Far => {
                let wanted = how == How::Request;
                if !wanted && accumulator.is_plain() && place.layout.is_contiguous() {
                    let kind = if fetch.is_some() { Fetch::Yes } else { Fetch::No };
                    let what = What::Accumulate(accumulator, kind);
                    let asking = Asking { what, at: place.at, len, data: &operands, into: fetch.clone() };
                    if self.post(window, (target, rank), asking)? {
                        return Ok(None);
                    }
                }
                let what = Accumulating { operands, fetch, accumulator };
                self.ask(window, (target, rank), |service, lane| {
                    service.accumulate(lane, (rank as u32, place), (what, len), wanted)
                })
            }
        }
    }

    /// Accumulates each element by itself, as some of them are words that the adapter changes, and others are none. It waits for all if there is
    /// a request, which is over then, or if results do not go where they belong by themselves.
    fn accumulate_each(
        &self,
        window: &Window,
        what: &Accumulate,
        (target, rank): (&Target, i32),
        addresses: Vec<u64>,
        how: How,
    ) -> Result<Option<RequestId>> {
        let Accumulate { operands, fetch, accumulator } = what;
        let layout = Arc::new(Layout::basic(WORD, 1));
        let mut results = Vec::new();
        for (at, address) in addresses.into_iter().enumerate() {
            let operand = |whole: &UserBuf| {
                let mut bytes = vec![0; WORD];
                whole.pack(at * WORD, BytesMut::from(&mut bytes[..]));
                Owned::new(bytes).buf()
            };
            let reads = accumulator.op() != Op::NoOp;
            let operands = if reads { operand(operands) } else { UserBuf::empty() };
            let into = fetch.as_ref().map(|fetch| {
                fetch.packed_range(at * WORD, WORD).unwrap_or_else(|| {
                    let apart = Owned::new(vec![0; WORD]).buf();
                    results.push((at, apart.clone()));
                    apart
                })
            });
            let one = Accumulate { operands, fetch: into, accumulator: *accumulator };
            let offset = address.wrapping_sub(target.base).cast_signed();
            let place = Place { at: offset, count: 1, layout: layout.clone() };
            self.accumulate_at(window, one, (target, rank), place, How::Plain)?;
        }
        if how == How::Request || !results.is_empty() {
            self.complete_target(window, rank as u32)?;
        }
        if let Some(fetch) = fetch {
            for (at, apart) in results {
                fetch.copy_from(at * WORD, &apart, 0, WORD);
            }
        }
        Ok(None)
    }

    /// Acquires the element lock of a target whose memory is mapped here.
    #[inline]
    pub(super) fn hold_elements<'c>(&self, window: &Window, control: &'c Control) -> RobustGuard<'c> {
        control.hold_elements(window.rank(), |rank| self.has_died(window, rank))
    }

    /// Whether a rank of the window has ended.
    #[cold]
    fn has_died(&self, window: &Window, rank: u32) -> bool {
        let process = window.comm.team.map.process(rank);
        process.is_some_and(|process| self.domain.lock().lane.fabric_mut().has_died(process))
    }

    /// Compares an element of a target with another and replaces it if they are equal (MPI_Compare_and_swap). `new`,
    /// `compare` and `old` are one element each, in one piece.
    ///
    /// # Errors
    /// As [`Process::put`].
    pub fn swap(
        &self,
        window: &Window,
        (new, compare): (Bytes<'_>, Bytes<'_>),
        old: &UserBuf,
        at: &At,
    ) -> Result<()> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(());
        }
        let (target, place) = self.begin(window, at, How::Plain)?;
        if let (Some(new), Some(compare)) = (word(new), word(compare))
            && let AdapterWords::Everywhere(addresses) = self.adapter_words(window, target, &place, WORD)?
        {
            let change = Change::Swap { compare, new };
            let changes = WordChanges::new(addresses, target.key, change, Some(old.clone()));
            return self.change_by_adapter(window, (target, at.rank), changes, false).map(drop);
        }
        match self.way(window, target, &place, true)? {
            Way::Mapped(buffer, control) => {
                let (element, old) = (buffer.as_contiguous_mut(), old.as_contiguous_mut());
                if let (Some(element), Some(old)) = (element, old) {
                    compare_and_swap(new, compare, element, old, || self.hold_elements(window, control));
                    window.has_stored();
                }
                Ok(())
            }
            Way::SingleCopy(_) | Way::Far => {
                let both = [new.to_vec(), compare.to_vec()].concat();
                let (data, into) = (Owned::new(both.clone()), Some(old.clone()));
                let asking =
                    Asking { what: What::Swap, at: place.at, len: new.len(), data: &data.buf(), into };
                if self.post(window, (target, at.rank), asking)? {
                    return Ok(());
                }
                self.ask(window, (target, at.rank), |service, lane| {
                    service.swap(lane, (at.rank as u32, place), &both, old)
                })
            }
        }
    }
}

/// The word that these bytes are, if they are one.
fn word(bytes: Bytes<'_>) -> Option<u64> {
    let mut word = [0; WORD];
    (bytes.len() == WORD).then(|| bytes.copy_to(BytesMut::from(&mut word[..])))?;
    Some(u64::from_ne_bytes(word))
}

/// Accumulates to memory that is mapped here. `lock` acquires its element lock.
fn accumulate_mapped<'l>(
    what: &Accumulate,
    target: &UserBuf,
    len: usize,
    mut lock: impl FnMut() -> RobustGuard<'l>,
) -> Result<()> {
    let Accumulate { operands, fetch, accumulator } = what;
    let no_memory = |error| MpiError::new(abi::MPI_ERR_NO_MEM, format!("{error}"));
    let reads = accumulator.op() != Op::NoOp;
    let here = if reads { operands.as_contiguous() } else { Some(Bytes::empty()) };
    let room = match fetch {
        Some(fetch) => fetch.as_contiguous_mut().map(Some),
        None => Some(None),
    };
    if let (Some(here), Some(mut room)) = (here, room) {
        let old = room.as_mut().map(|room| room.slice(0, len));
        return accumulator.accumulate(here, target, 0, old, lock).map_err(no_memory);
    }
    let part = PART_BYTES / accumulator.size() * accumulator.size();
    let (mut left, mut old) = (vec![0u8; part.min(len)], vec![0u8; part.min(len)]);
    let mut at = 0;
    while at < len {
        let n = part.min(len - at);
        if reads {
            operands.pack(at, BytesMut::from(&mut left[..n]));
        }
        let operand = if reads { Bytes::from(&left[..n]) } else { Bytes::empty() };
        let room = Some(BytesMut::from(&mut old[..n]));
        accumulator.accumulate(operand, target, at, room, &mut lock).map_err(no_memory)?;
        if let Some(fetch) = fetch {
            fetch.unpack(at, Bytes::from(&old[..n]));
        }
        at += n;
    }
    Ok(())
}
