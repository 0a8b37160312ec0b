use super::super::allocated::Allocated;
use super::{Arc, Mutex, SharedGmWorld, TURNS, Tell};
use crate::receives::{Receives, pattern, scattered};
use crate::sim::Random;
use crate::transports::gm::fake::{FakeGmPort, GmSockets};
use crate::transports::gm::lending::REGISTER_FROM;
use crate::transports::gm::{Gm, GmSettings};
use crate::{Body, Connections as _, Membership, OutgoingMessage, Sent, Statistics, Transport};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;

struct LongSide {
    gm: Gm<FakeGmPort>,
    sink: Receives,
    said: Arc<Mutex<Vec<String>>>,
}

impl LongSide {
    fn poll(&mut self) {
        self.gm.poll(None, &mut self.sink);
    }
    fn owes(&self, peer: u32) -> bool {
        self.gm.lending.owes(peer) || self.gm.landings.owes(peer) || !self.gm.owed.is_empty()
    }
}

/// Two processes that put, or with `gets` get. `pins`: the program's memory is registered.
fn sides(world: &SharedGmWorld, gets: bool, pins: bool) -> [LongSide; 2] {
    [0, 1].map(|me| {
        let said = Arc::new(Mutex::new(Vec::new()));
        let hears = said.clone();
        let tell: Tell = Box::new(move |text: &str| hears.lock().unwrap().push(text.to_string()));
        let settings = GmSettings { tiny: 64, is_fast: false, pins, gets };
        let sockets = Box::new(GmSockets { world: world.clone(), me });
        let port = FakeGmPort::new(world.clone(), me);
        let gm = Gm::new(me as u32, port, sockets, settings, tell, None);
        LongSide { gm, sink: Receives::default(), said }
    })
}

fn send(sides: &mut [LongSide; 2], buffer: &UserBuf, receiver: u64, token: u64) -> Option<Sent> {
    let frame = Frame::Data { receiver, offset: 0 };
    let body = Body::of(buffer, 0, buffer.packed_len());
    let message = OutgoingMessage { sequence: 0, frame, body, lent: Some(buffer), token };
    let sent = sides[0].gm.send(1, &message).unwrap();
    (sent != Sent::Full).then_some(sent)
}

fn until(seed: u64, sides: &mut [LongSide; 2], mut is_so: impl FnMut(&mut [LongSide; 2]) -> bool) {
    for _ in 0..TURNS {
        if is_so(sides) {
            return;
        }
        sides.iter_mut().for_each(LongSide::poll);
    }
    panic!("seed {seed}: nothing moves");
}

/// Messages of lengths around the limits, contiguous or not. Returns the bytes got, put, and
/// copied.
fn exchange(seed: u64, world: &SharedGmWorld, sides: &mut [LongSide; 2]) -> [u64; 3] {
    let lens = [100, 1000, REGISTER_FROM - 2, REGISTER_FROM, 100_000, (1 << 20) + 6];
    let mut random = Random::new(seed);
    let mut expected = Vec::new();
    for number in 0..8u64 {
        let values = pattern(number, lens[random.below(lens.len() as u64) as usize]);
        let buffer = if random.below(4) == 0 {
            scattered(&values)
        } else {
            Owned::new(values.clone()).buf()
        };
        sides[1].sink.post(number, values.len(), random.below(4) == 0);
        let mut sent = None;
        until(seed, sides, |sides| {
            sent = send(sides, &buffer, number, 100 + number);
            sent.is_some()
        });
        expected.push((number, values, sent == Some(Sent::Later)));
    }
    let later: Vec<u64> = expected.iter().filter(|one| one.2).map(|one| 100 + one.0).collect();
    until(seed, sides, |sides| {
        sides[0].sink.sent.len() == later.len()
            && (0..8).all(|number| sides[1].sink.is_over(number))
    });
    let mut sent = sides[0].sink.sent.clone();
    sent.sort_unstable();
    assert_eq!(sent, later);
    for (number, values, _) in expected {
        assert!(sides[1].sink.bytes(number) == values, "seed {seed}: message {number}");
    }
    until(seed, sides, |sides| sides[0].gm.leave() & sides[1].gm.leave());
    assert_eq!(world.with(|world| world.regions()), 0, "nothing stays registered");
    let counts = [sides[0].gm.counts(), sides[1].gm.counts()];
    [counts[1].rdma_bytes, counts[0].rdma_bytes_written, counts[0].auxiliary_bytes]
}

