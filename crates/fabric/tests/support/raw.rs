#![allow(dead_code)] // not every test uses all

use crate::ends::{JOB, LIMIT, TestProcess};
use oxmpi_fabric::tcp::{
    ALIGNMENT, Identity, Initiator, Point, RECORD_HEADER, RecordHeader, RecordKind, Secret,
};
use oxmpi_fabric::{FrameSink, Transport as _};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Announced, Context, ContextId, Envelope, Frame, MAX_FRAME_LEN};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

pub(crate) const CONTEXT: u32 = 7;

/// Eager messages with their tags, in order, and parts of an incomplete body.
#[derive(Debug, Default)]
pub(crate) struct HandedUp {
    pub(crate) messages: Vec<(u32, i32, Vec<u8>)>,
    pub(crate) parts: Vec<(usize, Vec<u8>)>,
    /// The missing bytes of the last message.
    left: usize,
}

impl HandedUp {
    pub(crate) fn whole(&self) -> usize {
        self.messages.len() - usize::from(self.left > 0)
    }
}

impl FrameSink for HandedUp {
    fn eager(&mut self, from: u32, _: u8, envelope: Envelope, total: usize, first: Bytes<'_>) {
        self.left = total - first.len();
        self.messages.push((from, envelope.tag, first.to_vec()));
    }
    fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {}
    fn sync_ack(&mut self, _: u32, _: u64) {}
    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: bool) {}
    fn fin(&mut self, _: u32, _: u64) {}
    fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
    fn withdrawn(&mut self, _: u32, _: u64) {}
    fn data(&mut self, _: u32, _: u64, _: u64, _: usize, _: Bytes<'_>) {}
    fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
    fn more(&mut self, _: u32, offset: usize, part: Bytes<'_>) {
        if self.left == 0 {
            return self.parts.push((offset, part.to_vec()));
        }
        self.left -= part.len();
        self.messages.last_mut().unwrap().2.extend(part.to_vec());
    }
    fn sent(&mut self, _: u64) {}
    fn lost(&mut self, peer: u32) {
        panic!("process {peer} is lost");
    }
}

/// Message `number` of `from`, without `start` bytes of frame and body, with `lead` zeros before
/// the rest.
pub(crate) fn record(
    from: u32,
    number: u64,
    tag: i32,
    body: &[u8],
    (start, lead): (usize, u8),
) -> Vec<u8> {
    let mut frame = [0; MAX_FRAME_LEN];
    let envelope = Envelope { context: Context::Local(CONTEXT), tag };
    let frame_len = Frame::Eager { envelope }.encode(number as u8, from, &mut frame);
    let length = (frame_len + body.len()) as u32;
    let header = RecordHeader {
        kind: RecordKind::Frame,
        wanted: false,
        number,
        acknowledged: 0,
        length,
        start: start as u32,
        lead,
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(RECORD_HEADER + usize::from(lead), 0);
    bytes.extend_from_slice(&[&frame[..frame_len], body].concat()[start..]);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

pub(crate) fn look(
    end: &mut TestProcess,
    came: &mut HandedUp,
    mut done: impl FnMut(&HandedUp) -> bool,
) {
    let start = Instant::now();
    while !done(came) {
        end.tcp.poll(None, came);
        assert!(start.elapsed() < LIMIT, "it does not end: {came:?}");
    }
}

/// Connects as process `from` of `size`. Returns the connection, and the point of the process.
pub(crate) fn connect(
    end: &mut TestProcess,
    from: u32,
    size: u32,
    mut poll: impl FnMut(&mut TestProcess),
) -> (TcpStream, Point) {
    let own = Identity { job: JOB, rank: from, size, incarnation: 1 };
    let mut stream = TcpStream::connect(end.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut initiator, hello) =
        Initiator::new(own, end.me, &Secret([7; 32]), &[9; 32], false).unwrap();
    stream.write_all(&hello).unwrap();
    let welcome = answer(end, &mut stream, &mut poll);
    let (_, proof) = initiator.welcomed(&welcome, Point::default()).unwrap();
    stream.write_all(&proof).unwrap();
    let verdict = answer(end, &mut stream, &mut poll);
    (stream, initiator.judged(&verdict).unwrap())
}

pub(crate) fn answer<const N: usize>(
    end: &mut TestProcess,
    stream: &mut TcpStream,
    poll: &mut impl FnMut(&mut TestProcess),
) -> [u8; N] {
    stream.set_nonblocking(true).unwrap();
    let (mut bytes, mut have, start) = ([0; N], 0, Instant::now());
    while have < N {
        poll(end);
        match stream.read(&mut bytes[have..]) {
            Ok(0) => panic!("it has closed the connection"),
            Ok(came) => have += came,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(start.elapsed() < LIMIT, "it says nothing");
    }
    stream.set_nonblocking(false).unwrap();
    bytes
}
