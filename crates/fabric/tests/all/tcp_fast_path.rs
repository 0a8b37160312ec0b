//! The fast path of receives, which read the socket of their source, and sockets that the poller
//! does not watch meanwhile. The peer is the test, which writes each byte.

use crate::ends::{LIMIT, ProcessConfig, TestProcess};
use crate::raw::{CONTEXT, HandedUp, connect, look, record};
use crate::support::content;
use oxmpi_fabric::tcp::{Point, RECORD_HEADER};
use oxmpi_fabric::{Taken, Transport as _};
use oxmpi_sys::bytes::BytesMut;
use oxmpi_wire::{HEADER_LEN, Tags};
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

const PEER: u32 = 1;
/// A few more messages of one peer in a row than take its socket out of the poller's set.
const MANY: u64 = 80;

/// A process of one thread, and a peer that has connected to it.
fn one_thread(plan: &ProcessConfig) -> (TestProcess, TcpStream) {
    let mut end = several_threads(plan);
    end.tcp = end.tcp.for_one_thread();
    let (stream, point) =
        connect(&mut end, PEER, 3, |end| _ = end.tcp.poll(None, &mut HandedUp::default()));
    assert_eq!(point, Point::default());
    (end, stream)
}

fn several_threads(plan: &ProcessConfig) -> TestProcess {
    TestProcess::new(0, plan)
}

fn receive(end: &mut TestProcess, tags: Tags, into: &mut [u8]) -> Taken {
    let start = Instant::now();
    loop {
        let taken = end.tcp.receive_now(PEER, CONTEXT, tags, BytesMut::from(&mut *into));
        if taken != Taken::Nothing {
            return taken;
        }
        assert!(start.elapsed() < LIMIT, "nothing comes");
    }
}

fn is_shown(end: &TestProcess) -> bool {
    let mut ready = Vec::new();
    end.poller.look(&mut ready);
    ready.iter().any(|one| one.readable)
}

/// Sends `MANY` messages of the peer, the first of which has this number.
fn send_many(end: &mut TestProcess, stream: &mut TcpStream, from: u32, first: u64) {
    let mut came = HandedUp::default();
    for number in 0..MANY {
        stream.write_all(&record(from, first + number, 0, b"one of many", (0, 0))).unwrap();
        look(end, &mut came, |came| came.whole() as u64 > number);
    }
}

#[test]
fn messages_that_were_read_with_another_one_come_next_and_are_not_slept_over() {
    let (mut end, mut stream) = one_thread(&ProcessConfig::new());
    let bodies = [content(0, 8), content(1, 0), content(2, 1000)];
    let records: Vec<u8> = (0..3)
        .flat_map(|number| record(PEER, number, number as i32, &bodies[number as usize], (0, 0)))
        .collect();
    stream.write_all(&records).unwrap();
    for (number, body) in bodies.iter().enumerate() {
        let mut into = vec![0; 2000];
        let taken = receive(&mut end, Tags::ANY, &mut into);
        assert_eq!(taken, Taken::Message { tag: number as i32, len: body.len() });
        assert!(into[..body.len()] == body[..] && into[body.len()..].iter().all(|byte| *byte == 0));
        assert_eq!(end.tcp.before_sleep(), number == 2, "after message {number}");
    }
}

#[test]
fn an_older_message_is_handed_up_first() {
    let (mut end, mut stream) = one_thread(&ProcessConfig::new());
    let (older, wanted) = (content(0, 100), content(1, 100));
    stream.write_all(&record(PEER, 0, 5, &older, (0, 0))).unwrap();
    stream.write_all(&record(PEER, 1, 6, &wanted, (0, 0))).unwrap();
    let mut into = [0; 100];
    assert_eq!(receive(&mut end, Tags::one(6), &mut into), Taken::Other);
    assert_eq!(receive(&mut end, Tags::ANY, &mut into[..99]), Taken::Other);
    assert_eq!(into, [0; 100], "nothing was stored");
    assert!(!end.tcp.before_sleep());
    let mut came = HandedUp::default();
    look(&mut end, &mut came, |came| came.whole() == 2);
    assert_eq!(came.messages, [(PEER, 5, older), (PEER, 6, wanted)]);
    assert!(end.tcp.before_sleep());
}

/// The first `cut` bytes of a message arrive before the receive, the others after it.
fn in_two_parts(
    end: &mut TestProcess,
    stream: &mut TcpStream,
    number: u64,
    body: &[u8],
    (lead, cut): (u8, usize),
) {
    let bytes = record(PEER, number, 3, body, (0, lead));
    stream.write_all(&bytes[..cut]).unwrap();
    let mut into = vec![0; body.len()];
    let mut came = HandedUp::default();
    let taken = receive(end, Tags::one(3), &mut into);
    stream.write_all(&bytes[cut..]).unwrap();
    match taken {
        Taken::Message { tag: 3, len } => assert_eq!(len, body.len(), "cut at {cut}"),
        Taken::Begun { tag: 3, total, stored } => {
            assert_eq!(total, body.len());
            let parts =
                |came: &HandedUp| came.parts.iter().map(|(_, part)| part.len()).sum::<usize>();
            look(end, &mut came, |came| stored + parts(came) == total);
            for (offset, part) in &came.parts {
                into[*offset..offset + part.len()].copy_from_slice(part);
            }
        }
        Taken::Other => {
            look(end, &mut came, |came| came.whole() == 1);
            into = came.messages.remove(0).2;
        }
        other => panic!("cut at {cut}: {other:?}"),
    }
    assert!(into == body, "{} bytes cut at {cut}", body.len());
    assert!(came.messages.is_empty());
}

