//! How a job comes up, and how it ends.
//!
//! `mpirun` starts the ranks of a job and stays as their parent. For each rank it makes a *segment* (a memfd that will
//! hold the rank's inbox and rings, with a header page that says who the rank is and what it is doing) and a
//! *control* socket. The rank's process inherits both. That is all the wire-up there is: no file, no port, no
//! barrier. When a rank first talks to a peer it asks `mpirun` over the control socket for the peer's segment.
//!
//! | module | what it is |
//! |---|---|
//! | [`control`] | the messages between a rank and `mpirun`: pure encoding and decoding |
//! | [`client`] | a rank's side: who am I, open a peer's segment, abort the job |
//! | [`universe`] | what processes of several jobs tell each other by way of the launcher |
//! | [`hosts`] | a job on several hosts: the agents that start ranks on the others |
//! | [`hostmap`] | which address a host tells its peers |
//! | [`inquiry`] | what a tool asks a running `mpirun` |
//! | [`interfaces`] | which network the sockets of a job use |
//! | [`foreign`] | whether another launcher has started this process as one of several |
//! | [`generation`] | which process is a rank, of several that one after the other want to be |
//! | [`job`] | what `mpirun` decides: a state machine without a system call in it |
//! | [`report`] | the one text that a failed job prints |
//! | [`daemon`] | the user's daemons, one on each node |
//! | [`launch`] | what `mpirun` does: start processes, pass on their output, carry out the decisions |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic where nobody reads

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
mod strangers;
pub mod universe;
pub mod waiting;