#[test]
fn long_messages_are_moved_where_both_sides_have_them_in_one_piece() {
    let mut all = [0, 0];
    for seed in 0..12 {
        for gets in [false, true] {
            for tokens in [2, 3, 16] {
                let world = SharedGmWorld::new(seed, tokens, 4);
                let [got, put, copied] = exchange(seed, &world, &mut sides(&world, gets, true));
                assert_eq!(
                    (got + put, if gets { put } else { got }),
                    (world.with(|world| world.moved), 0)
                );
                all[0] += got + put;
                all[1] += copied;
            }
        }
    }
    assert!(all[0] > 4 << 20 && all[1] > 1 << 20, "{all:?}");
}

#[test]
fn without_pinning_only_allocated_memory_is_registered() {
    for gets in [false, true] {
        let world = SharedGmWorld::new(1, 16, 16);
        let mut both = sides(&world, gets, false);
        let [got, put, copied] = exchange(1, &world, &mut both);
        assert!((got, put) == (0, 0) && copied > 100_000, "{copied}");
        let world = SharedGmWorld::new(1, 16, 16);
        let mut both = sides(&world, gets, false);
        both.iter_mut().for_each(|side| side.gm.allocated = Allocated::everything());
        let [got, put, _] = exchange(1, &world, &mut both);
        assert!(got + put > 100_000);
    }
}

#[test]
fn unregistrable_memory_is_copied_with_one_warning() {
    for seed in 0..5 {
        for cannot in [[true, false], [false, true], [true; 2]] {
            let world = SharedGmWorld::new(seed, 8, 8);
            world.with(|world| world.cannot_register = cannot);
            let mut both = sides(&world, seed % 2 == 0, true);
            let [got, put, copied] = exchange(seed, &world, &mut both);
            assert!((got, put) == (0, 0) && copied > 0);
            for (side, cannot) in both.iter().zip(cannot) {
                let said = side.said.lock().unwrap();
                assert!(said.len() <= usize::from(cannot), "{said:?}");
                assert!(said.iter().all(|text| text.contains("memory to register")), "{said:?}");
            }
        }
    }
}

/// GM returns operations after a failure; they are begun again.
#[test]
fn moves_that_time_out_are_repeated() {
    let mut timed_out = 0;
    for seed in 0..20 {
        let world = SharedGmWorld::new(seed, 2 + seed as u32 % 9, 1 + seed as u32 % 5);
        let mut both = sides(&world, seed % 2 == 0, true);
        world.with(|world| world.times_out = Some(5));
        exchange(seed, &world, &mut both);
        timed_out += world.with(|world| world.timed_out);
    }
    assert!(timed_out > 100, "{timed_out}");
}

#[test]
fn a_sender_that_takes_its_buffer_back_spoils_no_receive() {
    for gets in [false, true] {
        let (mut whole, mut none) = (0, 0);
        for seed in 0..100 {
            let world = SharedGmWorld::new(seed, 8, 8);
            let mut both = sides(&world, gets, true);
            let values = pattern(seed, (1 << 18) + 5);
            let memory = Owned::new(values.clone());
            both[1].sink.post(1, values.len(), false);
            until(seed, &mut both, |sides| send(sides, &memory.buf(), 1, 7).is_some());
            for _ in 0..seed % 8 {
                both.iter_mut().for_each(LongSide::poll);
            }
            both[0].gm.release(7);
            memory.buf().unpack(0, Bytes::from(&vec![0xabu8; values.len()][..]));
            until(seed, &mut both, |sides| !sides[0].owes(1) && !sides[1].owes(0));
            if both[1].sink.is_over(1) {
                whole += 1;
                assert!(
                    both[1].sink.bytes(1) == values,
                    "seed {seed}: what was changed is no message"
                );
            } else {
                none += 1;
                assert_eq!(both[1].sink.all[&1].stored, 0);
            }
            assert_eq!(world.with(|world| world.regions()), 0);
        }
        assert!(whole > 5 && none > 5, "{gets} {whole} {none}");
    }
}

