//! Operations that are not complete yet, and what is known of them when they are.

mod table;

pub(crate) use self::table::{Found, FreedReceive, Outstanding, Requests};

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
    /// Completes only when a receive was matched.
    Synchronous,
    /// Completes at once; the lane keeps a copy if the message cannot leave.
    Buffered,
    /// The receive is promised to be posted.
    Ready,
}

/// Whose messages a receive or probe wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Anybody's.
    Any,
    /// Those of the process with this index.
    Process(u32),
}

/// Which tags a receive or probe wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagMatch {
    /// Any that is not negative.
    Any,
    /// This one. (A negative one marks a message of the library's own, which no wildcard takes.)
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

/// Why an operation failed after it had begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The message was longer than the receive buffer.
    #[error("a message of {length} bytes arrived for a receive buffer of {room} bytes")]
    Truncated {
        /// Length of the message, bytes.
        length: u64,
        /// Length of the buffer, bytes.
        room: u64,
    },
    /// A rank has called a collective for less than this one.
    #[error("{length} bytes arrived of a collective for a receive buffer of {room} bytes")]
    Short {
        /// Length of what arrived, bytes.
        length: u64,
        /// Length of the buffer, bytes.
        room: u64,
    },
    /// The communicator was freed before the operation began.
    #[error("the communicator of the operation was freed")]
    Closed,
    /// There was no memory for temporary space.
    #[error("no memory for temporary space")]
    NoMemory,
    /// The operation of a reduction cannot work on the buffers given.
    #[error("the reduction operation does not fit the layout of the buffers, or was left by an exception")]
    Operation,
    /// An operation on a file, of which the engine itself knows nothing.
    #[error("the operation on the file has failed")]
    File {
        /// The error class of MPI.
        class: i32,
        /// The number of what more is known, with the file.
        note: u32,
    },
    /// Another library, to which an operation was handed, has failed. The engine itself knows nothing of it.
    #[error("the library to which the operation was handed has failed or cannot be used any more")]
    Handed,
    /// A window's process refused an access to its memory.
    #[error("the target exposes no memory at the place of the access")]
    Outside,
    /// The peer is gone or was never reached.
    #[error("process {peer} has failed or cannot be reached")]
    Lost {
        /// Its process index.
        peer: u32,
    },
    /// A member of the communicator has failed, from which the message of a receive from anybody might have come. The
    /// receive goes on.
    #[error("process {peer} has failed, and the message may have been its; the receive still waits")]
    Pending {
        /// The process index of the failed member.
        peer: u32,
    },
    /// A driver could not copy the memory of its device.
    #[error("the driver of the device could not copy the buffer at {address:#x}: its error {code}")]
    Device {
        /// Where the buffer begins.
        address: u64,
        /// The driver's number of the error.
        code: i32,
    },
    /// The communicator was revoked.
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

/// What a complete operation has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Rank of the sender in the communicator of a receive; -1 (MPI_ANY_SOURCE) where there is none.
    pub source: i32,
    /// Tag of the received message; -2 (MPI_ANY_TAG) where there is none.
    pub tag: i32,
    /// Bytes received (packed).
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// What went wrong.
    pub fault: Option<Fault>,
    /// Where it went wrong: the index of the context, so that whoever opened it can say who is to be told.
    /// [`NO_CONTEXT`] if nothing did.
    pub context: u32,
    /// Whether the request is still there: it is a persistent one, which is inactive now.
    pub stays: bool,
    /// The lane knows only that it is complete; whoever opened the request must say the rest
    /// ([`crate::Lane::complete_generalized`]).
    pub generalized: bool,
}

/// What an operation that went well has to say, in two words of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Rank of the sender in the communicator; -1 (MPI_ANY_SOURCE) where there is none.
    pub source: i32,
    /// Tag of the message; -2 (MPI_ANY_TAG) where there is none.
    pub tag: i32,
    /// Bytes received (packed).
    pub bytes: u64,
}

impl Received {
    /// What a send says: nothing.
    pub const NOTHING: Received = Received { source: -1, tag: -2, bytes: 0 };
}

