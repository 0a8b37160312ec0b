//! Transports whose network matches messages with receives, as libfabric's providers and Portals
//! do.
//!
//! In a process with such a network, the messages of communicators to peers on that route do not
//! travel in frames: they are sent by tag, and receives are posted with the network. The engine's
//! own traffic (indexes of contexts, notices, one-sided and partitioned communication) goes in
//! frames through the [`Transport`](crate::Transport).
//!
//! The promises of such a network:
//!
//! 1. A message is matched by its sender, the receiver's index of the context, and its tag. Of two
//!    messages of one sender that fit a receive, the earlier one is taken; of two receives that fit
//!    a message, the one that was posted first.
//! 2. A receive ends exactly once: by [`FrameSink::received`](crate::FrameSink::received), or, if
//!    it was cancelled before it was matched, by
//!    [`FrameSink::not_received`](crate::FrameSink::not_received).
//! 3. When `release` ([`Transport::release`](crate::Transport::release)) of a token returns, no
//!    memory is read or written for it any more, and a receive posted with it matches nothing.
//! 4. An arrived message stays until it is received, even if its sender dies.
//!
//! A receive from any source, which a message through memory may match as well, is the engine's
//! business: the engine cancels it here first.

use crate::{Sent, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Tags;

/// A message that is sent by tag.
#[derive(Clone, Copy, Debug)]
pub struct TaggedSend<'a> {
    pub context: u32,
    /// Negative for messages of the library.
    pub tag: i32,
    /// The whole buffer is the message. It may be used until the send is complete.
    pub buffer: &'a UserBuf,
    /// Whether the send completes only when a receive has been matched with it (synchronous mode).
    pub is_synchronous: bool,
    /// The argument of [`FrameSink::sent`](crate::FrameSink::sent) after [`Sent::Later`].
    pub token: u64,
}

/// A receive that is posted with the network.
#[derive(Clone, Copy, Debug)]
pub struct TaggedReceive<'a> {
    /// `None`: any source.
    pub from: Option<u32>,
    pub context: u32,
    pub tags: Tags,
    /// It is written until the receive is complete.
    pub buffer: &'a UserBuf,
    /// The argument of [`FrameSink::received`](crate::FrameSink::received).
    pub token: u64,
}

/// A message that has arrived and was not received yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probed {
    pub from: u32,
    pub tag: i32,
    /// In bytes.
    pub length: u64,
    /// The name of a message that [`MatchingTransport::tprobe`] has taken out: only
    /// [`MatchingTransport::receive_probed`] receives it.
    pub name: Option<u64>,
}

/// Sends and receives by tag.
pub trait MatchingTransport {
    /// Whether the network matches the messages with a peer; the same on both.
    fn matches(&mut self, _peer: u32) -> bool {
        true
    }

    /// The highest index of a context in tags. Higher ones go in frames.
    fn last_context(&self) -> u32 {
        u32::MAX
    }

    /// The highest tag of a program. The library's own are negative, and wrap within the room.
    fn last_tag(&self) -> i32 {
        i32::MAX
    }

    /// Whether this process and a peer know each other's address in the network. If not, this
    /// begins the exchange, and the peer's answer wakes this process.
    fn meets(&mut self, _peer: u32) -> bool {
        true
    }

    /// Sends to a peer that this process [`meets`](MatchingTransport::meets); never [`Sent::Done`]
    /// for a synchronous send.
    fn tsend(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, Unreachable>;

    /// Sends a standard message of a few bytes, whose memory is the caller's again at once.
    /// [`Sent::Full`]: nothing happened, use [`MatchingTransport::tsend`]. [`Sent::Later`]:
    /// [`FrameSink::sent`](crate::FrameSink::sent) follows with this token.
    fn tsend_short(
        &mut self,
        _to: u32,
        _context: u32,
        _tag: i32,
        _bytes: Bytes<'_>,
        _token: u64,
    ) -> Sent {
        Sent::Full
    }

    /// This process has a context of this index: from now on peers may send messages of it by tag.
    fn open_context(&mut self, _context: u32) {}

    /// Posts a receive. `false`: there is no room now, and nothing happened.
    fn trecv(&mut self, receive: &TaggedReceive<'_>) -> bool;

    /// Cancels a posted receive. Promise 2 says how it ends.
    fn tcancel(&mut self, token: u64);

    /// The first message that such a receive would match; with `takes` it is taken out.
    fn tprobe(
        &mut self,
        from: Option<u32>,
        context: u32,
        tags: Tags,
        takes: bool,
    ) -> Option<Probed>;

    /// Receives a message that was taken out; ends with
    /// [`FrameSink::received`](crate::FrameSink::received). `false`: there is no room now.
    fn receive_probed(&mut self, name: u64, buffer: &UserBuf, token: u64) -> bool;
}
