//! Collectives through shared memory, with pools so small that a call uses each segment often.
use oxmpi_coll::{Buffers, Combine};
use oxmpi_core::world::{WorldOptions, world_with};
use oxmpi_core::{Communicator, Process};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::{ReduceOp, Scalar, kernel};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_plan::{Call, Shared};
use oxmpi_shm::control_section::PoolSegments;
use std::sync::Arc;

fn word(from: u64, to: u64, i: u64, round: u64) -> u64 {
    from * 1_000_003 + to * 101 + i * 17 + round
}

fn words(from: u64, to: impl IntoIterator<Item = u64>, len: u64, round: u64) -> Vec<u64> {
    to.into_iter().flat_map(|to| (0..len).map(move |i| word(from, to, i, round))).collect()
}

/// Runs a call on words. `input` is `None` if this rank has no input. Returns the output.
fn run(
    p: &Process<Routes>,
    comm: &Communicator,
    call: Call,
    input: Option<Vec<u64>>,
    output: usize,
) -> Vec<u64> {
    let (input, output) = (input.map(Owned::new), Owned::new(vec![0_u64; output]));
    let sums = matches!(call, Call::Reduce { .. } | Call::Allreduce { .. } | Call::Scan { .. })
        || matches!(call, Call::Exscan { .. } | Call::ReduceScatterBlock { .. });
    let combine = match sums {
        true => Combine::Kernel(kernel(ReduceOp::Sum, Scalar::U64).unwrap()),
        false => Combine::Nothing,
    };
    let element = sums.then(|| Arc::new(Layout::basic(8, 8)));
    let given = input.as_ref().map_or(UserBuf::empty(), Owned::buf);
    p.run(comm, call, Buffers { input: given, output: output.buf(), element }, combine).unwrap();
    output.into_vec().ok().unwrap()
}

fn all_collectives(p: &Process<Routes>, comm: &Communicator, len: u64, round: u64) {
    let (me, ranks) = (comm.rank() as u64, comm.size() as u64);
    let (root, count, block) =
        ((round % ranks) as u32, Shared(len as usize), Shared(8 * len as usize));
    let (in_place, commutative, at_root) = (false, true, me == round % ranks);
    let whole = (len * ranks) as usize;
    let sum = |ranks: std::ops::Range<u64>, to: u64| -> Vec<u64> {
        (0..len).map(|i| ranks.clone().map(|from| word(from, to, i, round)).sum()).collect()
    };
    let of_all = |to: u64| -> Vec<u64> {
        (0..ranks).flat_map(|from| words(from, [to], len, round)).collect()
    };
    let (mine, for_all) = (words(me, [0], len, round), words(me, 0..ranks, len, round));
    let output = if at_root { whole } else { 0 };

    let call = Call::Gather { root, block, in_place };
    let got = run(p, comm, call, Some(mine.clone()), output);
    assert!(!at_root || got == of_all(0), "gather of {len}");

    let call = Call::Scatter { root, block, in_place };
    let got = run(p, comm, call, at_root.then(|| for_all.clone()), len as usize);
    assert_eq!(got, words(round % ranks, [me], len, round), "scatter of {len}");

    let got = run(p, comm, Call::Allgather { block, in_place }, Some(mine.clone()), whole);
    assert_eq!(got, of_all(0), "allgather of {len}");

    let got = run(p, comm, Call::Alltoall { block, in_place }, Some(for_all.clone()), whole);
    assert_eq!(got, of_all(me), "alltoall of {len}");

    let call = Call::Reduce { root, count, commutative, in_place };
    let got = run(p, comm, call, Some(mine.clone()), if at_root { len as usize } else { 0 });
    assert!(!at_root || got == sum(0..ranks, 0), "reduce of {len}");

    let call = Call::Allreduce { count, commutative, in_place };
    assert_eq!(
        run(p, comm, call, Some(mine.clone()), len as usize),
        sum(0..ranks, 0),
        "allreduce of {len}"
    );

    let call = Call::ReduceScatterBlock { block: count, commutative, in_place };
    assert_eq!(
        run(p, comm, call, Some(for_all), len as usize),
        sum(0..ranks, me),
        "scattered sum of {len}"
    );

    let call = Call::Scan { count, commutative, in_place };
    assert_eq!(
        run(p, comm, call, Some(mine.clone()), len as usize),
        sum(0..me + 1, 0),
        "scan of {len}"
    );

    let call = Call::Exscan { count, commutative, in_place };
    let got = run(p, comm, call, Some(mine), len as usize);
    assert!(me == 0 || got == sum(0..me, 0), "exscan of {len}");

    let data = Owned::new(words(me, [0], len, round));
    let buffers = Buffers { input: UserBuf::empty(), output: data.buf(), element: None };
    p.run(comm, Call::Bcast { root, bytes: block }, buffers, Combine::Nothing).unwrap();
    assert_eq!(
        data.into_vec().ok().unwrap(),
        words(round % ranks, [0], len, round),
        "bcast of {len}"
    );
}

