//! Transports, and the route to each peer.
//!
//! The engine above gives a frame and a body ([`Message`]) for a peer, which it names by its process index in the job, and polls for what
//! has come, which is handed up through a [`Sink`], one entry for each kind of frame. Nothing here knows of communicators, matching
//! or requests.
//!
//! - A [`Transport`] moves frames to the peers that it reaches. Each is a folder of its own ([`transports`]): [`tcp`] over sockets, [`lamd`]
//!   through daemons, [`postboxes`] through memory in the manner of the guide's `usysv` and `sysv`, and [`transports::loopback`] between threads, which is
//!   the one to copy for a new one. Beside that trait of a few functions there are [`Membership`] (peers come, go and die),
//!   [`Statistics`], [`Connections`] and [`LastingMemory`], for those that have something to say there.
//! - What a transport says of itself is a [`Module`](oxmpi_param::Module), what makes it in a process its [`Constructor`].
//! - A network that matches messages by itself is a [`MatchingTransport`] as well.
//! - [`shm`] is the transport of one node, known by its type because a message through it takes less time than a jump through a table.
//! - [`routes::Routes`] holds those of a process, and the route to each peer, chosen at first contact. It is the [`Fabric`] that
//!   the engine is made over; the other one is [`sim`], a virtual network with a seed.
//!
//! What a transport promises:
//!
//! 1. Frames that match carry the sequence number the engine gave them. They may arrive in any order when several
//!    paths lead to a peer; the engine puts them back. The oldest that has not arrived and the newest one to the same
//!    peer are at most 127 apart.
//! 2. [`Sent::Done`] means that the message is on the wire or in the peer's memory, not in a private buffer that
//!    waits for credits; no callback follows. [`Sent::Later`] means that it will be, and that [`Sink::sent`] says
//!    when. [`Sent::Full`] means that nothing was taken.
//! 3. A long body may come up in parts: the entry of its frame has the first, [`Sink::more`] has the others, in order.
//!    Until the last part has come nothing else with a body comes from the same peer.
//! 4. A peer that is gone is reported once by [`Sink::lost`], after everything that it had sent.
#![forbid(unsafe_code)]

pub mod constructor;
mod counts;
mod fabric;
mod matching;
mod meetings;
mod message;
pub mod neighbours;
mod pieces;
#[cfg(test)]
mod receives;
pub mod relay;
mod remote_access;
pub mod routes;
pub mod shm;
pub mod sim;
mod sink;
mod transport;
pub mod transports;
mod whereabouts;

pub use constructor::{Constructor, Decided, Listening, Offer, Services, Situation, Survey, encryption};
pub use counts::{Connected, Counts, InUse, Traffic};
pub use fabric::{Announcements, Fabric, OneSided, Sections};
pub use matching::{MatchingTransport, Probed, TaggedReceive, TaggedSend};
pub use message::{Body, Fetching, Message, Room, Sent, SentNow, Taken, Unreachable};
pub use remote_access::{AccessEnd, AtomicOperation, AtomicScope, Direction, RemoteAccess, RemotePlace};
pub use sink::{Sink, dispatch};
pub use transport::{Connections, LastingMemory, Limits, Membership, Statistics, Transport};
pub use transports::{lamd, postboxes, tcp};
pub use whereabouts::{Address, Whereabouts};
