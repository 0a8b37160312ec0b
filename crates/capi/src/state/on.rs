//! The objects on which errors are raised.

use oxmpi_abi::types::{Comm, Errhandler, File, Session, Win};
use oxmpi_engine::Completion;
use std::ffi::c_int;

/// The object whose error handler handles an error of a call.
///
/// It is the first argument of such a type that the function takes by value. The handle comes from
/// the program and is not checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Comm(Comm),
    Win(Win),
    File(File),
    Session(Session),
    /// A communicator that the call would have made. This is its error handler.
    Creation(Errhandler),
    /// A session that the call would have made. This is its error handler.
    SessionCreation(Errhandler),
    /// The communicator of a failed operation, which may be freed by now, and the error code of the
    /// operation.
    Failed(Completion, c_int),
}
