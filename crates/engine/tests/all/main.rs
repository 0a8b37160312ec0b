//! Tests of the crate through its face. They are one program: each would take as long to be compiled.

mod failures;
mod finalizing;
#[path = "../lanes/mod.rs"]
mod lanes;
mod matching;
mod protocols;
mod tagged;
