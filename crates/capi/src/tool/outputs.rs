//! Outputs and inputs of the tool interface.

use super::Result;
use oxmpi_abi::constants as abi;
use oxmpi_param::Level;
use std::ffi::{CStr, c_char, c_int};

/// # Safety
/// A non-null `place` must be valid for writing.
pub(super) unsafe fn put<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe { place.write(value) };
    Ok(())
}

/// Stores an optional result, unless `place` is null.
/// # Safety
/// A non-null `place` must be valid for writing.
pub(super) unsafe fn put_wanted<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, and valid by the contract of this function.
        unsafe { place.write(value) };
    }
}

/// # Safety
/// A non-null `place` must be valid for reading.
pub(super) unsafe fn fetch<T: Copy>(place: *const T) -> Result<T> {
    if place.is_null() {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, and valid by the contract of this function.
    Ok(unsafe { place.read() })
}

/// Stores a string (MPI-5.0 section 15.3.3). The string is cut to the buffer's size, with a closing
/// zero. `length` becomes the size for the whole string with its zero. Without a length nothing is
/// stored. Without a buffer, or with size 0, only the length is stored.
/// # Safety
/// `length` must be null or valid, `buffer` null or valid for `*length` characters.
pub(super) unsafe fn put_string(text: &str, buffer: *mut c_char, length: *mut c_int) {
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

/// Stores indices, as far as the array has room.
/// # Safety
/// `places` must be null or valid for `len` integers.
pub(super) unsafe fn put_indices(all: &[usize], len: c_int, places: *mut c_int) -> Result<()> {
    let room = usize::try_from(len).map_err(|_| abi::MPI_T_ERR_INVALID)?;
    let count = all.len().min(room);
    if count > 0 && places.is_null() {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    for (at, index) in all[..count].iter().enumerate() {
        // SAFETY: below `len`, so valid by the contract of this function.
        unsafe { places.add(at).write(*index as c_int) };
    }
    Ok(())
}

/// # Safety
/// `name` must be null or a string.
pub(super) unsafe fn name<'a>(name: *const c_char) -> Result<&'a str> {
    if name.is_null() {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, so a string by the contract of this function.
    let name = unsafe { CStr::from_ptr(name) };
    // All names are ASCII.
    name.to_str().map_err(|_| abi::MPI_T_ERR_INVALID_NAME)
}

/// Basic and detailed verbosity are not distinguished.
pub(super) const fn verbosity(level: Level) -> c_int {
    match level {
        Level::User => abi::MPI_T_VERBOSITY_USER_BASIC,
        Level::Tune => abi::MPI_T_VERBOSITY_TUNER_BASIC,
        Level::Develop => abi::MPI_T_VERBOSITY_MPIDEV_BASIC,
    }
}
