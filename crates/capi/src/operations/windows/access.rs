//! Puts, gets and accumulates (MPI-5.0 section 12.3). Test of the first two:
//! tests/c/win_put_get.c.
//!
//! An access is one straight line if the data are contiguous on both sides and this process has
//! mapped the target's memory. All other accesses, wrong ones included, take the full path.

use super::{WinArgument, at_hand, on_win};
use crate::arguments::BufferArgs;
use crate::arguments::length;
use crate::state::library::Running;
use crate::state::named::OfArgument;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Datatype, Op as OpHandle, Win};
use oxmpi_core::window::{AccessCompletion, Accumulate, TargetAccess, Window};
use oxmpi_engine::RequestId;
use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::ReduceOp as OpKind;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::op::{self, Op, accumulator_for};
use oxmpi_objects::predefined::Category;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ffi::c_int;

#[derive(Clone, Copy)]
pub(crate) struct TargetArgs {
    pub(crate) rank: c_int,
    pub(crate) disp: Aint,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype,
}

fn at(library: &Running, window: &Window, place: TargetArgs) -> Result<TargetAccess> {
    window.check_rank(place.rank).of("target_rank")?;
    let datatype = library.datatype(place.datatype).of("target_datatype")?;
    datatype.check_committed().of("target_datatype")?;
    let count = length(place.count, "target_count", abi::MPI_ERR_COUNT)?;
    if datatype.bounds().packed_len(count).is_err() {
        let text = format!(
            "target_count is {count}: elements of this number do not fit the address space"
        );
        return Err(MpiError::new(abi::MPI_ERR_COUNT, text));
    }
    Ok(TargetAccess {
        rank: place.rank,
        disp: place.disp as i64,
        count,
        layout: datatype.layout().clone(),
    })
}

#[inline(always)]
fn same(origin: BufferArgs, place: TargetArgs) -> bool {
    origin.datatype == place.datatype && origin.count == place.count
}

/// Any poll may write results, and a poll has no caller to which it could report a failure of the
/// driver. So results cannot go to a device.
const NO_RESULT: &str = "one-sided communication writes results to memory of the host alone: give it such a buffer, and copy from there";
const NO_SWAP: &str =
    "MPI_Compare_and_swap takes elements in memory of the host alone: copy them there";

fn put(
    library: &Running,
    window: &Window,
    origin: BufferArgs,
    place: TargetArgs,
    how: AccessCompletion,
) -> Result<Option<RequestId>> {
    let buffer = library.to_read(origin.buffer(library)?)?;
    library.process.put(window, &buffer, &at(library, window, place)?, how)
}

fn get(
    library: &Running,
    window: &Window,
    origin: BufferArgs,
    place: TargetArgs,
    how: AccessCompletion,
) -> Result<Option<RequestId>> {
    let buffer = origin.buffer(library)?;
    let buffer = library.on_host(buffer, NO_RESULT)?;
    library.process.get(window, &buffer, &at(library, window, place)?, how)
}

/// MPI_Accumulate has no result.
fn combine(
    library: &Running,
    window: &Window,
    (origin, result): (BufferArgs, Option<BufferArgs>),
    place: TargetArgs,
    operation: Op,
    how: AccessCompletion,
) -> Result<Option<RequestId>> {
    let target = library.datatype(place.datatype).of("target_datatype")?;
    let takes_operands = !matches!(operation, Op::Predefined(OpKind::NoOp));
    let operands =
        if takes_operands { library.to_read(origin.buffer(library)?)? } else { UserBuf::empty() };
    let fetch = result
        .map(|result| {
            let buffer = result.buffer(library)?;
            library.on_host(buffer, NO_RESULT)
        })
        .transpose()?;
    if operands.is_empty() && (place.count == 0 || target.size() == 0) {
        // Without data, operation and datatypes do not matter.
        return library.process.put(window, &UserBuf::empty(), &at(library, window, place)?, how);
    }
    let accumulator = accumulator_for(&operation, &target, library.strict)?;
    if takes_operands {
        let datatype = library.datatype(origin.datatype)?;
        let same = datatype.uniform().map(|facts| facts.handle)
            == target.uniform().map(|facts| facts.handle);
        if !same {
            let text =
                format!("elements of {} are accumulated to elements of {}", &**datatype, &**target);
            return Err(MpiError::new(abi::MPI_ERR_TYPE, text));
        }
    }
    let at = at(library, window, place)?;
    library.process.accumulate(window, Accumulate { operands, fetch, accumulator }, &at, how)
}

