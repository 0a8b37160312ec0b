//! Errors of the tool interface, and the checks that its calls share.

use crate::state::library::{Running, latest};
use oxmpi_abi::constants as abi;
use std::ffi::c_int;
use std::sync::atomic::Ordering;

/// An error is the code that the function returns.
pub(crate) type Result<T> = std::result::Result<T, c_int>;

pub(super) fn at<T>(all: &[T], index: c_int) -> Result<&T> {
    usize::try_from(index).ok().and_then(|at| all.get(at)).ok_or(abi::MPI_T_ERR_INVALID_INDEX)
}

/// MPI, whose counters remain after its end. `None` before its initialisation.
/// # Errors
/// Only another thread may call MPI, so this thread must not read its counters.
pub(super) fn measured() -> Result<Option<&'static Running>> {
    let Some(library) = latest() else { return Ok(None) };
    let is_open = library.has_threads.load(Ordering::Relaxed)
        || std::thread::current().id() == library.first_thread;
    if is_open { Ok(Some(library)) } else { Err(abi::MPI_T_ERR_NOT_ACCESSIBLE) }
}
