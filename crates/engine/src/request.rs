//! Requests: operations that are not complete, and their results.

mod table;

pub(crate) use self::table::{FreedReceive, Outstanding, RequestLookup, Requests};

use crate::compound::Persistent;
use crate::matching::{ANYBODY, Unexpected};
use oxmpi_mem::buffer::{PlainBuf, StagingError, UserBuf};
use oxmpi_mem::device::DeviceFault;
use oxmpi_shm::announcement::Announcement;
use oxmpi_wire::Tags;

/// Mode of a send (MPI-5.0 section 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// May complete before the receive is posted.
    Standard,
    /// Completes only after the match.
    Synchronous,
    /// Completes at once; the lane copies the message if it cannot leave.
    Buffered,
    /// The program promises that the receive is posted.
    Ready,
}

/// The source of a receive or probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchSource {
    Any,
    Process(u32),
}

/// The tag of a receive or probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagMatch {
    /// Any tag that is not negative.
    Any,
    /// This tag. Negative tags mark messages of the library, which no wildcard matches.
    Is(i32),
}

impl From<TagMatch> for Tags {
    #[inline]
    fn from(tag: TagMatch) -> Tags {
        match tag {
            TagMatch::Any => Tags::ANY,
            TagMatch::Is(tag) => Tags::one(tag),
        }
    }
}

/// The reason why an operation failed after it had begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("a message of {length} bytes arrived for a receive buffer of {room} bytes")]
    Truncated { length: u64, room: u64 },
    /// The sender has called the same collective with a shorter count.
    #[error("{length} bytes arrived of a collective for a receive buffer of {room} bytes")]
    Short { length: u64, room: u64 },
    #[error("the communicator of the operation was freed")]
    Closed,
    #[error("no memory for temporary space")]
    NoMemory,
    #[error(
        "the reduction operation does not fit the layout of the buffers, or was left by an exception"
    )]
    Operation,
    /// An operation on a file; the engine does not know its kind.
    #[error("the operation on the file has failed")]
    File {
        class: i32,
        /// The number of the details and the file.
        note: u32,
    },
    #[error("the library to which the operation was handed has failed or cannot be used any more")]
    Handed,
    #[error("the target exposes no memory at the place of the access")]
    Outside,
    #[error("process {peer} has failed or cannot be reached")]
    Lost { peer: u32 },
    /// A member has failed that might have sent the message of a receive from MPI_ANY_SOURCE. The
    /// receive stays posted.
    #[error(
        "process {peer} has failed, and the message may have been its; the receive still waits"
    )]
    Pending { peer: u32 },
    #[error("the driver of the device could not copy the buffer at {address:#x}: its error {code}")]
    Device { address: u64, code: i32 },
    #[error("the communicator, window or file was revoked")]
    Revoked,
}

impl From<DeviceFault> for Fault {
    fn from(DeviceFault { address, code }: DeviceFault) -> Fault {
        Fault::Device { address, code }
    }
}

impl From<StagingError> for Fault {
    fn from(error: StagingError) -> Fault {
        match error {
            StagingError::Room(_) => Fault::NoMemory,
            StagingError::Device(fault) => fault.into(),
        }
    }
}

/// The result of a complete operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Rank of the sender of a receive; -1 (MPI_ANY_SOURCE) if there is none.
    pub source: i32,
    /// Tag of the received message; -2 (MPI_ANY_TAG) if there is none.
    pub tag: i32,
    pub bytes: u64,
    pub cancelled: bool,
    pub fault: Option<Fault>,
    /// The index of the context in which the fault happened, whose error handler is called.
    /// [`NO_CONTEXT`] without a fault.
    pub context: u32,
    /// Whether the request still exists, because it is persistent; it is then inactive.
    pub stays: bool,
    /// Whether the code that has opened the request has the rest of the result
    /// ([`crate::Lane::complete_generalized`]).
    pub generalized: bool,
}

/// The result of an operation that succeeded, in two words, so that registers can carry it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    pub source: i32,
    pub tag: i32,
    pub bytes: u64,
}

impl Received {
    pub const NOTHING: Received = Received { source: -1, tag: -2, bytes: 0 };
}

