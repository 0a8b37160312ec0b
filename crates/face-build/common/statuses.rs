//! Statuses of the other ABI, of which three integers are public.

use crate::convert::*;
pub(crate) use crate::status::ForeignStatus;
use oxmpi_abi::types::Status;
use std::ffi::c_int;
use std::ptr;

/// No function stores this value in a field.
const NOT_WRITTEN: c_int = c_int::MIN;

/// A status that no function has written.
pub(crate) const UNWRITTEN: Status =
    Status { source: NOT_WRITTEN, tag: NOT_WRITTEN, error: NOT_WRITTEN, internal: [0; 5] };

#[inline(always)]
pub(crate) fn is_ignored(status: *const ForeignStatus) -> bool {
    status.is_null() || status.addr().cast_signed() == FOREIGN_STATUS_IGNORE
}

/// The address for the C function: null for MPI_STATUS_IGNORE.
#[inline(always)]
pub(crate) fn status_place(status: *const ForeignStatus, place: &mut Status) -> *mut Status {
    if is_ignored(status) { ptr::null_mut() } else { place }
}

/// The status of a caller.
pub(crate) unsafe fn status_in(status: *const ForeignStatus) -> Status {
    if is_ignored(status) {
        return Status::default();
    }
    let foreign = unsafe { *status };
    Status {
        source: rank_in(foreign.source),
        tag: tag_in(foreign.tag),
        error: code_in(foreign.error),
        internal: foreign.internal(),
    }
}

/// The same status in the other ABI.
pub(crate) unsafe fn foreign_status(status: &Status) -> ForeignStatus {
    let mut foreign = ForeignStatus::default();
    unsafe { status_out(&mut foreign, status) };
    foreign
}

/// Stores a status that the C function has written. The error stays unless it was written.
#[inline(always)]
pub(crate) unsafe fn status_out(to: *mut ForeignStatus, from: &Status) {
    if is_ignored(to) {
        return;
    }
    if from.error != NOT_WRITTEN {
        unsafe { (*to).error = code_out(from.error) };
    }
    if from.source == NOT_WRITTEN {
        return;
    }
    unsafe {
        (*to).set_internal(from.internal);
        (*to).source = rank_out(from.source);
        (*to).tag = tag_out(from.tag);
    }
}

/// The statuses of several requests.
pub(crate) struct Statuses(Vec<Status>);

impl Statuses {
    pub(crate) fn new(places: *mut ForeignStatus, count: c_int) -> Statuses {
        let count = if is_ignored(places) { 0 } else { usize::try_from(count).unwrap_or(0) };
        Statuses(vec![UNWRITTEN; count])
    }

    pub(crate) fn place(&mut self) -> *mut Status {
        if self.0.is_empty() { ptr::null_mut() } else { self.0.as_mut_ptr() }
    }

    pub(crate) unsafe fn give(&self, places: *mut ForeignStatus) {
        for (at, status) in self.0.iter().enumerate() {
            unsafe { status_out(places.add(at), status) };
        }
    }
}
