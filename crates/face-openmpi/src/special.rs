//! Special addresses, and the version of MPI of this ABI.

use crate::convert::{FOREIGN_IN_PLACE, FOREIGN_UNWEIGHTED, FOREIGN_WEIGHTS_EMPTY};
use oxmpi_abi::constants as abi;
use std::ffi::{c_int, c_void};
use std::ptr;

/// The name of this library.
pub(crate) const SONAME: &str = "libmpi.so.40";

/// The version of MPI whose constants this ABI has.
pub(crate) const VERSION: (c_int, c_int) = (4, 0);

/// A handle of the tool interface, which is a pointer in all ABIs.
pub(crate) fn pvar_in(handle: usize) -> usize {
    if handle == usize::MAX { abi::MPI_T_PVAR_ALL_HANDLES } else { handle }
}

pub(crate) fn weights_in(weights: *const c_int) -> *const c_int {
    match weights.addr().cast_signed() {
        FOREIGN_UNWEIGHTED => ptr::without_provenance(abi::MPI_UNWEIGHTED),
        FOREIGN_WEIGHTS_EMPTY => ptr::without_provenance(abi::MPI_WEIGHTS_EMPTY),
        _ => weights,
    }
}

#[inline(always)]
pub(crate) fn is_in_place(address: *const c_void) -> bool {
    address.addr().cast_signed() == FOREIGN_IN_PLACE
}

/// The address of a buffer.
#[inline(always)]
pub(crate) fn address_in(address: *const c_void) -> *const c_void {
    if is_in_place(address) { ptr::without_provenance(abi::MPI_IN_PLACE) } else { address }
}

/// This ABI has no special address of a detached buffer.
pub(crate) unsafe fn detached_out(_: *mut *mut c_void) {}
