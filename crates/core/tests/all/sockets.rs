//! Ranks as values over real sockets and through daemons, also while connections close at random.

use crate::chaos::Chaos;
use crate::talk::{pattern, receive};
use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_TYPE_SHARED};
use oxmpi_coll::{Buffers, Combine, UserReduction};
use oxmpi_core::process::UserCall;
use oxmpi_core::world::{Sockets, WorldOptions, world_with};
use oxmpi_core::{Communicator, Process};
use oxmpi_engine::Mode;
use oxmpi_fabric::routes::Routes;
use oxmpi_fabric::sim::Random;
use oxmpi_mem::memory::{Owned, lend};
use oxmpi_plan::{Call, Shared};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn sockets(eager_limit: usize) -> WorldOptions {
    let mut sockets = Sockets::default();
    sockets.settings.eager_limit = eager_limit;
    WorldOptions { sockets: Some(sockets), ..WorldOptions::default() }
}

fn nodes(eager_limit: usize) -> WorldOptions {
    WorldOptions { ranks_of_a_node: Some(2), ..sockets(eager_limit) }
}

fn daemons(ranks_of_a_node: Option<u32>) -> WorldOptions {
    WorldOptions { daemons: true, ranks_of_a_node, ..sockets(0) }
}

const LENGTHS: [usize; 12] =
    [0, 1, 8, 57, 5000, 65535, 65536, 300_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_500_000];

fn ping_pong(options: WorldOptions, rounds: usize) {
    world_with(2, options, |p| {
        let comm = p.world().clone();
        let peer = 1 - comm.rank();
        for round in 0..rounds {
            for (n, len) in LENGTHS.into_iter().enumerate() {
                for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready] {
                    let number = n + round * 100;
                    let send = |from| {
                        let data = pattern(from, number, len);
                        lend(&data, |buffer| p.send(&comm, mode, buffer, peer, n as i32)).unwrap();
                    };
                    if comm.rank() == 0 {
                        send(0);
                    }
                    let (got, source, tag) = receive(p, &comm, len, MPI_ANY_SOURCE, MPI_ANY_TAG);
                    assert_eq!((source, tag), (peer, n as i32));
                    assert!(got == pattern(peer, number, len), "length {len}, {mode:?}");
                    if comm.rank() == 1 {
                        send(1);
                    }
                }
            }
        }
    });
}

#[test]
fn messages_of_all_lengths_arrive() {
    ping_pong(sockets(65535), 2);
}

#[test]
fn messages_of_all_lengths_arrive_eagerly_or_announced() {
    ping_pong(sockets(0), 1);
    ping_pong(sockets(4 << 20), 1);
}

#[test]
fn messages_of_all_lengths_arrive_through_daemons() {
    ping_pong(daemons(None), 2);
    ping_pong(daemons(Some(1)), 1);
}

#[test]
fn a_long_message_arrives_through_daemons_while_its_sender_computes() {
    for nodes in [None, Some(1)] {
        let (arrived, arrival) = std::sync::mpsc::channel();
        let (arrived, arrival) = (Mutex::new(arrived), Mutex::new(arrival));
        world_with(2, daemons(nodes), |p| {
            let (comm, len) = (p.world().clone(), 8 << 20);
            if comm.rank() == 1 {
                let (got, ..) = receive(p, &comm, len, 0, 1);
                assert!(got == pattern(0, 0, len));
                return arrived.lock().unwrap().send(()).unwrap();
            }
            let buffer = Owned::new(pattern(0, 0, len));
            let request = p.isend(&comm, Mode::Standard, buffer.buf(), 1, 1).unwrap();
            // The sender makes no progress before the receiver has the whole message.
            assert_eq!(arrival.lock().unwrap().recv_timeout(Duration::from_secs(20)), Ok(()));
            p.wait(request).unwrap();
        });
    }
}

