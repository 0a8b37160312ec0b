mod long;

use super::fake::{FakeGmPort, GmSockets, SLOT, SharedGmWorld};
use super::peer::UNCOUNTED;
use super::{Gm, GmSettings, HEAD};
use crate::receives::{Mailbox, planned};
use crate::transports::Tell;
use crate::{Body, Membership, OutgoingMessage, Sent, Statistics, Transport};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Context, Envelope, Frame, MAX_FRAME_LEN};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MESSAGES: u32 = 120;
const TURNS: u32 = 200_000;

struct GmRank {
    gm: Gm<FakeGmPort>,
    arrivals: Mailbox,
    sent: u32,
    said: Arc<Mutex<Vec<String>>>,
}

fn ranks(world: &SharedGmWorld, is_fast: [bool; 2]) -> [GmRank; 2] {
    let rank = |me: usize| {
        let said = Arc::new(Mutex::new(Vec::new()));
        let hears = said.clone();
        let tell = Box::new(move |text: &str| hears.lock().unwrap().push(text.to_string()));
        let sockets = Box::new(GmSockets { world: world.clone(), me });
        let settings = GmSettings { tiny: 64, is_fast: is_fast[me], pins: true, gets: false };
        let gm =
            Gm::new(me as u32, FakeGmPort::new(world.clone(), me), sockets, settings, tell, None);
        GmRank { gm, arrivals: Mailbox::default(), sent: 0, said }
    };
    [rank(0), rank(1)]
}

impl GmRank {
    fn send_next(&mut self) -> bool {
        let own = self.gm.own;
        let body = planned(own, self.sent);
        let envelope = Envelope { context: Context::Local(1), tag: self.sent as i32 };
        let body = Body::Bytes(Bytes::from(&body[..]));
        let (sequence, frame) = (self.sent as u8, Frame::Eager { envelope });
        let message = OutgoingMessage { sequence, frame, body, lent: None, token: 0 };
        let is_gone = self.gm.send(1 - own, &message).unwrap() == Sent::Done;
        self.sent += u32::from(is_gone);
        is_gone
    }

    fn poll(&mut self) {
        self.gm.poll(None, &mut self.arrivals);
    }
}

/// Sends `counts[i]` messages from rank i, and waits until all arrive. Rank 1 polls once in `lazy`
/// turns.
fn run(seed: u64, world: &SharedGmWorld, is_fast: [bool; 2], counts: [u32; 2], lazy: u32) {
    run_with(seed, world, is_fast, counts, lazy, |_, _| {});
}

/// Does the same, and calls `act` in each turn.
fn run_with(
    seed: u64,
    world: &SharedGmWorld,
    is_fast: [bool; 2],
    counts: [u32; 2],
    lazy: u32,
    act: impl Fn(u32, &mut [GmRank; 2]),
) {
    let mut ranks = ranks(world, is_fast);
    let mut turns = 0;
    loop {
        let [first, second] = &ranks;
        let has_all = [first.arrivals.came.len(), second.arrivals.came.len()]
            == [counts[1] as usize, counts[0] as usize];
        if has_all && (ranks[0].gm.leave() & ranks[1].gm.leave()) {
            break;
        }
        for (at, (rank, count)) in ranks.iter_mut().zip(counts).enumerate() {
            while rank.sent < count && rank.send_next() {} // at most `count` turns
            if at == 0 || turns % lazy == 0 {
                rank.poll();
            }
        }
        act(turns, &mut ranks);
        turns += 1;
        assert!(
            turns < TURNS,
            "seed {seed}: nothing moves: {ranks:?}",
            ranks = ranks.map(|rank| rank.gm)
        );
    }
    for (from, rank) in [(1, &ranks[0]), (0, &ranks[1])] {
        let expected: Vec<_> = (0..counts[from as usize])
            .map(|number| (number as i32, planned(from, number)))
            .collect();
        assert_eq!(rank.arrivals.came, expected, "seed {seed}");
        assert!(
            rank.arrivals.lost.is_empty() && rank.said.lock().unwrap().is_empty(),
            "seed {seed}"
        );
    }
}

