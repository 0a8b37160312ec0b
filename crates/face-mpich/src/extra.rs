//! Functions of the other ABI beyond the standard: predefined functions, and which accelerators'
//! memory the library takes.
#![allow(non_snake_case)]

use crate::aliases;
use crate::convert::*;
use crate::core;
use oxmpi_abi::constants as abi;
use std::ffi::{c_int, c_void};

/// MPI_DUP_FN and its like for the three kinds of attributes.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPIR_Dup_fn(
    _: c_int,
    _: c_int,
    _: *mut c_void,
    from: *mut c_void,
    to: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { (*to, *flag) = (from, 1) };
    0
}

/// The memory of accelerators of AMD and Intel is no buffer.
#[unsafe(export_name = "PMPIX_Query_hip_support")]
extern "C" fn MPIX_Query_hip_support() -> c_int {
    0
}

/// Whether buffers may be in the memory of accelerators of NVIDIA (0), Intel (1) or AMD (2).
#[unsafe(export_name = "PMPIX_GPU_query_support")]
unsafe extern "C-unwind" fn MPIX_GPU_query_support(kind: c_int, is_supported: *mut c_int) -> c_int {
    if is_supported.is_null() || !(0..=2).contains(&kind) {
        return code_out(abi::MPI_ERR_ARG);
    }
    unsafe { *is_supported = if kind == 0 { core!(MPIX_Query_cuda_support)() } else { 0 } };
    0
}

aliases! {
    "MPIX_Query_hip_support" => "PMPIX_Query_hip_support";
    "MPIX_Query_ze_support" => "PMPIX_Query_hip_support";
    "PMPIX_Query_ze_support" => "PMPIX_Query_hip_support";
    "MPIX_GPU_query_support" => "PMPIX_GPU_query_support";
}
