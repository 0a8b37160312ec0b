//! The facts of Fortran's types that the C library lacks (MPI-5.0 section 20.4.1): C programs and
//! tools ask for them by MPI_Abi_get_fortran_info and MPI_Abi_get_fortran_booleans.

use crate::{abi, c};
use std::ffi::{CStr, c_int};

/// The bytes of each datatype for a default kind. A program with other default kinds has other
/// datatypes under these names.
const SIZES: [(&CStr, &CStr); 4] = [
    (c"mpi_logical_size", c"4"),
    (c"mpi_integer_size", c"4"),
    (c"mpi_real_size", c"4"),
    (c"mpi_double_precision_size", c"8"),
];

/// Sets the facts that nobody has set. The library works without them, so errors are ignored.
pub(crate) fn set() {
    let (mut info, mut is_set) = (abi::MPI_INFO_NULL, 0);
    let (mut yes, mut no): (c_int, c_int) = (1, 0);
    let (mut yes_before, mut no_before): (c_int, c_int) = (0, 0);
    let (size, set_before) = (size_of::<c_int>() as c_int, &raw mut is_set);
    // SAFETY: MPI is initialized, and all places are variables of this function.
    unsafe {
        let before = [&raw mut yes_before, &raw mut no_before].map(|place| place.cast());
        c::PMPI_Abi_get_fortran_booleans(size, before[0], before[1], set_before);
        if is_set == 0 {
            let [yes, no] = [&raw mut yes, &raw mut no].map(|place| place.cast());
            c::PMPI_Abi_set_fortran_booleans(size, yes, no);
        }
        c::PMPI_Abi_get_fortran_info(&mut info);
        if info == abi::MPI_INFO_NULL && c::PMPI_Info_create(&mut info) == 0 {
            for (key, value) in SIZES {
                c::PMPI_Info_set(info, key.as_ptr(), value.as_ptr());
            }
            c::PMPI_Abi_set_fortran_info(info);
        }
        if info != abi::MPI_INFO_NULL {
            c::PMPI_Info_free(&mut info);
        }
    }
}
