//! Sessions (MPI-5.0, "The Sessions Model").

use oxmpi_core::handler::HandlerCell;
use oxmpi_objects::origin::Origin;
use std::ffi::c_int;
use std::sync::atomic::AtomicBool;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) origin: Origin,
    pub(crate) errhandler: HandlerCell,
    pub(crate) level: c_int,
    /// The kinds of memory for its communicators, as an info value.
    pub(crate) memory_kinds: Box<[u8]>,
    pub(crate) is_ending: AtomicBool,
}
