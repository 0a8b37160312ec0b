//! To be written.

pub mod bytes;
