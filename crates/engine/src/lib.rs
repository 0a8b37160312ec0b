//! Requests, matching and protocols: the point-to-point semantics of MPI (MPI-5.0 chapter 3) over
//! the frames of a fabric.
//!
//! A [`Lane`] is one matching domain of one process: its requests, its communicator contexts with
//! their posted receives and unexpected messages, its peers with their sequence numbers, and the
//! fabric. A lane is a state machine: it makes no system call, reads no clock and never waits. Its
//! owner calls [`Lane::progress`], and queries requests by [`Lane::test`].
//!
//! The path of a message:
//!
//! 1. [`Lane::start_send`] gives the message to the fabric at once if no older message waits for
//!    the same peer. A short message is *eager*: it is complete when the fabric has taken it, and
//!    needs no request. A long message is announced (*rendezvous*) and keeps its request until the
//!    receiver has the data.
//! 2. The peer's fabric gives the frame to the lane. Messages are put into the order of their
//!    sequence numbers (module `peer`), then matched (module `matching`) against the posted
//!    receives of their context.
//! 3. The match of an eager message copies the data. The match of an announced message reads the
//!    sender's memory, or requests the data from the sender in pieces. A message without a match
//!    becomes *unexpected*.
//!
//! The lane knows a [`Team`] (rank map and context pair), not the communicator.
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
pub use lane::{CopiedSends, Lane, Now, Rest, StartedReceive, TeamNotice};
pub use matching::{ANYBODY, NOTICE_TAG, WORLD};
pub use notes::Note;
pub use outlook::Outlook;
pub use request::{
    Completion, Fault, MatchSource, Mode, NO_CONTEXT, Received, RequestId, Started, TagMatch,
};
pub use team::{RankMap, Team};
