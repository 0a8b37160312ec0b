//! Transports, and the route to each peer.
//!
//! The engine sends a frame with a body ([`OutgoingMessage`]) to a peer, named by its rank in the
//! job. It polls for frames, which arrive in a [`FrameSink`]. This crate knows neither
//! communicators, nor matching, nor requests.
//!
//! - A [`Transport`] moves frames to the peers that it reaches. Each has a folder in
//!   [`transports`]: [`tcp`] over sockets, [`lamd`] through relays, [`postboxes`] for the `usysv`
//!   and `sysv` of LAM/MPI, and [`transports::loopback`] between threads, the example for a new
//!   transport. The traits [`Membership`] (peers come, leave and die), [`Statistics`],
//!   [`Connections`] and [`LastingMemory`] have default functions for transports that need none.
//! - A [`Module`](oxmpi_param::Module) describes a transport; its [`Constructor`] makes the
//!   transport.
//! - A network that matches messages is also a [`MatchingTransport`].
//! - [`shm`] is the transport of one node. It has no `dyn` interface, because a message through it
//!   takes less time than a call through a table.
//! - [`routes::Routes`], the [`Fabric`] of the engine, holds the transports of a process and the
//!   route to each peer, chosen at first contact. [`sim`] is another [`Fabric`]: a virtual network
//!   with a seed.
//!
//! The promises of a transport:
//!
//! 1. Frames that match carry the sequence number of the engine. If several paths lead to a peer,
//!    they may arrive in any order; the engine restores it. The oldest frame that has not arrived
//!    and the newest one to the same peer are at most 127 apart.
//! 2. [`Sent::Done`] means that the message is on the wire or in the peer's memory, not in a
//!    private buffer that waits for credits; no callback follows. [`Sent::Later`] means that
//!    [`FrameSink::sent`] reports this later. [`Sent::Full`] means that nothing was taken.
//! 3. A long body may arrive in parts: the function of its frame gets the first,
//!    [`FrameSink::more`] the others, in order. Until the last part has arrived, no other frame
//!    with a body comes from this peer.
//! 4. [`FrameSink::lost`] reports a lost peer once, after everything that the peer had sent.
#![forbid(unsafe_code)]

mod addresses;
pub mod constructor;
mod credits;
mod fabric;
mod frame_sink;
mod introductions;
mod matching;
mod message;
pub mod peer_segments;
mod pieces;
#[cfg(test)]
mod receives;
pub mod relay;
mod remote_access;
pub mod routes;
pub mod shm;
pub mod sim;
mod statistics;
mod transport;
pub mod transports;

pub use addresses::{Address, PeerLocation};
pub use constructor::{
    Constructor, Decided, Listening, Offer, Services, Situation, Survey, encryption,
};
pub use fabric::{Announcements, Fabric, OneSided, Sections};
pub use frame_sink::{FrameSink, dispatch};
pub use matching::{MatchingTransport, Probed, TaggedReceive, TaggedSend};
pub use message::{Body, Fetching, OutgoingMessage, Room, Sent, SentNow, Taken, Unreachable};
pub use remote_access::{
    AccessEnd, AtomicOperation, AtomicScope, Direction, RemoteAccess, RemotePlace,
};
pub use statistics::{Connected, Counts, InUse, Traffic};
pub use transport::{Connections, LastingMemory, Limits, Membership, Statistics, Transport};
pub use transports::{lamd, postboxes, tcp};
