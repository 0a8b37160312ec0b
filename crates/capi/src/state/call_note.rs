//! The number of the current call, which the launcher reads to report the last call of a rank that
//! died.

use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

/// The cell for calls without a launcher, and before its page is mapped.
static NOWHERE: AtomicU16 = AtomicU16::new(0);

/// The cell for the number of the current call. The launcher reads it to report the last call of a
/// rank that died.
static NOTE: AtomicPtr<AtomicU16> = AtomicPtr::new((&raw const NOWHERE).cast_mut());

/// Sets the cell for calls, and copies the current call (MPI_Init) to it.
pub(crate) fn note_calls_in(cell: &'static AtomicU16) {
    cell.store(NOWHERE.load(Ordering::Relaxed), Ordering::Relaxed);
    NOTE.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Release);
}

/// Notes a call by its number plus one; 0 means no call. This is one plain store, since every call
/// makes it.
#[inline(always)]
pub(crate) fn entered(id: u16) {
    // SAFETY: a pointer to `NOWHERE` or to the argument of `note_calls_in`, which live forever.
    unsafe { &*NOTE.load(Ordering::Relaxed) }.store(id + 1, Ordering::Relaxed);
}

pub(crate) fn last_call() -> u16 {
    // SAFETY: a pointer to `NOWHERE` or to the argument of `note_calls_in`, which live forever.
    unsafe { &*NOTE.load(Ordering::Relaxed) }.load(Ordering::Relaxed)
}
