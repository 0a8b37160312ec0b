//! What the functions of the tool interface hand out.

use super::Result;
use oxmpi_abi::constants as abi;
use oxmpi_param::Level;
use std::ffi::{CStr, c_char, c_int};

/// Writes a result that the program must want.
///
/// # Safety
/// A place that is not null must be valid for writing.
pub(super) unsafe fn put<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes a result that the program may not want: then the place is null.
///
/// # Safety
/// As [`put`].
pub(super) unsafe fn put_wanted<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, and valid by the contract of this function.
        unsafe { place.write(value) };
    }
}

/// Reads a place that the program must give.
///
/// # Safety
/// A place that is not null must be valid for reading.
pub(super) unsafe fn fetch<T: Copy>(place: *const T) -> Result<T> {
    if place.is_null() {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, and valid by the contract of this function.
    Ok(unsafe { place.read() })
}

/// Writes a string as MPI-5.0 section 15.3.3 says: at most as many characters as there is room for, with the closing zero;
/// the room that it needs as a whole goes to the length. Without a length there is nothing to do; without a buffer, or room, only
/// the length is told.
///
/// # Safety
/// `length` must be null or valid, `buffer` null or valid for so many characters.
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
    // SAFETY: as above.
    unsafe { length.write(text.len() as c_int + 1) };
}

/// Writes as many indices as there is room for.
///
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

/// A name that the program passes.
///
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

/// The verbosity level of something for these people. What helps them first and what helps only some is not told apart.
pub(super) const fn verbosity(level: Level) -> c_int {
    match level {
        Level::User => abi::MPI_T_VERBOSITY_USER_BASIC,
        Level::Tune => abi::MPI_T_VERBOSITY_TUNER_BASIC,
        Level::Develop => abi::MPI_T_VERBOSITY_MPIDEV_BASIC,
    }
}
