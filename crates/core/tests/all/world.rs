//! Ranks as values: several ranks in one program, over the real shared-memory code.

use crate::talk::{pattern, receive, send};
use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG};
use oxmpi_coll::{Buffers, Combine};
use oxmpi_core::comm::{CommComparison, Peer};
use oxmpi_core::p2p::{SendrecvReceive, SendrecvSend};
use oxmpi_core::world::{WorldOptions, world, world_with};
use oxmpi_core::{Communicator, Process};
use oxmpi_engine::Mode;
use oxmpi_fabric::routes::Routes;
use oxmpi_fabric::shm::copy_policy::{CopyFacts, Proximity};
use oxmpi_fabric::shm::{ShmSettings, SingleCopyMode};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::{Owned, lend, lend_mut};
use oxmpi_plan::{Call, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LENGTHS: [usize; 17] = [
    0, 1, 8, 55, 56, 57, 400, 500, 2048, 2049, 16000, 16384, 16385, 65536, 65537, 300_000,
    3_000_000,
];

fn ping_pong(options: WorldOptions) {
    world_with(2, options, |p| {
        let comm = p.world().clone();
        let peer = 1 - comm.rank();
        for round in 0..3 {
            for (n, len) in LENGTHS.into_iter().enumerate() {
                for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready] {
                    let number = n + round * 100;
                    if comm.rank() == 0 {
                        send(p, &comm, mode, &pattern(0, number, len), peer, n as i32);
                    }
                    let (got, source, tag) = receive(p, &comm, len, MPI_ANY_SOURCE, MPI_ANY_TAG);
                    assert_eq!((source, tag), (peer, n as i32));
                    assert!(got == pattern(peer, number, len), "length {len}, {mode:?}");
                    if comm.rank() == 1 {
                        send(p, &comm, mode, &pattern(1, number, len), peer, n as i32);
                    }
                }
            }
        }
    });
}

#[test]
fn messages_of_all_lengths_arrive() {
    ping_pong(WorldOptions::default());
}

#[test]
fn messages_of_all_lengths_arrive_without_single_copy() {
    let mut options = WorldOptions::default();
    options.settings.single_copy = SingleCopyMode::Off;
    ping_pong(options);
}

#[test]
fn messages_of_all_lengths_arrive_through_the_inbox_alone() {
    let mut options = WorldOptions::default();
    options.settings.ring_after = u64::MAX;
    ping_pong(options.clone());
    options.settings.single_copy = SingleCopyMode::Off;
    ping_pong(options);
}

#[test]
fn messages_of_all_lengths_arrive_by_all_copy_protocols() {
    let mut options = WorldOptions::default();
    options.settings.single_copy = SingleCopyMode::On;
    ping_pong(options.clone());
    options.config.pool_bytes = 0;
    ping_pong(options.clone());
    options.settings.single_copy = SingleCopyMode::Auto;
    ping_pong(options.clone());
    // With the built-in copy costs of all processors, near and far.
    options.config.pool_bytes = 1 << 20;
    for facts in CopyFacts::all_built_in() {
        options.settings.facts = Arc::new(facts);
        for proximity in [Proximity::Near, Proximity::Far, Proximity::Unknown] {
            options.settings.proximity = proximity;
            ping_pong(options.clone());
        }
    }
}

