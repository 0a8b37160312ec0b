//! Every algorithm of the table, verified for every size up to 17 and some samples; the nightly run
//! adds every size up to 33 and samples up to 1024.
//!
//! `OXMPI_PLAN_SWEEP=all` (some minutes): every size and every root up to 64 and, up to size 17,
//! all combinations of parameters. `OXMPI_PLAN_CASES`: the number of random calls (1000).

use oxmpi_plan::table::algorithms;
use oxmpi_plan::verify::{Check, verify};
use proptest::prelude::*;

use oxmpi_plan::{
    AlgorithmId, Blocks, Call, Collective, Edge, Edges, Groups, InterCollective, InterRole, Paired,
    Parameter, Parameters, RootOnly, Shared, TeamMember, make,
};

/// Sampled sizes: around powers of two, primes, and round numbers.
const LARGE: [u32; 12] = [65, 96, 100, 127, 128, 129, 251, 256, 384, 500, 1000, 1024];

/// Sizes between 34 and 64 that are always verified: around 48 and 64, a prime, and a round number.
const AROUND_64: [u32; 6] = [40, 47, 48, 49, 63, 64];

/// Sizes above 17 of the everyday run, with one count and one segment.
const SAMPLES: [u32; 4] = [31, 33, 64, 100];

fn thorough() -> bool {
    std::env::var_os("OXMPI_PLAN_SWEEP").is_some_and(|sweep| sweep == "all")
}

