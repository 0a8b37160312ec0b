//! Outputs and inputs of the tool interface. The C face uses them.

use super::checks::Result;
use crate::operations::info;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Info as InfoHandle;
use oxmpi_objects::info::Info;
use oxmpi_param::Level;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Checks the place of a result before the call does anything.
pub(crate) fn present<T>(place: *const T) -> Result<()> {
    if place.is_null() { Err(abi::MPI_T_ERR_INVALID) } else { Ok(()) }
}

/// Stores a result, unless `place` is null.
/// # Safety
/// A non-null `place` must be valid for writing.
pub(crate) unsafe fn put_wanted<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, and valid by the contract of this function.
        unsafe { place.write(value) };
    }
}

/// # Safety
/// A non-null `place` must be valid for reading.
pub(crate) unsafe fn fetch<T: Copy>(place: *const T) -> Result<T> {
    present(place)?;
    // SAFETY: not null, and valid by the contract of this function.
    Ok(unsafe { place.read() })
}

/// Stores a string (MPI-5.0 section 15.3.3). The string is cut to the buffer's size, with a closing
/// zero. `length` becomes the size for the whole string with its zero. Without a length nothing is
/// stored. Without a buffer, or with size 0, only the length is stored.
/// # Safety
/// `length` must be null or valid, `buffer` null or valid for `*length` characters.
pub(crate) unsafe fn put_string(text: &str, buffer: *mut c_char, length: *mut c_int) {
    if length.is_null() {
        return;
    }
    // SAFETY: not null, and valid by the contract of this function.
    let room = usize::try_from(unsafe { length.read() }).unwrap_or(0);
    if !buffer.is_null() && room > 0 {
        let len = text.len().min(room - 1);
        // SAFETY: `len + 1 <= room` characters fit by the contract of this function.
        unsafe {
            buffer.copy_from_nonoverlapping(text.as_ptr().cast(), len);
            buffer.add(len).write(0);
        }
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe { length.write(text.len() as c_int + 1) };
}

/// Stores the leading indices, for which the array has room.
/// # Safety
/// `places` must be null or valid for `len` integers.
pub(crate) unsafe fn put_indices(all: &[usize], len: c_int, places: *mut c_int) -> Result<()> {
    let room = usize::try_from(len).map_err(|_| abi::MPI_T_ERR_INVALID)?;
    let count = all.len().min(room);
    if room > 0 {
        present(places)?;
    }
    for (at, index) in all[..count].iter().enumerate() {
        // SAFETY: below `len`, so valid by the contract of this function.
        unsafe { places.add(at).write(*index as c_int) };
    }
    Ok(())
}

/// Stores the leading elements of an array, unless `places` or `len` is null.
/// # Safety
/// `len` must be null or readable, `places` null or valid for `*len` elements.
pub(crate) unsafe fn put_elements<T: Copy>(all: &[T], len: *const c_int, places: *mut T) {
    if len.is_null() || places.is_null() {
        return;
    }
    // SAFETY: not null, and valid by the contract of this function.
    let room = usize::try_from(unsafe { len.read() }).unwrap_or(0);
    // SAFETY: at most `*len` elements.
    unsafe { places.copy_from_nonoverlapping(all.as_ptr(), all.len().min(room)) };
}

/// Stores the bytes of a value.
/// # Safety
/// `place` must have room for the value, at any alignment.
pub(crate) unsafe fn put_bytes(bytes: &[u8], place: *mut c_void) {
    // SAFETY: by the contract of this function.
    unsafe { place.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// Stores the handle of a new info, unless `place` is null.
/// # Safety
/// A non-null `place` must be valid for writing.
pub(crate) unsafe fn put_info(info: Info, place: *mut InfoHandle) {
    if !place.is_null() {
        // SAFETY: not null, and valid by the contract of this function.
        unsafe { place.write(info::enlist(info)) };
    }
}

/// # Safety
/// `name` must be null or a string.
pub(crate) unsafe fn name<'a>(name: *const c_char) -> Result<&'a str> {
    present(name)?;
    // SAFETY: not null, so a string by the contract of this function.
    let name = unsafe { CStr::from_ptr(name) };
    // All names are ASCII.
    name.to_str().map_err(|_| abi::MPI_T_ERR_INVALID_NAME)
}

/// The index of the entry with a name.
pub(super) fn found(at: Option<usize>) -> Result<c_int> {
    at.map(|at| at as c_int).ok_or(abi::MPI_T_ERR_INVALID_NAME)
}

/// Basic and detailed verbosity are not distinguished.
pub(super) const fn verbosity(level: Level) -> c_int {
    match level {
        Level::User => abi::MPI_T_VERBOSITY_USER_BASIC,
        Level::Tune => abi::MPI_T_VERBOSITY_TUNER_BASIC,
        Level::Develop => abi::MPI_T_VERBOSITY_MPIDEV_BASIC,
    }
}
