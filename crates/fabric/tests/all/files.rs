//! The example of a transport, through files: planned messages arrive once, in order and complete,
//! and a full directory is reported.

use crate::files_transport::{Directory, Files, PIECE, ROOM};
use crate::support::{Recorder, buffer_of, content, exchange, with_message};
use oxmpi_fabric::{Body, FrameSink, Membership as _, OutgoingMessage, Sent, Transport as _};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Announced, ContextId, Envelope, Frame};
use std::path::Path;

const FIRST: u32 = 5;
const MESSAGES: u32 = 1000;

fn end(own: u32, directory: &Path) -> Files {
    Files::new(own, FIRST..FIRST + 2, directory).unwrap()
}

#[test]
fn messages_between_two_ends_arrive_in_order() {
    let directory = Directory::new("order");
    std::thread::scope(|scope| {
        for me in [FIRST, FIRST + 1] {
            let (directory, peer) = (&directory.0, 2 * FIRST + 1 - me);
            scope.spawn(move || exchange(&mut end(me, directory), me, peer, MESSAGES));
        }
    });
}

#[test]
fn a_full_directory_takes_nothing_until_its_process_polls() {
    let directory = Directory::new("full");
    let (mut one, mut other) = (end(FIRST, &directory.0), end(FIRST + 1, &directory.0));
    let mut send =
        |number| with_message(FIRST, number, |message| one.send(FIRST + 1, message)).unwrap();
    let (room, mut recorder) = (ROOM as u32, Recorder::of(FIRST));
    for round in 0..3 {
        let next = round * room;
        assert!((next..next + room).all(|number| send(number) == Sent::Done));
        assert_eq!(send(next + room), Sent::Full);
        assert!(!other.before_sleep(), "something has come");
        assert!(other.poll(None, &mut recorder) && recorder.next == next + room);
        assert!(other.before_sleep() && !other.poll(None, &mut recorder));
    }
    // Each sender has room of its own, a process that sends to itself as well.
    assert!((0..room).all(|number| send(3 * room + number) == Sent::Done));
    assert_eq!(
        with_message(FIRST + 1, 0, |message| other.send(FIRST + 1, message)),
        Ok(Sent::Done)
    );
    assert!(one.leave() && other.has_left(FIRST) && !one.has_left(FIRST + 1));
}

#[test]
fn a_long_message_comes_in_pieces() {
    let directory = Directory::new("pieces");
    let (mut one, mut other) = (end(FIRST, &directory.0), end(FIRST + 1, &directory.0));
    for gaps in [false, true] {
        let whole = content(9, 3 * PIECE + 300);
        let (buffer, mut got) = (buffer_of(&whole, gaps), Pieces::default());
        while got.0.len() < whole.len() {
            let offset = got.0.len();
            let len = one.piece_limit(FIRST + 1).min(whole.len() - offset);
            let frame = Frame::Data { receiver: 9, offset: offset as u64 };
            let body = Body::of(&buffer, offset, len);
            let message =
                OutgoingMessage { sequence: 0, frame, body, lent: Some(&buffer), token: 0 };
            assert_eq!(one.send(FIRST + 1, &message), Ok(Sent::Done));
            assert!(other.poll(None, &mut got));
        }
        assert!(got.0 == whole && got.1 == 4);
    }
}

#[test]
fn a_sender_of_invalid_frames_is_reported_once() {
    let directory = Directory::new("foreign");
    let mut own = end(FIRST, &directory.0);
    let of_peer = |number| directory.0.join(format!("{FIRST}/{}-{number}", FIRST + 1));
    std::fs::write(of_peer(0), b"no frame").unwrap();
    let mut recorder = Recorder::of(FIRST + 1);
    assert!(!own.before_sleep() && own.poll(None, &mut recorder));
    assert!(own.before_sleep() && !own.poll(None, &mut recorder));
    assert_eq!(recorder.lost, [FIRST + 1]);
}

#[test]
fn only_ranks_of_the_job_are_reached() {
    let directory = Directory::new("reach");
    let mut own = end(FIRST, &directory.0);
    let reached = [FIRST - 1, FIRST, FIRST + 1, FIRST + 2].map(|peer| own.reaches(peer));
    assert_eq!(reached, [false, true, true, false]);
    let error = with_message(FIRST, 0, |message| own.send(FIRST + 2, message)).unwrap_err();
    assert_eq!(error.to_string(), "process 7 cannot be reached: it is no rank of this job");
}

#[derive(Default)]
struct Pieces(Vec<u8>, usize);

impl FrameSink for Pieces {
    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>) {
        assert_eq!((from, receiver, offset, total), (FIRST, 9, self.0.len() as u64, first.len()));
        first.append_to(&mut self.0);
        self.1 += 1;
    }

    fn eager(&mut self, _: u32, _: u8, _: Envelope, _: usize, _: Bytes<'_>) {}
    fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {}
    fn sync_ack(&mut self, _: u32, _: u64) {}
    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: bool) {}
    fn fin(&mut self, _: u32, _: u64) {}
    fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
    fn withdrawn(&mut self, _: u32, _: u64) {}
    fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
    fn more(&mut self, _: u32, _: usize, _: Bytes<'_>) {}
    fn sent(&mut self, _: u64) {}
    fn lost(&mut self, _: u32) {}
}
