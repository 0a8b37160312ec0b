//! The semantics of MPI calls.
//!
//! A [`Process`] is one rank as a value. The C library has one for the program; [`world::world`]
//! makes several on threads, [`sim::SimWorld`] thousands over a virtual network.
//!
//! Functions take Rust values (a [`Communicator`], a `UserBuf`, ranks and tags as in the standard)
//! and check them. The error in their `Result` names the argument and its value.
#![forbid(unsafe_code)]

pub mod buffered;
pub mod choice;
pub mod collective;
pub mod comm;
pub mod completion;
pub mod copy_costs;
pub mod dynamic;
mod errors;
mod failure;
pub mod file;
mod generalized;
mod handed;
pub mod handler;
pub mod matched;
pub mod modules;
mod oversubscribed;
pub mod p2p;
pub mod partitioned;
pub mod persistent;
mod persistent_state;
pub mod process;
mod run_cache;
pub mod session;
pub mod shmem;
pub mod sim;
pub mod start;
mod task;
pub mod tool;
pub mod topology;
mod wait_reason;
pub mod window;
pub mod world;

pub use comm::Communicator;
pub use errors::{find_cuda, has_device, staging_error};
pub use handed::{find_hcoll, find_ucc};
pub use oxmpi_tuned::Component;
pub use process::Process;
