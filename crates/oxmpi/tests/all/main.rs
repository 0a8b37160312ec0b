//! Tests of the public interface, in one program, as each would be as large as the library.
#![allow(clippy::unwrap_used)] // a failure is the test's

mod collectives;
mod elements;
mod launched;
mod messages;
mod threaded;
