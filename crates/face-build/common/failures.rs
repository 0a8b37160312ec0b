//! The acknowledgement of failures of processes in the first versions of User-Level Failure
//! Mitigation.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::handles::*;
use crate::{aliases, core};
use oxmpi_abi::constants as abi;
use oxmpi_foreign::EndsPanics;
use std::ffi::c_int;

/// Acknowledges all failures that the process knows.
#[unsafe(export_name = "PMPIX_Comm_failure_ack")]
unsafe extern "C-unwind" fn MPIX_Comm_failure_ack(comm: comm::Foreign) -> c_int {
    let ends = EndsPanics;
    let mut acknowledged = 0;
    let code = unsafe {
        core!(MPIX_Comm_ack_failed)(comm::input(comm), c_int::MAX, &mut acknowledged)
    };
    std::mem::forget(ends);
    code_out(code)
}

/// The group of the processes whose failures are acknowledged.
#[unsafe(export_name = "PMPIX_Comm_failure_get_acked")]
unsafe extern "C-unwind" fn MPIX_Comm_failure_get_acked(
    comm: comm::Foreign,
    group: *mut group::Foreign,
) -> c_int {
    let ends = EndsPanics;
    let code = unsafe { acknowledged(comm::input(comm), group) };
    std::mem::forget(ends);
    code_out(code)
}

/// The failed processes that are acknowledged are the first ones of the group of all.
unsafe fn acknowledged(comm: usize, group: *mut group::Foreign) -> c_int {
    let (mut count, mut failed, mut made) = (0, UNSET, UNSET);
    unsafe {
        let mut code = core!(MPIX_Comm_ack_failed)(comm, 0, &mut count);
        if code == abi::MPI_SUCCESS {
            code = core!(MPIX_Comm_get_failed)(comm, &mut failed);
        }
        if code != abi::MPI_SUCCESS {
            return code;
        }
        let mut range = [0, count - 1, 1];
        let ranges = c_int::from(count > 0);
        code = core!(MPI_Group_range_incl)(failed, ranges, &mut range, &mut made);
        core!(MPI_Group_free)(&mut failed);
        group::output(group, made);
        code
    }
}

aliases! {
    "MPIX_Comm_failure_ack" => "PMPIX_Comm_failure_ack";
    "MPIX_Comm_failure_get_acked" => "PMPIX_Comm_failure_get_acked";
}
