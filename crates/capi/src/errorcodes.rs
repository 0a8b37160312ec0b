//! Error classes, codes and texts that the program adds (MPI-5.0 section 9.5). The functions may be
//! called at any time.

use crate::errors::outcome;
use crate::library::{null, put};
use crate::objects::{locked, objects};
use crate::strings::text;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_objects::error::Result;
use oxmpi_objects::errorcode::ErrorCodes;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

/// The value of the attribute MPI_LASTUSEDCODE, whose address programs get.
static LAST_USED: AtomicI32 = AtomicI32::new(abi::MPI_ERR_LASTCODE);

pub(crate) fn last_used() -> *const c_int {
    LAST_USED.as_ptr()
}

fn change(change: impl FnOnce(&mut ErrorCodes) -> Result<()>) -> Result<()> {
    change(&mut locked(&objects().codes))
}

fn add(
    place: *mut c_int,
    what: &str,
    add: impl FnOnce(&mut ErrorCodes) -> Result<c_int>,
) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    let added = {
        let mut codes = locked(&objects().codes);
        let added = add(&mut codes)?;
        // Under the lock, so that the value never decreases.
        LAST_USED.store(codes.last_used(), Ordering::Relaxed);
        added
    };
    // SAFETY: the C program passes a place for an integer.
    unsafe { put(place, added, what) }
}

mpi! {
    /// Test of this module: tests/c/errors_added.c.
    fn MPI_Add_error_class(errorclass: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Add_error_class, None, add(errorclass, "errorclass", ErrorCodes::add_class))
    }

    fn MPI_Add_error_code(errorclass: c_int, errorcode: *mut c_int) -> c_int {
        let result = add(errorcode, "errorcode", |codes| codes.add_code(errorclass));
        outcome(FuncId::MPI_Add_error_code, None, result)
    }

    fn MPI_Add_error_string(errorcode: c_int, string: *const c_char) -> c_int {
        // SAFETY: the C program passes a string.
        let string = unsafe { text(string, "string") };
        let result = string.and_then(|string| change(|codes| codes.set_text(errorcode, string)));
        outcome(FuncId::MPI_Add_error_string, None, result)
    }

    fn MPI_Remove_error_class(errorclass: c_int) -> c_int {
        outcome(FuncId::MPI_Remove_error_class, None, change(|codes| codes.remove_class(errorclass)))
    }

    /// The number is not used again, nor is that of a removed class.
    fn MPI_Remove_error_code(errorcode: c_int) -> c_int {
        outcome(FuncId::MPI_Remove_error_code, None, change(|codes| codes.remove_code(errorcode)))
    }

    fn MPI_Remove_error_string(errorcode: c_int) -> c_int {
        outcome(FuncId::MPI_Remove_error_string, None, change(|codes| codes.remove_text(errorcode)))
    }
}
