use super::{Arc, Mutex, SharedIbWorld, TURNS, settings, world};
use crate::receives::{Receives, pattern, scattered};
use crate::sim::Random;
use crate::transports::ib::fake::FakePort;
use crate::transports::ib::lending::REGISTER_FROM;
use crate::transports::ib::{Ib, IbSettings};
use crate::{Body, LastingMemory, Membership, OutgoingMessage, Sent, Statistics, Transport};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;

struct IbLongSide {
    ib: Ib<FakePort>,
    sink: Receives,
    said: Arc<Mutex<Vec<String>>>,
}

impl IbLongSide {
    fn poll(&mut self) {
        self.ib.poll(None, &mut self.sink);
    }
}

fn sides(seed: u64, settings: IbSettings) -> (SharedIbWorld, [IbLongSide; 2]) {
    let (world, ranks) = world(seed, settings);
    let side =
        |rank: super::Rank| IbLongSide { ib: rank.ib, sink: Receives::default(), said: rank.said };
    (world, ranks.map(side))
}

fn send(
    sides: &mut [IbLongSide; 2],
    buffer: &UserBuf,
    (receiver, offset): (u64, usize),
    token: u64,
) -> Option<Sent> {
    let len = (buffer.packed_len() - offset).min(sides[0].ib.piece_limit(1));
    let frame = Frame::Data { receiver, offset: offset as u64 };
    let body = Body::of(buffer, offset, len);
    let message = OutgoingMessage { sequence: 0, frame, body, lent: Some(buffer), token };
    let sent = sides[0].ib.send(1, &message).unwrap();
    (sent != Sent::Full).then_some(sent)
}

fn until(
    seed: u64,
    sides: &mut [IbLongSide; 2],
    mut is_so: impl FnMut(&mut [IbLongSide; 2]) -> bool,
) {
    for _ in 0..TURNS {
        if is_so(sides) {
            return;
        }
        sides.iter_mut().for_each(IbLongSide::poll);
    }
    panic!("seed {seed}: nothing moves");
}

/// Messages of lengths around the limits, with each kind of memory on both sides.
fn exchange(
    seed: u64,
    settings: IbSettings,
    cannot: [bool; 2],
) -> (SharedIbWorld, [IbLongSide; 2]) {
    let (world, mut sides) = sides(seed, settings);
    world.with(|world| world.cannot_register = cannot);
    let lens = [200, REGISTER_FROM - 2, REGISTER_FROM, 100_000, (2 << 20) + 6];
    let mut random = Random::new(seed);
    let mut expected = Vec::new();
    for number in 0..10u64 {
        let len = lens[random.below(lens.len() as u64) as usize];
        let values = pattern(number, len);
        let buffer = if random.below(4) == 0 {
            scattered(&values)
        } else {
            Owned::new(values.clone()).buf()
        };
        sides[1].sink.post(number, len, random.below(4) == 0);
        let mut is_later = false;
        until(seed, &mut sides, |sides| {
            let sent = send(sides, &buffer, (number, 0), 100 + number);
            is_later = sent == Some(Sent::Later);
            sent.is_some()
        });
        expected.push((number, values, is_later));
    }
    let later: Vec<u64> = expected.iter().filter(|one| one.2).map(|one| 100 + one.0).collect();
    until(seed, &mut sides, |sides| {
        sides[0].sink.sent.len() == later.len()
            && (0..10).all(|number| sides[1].sink.is_over(number))
    });
    let mut sent = sides[0].sink.sent.clone();
    sent.sort_unstable();
    assert_eq!(sent, later);
    for (number, values, _) in expected {
        assert!(sides[1].sink.bytes(number) == values, "seed {seed}: message {number}");
    }
    until(seed, &mut sides, |sides| sides[0].ib.leave() & sides[1].ib.leave());
    assert_eq!(world.with(|world| world.regions()), 0, "nothing stays registered");
    (world, sides)
}

