//! Conversions of numbers and texts. The build script writes the constants.

use crate::core;
use oxmpi_foreign::Room;
use std::ffi::{c_char, c_int};
use std::ptr;

mod constants {
    #![allow(clippy::all)] // generated
    #![allow(dead_code)] // some constants are needed in one direction only
    use std::ffi::c_int;

    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}
pub(crate) use constants::*;

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

/// The sum of numbers that are no constants.
pub(crate) unsafe fn sum(list: *const c_int, count: c_int) -> c_int {
    unsafe { numbers(list, count, |number| number) }.into_iter().fold(0, c_int::saturating_add)
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

/// Converts the error codes that a call has stored which spawns processes.
pub(crate) unsafe fn codes_out(list: *mut c_int) {
    unsafe { numbers_out(list, core!(spawned_codes)(), code_out) };
}

/// The address of the room for the C function: null if the caller's is.
pub(crate) fn room_place(is_null: bool, room: &mut Room) -> *mut c_char {
    if is_null { ptr::null_mut() } else { room.as_mut_ptr() }
}

pub(crate) unsafe fn at_most(length: *mut c_int, most: usize) {
    let most = c_int::try_from(most).unwrap_or(c_int::MAX);
    unsafe { *length = (*length).min(most) };
}