#[test]
fn a_message_that_comes_in_two_parts_comes_once() {
    let (mut end, mut stream) = one_thread(&ProcessConfig::new());
    let mut number = 0;
    let head = RECORD_HEADER + HEADER_LEN;
    for (len, lead) in [(100, 0), (40_000, 16), (40_001, 63), (100, 7)] {
        let body = content(number as u32, len);
        let whole = record(PEER, 0, 3, &body, (0, lead)).len();
        let lead_len = usize::from(lead);
        for cut in [
            1,
            31,
            32,
            33,
            head,
            head + lead_len,
            head + lead_len + 1,
            head + lead_len + len - 1,
            whole - 1,
        ] {
            in_two_parts(&mut end, &mut stream, number, &body, (lead, cut));
            number += 1;
        }
    }
}

#[test]
fn long_messages_are_received_straight_wherever_they_lie() {
    let (mut end, mut stream) = one_thread(&ProcessConfig::new());
    let mut writer = stream.try_clone().unwrap();
    let leads = [0, 0, 16, 16, 63, 0, 1];
    let len = 65_537;
    let (go, goes) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        for (number, lead) in leads.into_iter().enumerate() {
            let body = content(number as u32, len);
            writer.write_all(&record(PEER, number as u64, 0, &body, (0, lead))).unwrap();
            goes.recv().unwrap();
        }
    });
    for number in 0..leads.len() as u32 {
        let (mut into, mut came) = (vec![0; len], HandedUp::default());
        let start = Instant::now();
        let mut have = loop {
            match end.tcp.receive_now(PEER, CONTEXT, Tags::ANY, BytesMut::from(&mut into[..])) {
                Taken::Message { len, .. } => break len,
                Taken::Begun { stored, .. } => break stored,
                Taken::Nothing => {}
                Taken::Other => _ = end.tcp.poll(None, &mut came),
            }
            if let Some((_, _, body)) = came.messages.first() {
                into[..body.len()].copy_from_slice(body);
                break body.len();
            }
            assert!(start.elapsed() < LIMIT);
        };
        while have < len {
            end.tcp.poll(None, &mut came);
            for (offset, part) in came.parts.drain(..) {
                into[offset..offset + part.len()].copy_from_slice(&part);
                have += part.len();
            }
            if let Some((_, _, body)) = came.messages.first() {
                into[..body.len()].copy_from_slice(body);
                have = body.len();
            }
            assert!(start.elapsed() < LIMIT);
        }
        assert!(into == content(number, len), "message {number}");
        go.send(()).unwrap();
    }
    sender.join().unwrap();
    stream.write_all(&record(PEER, leads.len() as u64, 0, b"end", (0, 0))).unwrap();
    let mut came = HandedUp::default();
    look(&mut end, &mut came, |came| came.whole() == 1);
}

#[test]
fn bytes_stored_before_the_connection_broke_are_not_sent_again() {
    let (mut end, mut stream) = one_thread(&ProcessConfig::new());
    let body = content(0, 50_000);
    let bytes = record(PEER, 0, 3, &body, (0, 16));
    stream.write_all(&bytes[..20_000]).unwrap();
    let mut into = vec![0; body.len()];
    let Taken::Begun { tag: 3, total: 50_000, stored } = receive(&mut end, Tags::ANY, &mut into)
    else {
        panic!("the beginning of it is there")
    };
    assert!(stored > 0);
    drop(stream);
    // Bytes before the end of the connection that no receive has stored are handed up.
    let mut came = HandedUp::default();
    let (mut stream, point) = connect(&mut end, PEER, 3, |end| _ = end.tcp.poll(None, &mut came));
    let have = stored + came.parts.iter().map(|(_, part)| part.len()).sum::<usize>();
    assert_eq!(point, Point { records: 0, bytes: (HEADER_LEN + have) as u32 });
    let mut other = [0; 8];
    let rest = record(PEER, 0, 3, &body, (point.bytes as usize, 5));
    stream.write_all(&rest).unwrap();
    assert_eq!(receive(&mut end, Tags::ANY, &mut other), Taken::Other);
    let parts = |came: &HandedUp| came.parts.iter().map(|(_, part)| part.len()).sum::<usize>();
    look(&mut end, &mut came, |came| stored + parts(came) == body.len());
    for (offset, part) in &came.parts {
        into[*offset..offset + part.len()].copy_from_slice(part);
    }
    assert!(into == body && came.messages.is_empty());
    stream.write_all(&record(PEER, 1, 4, b"next", (0, 0))).unwrap();
    look(&mut end, &mut came, |came| came.whole() == 1);
}

