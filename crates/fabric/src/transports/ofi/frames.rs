//! The form of frames in the provider's messages (rule 6 of the module).
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..8 | cookie | a number from the receiver's introduction, unknown to other processes |
//! | 8..12 | sender | its rank |
//! | 12..16 | left | bytes of the body that follow in the next messages of this sender |
//!
//! Then follow the frame and its body; or, if the message before has left a rest, the next part of
//! it.

use super::{Name, Ofi, OfiPeer, OperationKind, parts};
use crate::{Body, FrameSink, OutgoingMessage, Sent, Traffic, Unreachable, dispatch};
use oxmpi_libfabric::{Admission, FrameBody, FrameRoom};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Frame, MAX_FRAME_LEN};

/// The number of receives for frames, which is the number of frames that may arrive before one is
/// read.
pub(super) const ROOMS: usize = 8;
/// The most bytes of a body in one message.
pub(super) const BODY: usize = 64 << 10;
const HEAD: usize = 16;
pub(super) const ROOM: usize = HEAD + MAX_FRAME_LEN + BODY;
/// The number of receives for frames that may fail in a row.
const FAILED_ROOMS: u32 = 1000;
/// The longest allowed body of a frame, in bytes.
const LONGEST: usize = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHead {
    cookie: u64,
    sender: u32,
    left: u32,
}

impl FrameHead {
    fn encode(self) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[..8].copy_from_slice(&self.cookie.to_le_bytes());
        out[8..12].copy_from_slice(&self.sender.to_le_bytes());
        out[12..].copy_from_slice(&self.left.to_le_bytes());
        out
    }

    fn split(bytes: &[u8]) -> Option<(FrameHead, &[u8])> {
        let (cookie, rest) = bytes.split_first_chunk::<8>()?;
        let (sender, rest) = rest.split_first_chunk::<4>()?;
        let (left, rest) = rest.split_first_chunk::<4>()?;
        let head = FrameHead {
            cookie: u64::from_le_bytes(*cookie),
            sender: u32::from_le_bytes(*sender),
            left: u32::from_le_bytes(*left),
        };
        Some((head, rest))
    }
}

pub(super) struct FrameOpening {
    bytes: [u8; HEAD + MAX_FRAME_LEN],
    len: usize,
}

