//! Portals 4, opened at run time, and its matched messages, behind safe functions.
//!
//! OxMPI builds without Portals, and runs without it where no job uses it. A [`PortalsLibrary`] is
//! opened by name. A [`PortalsInterface`] of it is a matching interface with physical addresses
//! (PTL_NI_MATCHING | PTL_NI_PHYSICAL) and two portal table entries. Messages are put into the
//! first one, where the network matches them with posted receives or keeps them in overflow blocks.
//! The second one exposes memory, which peers get.
//!
//! An operation owns its memory until Portals reports its end: a [`PortalsInterface`] holds the
//! buffer ([`UserBuf`], or other owned memory) in a slot, whose number is the operation's
//! `user_ptr`. The caller defines the meaning of match bits and header data: this crate knows no
//! messages of MPI.
//!
//! `declarations.rs` follows the public header `portals4.h`; it is the only unsafe foreign
//! interface of this crate.

mod declarations;
mod events;
mod interface;
mod library;
mod lists;
mod slots;

pub use declarations::ProcessAddress;
pub use events::{Arrival, PortalsEnding, PortalsEvent};
pub use interface::{InterfaceOptions, PortalsInterface, PutMessage, RemoteEntry};
pub use library::{InterfaceLimits, PortalsLibrary};
pub use lists::MatchCriteria;
#[cfg(doc)]
use oxmpi_mem::buffer::UserBuf;
