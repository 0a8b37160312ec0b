use super::{Rank, SharedIbWorld, TURNS, settings, world};
use crate::receives::pattern;
use crate::sim::Random;
use crate::transports::ib::IbSettings;
use crate::transports::ib::lending::REGISTER_FROM;
use crate::{
    AccessEnd, AtomicOperation, AtomicScope, Direction, Membership, RemoteAccess, RemotePlace,
    Statistics, Transport,
};
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::Bytes;
use std::time::{Duration, Instant};

const OWNER: u32 = 77;

struct AccessPair {
    world: SharedIbWorld,
    ranks: [Rank; 2],
    window: Owned<u8>,
    key: u64,
    ended: Vec<AccessEnd>,
}

impl AccessPair {
    fn new(seed: u64, settings: IbSettings, window: Vec<u8>) -> AccessPair {
        let (world, mut ranks) = world(seed, settings);
        let window = Owned::new(window);
        let key = ranks[1].ib.open(&window.buf()).unwrap();
        AccessPair { world, ranks, window, key, ended: Vec::new() }
    }

    fn start(&mut self, direction: Direction, memory: &Owned<u8>, at: usize) -> u64 {
        let at = RemotePlace { address: at as u64, key: self.key };
        self.ranks[0].ib.start(OWNER, 1, direction, &memory.buf(), at).unwrap()
    }

    fn start_atomic(&mut self, rank: usize, operation: AtomicOperation, word: usize) -> u64 {
        let at = RemotePlace { address: word as u64 * 8, key: self.key };
        self.ranks[rank].ib.start_atomic(OWNER, 1, operation, at).unwrap()
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.window()[at * 8..at * 8 + 8].try_into().unwrap())
    }

    fn turn(&mut self) {
        self.ranks.iter_mut().for_each(Rank::poll);
        self.ended.extend(self.ranks[0].ib.ended(OWNER));
    }

    fn ends(&mut self, count: usize) -> Vec<AccessEnd> {
        let (start, mut turns) = (Instant::now(), 0);
        while self.ended.len() < count {
            self.turn();
            let is_waiting = self.ranks.iter().any(|rank| !rank.ib.broken.is_empty());
            turns += u32::from(!is_waiting);
            if is_waiting {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(turns < TURNS && start.elapsed() < Duration::from_secs(40), "nothing moves");
        }
        std::mem::take(&mut self.ended)
    }

    fn window(&self) -> Vec<u8> {
        self.window.buf().as_contiguous().unwrap().to_vec()
    }

    fn finish(mut self) {
        self.ranks[1].ib.close(self.key);
        assert_eq!(self.world.with(|world| world.regions()), 0);
        let mut turns = 0;
        while !(self.ranks[0].ib.leave() & self.ranks[1].ib.leave()) {
            self.turn();
            turns += 1;
            assert!(turns < TURNS, "the processes cannot leave");
        }
    }
}

fn length(random: &mut Random, settings: &IbSettings) -> usize {
    let slot = settings.envelope_len();
    let lens = [1, 8, slot - 1, slot, slot + 1, REGISTER_FROM, 100_003, (1 << 20) + 7];
    lens[random.below(lens.len() as u64) as usize]
}

