//! Bodies of procedures whose arguments need more than one conversion each.
//!
//! A body takes the C function that it calls, which is `MPI_X` or `PMPI_X`, and the arguments of
//! the program; lengths of CHARACTER arguments come last. It returns the value for `ierror`.
//!
//! A Fortran program guarantees that the addresses it passes are those of variables as the
//! standard describes the arguments. All unsafe functions and blocks here rely on this guarantee.
#![allow(clippy::undocumented_unsafe_blocks)] // one reason for all of them, above
#![allow(clippy::too_many_arguments)]

mod attributes;
mod callbacks;
mod grequest;
mod removed;
mod spawn;

pub(crate) use attributes::*;
pub(crate) use callbacks::*;
pub(crate) use grequest::*;
pub(crate) use removed::*;
pub(crate) use spawn::*;

use crate::c;
use crate::arguments::*;
use crate::abi;
use crate::sizes;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;
use std::ptr;

/// Reports an error that this library finds: a line with the reason, then the error handler of
/// MPI_COMM_WORLD. Returns the class.
pub(crate) fn refuse(procedure: &str, class: c_int, reason: &str) -> c_int {
    // The error handler reports the class if the line cannot be written.
    let _ = writeln!(std::io::stderr(), "{procedure}: {reason}");
    unsafe { c::PMPI_Comm_call_errhandler(abi::MPI_COMM_WORLD, class) };
    class
}

pub(crate) unsafe fn init(call: c::InitFn) -> c_int {
    with_sizes(unsafe { call(ptr::null_mut(), ptr::null_mut()) })
}

/// The result of an initialization, after which the C library learns about Fortran's types.
fn with_sizes(code: c_int) -> c_int {
    if code == 0 {
        sizes::set();
    }
    code
}

pub(crate) unsafe fn init_thread(
    call: c::InitThreadFn,
    required: *mut c_int,
    provided: *mut c_int,
) -> c_int {
    with_sizes(unsafe { call(ptr::null_mut(), ptr::null_mut(), *required, provided) })
}

pub(crate) unsafe fn info_create_env(call: c::InfoCreateEnvFn, info: *mut c_int) -> c_int {
    let mut made = UNSET;
    unsafe {
        let code = call(0, ptr::null_mut(), &mut made);
        info::output(info, made);
        code
    }
}

/// C counts the closing zero of a string, Fortran does not.
fn with_zero(len: c_int, room: usize) -> c_int {
    let room = c_int::try_from(room).unwrap_or(c_int::MAX - 1).min(c_int::MAX - 1);
    if len > 0 { len.min(room) + 1 } else { len }
}

pub(crate) unsafe fn info_get(
    call: c::InfoGetFn,
    info: *mut c_int,
    key: *mut c_char,
    valuelen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
    key_len: usize,
    value_len: usize,
) -> c_int {
    unsafe {
        let key = stripped(key, key_len);
        let len = with_zero(*valuelen, value_len).max(1) - 1;
        let len = if *valuelen < 0 { *valuelen } else { len };
        let mut room = Room::new(usize::try_from(len).unwrap_or(0) + 1);
        let mut found = 0;
        let code = call(info::input(info), key.as_ptr(), len, room.as_mut_ptr(), &mut found);
        if code == 0 {
            put(flag, found);
            if found != 0 {
                room.give(value, value_len);
            }
        }
        code
    }
}

pub(crate) unsafe fn info_get_string(
    call: c::InfoGetStringFn,
    info: *mut c_int,
    key: *mut c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
    key_len: usize,
    value_len: usize,
) -> c_int {
    unsafe {
        let key = stripped(key, key_len);
        let given = with_zero(*buflen, value_len);
        let mut room = Room::new(usize::try_from(given).unwrap_or(0));
        let (mut len, mut found) = (given, 0);
        let code = call(info::input(info), key.as_ptr(), &mut len, room.as_mut_ptr(), &mut found);
        if code == 0 {
            put(flag, found);
            if found != 0 {
                put(buflen, len - 1);
                if given > 0 {
                    room.give(value, value_len);
                }
            }
        }
        code
    }
}

pub(crate) unsafe fn session_get_nth_pset(
    call: c::SessionGetNthPsetFn,
    session: *mut c_int,
    info: *mut c_int,
    n: *mut c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
    pset_name_len: usize,
) -> c_int {
    unsafe {
        let given = with_zero(*pset_len, pset_name_len);
        let mut room = Room::new(usize::try_from(given).unwrap_or(0));
        let mut len = given;
        let code =
            call(session::input(session), info::input(info), *n, &mut len, room.as_mut_ptr());
        if code == 0 {
            put(pset_len, len - 1);
            if given > 0 {
                room.give(pset_name, pset_name_len);
            }
        }
        code
    }
}

/// The address of the buffer cannot be returned: MPI-5.0 leaves the argument unused.
pub(crate) unsafe fn buffer_detach(
    call: c::BufferDetachFn,
    _buffer_addr: *mut c_void,
    size: *mut c_int,
) -> c_int {
    let mut address: *mut c_void = ptr::null_mut();
    unsafe { call((&raw mut address).cast(), size) }
}

/// See [`buffer_detach`].
pub(crate) unsafe fn comm_detach_buffer(
    call: c::CommDetachBufferFn,
    comm: *mut c_int,
    _buffer_addr: *mut c_void,
    size: *mut c_int,
) -> c_int {
    let mut address: *mut c_void = ptr::null_mut();
    unsafe { call(comm::input(comm), (&raw mut address).cast(), size) }
}

/// See [`buffer_detach`].
pub(crate) unsafe fn session_detach_buffer(
    call: c::SessionDetachBufferFn,
    session: *mut c_int,
    _buffer_addr: *mut c_void,
    size: *mut c_int,
) -> c_int {
    let mut address: *mut c_void = ptr::null_mut();
    unsafe { call(session::input(session), (&raw mut address).cast(), size) }
}
