use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::Frame;

/// The user data that follow a frame.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    Bytes(Bytes<'a>),
    /// The packed bytes `offset..offset + len` of a buffer of any layout.
    Packed {
        buffer: &'a UserBuf,
        offset: usize,
        len: usize,
    },
}

impl<'a> Body<'a> {
    pub const NONE: Body<'static> = Body::Bytes(Bytes::empty());

    /// The packed bytes `offset..offset + len` of `buffer`; [`Body::Bytes`] if they are contiguous.
    #[inline]
    pub fn of(buffer: &'a UserBuf, offset: usize, len: usize) -> Body<'a> {
        match buffer.as_contiguous() {
            Some(bytes) => Body::Bytes(bytes.slice(offset, len)),
            None => Body::Packed { buffer, offset, len },
        }
    }

    /// In bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Body::Bytes(b) => b.len(),
            Body::Packed { len, .. } => *len,
        }
    }

    /// Whether the body has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `to` with the bytes from `from` on.
    #[inline]
    pub fn fill(&self, from: usize, to: BytesMut<'_>) {
        match self {
            Body::Bytes(b) => b.slice(from, to.len()).copy_to(to),
            Body::Packed { buffer, offset, .. } => buffer.pack(offset + from, to),
        }
    }
}

/// One frame to be sent, with its body.
pub struct OutgoingMessage<'a> {
    /// Modulo 256, for frames that match.
    pub sequence: u8,
    pub frame: Frame,
    pub body: Body<'a>,
    /// The buffer of which the body is a part, if the transport may use it until
    /// [`FrameSink::sent`](crate::FrameSink::sent) instead of a copy. Of [`Frame::Data`] the body
    /// begins at the frame's offset in the packed buffer; of any other frame it is the whole
    /// buffer.
    pub lent: Option<&'a UserBuf>,
    /// The argument of [`FrameSink::sent`](crate::FrameSink::sent) after [`Sent::Later`].
    pub token: u64,
}

impl<'a> OutgoingMessage<'a> {
    /// A message of the transport itself.
    pub fn new(frame: Frame, body: Body<'a>) -> OutgoingMessage<'a> {
        OutgoingMessage { sequence: 0, frame, body, lent: None, token: 0 }
    }
}

/// The result of sending a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The message has left and the body may change; no callback follows.
    Done,
    /// The transport has taken the message; the body must not change before
    /// [`FrameSink::sent`](crate::FrameSink::sent).
    Later,
    /// The transport has taken nothing: there is no room now.
    Full,
}

/// The result of [`Fabric::send_short_now`](crate::Fabric::send_short_now).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentNow {
    /// Nothing happened: use [`Fabric::send_now`](crate::Fabric::send_now) or
    /// [`Fabric::send`](crate::Fabric::send).
    No,
    Done,
    /// The message has left, and the receiver sleeps: [`Fabric::wake`](crate::Fabric::wake) it.
    Wake,
}

/// The result of [`Fabric::receive_now`](crate::Fabric::receive_now).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    Message {
        tag: i32,
        /// In bytes.
        len: usize,
    },
    /// The beginning of the message is in the buffer; [`FrameSink::more`](crate::FrameSink::more)
    /// gets the rest.
    Begun {
        tag: i32,
        total: usize,
        stored: usize,
    },
    Nothing,
    /// Something has arrived that only [`Fabric::poll`](crate::Fabric::poll) can take.
    Other,
}

/// The path of the data of an announced message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetching {
    Read,
    /// A request to the sender if it waits in the library, else a read of its memory.
    AskOrRead,
    Ask,
}

/// Whether a piece of a long message would leave now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Now,
    /// It will leave when the peer has read earlier pieces.
    Later,
    /// Unknown: other messages use the room, or the path does not carry pieces of this length.
    Never,
}

/// A peer that cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("process {peer} cannot be reached: {why}")]
pub struct Unreachable {
    pub peer: u32,
    pub why: String,
}
