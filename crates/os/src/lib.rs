//! To be written.

pub mod bytes;
#[cfg(not(loom))]
pub mod spawn;
