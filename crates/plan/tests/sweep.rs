//! Every algorithm of the table, verified for every size to 64 and sampled sizes to 1024.

use oxmpi_plan::table::algorithms;
use oxmpi_plan::verify::{Check, verify};
use proptest::prelude::*;

use oxmpi_plan::{AlgorithmId, Call, Collective, Parameters, Shared, make};

/// Sizes that are sampled: around powers of two, primes, and round numbers.
const LARGE: [u32; 12] = [65, 96, 100, 127, 128, 129, 251, 256, 384, 500, 1000, 1024];

/// All roots of small teams, some of large ones.
fn roots(collective: Collective, size: u32) -> Vec<u32> {
    let rooted = matches!(
        collective,
        Collective::Bcast | Collective::Gather | Collective::Scatter | Collective::Reduce
    );
    let mut roots = match size {
        _ if !rooted => vec![0],
        1..=17 => (0..size).collect(),
        _ => vec![0, 1, size / 2 + 1, size - 1],
    };
    roots.dedup();
    roots
}

/// All forms of a call.
fn calls(collective: Collective, root: u32, count: usize) -> Vec<Call> {
    let count = Shared(count);
    let block = count;
    let both = [false, true];
    let reductions = both.into_iter().flat_map(|commutative| both.map(|in_place| (commutative, in_place)));
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
            .map(|(commutative, in_place)| Call::ReduceScatterBlock { block, commutative, in_place })
            .collect(),
        Collective::Scan => {
            reductions.map(|(commutative, in_place)| Call::Scan { count, commutative, in_place }).collect()
        }
        Collective::Exscan => {
            reductions.map(|(commutative, in_place)| Call::Exscan { count, commutative, in_place }).collect()
        }
    }
}

/// Verifies one algorithm for one size; returns how many runs that took.
fn verify_size(algorithm: AlgorithmId, size: u32, counts: &[usize], segments: &[usize]) -> u64 {
    let row = algorithm.algorithm();
    let mut runs = 0;
    for root in roots(row.collective, size) {
        for count in counts {
            for call in calls(row.collective, root, *count) {
                if row.refusal(size, call.commutative()).is_some() {
                    continue;
                }
                let segments = if row.segmented { segments } else { &[0] };
                for segment in segments {
                    // Every fourth run with the narrowest window, and all orders of completion in turn.
                    let window = if runs % 4 == 3 { 0 } else { 64 };
                    let parameters = Parameters { segment: *segment, window };
                    let check = Check { size, call, seed: runs };
                    let cost = verify(&check, |me| make(algorithm, me, &call, &parameters).expect("legal"));
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

fn sweep(collective: Collective) {
    // Where every rank speaks with every other, a team of a thousand is a million messages.
    let all_to_all = matches!(collective, Collective::Allgather | Collective::Alltoall);
    for algorithm in algorithms(collective) {
        let mut runs = 0;
        for size in 1..=64 {
            let counts: &[usize] = match size {
                1..=17 => &[0, 1, 2, 7, 16, 33],
                _ if all_to_all => &[0, 1, 7],
                _ => &[0, 1, 2, 7, 16],
            };
            runs += verify_size(algorithm, size, counts, &[0, 1, 3, 16]);
        }
        for size in LARGE {
            if !all_to_all {
                runs += verify_size(algorithm, size, &[3], &[2]);
            } else if size <= 256 {
                runs += verify_size(algorithm, size, &[1], &[0]);
            }
        }
        println!("{algorithm}: {runs} runs");
    }
}

macro_rules! sweeps {
    ($($name:ident $collective:ident;)*) => {
        $(#[test]
        fn $name() {
            sweep(Collective::$collective);
        })*

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
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Whatever the size, count, segment, window and order of completion.
    #[test]
    fn anything_goes(
        collective in prop::sample::select(Collective::ALL.to_vec()),
        row in any::<prop::sample::Index>(),
        form in any::<prop::sample::Index>(),
        size in 1..100_u32,
        root in any::<prop::sample::Index>(),
        count in 0..50_usize,
        segment in 0..60_usize,
        window in 0..40_usize,
        seed in any::<u64>(),
    ) {
        let algorithm = *row.get(&algorithms(collective).collect::<Vec<_>>());
        let call = *form.get(&calls(collective, root.index(size as usize) as u32, count));
        prop_assume!(algorithm.algorithm().refusal(size, call.commutative()).is_none());
        let parameters = Parameters { segment, window };
        let check = Check { size, call, seed };
        let cost = verify(&check, |me| make(algorithm, me, &call, &parameters).expect("legal"));
        prop_assert!(cost.is_ok(), "{algorithm}: {cost:?}");
    }
}
