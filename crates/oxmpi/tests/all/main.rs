//! Tests of the public interface, in one program: each program would have the whole library.
#![allow(clippy::unwrap_used)]

mod collectives;
mod elements;
mod launched;
mod messages;
mod threaded;