/// The bytes that senders copied into pools, and the bytes that receivers read, show the protocol.
#[test]
fn long_messages_go_through_the_pool_in_pieces_if_the_policy_says_so() {
    const LEN: usize = 3 << 20;
    const ROUNDS: usize = 10;
    const LIMIT: Duration = Duration::from_secs(30);
    let moved = |family: &'static str, single_copy, both_directions: bool| {
        let mut options = WorldOptions::default();
        options.config.pool_bytes = 1 << 20;
        let facts = CopyFacts::all_built_in().find(|facts| facts.of == family).unwrap();
        options.settings = ShmSettings { facts: Arc::new(facts), single_copy, ..options.settings };
        let counted = world_with(2, options, |p| {
            let comm = p.world().clone();
            let (me, peer) = (comm.rank(), 1 - comm.rank());
            let (out, room) = (Owned::new(pattern(me, 0, LEN)), Owned::new(vec![0; LEN]));
            let bytes = || {
                let pieces = p.fabric_counts().expect("this thread may ask").piece_bytes;
                [pieces, p.lane_counts().expect("this thread may ask").read_bytes]
            };
            let round = |_| {
                let before = bytes();
                let received = (both_directions || me == 1)
                    .then(|| p.irecv(&comm, room.buf(), peer, 1).unwrap());
                let sent = (both_directions || me == 0)
                    .then(|| p.isend(&comm, Mode::Standard, out.buf(), peer, 1).unwrap());
                for request in received.into_iter().chain(sent) {
                    p.wait(request).unwrap();
                }
                let after = bytes();
                [after[0] - before[0], after[1] - before[1]]
            };
            let moved: Vec<[u64; 2]> = (0..ROUNDS).map(round).collect();
            assert!(
                !both_directions && me == 0 || room.into_vec().ok() == Some(pattern(peer, 0, LEN))
            );
            moved
        });
        // By round: the bytes of pieces of both ranks, and the bytes read by both.
        let of = |round: usize, what: usize| counted[0][round][what] + counted[1][round][what];
        (0..ROUNDS).map(|round| [of(round, 0), of(round, 1)]).collect::<Vec<_>>()
    };
    for both_directions in [false, true] {
        let all = if both_directions { 2 * LEN as u64 } else { LEN as u64 };
        // A sender outside the library copies nothing, so the receiver reads these data; on busy
        // processors they can be all data of a world.
        let start = Instant::now();
        loop {
            let pooled = moved("AMD family 26", SingleCopyMode::Auto, both_directions);
            let [pieces, read] =
                [0, 1].map(|what| pooled.iter().map(|moved| moved[what]).sum::<u64>());
            assert_eq!(pieces + read, all * ROUNDS as u64, "{both_directions}: {pooled:?}");
            if pieces > 0 {
                break;
            }
            assert!(start.elapsed() < LIMIT, "{both_directions}: no piece in {LIMIT:?}");
        }
        let denied = moved("AMD family 26", SingleCopyMode::Off, both_directions);
        let given: u64 = denied.iter().map(|moved| moved[0]).sum();
        assert_eq!(
            (given, denied.iter().any(|moved| moved[1] > 0)),
            (all * ROUNDS as u64, false),
            "{denied:?}"
        );
        let read = moved("Intel family 6", SingleCopyMode::Auto, both_directions);
        let given: u64 = read.iter().map(|moved| moved[1]).sum();
        assert_eq!(
            (given, read.iter().any(|moved| moved[0] > 0)),
            (all * ROUNDS as u64, false),
            "{read:?}"
        );
    }
}

#[test]
fn a_long_message_arrives_while_its_sender_computes() {
    const LEN: usize = 2_000_000;
    let arrived = AtomicBool::new(false);
    world(2, |p| {
        let comm = p.world().clone();
        if comm.rank() == 0 {
            send(p, &comm, Mode::Standard, &[1], 1, 0);
            let data = pattern(0, 0, LEN);
            lend(&data, |buffer| {
                let sent = p.isend(&comm, Mode::Standard, buffer, 1, 1)?;
                while !arrived.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                p.wait(sent)
            })
            .unwrap();
        } else {
            receive(p, &comm, 1, 0, 0);
            assert!(receive(p, &comm, LEN, 0, 1).0 == pattern(0, 0, LEN));
            arrived.store(true, Ordering::Release);
        }
    });
}

