//! Transports whose network matches messages with receives, as libfabric and Portals do.
//!
//! In a process with such a network, messages of communicators to peers on that route do not travel
//! in frames: they are sent by tag, and the network has the posted receives. The engine's own
//! traffic (indexes of contexts, notices, one-sided and partitioned communication) goes in frames
//! through the [`Transport`](crate::Transport).
//!
//! The promises of such a network:
//!
//! 1. The network matches a message by its sender, the receiver's index of the context, and its
//!    tag. If two messages of one sender fit a receive, it takes the earlier one. If two receives
//!    fit a message, it takes the one that was posted first.
//! 2. A receive ends exactly once: by [`FrameSink::received`](crate::FrameSink::received), or, if
//!    it was cancelled before a match, by
//!    [`FrameSink::not_received`](crate::FrameSink::not_received).
//! 3. After [`Transport::release`](crate::Transport::release) of a token the network accesses no
//!    memory for it, and a receive posted with this token matches nothing.
//! 4. An arrived message stays until a receive takes it, even if its sender dies.
//!
//! A message through shared memory may match a receive from any source, too. The engine then
//! cancels that receive here first.

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
    /// The whole buffer is the message. The network may use it until the send is complete.
    pub buffer: &'a UserBuf,
    /// Whether the send completes only after a match (synchronous mode).
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
    /// The network writes it until the receive is complete.
    pub buffer: &'a UserBuf,
    /// The argument of [`FrameSink::received`](crate::FrameSink::received).
    pub token: u64,
}

/// A message that has arrived and that no receive has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probed {
    pub from: u32,
    pub tag: i32,
    /// In bytes.
    pub length: u64,
    /// The name of a message that [`MatchingTransport::tprobe`] has taken out. Only
    /// [`MatchingTransport::receive_probed`] can receive it.
    pub name: Option<u64>,
}

/// Sends and receives by tag.
pub trait MatchingTransport {
    /// Whether the network matches the messages with a peer; both processes get the same result.
    fn matches(&mut self, _peer: u32) -> bool {
        true
    }

    /// The highest index of a context that fits a tag of the network. Messages with a higher index
    /// go in frames.
    fn last_context(&self) -> u32 {
        u32::MAX
    }

    /// The highest tag of a program. The library's tags are negative, and wrap within the network's
    /// bits.
    fn last_tag(&self) -> i32 {
        i32::MAX
    }

    /// Whether this process and a peer know each other's address in the network. If not, this call
    /// begins the exchange, and the peer's answer wakes this process.
    fn meets(&mut self, _peer: u32) -> bool {
        true
    }

    /// Sends to a peer after [`meets`](MatchingTransport::meets). The result for a synchronous send
    /// is never [`Sent::Done`].
    fn tsend(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, Unreachable>;

    /// Sends a standard message of a few bytes. The caller may change `_bytes` at once.
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

    /// This process has a context with this index: from now on peers may send its messages by tag.
    fn open_context(&mut self, _context: u32) {}

    /// Posts a receive. `false`: there is no room now, and nothing happened.
    fn trecv(&mut self, receive: &TaggedReceive<'_>) -> bool;

    /// Cancels a posted receive, which ends by promise 2.
    fn tcancel(&mut self, token: u64);

    /// The first message that such a receive would match. `takes`: the message is taken out.
    fn tprobe(
        &mut self,
        from: Option<u32>,
        context: u32,
        tags: Tags,
        takes: bool,
    ) -> Option<Probed>;

    /// Receives a message that was taken out. It ends with
    /// [`FrameSink::received`](crate::FrameSink::received). `false`: there is no room now.
    fn receive_probed(&mut self, name: u64, buffer: &UserBuf, token: u64) -> bool;
}
