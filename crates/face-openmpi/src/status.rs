//! The layout of a status: 24 bytes.

use std::ffi::c_int;

/// `MPI_Status` of Open MPI. A status in Fortran is an array of six integers with the same bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ForeignStatus {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) error: c_int,
    cancelled: c_int,
    /// The lower and the upper half: a status of Fortran is aligned as an INTEGER.
    count: [c_int; 2],
}

impl ForeignStatus {
    /// The private fields of the standard ABI's status: the count and whether it was cancelled.
    pub(crate) fn internal(&self) -> [c_int; 5] {
        let [low, high] = self.count;
        [low, high, c_int::from(self.cancelled != 0), 0, 0]
    }

    #[inline(always)]
    pub(crate) fn set_internal(&mut self, [low, high, cancelled, ..]: [c_int; 5]) {
        self.count = [low, high];
        self.cancelled = c_int::from(cancelled != 0);
    }
}
