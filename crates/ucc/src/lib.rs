//! UCC (Unified Collective Communication), loaded at run time, and its collectives behind safe
//! functions.
//!
//! OxMPI is built without UCC, and needs it only at run time for collectives of the component ucc.
//! A [`UccLibrary`] is opened by name; a [`UccContext`] has a process's resources; a [`UccTeam`] of
//! processes is made by a [`UccTeamCreation`], step by step without waiting; and a [`UccRequest`]
//! is one collective of a team: initialised, posted, and tested until it is complete.
//!
//! The creation of a team needs exchanges among its processes before UCC can communicate by itself.
//! The caller implements these as an [`OutOfBand`], which starts an allgather of bytes and is
//! polled for the result. It must not wait.
//!
//! A [`UccRequest`] holds its buffers ([`UserBuf`]) until it is complete. UCC cannot cancel a
//! collective: dropping an incomplete request leaks its buffers and their description.
//!
//! One thread at a time uses a context, its teams and their requests, which the caller's lock
//! ensures (the types are `Send` and not `Sync`).
//!
//! `declarations` has the public header of UCC 1.x; it is the only unsafe foreign interface of this
//! crate.

mod declarations;
mod library;
mod request;
mod team;

pub use library::{UccContext, UccLibrary};
#[cfg(doc)]
use oxmpi_mem::buffer::UserBuf;
pub use request::{
    UccArguments, UccCollective, UccDatatype, UccOperand, UccOperation, UccRequest, UccState,
};
pub use team::{OutOfBand, UccCreation, UccTeam, UccTeamCreation};
