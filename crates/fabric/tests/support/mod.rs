//! Helpers of the tests of transports: messages with numbers, whose receiver knows their content,
//! and fuzzing.
#![allow(clippy::unwrap_used, dead_code)] // a failure fails the test; not every test uses all

#[path = "../../../wire/tests/support/seeds.rs"]
mod seeds;

use oxmpi_fabric::sim::Random;
use oxmpi_fabric::{Body, FrameSink, OutgoingMessage, Sent, Transport};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Scratch;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Announced, Context, ContextId, Envelope, Frame};
use std::sync::Arc;

pub(crate) fn fuzz(case: impl Fn(&mut Random)) {
    seeds::each_seed(|seed| case(&mut Random::new(seed)));
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    Eager,
    EagerGlobal,
    Sync,
    /// A piece of an announced message, from contiguous memory or from memory with gaps.
    Piece {
        gaps: bool,
    },
    Answer,
}

/// The kind and length of message `number` of `from`: sender and receiver compute the same.
pub(crate) fn planned(from: u32, number: u32) -> (Manner, usize) {
    let mut random = Random::new(u64::from(from) << 32 | u64::from(number));
    let len = match random.below(8) {
        0 => 0,
        1..4 => random.below(64),
        4..6 => random.below(5000),
        6 => 60_000 + random.below(20_000),
        _ => random.below(400_000),
    };
    let manner = match random.below(8) {
        0..3 => Manner::Eager,
        3 => Manner::EagerGlobal,
        4 => Manner::Sync,
        5 => Manner::Answer,
        6 => Manner::Piece { gaps: true },
        _ => Manner::Piece { gaps: false },
    };
    // Elements of the layout with gaps have 3 bytes.
    let len = if manner == Manner::Answer { 0 } else { len as usize / 3 * 3 };
    (manner, len)
}

fn byte(number: u32, at: usize) -> u8 {
    (number as usize * 31 + at * 7 + at / 251) as u8
}

pub(crate) fn content(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(number, at)).collect()
}

pub(crate) fn buffer_of(content: &[u8], gaps: bool) -> UserBuf {
    let child = Layout::basic(1, 1);
    let layout = if gaps { Layout::hvector(3, 1, 2, &child).unwrap() } else { child };
    let layout = Arc::new(layout);
    let scratch = Scratch::new(content.len() / layout.size(), &layout).unwrap();
    scratch.buf().unpack(0, Bytes::from(content));
    scratch.buf().clone()
}

/// Calls `send` with a planned message, which lends its buffer if it is a piece.
pub(crate) fn with_message<R>(
    from: u32,
    number: u32,
    send: impl FnOnce(&OutgoingMessage<'_>) -> R,
) -> R {
    let (manner, len) = planned(from, number);
    let content = content(number, len);
    let context = match manner {
        Manner::EagerGlobal => Context::Global(ContextId(77)),
        _ => Context::Local(7),
    };
    let envelope = Envelope { context, tag: number as i32 };
    let request = u64::from(number);
    let frame = match manner {
        Manner::Eager | Manner::EagerGlobal => Frame::Eager { envelope },
        Manner::Sync => Frame::EagerSync { envelope, request },
        Manner::Answer => Frame::Fin { request },
        Manner::Piece { .. } => Frame::Data { receiver: request, offset: 0 },
    };
    let sequence = if frame.matches() { number as u8 } else { 0 };
    let message = OutgoingMessage { sequence, frame, body: Body::NONE, lent: None, token: request };
    match manner {
        Manner::Piece { gaps } => {
            let buffer = buffer_of(&content, gaps);
            send(&OutgoingMessage {
                body: Body::of(&buffer, 0, len),
                lent: Some(&buffer),
                ..message
            })
        }
        _ => send(&OutgoingMessage { body: Body::Bytes(Bytes::from(&content[..])), ..message }),
    }
}

/// A receiver of planned messages of one process: each once, in order and unchanged.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) from: u32,
    pub(crate) next: u32,
    /// Number, length, and received bytes.
    body: Option<(u32, usize, usize)>,
    pub(crate) sent: Vec<u64>,
    pub(crate) lost: Vec<u32>,
}

impl Recorder {
    pub(crate) fn of(from: u32) -> Recorder {
        Recorder { from, ..Recorder::default() }
    }

