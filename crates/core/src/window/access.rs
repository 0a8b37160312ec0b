//! Accesses: puts, gets and accumulates (MPI-5.0 section 12.3).

use super::control::Listed;
use super::mailbox::{FetchOld, MailboxOperation, RequestOp};
use super::message::TargetPlace;
use super::words::{AdapterWords, WORD, WordChanges, WordUpdate, no_memory};
use super::{ControlWords, Flavor, Service, Target, Window};
use crate::Process;
use crate::failure::check_not_revoked;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Fault, Lane, RequestId};
use oxmpi_fabric::{Direction, Fabric};
use oxmpi_mem::atomics::{Accumulator, compare_and_swap};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::ReduceOp;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::{Owned, zeros};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_shm::robust_lock::RobustGuard;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The target memory of an access, as the program names it.
#[derive(Clone, Debug)]
pub struct TargetAccess {
    pub rank: i32,
    /// In displacement units of the target; in a dynamic window an address.
    pub disp: i64,
    pub count: usize,
    pub layout: Arc<Layout>,
}

/// The event that completes an operation for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessCompletion {
    /// The end of the epoch, or a flush.
    Plain,
    /// Also the completion of a request.
    Request,
}

/// The arguments of an accumulate.
#[derive(Debug)]
pub struct Accumulate {
    /// The operands; unused if the operation is MPI_NO_OP.
    pub operands: UserBuf,
    /// The buffer for the values before the operation, for MPI_Get_accumulate and MPI_Fetch_and_op.
    pub fetch: Option<UserBuf>,
    pub accumulator: Accumulator,
}

enum AccessRoute<'w> {
    Mapped(UserBuf, &'w ControlWords),
    SingleCopy(u64),
    Far,
}

/// The longest copy in one call of the kernel, in bytes. Other threads may use the lane between two
/// calls.
const SINGLE_COPY_PIECE: usize = 1 << 20;
/// In bytes: for a few KiB, one copy by the kernel takes as long as two copies in user space
/// (measured on an AMD EPYC, family 25, model 17).
const MAILBOX_LIMIT_BYTES: usize = 4 << 10;
/// The length of each part of an accumulate whose operands or results must be copied, in packed
/// bytes. A multiple of the size of each element without padding.
const PART_BYTES: usize = 16 << 10;

#[cold]
fn outside(what: impl std::fmt::Display) -> MpiError {
    MpiError::new(abi::MPI_ERR_RMA_RANGE, what.to_string())
}

impl Window {
    /// The caller holds the lane lock, so that a flush counts all operations issued before it.
    pub(super) fn note_issued(&self, target: &Target) {
        self.far.store(true, Ordering::Relaxed);
        target.issued.fetch_add(1, Ordering::Relaxed);
    }

