//! `libmpifort.so.12`: MPI for Fortran programs that were built for MPICH, Intel MPI, MVAPICH or
//! Cray MPICH.
//!
//! The entry points are those of this project's own Fortran library, of the same sources
//! (`crates/fortran/src`), with other constants and statuses, other special addresses and other
//! [`integers`] for handles. They call functions that the build script writes from the table of
//! functions, as it does for C (crate `oxmpi-face-build`), which call `libmpi_abi.so.1`.
//!
//! A Fortran program guarantees that the addresses it passes are those of variables as the
//! standard describes the arguments. All unsafe code here relies on this guarantee.
#![allow(clippy::missing_safety_doc)]
#![allow(clippy::undocumented_unsafe_blocks)] // one reason for all of them, above
#![allow(clippy::too_many_arguments)]
#![allow(unused_unsafe)] // `core!` stands inside of unsafe blocks and outside
#![allow(dead_code, unused_imports)] // of modules that this library shares with others

use std::ffi::c_int;

#[path = "../../face-build/fortran/gnu.rs"]
mod gnu;
mod integers;
#[path = "../../face-mpich/src/status.rs"]
mod status;

include!("../../face-build/fortran/modules.rs");

/// The name of this library.
const SONAME: &str = "libmpifort.so.12";

/// The file of the library for C programs of this ABI.
const C_LIBRARY: &str = "libmpi.so.12";

/// The version of MPI whose constants this ABI has.
const VERSION: (c_int, c_int) = (4, 1);