#[test]
fn data_go_into_the_window_and_come_out_of_it_whole() {
    for seed in 0..24 {
        let shared = (seed % 2 == 0).then_some(4096);
        let settings = settings([1, 3, 64][seed as usize % 3], shared);
        let mut random = Random::new(seed);
        let lens: Vec<usize> = (0..60).map(|_| length(&mut random, &settings)).collect();
        let mut pair = AccessPair::new(seed, settings, pattern(999, lens.iter().sum()));
        let (mut at, mut all) = (0, Vec::new());
        for (number, len) in lens.iter().copied().enumerate() {
            let is_put = random.below(2) == 0;
            let direction = if is_put { Direction::Put } else { Direction::Get };
            let memory =
                Owned::new(if is_put { pattern(number as u64, len) } else { vec![0; len] });
            all.push((is_put, pair.start(direction, &memory, at), memory, at, len));
            at += len;
            if seed % 4 > 1 {
                pair.ranks[0].send_next();
                pair.turn();
            }
        }
        let (before, mut ended) = (pattern(999, at), pair.ends(60));
        ended.sort_by_key(|(number, _)| *number);
        let (mut put, mut got) = (0, 0);
        for ((is_put, number, memory, at, len), (ended, how)) in all.into_iter().zip(ended) {
            assert_eq!((number, how), (ended, Ok(0)), "seed {seed}");
            let here = memory
                .into_vec()
                .unwrap_or_else(|_| panic!("seed {seed}: the transport holds it still"));
            assert!(pair.window()[at..at + len] == here, "seed {seed}: {len} bytes at {at}");
            assert!(
                is_put || here == before[at..at + len],
                "seed {seed}: a window that was read is changed"
            );
            if is_put { put += len } else { got += len }
        }
        let counts = pair.ranks[0].ib.counts();
        assert_eq!((counts.rdma_bytes_written, counts.rdma_bytes), (put as u64, got as u64));
        pair.finish();
    }
}

