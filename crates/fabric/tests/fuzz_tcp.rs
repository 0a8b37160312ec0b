//! The protocol of sockets without sockets: links over bytes in memory that are cut at random, and
//! bytes from outside the job. OXMPI_FUZZ_SECONDS is the time of each test, OXMPI_FUZZ_SEED replays
//! one case.
#![allow(clippy::unwrap_used)] // a failure fails the test

mod support;

use oxmpi_fabric::sim::Random;
use oxmpi_fabric::tcp::{
    Acceptor, EARLY_BYTES, GreetingError, HELLO, Identity, Initiator, Link, PROOF, Point,
    RECORD_HEADER, RecordHeader, RecordKind, Secret, VERDICT, WELCOME,
};
use oxmpi_sys::bytes::Bytes;
use std::collections::VecDeque;
use support::{Anything, Manner, Recorder, fuzz, planned, with_message};

/// One side, and its sent bytes that have not arrived.
struct LinkSide {
    me: u32,
    link: Link,
    recorder: Recorder,
    pushed: u32,
    wire: VecDeque<u8>,
    released: Vec<u64>,
    /// The point that this side has stated at the last cut.
    said: Point,
}

impl LinkSide {
    fn new(me: u32) -> LinkSide {
        let recorder = Recorder::of(1 - me);
        LinkSide {
            me,
            link: Link::default(),
            recorder,
            pushed: 0,
            wire: VecDeque::new(),
            released: Vec::new(),
            said: Point::default(),
        }
    }

    fn push(&mut self) {
        let (_, len) = planned(self.me, self.pushed);
        if !self.link.has_room(len) {
            if self.link.is_written() {
                self.link.ask();
            }
            return;
        }
        with_message(self.me, self.pushed, |message| match message.lent {
            Some(buffer) => self.link.lend(self.me, message, (buffer.clone(), 0, len)),
            None => self.link.push(self.me, message),
        });
        self.pushed += 1;
    }

    fn release(&mut self, random: &mut Random) {
        let token = random.below(u64::from(self.pushed) + 1);
        self.link.release(token);
        self.released.push(token);
    }

    fn write(&mut self, random: &mut Random) {
        let Some(pieces) = self.link.pending() else { return };
        let bytes: Vec<u8> = pieces.as_slice().iter().flat_map(|piece| piece.to_vec()).collect();
        let part = match random.below(3) {
            0 => 1 + random.below(bytes.len() as u64) as usize,
            _ => bytes.len(),
        };
        self.wire.extend(&bytes[..part]);
        self.link.wrote(part);
    }

    /// Writes one more message early. Returns its record, if it may be written so.
    fn write_early(&mut self) -> Option<Vec<u8>> {
        let (manner, len) = planned(self.me, self.pushed);
        if matches!(manner, Manner::Piece { .. }) || len > EARLY_BYTES {
            return None;
        }
        self.push();
        let pieces = self.link.pending()?;
        let bytes: Vec<u8> = pieces.as_slice().iter().flat_map(|piece| piece.to_vec()).collect();
        self.link.wrote(bytes.len());
        assert!(self.link.is_written());
        Some(bytes)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.link.take(1 - self.me, bytes, &mut self.recorder).unwrap();
        self.link.tell_gone(&mut self.recorder);
    }
}

fn deliver(from: &mut LinkSide, to: &mut LinkSide, most: usize) {
    let n = from.wire.len().min(most);
    let bytes: Vec<u8> = from.wire.drain(..n).collect();
    to.take(&bytes);
}

/// Accepts a connection that the other side has given up, with a point that is out of date.
fn stray(one: &mut LinkSide, other: &LinkSide, random: &mut Random) {
    if one.link.resume(other.said).is_ok() {
        one.write(random);
    }
    one.link.tell_gone(&mut one.recorder);
}

fn cut(a: &mut LinkSide, b: &mut LinkSide) {
    a.wire.clear();
    b.wire.clear();
    let points = [a.link.point(), b.link.point()];
    (a.said, b.said) = (points[0], points[1]);
    a.link.resume(points[1]).unwrap();
    b.link.resume(points[0]).unwrap();
    a.link.tell_gone(&mut a.recorder);
    b.link.tell_gone(&mut b.recorder);
}

