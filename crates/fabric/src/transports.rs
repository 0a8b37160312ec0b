//! A folder contains everything about one transport: its [`Module`](oxmpi_param::Module) (names,
//! parameters with their help, priority, thread levels, needs of the launcher), its constructor,
//! and its code. Outside the folder only a line of this file names it. No folder imports another
//! one: shared code is outside of them.
//!
//! [`shm`](crate::shm) is not here, because it is known by its type.

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

pub(crate) struct Teller(pub(crate) Tell);

impl std::fmt::Debug for Teller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Teller")
    }
}

pub(crate) fn peer_of<T>(peers: &mut [Option<Box<T>>], at: u32) -> Option<&mut T> {
    peers.get_mut(at as usize)?.as_deref_mut()
}
