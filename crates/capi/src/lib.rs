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
mod arguments;
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

/// The functions of the library that run the calls, each with the name of its function.
mod bodies {
    pub(crate) use crate::accelerator::query_cuda_support;
    pub(crate) use crate::arrays::*;
    pub(crate) use crate::attributes::*;
    pub(crate) use crate::buffered::*;
    pub(crate) use crate::collectives::reductions::*;
    pub(crate) use crate::collectives::vector::*;
    pub(crate) use crate::collectives::*;
    pub(crate) use crate::communicators::*;
    pub(crate) use crate::contents::*;
    pub(crate) use crate::datatypes::*;
    pub(crate) use crate::duplicates::*;
    pub(crate) use crate::environment::*;
    pub(crate) use crate::errhandlers::*;
    pub(crate) use crate::errorcodes::*;
    pub(crate) use crate::failure::*;
    pub(crate) use crate::files::datareps::*;
    pub(crate) use crate::files::manage::*;
    pub(crate) use crate::files::views::*;
    pub(crate) use crate::files::*;
    pub(crate) use crate::fortran_abi::*;
    pub(crate) use crate::fortran_types::*;
    pub(crate) use crate::grequests::*;
    pub(crate) use crate::groups::*;
    pub(crate) use crate::hints::*;
    pub(crate) use crate::info::*;
    pub(crate) use crate::matched::*;
    pub(crate) use crate::memory::*;
    pub(crate) use crate::names::*;
    pub(crate) use crate::neighborhood::*;
    pub(crate) use crate::operations::*;
    pub(crate) use crate::p2p::*;
    pub(crate) use crate::pack::*;
    pub(crate) use crate::partitioned::*;
    pub(crate) use crate::persistent::*;
    pub(crate) use crate::ports::*;
    pub(crate) use crate::request_status::*;
    pub(crate) use crate::requests::*;
    pub(crate) use crate::sessions::*;
    pub(crate) use crate::spawn::*;
    pub(crate) use crate::statuses::*;
    pub(crate) use crate::tool::bodies::*;
    pub(crate) use crate::topology::*;
    pub(crate) use crate::trivial::*;
    pub(crate) use crate::windows::access::*;
    pub(crate) use crate::windows::create::*;
    pub(crate) use crate::windows::objects::*;
    pub(crate) use crate::windows::synchronize::*;
}

/// The C face, which the build script writes from the table of functions.
// SAFETY of all calls: the contract of the C interface (see `mpi!`).
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, unused_unsafe)]
mod face {
    use crate::arguments::{self, *};
    use crate::bodies::*;
    use crate::errors::*;
    use crate::files::on_file;
    use crate::library::{self, *};
    use crate::on::On;
    use crate::sessions::on_session;
    use crate::strings::{self, *};
    use crate::tool;
    use crate::windows::on_win;
    use oxmpi_abi::FuncId;
    use oxmpi_abi::constants as abi;
    use oxmpi_abi::types::Session;
    use oxmpi_abi::types::*;
    use oxmpi_engine::Mode;
    use oxmpi_objects::attribute::ObjectKind;
    use oxmpi_objects::datatype::Form as TypeForm;
    use std::ffi::{c_char, c_int, c_void};

    include!(concat!(env!("OUT_DIR"), "/face.rs"));
}