fn cases() -> u32 {
    std::env::var("OXMPI_PLAN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000)
}

/// The roots of large teams that are verified with all counts and segments.
fn few_roots(size: u32) -> [u32; 4] {
    [0, 1, size / 2 + 1, size - 1]
}

fn roots(collective: Collective, size: u32) -> Vec<u32> {
    let rooted = matches!(
        collective,
        Collective::Bcast
            | Collective::Gather
            | Collective::Scatter
            | Collective::Reduce
            | Collective::Gatherv
            | Collective::Scatterv
    );
    let mut roots = match size {
        _ if !rooted => vec![0],
        1..=17 => (0..size).collect(),
        18..=64 if thorough() => (0..size).collect(),
        _ => few_roots(size).into(),
    };
    roots.dedup();
    roots
}

/// A length of at most `most`, often 0, which sender and receiver compute alike.
fn uneven(from: u32, to: u32, most: usize) -> usize {
    let mixed = (u64::from(from) << 32 | u64::from(to)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    mixed as usize % (most + 2) % (most + 1)
}

fn blocks(lengths: impl Iterator<Item = usize>) -> Blocks {
    Blocks::new(lengths).expect("they fit")
}

fn calls(collective: Collective, size: u32, root: u32, count: usize) -> Vec<Vec<Call>> {
    let ranks = 0..size;
    // The block that each rank contributes to all, or gets.
    let one_each = blocks(ranks.clone().map(|rank| uneven(rank, rank, count)));
    let root_only = |rank: u32| {
        if rank == root { RootOnly::at_root(one_each.clone()) } else { RootOnly::elsewhere() }
    };
    let both = [false, true];
    let of_all = |call: &dyn Fn(u32) -> Call| ranks.clone().map(call).collect::<Vec<_>>();
    let (commutatives, in_places) = (both, both);
    match collective {
        Collective::Gatherv | Collective::Scatterv => in_places
            .map(|in_place| {
                of_all(&|rank| {
                    let (mine, all) = (Paired(one_each.length(rank as usize)), root_only(rank));
                    match collective {
                        Collective::Gatherv => Call::Gatherv { root, mine, all, in_place },
                        _ => Call::Scatterv { root, mine, all, in_place },
                    }
                })
            })
            .into(),
        Collective::Allgatherv => in_places
            .map(|in_place| {
                of_all(&|_| Call::Allgatherv { blocks: Shared(one_each.clone()), in_place })
            })
            .into(),
        Collective::Alltoallv => in_places
            .map(|in_place| {
                // In place, a rank sends as much as it receives.
                let from = |a: u32, b: u32| {
                    if in_place { uneven(a.min(b), a.max(b), count) } else { uneven(a, b, count) }
                };
                of_all(&|rank| Call::Alltoallv {
                    send: Paired(blocks(ranks.clone().map(|peer| from(rank, peer)))),
                    receive: Paired(blocks(ranks.clone().map(|peer| from(peer, rank)))),
                    in_place,
                })
            })
            .into(),
        Collective::ReduceScatter => commutatives
            .into_iter()
            .flat_map(|commutative| in_places.map(|in_place| (commutative, in_place)))
            .map(|(commutative, in_place)| {
                of_all(&|_| Call::ReduceScatter {
                    blocks: Shared(one_each.clone()),
                    commutative,
                    in_place,
                })
            })
            .collect(),
        Collective::Neighbor => [graph, ring]
            .map(|of| of_all(&|rank| Call::Neighbor { edges: Paired(of(rank, size, count)) }))
            .into(),
        Collective::InterMove | Collective::InterReduce => inter_calls(collective, size, count),
        _ => regular_calls(collective, root, count)
            .into_iter()
            .map(|call| vec![call; size as usize])
            .collect(),
    }
}

/// A graph with multiple edges and edges from a rank to itself, and gaps between the messages in
/// the buffers.
fn graph(rank: u32, size: u32, count: usize) -> Edges {
    let edges = |pairs: Vec<(u32, u32)>| {
        let mut start = 0;
        let place = |(from, to): (u32, u32)| {
            let len = uneven(from, to, count);
            start += 1 + len;
            Edge { peer: if from == rank { to } else { from }, start: start - len, len }
        };
        pairs.into_iter().map(place).collect::<Vec<_>>()
    };
    let many = |from: u32, to: u32| uneven(from, to, 5) % 4;
    let all = |pair: &dyn Fn(u32) -> (u32, u32)| {
        (0..size)
            .map(pair)
            .flat_map(|(from, to)| std::iter::repeat_n((from, to), many(from, to)))
            .collect()
    };
    Edges::new(edges(all(&|peer| (rank, peer))), edges(all(&|peer| (peer, rank))))
}

/// A ring in which the message to the left arrives from the right, as in a periodic dimension. With
/// one or two ranks the edges are double.
fn ring(rank: u32, size: u32, count: usize) -> Edges {
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let edge = |peer, slot: usize| Edge { peer, start: slot * count, len: count };
    Edges::new([edge(left, 0), edge(right, 1)], [edge(right, 1), edge(left, 0)])
}

fn inter_calls(collective: Collective, size: u32, count: usize) -> Vec<Vec<Call>> {
    let mut firsts = vec![1, size / 2, size.saturating_sub(1)];
    firsts.retain(|first| 0 < *first && *first < size);
    firsts.dedup();
    firsts
        .into_iter()
        .flat_map(|first| inter_calls_between(collective, Groups { first }, size, count))
        .collect()
}

fn inter_calls_between(
    collective: Collective,
    groups: Groups,
    size: u32,
    count: usize,
) -> Vec<Vec<Call>> {
    let member = |rank| TeamMember { rank, size };
    let of_all = |what: &dyn Fn(TeamMember) -> InterCollective| {
        (0..size).map(|rank| Call::Inter { groups, what: what(member(rank)) }).collect::<Vec<_>>()
    };
    let roots = [0, groups.first, size - 1];
    let part = |me: TeamMember, root: u32| match me.rank == root {
        true => InterRole::Root,
        false if groups.local(me).contains(&root) => InterRole::Idle,
        false => InterRole::Leaf { root },
    };
    // The block that each rank of the other group contributes, or gets.
    let theirs = |me: TeamMember| blocks(groups.remote(me).map(|peer| uneven(peer, peer, count)));
    let root_only = |me: TeamMember, root: u32| match me.rank == root {
        true => RootOnly::at_root(theirs(me)),
        false => RootOnly::elsewhere(),
    };
    let mine = |me: TeamMember| Paired(uneven(me.rank, me.rank, count));
    if collective == Collective::InterMove {
        let rooted = roots.into_iter().flat_map(|root| {
            [
                of_all(&|me| InterCollective::Bcast { part: part(me, root), bytes: Paired(count) }),
                of_all(&|me| InterCollective::Gather {
                    part: part(me, root),
                    mine: mine(me),
                    all: root_only(me, root),
                }),
                of_all(&|me| InterCollective::Scatter {
                    part: part(me, root),
                    mine: mine(me),
                    all: root_only(me, root),
                }),
            ]
        });
        let others = [
            of_all(&|me| InterCollective::Allgather { mine: mine(me), remote: Paired(theirs(me)) }),
            of_all(&|me| InterCollective::Alltoall {
                send: Paired(blocks(groups.remote(me).map(|peer| uneven(me.rank, peer, count)))),
                receive: Paired(blocks(groups.remote(me).map(|peer| uneven(peer, me.rank, count)))),
            }),
        ];
        return rooted.chain(others).collect();
    }
    let of_op = |commutative: bool| {
        let rooted = roots.map(|root| {
            of_all(&|me| InterCollective::Reduce {
                part: part(me, root),
                count: Paired(count),
                commutative,
            })
        });
        // Both groups have the same sum of blocks, as the last rank gets the rest.
        let cut = |me: TeamMember| {
            let ranks = groups.local(me).len();
            let total = count * 3;
            let each = total / ranks / 2;
            blocks(
                (0..ranks).map(|at| if at + 1 < ranks { each } else { total - each * (ranks - 1) }),
            )
        };
        let others = [
            of_all(&|_| InterCollective::Allreduce { count: Shared(count), commutative }),
            of_all(&|me| InterCollective::ReduceScatter { local: Paired(cut(me)), commutative }),
        ];
        rooted.into_iter().chain(others).collect::<Vec<_>>()
    };
    [false, true].into_iter().flat_map(of_op).collect()
}

fn regular_calls(collective: Collective, root: u32, count: usize) -> Vec<Call> {
    let count = Shared(count);
    let block = count;
    let both = [false, true];
    let reductions =
        both.into_iter().flat_map(|commutative| both.map(|in_place| (commutative, in_place)));
    match collective {
        Collective::Barrier => vec![Call::Barrier],
        Collective::Bcast => vec![Call::Bcast { root, bytes: count }],
        Collective::Gather => both.map(|in_place| Call::Gather { root, block, in_place }).into(),
        Collective::Scatter => both.map(|in_place| Call::Scatter { root, block, in_place }).into(),
        Collective::Allgather => both.map(|in_place| Call::Allgather { block, in_place }).into(),
        Collective::Alltoall => both.map(|in_place| Call::Alltoall { block, in_place }).into(),
        Collective::Reduce => reductions
            .map(|(commutative, in_place)| Call::Reduce { root, count, commutative, in_place })
            .collect(),
        Collective::Allreduce => reductions
            .map(|(commutative, in_place)| Call::Allreduce { count, commutative, in_place })
            .collect(),
        Collective::ReduceScatterBlock => reductions
            .map(|(commutative, in_place)| Call::ReduceScatterBlock {
                block,
                commutative,
                in_place,
            })
            .collect(),
        Collective::Scan => reductions
            .map(|(commutative, in_place)| Call::Scan { count, commutative, in_place })
            .collect(),
        Collective::Exscan => reductions
            .map(|(commutative, in_place)| Call::Exscan { count, commutative, in_place })
            .collect(),
        _ => unreachable!("{collective} is not the same at all ranks"),
    }
}

/// All combinations of the parameters that the algorithm reads. For many ranks, each segment has
/// only one fan-out and limit, which rotate with `turn`.
fn settings(algorithm: AlgorithmId, size: u32, segments: &[usize], turn: u64) -> Vec<Parameters> {
    let uses = |parameter| algorithm.algorithm().uses(parameter);
    let segments = if uses(Parameter::Segment) { segments } else { &[0] };
    let fanouts: &[u32] = match uses(Parameter::TreeFanout) || uses(Parameter::ChainFanout) {
        true => &[0, 1, 2, 3, 5, 8, 100],
        false => &[0],
    };
    let limits: &[usize] = if uses(Parameter::MaxRequests) { &[0, 1, 2, 5] } else { &[0] };
    let all = fanouts.iter().flat_map(|fanout| limits.iter().map(move |limit| (*fanout, *limit)));
    let all: Vec<_> = all.collect();
    let parameters = |segment: usize, (fanout, max_requests): (u32, usize)| Parameters {
        segment,
        fanout,
        max_requests,
        ..Parameters::default()
    };
    let pick = |at: usize| all[(turn as usize + at) % all.len()];
    match size {
        _ if size <= 8 || thorough() && size <= 17 => {
            all.iter().flat_map(|one| segments.iter().map(|s| parameters(*s, *one))).collect()
        }
        _ => segments
            .iter()
            .enumerate()
            .map(|(at, segment)| parameters(*segment, pick(at)))
            .collect(),
    }
}

fn verify_size(algorithm: AlgorithmId, size: u32, counts: &[usize], segments: &[usize]) -> u64 {
    let row = algorithm.algorithm();
    let mut runs = 0;
    for root in roots(row.collective, size) {
        // If all roots of a large team are verified, counts and segments rotate over the roots.
        let is_one_of_many =
            size > 17 && size <= 64 && thorough() && !few_roots(size).contains(&root);
        let at = root as usize;
        let (counts, segments) = match is_one_of_many {
            true => (&counts[at % counts.len()..][..1], &segments[at % segments.len()..][..1]),
            false => (counts, segments),
        };
        for count in counts {
            for calls in calls(row.collective, size, root, *count) {
                if row.refusal(size, calls[0].commutative()).is_some() {
                    continue;
                }
                for parameters in settings(algorithm, size, segments, runs) {
                    // Every fourth run has the narrowest window.
                    let window = if runs % 4 == 3 { 0 } else { 64 };
                    let parameters = Parameters { window, ..parameters };
                    let check = Check { calls: calls.clone(), seed: runs };
                    let call = |me: TeamMember| &check.calls[me.rank as usize];
                    let cost = verify(&check, |me| {
                        make(algorithm, me, call(me), &parameters).expect("legal")
                    });
                    if let Err(violation) = cost {
                        panic!("{algorithm}, {parameters:?}, {check:?}: {violation}");
                    }
                    runs += 1;
                }
            }
        }
    }
    runs
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sizes {
    /// Up to 17 with all roots and parameters, and a few samples above.
    EveryDay,
    Night,
}

fn sweep(collective: Collective, sizes: Sizes) {
    // If every rank has messages with every other one, 1000 ranks have a million messages.
    let all_to_all = matches!(
        collective,
        Collective::Allgather
            | Collective::Alltoall
            | Collective::Allgatherv
            | Collective::Alltoallv
            | Collective::Neighbor
            | Collective::InterMove
    );
    // Each rank combines the blocks of all others, so the work grows with the square of the size.
    let is_scattered =
        matches!(collective, Collective::ReduceScatter | Collective::ReduceScatterBlock);
    for algorithm in algorithms(collective) {
        let all_to_all = all_to_all || algorithm.algorithm().name == "allgather_reduce";
        let counts = |size: u32| match (size, all_to_all) {
            (..=17, _) => &[0, 1, 2, 7, 16, 33][..],
            (..=64, true) => &[0, 1, 7],
            (..=64, false) => &[0, 1, 2, 7, 16],
            (_, true) => &[1],
            (_, false) => &[3],
        };
        let segments = |size: u32| match (size, all_to_all) {
            (..=64, _) => &[0, 1, 3, 16][..],
            (_, true) => &[0],
            (_, false) => &[2],
        };
        let most = match (all_to_all, is_scattered && !thorough()) {
            (false, false) => u32::MAX,
            _ => 129,
        };
        let sampled =
            SAMPLES.into_iter().map(|size| (size, &counts(100)[..1], &segments(100)[..1]));
        let all = (1..=64)
            .filter(|size| thorough() || *size <= 33 || AROUND_64.contains(size))
            .chain(LARGE)
            .filter(|size| *size <= most)
            .map(|size| (size, counts(size), segments(size)));
        let is_small = |size: u32| size <= 17;
        let mut runs = 0;
        match sizes {
            Sizes::EveryDay => {
                for (size, counts, segments) in all.filter(|all| is_small(all.0)).chain(sampled) {
                    runs += verify_size(algorithm, size, counts, segments);
                }
            }
            Sizes::Night => {
                for (size, counts, segments) in all.filter(|all| !is_small(all.0)) {
                    runs += verify_size(algorithm, size, counts, segments);
                }
            }
        }
        println!("{algorithm}: {runs} runs");
    }
}

macro_rules! sweeps {
    ($($name:ident $collective:ident;)*) => {
        $(#[test]
        fn $name() {
            sweep(Collective::$collective, Sizes::EveryDay);
        })*

        mod night {
            use super::*;

            $(#[test]
            #[ignore = "cargo xtask nightly"]
            fn $name() {
                sweep(Collective::$collective, Sizes::Night);
            })*
        }

        #[test]
        fn every_collective_is_swept() {
            assert_eq!([$(Collective::$collective),*], Collective::ALL);
        }
    };
}

sweeps! {
    barrier Barrier;
    bcast Bcast;
    gather Gather;
    scatter Scatter;
    allgather Allgather;
    alltoall Alltoall;
    reduce Reduce;
    allreduce Allreduce;
    reduce_scatter_block ReduceScatterBlock;
    scan Scan;
    exscan Exscan;
    gatherv Gatherv;
    scatterv Scatterv;
    allgatherv Allgatherv;
    alltoallv Alltoallv;
    reduce_scatter ReduceScatter;
    neighbor Neighbor;
    inter_move InterMove;
    inter_reduce InterReduce;
}

proptest! {
    // An algorithm refuses one call of seven.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_global_rejects: cases(),
        ..ProptestConfig::with_cases(cases())
    })]

    #[test]
    fn random_calls_are_correct(
        collective in prop::sample::select(Collective::ALL.to_vec()),
        row in any::<prop::sample::Index>(),
        form in any::<prop::sample::Index>(),
        size in 1..100_u32,
        root in any::<prop::sample::Index>(),
        count in 0..50_usize,
        segment in 0..60_usize,
        fanout in 0..12_u32,
        max_requests in 0..12_usize,
        window in 0..40_usize,
        seed in any::<u64>(),
    ) {
        let algorithm = *row.get(&algorithms(collective).collect::<Vec<_>>());
        let calls = calls(collective, size, root.index(size as usize) as u32, count);
        prop_assume!(!calls.is_empty());
        let calls = form.get(&calls).clone();
        prop_assume!(algorithm.algorithm().refusal(size, calls[0].commutative()).is_none());
        let parameters = Parameters { segment, fanout, max_requests, window };
        let check = Check { calls, seed };
        let call = |me: TeamMember| &check.calls[me.rank as usize];
        let cost = verify(&check, |me| make(algorithm, me, call(me), &parameters).expect("legal"));
        prop_assert!(cost.is_ok(), "{algorithm}: {cost:?}");
    }
}
