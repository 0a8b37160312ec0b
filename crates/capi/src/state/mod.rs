//! What exists between the calls: types, tables, and look-ups. Nothing here calls an error handler
//! or runs an operation.

pub(crate) mod accelerator;
pub(crate) mod call_note;
pub(crate) mod context_cache;
pub(crate) mod extra_state;
pub(crate) mod fortran;
pub(crate) mod grequests;
pub(crate) mod handlers;
pub(crate) mod kernels;
pub(crate) mod library;
pub(crate) mod memory;
pub(crate) mod named;
pub(crate) mod objects;
pub(crate) mod on;
pub(crate) mod predefined;
pub(crate) mod sessions;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value of a lock, even after a panic: code under the locks of this crate does not panic
/// between two related changes.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
