//! The application binary interface of MPI-5.0 as data.
//!
//! MPI-5.0 fixes for the first time the binary interface of an MPI library: the values of all
//! constants, the layout of `MPI_Status`, the types of handles, and 664 function prototypes. A
//! program compiled with one conforming library runs with any other.
//!
//! This crate has these data once:
//!
//! - [`types`]: the Rust names of the C types (`Comm`, `Datatype`, `Count`, ...), [`Status`], and
//!   [`callbacks`];
//! - [`constants`]: every constant under its C name, and all as data in [`constants::CONSTANTS`];
//! - [`errors`]: the error classes, their names and texts;
//! - [`table`]: each function once, with its arguments, errors and text; [`FuncId`] is the number
//!   of a function at run time ([`functions`]);
//! - [`extensions`]: the names beyond the standard, and the text of `mpi-ext.h`;
//! - [`pages`]: the manual page of each function, as text for man(1) and as HTML ([`manual`]);
//! - [`fortran`]: the procedures of the Fortran interface, and the texts of `mpif.h` and module
//!   `mpi`;
//! - [`header()`]: the text of `mpi.h`, for C and C++;
//! - [`shown`]: the kinds of values in texts for the user.
//!
//! The crate has no dependencies and no state. One test compiles `tests/c/abi_assert.c`, an
//! independent second list of the data, with the generated header. Another test compares the
//! generated header with that of another library (`tests/other_header`).
//!
//! Source: MPI-5.0, the chapter on the application binary interface, and Annex A.
#![forbid(unsafe_code)]

pub mod callbacks;
pub mod constants;
#[macro_use]
pub mod errors;
pub mod extensions;
pub mod foreign;
pub mod fortran;
pub mod functions;
mod header;
pub mod manual;
pub mod pages;
pub mod shown;
pub mod status;
pub mod table;
pub mod types;

pub use errors::{error_class_name, error_class_text};
pub use functions::FuncId;
pub use header::header;
pub use status::Status;