impl From<Received> for Completion {
    #[inline]
    fn from(Received { source, tag, bytes }: Received) -> Completion {
        Completion { source, tag, bytes, ..Completion::EMPTY }
    }
}

pub const NO_CONTEXT: u32 = u32::MAX;

impl Completion {
    /// The result of an operation without a status, such as a send.
    pub const EMPTY: Completion = Completion {
        source: -1,
        tag: -2,
        bytes: 0,
        cancelled: false,
        fault: None,
        context: NO_CONTEXT,
        stays: false,
        generalized: false,
    };

    /// The result of an operation that failed with `fault`.
    pub const fn failed(fault: Fault) -> Completion {
        Completion { fault: Some(fault), ..Completion::EMPTY }
    }
}

/// The result of starting an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Started {
    Complete(Completion),
    Pending(RequestId),
}

/// Names a request of a lane: generation (32 bits) and index + 4096. No request has generation 0
/// and index 0 (the number 4096), which stands for requests that were complete from the start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(u64);

const FIRST: u64 = 4096;

impl RequestId {
    /// Stands for all requests that were complete from the start.
    pub const COMPLETE: RequestId = RequestId(FIRST);

    /// For a handle of the program, or for the wire.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The lane checks the number when it is used.
    #[inline]
    pub const fn from_raw(raw: u64) -> RequestId {
        RequestId(raw)
    }

    #[inline]
    fn split(self) -> Option<(usize, u32)> {
        let index = (self.0 & 0xffff_ffff).checked_sub(FIRST)?;
        Some((index as usize, (self.0 >> 32) as u32))
    }
}

#[derive(Debug)]
pub(crate) enum Work {
    None,
    Send(SendWork),
    Receive(ReceiveWork),
    /// An operation above the lane, which completes the request.
    External,
    Message(MatchedMessage),
    Pair(SendReceivePair),
    Persistent(Box<Persistent>),
    Flush(Vec<RequestId>),
}

#[derive(Debug)]
pub(crate) struct MatchedMessage {
    pub(crate) context: u32,
    pub(crate) message: Unexpected,
}

/// A send and a receive; `None` once complete.
#[derive(Debug)]
pub(crate) struct SendReceivePair {
    pub(crate) parts: [Option<RequestId>; 2],
    /// The status of the receive, and the first fault.
    pub(crate) completion: Completion,
}

#[derive(Debug)]
pub(crate) struct SendWork {
    pub(crate) buffer: UserBuf,
    pub(crate) to: u32,
    pub(crate) context: u32,
    pub(crate) tag: i32,
    pub(crate) mode: Mode,
    pub(crate) phase: Phase,
    /// Bytes that left before the receiver pulled the rest.
    pub(crate) begun: usize,
    /// Frames that the fabric has taken and not yet reported as sent.
    pub(crate) leaving: u32,
    /// The number of the message among all messages to the peer, modulo 2^32, once it is announced.
    pub(crate) number: u32,
    /// Whether this process has requested that the peer drop the message.
    pub(crate) is_withdrawn: bool,
    pub(crate) is_unmatchable: bool,
    pub(crate) announcement: Option<Announcement>,
    pub(crate) mover: Mover,
    /// Whether the lane has a private copy of the data, so that the send is complete for the
    /// program.
    pub(crate) is_kept: bool,
    pub(crate) is_tagged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    /// The fabric has all data; the send completes when they have left.
    Leaving,
    /// The peer has dropped the message; the send completes as cancelled when all frames have left.
    Dropped,
    /// The peer has the announcement; it must pull the data, or report that it has them.
    Announced,
    /// The peer has all data; it must report the match.
    Unacknowledged,
    /// The peer has pulled `wanted` bytes, of which the fabric has taken `sent`.
    Streaming {
        /// The receiver's request.
        receiver: u64,
        wanted: usize,
        sent: usize,
    },
}

/// The process that transfers an announced message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mover {
    Open,
    /// The sender, piece by piece; the receiver may take the rest at any time.
    Pieces,
    Sender,
    /// The receiver, from the first byte that the sender has not sent.
    Receiver,
}