/// Both send early records, until the first connection is used. Each states its received point anew
/// at any time, and the last statement counts; some records are dropped, with all later ones.
fn begin_early(a: &mut LinkSide, b: &mut LinkSide, random: &mut Random) {
    let mut queues = [VecDeque::new(), VecDeque::new()];
    let mut sides = [a, b];
    for _ in 0..random.below(30) {
        let at = random.below(2) as usize;
        match random.below(4) {
            0..2 => queues[at].extend(sides[at].write_early()),
            2 => {
                let Some(record) = queues[1 - at].pop_front() else { continue };
                let LinkSide { me, link, recorder, .. } = &mut *sides[at];
                if random.below(10) == 0 {
                    queues[1 - at].clear();
                } else {
                    link.take_early(1 - *me, &record, recorder).unwrap();
                    // A repetition is refused.
                    assert_eq!(link.take_early(1 - *me, &record, recorder), Ok(false));
                }
            }
            _ => sides[at].said = sides[at].link.point(),
        }
    }
    let points = [0, 1].map(|at: usize| match random.below(2) {
        0 => sides[at].link.point(),
        _ => sides[at].said,
    });
    for at in 0..2 {
        sides[at].link.resume(points[1 - at]).unwrap();
        let LinkSide { link, recorder, .. } = &mut *sides[at];
        link.tell_gone(recorder);
    }
}

#[test]
fn nothing_is_lost_doubled_or_reordered_however_often_the_connection_is_cut() {
    fuzz(|random| {
        let (mut a, mut b) = (LinkSide::new(0), LinkSide::new(1));
        let cuts = random.below(40);
        begin_early(&mut a, &mut b, random);
        for _ in 0..300 {
            let (one, other) =
                if random.below(2) == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            match random.below(100) {
                0..30 => one.push(),
                30..60 => one.write(random),
                60..90 => {
                    let most = 1 + random.below(150_000) as usize;
                    deliver(one, other, most);
                }
                90..92 => one.release(random),
                _ if random.below(40) < cuts => {
                    if random.below(3) == 0 {
                        stray(one, other, random);
                    }
                    cut(one, other);
                }
                _ => {}
            }
        }
        for _ in 0..100_000 {
            if a.link.is_acknowledged() && b.link.is_acknowledged() {
                break;
            }
            for side in [&mut a, &mut b] {
                side.link.ask();
                side.write(random);
            }
            deliver(&mut a, &mut b, usize::MAX);
            deliver(&mut b, &mut a, usize::MAX);
        }
        for (side, other) in [(&a, &b), (&b, &a)] {
            assert!(side.link.is_acknowledged());
            assert_eq!(other.recorder.next, side.pushed, "all have come");
            // Each message is reported once, but a released message at most once.
            let mut sent = side.recorder.sent.clone();
            sent.sort_unstable();
            assert!(sent.windows(2).all(|two| two[0] != two[1]), "twice: {:?}", side.recorder.sent);
            let missing: Vec<u64> =
                (0..u64::from(side.pushed)).filter(|token| !sent.contains(token)).collect();
            assert!(
                missing.iter().all(|token| side.released.contains(token)),
                "no notice: {missing:?}"
            );
        }
    });
}

#[test]
fn a_goodbye_is_the_last_that_comes() {
    fuzz(|random| {
        let (mut a, mut b) = (LinkSide::new(0), LinkSide::new(1));
        for _ in 0..random.below(5) {
            a.push();
            while !a.link.is_written() {
                a.write(random);
            }
        }
        a.link.say_bye();
        while !a.link.is_written() {
            a.write(random);
        }
        while !a.wire.is_empty() {
            assert!(!b.link.has_left());
            deliver(&mut a, &mut b, 1 + random.below(100_000) as usize);
        }
        assert!(b.link.has_left() && b.recorder.next == a.pushed);
    });
}

#[test]
fn any_bytes_are_records_or_an_error() {
    fuzz(|random| {
        let mut link = Link::default();
        let mut bytes = Vec::new();
        // Mostly headers that are nearly right, with or without a frame.
        for number in 0..1 + random.below(4) {
            let kind = [RecordKind::Frame, RecordKind::Ack, RecordKind::Ask, RecordKind::Bye]
                [random.below(4) as usize];
            let header = RecordHeader {
                kind,
                wanted: random.below(2) == 1,
                number: if random.below(8) == 0 { random.draw() } else { number },
                acknowledged: if random.below(8) == 0 { random.draw() } else { 0 },
                length: if random.below(8) == 0 {
                    random.draw() as u32
                } else {
                    random.below(100) as u32
                },
                start: if random.below(8) == 0 { random.draw() as u32 } else { 0 },
                lead: if random.below(8) == 0 { random.draw() as u8 } else { 0 },
            };
            bytes.extend(header.encode());
            with_message(1, random.below(50) as u32, |message| {
                let mut frame = [0; oxmpi_wire::MAX_FRAME_LEN];
                let len = message.frame.encode(message.sequence, 1, &mut frame);
                bytes.extend(&frame[..len]);
            });
        }
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.draw() as u8;
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (now, then) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
            if link.take(1, now, &mut Anything).is_err() {
                break;
            }
            rest = then;
        }
    });
}