#[test]
fn all_messages_arrive_in_order_with_any_number_of_tokens() {
    for seed in 0..40 {
        for (sends, receives) in [(2, 1), (2, 64), (3, 2), (16, 3), (64, 256)] {
            let world = SharedGmWorld::new(seed, sends, receives);
            run(seed, &world, [false; 2], [MESSAGES; 2], 1);
            assert_eq!(world.with(|world| world.timed_out), 0, "counted buffers are never lacking");
        }
    }
}

#[test]
fn messages_in_one_direction_need_no_answer() {
    for seed in 0..40 {
        for (sends, receives) in [(2, 1), (8, 8), (64, 256)] {
            run(seed, &SharedGmWorld::new(seed, sends, receives), [false; 2], [MESSAGES, 0], 1);
            run(seed, &SharedGmWorld::new(seed, sends, receives), [true; 2], [0, MESSAGES], 1);
        }
    }
}

#[test]
fn uncounted_messages_that_time_out_are_sent_again_in_order() {
    let mut timed_out = 0;
    for seed in 0..60 {
        for (sends, receives) in [(2, 1), (4, 2), (16, 3), (64, 16)] {
            for is_fast in [[true; 2], [true, false], [false, true]] {
                let world = SharedGmWorld::new(seed, sends, receives);
                run(seed, &world, is_fast, [MESSAGES; 2], 7);
                timed_out += world.with(|world| world.timed_out);
            }
        }
    }
    assert!(timed_out > 1000, "{timed_out}");
}

/// GM's time limit may end any message, also one that returns buffers.
#[test]
fn nothing_is_lost_or_overtaken_whichever_messages_time_out() {
    for seed in 0..60 {
        for is_fast in [false, true] {
            let world = SharedGmWorld::new(seed, 2 + seed as u32 % 9, 1 + seed as u32 % 5);
            world.with(|world| world.times_out = Some(5));
            run(seed, &world, [is_fast; 2], [MESSAGES; 2], 2);
            assert!(world.with(|world| world.timed_out) > 10);
        }
    }
}

fn meet(ranks: &mut [GmRank; 2]) {
    for _ in 0..TURNS {
        if !ranks[1].arrivals.came.is_empty() {
            return;
        }
        ranks[0].send_next();
        ranks.iter_mut().for_each(GmRank::poll);
    }
    panic!("the processes do not meet");
}

#[test]
fn a_peer_that_is_not_reached_is_named_and_lost_and_keeps_no_token() {
    let world = SharedGmWorld::new(3, 8, 8);
    let mut ranks = ranks(&world, [false; 2]);
    meet(&mut ranks);
    world.with(|world| world.is_broken = true);
    let start = Instant::now();
    while ranks[0].arrivals.lost.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "the loss is not reported");
        ranks[0].send_next();
        ranks[0].poll();
        if !ranks[0].gm.failed.is_empty() {
            // The loss is reported only after the time in which the peer could turn out to have
            // left.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert!(start.elapsed() >= super::GRACE);
    assert_eq!(ranks[0].arrivals.lost, [1]);
    let said = ranks[0].said.lock().unwrap().join("\n");
    assert!(said.contains("process 1") && said.contains("target node was unreachable"), "{said}");
    (0..200).for_each(|_| ranks[0].poll());
    assert!(ranks[0].gm.leave(), "nobody waits for a peer that is lost");
    assert_eq!(super::GmPort::send_tokens(&ranks[0].gm.port), 8);
    assert_eq!(ranks[0].gm.made_send_slots as usize, ranks[0].gm.send_slots.len());
    assert_eq!((ranks[0].gm.spare, ranks[0].gm.provided), (4, 4), "its buffers are for others");
}

#[test]
fn failed_sends_to_a_peer_that_has_left_are_no_loss() {
    let world = SharedGmWorld::new(5, 8, 8);
    let mut ranks = ranks(&world, [false; 2]);
    meet(&mut ranks);
    let mut turns = 0;
    while !ranks[0].send_next() {
        ranks.iter_mut().for_each(GmRank::poll);
        turns += 1;
        assert!(turns < TURNS, "there is no room for a message");
    }
    world.with(|world| (world.is_broken, world.has_left) = (true, [true, false]));
    (0..1000).for_each(|_| ranks[0].poll());
    assert_eq!((&ranks[0].arrivals.lost[..], ranks[0].gm.leave()), (&[][..], true));
    assert!(ranks[0].said.lock().unwrap().is_empty());
}

