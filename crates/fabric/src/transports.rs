//! The transports, a folder each.
//!
//! A folder has all that is to be said of a transport: what it says of itself ([`Module`](oxmpi_param::Module): its name and
//! other names, its parameters with their help, priority, thread levels, what it needs of the launcher), what makes it in a
//! process, and its code. Beside the line that makes it part of this crate nothing names it. No folder imports another one: what
//! two of them share has a place of its own.
//!
//! Shared memory is one as well, but known by its type ([`shm`](crate::shm)).

pub mod gm;
pub mod ib;
pub mod lamd;
pub mod loopback;
pub mod ofi;
pub mod portals4;
pub mod postboxes;
pub mod tcp;

/// Tells a person something.
pub type Tell = Box<dyn Fn(&str) + Send>;