#[test]
fn more_long_messages_at_a_time_than_announcements_have_room_for() {
    const LEN: usize = 300_000;
    const COUNT: usize = 50;
    world(3, |p| {
        let comm = p.world().clone();
        let me = comm.rank();
        let (next, previous) = ((me + 1) % 3, (me + 2) % 3);
        let out: Vec<Vec<u8>> = (0..COUNT).map(|n| pattern(me, n, LEN)).collect();
        let sends: Vec<_> = out
            .iter()
            .map(|data| {
                let buffer = Owned::new(data.clone()).buf();
                p.isend(&comm, Mode::Standard, buffer, next, 3).unwrap()
            })
            .collect();
        let rooms: Vec<Owned<u8>> = (0..COUNT).map(|_| Owned::new(vec![0; LEN])).collect();
        let receives: Vec<_> =
            rooms.iter().map(|room| p.irecv(&comm, room.buf(), previous, 3).unwrap()).collect();
        // In reverse order: the last receives are matched, but must wait for the earlier ones.
        for receive in receives.into_iter().rev() {
            p.wait(receive).unwrap();
        }
        for (n, room) in rooms.into_iter().enumerate() {
            assert!(room.into_vec().ok() == Some(pattern(previous, n, LEN)), "message {n}");
        }
        for send in sends {
            p.wait(send).unwrap();
        }
    });
}

#[test]
fn receives_that_are_given_up_while_they_wait_do_not_block_others() {
    const LEN: usize = 300_000;
    const COUNT: usize = 64;
    let matched = AtomicBool::new(false);
    world(2, |p| {
        let comm = p.world().clone();
        if comm.rank() == 0 {
            receive(p, &comm, 1, 1, 0);
            send(p, &comm, Mode::Standard, &[1], 1, 0);
            let sends: Vec<_> = (0..COUNT)
                .map(|n| {
                    let buffer = Owned::new(pattern(0, n, LEN)).buf();
                    p.isend(&comm, Mode::Standard, buffer, 1, n as i32).unwrap()
                })
                .collect();
            send(p, &comm, Mode::Standard, &[1], 1, 1000);
            while !matched.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for send in sends {
                p.wait(send).unwrap();
            }
        } else {
            send(p, &comm, Mode::Standard, &[1], 0, 0);
            receive(p, &comm, 1, 0, 0);
            while p.iprobe(&comm, 0, 1000).unwrap().is_none() {}
            let rooms: Vec<Owned<u8>> = (0..COUNT).map(|_| Owned::new(vec![0; LEN])).collect();
            let receives: Vec<_> = rooms
                .iter()
                .zip(0..)
                .map(|(room, tag)| p.irecv(&comm, room.buf(), 0, tag).unwrap())
                .collect();
            receives[..COUNT - 1].iter().skip(16).for_each(|receive| p.abandon(receive.raw()));
            matched.store(true, Ordering::Release);
            p.wait(receives[COUNT - 1]).unwrap();
            receive(p, &comm, 1, 0, 1000);
            for receive in &receives[..16] {
                p.wait(*receive).unwrap();
            }
            let last = rooms.into_iter().next_back().unwrap();
            assert!(last.into_vec().ok() == Some(pattern(0, COUNT - 1, LEN)));
        }
    });
}

#[test]
fn a_flood_with_one_tag_keeps_its_order() {
    const MESSAGES: usize = 5000;
    world(3, |p| {
        let comm = p.world().clone();
        let len = |from: i32, n: usize| (n * 37 + from as usize) % 20_000;
        if comm.rank() == 0 {
            let mut next = [0; 3];
            for _ in 0..2 * MESSAGES {
                let mut data = vec![0u8; 20_000];
                let done = lend_mut(&mut data, |b| p.recv(&comm, b, MPI_ANY_SOURCE, 3)).unwrap();
                let from = done.source;
                let n = next[from as usize];
                next[from as usize] += 1;
                data.truncate(done.bytes as usize);
                assert!(data == pattern(from, n, len(from, n)), "message {n} of {from}");
            }
        } else {
            let mut requests = Vec::new();
            for n in 0..MESSAGES {
                let data = Owned::new(pattern(comm.rank(), n, len(comm.rank(), n)));
                requests.push(p.isend(&comm, Mode::Standard, data.buf(), 0, 3).unwrap());
            }
            for request in requests {
                p.wait(request).unwrap();
            }
        }
    });
}

