mod accesses;
mod failing;
mod long;
mod without_port;

use super::fake::{FakePort, FakeSockets, SharedIbWorld};
use super::{Ib, IbSettings};
use crate::receives::{Mailbox, planned};
use crate::{Body, Membership, OutgoingMessage, Sent, Statistics, Transport};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Context, Envelope, Frame};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);
const MESSAGES: u32 = 120;
const TURNS: u32 = 200_000;

struct Rank {
    ib: Ib<FakePort>,
    mailbox: Mailbox,
    sent: u32,
    said: Arc<Mutex<Vec<String>>>,
}

fn settings(envelopes: u32, shared: Option<u32>) -> IbSettings {
    let timeout = Duration::from_secs(5);
    IbSettings { tiny: 64, envelopes, shared, mtu: 1024, timeout, pause: PAUSE, rma: true }
}

fn world(seed: u64, settings: IbSettings) -> (SharedIbWorld, [Rank; 2]) {
    let world = SharedIbWorld::new(seed, settings);
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

impl Rank {
    fn send_next(&mut self) -> bool {
        let own = self.ib.own;
        let body = planned(own, self.sent);
        let envelope = Envelope { context: Context::Local(1), tag: self.sent as i32 };
        let body = Body::Bytes(Bytes::from(&body[..]));
        let message = OutgoingMessage {
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
        let expected: Vec<_> =
            (0..count).map(|number| (number as i32, planned(from, number))).collect();
        assert_eq!(self.mailbox.came, expected);
    }
}

fn run(seed: u64, settings: IbSettings, counts: [u32; 2]) -> [Rank; 2] {
    let (_, mut ranks) = world(seed, settings);
    let mut turns = 0;
    let is_over = |ranks: &[Rank; 2]| {
        ranks[0].mailbox.came.len() == counts[1] as usize
            && ranks[1].mailbox.came.len() == counts[0] as usize
    };
    while !is_over(&ranks) {
        for (rank, count) in ranks.iter_mut().zip(counts) {
            while rank.sent < count && rank.send_next() {} // at most `count` turns
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

fn meet(ranks: &mut [Rank; 2]) {
    for _ in 0..TURNS {
        if !ranks[1].mailbox.came.is_empty() {
            return;
        }
        ranks[0].send_next();
        ranks.iter_mut().for_each(Rank::poll);
    }
    panic!("the processes do not meet");
}

#[test]
fn thousands_of_peers_have_an_envelope_each_and_the_first_ones_all() {
    let (_, [mut rank, _]) = world(1, settings(64, Some(4096)));
    let mut grants = Vec::new();
    for peer in 1..3001 {
        let before = rank.ib.posted;
        if rank.ib.make_end(peer).is_ok() {
            grants.push(rank.ib.posted - before);
        }
    }
    assert_eq!(grants.len(), 32 + 2048, "half of the queue is for peers of one envelope");
    assert!(
        grants[..32].iter().all(|grant| *grant == 64)
            && grants[32..].iter().all(|grant| *grant == 1)
    );
    let why = rank.ib.make_end(4000).unwrap_err();
    assert!(why.contains("4096") && why.contains("rpi_ib_srq"), "{why}");
    rank.ib.spare = 1;
    assert!(rank.ib.make_end(4000).is_ok() && rank.ib.make_end(4001).is_err());
    assert_eq!((rank.ib.posted, rank.ib.spare), (4096, 0));
}

#[test]
fn the_rest_of_the_first_half_is_granted_before_single_envelopes() {
    let grant = |posted, spare| {
        let (_, [mut rank, _]) = world(1, settings(64, Some(200)));
        (rank.ib.posted, rank.ib.spare) = (posted, spare);
        rank.ib.grant()
    };
    assert_eq!(
        [grant(0, 0), grant(64, 0), grant(100, 0), grant(199, 0), grant(200, 0)],
        [64, 36, 1, 1, 0]
    );
    assert_eq!([grant(200, 8), grant(200, 150), grant(200, 200)], [1, 50, 64]);
    // With a queue of one envelope the peer has one credit, which is enough.
    for seed in 0..20 {
        run(seed, settings(64, Some(1)), [MESSAGES; 2]);
    }
}

#[test]
fn a_connection_that_cannot_be_made_takes_no_envelope() {
    let (world, [mut rank, _]) = world(1, settings(8, Some(40)));
    world.with(|world| world.is_exhausted = true);
    let why = rank.ib.make_end(1).unwrap_err();
    assert!(why.contains("queue pairs"), "{why}");
    assert_eq!((rank.ib.posted, rank.ib.spare), (0, 0));
    world.with(|world| (world.is_exhausted, world.receives_left) = (false, Some(5)));
    let why = rank.ib.make_end(1).unwrap_err();
    assert!(why.contains("receives") && why.contains("ulimit -l"), "{why}");
    assert_eq!((rank.ib.posted, rank.ib.spare), (5, 5));
    rank.ib.make_end(2).unwrap();
    assert_eq!((rank.ib.posted, rank.ib.spare), (8, 0));
    // A failure after some envelopes were granted again leaves these to other peers, too.
    rank.ib.spare = 3;
    world.with(|world| world.receives_left = Some(2));
    rank.ib.make_end(3).unwrap_err();
    assert_eq!((rank.ib.posted, rank.ib.spare), (10, 5));
    assert_eq!(world.with(|world| world.shared_len(0)), 10);
}

fn drain(rank: &mut Rank) {
    for _ in 0..200 {
        rank.poll();
    }
}

#[test]
fn a_shared_queue_gets_back_each_envelope_however_its_receive_has_ended() {
    let (world, mut ranks) = world(11, settings(4, Some(16)));
    meet(&mut ranks);
    ranks.iter_mut().for_each(drain);
    let queue_pair = ranks[1].ib.peers[0].as_ref().unwrap().end.queue_pair;
    assert_eq!((world.with(|world| world.shared_len(1)), ranks[1].ib.posted), (4, 4));
    // Once from an unknown queue pair, and once from the peer's; with an error.
    for from in [77_777, queue_pair] {
        world.with(|world| world.flush(1, from));
        assert_eq!(world.with(|world| world.shared_len(1)), 3);
        drain(&mut ranks[1]);
        assert_eq!((world.with(|world| world.shared_len(1)), ranks[1].ib.posted), (4, 4));
    }
    assert_eq!(ranks[1].ib.broken.len(), 1, "a receive that fails fails the connection");
}

#[test]
fn an_envelope_that_cannot_be_posted_again_is_taken_off_the_peer_and_the_queue() {
    let (world, mut ranks) = world(13, settings(4, Some(16)));
    meet(&mut ranks);
    ranks.iter_mut().for_each(drain);
    let queue_pair = ranks[1].ib.peers[0].as_ref().unwrap().end.queue_pair;
    world.with(|world| {
        world.receives_left = Some(0);
        world.flush(1, queue_pair);
    });
    drain(&mut ranks[1]);
    let granted = |rank: &Rank| rank.ib.peers[0].as_ref().unwrap().granted;
    assert_eq!((granted(&ranks[1]), ranks[1].ib.posted, ranks[1].ib.spare), (3, 3, 0));
    assert_eq!(world.with(|world| world.shared_len(1)), 3);
    // When the peer is lost, its envelopes are for others.
    ranks[1].ib.remove_failed(0);
    drain(&mut ranks[1]);
    assert_eq!((granted(&ranks[1]), ranks[1].ib.posted, ranks[1].ib.spare), (0, 3, 3));
}

#[test]
fn envelopes_of_a_peer_that_is_gone_are_spare_when_all_came_back() {
    let (world, mut ranks) = world(17, settings(4, Some(16)));
    meet(&mut ranks);
    ranks.iter_mut().for_each(drain);
    let queue_pair = ranks[1].ib.peers[0].as_ref().unwrap().end.queue_pair;
    ranks[1].ib.remove_failed(0);
    world.with(|world| world.flush(1, queue_pair));
    ranks[1].ib.regain();
    assert_eq!((ranks[1].ib.spare, world.with(|world| world.shared_len(1))), (0, 3));
    drain(&mut ranks[1]);
    assert_eq!((ranks[1].ib.spare, world.with(|world| world.shared_len(1))), (4, 4));
    assert!(ranks[1].ib.numbers.is_empty(), "the device may give its number to another queue pair");
}

/// Rank 1 owes rank 0 an answer, for which its sockets have no room.
fn owing(seed: u64) -> (SharedIbWorld, Rank) {
    let (world, [mut asking, mut owing]) = world(seed, settings(4, None));
    for _ in 0..TURNS {
        asking.send_next();
        if asking.ib.peers.iter().flatten().any(|peer| peer.has_requested) {
            world.with(|world| world.are_full = true);
            owing.poll();
        }
        if !owing.ib.unanswered.is_empty() {
            return (world, owing);
        }
    }
    panic!("the introduction does not arrive");
}

#[test]
fn a_process_that_leaves_answers_only_peers_that_need_it() {
    let (world, mut rank) = owing(19);
    assert!(!rank.ib.leave(), "the peer waits for the answer");
    rank.ib.detach(0);
    assert!(rank.ib.leave());
    rank.ib.attach(0);
    assert!(!rank.ib.leave());
    world.with(|world| world.has_left[1] = true);
    assert!(rank.ib.leave());
    drain(&mut rank);
    assert!(rank.ib.unanswered.is_empty() && rank.mailbox.lost.is_empty());

    let (_, mut rank) = owing(23);
    rank.ib.peer(0).unwrap().was_sent_to = true;
    assert!(rank.ib.leave(), "an envelope says as much as an answer");

    let (_, mut rank) = owing(29);
    rank.ib.unanswered.clear();
    rank.ib.unconfirmed.push(0);
    assert!(!rank.ib.leave(), "the peer waits for an envelope");
    rank.ib.remove_failed(0);
    assert!(rank.ib.leave());
}

#[test]
fn a_full_piece_ends_with_a_packet() {
    let len = |tiny, mtu| {
        let settings = IbSettings { tiny, mtu, ..settings(4, None) };
        (settings.piece_len(), settings.piece_len() + settings.envelope_len() - tiny)
    };
    assert_eq!(len(1024, 1024), (964, 1024));
    assert_eq!(len(1024, 2048), (1024, 1084));
    assert_eq!(len(64, 256), (64, 124));
    assert_eq!(len(8192, 4096), (8132, 8192));
    assert_eq!(len(196, 256), (196, 256));
}

#[test]
fn a_failed_connection_names_the_peer_and_the_vendors_words_and_loses_it() {
    let (world, mut ranks) = world(3, settings(4, None));
    meet(&mut ranks);
    world.with(|world| world.is_broken = true);
    let start = Instant::now();
    while ranks[0].mailbox.lost.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "the loss is not reported");
        if !ranks[0].ib.broken.is_empty() {
            // The loss is reported only after the time in which the peer could turn out to have
            // left.
            std::thread::sleep(Duration::from_millis(10));
        } else {
            ranks[0].send_next();
        }
        ranks[0].poll();
    }
    assert!(start.elapsed() >= super::reconnecting::GRACE);
    assert_eq!(ranks[0].mailbox.lost, [1]);
    let said = ranks[0].said.lock().unwrap().join("\n");
    assert!(
        said.contains("process 1") && said.contains("vendor error 0x81") && said.contains("a send"),
        "{said}"
    );
    assert!(ranks[0].ib.leave(), "nobody waits for a peer that is lost");
}

#[test]
fn failed_sends_to_a_peer_that_has_left_are_no_loss() {
    let (world, mut ranks) = world(5, settings(4, None));
    meet(&mut ranks);
    let mut turns = 0;
    while !ranks[0].send_next() {
        ranks.iter_mut().for_each(Rank::poll);
        turns += 1;
        assert!(turns < TURNS, "there is no room for a message");
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
    meet(&mut ranks);
    let body = [0; 200];
    let frame = Frame::Data { receiver: 1, offset: 0 };
    let body = Body::Bytes(Bytes::from(&body[..]));
    let mut turns = 0;
    let why = loop {
        turns += 1;
        assert!(turns < TURNS, "there is no room for a message");
        match ranks[0].ib.send(1, &OutgoingMessage::new(frame, body)) {
            Ok(Sent::Full) => ranks.iter_mut().for_each(Rank::poll),
            other => break other.unwrap_err().why,
        }
    };
    assert!(why.contains("200 bytes"), "{why}");
    assert!(ranks[0].ib.counts().network_frames_sent > 0);
}
