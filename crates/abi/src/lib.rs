//! The application binary interface of MPI-5.0, as facts.
//!
//! MPI-5.0 fixes, for the first time, what a compiled program sees of an MPI library: the values of all constants, the
//! layout of `MPI_Status`, the types of handles, and 664 function prototypes, each exported as `MPI_X` and `PMPI_X`. A
//! program compiled against one library that keeps to this interface runs on every other.
//!
//! This crate holds those facts once, in Rust, and everything else is derived from them:
//!
//! - [`types`]: the Rust names of the C types (`Comm`, `Datatype`, `Count`, ...), [`Status`], and [`callbacks`];
//! - [`constants`]: every constant under its C name, and [`constants::CONSTANTS`], the same as data;
//! - [`errors`]: the error classes, their names and one sentence for each;
//! - [`functions`]: the prototypes, and [`FuncId`], the number by which a function is named at run time;
//! - [`extensions`]: what the library provides beyond the standard, and the text of `mpi-ext.h`;
//! - [`header()`]: the text of `mpi.h`, for C and C++;
//! - [`coverage`]: which functions the C library defines by hand, read from its sources.
//!
//! Nothing here talks to anybody: no dependencies, no unsafe code, no state. The tests compile the generated header and
//! hold it against `tests/c/abi_assert.c`, which states the same facts a second time and independently, and against the header of
//! another library (`tests/other_header`).
//!
//! Source: MPI-5.0, the chapter on the application binary interface, and Annex A.
#![forbid(unsafe_code)]

pub mod callbacks;
pub mod constants;
pub mod coverage;
#[macro_use]
pub mod errors;
pub mod extensions;
pub mod functions;
mod header;
pub mod prototype;
pub mod status;
pub mod types;

pub use errors::{error_class_name, error_class_text};
pub use functions::FuncId;
pub use header::header;
pub use status::Status;
