//! Two processes over a network in memory, with seeds.

use super::fake::{FakePort, FakeSockets, SharedWorld};
use super::{Ib, IbSettings};
use crate::{Body, Membership, Message, Sent, Sink, Statistics, Transport};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Announced, Context, ContextId, Envelope, Frame};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// So many messages go each way.
const MESSAGES: u32 = 120;
/// Turns after which something hangs.
const TURNS: u32 = 200_000;

#[derive(Default)]
struct Mailbox {
    came: Vec<(i32, Vec<u8>)>,
    lost: Vec<u32>,
}

impl Sink for Mailbox {
    fn eager(&mut self, _: u32, _: u8, envelope: Envelope, total: usize, first: Bytes<'_>) {
        assert_eq!(total, first.len());
        self.came.push((envelope.tag, first.to_vec()));
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
    fn more(&mut self, _: u32, _: usize, _: Bytes<'_>) {}
    fn sent(&mut self, _: u64) {}
    fn lost(&mut self, peer: u32) {
        self.lost.push(peer);
    }
}

struct Rank {
    ib: Ib<FakePort>,
    mailbox: Mailbox,
    sent: u32,
    said: Arc<Mutex<Vec<String>>>,
}

fn settings(envelopes: u32, shared: Option<u32>) -> IbSettings {
    IbSettings { tiny: 64, envelopes, shared }
}

fn world(seed: u64, settings: IbSettings) -> (SharedWorld, [Rank; 2]) {
    let world = SharedWorld::new(seed, settings);
    let rank = |me: usize| {
        let port = FakePort { world: world.clone(), me, slots: Vec::new(), posted: HashSet::new() };
        let sockets = Box::new(FakeSockets { world: world.clone(), me });
        let said = Arc::new(Mutex::new(Vec::new()));
        let hears = said.clone();
        let tell = Box::new(move |text: &str| hears.lock().unwrap().push(text.to_string()));
        let ib = Ib::new(me as u32, port, sockets, settings, (None, tell), None).unwrap();
        Rank { ib, mailbox: Mailbox::default(), sent: 0, said }
    };
    let ranks = [rank(0), rank(1)];
    (world, ranks)
}

/// What message number `number` of a process is.
fn planned(from: u32, number: u32) -> Vec<u8> {
    let len = (number * 29 + from * 7) % 65;
    (0..len).map(|at| (at * 31 + number * 7 + from) as u8).collect()
}

impl Rank {
    /// Sends the next message if there is room. Whether it is gone.
    fn send_next(&mut self) -> bool {
        let own = self.ib.own;
        let body = planned(own, self.sent);
        let envelope = Envelope { context: Context::Local(1), tag: self.sent as i32 };
        let body = Body::Bytes(Bytes::from(&body[..]));
        let message = Message {
            sequence: self.sent as u8,
            frame: Frame::Eager { envelope },
            body,
            lent: None,
            token: 0,
        };
        let is_gone = self.ib.send(1 - own, &message).unwrap() == Sent::Done;
        self.sent += u32::from(is_gone);
        is_gone
    }

    fn poll(&mut self) {
        self.ib.poll(None, &mut self.mailbox);
    }

    fn check(&self, from: u32, count: u32) {
        let expected: Vec<_> = (0..count).map(|number| (number as i32, planned(from, number))).collect();
        assert_eq!(self.mailbox.came, expected);
    }
}

/// Sends `counts[i]` messages from rank i, and lets all arrive.
fn run(seed: u64, settings: IbSettings, counts: [u32; 2]) -> [Rank; 2] {
    let (_, mut ranks) = world(seed, settings);
    let mut turns = 0;
    let is_over = |ranks: &[Rank; 2]| {
        ranks[0].mailbox.came.len() == counts[1] as usize && ranks[1].mailbox.came.len() == counts[0] as usize
    };
    while !is_over(&ranks) {
        for (rank, count) in ranks.iter_mut().zip(counts) {
            while rank.sent < count && rank.send_next() {}
            rank.poll();
        }
        turns += 1;
        assert!(turns < TURNS, "seed {seed}: nothing moves");
    }
    while !(ranks[0].ib.leave() & ranks[1].ib.leave()) {
        ranks.iter_mut().for_each(Rank::poll);
        turns += 1;
        assert!(turns < TURNS, "seed {seed}: the processes cannot leave");
    }
    ranks[0].check(1, counts[1]);
    ranks[1].check(0, counts[0]);
    ranks
}

#[test]
fn all_messages_arrive_in_order_with_any_number_of_envelopes() {
    for seed in 0..40 {
        for envelopes in [1, 2, 3, 64] {
            for shared in [None, Some(4096)] {
                run(seed, settings(envelopes, shared), [MESSAGES; 2]);
            }
        }
    }
}

#[test]
fn messages_in_one_direction_need_no_answer() {
    for seed in 0..40 {
        for envelopes in [1, 2, 64] {
            run(seed, settings(envelopes, None), [MESSAGES, 0]);
            run(seed, settings(envelopes, Some(4096)), [0, MESSAGES]);
        }
    }
}

#[test]
fn a_full_shared_queue_grants_fewer_and_at_last_one() {
    let grant = |posted, spare| {
        let (_, [mut rank, _]) = world(1, settings(64, Some(100)));
        (rank.ib.posted, rank.ib.spare) = (posted, spare);
        rank.ib.grant()
    };
    assert_eq!([grant(0, 0), grant(64, 0), grant(82, 0), grant(99, 0)], [50, 18, 9, 1]);
    assert_eq!((grant(100, 0), grant(100, 8)), (0, 4));
    // With a queue of one envelope the peer has one credit, which is enough.
    for seed in 0..20 {
        run(seed, settings(64, Some(1)), [MESSAGES; 2]);
    }
}

#[test]
fn a_failed_connection_names_the_peer_and_the_vendors_words_and_loses_it() {
    let (world, mut ranks) = world(3, settings(4, None));
    while ranks[1].mailbox.came.is_empty() {
        ranks[0].send_next();
        ranks.iter_mut().for_each(Rank::poll);
    }
    world.with(|world| world.is_broken = true);
    let start = Instant::now();
    while ranks[0].mailbox.lost.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "the loss is not reported");
        if !ranks[0].ib.failed.is_empty() {
            // Nothing is lost before it is known that the peer has not left.
            std::thread::sleep(Duration::from_millis(10));
        } else {
            ranks[0].send_next();
        }
        ranks[0].poll();
    }
    assert!(start.elapsed() >= super::GRACE);
    assert_eq!(ranks[0].mailbox.lost, [1]);
    let said = ranks[0].said.lock().unwrap().join("\n");
    assert!(
        said.contains("process 1") && said.contains("vendor error 0x81") && said.contains("a send"),
        "{said}"
    );
    assert!(ranks[0].ib.leave(), "nobody waits for a peer that is lost");
}