#[test]
fn long_messages_are_read_where_both_sides_have_them_in_one_piece() {
    let mut read = 0;
    for seed in 0..10 {
        for envelopes in [1, 2, 64] {
            let shared = (seed % 2 == 0).then_some(4096);
            let (world, mut sides) = exchange(seed, settings(envelopes, shared), [false; 2]);
            let counted = sides[1].ib.counts().rdma_bytes;
            assert_eq!(counted, world.with(|world| world.read));
            read += counted;
        }
    }
    assert!(read > 4 << 20, "{read}");
}

#[test]
fn unregistrable_memory_goes_in_envelopes_with_one_warning() {
    for seed in 0..5 {
        for cannot in [[true, false], [false, true], [true; 2]] {
            let (world, sides) = exchange(seed, settings(8, None), cannot);
            assert_eq!(world.with(|world| world.read), 0);
            let said: Vec<String> =
                sides.iter().flat_map(|side| side.said.lock().unwrap().clone()).collect();
            assert!(
                said.len() <= 2 && said.iter().all(|text| text.contains("ulimit -l")),
                "{said:?}"
            );
        }
    }
}

#[test]
fn a_sender_that_takes_its_buffer_back_spoils_no_receive() {
    let (mut whole, mut none) = (0, 0);
    for seed in 0..100 {
        let (world, mut sides) = sides(seed, settings(8, None));
        let len = (3 << 20) + 5;
        let values = pattern(seed, len);
        let memory = Owned::new(values.clone());
        sides[1].sink.post(1, len, false);
        until(seed, &mut sides, |sides| send(sides, &memory.buf(), (1, 0), 7).is_some());
        for _ in 0..seed % 4 {
            sides.iter_mut().for_each(IbLongSide::poll);
        }
        sides[0].ib.release(7);
        memory.buf().unpack(0, Bytes::from(&vec![0xabu8; len][..]));
        let is_over = |sides: &mut [IbLongSide; 2]| {
            let owes =
                |side: &IbLongSide, peer| side.ib.lending.owes(peer) || side.ib.readings.owes(peer);
            !owes(&sides[0], 1) && !owes(&sides[1], 0)
        };
        until(seed, &mut sides, is_over);
        if sides[1].sink.is_over(1) {
            whole += 1;
            assert!(
                sides[1].sink.bytes(1) == values,
                "seed {seed}: a message that was changed is no message"
            );
        } else {
            none += 1;
            assert_eq!(sides[1].sink.all[&1].stored, 0);
        }
        assert_eq!(world.with(|world| world.regions()), 0);
    }
    assert!(whole > 5 && none > 5, "{whole} {none}");
}

#[test]
fn nothing_is_written_into_a_receive_that_was_released() {
    let mut begun = 0;
    for seed in 0..100 {
        let (world, mut sides) = sides(seed, settings(8, None));
        let len = (3 << 20) + 5;
        sides[1].sink.post(1, len, false);
        let buffer = Owned::new(pattern(seed, len)).buf();
        until(seed, &mut sides, |sides| send(sides, &buffer, (1, 0), 7).is_some());
        for _ in 0..seed % 4 {
            sides.iter_mut().for_each(IbLongSide::poll);
        }
        sides[1].ib.release(1);
        assert!(!sides[1].ib.readings.has_news());
        let released = sides[1].sink.all.remove(&1).unwrap();
        begun += u32::from(world.with(|world| world.read) > 0 && released.stored == 0);
        let before = released.memory.buf().as_contiguous().unwrap().to_vec();
        until(seed, &mut sides, |sides| sides[0].sink.sent == [7]);
        assert!(released.memory.buf().as_contiguous().unwrap().to_vec() == before, "seed {seed}");
        until(seed, &mut sides, |sides| sides[0].ib.leave() & sides[1].ib.leave());
        assert_eq!(world.with(|world| world.regions()), 0);
    }
    assert!(begun > 5, "{begun}");
}

