//! Tests of the crate through its public interface. They are one program: each would take as long
//! to link.
#![allow(clippy::unwrap_used)] // a failure fails the test

#[path = "../support/chaos.rs"]
mod chaos;
#[path = "../support/ends.rs"]
mod ends;
mod files;
#[path = "../files_transport/mod.rs"]
mod files_transport;
mod heap;
mod lamd;
mod loopback;
mod modules;
mod quiesce;
#[path = "../support/raw.rs"]
mod raw;
#[path = "../support/mod.rs"]
mod support;
mod tcp;
mod tcp_early;
mod tcp_fast_path;
mod tcp_lending;
