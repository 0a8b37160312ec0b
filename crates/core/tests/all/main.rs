//! Tests of the public interface, in one program, since each program is as large as the library.
#![allow(clippy::unwrap_used)] // a failure is the test's

#[path = "../../../fabric/tests/support/chaos.rs"]
mod chaos;
mod failures;
mod files;
#[path = "../../../fabric/tests/files_transport/mod.rs"]
mod files_transport;
mod heap;
mod loopback;
mod ofi;
mod postboxes;
mod shmem;
mod sim;
mod sockets;
mod talk;
mod world;
