//! Conversions of numbers, special addresses and texts. The build script writes the constants.

use oxmpi_abi::constants as abi;
use oxmpi_foreign::Room;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// A number that is no constant of any set.
const NO_CHOICE: c_int = c_int::MIN;

/// A bit that is no constant of any set.
const NO_BITS: c_int = 1 << 30;

mod constants {
    #![allow(dead_code)] // some constants are needed in one direction only
    use super::{NO_BITS, NO_CHOICE};
    use std::ffi::c_int;

    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}
pub(crate) use constants::*;

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

/// The start value of a number that a function may store.
pub(crate) const NOT_STORED: c_int = c_int::MIN + 1;

/// The number at a place that the call reads and changes.
pub(crate) unsafe fn number_at(place: *mut c_int, convert: fn(c_int) -> c_int) -> c_int {
    if place.is_null() { NOT_STORED } else { convert(unsafe { *place }) }
}

/// The length of a list, which the call reads and changes.
pub(crate) unsafe fn length_at(place: *const c_int) -> c_int {
    if place.is_null() { 0 } else { unsafe { *place } }
}

pub(crate) fn number_place(place: *mut c_int, number: &mut c_int) -> *mut c_int {
    if place.is_null() { ptr::null_mut() } else { number }
}

/// Stores a number that the C function has stored.
pub(crate) unsafe fn number_out(place: *mut c_int, number: c_int, out: fn(c_int) -> c_int) {
    if number != NOT_STORED && !place.is_null() {
        unsafe { place.write(out(number)) };
    }
}

/// A list of converted numbers.
pub(crate) unsafe fn numbers(
    list: *const c_int,
    count: c_int,
    convert: fn(c_int) -> c_int,
) -> Vec<c_int> {
    let count = if list.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    (0..count).map(|at| convert(unsafe { *list.add(at) })).collect()
}

pub(crate) fn list_place(list: *const c_int, numbers: &[c_int]) -> *const c_int {
    if list.is_null() { list } else { numbers.as_ptr() }
}

/// Converts numbers that the C function has stored.
pub(crate) unsafe fn numbers_out(list: *mut c_int, count: c_int, convert: fn(c_int) -> c_int) {
    let count = if list.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    for at in 0..count {
        unsafe { *list.add(at) = convert(*list.add(at)) };
    }
}

pub(crate) unsafe fn codes_out(list: *mut c_int, count: c_int) {
    unsafe { numbers_out(list, count, code_out) };
}

pub(crate) unsafe fn sum(list: *const c_int, count: c_int) -> c_int {
    unsafe { numbers(list, count, |number| number) }.into_iter().fold(0, c_int::saturating_add)
}

/// The address of the room for the C function: null if the caller's is.
pub(crate) fn room_place(is_null: bool, room: &mut Room) -> *mut c_char {
    if is_null { ptr::null_mut() } else { room.as_mut_ptr() }
}

pub(crate) unsafe fn at_most(length: *mut c_int, most: usize) {
    let most = c_int::try_from(most).unwrap_or(c_int::MAX);
    unsafe { *length = (*length).min(most) };
}