impl From<Received> for Completion {
    #[inline]
    fn from(Received { source, tag, bytes }: Received) -> Completion {
        Completion { source, tag, bytes, ..Completion::EMPTY }
    }
}

/// No context at all.
pub const NO_CONTEXT: u32 = u32::MAX;

impl Completion {
    /// A send, or anything else that has nothing to say.
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

    /// Nothing was done, because of `fault`.
    pub const fn failed(fault: Fault) -> Completion {
        Completion { fault: Some(fault), ..Completion::EMPTY }
    }
}

/// What became of an operation when it was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Started {
    /// It is complete; there is no request.
    Complete(Completion),
    /// It goes on; ask [`crate::Lane::test`].
    Pending(RequestId),
}

/// Names a request of a lane: generation (32 bits) and index + 4096. The number 4096 itself, generation 0 and index
/// 0, is never used for a request: it may stand for one that was complete from the start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(u64);

const FIRST: u64 = 4096;

impl RequestId {
    /// The request that was complete from the start, of which there is only one.
    pub const COMPLETE: RequestId = RequestId(FIRST);

    /// As a number, for a user's handle or for the wire.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// A number that claims to be a request; the lane finds out.
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

/// What a request does.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing (any more).
    None,
    /// Sends.
    Send(SendWork),
    /// Receives.
    Receive(ReceiveWork),
    /// Something above the lane, which will say when it is complete.
    External,
    /// A message that was matched and waits to be received.
    Message(MatchedMessage),
    /// A send and a receive that are complete together.
    Pair(Pair),
    /// What can be started again and again.
    Persistent(Box<Persistent>),
    /// Waits until these buffered sends are complete.
    Flush(Vec<RequestId>),
}

/// A message that was taken out of its context by a matched probe.
#[derive(Debug)]
pub(crate) struct MatchedMessage {
    pub(crate) context: u32,
    pub(crate) message: Unexpected,
}

/// A send and a receive; what is complete is no longer there.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) parts: [Option<RequestId>; 2],
    /// What the receive says, and what went wrong.
    pub(crate) said: Completion,
}

#[derive(Debug)]
pub(crate) struct SendWork {
    pub(crate) buffer: UserBuf,
    pub(crate) to: u32,
    pub(crate) context: u32,
    pub(crate) tag: i32,
    pub(crate) mode: Mode,
    pub(crate) phase: Phase,
    /// Bytes that went before the receiver asks for the others.
    pub(crate) begun: usize,
    /// Messages the fabric has taken and not reported gone.
    pub(crate) leaving: u32,
    /// How many messages that match had gone to the peer before this one, modulo 2^32, once the peer knows of it.
    pub(crate) number: u32,
    /// Whether the peer was told to drop it if it can.
    pub(crate) is_withdrawn: bool,
    /// Whether the peer has dropped it.
    pub(crate) is_nobodys: bool,
    /// Its announcement, if its receiver may read it.
    pub(crate) announcement: Option<Announcement>,
    /// Who moves what was announced, once it was pulled.
    pub(crate) mover: Mover,
    /// Whether the lane has the data in memory of its own: it is complete for its user.
    pub(crate) is_kept: bool,
    /// Whether it goes by tag, through a network that matches.
    pub(crate) is_tagged: bool,
}

/// How far a send is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing has been sent.
    Waiting,
    /// All data are with the fabric; complete when they are gone.
    Leaving,
    /// The peer has dropped it; complete as cancelled when all that left is gone.
    Dropped,
    /// The peer knows of it and must ask for the data or say that it has them.
    Announced,
    /// The peer has all data and must say when they are matched.
    Unacknowledged,
    /// The peer asked for `wanted` bytes, of which `sent` are with the fabric.
    Streaming {
        /// The receive that asked.
        receiver: u64,
        /// Bytes it wants.
        wanted: usize,
        /// Bytes given to the fabric.
        sent: usize,
    },
}

