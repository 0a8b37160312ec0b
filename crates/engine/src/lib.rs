//! Requests, matching and protocols: what turns frames into MPI's point-to-point semantics (MPI-5.0 chapter 3).
//!
//! A [`Lane`] is one matching domain of one process: its requests, its communicator contexts with their posted
//! receives and unexpected messages, its peers with their sequence numbers, and the fabric below. It is a state machine: it makes
//! no system call, reads no clock, never waits. Whoever owns it calls [`Lane::progress`] and asks with
//! [`Lane::test`].
//!
//! The way of a message:
//!
//! 1. [`Lane::start_send`] gives it to the fabric at once if nothing older waits for the same peer. A short one is
//!    *eager*: it is complete when the fabric has taken it, and no request was ever made. A long one is
//!    announced (*rendezvous*) and keeps its request until the receiver has the data.
//! 2. The peer's fabric hands the frame to the lane's `Sink` entry. Frames that match are first put into the order of
//!    their sequence numbers (module `peer`), then matched (module `matching`) against the posted receives of their context.
//! 3. A match of an eager message copies; a match of an announced one reads the sender's memory directly or asks the
//!    sender for the data in pieces. No match: the message becomes *unexpected*.
//!
//! The lane knows a [`Team`] (rank map and context pair), never a communicator.
#![forbid(unsafe_code)]

mod arrive;
mod compound;
mod counts;
mod lane;
mod list;
mod matching;
mod notes;
mod outlook;
mod peer;
mod queue;
mod request;
mod team;

pub use compound::{Operation, StartFault};
pub use counts::{Counts, QueueCounts};
pub use lane::{Kept, Lane, Notice, Now, Posted, Rest};
pub use matching::{ANYBODY, NOTICE_TAG, WORLD};
pub use notes::Note;
pub use outlook::Outlook;
pub use request::{Completion, Fault, Mode, NO_CONTEXT, Received, RequestId, Source, Started, TagMatch};
pub use team::{RankMap, Team};