    fn place(&self, target: &Target, at: &TargetAccess) -> Result<TargetPlace> {
        let TargetAccess { rank, disp, count, layout } = at;
        let place = |at| TargetPlace { at, count: *count, layout: layout.clone() };
        // The standard allows any displacement for an access without elements.
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

fn check_fit(len: usize, room: usize, what: &str) -> Result<()> {
    if len <= room {
        return Ok(());
    }
    let text = format!("{len} bytes do not fit the {room} bytes of {what}");
    Err(MpiError::new(abi::MPI_ERR_TRUNCATE, text))
}

impl<F: Fabric> Process<F> {
    fn begin<'w>(
        &self,
        window: &'w Window,
        at: &TargetAccess,
        how: AccessCompletion,
    ) -> Result<(&'w Target, TargetPlace)> {
        let target = window.target(at.rank)?;
        let place = window.place(target, at)?;
        if how == AccessCompletion::Request && !window.is_locked(target) {
            return Err(window.not_locked(at.rank));
        }
        if !window.may_access(target) {
            return Err(window.no_access(at.rank));
        }
        Ok((target, place))
    }

    /// The route of an access. The kernel has no atomic operations for accumulates.
    fn route<'w>(
        &self,
        window: &'w Window,
        target: &'w Target,
        place: &TargetPlace,
        accumulates: bool,
    ) -> Result<AccessRoute<'w>> {
        let TargetPlace { at, count, layout } = place;
        if target.process == self.rank {
            let control = &window.exposure.control;
            return match window.exposure.buffer(place) {
                Some(buffer) => Ok(AccessRoute::Mapped(buffer, control)),
                None => Err(outside(format_args!(
                    "no attached memory holds all bytes of the access at {at:#x}"
                ))),
            };
        }
        if window.comm.is_revoked() {
            // The memory may belong to another object by now. The message route reports the
            // revocation.
            return Ok(AccessRoute::Far);
        }
        let routes = self.routes(window, target);
        let Some(control) = &routes.control else { return Ok(AccessRoute::Far) };
        if let Some(memory) = &routes.memory {
            let buffer = memory.elements(*at as isize, *count, layout);
            return buffer.map(|buffer| AccessRoute::Mapped(buffer, control)).map_err(outside);
        }
        let single_copy = routes.single_copy && !accumulates && layout.is_contiguous();
        if window.flavor != Flavor::Dynamic {
            return Ok(if single_copy {
                AccessRoute::SingleCopy(target.base.wrapping_add(at.cast_unsigned()))
            } else {
                AccessRoute::Far
            });
        }
        let (from, to) = layout.span(*count).map_err(outside)?;
        let address = |offset: isize| at.cast_unsigned().wrapping_add(offset as u64);
        match control.lists(address(from), address(to)) {
            Listed::Perhaps => return Ok(AccessRoute::Far),
            Listed::No => {
                let rank = window.comm.team.map.rank(target.process).unwrap_or(0);
                return Err(outside(format_args!(
                    "rank {rank} has attached no memory that holds all bytes of the access at {at:#x}"
                )));
            }
            Listed::Yes => {}
        }
        if let Some((there, heap)) = &routes.heap {
            let offset = at.cast_unsigned().wrapping_sub(*there);
            if let Ok(buffer) = heap.elements((offset as usize).cast_signed(), *count, layout) {
                return Ok(AccessRoute::Mapped(buffer, control));
            }
        }
        Ok(if single_copy { AccessRoute::SingleCopy(at.cast_unsigned()) } else { AccessRoute::Far })
    }

    fn by_messages<R>(
        &self,
        window: &Window,
        (target, rank): (&Target, i32),
        by_messages: impl FnOnce(&mut Service, &mut Lane<F>) -> std::result::Result<R, Fault>,
    ) -> Result<R> {
        self.with_service(window, |service, lane| {
            window.note_issued(target);
            service.note_messages(rank as u32);
            by_messages(service, lane)
        })
    }

    /// Posts a request in a mailbox. `false` means that there is no mailbox, or that an earlier
    /// operation has to complete first.
    fn post(
        &self,
        window: &Window,
        (target, rank): (&Target, i32),
        operation: MailboxOperation<'_>,
    ) -> Result<bool> {
        if target.routes.get().is_none_or(|routes| routes.bell.is_none())
            || window.flavor != Flavor::Create
        {
            return Ok(false);
        }
        self.with_service(window, |service, lane| {
            let posted = service.post(lane, rank as u32, operation)?;
            if posted {
                window.note_issued(target);
            }
            Ok(posted)
        })
    }

    /// MPI_Put, MPI_Rput. Returns the request if one is pending.
    pub fn put(
        &self,
        window: &Window,
        origin: &UserBuf,
        at: &TargetAccess,
        how: AccessCompletion,
    ) -> Result<Option<RequestId>> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(None);
        }
        let (target, place) = self.begin(window, at, how)?;
        let len = origin.packed_len();
        check_fit(len, place.count * place.layout.size(), "the target")?;
        if len == 0 {
            return Ok(None);
        }
        match self.route(window, target, &place, false)? {
            AccessRoute::Mapped(buffer, _) => {
                buffer.copy_from(0, origin, 0, len);
                window.has_stored();
            }
            AccessRoute::SingleCopy(_)
                if self.fits_mailbox(len, how) && {
                    let operation = MailboxOperation {
                        what: RequestOp::Put,
                        at: place.at,
                        len,
                        data: origin,
                        into: None,
                    };
                    self.post(window, (target, at.rank), operation)?
                } => {}
            AccessRoute::SingleCopy(address) => {
                self.copy_out(window, target.process, address, origin)?
            }
            AccessRoute::Far => {
                let wanted = how == AccessCompletion::Request;
                let by = (target, at.rank as u32);
                let access = (Direction::Put, origin);
                if let Some(request) = self.access_by_adapter(window, by, &place, access, wanted)? {
                    return Ok(request);
                }
                return self.by_messages(window, (target, at.rank), |service, lane| {
                    service.put(lane, (at.rank as u32, place), (origin, len), wanted)
                });
            }
        }
        Ok(None)
    }

    /// MPI_Get, MPI_Rget. Returns the request if one is pending.
    pub fn get(
        &self,
        window: &Window,
        into: &UserBuf,
        at: &TargetAccess,
        how: AccessCompletion,
    ) -> Result<Option<RequestId>> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(None);
        }
        let (target, place) = self.begin(window, at, how)?;
        let len = place.count * place.layout.size();
        check_fit(len, into.packed_len(), "the origin")?;
        if len == 0 {
            return Ok(None);
        }
        match self.route(window, target, &place, false)? {
            AccessRoute::Mapped(buffer, _) => into.copy_from(0, &buffer, 0, len),
            AccessRoute::SingleCopy(_)
                if self.fits_mailbox(len, how) && {
                    let (data, into) = (&UserBuf::empty(), Some(into.clone()));
                    let operation =
                        MailboxOperation { what: RequestOp::Get, at: place.at, len, data, into };
                    self.post(window, (target, at.rank), operation)?
                } => {}
            AccessRoute::SingleCopy(address) => {
                self.copy_in(window, target.process, (address, len), into)?
            }
            AccessRoute::Far => {
                let wanted = how == AccessCompletion::Request;
                let by = (target, at.rank as u32);
                let all = into.packed_range(0, len);
                if let Some(into) = &all
                    && let Some(request) =
                        self.access_by_adapter(window, by, &place, (Direction::Get, into), wanted)?
                {
                    return Ok(request);
                }
                return self.by_messages(window, (target, at.rank), |service, lane| {
                    service.get(lane, (at.rank as u32, place), (into, len), wanted)
                });
            }
        }
        Ok(None)
    }

    /// Whether a put or get that the kernel could copy is posted in a mailbox instead.
    fn fits_mailbox(&self, len: usize, how: AccessCompletion) -> bool {
        len <= MAILBOX_LIMIT_BYTES && how == AccessCompletion::Plain && !self.is_oversubscribed
    }

    fn copy_out(
        &self,
        window: &Window,
        process: u32,
        address: u64,
        origin: &UserBuf,
    ) -> Result<()> {
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
            // Another thread may have learned of the revocation between two pieces.
            check_not_revoked(&window.comm)?;
            let written = domain.lane.fabric_mut().write(process, address + at as u64, piece);
            drop(domain);
            written.map_err(|unreachable| self.copy_error(process, unreachable))?;
            at += n;
        }
        Ok(())
    }

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
            read.map_err(|unreachable| self.copy_error(process, unreachable))?;
            if whole.is_none() {
                into.unpack(at, Bytes::from(&bounce[..]));
            }
            at += n;
        }
        Ok(())
    }

    /// MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op and their forms with requests. Returns
    /// the request if one is pending.
    pub fn accumulate(
        &self,
        window: &Window,
        what: Accumulate,
        at: &TargetAccess,
        how: AccessCompletion,
    ) -> Result<Option<RequestId>> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(None);
        }
        let (target, place) = self.begin(window, at, how)?;
        self.accumulate_at(window, what, (target, at.rank), place, how)
    }

    fn accumulate_at(
        &self,
        window: &Window,
        what: Accumulate,
        (target, rank): (&Target, i32),
        place: TargetPlace,
        how: AccessCompletion,
    ) -> Result<Option<RequestId>> {
        let Accumulate { operands, fetch, accumulator } = what;
        let room = place.count * place.layout.size();
        let len = if accumulator.op() == ReduceOp::NoOp { room } else { operands.packed_len() };
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
        if len == 0 || (accumulator.op() == ReduceOp::NoOp && fetch.is_none()) {
            return Ok(None);
        }
        if accumulator.is_plain() && accumulator.size() == WORD {
            let wanted = how == AccessCompletion::Request;
            match self.adapter_words(window, target, &place, len)? {
                AdapterWords::Nowhere => {}
                AdapterWords::Everywhere(addresses) => {
                    let reads = if accumulator.op() == ReduceOp::NoOp { 0 } else { len };
                    let mut bytes = zeros(reads).map_err(|_| no_memory(len))?;
                    operands.pack(0, BytesMut::from(&mut bytes[..]));
                    let change = WordUpdate::Accumulate(accumulator, bytes);
                    let changes = WordChanges::new(addresses, target.key, change, fetch);
                    return self.change_by_adapter(window, (target, rank), changes, wanted);
                }
                AdapterWords::Somewhere(addresses) => {
                    let what = Accumulate { operands, fetch, accumulator };
                    return self.accumulate_each(window, &what, (target, rank), addresses, how);
                }
            }
        }
        match self.route(window, target, &place, true)? {
            AccessRoute::Mapped(buffer, control) => {
                let what = Accumulate { operands, fetch, accumulator };
                let done =
                    accumulate_mapped(&what, &buffer, len, || self.hold_elements(window, control));
                window.has_stored();
                done.map(|()| None)
            }
            AccessRoute::SingleCopy(_) | AccessRoute::Far => {
                let wanted = how == AccessCompletion::Request;
                if !wanted && accumulator.is_plain() && place.layout.is_contiguous() {
                    let kind = if fetch.is_some() { FetchOld::Yes } else { FetchOld::No };
                    let what = RequestOp::Accumulate(accumulator, kind);
                    let operation = MailboxOperation {
                        what,
                        at: place.at,
                        len,
                        data: &operands,
                        into: fetch.clone(),
                    };
                    if self.post(window, (target, rank), operation)? {
                        return Ok(None);
                    }
                }
                let what = Accumulate { operands, fetch, accumulator };
                self.by_messages(window, (target, rank), |service, lane| {
                    service.accumulate(lane, (rank as u32, place), (what, len), wanted)
                })
            }
        }
    }

    /// Lets the adapter change some elements, and the target's processor the others. Waits for all
    /// if the program wants a request, or if results need a copy.
    fn accumulate_each(
        &self,
        window: &Window,
        what: &Accumulate,
        (target, rank): (&Target, i32),
        addresses: Vec<u64>,
        how: AccessCompletion,
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
            let reads = accumulator.op() != ReduceOp::NoOp;
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
            let place = TargetPlace { at: offset, count: 1, layout: layout.clone() };
            self.accumulate_at(window, one, (target, rank), place, AccessCompletion::Plain)?;
        }
        if how == AccessCompletion::Request || !results.is_empty() {
            self.complete_target(window, rank as u32)?;
        }
        if let Some(fetch) = fetch {
            for (at, apart) in results {
                fetch.copy_from(at * WORD, &apart, 0, WORD);
            }
        }
        Ok(None)
    }

    #[inline]
    pub(super) fn hold_elements<'c>(
        &self,
        window: &Window,
        control: &'c ControlWords,
    ) -> RobustGuard<'c> {
        control.hold_elements(window.rank(), |rank| self.has_died(window, rank))
    }

    #[cold]
    fn has_died(&self, window: &Window, rank: u32) -> bool {
        let process = window.comm.team.map.process(rank);
        process.is_some_and(|process| self.domain.lock().lane.fabric_mut().has_died(process))
    }

    /// MPI_Compare_and_swap. `new`, `compare` and `old` have one contiguous element each.
    pub fn swap(
        &self,
        window: &Window,
        (new, compare): (Bytes<'_>, Bytes<'_>),
        old: &UserBuf,
        at: &TargetAccess,
    ) -> Result<()> {
        if at.rank == abi::MPI_PROC_NULL {
            return Ok(());
        }
        let (target, place) = self.begin(window, at, AccessCompletion::Plain)?;
        if let (Some(new), Some(compare)) = (word(new), word(compare))
            && let AdapterWords::Everywhere(addresses) =
                self.adapter_words(window, target, &place, WORD)?
        {
            let change = WordUpdate::Swap { compare, new };
            let changes = WordChanges::new(addresses, target.key, change, Some(old.clone()));
            return self.change_by_adapter(window, (target, at.rank), changes, false).map(drop);
        }
        match self.route(window, target, &place, true)? {
            AccessRoute::Mapped(buffer, control) => {
                let (element, old) = (buffer.as_contiguous_mut(), old.as_contiguous_mut());
                if let (Some(element), Some(old)) = (element, old) {
                    compare_and_swap(new, compare, element, old, || {
                        self.hold_elements(window, control)
                    });
                    window.has_stored();
                }
                Ok(())
            }
            AccessRoute::SingleCopy(_) | AccessRoute::Far => {
                let both = [new.to_vec(), compare.to_vec()].concat();
                let (data, into) = (Owned::new(both.clone()), Some(old.clone()));
                let operation = MailboxOperation {
                    what: RequestOp::Swap,
                    at: place.at,
                    len: new.len(),
                    data: &data.buf(),
                    into,
                };
                if self.post(window, (target, at.rank), operation)? {
                    return Ok(());
                }
                self.by_messages(window, (target, at.rank), |service, lane| {
                    service.swap(lane, (at.rank as u32, place), &both, old)
                })
            }
        }
    }
}

fn word(bytes: Bytes<'_>) -> Option<u64> {
    let mut word = [0; WORD];
    (bytes.len() == WORD).then(|| bytes.copy_to(BytesMut::from(&mut word[..])))?;
    Some(u64::from_ne_bytes(word))
}

/// Accumulates to mapped memory. `lock` acquires the element lock of the target.
fn accumulate_mapped<'l>(
    what: &Accumulate,
    target: &UserBuf,
    len: usize,
    mut lock: impl FnMut() -> RobustGuard<'l>,
) -> Result<()> {
    let Accumulate { operands, fetch, accumulator } = what;
    let no_memory = |error| MpiError::new(abi::MPI_ERR_NO_MEM, format!("{error}"));
    let reads = accumulator.op() != ReduceOp::NoOp;
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