/// Who moves an announced message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mover {
    /// That is not settled.
    Open,
    /// The sender, piece by piece; the receiver may take the rest at any time.
    Pieces,
    /// The sender alone.
    Sender,
    /// The receiver, all that the sender has not sent.
    Receiver,
}

impl SendWork {
    /// A send of which nothing has left.
    pub(crate) const fn new(buffer: UserBuf, to: u32, (context, tag): (u32, i32), mode: Mode) -> SendWork {
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
            is_nobodys: false,
            announcement: None,
            mover: Mover::Open,
            is_kept: false,
            is_tagged: false,
        }
    }

    /// Whether the peer knows of it and has not said that it has matched it, as it must.
    pub(crate) const fn is_unmatched(&self) -> bool {
        matches!(self.phase, Phase::Announced | Phase::Unacknowledged)
    }

    /// Whether the peer has pulled what it may still read itself.
    pub(crate) const fn is_asked_for(&self) -> bool {
        let may_be_read = matches!(self.mover, Mover::Open | Mover::Pieces);
        matches!(self.phase, Phase::Streaming { .. }) && self.announcement.is_some() && may_be_read
    }

    /// What it says when nothing more has to happen.
    pub(crate) fn completion(&self) -> Completion {
        Completion { cancelled: self.phase == Phase::Dropped, ..Completion::EMPTY }
    }

    /// Whether nothing more has to happen.
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
    /// The context it takes place in.
    pub(crate) fn context(&self) -> u32 {
        match self {
            Work::Send(w) => w.context,
            Work::Receive(w) => w.context,
            Work::Message(m) => m.context,
            Work::Persistent(p) => p.operation.context().unwrap_or(NO_CONTEXT),
            _ => NO_CONTEXT,
        }
    }

    /// The memory that it works on.
    #[inline]
    pub(crate) fn buffer(&self) -> Option<&UserBuf> {
        match self {
            Work::Send(w) => Some(&w.buffer),
            Work::Receive(w) => Some(&w.buffer),
            _ => None,
        }
    }

    /// The send that it is, if it is one.
    pub(crate) fn as_send(&self) -> Option<&SendWork> {
        match self {
            Work::Send(send) => Some(send),
            _ => None,
        }
    }

    /// The process it sends to or receives from; none if it receives from anybody.
    pub(crate) fn peer(&self) -> Option<u32> {
        match self {
            Work::Send(w) => Some(w.to),
            Work::Receive(w) => w.from,
            _ => None,
        }
    }
}

/// A posted receive into memory in one piece: all that most receives ever need. Whatever has more to keep becomes a
/// [`Work::Receive`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainReceive {
    pub(crate) into: PlainBuf,
    pub(crate) context: u32,
    /// Process it shall come from, or [`ANYBODY`].
    pub(crate) from: u32,
}

impl PlainReceive {
    /// Process it shall come from; `None`: anybody.
    fn from(&self) -> Option<u32> {
        (self.from != ANYBODY).then_some(self.from)
    }
}

#[derive(Debug)]
pub(crate) struct ReceiveWork {
    pub(crate) buffer: UserBuf,
    pub(crate) context: u32,
    /// Process it comes from: wanted, and after the match known. `None`: anybody.
    pub(crate) from: Option<u32>,
    /// Whether it is among the posted receives of the context: not matched yet.
    pub(crate) is_posted: bool,
    /// Tag and length in bytes of the message it was matched with.
    pub(crate) tag: i32,
    pub(crate) length: u64,
    /// Bytes that will be stored, and how many have been.
    pub(crate) expected: usize,
    pub(crate) stored: usize,
    /// Whether the network may match it.
    pub(crate) posting: Posting,
}

/// Where a receive waits that a network may match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Posting {
    /// The network has nothing to do with it, or nothing more.
    Here,
    /// It is to be posted with the network, which had no room.
    Waiting,
    /// The network has it.
    Posted,
    /// A message has come that the network does not know: the receive is being cancelled in the network.
    Contested,
    /// The user has cancelled it: the receive is being cancelled in the network.
    Cancelled,
    /// A probe had taken its message, which the network gives: nothing else can become of it.
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
