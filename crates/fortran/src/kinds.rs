//! Arrays of longer default kinds than those of the modules.
//!
//! A build system may call the compiler itself, with the modules for the usual kinds and an option
//! such as `-fdefault-real-8`. MPI_REAL then is the datatype for REALs of 4 bytes, and the program
//! passes REALs of 8. Entry points with array descriptors refuse them.

use crate::abi;
use crate::by_hand::refuse;
use crate::sections::ArrayDescriptor;
use std::ffi::c_int;

/// A datatype for a default kind.
struct DefaultKind {
    name: &'static str,
    bytes: i64,
    is_complex: bool,
}

/// The datatypes in the order of their handles.
const DEFAULT_KINDS: [DefaultKind; 4] = [
    DefaultKind { name: "MPI_REAL", bytes: 4, is_complex: false },
    DefaultKind { name: "MPI_COMPLEX", bytes: 8, is_complex: true },
    DefaultKind { name: "MPI_DOUBLE_PRECISION", bytes: 8, is_complex: false },
    DefaultKind { name: "MPI_DOUBLE_COMPLEX", bytes: 16, is_complex: true },
];
const _: () = assert!(
    abi::MPI_COMPLEX == abi::MPI_REAL + 1
        && abi::MPI_DOUBLE_PRECISION == abi::MPI_REAL + 2
        && abi::MPI_DOUBLE_COMPLEX == abi::MPI_REAL + 3
);

/// The name of the datatype if it is for a default kind, and the elements have a longer kind of the
/// same type.
#[inline(always)]
pub(crate) fn longer_than(array: &ArrayDescriptor, datatype: c_int) -> Option<&'static str> {
    let at = (datatype as usize).wrapping_sub(abi::MPI_REAL);
    let default = DEFAULT_KINDS.get(at)?;
    (array.element_bytes() > default.bytes && is_complex(array) == Some(default.is_complex))
        .then_some(default.name)
}

/// Whether the elements are COMPLEX; `None` if they are not REAL either. The types are the numbers
/// of GNU Fortran, where an attribute from 0 to 2 stands before them, and of flang.
#[cold]
fn is_complex(array: &ArrayDescriptor) -> Option<bool> {
    match array.element_type() {
        [0..=2, 3, _] | [25..=31, ..] => Some(false),
        [0..=2, 4, _] | [32..=38, ..] => Some(true),
        _ => None,
    }
}

/// # Errors
/// Always, after the error handler was called.
#[cold]
pub(crate) fn refuse_longer(procedure: &str, datatype: &str) -> c_int {
    let reason = format!(
        "the array has a longer kind than {datatype}; with an option such as -fdefault-real-8, \
         compile with mpifort, or with the modules of 'mpifort -fdefault-real-8 -showme:incdirs'"
    );
    refuse(&procedure.to_uppercase(), abi::MPI_ERR_TYPE, &reason)
}
