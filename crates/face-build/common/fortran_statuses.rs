//! Conversions of statuses for Fortran, where they have the bytes of those of C, with module
//! `mpi_f08` too.

use crate::aliases;
use crate::convert::code_out;
use crate::statuses::{ForeignStatus, is_ignored};
use oxmpi_abi::constants as abi;
use std::ffi::c_int;

#[unsafe(export_name = "PMPI_Status_c2f")]
unsafe extern "C" fn status_c2f(from: *const ForeignStatus, to: *mut ForeignStatus) -> c_int {
    if is_ignored(from) || is_ignored(to) {
        return code_out(abi::MPI_ERR_ARG);
    }
    unsafe { *to = *from };
    0
}

aliases! {
    "MPI_Status_c2f" => "PMPI_Status_c2f";
    "MPI_Status_f2c" => "PMPI_Status_c2f";
    "PMPI_Status_f2c" => "PMPI_Status_c2f";
    "MPI_Status_c2f08" => "PMPI_Status_c2f";
    "PMPI_Status_c2f08" => "PMPI_Status_c2f";
    "MPI_Status_f082c" => "PMPI_Status_c2f";
    "PMPI_Status_f082c" => "PMPI_Status_c2f";
    "MPI_Status_f082f" => "PMPI_Status_c2f";
    "PMPI_Status_f082f" => "PMPI_Status_c2f";
    "MPI_Status_f2f08" => "PMPI_Status_c2f";
    "PMPI_Status_f2f08" => "PMPI_Status_c2f";
}
