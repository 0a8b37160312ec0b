//! Collectives as plans.
//!
//! A *plan* is what one rank does in one collective call: sends, receives, copies and reductions in a certain order.
//! An algorithm is written once, as a [`Generator`] that yields [`Step`]s one by one, and serves the blocking, the
//! nonblocking and the persistent form of its collective, the verifier, and a simulator. It is pure: it knows its
//! rank, the size of the team, the root and the counts, and nothing of memory, networks or time.
//!
//! # Where to look
//!
//! - [`ir`]: the instruction set and the rules between a generator and its executor. Read this first.
//! - [`call`]: what a plan is made from.
//! - [`knowledge`]: values all ranks share, and values only a root has.
#![forbid(unsafe_code)]

pub mod call;
pub mod ir;
pub mod knowledge;

pub use call::{Call, Collective, Member};
pub use ir::{Action, After, Generator, Place, Span, Step, Unit};
pub use knowledge::{RootOnly, Shared};
