//! Tests of the crate through its face. They are one program: each would be as large as the library, and take as long to be compiled.
#![allow(clippy::unwrap_used)] // a failure is the test's

mod collectives;
mod elements;
mod launched;
mod messages;
mod threaded;
