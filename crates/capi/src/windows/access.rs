//! Puts, gets and accumulates (MPI-5.0 section 12.3).
//!
//! An access is one straight line if the data are contiguous on both sides and this process has
//! mapped the target's memory. All other accesses, wrong ones included, take the full path.

use super::{at_hand, on_win};
use crate::library::{Running, check_count, null};
use crate::p2p::plain;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype, Op, Win};
use oxmpi_core::window::{AccessCompletion, Accumulate, TargetAccess, Window};
use oxmpi_engine::RequestId;
use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::ReduceOp as OpKind;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::op::{self, accumulator_for};
use oxmpi_objects::predefined::Category;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ffi::{c_int, c_void};

#[derive(Clone, Copy)]
pub(super) struct OriginArgs {
    pub(super) addr: *const c_void,
    pub(super) count: i64,
    pub(super) datatype: Datatype,
}

#[derive(Clone, Copy)]
pub(super) struct TargetArgs {
    pub(super) rank: c_int,
    pub(super) disp: Aint,
    pub(super) count: i64,
    pub(super) datatype: Datatype,
}

fn at(library: &Running, place: TargetArgs) -> Result<TargetAccess> {
    let datatype = library.datatype(place.datatype)?;
    datatype.check_committed()?;
    let count = check_count(place.count)?;
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
pub(super) fn same(origin: OriginArgs, place: TargetArgs) -> bool {
    origin.datatype == place.datatype && origin.count == place.count
}

/// Any poll may write results, and a poll has no caller to which it could report a failure of the
/// driver. So results cannot go to a device.
const NO_RESULT: &str = "one-sided communication writes results to memory of the host alone: give it such a buffer, and copy from there";
const NO_SWAP: &str =
    "MPI_Compare_and_swap takes elements in memory of the host alone: copy them there";

pub(super) fn put(
    library: &Running,
    window: &Window,
    origin: OriginArgs,
    place: TargetArgs,
    how: AccessCompletion,
) -> Result<Option<RequestId>> {
    let buffer = library.to_read(library.buffer(origin.addr, origin.count, origin.datatype)?)?;
    library.process.put(window, &buffer, &at(library, place)?, how)
}

pub(super) fn get(
    library: &Running,
    window: &Window,
    origin: OriginArgs,
    place: TargetArgs,
    how: AccessCompletion,
) -> Result<Option<RequestId>> {
    let buffer = library.buffer(origin.addr, origin.count, origin.datatype)?;
    let buffer = library.on_host(buffer, NO_RESULT)?;
    library.process.get(window, &buffer, &at(library, place)?, how)
}

/// MPI_Accumulate has no result.
pub(super) fn accumulate(
    library: &Running,
    window: &Window,
    (origin, result): (OriginArgs, Option<OriginArgs>),
    place: TargetArgs,
    op: Op,
    how: AccessCompletion,
) -> Result<Option<RequestId>> {
    let operation = library.operation(op)?;
    let target = library.datatype(place.datatype)?;
    let takes_operands = !matches!(operation, op::Op::Predefined(OpKind::NoOp));
    let operands = if takes_operands {
        library.to_read(library.buffer(origin.addr, origin.count, origin.datatype)?)?
    } else {
        UserBuf::empty()
    };
    let fetch = result
        .map(|result| {
            let buffer = library.buffer(result.addr, result.count, result.datatype)?;
            library.on_host(buffer, NO_RESULT)
        })
        .transpose()?;
    if operands.is_empty() && (place.count == 0 || target.size() == 0) {
        // Without data, operation and datatypes do not matter.
        return library.process.put(window, &UserBuf::empty(), &at(library, place)?, how);
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
    let at = at(library, place)?;
    library.process.accumulate(window, Accumulate { operands, fetch, accumulator }, &at, how)
}

/// The operation on a predefined datatype, for the straight line.
#[inline(always)]
fn accumulator_now(library: &Running, op: Op, datatype: Datatype) -> Option<Accumulator> {
    let operation = op::predefined(op as u64)?;
    let datatype = library.predefined.get(datatype as u64)?;
    accumulator_for(&op::Op::Predefined(operation), datatype, library.strict).ok()
}

#[inline(always)]
fn put_plainly(function: FuncId, origin: OriginArgs, place: TargetArgs, win: Win) -> c_int {
    if same(origin, place)
        && let Some(buffer) = plain(origin.addr, origin.count, origin.datatype)
        && let Some((library, window)) = at_hand(win)
        && library.process.put_now(&window, buffer.bytes(), place.rank, place.disp as i64)
    {
        return abi::MPI_SUCCESS;
    }
    put_fully(function, origin, place, win)
}

#[inline(never)]
fn put_fully(function: FuncId, origin: OriginArgs, place: TargetArgs, win: Win) -> c_int {
    on_win(function, win, |library, window| {
        put(library, window, origin, place, AccessCompletion::Plain).map(drop)
    })
}

#[inline(always)]
fn get_plainly(function: FuncId, origin: OriginArgs, place: TargetArgs, win: Win) -> c_int {
    if same(origin, place)
        && let Some(buffer) = plain(origin.addr, origin.count, origin.datatype)
        && let Some((library, window)) = at_hand(win)
        && library.process.get_now(&window, buffer.bytes_mut(), place.rank, place.disp as i64)
    {
        return abi::MPI_SUCCESS;
    }
    get_fully(function, origin, place, win)
}

#[inline(never)]
fn get_fully(function: FuncId, origin: OriginArgs, place: TargetArgs, win: Win) -> c_int {
    on_win(function, win, |library, window| {
        get(library, window, origin, place, AccessCompletion::Plain).map(drop)
    })
}

fn accumulate_plainly(
    function: FuncId,
    both: (OriginArgs, Option<OriginArgs>),
    place: TargetArgs,
    op: Op,
    win: Win,
) -> c_int {
    on_win(function, win, |library, window| {
        accumulate(library, window, both, place, op, AccessCompletion::Plain).map(drop)
    })
}

#[inline(always)]
fn fetched_now(
    origin: *const c_void,
    result: OriginArgs,
    place: (c_int, Aint),
    op: Op,
    win: Win,
) -> bool {
    let operand = if op == abi::MPI_NO_OP { Some(Bytes::empty()) } else { None };
    let operands = plain(origin, 1, result.datatype);
    let Some(operand) = operand.or_else(|| operands.as_ref().map(|operands| operands.bytes()))
    else {
        return false;
    };
    let (Some(old), at) = (plain(result.addr, 1, result.datatype), (place.0, place.1 as i64))
    else {
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
    op: Op,
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
    origin: *const c_void,
    result: OriginArgs,
    (rank, disp): (c_int, Aint),
    op: Op,
    win: Win,
) -> c_int {
    on_win(FuncId::MPI_Fetch_and_op, win, |library, window| {
        let datatype = library.datatype(result.datatype)?;
        if datatype.facts().is_none() {
            let text = format!("{} is not predefined, as the datatype must be here", &**datatype);
            return Err(MpiError::new(abi::MPI_ERR_TYPE, text));
        }
        drop(datatype);
        let place = TargetArgs { rank, disp, count: 1, datatype: result.datatype };
        let origin = OriginArgs { addr: origin, ..result };
        accumulate(library, window, (origin, Some(result)), place, op, AccessCompletion::Plain)
            .map(drop)
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

#[inline(never)]
fn swap_fully(
    (origin, compare, result): (*const c_void, *const c_void, *mut c_void),
    datatype: Datatype,
    (rank, disp): (c_int, Aint),
    win: Win,
) -> c_int {
    on_win(FuncId::MPI_Compare_and_swap, win, |library, window| {
        compared_size(library, datatype)?;
        let element = |addr: *const c_void, what: &str| {
            if addr.is_null() {
                return Err(null(what));
            }
            library.on_host(library.buffer(addr, 1, datatype)?, NO_SWAP)
        };
        let (new, expected) = (element(origin, "origin_addr")?, element(compare, "compare_addr")?);
        let old = element(result, "result_addr")?;
        let at = at(library, TargetArgs { rank, disp, count: 1, datatype })?;
        match (new.as_contiguous(), expected.as_contiguous()) {
            (Some(new), Some(expected)) => library.process.swap(window, (new, expected), &old, &at),
            _ => Err(MpiError::new(abi::MPI_ERR_TYPE, "the elements are not in one piece")),
        }
    })
}

mpi! {
    /// Test: tests/c/win_put_get.c.
    fn MPI_Put(origin_addr: *const c_void, origin_count: c_int, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        put_plainly(FuncId::MPI_Put, origin, place, win)
    }

    fn MPI_Put_c(origin_addr: *const c_void, origin_count: Count, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        put_plainly(FuncId::MPI_Put_c, origin, place, win)
    }

    fn MPI_Get(origin_addr: *mut c_void, origin_count: c_int, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        get_plainly(FuncId::MPI_Get, origin, place, win)
    }

    fn MPI_Get_c(origin_addr: *mut c_void, origin_count: Count, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        get_plainly(FuncId::MPI_Get_c, origin, place, win)
    }

    /// Test: tests/c/win_accumulate.c.
    fn MPI_Accumulate(origin_addr: *const c_void, origin_count: c_int, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, op: Op, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        accumulate_plainly(FuncId::MPI_Accumulate, (origin, None), place, op, win)
    }

    fn MPI_Accumulate_c(origin_addr: *const c_void, origin_count: Count, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, op: Op, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        accumulate_plainly(FuncId::MPI_Accumulate_c, (origin, None), place, op, win)
    }

    fn MPI_Get_accumulate(origin_addr: *const c_void, origin_count: c_int, origin_datatype: Datatype, result_addr: *mut c_void, result_count: c_int, result_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, op: Op, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let result = OriginArgs { addr: result_addr, count: i64::from(result_count), datatype: result_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        accumulate_plainly(FuncId::MPI_Get_accumulate, (origin, Some(result)), place, op, win)
    }

    fn MPI_Get_accumulate_c(origin_addr: *const c_void, origin_count: Count, origin_datatype: Datatype, result_addr: *mut c_void, result_count: Count, result_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, op: Op, win: Win) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let result = OriginArgs { addr: result_addr, count: result_count, datatype: result_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        accumulate_plainly(FuncId::MPI_Get_accumulate_c, (origin, Some(result)), place, op, win)
    }

    /// Test: tests/c/win_atomics.c.
    fn MPI_Fetch_and_op(origin_addr: *const c_void, result_addr: *mut c_void, datatype: Datatype, target_rank: c_int, target_disp: Aint, op: Op, win: Win) -> c_int {
        let (result, place) = (OriginArgs { addr: result_addr, count: 1, datatype }, (target_rank, target_disp));
        if fetched_now(origin_addr, result, place, op, win) {
            return abi::MPI_SUCCESS;
        }
        fetch_fully(origin_addr, result, place, op, win)
    }

    fn MPI_Compare_and_swap(origin_addr: *const c_void, compare_addr: *const c_void, result_addr: *mut c_void, datatype: Datatype, target_rank: c_int, target_disp: Aint, win: Win) -> c_int {
        if let Some(new) = plain(origin_addr, 1, datatype)
            && let Some(compare) = plain(compare_addr, 1, datatype)
            && let Some(old) = plain(result_addr, 1, datatype)
            && let Some((library, window)) = at_hand(win)
            && compared_size(library, datatype).is_ok()
            && library.process.swap_now(&window, (new.bytes(), compare.bytes()), old.bytes_mut(), (target_rank, target_disp as i64))
        {
            return abi::MPI_SUCCESS;
        }
        swap_fully((origin_addr, compare_addr, result_addr), datatype, (target_rank, target_disp), win)
    }
}