#[test]
fn eight_ranks_reduce_and_gather() {
    world(8, |p| {
        let comm = p.world().clone();
        for round in 0..200u64 {
            let mine = Owned::new(vec![comm.rank() as u64 + round]);
            let all = Owned::new(vec![0u64; 8]);
            let buffers = Buffers { input: mine.buf(), output: all.buf(), element: None };
            let call = Call::Allgather { block: Shared(8), in_place: false };
            p.run(&comm, call, buffers, Combine::Nothing).unwrap();
            assert_eq!(all.into_vec().ok().unwrap(), (round..round + 8).collect::<Vec<_>>());
            let none = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
            p.run(&comm, Call::Barrier, none, Combine::Nothing).unwrap();
        }
    });
}

#[test]
fn communicators_split_and_do_not_mix() {
    world(7, |p| {
        let world = p.world().clone();
        for round in 0..20 {
            let even = world.rank() % 2;
            let half = p.split(&world, even, -world.rank()).unwrap().unwrap();
            let expected = if even == 0 { 4 } else { 3 };
            assert_eq!(half.size(), expected);
            assert_eq!(half.rank(), (6 - even - world.rank()) / 2);
            let twin = p.dup(&half).unwrap();
            let right = (half.rank() + 1) % half.size();
            let left = (half.rank() + half.size() - 1) % half.size();
            send(p, &half, Mode::Standard, &[1, round], right, 5);
            send(p, &twin, Mode::Standard, &[2, round], right, 5);
            assert_eq!(receive(p, &twin, 2, left, 5).0, [2, round]);
            assert_eq!(receive(p, &half, 2, left, 5).0, [1, round]);
            p.close(&twin);
            p.close(&half);
        }
        assert!(p.split(&world, -5, 0).is_err());
    });
}

#[test]
fn a_wrong_sendrecv_takes_no_message() {
    world(2, |p| {
        let comm = p.world().clone();
        if comm.rank() == 0 {
            send(p, &comm, Mode::Standard, &[7], 1, 0);
        } else {
            p.probe(&comm, 0, 0).unwrap();
            for (dest, tag) in [(2, 0), (-7, 0), (0, -1)] {
                let mut got = [0u8];
                let wrong = lend_mut(&mut got, |into| {
                    lend(&[1u8], |from| {
                        let send = SendrecvSend { buffer: from, dest, tag };
                        p.sendrecv(&comm, send, SendrecvReceive { buffer: into, source: 0, tag: 0 })
                    })
                });
                assert!(wrong.is_err());
            }
            assert_eq!(receive(p, &comm, 1, 0, 0).0, [7]);
        }
    });
}

#[test]
fn a_message_of_unknown_length_gets_its_room_when_it_is_there() {
    world(2, |p| {
        let comm = p.world().clone();
        for (n, len) in LENGTHS.into_iter().enumerate() {
            if comm.rank() == 0 {
                send(p, &comm, Mode::Standard, &pattern(0, n, len), 1, n as i32);
            } else {
                let (message, found) = p.mprobe(&comm, MPI_ANY_SOURCE, MPI_ANY_TAG).unwrap();
                let owned = Owned::new(vec![0u8; found.bytes as usize]);
                let done = p.receive_matched(message, owned.buf()).unwrap();
                assert!(p.mrecv(message, owned.buf()).is_err(), "it was received");
                assert_eq!((done.source, done.tag, done.bytes), (0, n as i32, len as u64));
                assert!(owned.into_vec().ok().unwrap() == pattern(0, n, len), "length {len}");
            }
        }
    });
}