fn allreduce(p: &Process<Routes>, comm: &Communicator, len: usize) {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    let input = Owned::new((0..len as u64).map(|at| at * (rank + 1)).collect::<Vec<u64>>());
    let output = Owned::new(vec![0u64; len]);
    let element = Some(Arc::new(oxmpi_mem::layout::Layout::basic(8, 8)));
    let kernel = oxmpi_mem::kernels::kernel(
        oxmpi_mem::kernels::ReduceOp::Sum,
        oxmpi_mem::kernels::Scalar::U64,
    );
    let call = Call::Allreduce { count: Shared(len), commutative: true, in_place: false };
    let buffers = Buffers { input: input.buf(), output: output.buf(), element };
    p.run(comm, call, buffers, Combine::Kernel(kernel.unwrap())).unwrap();
    let output = output.into_vec().ok().unwrap();
    let factor = size * (size + 1) / 2;
    assert!(output.iter().enumerate().all(|(at, sum)| *sum == at as u64 * factor), "{len} numbers");
}

#[test]
fn a_barrier_and_small_collectives_work_without_shared_memory() {
    world_with(5, sockets(65535), |p| {
        let comm = p.world().clone();
        for len in [1, 30, 1000, 50_000] {
            allreduce(p, &comm, len);
        }
        assert!(p.heap().is_none(), "nobody could read it");
    });
    world_with(5, daemons(Some(2)), |p| {
        let comm = p.world().clone();
        [1, 30, 1000, 50_000].into_iter().for_each(|len| allreduce(p, &comm, len));
    });
}

fn storm(options: WorldOptions, ranks: u32, rounds: usize) {
    world_with(ranks, options, |p| {
        let comm = p.world().clone();
        let (me, size) = (comm.rank(), comm.size());
        let length = |from: i32, to: i32, n: usize| {
            let mut random = Random::new((from * 1000 + to) as u64 * 1000 + n as u64);
            [random.below(100), random.below(70_000), random.below(1_500_000)]
                [random.below(3) as usize] as usize
        };
        for round in 0..rounds {
            let numbers = [3 * round, 3 * round + 1, 3 * round + 2];
            let others = || (0..size).filter(|r| *r != me).flat_map(|r| numbers.map(|n| (r, n)));
            let incoming: Vec<_> = others()
                .map(|(r, n)| {
                    let buffer = Owned::new(vec![0u8; length(r, me, n)]);
                    let request = p.irecv(&comm, buffer.buf(), r, 5).unwrap();
                    (r, n, buffer, request)
                })
                .collect();
            let outgoing: Vec<_> = others()
                .map(|(r, n)| {
                    let buffer = Owned::new(pattern(me, n, length(me, r, n)));
                    (p.isend(&comm, Mode::Standard, buffer.buf(), r, 5).unwrap(), buffer)
                })
                .collect();
            for (r, n, buffer, request) in incoming {
                let done = p.wait(request).unwrap();
                let got = buffer.into_vec().ok().unwrap();
                assert_eq!(done.bytes as usize, length(r, me, n), "message {n} of rank {r}");
                assert!(got == pattern(r, n, got.len()), "message {n} of rank {r}");
            }
            for (request, _buffer) in outgoing {
                p.wait(request).unwrap();
            }
        }
    });
}

#[test]
fn all_ranks_send_to_all_ranks() {
    storm(sockets(65535), 4, 4);
}

#[test]
fn all_ranks_send_to_all_ranks_near_and_far() {
    storm(nodes(65535), 5, 4);
    storm(nodes(0), 4, 2);
}

#[test]
fn all_ranks_send_to_all_ranks_through_daemons() {
    storm(daemons(None), 4, 4);
    storm(daemons(Some(2)), 5, 4);
}

