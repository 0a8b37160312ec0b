//! Records that are sent before the end of a greeting (`tcp/greeting.rs` rules 7 to 10): they
//! arrive while their sender does nothing, once, in order, and only from processes that may send
//! them.

use crate::ends::{self, JOB, LIMIT, ProcessConfig, TestProcess};
use crate::raw::{CONTEXT, HandedUp, answer, look, record};
use crate::support::content;
use oxmpi_fabric::tcp::{
    Acceptor, EARLY_BYTES, HELLO, Identity, Initiator, PROOF, Point, RECORD_HEADER, RecordHeader,
    Secret, VERDICT, WELCOME,
};
use oxmpi_fabric::{Body, Membership as _, OutgoingMessage, Sent, Statistics as _, Transport as _};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Context, Envelope, Frame};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

const SECRET: Secret = Secret([7; 32]);

fn send(end: &mut TestProcess, tag: i32, body: &[u8]) -> Sent {
    let frame = Frame::Eager { envelope: Envelope { context: Context::Local(CONTEXT), tag } };
    let body = Body::Bytes(Bytes::from(body));
    let message =
        OutgoingMessage { sequence: tag as u8, frame, body, lent: None, token: tag as u64 };
    end.tcp.send(1 - end.me, &message).unwrap()
}

/// Sends messages with tags from 0 on, as long as they leave at once. Returns their number.
fn send_all(end: &mut TestProcess, bytes: usize) -> i32 {
    (0..).find(|tag| send(end, *tag, &content(*tag as u32, bytes)) != Sent::Done).unwrap()
}

/// Messages of process `from` that a test expects, with tags from 0 on and of a length in bytes.
fn expected(from: u32, messages: i32, bytes: usize) -> Vec<(u32, i32, Vec<u8>)> {
    (0..messages).map(|tag| (from, tag, content(tag as u32, bytes))).collect()
}

fn pair(plans: &[ProcessConfig; 2]) -> ([TestProcess; 2], [HandedUp; 2]) {
    (ends::pair(plans), [HandedUp::default(), HandedUp::default()])
}

fn until(
    ends: &mut [TestProcess; 2],
    came: &mut [HandedUp; 2],
    mut done: impl FnMut(&mut [TestProcess; 2], &[HandedUp; 2]) -> bool,
) {
    let start = Instant::now();
    while !done(ends, came) {
        for (end, came) in ends.iter_mut().zip(&mut *came) {
            end.tcp.poll(None, came);
        }
        assert!(start.elapsed() < LIMIT, "it does not end: {ends:?}, {came:?}");
    }
}

fn leave(ends: &mut [TestProcess; 2], came: &mut [HandedUp; 2]) {
    until(ends, came, |[a, b], _| a.tcp.leave() & b.tcp.leave());
}

#[test]
fn first_messages_arrive_while_their_sender_does_nothing() {
    let (mut ends, mut came) = pair(&[ProcessConfig::new(), ProcessConfig::new()]);
    assert_eq!(send(&mut ends[0], 0, b"first"), Sent::Done, "with the first call");
    assert_eq!(send(&mut ends[0], 1, b""), Sent::Done);
    look(&mut ends[1], &mut came[1], |came| came.whole() == 2);
    assert_eq!(came[1].messages, [(0, 0, b"first".to_vec()), (0, 1, Vec::new())]);
    assert_eq!((ends[0].tcp.counts().connections, ends[1].tcp.counts().connections), (0, 0));
    // Later the connection continues behind the early records.
    until(&mut ends, &mut came, |ends, _| ends[0].tcp.counts().connections == 1);
    assert_eq!(send(&mut ends[0], 2, b"second"), Sent::Done);
    look(&mut ends[1], &mut came[1], |came| came.whole() == 3);
    assert_eq!(came[1].messages[2], (0, 2, b"second".to_vec()));
    leave(&mut ends, &mut came);
}

