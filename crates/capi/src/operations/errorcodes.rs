//! Error classes, codes and texts that the program adds (MPI-5.0 section 9.5). The functions may be
//! called at any time.

use crate::state::locked;
use crate::state::objects::objects;
use crate::state::predefined::Predefined;
use oxmpi_abi::constants as abi;
use oxmpi_objects::error::Result;
use oxmpi_objects::errorcode::ErrorCodes;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// The value of the attribute MPI_LASTUSEDCODE, whose address programs get.
static LAST_USED: AtomicI32 = AtomicI32::new(abi::MPI_ERR_LASTCODE);

pub(crate) fn last_used() -> Predefined {
    let value = LAST_USED.load(Ordering::Relaxed) as isize;
    Predefined { address: LAST_USED.as_ptr().cast_const().cast(), value }
}

fn change(change: impl FnOnce(&mut ErrorCodes) -> Result<()>) -> Result<()> {
    change(&mut locked(&objects().codes))
}

fn add(add: impl FnOnce(&mut ErrorCodes) -> Result<c_int>) -> Result<c_int> {
    let mut codes = locked(&objects().codes);
    let added = add(&mut codes)?;
    // Under the lock, so that the value never decreases.
    LAST_USED.store(codes.last_used(), Ordering::Relaxed);
    Ok(added)
}

/// Test of this module: tests/c/errors_added.c.
pub(crate) fn add_error_class() -> Result<c_int> {
    add(ErrorCodes::add_class)
}

pub(crate) fn add_error_code(errorclass: c_int) -> Result<c_int> {
    add(|codes| codes.add_code(errorclass))
}

pub(crate) fn add_error_string(errorcode: c_int, string: &[u8]) -> Result<()> {
    change(|codes| codes.set_text(errorcode, string))
}

pub(crate) fn remove_error_class(errorclass: c_int) -> Result<()> {
    change(|codes| codes.remove_class(errorclass))
}

/// The number is not used again, nor is that of a removed class.
pub(crate) fn remove_error_code(errorcode: c_int) -> Result<()> {
    change(|codes| codes.remove_code(errorcode))
}

pub(crate) fn remove_error_string(errorcode: c_int) -> Result<()> {
    change(|codes| codes.remove_text(errorcode))
}
