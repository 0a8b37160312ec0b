//! Accesses with requests (MPI-5.0 section 12.3.5). Test: tests/c/win_requests.c.

use super::access::{OriginArgs, TargetArgs, accumulate, get, put};
use super::on_win;
use crate::library::{self, Running, null};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Aint, Count, Datatype, Op, Request, Win};
use oxmpi_core::window::{AccessCompletion, Window};
use oxmpi_engine::RequestId;
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};

fn start(
    function: FuncId,
    win: Win,
    request: *mut Request,
    access: impl FnOnce(&Running, &Window) -> Result<Option<RequestId>>,
) -> c_int {
    on_win(function, win, |library, window| {
        if request.is_null() {
            return Err(null("request"));
        }
        let started = access(library, window)?.unwrap_or_else(|| {
            // Neither this call nor the completion waits, so a program could repeat the two for
            // long without any poll.
            library.process.look_sometimes(window);
            RequestId::COMPLETE
        });
        // SAFETY: the C program passes a place for a handle.
        unsafe { library::put(request, started.raw() as Request, "request") }
    })
}

mpi! {
    fn MPI_Rput(origin_addr: *const c_void, origin_count: c_int, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        start(FuncId::MPI_Rput, win, request, |library, window| put(library, window, origin, place, AccessCompletion::Request))
    }

    fn MPI_Rput_c(origin_addr: *const c_void, origin_count: Count, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        start(FuncId::MPI_Rput_c, win, request, |library, window| put(library, window, origin, place, AccessCompletion::Request))
    }

    fn MPI_Rget(origin_addr: *mut c_void, origin_count: c_int, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        start(FuncId::MPI_Rget, win, request, |library, window| get(library, window, origin, place, AccessCompletion::Request))
    }

    fn MPI_Rget_c(origin_addr: *mut c_void, origin_count: Count, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        start(FuncId::MPI_Rget_c, win, request, |library, window| get(library, window, origin, place, AccessCompletion::Request))
    }

    fn MPI_Raccumulate(origin_addr: *const c_void, origin_count: c_int, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, op: Op, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        start(FuncId::MPI_Raccumulate, win, request, |library, window| {
            accumulate(library, window, (origin, None), place, op, AccessCompletion::Request)
        })
    }

    fn MPI_Raccumulate_c(origin_addr: *const c_void, origin_count: Count, origin_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, op: Op, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        start(FuncId::MPI_Raccumulate_c, win, request, |library, window| {
            accumulate(library, window, (origin, None), place, op, AccessCompletion::Request)
        })
    }

    fn MPI_Rget_accumulate(origin_addr: *const c_void, origin_count: c_int, origin_datatype: Datatype, result_addr: *mut c_void, result_count: c_int, result_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: c_int, target_datatype: Datatype, op: Op, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: i64::from(origin_count), datatype: origin_datatype };
        let result = OriginArgs { addr: result_addr, count: i64::from(result_count), datatype: result_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: i64::from(target_count), datatype: target_datatype };
        start(FuncId::MPI_Rget_accumulate, win, request, |library, window| {
            accumulate(library, window, (origin, Some(result)), place, op, AccessCompletion::Request)
        })
    }

    fn MPI_Rget_accumulate_c(origin_addr: *const c_void, origin_count: Count, origin_datatype: Datatype, result_addr: *mut c_void, result_count: Count, result_datatype: Datatype, target_rank: c_int, target_disp: Aint, target_count: Count, target_datatype: Datatype, op: Op, win: Win, request: *mut Request) -> c_int {
        let origin = OriginArgs { addr: origin_addr, count: origin_count, datatype: origin_datatype };
        let result = OriginArgs { addr: result_addr, count: result_count, datatype: result_datatype };
        let place = TargetArgs { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
        start(FuncId::MPI_Rget_accumulate_c, win, request, |library, window| {
            accumulate(library, window, (origin, Some(result)), place, op, AccessCompletion::Request)
        })
    }
}