#[test]
fn nothing_is_lost_or_comes_late_over_connections_that_fail() {
    let mut failed = 0;
    const APART: usize = (1 << 20) + 64;
    for seed in 0..4 {
        let settings = settings(3, (seed % 2 == 0).then_some(64));
        let mut random = Random::new(seed);
        let mut pair = AccessPair::new(seed, settings, vec![0; 5 * APART]);
        for round in 0..6u64 {
            pair.world.with(|world| world.failures = 12);
            let lens: Vec<usize> = (0..5).map(|_| length(&mut random, &settings)).collect();
            let puts: Vec<_> = lens.iter().map(|len| Owned::new(pattern(round, *len))).collect();
            for (at, memory) in puts.iter().enumerate() {
                pair.start(Direction::Put, memory, at * APART);
            }
            let begun = pair.ends(5);
            assert!(begun.iter().all(|(_, how)| how.is_ok()), "seed {seed}: {begun:?}");
            for (at, len) in lens.iter().enumerate() {
                let is_there = pair.window()[at * APART..][..*len] == pattern(round, *len);
                assert!(is_there, "seed {seed}, round {round}: {len} bytes");
            }
            // After the end of an epoch, later puts overwrite earlier ones, even if connections
            // failed.
            let small = Owned::new(vec![round as u8; 40]);
            for at in 0..5 {
                pair.start(Direction::Put, &small, at * APART);
            }
            assert!(pair.ends(5).iter().all(|(_, how)| how.is_ok()));
            for at in 0..5 {
                let at = at * APART;
                assert!(
                    pair.window()[at..at + 40] == [round as u8; 40],
                    "seed {seed}, round {round}"
                );
            }
            let back = Owned::new(vec![0; 100]);
            pair.start(Direction::Get, &back, APART);
            assert!(pair.ends(1)[0].1.is_ok());
            let back = back.into_vec().unwrap();
            assert!(back == pair.window()[APART..APART + 100], "seed {seed}, round {round}");
        }
        pair.world.with(|world| world.failures = 0);
        failed += pair.world.with(|world| world.failed);
        let lost = pair.ranks.iter().map(|rank| rank.mailbox.lost.len()).sum::<usize>();
        assert_eq!(lost, 0);
        // The connection may just be made again.
        let last = Owned::new(vec![1]);
        pair.start(Direction::Put, &last, 0);
        pair.ends(1);
        pair.ranks[1].ib.close(pair.key);
        assert_eq!(pair.world.with(|world| world.regions()), 0);
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_refused_access_fails_with_the_adapters_text_and_no_peer_is_lost() {
    for (direction, len, word) in [
        (Direction::Put, 8, "MPI_Put"),
        (Direction::Put, 5000, "MPI_Put"),
        (Direction::Get, 70_000, "MPI_Get"),
    ] {
        let mut pair = AccessPair::new(5, settings(4, None), vec![0; 100_000]);
        pair.world.with(|world| world.denies_accesses = true);
        let memory = Owned::new(vec![1; len]);
        let number = pair.start(direction, &memory, 0);
        let ended = pair.ends(1);
        let why = ended[0].1.clone().unwrap_err();
        assert!(ended[0].0 == number && why.contains(word), "{why}");
        assert!(why.contains("process 1") && why.contains("vendor error 0x88"), "{why}");
        assert!(memory.into_vec().is_ok(), "the transport holds it no more");
        pair.world.with(|world| world.denies_accesses = false);
        let memory = Owned::new(vec![7; 8]);
        pair.start(Direction::Put, &memory, 16);
        assert!(pair.ends(1)[0].1.is_ok() && pair.window()[16..24] == [7; 8]);
        assert!(pair.ranks[0].mailbox.lost.is_empty() && pair.ranks[1].mailbox.lost.is_empty());
        pair.ranks[1].ib.close(pair.key);
        assert_eq!(pair.world.with(|world| world.regions()), 0);
    }
}

#[test]
fn accesses_to_a_peer_that_dies_end_with_an_error_and_touch_nothing_afterwards() {
    for seed in 0..40 {
        let mut pair =
            AccessPair::new(seed, settings(4, (seed % 2 == 0).then_some(64)), pattern(1, 4 << 20));
        let long = Owned::new(vec![0; 3 << 20]);
        let short = Owned::new(vec![0; 30]);
        pair.start(Direction::Get, &long, 0);
        pair.start(Direction::Get, &short, 0);
        for _ in 0..seed % 7 {
            pair.turn();
        }
        pair.ranks[0].ib.remove_failed(1);
        pair.ended.extend(pair.ranks[0].ib.ended(OWNER));
        assert_eq!(pair.ended.len(), 2, "seed {seed}");
        for (_, how) in &pair.ended {
            assert!(
                how.as_ref().err().is_none_or(|why| why.contains("process 1")),
                "seed {seed}: {how:?}"
            );
        }
        let at = RemotePlace { address: 0, key: pair.key };
        assert!(pair.ranks[0].ib.start(OWNER, 1, Direction::Get, &short.buf(), at).is_none());
        let (long, short) = (long.into_vec().unwrap(), short.into_vec().unwrap());
        assert!(long.len() == 3 << 20 && short.len() == 30);
        pair.ranks[1].ib.close(pair.key);
        assert_eq!(pair.world.with(|world| world.regions()), 0);
        assert!(pair.ranks[0].ib.leave());
    }
}

#[test]
fn an_abandoned_access_uses_no_buffer() {
    let mut begun = 0;
    for seed in 0..60 {
        let mut pair = AccessPair::new(seed, settings(4, None), pattern(1, 4 << 20));
        let (long, short) = (Owned::new(vec![0u8; 3 << 20]), Owned::new(vec![0u8; 30]));
        pair.start(Direction::Get, &long, 0);
        pair.start(Direction::Get, &short, 0);
        for _ in 0..seed {
            pair.ranks.iter_mut().for_each(Rank::poll);
        }
        pair.ranks[0].ib.abandon(OWNER, 1);
        assert!(!pair.ranks[0].ib.accesses.owes(1));
        begun += u32::from(pair.world.with(|world| world.read) > 0);
        let (long, short) = (long.into_vec().unwrap(), short.into_vec().unwrap());
        let before = (long.clone(), short.clone());
        for _ in 0..50 {
            pair.ranks.iter_mut().for_each(Rank::poll);
        }
        assert!((long, short) == before, "seed {seed}");
        pair.ranks[1].ib.close(pair.key);
        assert_eq!(pair.world.with(|world| world.regions()), 0);
    }
    assert!(begun > 5, "{begun}");
}

#[test]
fn unregistrable_windows_use_messages() {
    let mut pair = AccessPair::new(3, settings(4, None), vec![0; 10_000]);
    pair.world.with(|world| world.cannot_register = [true; 2]);
    let other = Owned::new(vec![0u8; 64]);
    assert_eq!(pair.ranks[1].ib.open(&other.buf()), None);
    let long = Owned::new(vec![3; 5000]);
    let at = RemotePlace { address: 0, key: pair.key };
    for _ in 0..2 {
        assert_eq!(pair.ranks[0].ib.start(OWNER, 1, Direction::Put, &long.buf(), at), None);
    }
    for rank in &pair.ranks {
        let said = rank.said.lock().unwrap().join("\n");
        assert!(said.matches("ulimit -l").count() == 1, "{said}");
    }
    // Data that fit into a slot need no registration.
    let short = Owned::new(vec![3; 50]);
    pair.start(Direction::Put, &short, 0);
    assert!(pair.ends(1)[0].1.is_ok() && pair.window()[..50] == [3; 50]);
    pair.finish();
}

#[test]
fn without_the_parameter_no_window_is_opened() {
    let (_, [mut rank, _]) = world(3, IbSettings { rma: false, ..settings(4, None) });
    assert!(rank.ib.remote_access().is_none() && !rank.ib.reaches_memory(1));
    let depth = settings(4, None).send_depth();
    assert!(IbSettings { rma: false, ..settings(4, None) }.send_depth() < depth);
}

#[test]
fn a_window_is_closed_before_its_memory_goes() {
    let (world, [_, mut rank]) = world(3, settings(4, None));
    let memory = Owned::new(vec![0u8; 100_000]);
    let start = memory.buf().as_ptr() as usize;
    crate::LastingMemory::keep_memory(&mut rank.ib, &memory.buf());
    let key = rank.ib.open(&memory.buf()).unwrap();
    rank.ib.close(key);
    crate::LastingMemory::forget_memory(&mut rank.ib, start);
    assert_eq!(world.with(|world| world.regions()), 0);
    memory.buf().unpack(0, Bytes::from(&[1]));
    assert!(memory.into_vec().is_ok());
}

#[test]
fn atomic_operations_tell_the_values_from_before_in_their_order() {
    for seed in 0..12 {
        let settings = settings([1, 3, 64][seed as usize % 3], (seed % 2 == 0).then_some(4096));
        let mut pair = AccessPair::new(seed, settings, vec![0; 64]);
        assert_eq!(pair.ranks[0].ib.atomics(), AtomicScope::Adapter);
        let mut random = Random::new(seed);
        let (mut words, mut numbers, mut values) = ([0u64; 8], Vec::new(), Vec::new());
        for _ in 0..200 {
            let word = random.below(8) as usize;
            let operation = match random.below(3) {
                0 => AtomicOperation::CompareSwap { compare: words[word], new: random.below(100) },
                1 => AtomicOperation::CompareSwap { compare: words[word] + 1, new: 7 },
                _ => AtomicOperation::FetchAdd(random.below(u64::MAX)),
            };
            numbers.push(pair.start_atomic(0, operation, word));
            values.push(words[word]);
            match operation {
                AtomicOperation::FetchAdd(add) => words[word] = words[word].wrapping_add(add),
                AtomicOperation::CompareSwap { compare, new } if compare == words[word] => {
                    words[word] = new
                }
                AtomicOperation::CompareSwap { .. } => {}
            }
        }
        let mut ended = pair.ends(200);
        ended.sort_by_key(|(number, _)| *number);
        let expected: Vec<AccessEnd> =
            numbers.into_iter().zip(values.into_iter().map(Ok)).collect();
        assert_eq!(ended, expected, "seed {seed}");
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|word| pair.word(word)), words, "seed {seed}");
        assert_eq!(pair.ranks[0].ib.counts().rdma_atomics, 200);
        pair.finish();
    }
}