#[test]
fn first_messages_of_a_dead_sender_arrive() {
    let ([mut dies, mut end], [_, mut came]) = pair(&[ProcessConfig::new(), ProcessConfig::new()]);
    let messages = send_all(&mut dies, 100);
    drop(dies);
    look(&mut end, &mut came, |came| came.whole() == messages as usize);
    assert_eq!(came.messages, expected(0, messages, 100));
}

/// The kernel takes all of them whole, even with the smallest buffers.
#[test]
fn no_more_is_sent_early_than_the_kernel_keeps() {
    for buffers in [Some(32 << 10), Some(65535), None] {
        for bytes in [0, 1, 40, 440, 2048, 9000] {
            let plans = [ProcessConfig::new(), ProcessConfig::new()].map(|mut plan| {
                plan.settings.buffers = buffers;
                plan
            });
            let (mut ends, mut came) = pair(&plans);
            let messages = send_all(&mut ends[0], bytes);
            let least = EARLY_BYTES / (bytes + 256);
            assert!(messages as usize >= least, "{messages} of {bytes} bytes with {buffers:?}");
            look(&mut ends[1], &mut came[1], |came| came.whole() == messages as usize);
            let mut next = messages;
            until(&mut ends, &mut came, |ends, came| {
                let body = content(next as u32, bytes);
                if next < messages + 5 && send(&mut ends[0], next, &body) != Sent::Full {
                    next += 1;
                }
                came[1].whole() == messages as usize + 5
            });
            assert_eq!(came[1].messages, expected(0, messages + 5, bytes));
            leave(&mut ends, &mut came);
        }
    }
}

/// The test tries either order of ranks, and any order of polls.
#[test]
fn first_messages_of_both_arrive_once_and_in_order() {
    for polls in 0..64 {
        let (mut ends, mut came) = pair(&[ProcessConfig::new(), ProcessConfig::new()]);
        let mut next = [0, 1].map(|at: usize| send_all(&mut ends[at], 60 + 600 * at));
        // Each bit is a poll by one of them.
        for bit in 0..6 {
            let at = polls >> bit & 1;
            ends[at].tcp.poll(None, &mut came[at]);
        }
        until(&mut ends, &mut came, |ends, came| {
            for at in 0..2 {
                let body = content(next[at] as u32, 60 + 600 * at);
                if next[at] < 300 && send(&mut ends[at], next[at], &body) != Sent::Full {
                    next[at] += 1;
                }
            }
            came.iter().all(|came| came.whole() == 300)
        });
        for at in 0..2 {
            assert_eq!(
                came[1 - at].messages,
                expected(at as u32, 300, 60 + 600 * at),
                "{polls:#b}"
            );
        }
        leave(&mut ends, &mut came);
    }
}

/// A peer whose bytes the test writes, after its Hello.
struct Raw {
    stream: TcpStream,
    initiator: Initiator,
    said: Vec<u8>,
}

impl Raw {
    fn connect(end: &TestProcess, from: u32, incarnation: u64) -> Raw {
        let own = Identity { job: JOB, rank: from, size: 2, incarnation };
        let mut stream = TcpStream::connect(end.address).unwrap();
        let (mut initiator, hello) = Initiator::new(own, end.me, &SECRET, &[9; 32], false).unwrap();
        initiator.allow_early();
        stream.write_all(&hello).unwrap();
        Raw { stream, initiator, said: hello.to_vec() }
    }

    fn message(&mut self, record: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        self.initiator.early(&[Bytes::from(record)], &mut message);
        message
    }

    fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.said.extend_from_slice(bytes);
    }

    fn say_early(&mut self, record: &[u8]) {
        let message = self.message(record);
        self.say(&message);
    }

    /// Completes the greeting. Returns the received point of the process.
    fn greet(&mut self, end: &mut TestProcess, came: &mut HandedUp) -> Point {
        let welcome: [u8; WELCOME] =
            answer(end, &mut self.stream, &mut |end| _ = end.tcp.poll(None, came));
        let (_, proof) = self.initiator.welcomed(&welcome, Point::default()).unwrap();
        self.say(&proof);
        let verdict: [u8; VERDICT] =
            answer(end, &mut self.stream, &mut |end| _ = end.tcp.poll(None, came));
        self.initiator.judged(&verdict).unwrap()
    }

    /// Lets the process poll until it has closed the connection.
    fn is_closed(&mut self, end: &mut TestProcess, came: &mut HandedUp) {
        self.stream.set_nonblocking(true).unwrap();
        let start = Instant::now();
        loop {
            end.tcp.poll(None, came);
            match self.stream.read(&mut [0; 1000]) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
            assert!(start.elapsed() < LIMIT, "it is not closed");
        }
    }
}

fn early(number: u64) -> Vec<u8> {
    record(0, number, number as i32, &content(number as u32, 50), (0, 0))
}

/// A process with number 1, and its plan.
fn process() -> (ProcessConfig, TestProcess, HandedUp) {
    let plan = ProcessConfig::new();
    let end = TestProcess::new(1, &plan);
    (plan, end, HandedUp::default())
}

#[test]
fn early_records_do_not_come_again_when_the_connection_ends() {
    let (_plan, mut end, mut came) = process();
    let mut raw = Raw::connect(&end, 0, 1);
    for number in 0..2 {
        raw.say_early(&early(number));
    }
    // Half of the third one arrives.
    let third = raw.message(&early(2));
    raw.say(&third[..third.len() / 2]);
    look(&mut end, &mut came, |came| came.whole() == 2);
    drop(raw);
    // The next attempt repeats all of it, in the wrong place.
    let mut raw = Raw::connect(&end, 0, 1);
    for number in 0..3 {
        raw.say_early(&early(number));
    }
    assert_eq!(raw.greet(&mut end, &mut came), Point { records: 2, bytes: 0 });
    for number in 2..4 {
        raw.say(&early(number));
    }
    look(&mut end, &mut came, |came| came.whole() == 4);
    assert_eq!(came.messages, expected(0, 4, 50));
}

/// A Proof without records, then an early record: it comes again on the Proof's connection.
#[test]
fn early_records_after_a_proof_are_skipped_when_they_come_again() {
    let (plan, mut end, mut came) = process();
    let tap = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    plan.at(tap.local_addr().unwrap());
    assert_eq!(send(&mut end, 0, b"of its own"), Sent::Done);
    let (mut own, _) = tap.accept().unwrap();
    let hello: [u8; HELLO] = answer(&mut end, &mut own, &mut |_| {});
    let peer = Identity { job: JOB, rank: 0, size: 2, incarnation: 1 };
    let (mut acceptor, welcome) = Acceptor::new(peer, &SECRET, &hello, &[8; 32], false).unwrap();
    let begin: [u8; PROOF] = answer(&mut end, &mut own, &mut |_| {});
    let mut message = begin.to_vec();
    message.resize(acceptor.next_length(&begin).unwrap(), 0);
    own.read_exact(&mut message[PROOF..]).unwrap();
    let own_record = acceptor.early(&message).unwrap();
    assert_eq!(own_record, record(1, 0, 0, b"of its own", (0, 0)));
    own.write_all(&welcome).unwrap();
    let proof: [u8; PROOF] =
        answer(&mut end, &mut own, &mut |end| _ = end.tcp.poll(None, &mut came));
    assert_eq!(acceptor.proved(&proof), Ok(Point::default()));

    let mut raw = Raw::connect(&end, 0, 1);
    for number in 0..2 {
        raw.say_early(&early(number));
    }
    look(&mut end, &mut came, |came| came.whole() == 2);
    own.write_all(&acceptor.judge(Some(Point { records: 1, bytes: 0 }))).unwrap();
    raw.say_early(&early(2));
    let start = Instant::now();
    while end.tcp.counts().connections == 0 {
        end.tcp.poll(None, &mut came);
        assert!(start.elapsed() < LIMIT);
    }
    // In pieces; acknowledgements meanwhile do not count records that have not come again.
    let seen = came.whole() as u64;
    let again: Vec<u8> = (0..5).flat_map(early).collect();
    own.write_all(&again[..70]).unwrap();
    end.tcp.poll(None, &mut came);
    assert_eq!(send(&mut end, 1, b"more"), Sent::Done);
    let said: [u8; RECORD_HEADER] = answer(&mut end, &mut own, &mut |_| {});
    assert_eq!(RecordHeader::decode(&said).unwrap().acknowledged, 0);
    for part in again[70..].chunks(33) {
        own.write_all(part).unwrap();
        end.tcp.poll(None, &mut came);
    }
    look(&mut end, &mut came, |came| came.whole() == 5);
    assert!(seen == 2 || seen == 3);
    assert_eq!(came.messages, expected(0, 5, 50));
    let mut rest = [0; 32];
    own.read_exact(&mut rest).unwrap();
    assert_eq!(send(&mut end, 2, b"more"), Sent::Done);
    let said: [u8; RECORD_HEADER] = answer(&mut end, &mut own, &mut |_| {});
    assert_eq!(RecordHeader::decode(&said).unwrap().acknowledged, 5);
}

