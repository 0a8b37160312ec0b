//! UCC (Unified Collective Communication), opened when a program runs, and its collectives behind safe functions.
//!
//! Nothing of UCC is needed to build OxMPI, nor to run it where no collective goes over it. A [`Library`] is opened by name; a
//! [`Context`] holds what a process needs once; a [`Team`] of processes is made by a [`TeamCreation`], step by step without waiting; and
//! a [`Request`] is one collective of a team: initialised, posted, and tested until it is over.
//!
//! Making a team takes exchanges among its processes before UCC can communicate by itself. These are the caller's: an [`OutOfBand`] starts
//! an allgather of bytes, and is polled for its result. It must not wait.
//!
//! Memory belongs to a request from the first moment to the last: a [`Request`] holds the buffers ([`UserBuf`]). One that is dropped
//! while UCC still works on it leaves them, and what describes them, to UCC for good, as UCC cannot take a collective back.
//!
//! A context, its teams and their requests are used by one thread at a time: the caller's lock sees to it (all of them are `Send` and
//! none is `Sync`).
//!
//! `declarations` has what the public header of UCC 1.x says; it is the only unsafe foreign interface here.

mod declarations;
mod library;
mod request;
mod team;

pub use library::{Context, Library, LibraryError};
#[cfg(doc)]
use oxmpi_mem::buffer::UserBuf;
pub use request::{Arguments, Datatype, Kind, Operation, Request, Side, State};
pub use team::{Creation, OutOfBand, Team, TeamCreation};
