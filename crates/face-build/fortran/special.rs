//! Special addresses: entry points pass those of the standard ABI.

pub(crate) use crate::{SONAME, VERSION};

use oxmpi_abi::constants as abi;
use std::ffi::{c_int, c_void};

pub(crate) fn weights_in(weights: *const c_int) -> *const c_int {
    weights
}

#[inline(always)]
pub(crate) fn is_in_place(address: *const c_void) -> bool {
    address.addr() == abi::MPI_IN_PLACE
}

#[inline(always)]
pub(crate) fn address_in(address: *const c_void) -> *const c_void {
    address
}

/// No Fortran program gets the address of a detached buffer.
pub(crate) unsafe fn detached_out(_: *mut *mut c_void) {}