#[test]
fn any_header_is_read_as_it_was_written_or_refused() {
    fuzz(|random| {
        let mut bytes = [0u8; RECORD_HEADER];
        bytes[0] = 0x4f;
        bytes[1] = random.below(6) as u8;
        for _ in 0..random.below(6) {
            bytes[random.below(RECORD_HEADER as u64) as usize] = random.draw() as u8;
        }
        if let Ok(header) = RecordHeader::decode(&bytes) {
            assert_eq!(header.encode(), bytes);
        }
    });
}

fn identity(rank: u32) -> Identity {
    Identity { job: 0x1234_5678_9abc_def0, rank, size: 4, incarnation: 1 }
}

fn nonce(random: &mut Random) -> [u8; 32] {
    std::array::from_fn(|_| random.draw() as u8)
}

fn initiate(secret: &Secret, random: &mut Random) -> (Initiator, [u8; HELLO]) {
    let encrypt = random.below(2) == 0;
    Initiator::new(identity(2), 3, secret, &nonce(random), encrypt).unwrap()
}

fn accept(
    own: Identity,
    secret: &Secret,
    hello: &[u8; HELLO],
    random: &mut Random,
) -> Result<(Acceptor, [u8; WELCOME]), GreetingError> {
    let encrypt = random.below(2) == 0;
    Acceptor::new(own, secret, hello, &nonce(random), encrypt)
}

/// A whole greeting without interference, and its results.
fn greeting(random: &mut Random, secret: &Secret) -> ([u8; HELLO], [u8; PROOF]) {
    let (points, accepts) = ([0, 1].map(|_| point(random)), random.below(2) == 0);
    let wants = [0, 1].map(|_| random.below(2) == 0);
    let (mut initiator, hello) =
        Initiator::new(identity(2), 3, secret, &nonce(random), wants[0]).unwrap();
    let (mut acceptor, welcome) =
        Acceptor::new(identity(3), secret, &hello, &nonce(random), wants[1]).unwrap();
    assert_eq!(acceptor.from(), (2, 1));
    if !wants[0] {
        initiator.allow_early();
        early(&mut initiator, &mut acceptor, random);
    }
    let (incarnation, proof) = initiator.welcomed(&welcome, points[0]).unwrap();
    assert_eq!(incarnation, 1);
    assert_eq!(acceptor.proved(&proof), Ok(points[0]));
    let cipher = acceptor.take_cipher();
    let verdict = acceptor.judge(accepts.then_some(points[1]));
    let judged = initiator.judged(&verdict);
    assert_eq!(judged, if accepts { Ok(points[1]) } else { Err(GreetingError::Refused) });
    match (initiator.into_cipher(), cipher) {
        (Some(mut own), Some(mut theirs)) => {
            assert!(wants != [false; 2], "no side wants it");
            for _ in 0..2 {
                let (one, other) = (&mut own, &mut theirs);
                let (mut sealed, mut plain) = (Vec::new(), Vec::new());
                one.seal(b"a record", &mut sealed).unwrap();
                assert_eq!(other.open(&sealed, &mut plain), Ok(Some(sealed.len())));
                assert_eq!(plain, b"a record");
                std::mem::swap(&mut own, &mut theirs);
            }
        }
        (None, None) => assert_eq!(wants, [false; 2], "a side that wants encryption gets it"),
        (own, theirs) => panic!("one side encrypts: {own:?}, {theirs:?}"),
    }
    (hello, proof)
}

/// Some early records of any contents, unchanged, or changed: then nothing arrives.
fn early(initiator: &mut Initiator, acceptor: &mut Acceptor, random: &mut Random) {
    for number in 0..random.below(5) {
        let mut record = vec![0; 64 * (1 + random.below(40) as usize)];
        record.iter_mut().for_each(|byte| *byte = random.draw() as u8);
        assert_eq!(initiator.early_records(record.len()), Some(number));
        let (mut message, pieces) =
            (Vec::new(), record.split_at(random.below(record.len() as u64) as usize));
        initiator.early(&[Bytes::from(pieces.0), Bytes::from(pieces.1)], &mut message);
        let mut wrong = message.clone();
        match random.below(4) {
            0 => drop(wrong.pop()),
            1 => wrong.extend_from_within(..64),
            _ => wrong[random.below(message.len() as u64) as usize] ^= 1 << random.below(8),
        }
        assert!(acceptor.next_length(&wrong).is_err() || acceptor.early(&wrong).is_err());
        assert_eq!(acceptor.next_length(&message[..PROOF]), Ok(message.len()));
        assert_eq!(acceptor.early(&message).map(<[u8]>::to_vec), Ok(record));
        assert!(acceptor.early(&message).is_err(), "a repetition");
    }
}