#[test]
fn an_abandoned_receive_leaves_its_buffer_alone() {
    world(1, |p| {
        let comm = p.world().clone();
        let owned = Owned::new(vec![0u8; 8]);
        let request = p.irecv(&comm, owned.buf(), 0, 1).unwrap();
        p.abandon(request.raw());
        assert!(p.test_raw(request.raw()).is_err(), "it is gone");
        send(p, &comm, Mode::Standard, &[1; 8], 0, 1);
        assert_eq!(owned.into_vec().ok().unwrap(), [0; 8]);
        assert_eq!(receive(p, &comm, 8, 0, 1).0, [1; 8]);
    });
}

fn sum(p: &Process<Routes>, comm: &Communicator, value: u64) -> u64 {
    let (mine, all) = (Owned::new(vec![value]), Owned::new(vec![0u64]));
    let element = Some(std::sync::Arc::new(oxmpi_mem::layout::Layout::basic(8, 8)));
    let buffers = Buffers { input: mine.buf(), output: all.buf(), element };
    let call = Call::Allreduce { count: Shared(1), commutative: true, in_place: false };
    let kernel = oxmpi_mem::kernels::kernel(
        oxmpi_mem::kernels::ReduceOp::Sum,
        oxmpi_mem::kernels::Scalar::U64,
    );
    p.run(comm, call, buffers, Combine::Kernel(kernel.unwrap())).unwrap();
    all.into_vec().ok().unwrap()[0]
}

#[test]
fn control_sections_are_used_again_by_other_communicators() {
    world(5, |p| {
        let world = p.world().clone();
        let mut open = Vec::new();
        for round in 0..300u64 {
            let part = p.split(&world, (world.rank() + round as i32) % 2, 0).unwrap().unwrap();
            let expected = |c: &Communicator| (0..c.size() as u64).map(|r| r + round).sum::<u64>();
            assert_eq!(sum(p, &part, part.rank() as u64 + round), expected(&part));
            let twin = p.dup(&part).unwrap();
            // Only the sums make ranks wait, so some ranks have freed sections that others read.
            assert_eq!(sum(p, &twin, twin.rank() as u64 + round), expected(&twin));
            assert_eq!(sum(p, &world, world.rank() as u64 + round), expected(&world));
            p.close(&part);
            // More communicators are open than there are sections; the rest use messages.
            open.push(twin);
            if open.len() > 20 {
                open.drain(..15).for_each(|c| p.close(&c));
            }
        }
    });
}

#[test]
fn two_threads_make_communicators_of_groups_at_the_same_time() {
    world(4, |p| {
        p.set_threaded().unwrap();
        let world = p.world().clone();
        let whole = world.group().unwrap();
        let turned = whole.include(&[3, 2, 1, 0]).unwrap();
        let make = |tag: i32| {
            for round in 0..50 {
                let group = if (round + tag) % 2 == 0 { &whole } else { &turned };
                let made = p.create_group(&world, group, tag).unwrap().unwrap();
                let place = if (round + tag) % 2 == 0 { world.rank() } else { 3 - world.rank() };
                assert_eq!((made.rank(), made.size()), (place, 4));
                assert_eq!(
                    sum(p, &made, (tag * 1000 + round) as u64),
                    4 * (tag * 1000 + round) as u64
                );
                p.close(&made);
            }
        };
        std::thread::scope(|scope| {
            for tag in 0..2 {
                scope.spawn(move || make(tag));
            }
        });
    });
}