fn rounds(ranks: u32, pool: PoolSegments) {
    let mut options = WorldOptions::default();
    options.config.control_section_pool = pool;
    world_with(ranks, options, |p| {
        let world = p.world().clone();
        for (round, len) in [1, 7, 8, 9, 40, 1000, 5000, 3, 40].into_iter().enumerate() {
            all_collectives(p, &world, len, round as u64);
        }
        let part = p.split(&world, world.rank() % 2, -world.rank()).unwrap().unwrap();
        for round in 0..4 {
            all_collectives(p, &part, 30 * round + 1, round);
        }
        p.close(&part);
    });
}

#[test]
fn two_segments_of_a_few_lines_serve_all_collectives() {
    for ranks in 2..=6 {
        for bytes in [64, 256, 320] {
            rounds(ranks, PoolSegments { count: 2, bytes });
        }
    }
}

#[test]
fn any_number_of_segments_serves_all_collectives() {
    for count in [3, 5, 8, 64] {
        rounds(3, PoolSegments { count, bytes: 512 });
    }
}

#[test]
fn many_ranks_share_their_pools() {
    rounds(20, PoolSegments { count: 8, bytes: 2048 });
}

/// Of two ranks, the one that has read last writes next: in these pools, up to 2 and 8 KiB.
#[test]
fn two_ranks_exchange_data_up_to_the_room_of_the_pool() {
    for bytes in [64, 256] {
        rounds(2, PoolSegments { count: 64, bytes });
    }
}

/// One-way data have another address in each lap; teams of several sizes follow one another.
#[test]
fn longer_pieces_alternate_their_address_with_teams_of_all_sizes() {
    for (ranks, pool) in [
        (2, PoolSegments { count: 3, bytes: 64 << 10 }),
        (3, PoolSegments { count: 4, bytes: 64 << 10 }),
        (5, PoolSegments { count: 2, bytes: 40 << 10 }),
        (9, PoolSegments { count: 8, bytes: 64 << 10 }),
    ] {
        let mut options = WorldOptions::default();
        options.config.control_section_pool = pool;
        world_with(ranks, options, |p| {
            let world = p.world().clone();
            let mut round = 0;
            for kib in [16, 24, 32, 33, 40, 16, 70, 24] {
                all_collectives(p, &world, kib * 128 + round, round);
                round += 1;
            }
            for parts in [2, 1, 3] {
                let part = p.split(&world, world.rank() % parts, world.rank()).unwrap().unwrap();
                for kib in [24, 40, 16, 24, 24, 24] {
                    all_collectives(p, &part, kib * 128, round);
                    round += 1;
                }
                p.close(&part);
            }
        });
    }
}

fn byte(rank: usize, i: usize, round: usize) -> u8 {
    (i * 7 + rank * 31 + round).wrapping_mul(i | 1) as u8
}

/// The last piece may have any number of bytes.
#[test]
fn two_ranks_combine_a_half_each() {
    for (count, bytes) in [(2, 64), (3, 320), (4, 4096), (8, 49152)] {
        let mut options = WorldOptions::default();
        options.config.control_section_pool = PoolSegments { count, bytes };
        world_with(2, options, |p| {
            let (world, me) = (p.world().clone(), p.world().rank() as usize);
            for (round, len) in
                [65536, 65537, 65599, 65601, 131_072, 200_001].into_iter().enumerate()
            {
                for in_place in [false, true] {
                    let mine: Vec<u8> = (0..len).map(|i| byte(me, i, round)).collect();
                    let (input, output) = if in_place {
                        (vec![], mine.clone())
                    } else {
                        (mine.clone(), vec![0; len])
                    };
                    let (input, output) = (Owned::new(input), Owned::new(output));
                    let combine = Combine::Kernel(kernel(ReduceOp::Bxor, Scalar::U8).unwrap());
                    let element = Some(Arc::new(Layout::basic(1, 1)));
                    let call = Call::Allreduce { count: Shared(len), commutative: true, in_place };
                    let buffers = Buffers { input: input.buf(), output: output.buf(), element };
                    p.run(&world, call, buffers, combine).unwrap();
                    let other = (0..len).map(|i| byte(1 - me, i, round));
                    let wanted: Vec<u8> =
                        mine.iter().zip(other).map(|(mine, other)| mine ^ other).collect();
                    assert!(
                        output.into_vec().ok().unwrap() == wanted,
                        "{len} bytes, in place: {in_place}"
                    );
                    assert!(in_place || input.into_vec().ok().unwrap() == mine);
                }
            }
        });
    }
}