/// The operation on a predefined datatype, for the straight line.
#[inline(always)]
fn accumulator_now(library: &Running, op: OpHandle, datatype: Datatype) -> Option<Accumulator> {
    let operation = op::predefined(op as u64)?;
    let datatype = library.predefined.get(datatype as u64)?;
    accumulator_for(&Op::Predefined(operation), datatype, library.strict).ok()
}

#[inline(always)]
pub(crate) fn win_put(function: FuncId, origin: BufferArgs, place: TargetArgs, win: Win) -> c_int {
    if same(origin, place)
        && let Some(buffer) = origin.plain()
        && let Some((library, window)) = at_hand(win)
        && library.process.put_now(&window, buffer.bytes(), place.rank, place.disp as i64)
    {
        return abi::MPI_SUCCESS;
    }
    put_fully(function, origin, place, win)
}

#[inline(never)]
fn put_fully(function: FuncId, origin: BufferArgs, place: TargetArgs, win: Win) -> c_int {
    on_win(function, win, "win", |library, window| {
        put(library, window, origin, place, AccessCompletion::Plain).map(drop)
    })
}

#[inline(always)]
pub(crate) fn win_get(function: FuncId, origin: BufferArgs, place: TargetArgs, win: Win) -> c_int {
    if same(origin, place)
        && let Some(buffer) = origin.plain()
        && let Some((library, window)) = at_hand(win)
        && library.process.get_now(&window, buffer.bytes_mut(), place.rank, place.disp as i64)
    {
        return abi::MPI_SUCCESS;
    }
    get_fully(function, origin, place, win)
}

#[inline(never)]
fn get_fully(function: FuncId, origin: BufferArgs, place: TargetArgs, win: Win) -> c_int {
    on_win(function, win, "win", |library, window| {
        get(library, window, origin, place, AccessCompletion::Plain).map(drop)
    })
}

/// Test: tests/c/win_atomics.c.
#[inline(always)]
pub(crate) fn fetch_and_op(
    function: FuncId,
    origin: BufferArgs,
    result: BufferArgs,
    rank: c_int,
    disp: Aint,
    op: OpHandle,
    win: Win,
) -> c_int {
    if fetched_now(&origin, &result, (rank, disp), op, win) {
        return abi::MPI_SUCCESS;
    }
    fetch_fully(function, origin, result, (rank, disp), op, win)
}

#[inline(always)]
fn fetched_now(
    origin: &BufferArgs,
    result: &BufferArgs,
    place: (c_int, Aint),
    op: OpHandle,
    win: Win,
) -> bool {
    let operand = if op == abi::MPI_NO_OP { Some(Bytes::empty()) } else { None };
    let operands = origin.plain();
    let Some(operand) = operand.or_else(|| operands.as_ref().map(|operands| operands.bytes()))
    else {
        return false;
    };
    let (Some(old), at) = (result.plain(), (place.0, place.1 as i64)) else {
        return false;
    };
    if let Some(instruction) = op::instruction(op as u64, result.datatype as u64)
        && let Some((library, window)) = at_hand(win)
        && library.process.fetch_word_now(&window, instruction, operand, old.bytes_mut(), at)
    {
        return true;
    }
    accumulated_now(operand, old.bytes_mut(), result.datatype, at, op, win)
}

#[inline(never)]
fn accumulated_now(
    operand: Bytes<'_>,
    old: BytesMut<'_>,
    datatype: Datatype,
    at: (c_int, i64),
    op: OpHandle,
    win: Win,
) -> bool {
    if let Some((library, window)) = at_hand(win)
        && let Some(accumulator) = accumulator_now(library, op, datatype)
    {
        return library.process.fetch_now(&window, &accumulator, operand, old, at);
    }
    false
}

#[inline(never)]
fn fetch_fully(
    function: FuncId,
    origin: BufferArgs,
    result: BufferArgs,
    (rank, disp): (c_int, Aint),
    op: OpHandle,
    win: Win,
) -> c_int {
    on_win(function, win, "win", |library, window| {
        let datatype = library.datatype(result.datatype)?;
        if datatype.facts().is_none() {
            let text = format!("{} is not predefined, as the datatype must be here", &**datatype);
            return Err(MpiError::new(abi::MPI_ERR_TYPE, text));
        }
        drop(datatype);
        let place = TargetArgs { rank, disp, count: 1, datatype: result.datatype };
        let operation = library.operation(op).of("op")?;
        let both = (origin, Some(result));
        combine(library, window, both, place, operation, AccessCompletion::Plain).map(drop)
    })
}

