//! The objects on which errors are raised.

use oxmpi_abi::types::{Comm, Errhandler, File, Session, Win};
use oxmpi_engine::Completion;
use std::ffi::c_int;

/// The object of a call on which an error of the call is raised: its error handler is called.
///
/// The object is the first argument of such a type that the function takes by value. The handle
/// comes from the program and is not checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Comm(Comm),
    Win(Win),
    File(File),
    Session(Session),
    /// A communicator that the call would have made, with this error handler, which also handles
    /// errors of the call.
    Creation(Errhandler),
    /// A session that the call would have made, with this error handler.
    SessionCreation(Errhandler),
    /// The communicator of a failed operation, which may be freed by now, and the operation's error
    /// code.
    Failed(Completion, c_int),
}
