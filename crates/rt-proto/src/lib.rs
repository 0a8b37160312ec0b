//! The messages of launchers, agents, daemons and tools: pure encoding and decoding.
//!
//! | module | between |
//! |---|---|
//! | [`agent`] | `mpirun` (the head) and its agent on another host |
//! | [`daemon`] | daemons, the programs of their user, and `oxmpi boot` |
//! | [`link`] | two `mpirun`s whose processes communicate |
//! | [`tool`], [`held`] | a running `mpirun` and a tool that queries or images its job |
//!
//! The messages between a rank and its launcher are in the crate `oxmpi-rt-client`, on which this
//! one depends: an agent passes them on.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if the stream is closed

pub mod agent;
pub mod daemon;
pub mod held;
pub mod link;
pub mod process;
pub mod tool;
