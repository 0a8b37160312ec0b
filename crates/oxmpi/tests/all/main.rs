//! Tests of the public interface, in one program: each would be as large as the library, and take
//! as long to compile.
#![allow(clippy::unwrap_used)] // a failure is the test's

mod collectives;
mod elements;
mod launched;
mod messages;
mod threaded;