/// A later receive in the same memory counts, too.
#[test]
fn nothing_is_written_into_a_receive_that_was_released() {
    for gets in [false, true] {
        let mut abandoned = 0;
        for seed in 0..100 {
            let world = SharedGmWorld::new(seed, 8, 8);
            let mut both = sides(&world, gets, true);
            let len = (1 << 18) + 5;
            both[1].sink.post(1, len, false);
            let buffer = Owned::new(pattern(seed, len)).buf();
            until(seed, &mut both, |sides| send(sides, &buffer, 1, 7).is_some());
            for _ in 0..seed % 8 {
                both.iter_mut().for_each(LongSide::poll);
            }
            both[1].gm.release(1);
            let was_begun = !both[1].sink.is_over(1);
            let released = both[1].sink.all.remove(&1).unwrap();
            let before = released.memory.buf().as_contiguous().unwrap().to_vec();
            let (start, len) = (released.memory.buf().as_ptr().addr(), before.len());
            abandoned += u32::from(was_begun && both[1].gm.landings.is_abandoned(start + 9, len));
            until(seed, &mut both, |sides| sides[0].sink.sent == [7]);
            assert!(
                released.memory.buf().as_contiguous().unwrap().to_vec() == before,
                "seed {seed}"
            );
            until(seed, &mut both, |sides| sides[0].gm.leave() & sides[1].gm.leave());
            both[1].poll();
            assert!(!both[1].gm.landings.is_abandoned(start, len), "seed {seed}");
            assert_eq!(world.with(|world| world.regions()), 0);
        }
        assert!(gets || abandoned > 5, "{abandoned}");
    }
}

#[test]
fn the_state_of_a_lost_peer_is_dropped() {
    for seed in 0..50 {
        let world = SharedGmWorld::new(seed, 8, 8);
        let mut both = sides(&world, seed % 2 == 0, true);
        let len = (1 << 18) + 5;
        both[1].sink.post(1, len, false);
        let buffer = Owned::new(pattern(seed, len)).buf();
        until(seed, &mut both, |sides| send(sides, &buffer, 1, 7).is_some());
        for _ in 0..seed % 8 {
            both.iter_mut().for_each(LongSide::poll);
        }
        both[1].gm.remove_failed(0);
        let before = both[1].sink.bytes(1);
        both[0].gm.remove_failed(1);
        assert_eq!(world.with(|world| world.regions()), 0, "seed {seed}");
        for _ in 0..100 {
            both.iter_mut().for_each(LongSide::poll);
        }
        assert!(both[1].sink.bytes(1) == before, "seed {seed}");
        assert!(both[0].gm.leave() && both[1].gm.leave());
    }
}

/// Long and short messages between two quiesces, which begin at any moment.
#[test]
fn ports_are_closed_when_all_has_arrived_and_all_meet_again() {
    for seed in 0..60 {
        let world = SharedGmWorld::new(seed, 2 + seed as u32 % 5, 1 + seed as u32 % 4);
        let mut both = sides(&world, true, true);
        let mut random = Random::new(seed);
        for round in 0..3u64 {
            let mut numbers = Vec::new();
            for at in 0..random.below(4) {
                let (number, len) =
                    (round * 10 + at, [100, 3000, 20_000, 70_000][random.below(4) as usize]);
                both[1].sink.post(number, len, false);
                let buffer = Owned::new(pattern(number, len)).buf();
                until(seed, &mut both, |sides| send(sides, &buffer, number, number).is_some());
                numbers.push((number, len));
            }
            if random.below(2) == 0 {
                let buffer = Owned::new(vec![1; 10]).buf();
                let body = Body::of(&buffer, 0, 10);
                let frame = Frame::Data { receiver: 99, offset: 0 };
                let message = OutgoingMessage::new(frame, body);
                both[1].gm.send(0, &message).unwrap();
            }
            // Each process takes its step when it can, and receives until all have taken theirs.
            let mut is_quiet = [false; 2];
            until(seed, &mut both, |sides| {
                for (side, is_quiet) in sides.iter_mut().zip(&mut is_quiet) {
                    *is_quiet |= side.gm.quiesce();
                }
                is_quiet == [true; 2]
            });
            // The request to the launcher takes longer than any transfer.
            until(seed, &mut both, |_| world.with(|world| world.has_delivered()));
            for side in &mut both {
                side.gm.give_up_connections(&mut side.sink);
            }
            for (number, len) in numbers {
                assert!(
                    both[1].sink.bytes(number) == pattern(number, len),
                    "seed {seed}: {number}"
                );
            }
            // The processes open their ports one after the other, and exchange introductions in
            // between.
            let first = random.below(2) as usize;
            both[first].gm.resume().unwrap();
            let buffer = Owned::new(vec![1; 10]).buf();
            let frame = Frame::Data { receiver: 99, offset: 0 };
            let message = OutgoingMessage::new(frame, Body::of(&buffer, 0, 10));
            let sent = both[first].gm.send(1 - first as u32, &message).unwrap();
            assert_eq!(sent, Sent::Full, "it is not met yet");
            (0..random.below(9)).for_each(|_| both.iter_mut().for_each(LongSide::poll));
            both[1 - first].gm.resume().unwrap();
        }
        until(seed, &mut both, |sides| sides[0].gm.leave() & sides[1].gm.leave());
        assert!(both.iter().all(|side| side.said.lock().unwrap().is_empty()));
    }
}