impl FrameOpening {
    /// `left`: the bytes of the body that follow later.
    pub(super) fn new(
        cookie: u64,
        sender: u32,
        (frame, sequence): (&Frame, u8),
        left: usize,
    ) -> FrameOpening {
        let (mut bytes, mut encoded) = ([0; HEAD + MAX_FRAME_LEN], [0; MAX_FRAME_LEN]);
        let len = HEAD + frame.encode(sequence, sender, &mut encoded);
        bytes[..HEAD].copy_from_slice(&FrameHead { cookie, sender, left: left as u32 }.encode());
        bytes[HEAD..].copy_from_slice(&encoded);
        FrameOpening { bytes, len }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The rest of a body that is longer than a message.
#[derive(Debug)]
pub(super) struct BodyRest {
    bytes: Vec<u8>,
    at: usize,
    token: u64,
    /// Whether a part is under way; the next part follows when it has ended.
    is_under_way: bool,
}

impl BodyRest {
    pub(super) fn of(body: &Body<'_>, token: u64) -> Option<BodyRest> {
        let len = body.len().checked_sub(BODY).filter(|len| *len > 0)?;
        let mut bytes = vec![0; len];
        body.fill(BODY, (&mut bytes[..]).into());
        Some(BodyRest { bytes, at: 0, token, is_under_way: true })
    }

    pub(super) fn next(&self, cookie: u64, sender: u32) -> Option<([u8; HEAD], Bytes<'_>, bool)> {
        let part = self.bytes[self.at..].chunks(BODY).next()?;
        let left = self.bytes.len() - self.at - part.len();
        Some((
            FrameHead { cookie, sender, left: left as u32 }.encode(),
            Bytes::from(part),
            left == 0,
        ))
    }

    pub(super) fn advance(&mut self) -> bool {
        self.at = self.bytes.len().min(self.at + BODY);
        self.is_under_way = true;
        self.at == self.bytes.len()
    }

    pub(super) fn release(&mut self, token: u64) {
        if self.token == token {
            self.token = 0;
        }
    }
}

/// Whether a frame must arrive. A hint need not, and a request for a report must not delay its
/// answer.
pub(super) fn is_needed(frame: &Frame) -> bool {
    !matches!(frame, Frame::Learn { .. } | Frame::AskArrived { .. } | Frame::Arrived { .. })
}

pub(super) fn first_part<'a>(message: &OutgoingMessage<'a>) -> FrameBody<'a> {
    let len = message.body.len().min(BODY);
    match (message.lent, &message.body) {
        (Some(buffer), body) if body.len() <= BODY => {
            let offset =
                if let Frame::Data { offset, .. } = message.frame { offset as usize } else { 0 };
            FrameBody::Lent { buffer, offset, len }
        }
        (_, Body::Bytes(bytes)) => FrameBody::Copied(bytes.slice(0, len)),
        (_, Body::Packed { buffer, offset, .. }) => {
            FrameBody::Packed { buffer, offset: *offset, len }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrivingBody {
    offset: usize,
    left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Up,
    /// A frame of the transport itself, from this process.
    Own(u32, Frame),
    /// The sender has not introduced itself.
    Unmet(u32),
    Late,
    Intruder,
}

/// `cookie` is this process's own. `bytes` has as many of the `len` bytes as fit.
pub(super) fn take(
    (bytes, len): (&[u8], usize),
    cookie: u64,
    peers: &mut [Option<Box<OfiPeer>>],
    received: &mut Traffic,
    sink: &mut dyn FrameSink,
) -> Delivery {
    let Some((head, rest)) = FrameHead::split(bytes) else { return Delivery::Intruder };
    if head.cookie != cookie || len != bytes.len() {
        return Delivery::Intruder;
    }
    let from = head.sender;
    let Some(Some(peer)) = peers.get_mut(from as usize) else { return Delivery::Unmet(from) };
    if peer.is_gone {
        return Delivery::Late;
    }
    if let Some(ArrivingBody { offset, left }) = peer.arriving.take() {
        if rest.is_empty() || rest.len() > left {
            return Delivery::Intruder;
        }
        let left = left - rest.len();
        peer.arriving = (left > 0).then_some(ArrivingBody { offset: offset + rest.len(), left });
        sink.more(from, offset, Bytes::from(rest));
        return Delivery::Up;
    }
    let Ok(got) = Frame::decode(rest) else { return Delivery::Intruder };
    let body = &rest[got.body_at..];
    let total = body.len() + head.left as usize;
    if got.source != from || total > LONGEST {
        return Delivery::Intruder;
    }
    received.note(&got.frame, total);
    peer.received += u64::from(is_needed(&got.frame));
    peer.arriving =
        (head.left > 0).then_some(ArrivingBody { offset: body.len(), left: head.left as usize });
    match dispatch(from, &got, total, Bytes::from(body), sink) {
        Some(own) => Delivery::Own(from, own),
        None => Delivery::Up,
    }
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    pub(super) fn send_frame(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
    ) -> Result<Sent, Unreachable> {
        let own = self.own;
        let Some(peer) = self.peer(to).filter(|peer| !peer.is_gone) else {
            return Err(Unreachable { peer: to, why: "it is gone".into() });
        };
        if peer.rest.is_some() {
            return Ok(Sent::Full);
        }
        let rest = BodyRest::of(&message.body, message.token);
        let left = message.body.len().saturating_sub(BODY);
        let opening = FrameOpening::new(peer.cookie, own, (&message.frame, message.sequence), left);
        let (address, token) = (peer.address, if rest.is_some() { 0 } else { message.token });
        let name = Name { kind: OperationKind::Frame, token, peer: to };
        let body = first_part(message);
        match self.endpoint.send_frame(address, opening.as_bytes(), body, name) {
            Ok(Admission::Yes) => {}
            Ok(Admission::NoRoom) => return Ok(self.no_room(to)),
            Err(error) => return self.not_sent(to, &error),
        }
        self.frames_sent += 1;
        self.sent.note(&message.frame, message.body.len());
        let has_rest = rest.is_some();
        if let Some(peer) = self.peer(to) {
            peer.sent += u64::from(is_needed(&message.frame));
            peer.rest = rest;
        }
        if has_rest {
            self.unfinished_frames.push(to);
            return Ok(Sent::Later);
        }
        let is_done = message.lent.is_none() && token != 0 && self.has_ended(name);
        Ok(if is_done { Sent::Done } else { Sent::Later })
    }

    pub(super) fn send_waiting_frames(&mut self) {
        for room in std::mem::take(&mut self.unposted_rooms) {
            self.post_room(room);
        }
        for to in std::mem::take(&mut self.unfinished_frames) {
            if !self.send_rest(to) {
                self.unfinished_frames.push(to);
            }
        }
        let mut full = Vec::new();
        for (to, frame) in std::mem::take(&mut self.own_frames) {
            if full.contains(&to) || !self.send_own(to, frame) {
                full.push(to);
                self.own_frames.push_back((to, frame));
            }
        }
    }

    pub(super) fn end_part_of_frame(&mut self, to: u32) {
        if let Some(peer) = self.peer(to)
            && let Some(rest) = &mut peer.rest
        {
            rest.is_under_way = false;
        }
    }

    pub(super) fn send_rest(&mut self, to: u32) -> bool {
        let own = self.own;
        let Ofi { endpoint, peers, sockets, .. } = self;
        let Some(Some(peer)) = peers.get_mut(to as usize) else { return true };
        let Some(rest) = peer.rest.as_mut() else { return true };
        if rest.is_under_way {
            return false;
        }
        let Some((head, part, is_last)) = rest.next(peer.cookie, own) else {
            peer.rest = None;
            return true;
        };
        let name = Name {
            kind: OperationKind::Frame,
            token: if is_last { rest.token } else { 0 },
            peer: to,
        };
        match endpoint.send_frame(peer.address, &head, FrameBody::Copied(part), name) {
            Ok(Admission::NoRoom) if sockets.has_left(to) => {
                let token = rest.token;
                peer.rest = None;
                self.fail(Name { token, ..name }, "it has left".into());
                true
            }
            Ok(Admission::NoRoom) => false,
            Ok(Admission::Yes) => {
                rest.advance();
                false
            }
            Err(error) => {
                let token = rest.token;
                peer.rest = None;
                self.fail(Name { token, ..name }, error.to_string());
                true
            }
        }
    }

    pub(super) fn send_own(&mut self, to: u32, frame: Frame) -> bool {
        let message = OutgoingMessage::new(frame, Body::NONE);
        // An unreachable peer waits for nothing.
        self.address_to(to).is_none() || !matches!(self.send_frame(to, &message), Ok(Sent::Full))
    }

    pub(super) fn take_frame(&mut self, room: FrameRoom, length: usize, sink: &mut dyn FrameSink) {
        self.failed_rooms = 0;
        let Ofi { endpoint, peers, received, introduction, .. } = self;
        let bytes = endpoint.frame(room, length);
        match take((bytes, length), introduction.cookie, peers, received, sink) {
            Delivery::Up => self.frames_received += 1,
            Delivery::Own(from, Frame::AskArrived { number }) => self.wants_report(from, number),
            Delivery::Own(from, Frame::Arrived { number }) => {
                if let Some(peer) = self.peer(from) {
                    peer.delivered = peer.delivered.max(number.min(peer.sent));
                }
            }
            Delivery::Own(from, Frame::Matched { label }) => self.matched(from, label, sink),
            Delivery::Own(from, Frame::InParts { label, number, length, part }) => {
                self.in_parts.announce(parts::MessageKey { from, label }, number, length, part);
            }
            Delivery::Own(from, Frame::AskParts { number, length }) => {
                self.parts_requested(from, number, length, sink);
            }
            Delivery::Own(..) | Delivery::Late => {}
            // The sender's introduction is under way.
            Delivery::Unmet(from) if self.introduced.contains(&from) => {
                self.held_rooms.push((from, room, length));
                return;
            }
            Delivery::Unmet(_) | Delivery::Intruder => self.report_intruder(),
        }
        self.post_room(room);
    }

    pub(super) fn report_intruder(&mut self) {
        if !std::mem::replace(&mut self.is_intruder_reported, true) {
            self.say("a process outside the job sends to this one; its messages are dropped");
        }
    }

    /// A single receive may fail because its sender is dead. If many fail in a row, the provider is
    /// unusable.
    pub(super) fn post_failed_room(&mut self, room: FrameRoom, why: &str) {
        self.failed_rooms += 1;
        if self.failed_rooms > FAILED_ROOMS {
            self.give_up(&format!("receives fail again and again: {why}"));
        }
        self.post_room(room);
    }

    pub(super) fn post_room(&mut self, room: FrameRoom) {
        match self.endpoint.post_room(room) {
            Ok(Admission::Yes) => {}
            Ok(Admission::NoRoom) => self.unposted_rooms.push(room),
            Err(error) => self.give_up(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_sink::testing::CountingSink;
    use oxmpi_libfabric::PeerAddress;
    use oxmpi_wire::{Context, Envelope};
    use proptest::prelude::*;

    const COOKIE: u64 = 0x1234_5678_9abc_def0;

    fn peers() -> Vec<Option<Box<OfiPeer>>> {
        vec![None, Some(Box::new(OfiPeer::new(PeerAddress::NOWHERE, 0)))]
    }

    fn eager() -> Frame {
        Frame::Eager { envelope: Envelope { context: Context::Local(3), tag: 7 } }
    }

    proptest! {
        #[test]
        fn a_body_of_any_length_arrives_in_its_messages(len in 0..3 * BODY + 2) {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let body = Body::Bytes(Bytes::from(&bytes[..]));
            let rest = BodyRest::of(&body, 5);
            let first = len.min(BODY);
            let mut message = FrameOpening::new(COOKIE, 1, (&eager(), 0), len - first).as_bytes().to_vec();
            message.extend_from_slice(&bytes[..first]);
            let (mut peers, mut received, mut sink) = (peers(), Traffic::default(), CountingSink::default());
            let mut hand_up = |message: &[u8]| take((message, message.len()), COOKIE, &mut peers, &mut received, &mut sink);
            prop_assert_eq!(hand_up(&message), Delivery::Up);
            if let Some(mut rest) = rest {
                loop {
                    let (head, part, is_last) = rest.next(COOKIE, 1).unwrap();
                    let mut message = head.to_vec();
                    part.append_to(&mut message);
                    prop_assert_eq!(hand_up(&message), Delivery::Up);
                    prop_assert_eq!(rest.advance(), is_last);
                    if is_last {
                        break;
                    }
                }
            }
            prop_assert_eq!(received, Traffic { messages: 1, bytes: len as u64 });
            prop_assert_eq!(sink.bytes, len);
            prop_assert_eq!(peers[1].as_ref().unwrap().arriving, None);
        }

        #[test]
        fn any_messages_are_handed_up_or_refused(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..12), knows: bool) {
            let (mut peers, mut received, mut sink) = (peers(), Traffic::default(), CountingSink::default());
            for mut message in messages {
                if knows && message.len() >= HEAD {
                    message[..8].copy_from_slice(&COOKIE.to_le_bytes());
                    message[8..12].copy_from_slice(&1u32.to_le_bytes());
                }
                let len = message.len();
                let taken = take((&message, len), COOKIE, &mut peers, &mut received, &mut sink);
                prop_assert!(knows && len >= HEAD || taken == Delivery::Intruder, "{taken:?}");
            }
        }
    }

    #[test]
    fn messages_without_the_cookie_are_dropped() {
        let message = FrameOpening::new(COOKIE ^ 1, 1, (&eager(), 0), 0);
        let (mut peers, mut received, mut sink) =
            (peers(), Traffic::default(), CountingSink::default());
        let bytes = message.as_bytes();
        let taken = take((bytes, bytes.len()), COOKIE, &mut peers, &mut received, &mut sink);
        assert_eq!((taken, received), (Delivery::Intruder, Traffic::default()));
        let unmet = FrameOpening::new(COOKIE, 0, (&eager(), 0), 0);
        let bytes = unmet.as_bytes();
        let taken = take((bytes, bytes.len()), COOKIE, &mut peers, &mut received, &mut sink);
        assert_eq!(taken, Delivery::Unmet(0));
    }
}
