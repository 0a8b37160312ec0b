//! Transports whose network matches messages with receives by itself, as libfabric's providers and Portals do.
//!
//! Of a process that has one, the messages of communicators to peers on that route do not travel in frames: they are sent by tag, and
//! receives are posted with the network. Everything else goes in frames through the [`Transport`](crate::Transport) that it is as
//! well: what the engine says of itself (indexes of contexts, notices, one-sided and partitioned communication).
//!
//! What such a network promises:
//!
//! 1. A message is matched by its sender, the receiver's index of the context, and its tag. Of two messages of one sender that a
//!    receive could take, the earlier one is taken; of two receives that could take a message, the one that was posted first.
//! 2. A receive ends in exactly one way: [`Sink::received`](crate::Sink::received), or, if it was cancelled before a message was matched,
//!    [`Sink::not_received`](crate::Sink::not_received).
//! 3. After `release` ([`Transport::release`](crate::Transport::release)) of a token no memory is read or written any more for it, at
//!    once, and what was posted with it matches nothing.
//! 4. A message that has arrived stays there until it is received, also if its sender dies.
//!
//! What happens with a receive from anybody, which a message through memory may take as well, is the engine's business: it cancels it
//! here first.

use crate::{Sent, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Tags;

/// A message that is sent by tag.
#[derive(Clone, Copy, Debug)]
pub struct TaggedSend<'a> {
    /// The receiver's index of the context.
    pub context: u32,
    /// The tag; those of the library are negative.
    pub tag: i32,
    /// All of it is the message. It may be used until the message is gone.
    pub buffer: &'a UserBuf,
    /// Whether the message is gone only when a receive has been matched with it (synchronous mode).
    pub is_synchronous: bool,
    /// What [`Sink::sent`](crate::Sink::sent) gets if the answer is [`Sent::Later`].
    pub token: u64,
}

/// A receive that is posted with the network.
#[derive(Clone, Copy, Debug)]
pub struct TaggedReceive<'a> {
    /// The process from which the message shall come; `None`: any.
    pub from: Option<u32>,
    /// This process's index of the context.
    pub context: u32,
    /// Which tags it takes.
    pub tags: Tags,
    /// Where the message goes. It is written until the receive is over.
    pub buffer: &'a UserBuf,
    /// The name that [`Sink::received`](crate::Sink::received) hands up when it is over.
    pub token: u64,
}

/// A message that has come and was not received yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probed {
    /// Who has sent it.
    pub from: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length, bytes.
    pub length: u64,
    /// If it was taken out ([`MatchingTransport::tprobe`]), its name: only [`MatchingTransport::receive_probed`] gets it.
    pub name: Option<u64>,
}

/// Sends and receives by tag.
pub trait MatchingTransport {
    /// Whether the network matches the messages between this process and a peer. Both find the same.
    fn matches(&mut self, _peer: u32) -> bool {
        true
    }

    /// The highest index of a context that its tags can name. Messages to a receiver that has a higher one go in frames.
    fn last_context(&self) -> u32 {
        u32::MAX
    }

    /// The highest tag of a program that its tags have room for. The library's own are negative, and wrap within what there is.
    fn last_tag(&self) -> i32 {
        i32::MAX
    }

    /// Whether messages can be sent to a peer, and receives be posted that name it: the two have met in the network. If not, this begins
    /// it, and the peer's answer wakes this process.
    fn meets(&mut self, _peer: u32) -> bool {
        true
    }

    /// Sends a message to a peer that this process has met. The answer to a synchronous one is never [`Sent::Done`].
    ///
    /// # Errors
    /// If the peer cannot be reached at all.
    fn tsend(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, Unreachable>;

    /// Sends a standard message of a few bytes, whose memory is the caller's again at once. [`Sent::Full`]: nothing happened, use
    /// [`MatchingTransport::tsend`]. [`Sent::Later`]: as there, under this token.
    fn tsend_short(&mut self, _to: u32, _context: u32, _tag: i32, _bytes: Bytes<'_>, _token: u64) -> Sent {
        Sent::Full
    }

    /// This process has a context of this index: from now on peers may send messages of it by tag.
    fn open_context(&mut self, _context: u32) {}

    /// Posts a receive. `false`: there is no room for one now, and nothing happened.
    fn trecv(&mut self, receive: &TaggedReceive<'_>) -> bool;

    /// Cancels a posted receive. How it ends is said later (promise 2).
    fn tcancel(&mut self, token: u64);

    /// The first message that such a receive would get; with `takes` it is taken out, and no receive gets it any more.
    fn tprobe(&mut self, from: Option<u32>, context: u32, tags: Tags, takes: bool) -> Option<Probed>;

    /// Receives a message that was taken out, as a receive that ends with [`Sink::received`](crate::Sink::received). `false`: there is
    /// no room for it now, and nothing happened.
    fn receive_probed(&mut self, name: u64, buffer: &UserBuf, token: u64) -> bool;
}
