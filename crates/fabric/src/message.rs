//! What is sent, and what becomes of it.

use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::Frame;

/// The user data that follow a frame.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// They lie in one piece.
    Bytes(Bytes<'a>),
    /// They are the packed bytes `offset..offset + len` of a buffer of any layout.
    Packed {
        /// The buffer.
        buffer: &'a UserBuf,
        /// First packed byte.
        offset: usize,
        /// Number of packed bytes.
        len: usize,
    },
}

impl<'a> Body<'a> {
    /// No data.
    pub const NONE: Body<'static> = Body::Bytes(Bytes::empty());

    /// The packed bytes `offset..offset + len` of `buffer`, in one piece if they lie so.
    #[inline]
    pub fn of(buffer: &'a UserBuf, offset: usize, len: usize) -> Body<'a> {
        match buffer.as_contiguous() {
            Some(bytes) => Body::Bytes(bytes.slice(offset, len)),
            None => Body::Packed { buffer, offset, len },
        }
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Body::Bytes(b) => b.len(),
            Body::Packed { len, .. } => *len,
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `from` on into `to`, which they fill.
    #[inline]
    pub fn fill(&self, from: usize, to: BytesMut<'_>) {
        match self {
            Body::Bytes(b) => b.slice(from, to.len()).copy_to(to),
            Body::Packed { buffer, offset, .. } => buffer.pack(offset + from, to),
        }
    }
}

/// One frame to be sent, with its body.
pub struct Message<'a> {
    /// Sequence number modulo 256, for frames that match.
    pub sequence: u8,
    /// The frame.
    pub frame: Frame,
    /// The data behind it.
    pub body: Body<'a>,
    /// The buffer that the body is part of, if the transport may use it until [`Sink::sent`](crate::Sink::sent) says that it does not any more: of
    /// [`Frame::Data`] the packed bytes from its offset on, of any other frame all of it. So it need not copy them.
    pub lent: Option<&'a UserBuf>,
    /// What [`Sink::sent`](crate::Sink::sent) gets if the answer is [`Sent::Later`].
    pub token: u64,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It is gone, the body may be changed; no callback follows.
    Done,
    /// It was taken; the body may not be changed before [`Sink::sent`](crate::Sink::sent) says so.
    Later,
    /// Nothing was taken: there is no room now.
    Full,
}

/// What became of a message that leaves at once, or not ([`Fabric::send_short_now`](crate::Fabric::send_short_now)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentNow {
    /// Nothing happened: use [`Fabric::send_now`](crate::Fabric::send_now) or [`Fabric::send`](crate::Fabric::send).
    No,
    /// It is gone.
    Done,
    /// It is gone, and the receiver sleeps: [`Fabric::wake`](crate::Fabric::wake) it.
    Wake,
}

/// What [`Fabric::receive_now`](crate::Fabric::receive_now) found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The message, which is now in the buffer.
    Message {
        /// Its tag.
        tag: i32,
        /// Its length, bytes.
        len: usize,
    },
    /// The beginning of the message, which is now in the buffer; the rest comes by [`Sink::more`](crate::Sink::more).
    Begun {
        /// Its tag.
        tag: i32,
        /// Its length, bytes.
        total: usize,
        /// Bytes that are in the buffer.
        stored: usize,
    },
    /// Nothing yet.
    Nothing,
    /// Something that only [`Fabric::poll`](crate::Fabric::poll) can take.
    Other,
}

/// How to get the data of an announced message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetching {
    /// By reading the sender's memory ([`OneSided::read`](crate::OneSided::read)).
    Read,
    /// By asking for them, if their sender waits in the library, and else by reading.
    AskOrRead,
    /// By asking for them.
    Ask,
}

/// Whether a piece of a long message would leave now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// It would.
    Now,
    /// It will when the peer has read pieces that were sent before.
    Later,
    /// Nobody knows when: others have taken the room, or the way does not carry pieces as long.
    Never,
}

/// A peer that cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("process {peer} cannot be reached: {why}")]
pub struct Unreachable {
    /// Its index.
    pub peer: u32,
    /// The reason, for a person.
    pub why: String,
}
