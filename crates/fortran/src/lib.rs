//! `libmpifort_oxmpi.so.1`: the entry points of the Fortran interface.
//!
//! The build script writes them from the table of functions. Each procedure has two: `mpi_x_`
//! calls the C function `MPI_X`, so that C tools see the call, and `pmpi_x_` calls `PMPI_X`. A call
//! of the program is thus one call for tools, whichever interface they intercept. A Fortran tool
//! defines its own `mpi_x_` and calls `pmpi_x_`.
//!
//! Module `mpi_f08` has the same entry points under other names, and for buffers entry points with
//! array descriptors ([`sections`]).
//!
//! The library uses only functions of the standard ABI, and those of the module
//! `by_hand::callbacks`. Its state is the variables of attributes (`by_hand::attributes`), the
//! datatypes of sections (`sections::types`) and the requests with copies (`arguments::request`).
//!
//! **LOGICAL.** C's flags are 0 and 1. All compilers that `mpifort` accepts have LOGICALs of 4
//! bytes, take 0 for .FALSE. and odd values for .TRUE., so logical arguments and arrays are passed
//! as they are.
//!
//! **Failed calls** leave their output arguments unchanged, because the C functions do: results
//! that need a conversion start with a value that no function stores ([`arguments::UNSET`]).
#![allow(clippy::missing_safety_doc)]

mod creators;
mod integers;
mod kinds;
mod sizes;

include!("modules.rs");

pub(crate) use oxmpi_abi::{constants as abi, types};
