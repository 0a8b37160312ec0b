//! How a job comes up, and how it ends.
//!
//! `mpirun` starts the ranks of a job and stays their parent. For each rank it creates a *segment*
//! (a memfd with the rank's inbox, its rings and a header page with the rank's number and state)
//! and a *control* socket. The rank's process inherits both; start-up needs no file, no port and no
//! barrier. When a rank first sends to a peer, it requests the peer's segment from `mpirun` over
//! the control socket.
//!
//! | module | contents |
//! |---|---|
//! | [`control`] | the messages between a rank and `mpirun`: pure encoding and decoding |
//! | [`client`] | a rank's side: its identity, opening a peer's segment, aborting the job |
//! | [`universe`] | messages between processes of several jobs that go through the launcher |
//! | [`hosts`] | a job on several hosts: the agents that start ranks on the others |
//! | [`hostmap`] | the address that a host announces to its peers |
//! | [`inquiry`] | requests of a tool to a running `mpirun` |
//! | [`interfaces`] | which network the sockets of a job use |
//! | [`foreign`] | whether another launcher has started this process as one of several |
//! | [`generation`] | which process is a rank when a script runs several MPI programs |
//! | [`job`] | the decisions of `mpirun`: a state machine without system calls |
//! | [`report`] | the text that a failed job prints |
//! | [`daemon`] | the user's daemons, one on each node |
//! | [`launch`] | the actions of `mpirun`: start processes, forward output, carry out decisions |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if the stream is closed

mod blob;
pub mod client;
mod codec;
pub mod control;
pub mod daemon;
pub mod foreign;
pub mod generation;
pub mod hostmap;
pub mod hosts;
pub mod inquiry;
pub mod interfaces;
pub mod job;
pub mod launch;
mod link;
mod lost;
mod orphans;
mod ports;
pub mod postboxes;
mod quiesce;
pub mod report;
pub mod state;
mod unauthenticated;
pub mod universe;
pub mod waiting;
