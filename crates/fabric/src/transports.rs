//! The transports, a folder each. No folder imports another one: what two of them share has a place of its own.
//!
//! Shared memory is one as well, but known by its type ([`shm`](crate::shm)).

pub mod lamd;
pub mod postboxes;
pub mod tcp;

/// Tells a person something.
pub type Tell = Box<dyn Fn(&str) + Send>;
