//! Statuses: five integers, of which three are public.

use crate::convert::*;
use oxmpi_abi::types::Status;
use std::ffi::c_int;
use std::ptr;

/// `MPI_Status` of MPICH.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ForeignStatus {
    count_low: c_int,
    /// Bit 0 says whether the operation was cancelled. The others are the high bits of the count.
    count_high: c_int,
    source: c_int,
    tag: c_int,
    error: c_int,
}

impl ForeignStatus {
    /// The same status in this ABI.
    pub(crate) unsafe fn of(status: &Status) -> ForeignStatus {
        let mut foreign =
            ForeignStatus { count_low: 0, count_high: 0, source: 0, tag: 0, error: 0 };
        unsafe { status_out(&mut foreign, status) };
        foreign
    }
}

/// No function stores this value in a field.
const NOT_WRITTEN: c_int = c_int::MIN;

/// A status that no function has written.
pub(crate) const UNWRITTEN: Status =
    Status { source: NOT_WRITTEN, tag: NOT_WRITTEN, error: NOT_WRITTEN, internal: [0; 5] };

#[inline(always)]
fn is_ignored(status: *const ForeignStatus) -> bool {
    status.addr().cast_signed() == FOREIGN_STATUS_IGNORE
}

/// The address for the C function: null for MPI_STATUS_IGNORE.
#[inline(always)]
pub(crate) fn status_place(status: *const ForeignStatus, place: &mut Status) -> *mut Status {
    if is_ignored(status) || status.is_null() { ptr::null_mut() } else { place }
}

/// The status of a caller.
pub(crate) unsafe fn status_in(status: *const ForeignStatus) -> Status {
    if is_ignored(status) || status.is_null() {
        return Status::default();
    }
    let foreign = unsafe { *status };
    let high = foreign.count_high.cast_unsigned() >> 1;
    Status {
        source: rank_in(foreign.source),
        tag: tag_in(foreign.tag),
        error: code_in(foreign.error),
        internal: [foreign.count_low, high.cast_signed(), foreign.count_high & 1, 0, 0],
    }
}

/// Stores a status that the C function has written. The error stays unless it was written.
#[inline(always)]
pub(crate) unsafe fn status_out(to: *mut ForeignStatus, from: &Status) {
    if is_ignored(to) || to.is_null() {
        return;
    }
    if from.error != NOT_WRITTEN {
        unsafe { (*to).error = code_out(from.error) };
    }
    if from.source == NOT_WRITTEN {
        return;
    }
    let [low, high, cancelled, ..] = from.internal;
    unsafe {
        (*to).count_low = low;
        (*to).count_high = high << 1 | c_int::from(cancelled != 0);
        (*to).source = rank_out(from.source);
        (*to).tag = tag_out(from.tag);
    }
}

/// The statuses of several requests.
pub(crate) struct Statuses(Vec<Status>);

impl Statuses {
    pub(crate) fn new(places: *mut ForeignStatus, count: c_int) -> Statuses {
        let is_none = is_ignored(places) || places.is_null();
        let count = if is_none { 0 } else { usize::try_from(count).unwrap_or(0) };
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