#[test]
fn a_process_and_its_peer_change_the_same_word() {
    for seed in 0..12 {
        let settings = settings(3, (seed % 2 == 0).then_some(64));
        let mut pair = AccessPair::new(seed, settings, vec![0; 64]);
        assert_eq!(pair.ranks[1].ib.atomics(), AtomicScope::Adapter);
        let mut own = Vec::new();
        for round in 0..50 {
            pair.start_atomic(0, AtomicOperation::FetchAdd(1), 3);
            pair.start_atomic(1, AtomicOperation::FetchAdd(1 << 32), 3);
            if round % 10 == seed % 10 {
                pair.turn();
            }
            own.extend(pair.ranks[1].ib.ended(OWNER));
        }
        let start = Instant::now();
        while pair.word(3) != 50 << 32 | 50 || own.len() < 50 {
            pair.turn();
            own.extend(pair.ranks[1].ib.ended(OWNER));
            assert!(start.elapsed() < Duration::from_secs(20), "seed {seed}: {:#x}", pair.word(3));
        }
        let mut halves: Vec<u64> = own.into_iter().map(|(_, how)| how.unwrap() >> 32).collect();
        halves.sort_unstable();
        assert!(halves.into_iter().eq(0..50), "seed {seed}");
        assert_eq!(pair.world.with(|world| world.ends_made()), 3, "one to itself");
        pair.finish();
    }
}