#[test]
fn the_first_peers_are_granted_all_credits_and_the_others_one_until_there_is_none() {
    let world = SharedGmWorld::new(1, 8, 256);
    let [mut rank, mut fast] = ranks(&world, [false, true]);
    let mut grants = Vec::new();
    while rank.gm.make_end(grants.len() as u32).is_ok() {
        grants.push(rank.gm.peers[grants.len()].as_ref().unwrap().granted);
        assert!(grants.len() <= 256);
    }
    assert_eq!(grants.len(), 4 + 128);
    assert!(
        grants[..4].iter().all(|grant| *grant == 32) && grants[4..].iter().all(|grant| *grant == 1)
    );
    let why = rank.gm.make_end(500).unwrap_err();
    assert!(why.contains("all 256 receive tokens") && why.contains("rpi_gm_fast"), "{why}");
    rank.gm.remove_failed(0);
    assert!(rank.gm.make_end(500).is_ok(), "what one had is there for the next one");
    // A process that does not count buffers needs no grant.
    (0..1000).for_each(|peer| fast.gm.make_end(peer).unwrap());
    assert_eq!((fast.gm.peers[999].as_ref().unwrap().granted, fast.gm.provided), (UNCOUNTED, 128));
}

/// A spawned process gets the port of one that has ended. Sends to the ended process fail, and are
/// dropped together with all messages to the port.
#[test]
fn messages_that_are_dropped_for_another_peer_of_the_port_are_sent_again_in_order() {
    const ENDED: u32 = 2;
    for seed in 0..60 {
        let world = SharedGmWorld::new(seed, 8, 8);
        run_with(seed, &world, [false; 2], [MESSAGES; 2], 1, |turns, [rank, _]| {
            let Some(met) = rank.gm.peer(1).and_then(|peer| peer.met) else { return };
            rank.gm.make_end(ENDED).unwrap();
            let ended = rank.gm.peer(ENDED).unwrap();
            (ended.met, ended.is_gone) = (Some(met), true);
            if turns % 11 == 0 && !ended.is_dropping && !ended.needs_drop {
                world.with(|world| world.disable(0));
                rank.gm.stop(ENDED);
            }
        });
    }
}

#[test]
fn a_message_for_a_job_that_had_the_port_before_is_dropped() {
    let world = SharedGmWorld::new(9, 8, 8);
    let mut ranks = ranks(&world, [false; 2]);
    meet(&mut ranks);
    let before = ranks[1].arrivals.came.len();
    ranks[0].gm.peer(1).unwrap().met.as_mut().unwrap().key ^= 1;
    for _ in 0..500 {
        ranks[0].send_next();
        ranks.iter_mut().for_each(GmRank::poll);
    }
    assert!(ranks[1].arrivals.came.len() <= before + 8, "those on the way before may still come");
    assert!(ranks[0].sent as usize > ranks[1].arrivals.came.len());
}

#[test]
fn a_body_that_fits_no_message_is_refused_and_the_longest_piece_fits() {
    let world = SharedGmWorld::new(7, 8, 8);
    let mut ranks = ranks(&world, [false; 2]);
    meet(&mut ranks);
    let piece = ranks[0].gm.slot_piece();
    assert_eq!(piece, SLOT - HEAD - MAX_FRAME_LEN);
    let body = [0; SLOT];
    let frame = Frame::Data { receiver: 1, offset: 0 };
    let mut send = |len: usize| {
        let body = Body::Bytes(Bytes::from(&body[..len]));
        for _ in 0..TURNS {
            match ranks[0].gm.send(1, &OutgoingMessage::new(frame, body)) {
                Ok(Sent::Full) => ranks.iter_mut().for_each(GmRank::poll),
                other => return other.map_err(|error| error.why),
            }
        }
        panic!("there is no room for a message");
    };
    assert_eq!(send(piece), Ok(Sent::Done));
    assert!(send(SLOT).unwrap_err().contains(&format!("{SLOT} bytes")));
    assert!(ranks[0].gm.counts().network_frames_sent > 0);
}
