//! What an error is raised on.

use oxmpi_abi::types::{Comm, Errhandler, File, Session, Win};
use oxmpi_engine::Completion;
use std::ffi::c_int;

/// The object of a call on which an error of the call is raised: its error handler decides what happens.
///
/// It is the first argument of such a type that the function takes by value. The handle comes from the program unchecked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    /// A communicator.
    Comm(Comm),
    /// A window.
    Win(Win),
    /// A file.
    File(File),
    /// A session.
    Session(Session),
    /// A communicator that the call was to make, with this error handler, which counts for the call itself.
    Creation(Errhandler),
    /// As [`On::Creation`], for a session.
    SessionCreation(Errhandler),
    /// The communicator of a failed operation, which may be freed by now, and the operation's error code.
    Failed(Completion, c_int),
}
