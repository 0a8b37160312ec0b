//! How frames lie in the messages of the provider (rule 6 of the module).
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..8 | cookie | what the receiver has told its sender when they met: strangers do not know it |
//! | 8..12 | sender | its process number |
//! | 12..16 | left | bytes of the body that come in the next messages of this sender |
//!
//! Then follow the frame and its body, or, where the message before has left something, no more than the next part of that.

use super::Peer;
use crate::{Body, Sink, Traffic, dispatch};
use oxmpi_libfabric::FrameBody;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Frame, MAX_FRAME_LEN};

/// Messages that may come before the first of them is read, without the provider keeping any.
pub(super) const ROOMS: usize = 8;
/// Bytes of a body in one message, at most.
pub(super) const BODY: usize = 64 << 10;
/// Bytes before the frame.
const HEAD: usize = 16;
/// The longest message, bytes.
pub(super) const ROOM: usize = HEAD + MAX_FRAME_LEN + BODY;
/// The longest body that a frame says it has, bytes: nothing that this library sends whole is longer.
const LONGEST: usize = 1 << 30;

/// What stands before each frame, and before each part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    cookie: u64,
    sender: u32,
    left: u32,
}

impl Head {
    fn encode(self) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[..8].copy_from_slice(&self.cookie.to_le_bytes());
        out[8..12].copy_from_slice(&self.sender.to_le_bytes());
        out[12..].copy_from_slice(&self.left.to_le_bytes());
        out
    }

    /// The head of a message, and what follows it.
    fn split(bytes: &[u8]) -> Option<(Head, &[u8])> {
        let (cookie, rest) = bytes.split_first_chunk::<8>()?;
        let (sender, rest) = rest.split_first_chunk::<4>()?;
        let (left, rest) = rest.split_first_chunk::<4>()?;
        let head = Head {
            cookie: u64::from_le_bytes(*cookie),
            sender: u32::from_le_bytes(*sender),
            left: u32::from_le_bytes(*left),
        };
        Some((head, rest))
    }
}

/// Head and frame of a message.
pub(super) struct Opening {
    bytes: [u8; HEAD + MAX_FRAME_LEN],
    len: usize,
}

impl Opening {
    /// Of a frame to a peer that wants to see `cookie`, of whose body `left` bytes come later.
    pub(super) fn new(cookie: u64, sender: u32, (frame, sequence): (&Frame, u8), left: usize) -> Opening {
        let (mut bytes, mut encoded) = ([0; HEAD + MAX_FRAME_LEN], [0; MAX_FRAME_LEN]);
        let len = HEAD + frame.encode(sequence, sender, &mut encoded);
        bytes[..HEAD].copy_from_slice(&Head { cookie, sender, left: left as u32 }.encode());
        bytes[HEAD..].copy_from_slice(&encoded);
        Opening { bytes, len }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The rest of a body that is longer than a message.
#[derive(Debug)]
pub(super) struct Rest {
    bytes: Vec<u8>,
    at: usize,
    /// What the engine calls the message.
    pub(super) token: u64,
}

impl Rest {
    /// That of a body behind its first message, if there is one.
    pub(super) fn of(body: &Body<'_>, token: u64) -> Option<Rest> {
        let len = body.len().checked_sub(BODY).filter(|len| *len > 0)?;
        let mut bytes = vec![0; len];
        body.fill(BODY, (&mut bytes[..]).into());
        Some(Rest { bytes, at: 0, token })
    }

    /// The next part, with what stands before it, and whether it is the last one. `None`: all are gone.
    pub(super) fn next(&self, cookie: u64, sender: u32) -> Option<([u8; HEAD], Bytes<'_>, bool)> {
        let part = self.bytes[self.at..].chunks(BODY).next()?;
        let left = self.bytes.len() - self.at - part.len();
        Some((Head { cookie, sender, left: left as u32 }.encode(), Bytes::from(part), left == 0))
    }

    /// That one is gone. Whether it was the last one.
    pub(super) fn advance(&mut self) -> bool {
        self.at = self.bytes.len().min(self.at + BODY);
        self.at == self.bytes.len()
    }
}

/// Whether the sender of a frame has to know that it has arrived. A hint need not arrive, and an answer arrives before its receiver has
/// all.
pub(super) fn is_needed(frame: &Frame) -> bool {
    !matches!(frame, Frame::Learn { .. } | Frame::AskArrived { .. } | Frame::Arrived { .. })
}

/// What of a body goes with the frame.
pub(super) fn first_part<'a>(message: &crate::Message<'a>) -> FrameBody<'a> {
    let len = message.body.len().min(BODY);
    match (message.lent, &message.body) {
        (Some(buffer), body) if body.len() <= BODY => {
            let offset = if let Frame::Data { offset, .. } = message.frame { offset as usize } else { 0 };
            FrameBody::Lent { buffer, offset, len }
        }
        (_, Body::Bytes(bytes)) => FrameBody::Copied(bytes.slice(0, len)),
        (_, Body::Packed { buffer, offset, .. }) => FrameBody::Packed { buffer, offset: *offset, len },
    }
}

/// A body that has come in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arriving {
    offset: usize,
    left: usize,
}

/// What a message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was handed up.
    Up,
    /// A frame of the transport's own, of this process.
    Own(u32, Frame),
    /// Its sender is a process that this one has not met.
    Unmet(u32),
    /// Nothing of this job.
    Stranger,
}

/// Hands a message up. `cookie` is this process's own, `len` the message's length, of which `bytes` has as much as fits.
pub(super) fn take(
    (bytes, len): (&[u8], usize),
    cookie: u64,
    peers: &mut [Option<Box<Peer>>],
    received: &mut Traffic,
    sink: &mut dyn Sink,
) -> Taken {
    let Some((head, rest)) = Head::split(bytes) else { return Taken::Stranger };
    if head.cookie != cookie || len != bytes.len() {
        return Taken::Stranger;
    }
    let from = head.sender;
    let Some(Some(peer)) = peers.get_mut(from as usize) else { return Taken::Unmet(from) };
    if let Some(Arriving { offset, left }) = peer.arriving.take() {
        if rest.is_empty() || rest.len() > left {
            return Taken::Stranger;
        }
        let left = left - rest.len();
        peer.arriving = (left > 0).then_some(Arriving { offset: offset + rest.len(), left });
        sink.more(from, offset, Bytes::from(rest));
        return Taken::Up;
    }
    let Ok(got) = Frame::decode(rest) else { return Taken::Stranger };
    let body = &rest[got.body_at..];
    let total = body.len() + head.left as usize;
    if got.source != from || total > LONGEST {
        return Taken::Stranger;
    }
    received.note(&got.frame, total);
    peer.came += u64::from(is_needed(&got.frame));
    peer.arriving = (head.left > 0).then_some(Arriving { offset: body.len(), left: head.left as usize });
    match dispatch(from, &got, total, Bytes::from(body), sink) {
        Some(own) => Taken::Own(from, own),
        None => Taken::Up,
    }
}