    fn first(
        &mut self,
        from: u32,
        number: u64,
        manners: &[Manner],
        total: usize,
        first: Bytes<'_>,
    ) {
        assert_eq!((from, number), (self.from, u64::from(self.next)), "the next message");
        assert_eq!(self.body, None, "message {number} comes while another has not come whole");
        let (manner, len) = planned(from, self.next);
        assert!(
            manners.contains(&manner) && len == total,
            "message {number}: {manner:?}, {total} bytes"
        );
        self.part(total, 0, first);
    }

    fn part(&mut self, total: usize, offset: usize, part: Bytes<'_>) {
        let number = self.next;
        for (at, got) in part.to_vec().into_iter().enumerate() {
            assert_eq!(got, byte(number, offset + at), "byte {} of message {number}", offset + at);
        }
        let have = offset + part.len();
        assert!(have <= total);
        self.body = (have < total).then_some((number, total, have));
        self.next += u32::from(have == total);
    }
}

const PIECES: [Manner; 2] = [Manner::Piece { gaps: false }, Manner::Piece { gaps: true }];

impl FrameSink for Recorder {
    fn eager(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        total: usize,
        first: Bytes<'_>,
    ) {
        assert_eq!(sequence, self.next as u8);
        let manner = match envelope.context {
            Context::Local(7) => Manner::Eager,
            Context::Global(ContextId(77)) => Manner::EagerGlobal,
            other => panic!("context {other:?}"),
        };
        self.first(from, envelope.tag as u64, &[manner], total, first);
    }

    fn eager_sync(
        &mut self,
        from: u32,
        _: u8,
        _: Envelope,
        request: u64,
        total: usize,
        first: Bytes<'_>,
    ) {
        self.first(from, request, &[Manner::Sync], total, first);
    }

    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {
        panic!("nobody has announced anything");
    }

    fn sync_ack(&mut self, _: u32, _: u64) {
        panic!("nobody has sent this");
    }

    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: bool) {
        panic!("nobody has sent this");
    }

    fn fin(&mut self, from: u32, request: u64) {
        self.first(from, request, &[Manner::Answer], 0, Bytes::empty());
    }

    fn withdraw(&mut self, _: u32, _: u64, _: u64) {
        panic!("nobody has sent this");
    }

    fn withdrawn(&mut self, _: u32, _: u64) {
        panic!("nobody has sent this");
    }

    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>) {
        assert_eq!(offset, 0);
        self.first(from, receiver, &PIECES, total, first);
    }

    fn learn(&mut self, _: u32, _: ContextId, _: u32) {
        panic!("nobody has sent this");
    }

    fn more(&mut self, from: u32, offset: usize, part: Bytes<'_>) {
        let Some((_, total, have)) = self.body else { panic!("a part of nothing") };
        assert_eq!((from, offset), (self.from, have), "the next part");
        self.part(total, offset, part);
    }

    fn sent(&mut self, token: u64) {
        self.sent.push(token);
    }

    fn lost(&mut self, peer: u32) {
        self.lost.push(peer);
    }
}

/// Sends the planned messages of `me` to a peer, and receives those of the peer.
pub(crate) fn exchange(own: &mut dyn Transport, me: u32, peer: u32, messages: u32) {
    let (mut recorder, mut pushed) = (Recorder::of(peer), 0);
    while pushed < messages || recorder.next < messages {
        let mut sent = Sent::Full;
        if pushed < messages {
            sent = with_message(me, pushed, |message| own.send(peer, message)).unwrap();
            pushed += u32::from(sent == Sent::Done);
        }
        if sent == Sent::Full && !own.poll(None, &mut recorder) {
            std::thread::yield_now();
        }
    }
    assert!(recorder.lost.is_empty() && recorder.sent.is_empty());
}

#[derive(Debug, Default)]
pub(crate) struct Anything;

impl FrameSink for Anything {
    fn eager(&mut self, _: u32, _: u8, _: Envelope, _: usize, _: Bytes<'_>) {}
    fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {}
    fn sync_ack(&mut self, _: u32, _: u64) {}
    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: bool) {}
    fn fin(&mut self, _: u32, _: u64) {}
    fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
    fn withdrawn(&mut self, _: u32, _: u64) {}
    fn data(&mut self, _: u32, _: u64, _: u64, _: usize, _: Bytes<'_>) {}
    fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
    fn more(&mut self, _: u32, _: usize, _: Bytes<'_>) {}
    fn sent(&mut self, _: u64) {}
    fn lost(&mut self, _: u32) {}
}