/// A change of the early messages, and the number of messages that are still taken.
type EarlyChange = (&'static str, usize, fn(&mut Raw) -> Vec<u8>);

#[test]
fn violations_of_the_early_rules_close_the_connection() {
    let changes: [EarlyChange; 8] = [
        ("a wrong MAC", 1, |raw| {
            let mut two = [raw.message(&early(0)), raw.message(&early(1))].concat();
            *two.last_mut().unwrap() ^= 1;
            two
        }),
        ("a changed body", 0, |raw| {
            let mut one = raw.message(&early(0));
            one[90] ^= 1;
            one
        }),
        ("another order", 0, |raw| {
            let one = raw.message(&early(0));
            [raw.message(&early(1)), one].concat()
        }),
        ("a repetition", 1, |raw| {
            let one = raw.message(&early(0));
            [&one[..], &one[..]].concat()
        }),
        ("one of another connection", 0, |raw| {
            let own = Identity { job: JOB, rank: 0, size: 2, incarnation: 1 };
            let (mut other, _) = Initiator::new(own, 1, &SECRET, &[10; 32], false).unwrap();
            other.allow_early();
            std::mem::swap(&mut raw.initiator, &mut other);
            raw.message(&early(0))
        }),
        ("too much at once", 0, |raw| raw.message(&record(0, 0, 0, &[7; EARLY_BYTES], (0, 0)))),
        ("too much", 1, |raw| {
            let half = |number| record(0, number, 0, &[7; EARLY_BYTES / 2], (0, 0));
            [raw.message(&half(0)), raw.message(&half(1))].concat()
        }),
        ("no whole record", 0, |raw| {
            let two = [early(0), early(1)].concat();
            raw.message(&two)
        }),
    ];
    for (name, whole, change) in changes {
        let (_plan, mut end, mut came) = process();
        let mut raw = Raw::connect(&end, 0, 1);
        let message = change(&mut raw);
        raw.say(&message);
        raw.is_closed(&mut end, &mut came);
        assert_eq!(came.whole(), whole, "{name}");
        // The change has no effect on the next connection.
        let point = Raw::connect(&end, 0, 1).greet(&mut end, &mut came);
        assert_eq!(point, Point { records: whole as u64, bytes: 0 }, "{name}");
    }
}

/// A recording of everything on a connection is sent again.
#[test]
fn a_replay_delivers_nothing_to_a_process_that_knows_the_rank() {
    let (_plan, mut end, mut came) = process();
    let mut raw = Raw::connect(&end, 0, 1);
    for number in 0..3 {
        raw.say_early(&early(number));
    }
    look(&mut end, &mut came, |came| came.whole() == 3);
    let replay = |end: &mut TestProcess, came: &mut HandedUp, all: &[u8]| {
        let mut stream = TcpStream::connect(end.address).unwrap();
        stream.write_all(all).unwrap();
        let _: [u8; WELCOME] = answer(end, &mut stream, &mut |end| _ = end.tcp.poll(None, came));
        (0..10).for_each(|_| _ = end.tcp.poll(None, came));
        assert_eq!(came.whole(), 3);
    };
    let said = raw.said.clone();
    replay(&mut end, &mut came, &said);
    assert_eq!(raw.greet(&mut end, &mut came), Point { records: 3, bytes: 0 });
    replay(&mut end, &mut came, &said);
    drop(raw);
    replay(&mut end, &mut came, &said);
}

#[test]
fn a_replay_from_an_earlier_generation_delivers_nothing() {
    for (own, incarnation, is_taken) in [(2, 1, false), (2, 2, true), (1, 2, true)] {
        let plan = ProcessConfig { incarnation: own, ..ProcessConfig::new() };
        let (mut end, mut came) = (TestProcess::new(1, &plan), HandedUp::default());
        let mut raw = Raw::connect(&end, 0, incarnation);
        raw.say_early(&early(0));
        let point = raw.greet(&mut end, &mut came);
        assert_eq!((came.whole(), point.records), (usize::from(is_taken), u64::from(is_taken)));
        // Dropped records come again.
        raw.say(&early(point.records));
        look(&mut end, &mut came, |came| came.whole() == 1 + usize::from(is_taken));
        // Nothing of another incarnation is taken.
        let mut other = Raw::connect(&end, 0, incarnation + 1);
        other.say_early(&early(0));
        let _: [u8; WELCOME] =
            answer(&mut end, &mut other.stream, &mut |end| _ = end.tcp.poll(None, &mut came));
        (0..10).for_each(|_| _ = end.tcp.poll(None, &mut came));
        assert_eq!(came.whole(), 1 + usize::from(is_taken));
    }
}

#[test]
fn nothing_goes_early_if_either_side_wants_encryption() {
    for (plans, first) in [
        ([ProcessConfig::encrypted(), ProcessConfig::new()], Sent::Full),
        ([ProcessConfig::encrypted(), ProcessConfig::encrypted()], Sent::Full),
        // The sender cannot know that; the record comes again, encrypted.
        ([ProcessConfig::new(), ProcessConfig::encrypted()], Sent::Done),
    ] {
        let (mut ends, mut came) = pair(&plans);
        assert_eq!(send(&mut ends[0], 0, b"first"), first);
        for _ in 0..20 {
            ends[1].tcp.poll(None, &mut came[1]);
        }
        assert_eq!(came[1].whole(), 0);
        let mut is_sent = first != Sent::Full;
        until(&mut ends, &mut came, |ends, came| {
            is_sent = is_sent || send(&mut ends[0], 0, b"first") != Sent::Full;
            came[1].whole() == 1
        });
        assert_eq!(came[1].messages, [(0, 0, b"first".to_vec())]);
        leave(&mut ends, &mut came);
    }
}

/// A process that ends, rests, or parts with a peer has acknowledged everything received.
#[test]
fn a_receiver_of_early_records_waits_for_its_acknowledgement() {
    let (mut ends, mut came) = pair(&[ProcessConfig::new(), ProcessConfig::new()]);
    assert_eq!(send(&mut ends[0], 0, b"first"), Sent::Done);
    look(&mut ends[1], &mut came[1], |came| came.whole() == 1);
    let end = &mut ends[1].tcp;
    assert!(!oxmpi_fabric::Membership::rest(end) && !end.settle(0) && !end.leave());
    let mut rests = false;
    until(&mut ends, &mut came, |[a, b], _| {
        rests = rests || oxmpi_fabric::Membership::rest(&mut b.tcp);
        rests && oxmpi_fabric::Membership::rest(&mut a.tcp)
    });
    assert!(ends[1].tcp.settle(0) && ends[0].tcp.settle(1));
}
