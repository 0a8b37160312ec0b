//! Attributes: integers of the size of an address, or INTEGERs in the deprecated procedures.
//!
//! C has the address of a variable where Fortran has its value (MPI-5.0 section 19.3.7). Predefined
//! attributes are read from their variables. For an attribute that Fortran sets, this library makes
//! a variable, whose address the C library keeps; C programs get it. An address that C has set is
//! the integer that Fortran gets.

use super::*;
use crate::types::Aint;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The addresses of the variables for attributes that Fortran has set.
static VARIABLES: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn variables() -> MutexGuard<'static, BTreeSet<usize>> {
    VARIABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new variable with a value.
pub(super) fn variable_of(value: Aint) -> *mut c_void {
    let variable = Box::into_raw(Box::new(value));
    variables().insert(variable.expose_provenance());
    variable.cast()
}

/// The value of an attribute, by the address that the C library has.
pub(super) fn user_value(attribute: *mut c_void) -> Aint {
    match variables().contains(&attribute.addr()) {
        // SAFETY: `variable_of` has made the variable, and `free_variable` has not freed it.
        true => unsafe { *attribute.cast::<Aint>() },
        false => attribute.addr().cast_signed(),
    }
}

/// Frees the variable of an attribute that Fortran has set.
pub(super) fn free_variable(attribute: *mut c_void) {
    if variables().remove(&attribute.addr()) {
        // SAFETY: `variable_of` has made the variable, and nothing else frees it.
        drop(unsafe { Box::from_raw(attribute.cast::<Aint>()) });
    }
}

/// Sets an attribute to a new variable.
fn set(value: Aint, call: impl FnOnce(*mut c_void) -> c_int) -> c_int {
    let variable = variable_of(value);
    let code = call(variable);
    if code != 0 {
        free_variable(variable);
    }
    code
}

/// The value of a predefined attribute, which is that of a variable of the C library.
unsafe fn value_of(key: c_int, attribute: *mut c_void) -> Aint {
    match key {
        _ if attribute.is_null() => 0,
        abi::MPI_TAG_UB
        | abi::MPI_IO
        | abi::MPI_HOST
        | abi::MPI_WTIME_IS_GLOBAL
        | abi::MPI_APPNUM
        | abi::MPI_LASTUSEDCODE
        | abi::MPI_UNIVERSE_SIZE
        | abi::MPI_WIN_DISP_UNIT
        | abi::MPI_WIN_CREATE_FLAVOR
        | abi::MPI_WIN_MODEL => unsafe { *attribute.cast::<c_int>() as Aint },
        abi::MPI_WIN_SIZE => unsafe { *attribute.cast::<Aint>() },
        _ => user_value(attribute),
    }
}

/// Calls a function that reads an attribute; the value is `None` if there is none.
unsafe fn found(
    key: c_int,
    flag: *mut c_int,
    call: impl FnOnce(*mut c_void, *mut c_int) -> c_int,
) -> (c_int, Option<Aint>) {
    let (mut attribute, mut is_there): (*mut c_void, c_int) = (ptr::null_mut(), 0);
    let code = call((&raw mut attribute).cast(), &mut is_there);
    if code != 0 {
        return (code, None);
    }
    unsafe {
        put(flag, is_there);
        (code, (is_there != 0).then(|| value_of(key, attribute)))
    }
}

macro_rules! attributes {
    ($($word:ident: $get:ident $get_type:ident, $set:ident $set_type:ident;)*) => { $(
        pub(crate) unsafe fn $get(
            call: c::$get_type,
            object: *mut c_int,
            key: *mut c_int,
            value: *mut Aint,
            flag: *mut c_int,
        ) -> c_int {
            unsafe {
                let object = $word::input(object);
                let (code, attribute) =
                    found(*key, flag, |place, flag| call(object, *key, place, flag));
                if let Some(attribute) = attribute {
                    put(value, attribute);
                }
                code
            }
        }

        pub(crate) unsafe fn $set(
            call: c::$set_type,
            object: *mut c_int,
            key: *mut c_int,
            value: *mut Aint,
        ) -> c_int {
            unsafe {
                let object = $word::input(object);
                set(*value, |variable| call(object, *key, variable))
            }
        }
    )* };
}

attributes! {
    comm: comm_get_attr CommGetAttrFn, comm_set_attr CommSetAttrFn;
    datatype: type_get_attr TypeGetAttrFn, type_set_attr TypeSetAttrFn;
    win: win_get_attr WinGetAttrFn, win_set_attr WinSetAttrFn;
}

pub(crate) unsafe fn attr_get(
    call: c::AttrGetFn,
    comm: *mut c_int,
    key: *mut c_int,
    value: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    unsafe {
        let comm = comm::input(comm);
        let (code, attribute) = found(*key, flag, |place, flag| call(comm, *key, place, flag));
        if let Some(attribute) = attribute {
            // The deprecated procedures return the lower half of a longer value.
            put(value, attribute as c_int);
        }
        code
    }
}

pub(crate) unsafe fn attr_put(
    call: c::AttrPutFn,
    comm: *mut c_int,
    key: *mut c_int,
    value: *mut c_int,
) -> c_int {
    unsafe {
        let comm = comm::input(comm);
        set(*value as Aint, |variable| call(comm, *key, variable))
    }
}
