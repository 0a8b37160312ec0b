//! The functions that MPICH's C++ library (`libmpicxx.so.12`) calls. It passes functions of its
//! own, which call the functions of the program.
#![allow(non_snake_case)]

use crate::callbacks::FunctionState;
use crate::convert::keyval_in;
use crate::handles::*;
use crate::states::{Function, KeyState, last_made};
use oxmpi_foreign::boxed;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::Ordering;

/// An operation's function is called by this one.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPII_Op_set_cxx(op: op::Foreign, cxx: *mut c_void) {
    if let Some(state) = unsafe { last_made::<FunctionState>(op::input(op)) } {
        state.cxx.store(cxx, Ordering::Relaxed);
    }
}

/// An error handler's function is called by this one.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPII_Errhandler_set_cxx(errhandler: errhandler::Foreign, cxx: *mut c_void) {
    if let Some(state) = unsafe { last_made::<FunctionState>(errhandler::input(errhandler)) } {
        state.cxx.store(cxx, Ordering::Relaxed);
    }
}

/// The functions of a key, and those of the C++ library that call them. It stays for the rest of
/// the process.
struct CxxKey {
    copy_caller: Function,
    delete_caller: Function,
    copy: Function,
    delete: Function,
    extra: *mut c_void,
}

/// The functions of a key are called by these ones.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPII_Keyval_set_proxy(key: c_int, copy: *mut c_void, delete: *mut c_void) {
    let Some(state) = (unsafe { last_made::<KeyState>(keyval_in(key) as usize) }) else { return };
    let all = CxxKey {
        copy_caller: copy,
        delete_caller: delete,
        copy: state.copy.load(Ordering::Relaxed),
        delete: state.delete.load(Ordering::Relaxed),
        extra: state.extra.load(Ordering::Relaxed),
    };
    state.copy.store(copy_attribute as *mut c_void, Ordering::Relaxed);
    state.delete.store(delete_attribute as *mut c_void, Ordering::Relaxed);
    state.extra.store(boxed(all), Ordering::Relaxed);
}

pub(crate) unsafe fn operate(
    cxx: Function,
    function: Function,
    from: *mut c_void,
    to: *mut c_void,
    count: &mut c_int,
    datatype: &mut c_int,
) {
    type Operate = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int, c_int, Function);
    unsafe { transmute::<Function, Operate>(cxx)(from, to, *count, *datatype, function) };
}

/// Calls the function of an error handler, if the C++ library does.
pub(crate) unsafe fn handle(
    state: &FunctionState,
    kind: &str,
    object: *mut c_void,
    code: &mut c_int,
) -> bool {
    type Handle = unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut c_int, Function);
    let kind = match kind {
        "file" => 1,
        "win" => 2,
        _ => 0,
    };
    let Some(cxx) = state.cxx() else { return false };
    unsafe { transmute::<Function, Handle>(cxx)(kind, object, code, state.function) };
    true
}

/// An attribute is a pointer.
const POINTER: c_int = 0;

unsafe extern "C-unwind" fn copy_attribute(
    object: c_int,
    key: c_int,
    all: *const CxxKey,
    from: *mut c_void,
    to: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    type Copy = unsafe extern "C-unwind" fn(
        Function,
        c_int,
        c_int,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_int,
    ) -> c_int;
    unsafe {
        let caller: Copy = transmute((*all).copy_caller);
        caller((*all).copy, object, key, (*all).extra, POINTER, from, to, flag)
    }
}

unsafe extern "C-unwind" fn delete_attribute(
    object: c_int,
    key: c_int,
    value: *mut c_void,
    all: *const CxxKey,
) -> c_int {
    type Delete = unsafe extern "C-unwind" fn(
        Function,
        c_int,
        c_int,
        c_int,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    unsafe {
        let caller: Delete = transmute((*all).delete_caller);
        caller((*all).delete, object, key, POINTER, value, (*all).extra)
    }
}
