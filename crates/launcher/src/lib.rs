//! The launcher: how a job is started, watched and ended.
//!
//! `mpirun` (the *head*) starts the ranks of its own host. On each other host it starts an *agent*,
//! which starts the ranks there and reports to the head. The launcher of a host is the same code in
//! both.
//!
//! | module | contents |
//! |---|---|
//! | [`job`] | the decisions of `mpirun`: a state machine without system calls |
//! | [`launch`] | the actions of `mpirun`: start jobs, print output, carry out decisions |
//! | `host` | the launcher of one host: that of `mpirun`, or of an agent |
//! | [`hosts`] | a job on several hosts: the agents that start ranks on the others |
//! | [`checkpoint`] | checkpoints of a job, restarts from them, and automatic ones |
//! | [`hostmap`] | the address that a host announces to its peers |
//! | [`inquiry`] | requests of a tool to a running `mpirun` |
//! | [`report`] | the text that a failed job prints |
//! | [`state`] | the text that describes a job which hangs |
//!
//! The messages are in the crates `oxmpi-rt-client` (ranks) and `oxmpi-rt-proto` (agents, daemons,
//! tools, other launchers). The user's daemons, which can start agents, are in `oxmpi-daemon`.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if the stream is closed

pub mod checkpoint;
mod host;
pub mod hostmap;
pub mod hosts;
pub mod inquiry;
pub mod job;
pub mod launch;
mod polling;
mod ports;
mod quiesce;
pub mod report;
pub mod state;