#[test]
fn what_fails_to_a_peer_that_has_left_is_no_loss() {
    let (world, mut ranks) = world(5, settings(4, None));
    while ranks[1].mailbox.came.is_empty() {
        ranks[0].send_next();
        ranks.iter_mut().for_each(Rank::poll);
    }
    while !ranks[0].send_next() {
        ranks.iter_mut().for_each(Rank::poll);
    }
    world.with(|world| (world.is_broken, world.has_left) = (true, [true, false]));
    for _ in 0..1000 {
        ranks[0].poll();
    }
    assert_eq!((&ranks[0].mailbox.lost[..], ranks[0].ib.leave()), (&[][..], true));
    assert!(ranks[0].said.lock().unwrap().is_empty());
}

#[test]
fn a_body_that_fits_no_envelope_is_refused() {
    let (_, mut ranks) = world(7, settings(4, None));
    while ranks[1].mailbox.came.is_empty() {
        ranks[0].send_next();
        ranks.iter_mut().for_each(Rank::poll);
    }
    let body = [0; 200];
    let frame = Frame::Data { receiver: 1, offset: 0 };
    let body = Body::Bytes(Bytes::from(&body[..]));
    let why = loop {
        match ranks[0].ib.send(1, &Message { sequence: 0, frame, body, lent: None, token: 0 }) {
            Ok(Sent::Full) => ranks.iter_mut().for_each(Rank::poll),
            other => break other.unwrap_err().why,
        }
    };
    assert!(why.contains("200 bytes"), "{why}");
    assert!(ranks[0].ib.counts().network_frames_sent > 0);
}