#[test]
fn intercommunicators_connect_two_groups() {
    world(5, |p| {
        let world = p.world().clone();
        for round in 0..10u8 {
            let low = world.rank() < 2;
            let half = p.split(&world, i32::from(low), 0).unwrap().unwrap();
            let peer = Peer { comm: &world, leader: if low { 2 } else { 0 }, tag: 3 };
            let peer = (half.rank() == 0).then_some(peer);
            let inter = p.intercomm_create(&half, 0, Ok(peer)).unwrap();
            p.close(&half);
            let twin = p.dup(&inter).unwrap();
            assert_eq!((twin.size(), twin.remote_size()), if low { (2, 3) } else { (3, 2) });
            assert_eq!(twin.compare(&inter).unwrap(), CommComparison::Congruent);
            assert_eq!(world.compare(&inter).unwrap(), CommComparison::Unequal);
            if twin.rank() < 2 {
                let peer = twin.rank();
                send(p, &inter, Mode::Standard, &[1, round], peer, 5);
                send(p, &twin, Mode::Standard, &[2, round], peer, 5);
                assert_eq!(
                    receive(p, &twin, 2, MPI_ANY_SOURCE, MPI_ANY_TAG),
                    (vec![2, round], peer, 5)
                );
                assert_eq!(receive(p, &inter, 2, peer, 5).0, [1, round]);
            }
            p.disconnect(&inter);
            // All ranks pass the same value of `high`, so the group of the lower leader is first.
            let merged = p.merge(&twin, round % 2 == 0).unwrap();
            p.close(&twin);
            assert_eq!((merged.rank(), merged.size()), (world.rank(), 5));
            assert_eq!(sum(p, &merged, 1), 5);
            p.close(&merged);
        }
    });
}

#[test]
fn an_error_of_a_leader_is_an_error_of_its_group() {
    world(4, |p| {
        let world = p.world().clone();
        let half = p.split(&world, world.rank() % 2, 0).unwrap().unwrap();
        let make = |leader: i32, tag: i32| {
            let peer = Peer { comm: &world, leader, tag };
            let made = p.intercomm_create(&half, 0, Ok((half.rank() == 0).then_some(peer)));
            made.map(|_| ()).map_err(|error| error.class())
        };
        assert_eq!(make(4, 0), Err(MPI_ERR_RANK));
        assert_eq!(make(1 - world.rank() % 2, -1), Err(MPI_ERR_TAG));
        assert_eq!(make(world.rank(), 0), Err(MPI_ERR_COMM));
        assert_eq!(make(1 - world.rank() % 2, 0), Ok(()));
        p.close(&half);
    });
}

#[test]
fn a_message_beyond_the_eager_limit_waits_for_its_receive() {
    let mut options = WorldOptions::default();
    options.settings.eager_limit = 100;
    world_with(2, options, |p| {
        let comm = p.world().clone();
        // These messages make each rank grant the other rank a ring.
        for _ in 0..10 {
            if comm.rank() == 0 {
                send(p, &comm, Mode::Standard, &[1], 1, 1);
                receive(p, &comm, 1, 1, 1);
            } else {
                receive(p, &comm, 1, 0, 1);
                send(p, &comm, Mode::Standard, &[1], 0, 1);
            }
        }
        if comm.rank() == 0 {
            let short = Owned::new(pattern(0, 1, 100));
            let long = Owned::new(pattern(0, 2, 101));
            let bytes = pattern(0, 2, 101);
            assert!(!p.send_now(&comm, oxmpi_sys::bytes::Bytes::from(&bytes[..]), 1, 3));
            let first = p.isend(&comm, Mode::Standard, short.buf(), 1, 2).unwrap();
            assert!(p.peek_raw(first.raw()).unwrap().is_some(), "a short message is gone at once");
            let second = p.isend(&comm, Mode::Standard, long.buf(), 1, 3).unwrap();
            assert!(p.peek_raw(second.raw()).unwrap().is_none(), "a long one is not");
            send(p, &comm, Mode::Standard, &[], 1, 4);
            p.wait(second).unwrap();
        } else {
            receive(p, &comm, 0, 0, 4);
            assert_eq!(receive(p, &comm, 200, 0, 3).0, pattern(0, 2, 101));
            assert_eq!(receive(p, &comm, 200, 0, 2).0, pattern(0, 1, 100));
        }
    });
}
