//! Portals 4, opened when a program runs, and its matched messages behind safe functions.
//!
//! Nothing of Portals is needed to build OxMPI, nor to run it where no job goes over it. A [`Library`] is opened by name; an
//! [`PortalsInterface`] of it is a matching interface with physical addresses (PTL_NI_MATCHING | PTL_NI_PHYSICAL) and has two portal table
//! entries. Messages are put into the first one, where the network matches them with posted receives or keeps them in overflow
//! blocks. In the second one memory is exposed, which peers get.
//!
//! The memory of an operation belongs to it until Portals has said that it is over: an [`PortalsInterface`] holds the buffer ([`UserBuf`], or
//! memory of its own) in a slot, whose number goes along as `user_ptr`. What match bits and header data mean is for the caller to say:
//! here are no messages of MPI.
//!
//! `declarations.rs` has what the public header `portals4.h` says; it is the only unsafe foreign interface here.

mod declarations;
mod events;
mod interface;
mod library;
mod lists;
mod slots;

pub use declarations::ProcessAddress;
pub use events::{Arrival, PortalsEnding, PortalsEvent};
pub use interface::{InterfaceOptions, PortalsError, PortalsInterface, PutMessage, RemoteEntry};
pub use library::{InterfaceLimits, Library, LibraryError};
pub use lists::MatchCriteria;
#[cfg(doc)]
use oxmpi_mem::buffer::UserBuf;