/// Only some elements can be compared (MPI-5.0 section 12.3.4). Returns their size in bytes.
fn compared_size(library: &Running, datatype: Datatype) -> Result<usize> {
    use Category::{Byte, CInteger, Char, FortranInteger, Logical, MultiLanguage};
    let datatype = library.datatype(datatype)?;
    match datatype.facts() {
        Some(facts)
            if matches!(
                facts.category,
                CInteger | FortranInteger | Logical | MultiLanguage | Byte
            ) =>
        {
            Ok(facts.size)
        }
        Some(facts) if facts.category == Char && !library.strict => Ok(facts.size),
        _ => {
            let text =
                format!("elements of {} cannot be compared: they are no integers", &**datatype);
            Err(MpiError::new(abi::MPI_ERR_TYPE, text))
        }
    }
}

#[inline(always)]
pub(crate) fn compare_and_swap(
    function: FuncId,
    new: BufferArgs,
    compare: BufferArgs,
    result: BufferArgs,
    rank: c_int,
    disp: Aint,
    win: Win,
) -> c_int {
    if let (Some(new), Some(compare)) = (new.plain(), compare.plain())
        && let Some(old) = result.plain()
        && let Some((library, window)) = at_hand(win)
        && compared_size(library, result.datatype).is_ok()
        && library.process.swap_now(
            &window,
            (new.bytes(), compare.bytes()),
            old.bytes_mut(),
            (rank, disp as i64),
        )
    {
        return abi::MPI_SUCCESS;
    }
    swap_fully(function, [new, compare, result], (rank, disp), win)
}

#[inline(never)]
fn swap_fully(
    function: FuncId,
    elements: [BufferArgs; 3],
    (rank, disp): (c_int, Aint),
    win: Win,
) -> c_int {
    on_win(function, win, "win", |library, window| {
        let [new, expected, old] = elements;
        let datatype = old.datatype;
        compared_size(library, datatype)?;
        let element = |element: BufferArgs| library.on_host(element.buffer(library)?, NO_SWAP);
        let (new, expected, old) = (element(new)?, element(expected)?, element(old)?);
        let at = at(library, window, TargetArgs { rank, disp, count: 1, datatype })?;
        match (new.as_contiguous(), expected.as_contiguous()) {
            (Some(new), Some(expected)) => library.process.swap(window, (new, expected), &old, &at),
            _ => Err(MpiError::new(abi::MPI_ERR_TYPE, "the elements are not in one piece")),
        }
    })
}

/// Test: tests/c/win_accumulate.c.
pub(crate) fn accumulate(
    library: &Running,
    origin: BufferArgs,
    place: TargetArgs,
    op: Op,
    win: &WinArgument,
) -> Result<()> {
    combine(library, win, (origin, None), place, op, AccessCompletion::Plain).map(drop)
}

pub(crate) fn get_accumulate(
    library: &Running,
    origin: BufferArgs,
    result: BufferArgs,
    place: TargetArgs,
    op: Op,
    win: &WinArgument,
) -> Result<()> {
    combine(library, win, (origin, Some(result)), place, op, AccessCompletion::Plain).map(drop)
}

/// The request of an access (MPI-5.0 section 12.3.5). Test: tests/c/win_requests.c.
fn request(
    library: &Running,
    window: &Window,
    started: Result<Option<RequestId>>,
) -> Result<RequestId> {
    Ok(started?.unwrap_or_else(|| {
        // Neither this call nor the completion waits, so a program could repeat the two for long
        // without any poll.
        library.process.look_sometimes(window);
        RequestId::COMPLETE
    }))
}

pub(crate) fn win_rput(
    library: &Running,
    origin: BufferArgs,
    place: TargetArgs,
    win: &WinArgument,
) -> Result<RequestId> {
    request(library, win, put(library, win, origin, place, AccessCompletion::Request))
}

pub(crate) fn win_rget(
    library: &Running,
    origin: BufferArgs,
    place: TargetArgs,
    win: &WinArgument,
) -> Result<RequestId> {
    request(library, win, get(library, win, origin, place, AccessCompletion::Request))
}

pub(crate) fn raccumulate(
    library: &Running,
    origin: BufferArgs,
    place: TargetArgs,
    op: Op,
    win: &WinArgument,
) -> Result<RequestId> {
    let both = (origin, None);
    request(library, win, combine(library, win, both, place, op, AccessCompletion::Request))
}

pub(crate) fn rget_accumulate(
    library: &Running,
    origin: BufferArgs,
    result: BufferArgs,
    place: TargetArgs,
    op: Op,
    win: &WinArgument,
) -> Result<RequestId> {
    let both = (origin, Some(result));
    request(library, win, combine(library, win, both, place, op, AccessCompletion::Request))
}
