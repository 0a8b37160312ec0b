//! The transports, a folder each.
//!
//! A folder contains everything about a transport: its [`Module`](oxmpi_param::Module) (name and
//! other names, parameters with their help, priority, thread levels, needs of the launcher), its
//! constructor, and its code. Only the line here that makes it part of the crate names it. No
//! folder imports another one: code that two of them share has a place outside.
//!
//! The transport [`shm`](crate::shm) is not here, as it is known by its type.

pub mod gm;
pub mod ib;
pub mod lamd;
pub mod loopback;
pub mod ofi;
pub mod portals4;
pub mod postboxes;
pub mod tcp;

/// Prints a text for the user.
pub type Tell = Box<dyn Fn(&str) + Send>;

/// A [`Tell`] as a field of types with `Debug`.
pub(crate) struct Teller(pub(crate) Tell);

impl std::fmt::Debug for Teller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Teller")
    }
}
