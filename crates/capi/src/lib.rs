//! `libmpi_abi.so.1`: the MPI-5.0 standard ABI for C, C++, Fortran and Python programs.
//!
//! Each of the 664 functions is exported twice: `PMPI_X` as an ordinary symbol, and `MPI_X` as a
//! weak name of the same code. So a tool can define its own `MPI_Send`, which gets the program's
//! calls and passes them on to `PMPI_Send` (MPI-5.0, the chapter on tool support, "Profiling
//! Interface").
//!
//! # Layers
//!
//! A file imports only from its own layer and from lower ones, and no files import each other in a
//! circle (`tests/layers.rs`). From the top down:
//!
//! - `face`: the C functions, which the build script writes from the table of functions in
//!   `oxmpi-abi`. Each checks its arguments, finds objects, calls one body and stores results.
//! - `operations`: the bodies, each with the name of its function in lower case (`comm_size`). A
//!   body makes one call into the crates below, runs callbacks of the program, and returns a
//!   `Result`. Where a short path comes before all checks, the body takes the program's arguments
//!   and returns the error code.
//! - `arguments`: checks of arguments, and places of results. It knows no operation.
//! - `errors`: what happens when a call fails. Only this layer calls error handlers, and it ends
//!   the job.
//! - `state`: what exists between the calls: types, tables and look-ups. It calls no error handler
//!   and runs no operation.
//!
//! The build fails if a body is missing.
//!
//! The exports and their signatures are exactly those of the standard, since both come from the
//! table. No panic crosses into C: a function that panics ends the process with a message.
//! Exceptions of the program's own functions pass through, since these functions are called without
//! locks.
#![deny(unsafe_op_in_unsafe_fn)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // These macros panic without a reader.

mod arguments;
mod errors;
mod face;
mod operations;
mod state;
