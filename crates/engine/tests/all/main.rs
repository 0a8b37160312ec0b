//! Tests of the crate through its public functions, as one program, since each program takes as
//! long to link.

mod failures;
mod finalizing;
#[path = "../lanes/mod.rs"]
mod lanes;
mod matching;
mod protocols;
mod tagged;