fn point(random: &mut Random) -> Point {
    Point { records: random.draw(), bytes: random.draw() as u32 }
}

#[test]
fn only_members_authenticate_each_other() {
    fuzz(|random| {
        let secret = Secret(nonce(random));
        let (hello, proof) = greeting(random, &secret);

        // The Hello is changed, or the acceptor has another secret.
        let mut wrong = hello;
        wrong[random.below(HELLO as u64) as usize] ^= 1 << random.below(8);
        assert!(accept(identity(3), &secret, &wrong, random).is_err());
        let other = Secret(nonce(random));
        let unknown = accept(identity(3), &other, &hello, random);
        assert_eq!(unknown.err(), Some(GreetingError::WrongMac));
        // The Hello is not for this process, or is from another job.
        for elsewhere in [identity(1), Identity { job: 7, ..identity(3) }, identity(2)] {
            let result = accept(elsewhere, &secret, &hello, random);
            assert_eq!(result.err(), Some(GreetingError::Elsewhere));
        }

        // An early record of another connection, and anything in its place.
        let (mut acceptor, _) = accept(identity(3), &secret, &hello, random).unwrap();
        let (mut initiator, _) =
            Initiator::new(identity(2), 3, &secret, &nonce(random), false).unwrap();
        initiator.allow_early();
        let mut message = Vec::new();
        initiator.early(&[Bytes::from(&[0; 64][..])], &mut message);
        assert!(acceptor.early(&message).is_err());
        let mut begin: Vec<u8> = (0..PROOF).map(|_| random.draw() as u8).collect();
        for (at, word) in [(0, 5), (8, 0), (16, 64 * random.below(300)), (24, 0)] {
            if random.below(4) > 0 {
                begin[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
            }
        }
        assert!(acceptor.next_length(&begin).is_ok_and(|len| len <= EARLY_BYTES) || begin[0] == 5);

        // A recording of both messages: the acceptor's nonce is new.
        let (mut acceptor, welcome) = accept(identity(3), &secret, &hello, random).unwrap();
        assert_eq!(acceptor.proved(&proof), Err(GreetingError::WrongMac));

        let (mut initiator, _) = initiate(&secret, random);
        assert_eq!(initiator.welcomed(&welcome, Point::default()), Err(GreetingError::WrongMac));
        let (mut initiator, hello) = initiate(&secret, random);
        let (_, mut welcome) = accept(identity(3), &secret, &hello, random).unwrap();
        welcome[random.below(WELCOME as u64) as usize] ^= 1 << random.below(8);
        assert!(initiator.welcomed(&welcome, Point::default()).is_err());

        let (mut initiator, hello) = initiate(&secret, random);
        let (mut acceptor, welcome) = accept(identity(3), &secret, &hello, random).unwrap();
        let (_, proof) = initiator.welcomed(&welcome, point(random)).unwrap();
        let mut wrong = proof;
        wrong[random.below(PROOF as u64) as usize] ^= 1 << random.below(8);
        assert!(acceptor.proved(&wrong).is_err());
        let (mut initiator, hello) = initiate(&secret, random);
        let (mut acceptor, welcome) = accept(identity(3), &secret, &hello, random).unwrap();
        let (_, proof) = initiator.welcomed(&welcome, point(random)).unwrap();
        acceptor.proved(&proof).unwrap();
        let mut verdict = acceptor.judge(Some(point(random)));
        verdict[random.below(VERDICT as u64) as usize] ^= 1 << random.below(8);
        assert!(initiator.judged(&verdict).is_err());
    });
}

#[test]
fn noise_is_no_greeting() {
    fuzz(|random| {
        let secret = Secret(nonce(random));
        let mut hello: [u8; HELLO] = std::array::from_fn(|_| random.draw() as u8);
        assert_eq!(
            accept(identity(3), &secret, &hello, random).err(),
            Some(GreetingError::NotGreeting)
        );
        hello[..16].copy_from_slice(b"OxMPItcp\x06\x01\0\0\0\0\0\0");
        let result = accept(identity(3), &secret, &hello, random);
        assert_eq!(result.err(), Some(GreetingError::WrongMac));
    });
}