impl SendWork {
    pub(crate) const fn new(
        buffer: UserBuf,
        to: u32,
        (context, tag): (u32, i32),
        mode: Mode,
    ) -> SendWork {
        SendWork {
            buffer,
            to,
            context,
            tag,
            mode,
            phase: Phase::Waiting,
            begun: 0,
            leaving: 0,
            number: 0,
            is_withdrawn: false,
            is_unmatchable: false,
            announcement: None,
            mover: Mover::Open,
            is_kept: false,
            is_tagged: false,
        }
    }

    /// Whether the peer knows of the message and must still report the match.
    pub(crate) const fn is_unmatched(&self) -> bool {
        matches!(self.phase, Phase::Announced | Phase::Unacknowledged)
    }

    /// Whether the peer has pulled a message that it may still read itself.
    pub(crate) const fn is_pulled(&self) -> bool {
        let may_be_read = matches!(self.mover, Mover::Open | Mover::Pieces);
        matches!(self.phase, Phase::Streaming { .. }) && self.announcement.is_some() && may_be_read
    }

    pub(crate) fn completion(&self) -> Completion {
        Completion { cancelled: self.phase == Phase::Dropped, ..Completion::EMPTY }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.leaving == 0
            && match self.phase {
                Phase::Waiting | Phase::Announced | Phase::Unacknowledged => false,
                Phase::Leaving | Phase::Dropped => true,
                Phase::Streaming { wanted, sent, .. } => wanted == sent,
            }
    }
}

impl Work {
    pub(crate) fn context(&self) -> u32 {
        match self {
            Work::Send(w) => w.context,
            Work::Receive(w) => w.context,
            Work::Message(m) => m.context,
            Work::Persistent(p) => p.operation.context().unwrap_or(NO_CONTEXT),
            _ => NO_CONTEXT,
        }
    }

    #[inline]
    pub(crate) fn buffer(&self) -> Option<&UserBuf> {
        match self {
            Work::Send(w) => Some(&w.buffer),
            Work::Receive(w) => Some(&w.buffer),
            _ => None,
        }
    }

    pub(crate) fn as_send(&self) -> Option<&SendWork> {
        match self {
            Work::Send(send) => Some(send),
            _ => None,
        }
    }

    /// `None` for a receive from MPI_ANY_SOURCE.
    pub(crate) fn peer(&self) -> Option<u32> {
        match self {
            Work::Send(w) => Some(w.to),
            Work::Receive(w) => w.from,
            _ => None,
        }
    }
}

/// A posted receive into contiguous memory, as most receives are. Other receives are a
/// [`Work::Receive`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainReceive {
    pub(crate) into: PlainBuf,
    pub(crate) context: u32,
    /// The source, or [`ANYBODY`].
    pub(crate) from: u32,
}

impl PlainReceive {
    fn from(&self) -> Option<u32> {
        (self.from != ANYBODY).then_some(self.from)
    }
}

#[derive(Debug)]
pub(crate) struct ReceiveWork {
    pub(crate) buffer: UserBuf,
    pub(crate) context: u32,
    /// The requested source, then the sender of the matched message. `None`: any.
    pub(crate) from: Option<u32>,
    pub(crate) is_posted: bool,
    /// Of the matched message, whose length is in bytes.
    pub(crate) tag: i32,
    pub(crate) length: u64,
    /// Bytes that will be stored, and bytes stored so far.
    pub(crate) expected: usize,
    pub(crate) stored: usize,
    pub(crate) posting: Posting,
}

/// The state of a receive that a network may match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Posting {
    /// The network does not have the receive, or has ended it.
    Here,
    Waiting,
    Posted,
    /// A message for the receive has arrived in a frame; the network is cancelling the receive.
    Contested,
    /// The program has cancelled the receive; the network is cancelling it.
    Cancelled,
    /// A matched probe has taken the message; the network delivers it.
    Probed,
}

impl ReceiveWork {
    pub(crate) fn new(buffer: UserBuf, context: u32, from: Option<u32>) -> ReceiveWork {
        ReceiveWork {
            buffer,
            context,
            from,
            is_posted: false,
            tag: -2,
            length: 0,
            expected: 0,
            stored: 0,
            posting: Posting::Here,
        }
    }
}

impl From<PlainReceive> for ReceiveWork {
    fn from(plain: PlainReceive) -> ReceiveWork {
        let mut work = ReceiveWork::new(plain.into.into(), plain.context, plain.from());
        work.is_posted = true;
        work
    }
}
