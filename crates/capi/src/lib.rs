//! `libmpi_abi.so.1`: the MPI-5.0 standard ABI for C, C++, Fortran and Python programs.
//!
//! Each of the 664 functions is exported twice: `PMPI_X` as an ordinary symbol, and `MPI_X` as a
//! weak name of the same code. So a tool can define its own `MPI_Send`, which gets the program's
//! calls and passes them on to `PMPI_Send` (MPI-5.0, the chapter on tool support, "Profiling
//! Interface").
//!
//! A function checks its arguments, makes one call into the crates below, and runs callbacks of the
//! program. It is written inside `mpi!` (module `export`), in any module of this crate:
//!
//! ```ignore
//! mpi! {
//!     /// MPI-5.0, "Communicator Accessors".
//!     fn MPI_Comm_size(comm: Comm, size: *mut c_int) -> c_int {
//!         ...
//!     }
//! }
//! ```
//!
//! The build fails if a function is missing.
//!
//! The exports and their signatures are exactly those of the standard; the compiler checks each
//! signature against the table in `oxmpi-abi`. No panic crosses into C: a function that panics ends
//! the process with a message. Exceptions of the program's own functions pass through, since these
//! functions are called without locks.
#![deny(unsafe_op_in_unsafe_fn)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // These macros panic without a reader.

#[macro_use]
mod export;
mod accelerator;
mod arrays;
mod attributes;
mod buffered;
mod checkpoints;
mod collectives;
mod communicators;
mod contents;
mod context_cache;
mod datatypes;
mod duplicates;
mod environment;
mod errhandlers;
mod errorcodes;
mod errors;
mod failure;
mod files;
mod fortran_abi;
mod fortran_types;
mod grequests;
mod groups;
mod hints;
mod info;
mod library;
mod life;
mod matched;
mod memory;
mod names;
mod neighborhood;
mod objects;
mod on;
mod operations;
mod p2p;
mod pack;
mod partitioned;
mod persistent;
mod ports;
mod predefined;
mod request_status;
mod requests;
mod sessions;
mod spawn;
mod statuses;
mod strings;
mod tool;
mod topology;
mod trivial;
mod windows;

mod signatures {
    #![allow(non_camel_case_types, dead_code)]

    use std::ffi::{c_char, c_int, c_void};

    use oxmpi_abi::types::*;

    include!(concat!(env!("OUT_DIR"), "/signatures.rs"));
}
