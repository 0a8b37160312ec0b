//! The layout of a status: five integers.

use std::ffi::c_int;

/// `MPI_Status` of MPICH.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ForeignStatus {
    count_low: c_int,
    /// Bit 0 says whether the operation was cancelled. The others are the high bits of the count.
    count_high: c_int,
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) error: c_int,
}

impl ForeignStatus {
    /// The private fields of the standard ABI's status: the count and whether it was cancelled.
    pub(crate) fn internal(&self) -> [c_int; 5] {
        let high = self.count_high.cast_unsigned() >> 1;
        [self.count_low, high.cast_signed(), self.count_high & 1, 0, 0]
    }

    #[inline(always)]
    pub(crate) fn set_internal(&mut self, [low, high, cancelled, ..]: [c_int; 5]) {
        self.count_low = low;
        self.count_high = high << 1 | c_int::from(cancelled != 0);
    }
}
