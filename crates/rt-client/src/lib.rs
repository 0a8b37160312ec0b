//! A rank's side of the start-up, and the messages between a rank and its launcher.
//!
//! `mpirun`, or the agent on another host, starts the ranks of a job and stays their parent. For
//! each rank it creates a *segment* (a memfd with the rank's inbox, its rings and a header page
//! with the rank's number and state) and a *control* socket. The rank's process inherits both;
//! start-up needs no file, no port and no barrier. When a rank first sends to a peer, it requests
//! the peer's segment over the control socket.
//!
//! The library below MPI knows this crate alone of the launcher: a change of a message between
//! launcher, agents, daemons and tools (crate `oxmpi-rt-proto`) does not rebuild it.
//!
//! | module | contents |
//! |---|---|
//! | [`client`] | a rank's identity, opening a peer's segment, aborting the job |
//! | [`control`] | the messages between a rank and its launcher: pure encoding and decoding |
//! | [`universe`] | messages between processes of several jobs that go through the launcher |
//! | [`foreign`] | whether another launcher has started this process as one of several |
//! | [`generation`] | which process is a rank when a script runs several MPI programs |
//! | [`postboxes`] | the postbox segments of a job |
//! | [`waiting`] | the description of a long wait, which a rank leaves for its launcher |
//! | [`programs`] | the facts in /proc about a process and its program |
//! | [`blob`], [`codec`] | answers that are too long for a message; the encoding of messages |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if the stream is closed

pub mod blob;
pub mod client;
pub mod codec;
pub mod control;
pub mod foreign;
pub mod generation;
mod lost;
pub mod postboxes;
pub mod programs;
pub mod universe;
pub mod waiting;
