//! `MPI_Status`.

use std::ffi::c_int;
use std::mem::{align_of, offset_of, size_of};

/// `MPI_Status`: the result of a receive or a wait, in 32 bytes.
///
/// In C the first three fields are public, as `MPI_SOURCE`, `MPI_TAG` and `MPI_ERROR`. Only the
/// library uses `internal`. A program may copy a whole status. A tool may convert a status between
/// two libraries only by `MPI_Status_get_*` and `MPI_Status_set_*`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub source: c_int,
    pub tag: c_int,
    /// An error code, written only by calls that complete several requests.
    pub error: c_int,
    /// Byte count and cancelled flag.
    pub internal: [c_int; 5],
}

const _: () = {
    assert!(size_of::<Status>() == 32);
    assert!(align_of::<Status>() == 4);
    assert!(offset_of!(Status, source) == 0);
    assert!(offset_of!(Status, tag) == 4);
    assert!(offset_of!(Status, error) == 8);
    assert!(offset_of!(Status, internal) == 12);
};