#[test]
fn nothing_is_written_into_a_receive_whose_sender_is_lost() {
    for seed in 0..50 {
        let (world, mut sides) = sides(seed, settings(8, (seed % 2 == 0).then_some(64)));
        let len = (3 << 20) + 5;
        sides[1].sink.post(1, len, false);
        let buffer = Owned::new(pattern(seed, len)).buf();
        until(seed, &mut sides, |sides| send(sides, &buffer, (1, 0), 7).is_some());
        for _ in 0..seed % 4 {
            sides.iter_mut().for_each(IbLongSide::poll);
        }
        sides[1].ib.remove_failed(0);
        let before = sides[1].sink.bytes(1);
        sides[0].ib.remove_failed(1);
        assert_eq!(world.with(|world| world.regions()), 0, "seed {seed}");
        for _ in 0..100 {
            sides.iter_mut().for_each(IbLongSide::poll);
        }
        assert!(sides[1].sink.bytes(1) == before, "seed {seed}");
        assert!(sides[0].ib.leave() && sides[1].ib.leave());
    }
}

#[test]
fn a_read_that_fails_again_and_again_is_sent_in_envelopes() {
    let (world, mut sides) = sides(3, settings(8, None));
    let len = 1 << 20;
    sides[1].sink.post(1, len, false);
    let buffer = Owned::new(pattern(3, len)).buf();
    world.with(|world| world.denies_reads = true);
    until(3, &mut sides, |sides| send(sides, &buffer, (1, 0), 7).is_some());
    patiently(&mut sides, |sides| sides[1].sink.is_over(1) && sides[0].sink.sent == [7]);
    assert!(sides[1].sink.bytes(1) == pattern(3, len));
    assert_eq!((world.with(|world| world.read), &sides[1].sink.lost[..]), (0, &[][..]));
}