#[test]
fn collectives_work_on_several_nodes_and_in_one_of_them() {
    world_with(5, nodes(65535), |p| {
        let world = p.world().clone();
        let node = p.split_type(&world, MPI_COMM_TYPE_SHARED, 0, None).unwrap().unwrap();
        assert_eq!(node.size(), if world.rank() == 4 { 1 } else { 2 });
        let odd = p.split(&world, world.rank() % 2, 0).unwrap().unwrap();
        for len in [1, 30, 1000, 50_000] {
            for comm in [&world, &node, &odd] {
                allreduce(p, comm, len);
            }
        }
    });
}

fn in_chaos(chaos: &Arc<Chaos>, seed: u64) -> WorldOptions {
    let mut options = sockets(65535);
    let random = Mutex::new(Random::new(seed));
    let between = chaos.clone();
    if let Some(sockets) = &mut options.sockets {
        sockets.settings.patience = Duration::from_secs(60);
        sockets.detour =
            Some(Arc::new(move |address| between.to(address, random.lock().unwrap().draw())));
    }
    options
}

fn seed() -> u64 {
    let seed = std::env::var("OXMPI_FUZZ_SEED").ok().map(|text| text.parse().unwrap());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    println!("OXMPI_FUZZ_SEED={seed}");
    seed
}

#[test]
fn messages_of_all_lengths_arrive_while_connections_close() {
    let chaos = Arc::new(Chaos::new());
    ping_pong(in_chaos(&chaos, seed()), 2);
    assert!(chaos.kills() > 0);
}

#[test]
fn all_ranks_send_to_all_ranks_while_connections_close() {
    let chaos = Arc::new(Chaos::new());
    storm(in_chaos(&chaos, seed()), 3, 4);
    assert!(chaos.kills() > 0);
}

#[test]
fn a_rank_that_waits_uses_no_time() {
    // The processor time of the whole program, whose threads are the ranks.
    let used = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let words: Vec<u64> = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        // utime and stime are fields 14 and 15 (proc_pid_stat(5)).
        words[10] + words[11]
    };
    for options in [sockets(65535), daemons(None)] {
        world_with(3, options, |p| {
            let comm = p.world().clone();
            allreduce(p, &comm, 10);
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_millis(100));
                let before = used();
                std::thread::sleep(Duration::from_millis(500));
                assert!(used() - before <= 3, "{} of 50", used() - before);
            }
            allreduce(p, &comm, 10);
        });
    }
}

#[test]
fn other_threads_receive_while_a_users_function_runs() {
    world_with(2, sockets(65535), |p| {
        p.set_threaded().unwrap();
        let comm = p.world().clone();
        let (arrived, arrival) = std::sync::mpsc::channel::<()>();
        let arrival = Mutex::new(arrival);
        let user: UserCall = Arc::new(move |_: &UserReduction| {
            let came = arrival.lock().unwrap().recv_timeout(Duration::from_secs(10));
            assert_eq!(came, Ok(()), "no thread polls the sockets");
        });
        let reduce = || {
            let (input, output) = (Owned::new(vec![1u64; 4]), Owned::new(vec![0u64; 4]));
            let element = Some(Arc::new(oxmpi_mem::layout::Layout::basic(8, 8)));
            let call =
                Call::Reduce { root: 0, count: Shared(4), commutative: true, in_place: false };
            let buffers = Buffers { input: input.buf(), output: output.buf(), element };
            p.execute(&comm, call, buffers, Combine::User, Some(user.clone())).unwrap();
        };
        if comm.rank() == 1 {
            std::thread::sleep(Duration::from_millis(100));
            reduce();
            std::thread::sleep(Duration::from_millis(100));
            lend(&[7u8], |buffer| p.send(&comm, Mode::Standard, buffer, 0, 1)).unwrap();
            return;
        }
        std::thread::scope(|scope| {
            let reducing = scope.spawn(reduce);
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(receive(p, &comm, 1, 1, 1).0, [7]);
            arrived.send(()).unwrap();
            reducing.join().unwrap();
        });
    });
}