#[test]
fn an_atomic_operation_is_never_repeated_and_its_peer_is_lost_with_it() {
    let (mut lost, mut unharmed) = (0, 0);
    for seed in 0..60 {
        let mut pair =
            AccessPair::new(seed, settings(3, (seed % 2 == 0).then_some(64)), vec![0; 64]);
        pair.world.with(|world| world.failures = 60);
        let (mut begun, mut well) = (0, 0);
        for _ in 0..40 {
            let at = RemotePlace { address: 16, key: pair.key };
            let operation = AtomicOperation::FetchAdd(1);
            // This process no longer accesses a lost peer.
            let Some(_) = pair.ranks[0].ib.start_atomic(OWNER, 1, operation, at) else { break };
            begun += 1;
            pair.turn();
        }
        let ended = pair.ends(begun);
        for (_, how) in &ended {
            match how {
                Ok(_) => well += 1,
                Err(why) => {
                    assert!(why.contains("process 1") && why.contains("MPI_Accumulate"), "{why}")
                }
            }
        }
        let (changes, word) = (pair.world.with(|world| world.changes), pair.word(2));
        assert!(
            changes == word && (well..=begun as u64).contains(&word),
            "seed {seed}: {well} {word} {begun}"
        );
        pair.turn();
        if well == begun as u64 {
            unharmed += 1;
            assert!(pair.ranks[0].mailbox.lost.is_empty() && word == well, "seed {seed}");
        } else {
            lost += 1;
            assert_eq!(pair.ranks[0].mailbox.lost, [1], "seed {seed}");
            let said = pair.ranks[0].said.lock().unwrap().join("\n");
            assert!(said.contains("process 1"), "{said}");
        }
    }
    assert!(lost > 5 && unharmed > 5, "{lost} {unharmed}");
}

#[test]
fn an_atomic_operation_that_is_refused_fails_and_no_peer_is_lost() {
    let mut pair = AccessPair::new(3, settings(4, None), vec![0; 64]);
    // The operations behind the refused one had no effect, either.
    pair.world.with(|world| world.denies_accesses = true);
    let numbers: Vec<u64> =
        (0..5).map(|_| pair.start_atomic(0, AtomicOperation::FetchAdd(1), 0)).collect();
    let mut ended = pair.ends(5);
    ended.sort_by_key(|(number, _)| *number);
    for (number, (at, how)) in numbers.into_iter().zip(ended) {
        let why = how.unwrap_err();
        assert!(number == at && why.contains("process 1") && why.contains("0x88"), "{why}");
    }
    pair.world.with(|world| world.denies_accesses = false);
    pair.start_atomic(0, AtomicOperation::FetchAdd(5), 0);
    assert_eq!((pair.ends(1)[0].1.clone(), pair.word(0)), (Ok(0), 5));
    let odd = RemotePlace { address: 4, key: pair.key };
    let started = pair.ranks[0].ib.start_atomic(OWNER, 1, AtomicOperation::FetchAdd(5), odd);
    assert_eq!(started, None, "no word");
    assert!(pair.ranks.iter().all(|rank| rank.mailbox.lost.is_empty()));
    pair.finish();
}

