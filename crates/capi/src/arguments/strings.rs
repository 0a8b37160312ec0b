//! Strings of the program.

use crate::arguments::{null, put};
use oxmpi_objects::error::Result;
use std::ffi::{CStr, c_char, c_int};

/// The characters without the closing zero.
/// # Safety
/// `text` must be null or point to a string with a closing zero that no thread writes during the
/// call.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and a string by the contract of this function.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Copies a string with its closing zero. A longer string is cut.
/// # Safety
/// `room` must be null or have place for `size` characters; `size` must be at least 1.
pub(crate) unsafe fn put_text(
    text: &[u8],
    size: usize,
    room: *mut c_char,
    what: &str,
) -> Result<()> {
    if room.is_null() {
        return Err(null(what));
    }
    let len = text.len().min(size.saturating_sub(1));
    // SAFETY: `len + 1 <= size` characters fit by the contract of this function.
    unsafe {
        room.copy_from_nonoverlapping(text.as_ptr().cast(), len);
        room.add(len).write(0);
    }
    Ok(())
}

/// Copies a string, cut to the room, and stores the size for the whole string with its closing
/// zero. Without room only the size is stored.
/// # Safety
/// `place` must be null or have place for `room` characters; `size` must be writable.
pub(crate) unsafe fn put_sized(
    text: &[u8],
    room: usize,
    place: *mut c_char,
    what: &str,
    size: *mut c_int,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        if room > 0 {
            put_text(text, room, place, what)?;
        }
        size.write(text.len() as c_int + 1);
    }
    Ok(())
}

/// Copies a string of at most `max` characters with its closing zero. The stored length does not
/// count the zero.
/// # Safety
/// `room` must be null or have place for `max` characters, `length` be null or writable.
pub(crate) unsafe fn put_named(
    text: &[u8],
    max: c_int,
    room: *mut c_char,
    what: &str,
    length: *mut c_int,
) -> Result<()> {
    if length.is_null() {
        return Err(null("resultlen"));
    }
    let len = text.len().min(max as usize - 1);
    // SAFETY: by the contract of this function.
    unsafe {
        put_text(&text[..len], max as usize, room, what)?;
        put(length, len as c_int, "resultlen")
    }
}
