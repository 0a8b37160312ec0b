//! Functions of the other ABI beyond the standard: conversions for Fortran, and predefined
//! functions.
#![allow(non_snake_case)]

use crate::aliases;
use crate::convert::*;
use crate::files;
use crate::handles::*;
use crate::statuses::*;
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

/// A file in Fortran is an integer of the library.
#[unsafe(export_name = "PMPI_File_c2f")]
unsafe extern "C" fn file_c2f(file: file::Foreign) -> c_int {
    unsafe { files::MPI_File_toint(file) }
}

#[unsafe(export_name = "PMPI_File_f2c")]
unsafe extern "C" fn file_f2c(file: c_int) -> file::Foreign {
    unsafe { files::MPI_File_fromint(file) }
}

/// The status of Fortran has the five integers of C.
#[unsafe(export_name = "PMPI_Status_c2f")]
unsafe extern "C" fn status_c2f(from: *const ForeignStatus, to: *mut ForeignStatus) -> c_int {
    if from.is_null() || to.is_null() {
        return code_out(abi::MPI_ERR_ARG);
    }
    unsafe { *to = *from };
    0
}

aliases! {
    "MPI_File_c2f" => "PMPI_File_c2f";
    "MPI_File_f2c" => "PMPI_File_f2c";
    "MPI_Status_c2f" => "PMPI_Status_c2f";
    "MPI_Status_f2c" => "PMPI_Status_c2f";
    "PMPI_Status_f2c" => "PMPI_Status_c2f";
}
