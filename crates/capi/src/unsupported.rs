//! What a function does that this library does not provide (yet).

use crate::errors;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants::MPI_ERR_UNSUPPORTED_OPERATION;
use oxmpi_abi::types::{Comm, File, Session, Win};
use oxmpi_engine::Completion;
use oxmpi_objects::error::MpiError;
use std::ffi::c_int;

/// The object of a call on which an error of the call is raised: its error handler decides what happens.
///
/// It is the first argument of such a type that the function takes by value. The handle comes from the program unchecked.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)] // files and sessions do not exist yet: their errors go to MPI_COMM_SELF
pub(crate) enum On {
    /// A communicator.
    Comm(Comm),
    /// A window.
    Win(Win),
    /// A file.
    File(File),
    /// A session.
    Session(Session),
    /// The communicator of a failed operation, which may be freed by now, and the operation's error code.
    Failed(Completion, c_int),
}

/// Reports that a function is not provided, and returns the error code that its caller gets.
///
/// `on` is nothing when no argument has an error handler: then that of `MPI_COMM_SELF` counts (MPI-5.0, "Error Handling").
#[cold]
#[inline(never)]
pub(crate) fn raise(function: FuncId, on: Option<On>) -> c_int {
    // The report begins with the function's name.
    errors::raise(function, on, MpiError::new(MPI_ERR_UNSUPPORTED_OPERATION, "not there yet"))
}