#[test]
fn bytes_ahead_are_dropped_when_another_connection_comes() {
    let (mut end, mut stream) = one_thread(&ProcessConfig::new());
    stream.write_all(&record(PEER, 0, 1, b"first", (0, 0))).unwrap();
    stream.write_all(&record(PEER, 1, 2, b"second", (0, 0))).unwrap();
    // A second one that stays with the kernel would be lost with the connection.
    let mut into = [0; 10];
    assert_eq!(receive(&mut end, Tags::ANY, &mut into), Taken::Message { tag: 1, len: 5 });
    // These polls leave the peer out: its bytes ahead are not handed up.
    let mut came = HandedUp::default();
    let (mut stream, point) =
        connect(&mut end, PEER, 3, |end| _ = end.tcp.poll(Some(PEER), &mut came));
    assert_eq!((point, came.messages.len()), (Point { records: 1, bytes: 0 }, 0));
    assert_eq!(
        end.tcp.receive_now(PEER, CONTEXT, Tags::ANY, BytesMut::from(&mut into[..])),
        Taken::Nothing
    );
    stream.write_all(&record(PEER, 1, 2, b"second", (0, 0))).unwrap();
    assert_eq!(receive(&mut end, Tags::ANY, &mut into), Taken::Message { tag: 2, len: 6 });
    assert_eq!(&into[..6], b"second");
}

#[test]
fn the_socket_of_a_busy_peer_is_watched_again_before_the_process_sleeps() {
    let (mut end, mut stream) = one_thread(&ProcessConfig::new());
    let mut next = 0;
    for _ in 0..3 {
        send_many(&mut end, &mut stream, PEER, next);
        next += MANY;
        stream.write_all(&record(PEER, next, 0, b"not shown", (0, 0))).unwrap();
        let (mut came, start) = (HandedUp::default(), Instant::now());
        while came.whole() == 0 {
            assert!(!is_shown(&end), "its socket is out of the set");
            end.tcp.poll(None, &mut came);
            assert!(start.elapsed() < LIMIT);
        }
        stream.write_all(&record(PEER, next + 1, 0, b"shown", (0, 0))).unwrap();
        next += 2;
        // Anything that has arrived, or arrives later, ends the sleep.
        end.tcp.before_sleep();
        end.poller.wait(Some(LIMIT));
        assert!(is_shown(&end));
        look(&mut end, &mut came, |came| came.whole() == 2);
    }
}

#[test]
fn a_message_of_another_peer_has_the_busy_one_watched_again() {
    let (mut end, mut busy) = one_thread(&ProcessConfig::new());
    let (mut other, _) =
        connect(&mut end, 2, 3, |end| _ = end.tcp.poll(None, &mut HandedUp::default()));
    send_many(&mut end, &mut busy, PEER, 0);
    let mut came = HandedUp::default();
    other.write_all(&record(2, 0, 9, b"other", (0, 0))).unwrap();
    look(&mut end, &mut came, |came| came.whole() == 1);
    assert_eq!(came.messages, [(2, 9, b"other".to_vec())]);
    busy.write_all(&record(PEER, MANY, 0, b"busy", (0, 0))).unwrap();
    end.poller.wait(Some(LIMIT));
    assert!(is_shown(&end));
    look(&mut end, &mut came, |came| came.whole() == 2);
    // Now the poller may omit the other socket.
    send_many(&mut end, &mut other, 2, 1);
    busy.write_all(&record(PEER, MANY + 1, 0, b"busy", (0, 0))).unwrap();
    look(&mut end, &mut came, |came| came.whole() == 3);
}

#[test]
fn with_several_threads_every_socket_is_watched_and_there_is_no_fast_path() {
    // The process gets more threads while a socket is out of the set, before, or at the start.
    for already in [true, false] {
        let plan = ProcessConfig::new();
        let (mut end, mut stream) = one_thread(&plan);
        let mut next = 0;
        if already {
            send_many(&mut end, &mut stream, PEER, next);
            next += MANY;
        }
        end.tcp.share_among_threads();
        watched_always(&mut end, &mut stream, PEER, next);
        let (mut later, _) =
            connect(&mut end, 2, 3, |end| _ = end.tcp.poll(None, &mut HandedUp::default()));
        watched_always(&mut end, &mut later, 2, 0);
    }
    let mut end = several_threads(&ProcessConfig::new());
    let (mut stream, _) =
        connect(&mut end, PEER, 3, |end| _ = end.tcp.poll(None, &mut HandedUp::default()));
    watched_always(&mut end, &mut stream, PEER, 0);
}

fn watched_always(end: &mut TestProcess, stream: &mut TcpStream, from: u32, first: u64) {
    send_many(end, stream, from, first);
    stream.write_all(&record(from, first + MANY, 0, b"shown", (0, 0))).unwrap();
    end.poller.wait(Some(LIMIT));
    assert!(is_shown(end));
    let mut into = [0; 10];
    let taken = end.tcp.receive_now(from, CONTEXT, Tags::ANY, BytesMut::from(&mut into[..]));
    assert_eq!(taken, Taken::Other);
    look(end, &mut HandedUp::default(), |came| came.whole() == 1);
}