fn patiently(sides: &mut [IbLongSide; 2], mut is_so: impl FnMut(&mut [IbLongSide; 2]) -> bool) {
    let start = std::time::Instant::now();
    while !is_so(sides) {
        assert!(start.elapsed().as_secs() < 30, "nothing moves");
        sides.iter_mut().for_each(IbLongSide::poll);
        if sides.iter().any(|side| !side.ib.broken.is_empty()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[test]
fn long_messages_arrive_once_over_connections_that_fail() {
    let mut failed = 0;
    for seed in 0..12 {
        let shared = (seed % 2 == 0).then_some(64);
        let (world, mut sides) = sides(seed, IbSettings { tiny: 8192, ..settings(3, shared) });
        let len = 100_000;
        world.with(|world| world.failures = 12);
        for number in 0..6u64 {
            let values = pattern(number, len);
            let buffer =
                if number == 3 { scattered(&values) } else { Owned::new(values.clone()).buf() };
            sides[1].sink.post(number, len, false);
            patiently(&mut sides, |sides| {
                send(sides, &buffer, (number, 0), 100 + number).is_some()
            });
        }
        patiently(&mut sides, |sides| (0..6).all(|number| sides[1].sink.is_over(number)));
        world.with(|world| world.failures = 0);
        patiently(&mut sides, |sides| sides[0].ib.leave() & sides[1].ib.leave());
        for number in 0..6 {
            assert!(
                sides[1].sink.bytes(number) == pattern(number, len),
                "seed {seed}: message {number}"
            );
            assert_eq!(
                sides[1].sink.all[&number].stored, len,
                "seed {seed}: message {number} comes once"
            );
        }
        assert_eq!(world.with(|world| world.regions()), 0);
        failed += world.with(|world| world.failed);
    }
    // The number of operations depends on the speed of repetitions.
    assert!(failed > 5, "{failed}");
}

#[test]
fn a_peer_that_has_left_leaves_nothing_lent() {
    let (world, mut sides) = sides(5, settings(8, None));
    let buffer = Owned::new(pattern(5, 1 << 20)).buf();
    until(5, &mut sides, |sides| send(sides, &buffer, (1, 0), 7).is_some());
    assert!(!sides[0].ib.leave(), "the peer may read it");
    world.with(|world| world.has_left[0] = true);
    for _ in 0..1000 {
        sides[0].poll();
    }
    assert_eq!((&sides[0].sink.sent[..], world.with(|world| world.regions())), (&[7][..], 0));
    assert!(sides[0].ib.leave());
}

/// Lasting memory is freed between messages, and allocated again at the same address.
#[test]
fn memory_that_goes_and_comes_again_has_the_new_data() {
    let len = 100_000;
    for seed in 0..20 {
        let (world, mut sides) = sides(seed, settings(8, (seed % 2 == 0).then_some(64)));
        let memory = Owned::new(vec![0u8; len]);
        let start = memory.buf().as_ptr() as usize;
        for number in 0..4u64 {
            sides[1].sink.post(number, len, false);
            let into = sides[1].sink.all[&number].memory.buf();
            sides[0].ib.keep_memory(&memory.buf());
            sides[1].ib.keep_memory(&into);
            memory.buf().unpack(0, Bytes::from(&pattern(number, len)[..]));
            until(seed, &mut sides, |sides| send(sides, &memory.buf(), (number, 0), 7).is_some());
            until(seed, &mut sides, |sides| {
                sides[1].sink.is_over(number) && std::mem::take(&mut sides[0].sink.sent) == [7]
            });
            assert!(
                sides[1].sink.bytes(number) == pattern(number, len),
                "seed {seed}: message {number}"
            );
            sides[0].ib.forget_memory(start);
            sides[1].ib.forget_memory(into.as_ptr() as usize);
        }
        assert_eq!(world.with(|world| world.regions()), 0);
    }
}

/// The sender takes its buffer back and frees the memory while the receiver reads. A read of
/// deregistered memory fails the connection, and the data are no message. Later messages arrive.
#[test]
fn memory_that_a_peer_still_reads_can_go() {
    let (mut denied, len) = (0, (3 << 20) + 5);
    for seed in 0..12 {
        let (world, mut sides) = sides(seed, settings(8, None));
        let memory = Owned::new(pattern(seed, len));
        sides[0].ib.keep_memory(&memory.buf());
        sides[1].sink.post(1, len, false);
        until(seed, &mut sides, |sides| send(sides, &memory.buf(), (1, 0), 7).is_some());
        for _ in 0..seed % 4 {
            sides.iter_mut().for_each(IbLongSide::poll);
        }
        sides[0].ib.release(7);
        sides[0].ib.forget_memory(memory.buf().as_ptr() as usize);
        let memory = memory.into_vec();
        assert!(memory.is_ok(), "seed {seed}: the transport holds memory that has gone");
        sides[1].sink.post(2, len, false);
        let next = Owned::new(pattern(2, len)).buf();
        patiently(&mut sides, |sides| send(sides, &next, (2, 0), 8).is_some());
        patiently(&mut sides, |sides| sides[1].sink.is_over(2) && sides[0].sink.sent.contains(&8));
        assert!(sides[1].sink.bytes(2) == pattern(2, len), "seed {seed}");
        if sides[1].sink.is_over(1) {
            assert!(sides[1].sink.bytes(1) == pattern(seed, len), "seed {seed}");
        } else {
            assert_eq!(sides[1].sink.all[&1].stored, 0, "seed {seed}");
            denied += 1;
        }
        assert!(sides[0].sink.lost.is_empty() && sides[1].sink.lost.is_empty());
        patiently(&mut sides, |sides| sides[0].ib.leave() & sides[1].ib.leave());
        assert_eq!(world.with(|world| world.regions()), 0);
    }
    assert!(denied > 2, "{denied}");
}

#[test]
fn nothing_is_written_into_memory_that_has_gone() {
    let mut begun = 0;
    for seed in 0..60 {
        let (world, mut sides) = sides(seed, settings(8, None));
        let len = (3 << 20) + 5;
        sides[1].sink.post(1, len, false);
        let into = sides[1].sink.all[&1].memory.buf();
        sides[1].ib.keep_memory(&into);
        let buffer = Owned::new(pattern(seed, len)).buf();
        until(seed, &mut sides, |sides| send(sides, &buffer, (1, 0), 7).is_some());
        for _ in 0..seed % 4 {
            sides.iter_mut().for_each(IbLongSide::poll);
        }
        let is_read = sides[1].ib.regions_read_into().next().is_some();
        sides[1].ib.forget_memory(into.as_ptr() as usize);
        begun += u32::from(world.with(|world| world.read) > 0 && is_read);
        let before = into.as_contiguous().unwrap().to_vec();
        for _ in 0..50 {
            sides.iter_mut().for_each(IbLongSide::poll);
        }
        assert!(!is_read || into.as_contiguous().unwrap().to_vec() == before, "seed {seed}");
    }
    assert!(begun > 5, "{begun}");
}
