//! Special addresses, and the version of MPI of this ABI.

use crate::convert::{FOREIGN_BUFFER_AUTOMATIC, FOREIGN_IN_PLACE};
use oxmpi_abi::constants as abi;
use std::ffi::{c_int, c_void};
use std::ptr;

/// The name of this library.
pub(crate) const SONAME: &str = "libmpi.so.12";

/// The version of MPI whose constants this ABI has.
pub(crate) const VERSION: (c_int, c_int) = (4, 1);

/// The objects whose addresses mean that edges have no weights.
static UNWEIGHTED: c_int = 0;
static WEIGHTS_EMPTY: c_int = 0;

/// A pointer variable that programs read.
#[repr(transparent)]
pub(crate) struct PointerVariable(*const c_int);

// SAFETY: the variable never changes.
unsafe impl Sync for PointerVariable {}

#[unsafe(no_mangle)]
pub(crate) static MPI_UNWEIGHTED: PointerVariable = PointerVariable(&raw const UNWEIGHTED);
#[unsafe(no_mangle)]
pub(crate) static MPI_WEIGHTS_EMPTY: PointerVariable = PointerVariable(&raw const WEIGHTS_EMPTY);

/// The object whose address stands for all handles of performance variables.
static ALL_HANDLES: c_int = 0;

#[unsafe(no_mangle)]
pub(crate) static MPI_T_PVAR_ALL_HANDLES: PointerVariable = PointerVariable(&raw const ALL_HANDLES);

/// A handle of the tool interface, which is a pointer in all ABIs.
pub(crate) fn pvar_in(handle: usize) -> usize {
    if handle == (&raw const ALL_HANDLES).addr() { abi::MPI_T_PVAR_ALL_HANDLES } else { handle }
}

pub(crate) fn weights_in(weights: *const c_int) -> *const c_int {
    if ptr::eq(weights, &raw const UNWEIGHTED) {
        ptr::without_provenance(abi::MPI_UNWEIGHTED)
    } else if ptr::eq(weights, &raw const WEIGHTS_EMPTY) {
        ptr::without_provenance(abi::MPI_WEIGHTS_EMPTY)
    } else {
        weights
    }
}

#[inline(always)]
pub(crate) fn is_in_place(address: *const c_void) -> bool {
    address.addr().cast_signed() == FOREIGN_IN_PLACE
}

/// The address of a buffer.
#[inline(always)]
pub(crate) fn address_in(address: *const c_void) -> *const c_void {
    match address.addr().cast_signed() {
        FOREIGN_IN_PLACE => ptr::without_provenance(abi::MPI_IN_PLACE),
        FOREIGN_BUFFER_AUTOMATIC => ptr::without_provenance(abi::MPI_BUFFER_AUTOMATIC),
        _ => address,
    }
}

/// Converts the address of a detached buffer.
pub(crate) unsafe fn detached_out(place: *mut *mut c_void) {
    if !place.is_null() && unsafe { (*place).addr() } == abi::MPI_BUFFER_AUTOMATIC {
        unsafe { *place = ptr::without_provenance_mut(FOREIGN_BUFFER_AUTOMATIC.cast_unsigned()) };
    }
}