#[test]
fn operations_behind_a_refused_one_go_over_the_next_connection() {
    for seed in 0..20 {
        let mut pair = AccessPair::new(seed, settings(4, None), vec![0; 64]);
        let small = Owned::new(vec![1; 8]);
        let nowhere = RemotePlace { address: 0, key: pair.key + 99 };
        pair.ranks[0].ib.start(OWNER, 1, Direction::Put, &small.buf(), nowhere).unwrap();
        for _ in 0..6 {
            pair.start_atomic(0, AtomicOperation::FetchAdd(1), 7);
        }
        let ended = pair.ends(7);
        assert_eq!(
            ended.iter().filter(|(_, how)| how.is_ok()).count(),
            6,
            "seed {seed}: {ended:?}"
        );
        assert_eq!(pair.word(7), 6, "seed {seed}");
        assert!(pair.ranks[0].mailbox.lost.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_lost_operation_is_reported_with_the_loss_of_its_peer() {
    let mut lost = 0;
    for seed in 0..40 {
        let mut pair = AccessPair::new(seed, settings(3, None), vec![0; 64]);
        pair.start_atomic(0, AtomicOperation::FetchAdd(1), 0);
        pair.ends(1);
        pair.world.with(|world| world.failures = 2);
        let number = pair.start_atomic(0, AtomicOperation::FetchAdd(1), 0);
        let how = pair.ends(1).pop().unwrap();
        assert_eq!(how.0, number);
        assert_eq!(pair.ranks[0].mailbox.lost.is_empty(), how.1.is_ok(), "seed {seed}");
        lost += u32::from(how.1.is_err());
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn an_access_abandoned_under_way_loses_no_peer() {
    let mut changed = 0;
    for seed in 0..40 {
        let mut pair = AccessPair::new(seed, settings(4, None), vec![0; 64]);
        pair.start_atomic(0, AtomicOperation::FetchAdd(1), 0);
        (0..seed).for_each(|_| pair.ranks.iter_mut().for_each(Rank::poll));
        pair.ranks[0].ib.abandon(OWNER, 1);
        assert!(!pair.ranks[0].ib.accesses.owes(1));
        pair.ranks[0].ib.ended(OWNER);
        changed += pair.word(0);
        let before = pair.word(0);
        for _ in 0..50 {
            pair.turn();
        }
        assert!(pair.word(0) == before && pair.ended.is_empty(), "seed {seed}");
        assert!(pair.ranks[0].mailbox.lost.is_empty(), "seed {seed}");
        pair.finish();
    }
    assert!(changed > 5, "{changed}");
}

#[test]
fn a_process_that_cannot_reach_itself_is_not_lost() {
    let mut pair = AccessPair::new(9, settings(4, None), vec![0; 64]);
    pair.world.with(|world| world.refuses = true);
    assert_eq!(pair.ranks[1].ib.atomics(), AtomicScope::None, "then messages do it");
    pair.world.with(|world| world.refuses = false);
    assert_eq!(pair.ranks[1].ib.atomics(), AtomicScope::Adapter);
    let mut failed = 0;
    let start = Instant::now();
    while failed < 3 {
        pair.world.with(|world| world.failures = 3);
        pair.start_atomic(1, AtomicOperation::FetchAdd(1), 0);
        let ended = loop {
            pair.turn();
            if let Some(ended) = pair.ranks[1].ib.ended(OWNER).pop() {
                break ended;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "nothing moves");
        };
        failed += u32::from(ended.1.is_err());
        pair.world.with(|world| world.failures = 0);
    }
    assert!(pair.ranks[1].mailbox.lost.is_empty());
    // If this connection is abandoned, later windows use messages.
    pair.world.with(|world| world.refuses = true);
    pair.ranks[1].ib.fail(1, "the port is down".into());
    while pair.ranks[1].ib.atomics() != AtomicScope::None || !pair.ranks[1].ib.broken.is_empty() {
        pair.turn();
        std::thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() < Duration::from_secs(30), "it is never given up");
    }
    pair.world.with(|world| world.refuses = false);
    assert_eq!(pair.ranks[1].ib.atomics(), AtomicScope::None);
    assert!(pair.ranks[1].mailbox.lost.is_empty());
    pair.start_atomic(0, AtomicOperation::FetchAdd(1), 1);
    assert_eq!((pair.ends(1)[0].1.clone(), pair.word(1)), (Ok(0), 1));
}
