//! The table of algorithms, and the choice from it.

use oxmpi_plan::table::{algorithms, by_name, by_number};
use oxmpi_plan::verify::{Check, Cost, verify};
use oxmpi_plan::{
    ALGORITHMS, Action, After, AlgorithmId, AnyPlan, Call, Collective, Generator, Parameters,
    PlanError, PlanStep, Restriction, Shared, TeamMember, choose, make,
};

fn member(rank: u32, size: u32) -> TeamMember {
    TeamMember { rank, size }
}

fn steps(mut plan: AnyPlan) -> Vec<PlanStep> {
    std::iter::from_fn(|| plan.next()).collect()
}

fn cost(
    collective: Collective,
    name: &str,
    size: u32,
    call: &Call,
    parameters: Parameters,
) -> Cost {
    let algorithm = by_name(collective, name).expect("in the table");
    let check = Check::new(size, call, 0);
    verify(&check, |me| make(algorithm, me, call, &parameters).expect("legal")).expect("correct")
}

#[test]
fn names_and_numbers_are_unique() {
    for collective in Collective::ALL {
        assert!(algorithms(collective).count() > 0, "{collective} has no algorithm");
        for id in algorithms(collective) {
            let row = id.algorithm();
            assert_eq!(by_name(collective, row.name), Some(id));
            assert_eq!(by_number(collective, row.number), Some(id));
            assert!(row.number > 0, "0 stands for the default");
        }
    }
    assert_eq!(by_name(Collective::Barrier, "no such thing"), None);
}

#[test]
fn the_choice_is_always_legal() {
    for collective in Collective::ALL {
        for size in 1..=130 {
            for bytes in (0..24).map(|bits| 1_usize << bits).chain([0, usize::MAX]) {
                for commutative in [false, true] {
                    let id = choose(collective, size, Shared(bytes), commutative);
                    let row = id.algorithm();
                    assert_eq!(row.collective, collective);
                    assert_eq!(
                        row.refusal(size, commutative),
                        None,
                        "{id} for {size} ranks, {bytes} bytes"
                    );
                }
            }
        }
    }
}

#[test]
fn the_choice_depends_on_length_and_operation() {
    let doubling = by_name(Collective::Allreduce, "recursive_doubling");
    assert_eq!(Some(choose(Collective::Allreduce, 8, Shared(8), false)), doubling);
    let ring = by_name(Collective::Allreduce, "ring");
    assert_eq!(Some(choose(Collective::Allreduce, 8, Shared(1 << 24), true)), ring);
    let id = choose(Collective::Allreduce, 8, Shared(1 << 24), false);
    assert_eq!(id.algorithm().refusal(8, false), None, "{id}");
}

#[test]
fn a_refusal_names_the_restriction() {
    let ring = by_name(Collective::Allreduce, "ring").expect("in the table");
    let call = Call::Allreduce { count: Shared(1), commutative: false, in_place: false };
    let error =
        make(ring, member(0, 3), &call, &Parameters::default()).expect_err("not commutative");
    assert_eq!(
        error.to_string(),
        "algorithm allreduce/ring cannot serve this call of 3 ranks: it needs a commutative operation"
    );

    let doubling = by_name(Collective::Allgather, "recursive_doubling").expect("in the table");
    let call = Call::Allgather { block: Shared(1), in_place: false };
    let error = make(doubling, member(0, 6), &call, &Parameters::default())
        .expect_err("not a power of two");
    let restriction = Restriction::PowerOfTwo;
    assert_eq!(error, PlanError::Restricted { algorithm: doubling, size: 6, restriction });

    let error =
        make(ring, member(0, 6), &call, &Parameters::default()).expect_err("another collective");
    assert_eq!(error.to_string(), "algorithm allreduce/ring does not do the collective allgather");
}

#[test]
fn ranks_and_lengths_are_checked() {
    let parameters = Parameters::default();
    let binomial = by_name(Collective::Bcast, "binomial").expect("in the table");
    let call = Call::Bcast { root: 4, bytes: Shared(1) };
    let error = make(binomial, member(0, 4), &call, &parameters).expect_err("no such root");
    assert_eq!(error.to_string(), "rank 4 is not in a team of 4 ranks");
    let call = Call::Bcast { root: 0, bytes: Shared(1) };
    assert!(make(binomial, member(0, 0), &call, &parameters).is_err());

    let error = make(binomial, member(0, 1 << 31), &call, &parameters).expect_err("too many ranks");
    assert_eq!(error.to_string(), "2147483648 ranks are more than a communicator can have");

    let ring = by_name(Collective::Allgather, "ring").expect("in the table");
    let call = Call::Allgather { block: Shared(usize::MAX / 2), in_place: false };
    let error = make(ring, member(0, 4), &call, &parameters).expect_err("too long");
    assert_eq!(error, PlanError::TooLong { block: usize::MAX / 2, size: 4 });
}

#[test]
fn only_a_barrier_has_steps_without_data() {
    let call = Call::Allreduce { count: Shared(0), commutative: true, in_place: false };
    for id in legal(Collective::Allreduce, 4) {
        let plan = make(id, member(1, 4), &call, &Parameters::default()).expect("legal");
        assert_eq!((plan.window(), steps(plan)), (1, Vec::new()));
    }
    for id in legal(Collective::Barrier, 4) {
        let plan = make(id, member(1, 4), &Call::Barrier, &Parameters::default()).expect("legal");
        assert!(!steps(plan).is_empty());
    }
}

#[test]
fn a_clone_of_an_unused_plan_has_all_steps() {
    let call = Call::Allreduce { count: Shared(5), commutative: true, in_place: true };
    for id in legal(Collective::Allreduce, 7) {
        let fresh = make(id, member(2, 7), &call, &Parameters::default()).expect("legal");
        let mut used = fresh.clone();
        let first: Vec<_> = std::iter::from_fn(|| used.next()).collect();
        assert_eq!(used.next(), None);
        assert_eq!(first, steps(fresh));
    }
}

#[test]
fn plans_are_small_and_lazy() {
    // A simulation of a million ranks holds a plan for each.
    assert!(size_of::<AnyPlan>() <= 1024, "{} bytes", size_of::<AnyPlan>());
    // A plan of 2^40 segments is made, and yields its first steps, at once.
    let call = Call::Bcast { root: 0, bytes: Shared(1 << 40) };
    let pipeline = by_name(Collective::Bcast, "pipeline").expect("in the table");
    let parameters = Parameters { segment: 1, ..Parameters::default() };
    let mut plan = make(pipeline, member(1, 1_000_000), &call, &parameters).expect("legal");
    assert_eq!(std::iter::from_fn(|| plan.next()).take(1000).count(), 1000);
}

fn regular(collective: Collective, count: usize) -> Call {
    let (count, commutative, in_place, root) = (Shared(count), true, false, 1);
    match collective {
        Collective::Barrier => Call::Barrier,
        Collective::Bcast => Call::Bcast { root, bytes: count },
        Collective::Gather => Call::Gather { root, block: count, in_place },
        Collective::Scatter => Call::Scatter { root, block: count, in_place },
        Collective::Allgather => Call::Allgather { block: count, in_place },
        Collective::Alltoall => Call::Alltoall { block: count, in_place },
        Collective::Reduce => Call::Reduce { root, count, commutative, in_place },
        Collective::Allreduce => Call::Allreduce { count, commutative, in_place },
        Collective::ReduceScatterBlock => {
            Call::ReduceScatterBlock { block: count, commutative, in_place }
        }
        Collective::Scan => Call::Scan { count, commutative, in_place },
        Collective::Exscan => Call::Exscan { count, commutative, in_place },
        _ => unreachable!("{collective} is not regular"),
    }
}

fn legal(collective: Collective, size: u32) -> impl Iterator<Item = AlgorithmId> {
    algorithms(collective).filter(move |id| id.algorithm().refusal(size, true).is_none())
}

#[test]
fn teams_of_many_ranks_have_no_overflow() {
    for collective in Collective::REGULAR {
        let call = regular(collective, 1 << 31);
        for size in [u32::MAX / 2, u32::MAX / 2 - 1, 1 << 30] {
            for id in legal(collective, size) {
                for rank in [0, 1, 2, size / 2, size - 2, size - 1] {
                    for fanout in [0, 2, 5, u32::MAX] {
                        let parameters = Parameters { fanout, ..Parameters::default() };
                        let mut plan =
                            make(id, member(rank, size), &call, &parameters).expect("legal");
                        let _ = std::iter::from_fn(|| plan.next()).take(1000).count();
                    }
                }
            }
        }
    }
}

#[test]
fn extreme_parameters_are_valid() {
    let most = usize::MAX;
    for collective in Collective::REGULAR {
        for size in [2, 5, 8, 12] {
            let call = regular(collective, 9);
            for id in legal(collective, size) {
                for (segment, fanout, max_requests, window) in [
                    (most, u32::MAX, most, most),
                    (1, 1, 1, 1),
                    (most, 1, 0, 0),
                    (0, u32::MAX - 1, 1, most),
                ] {
                    let parameters = Parameters { segment, fanout, max_requests, window };
                    let check = Check::new(size, &call, 1);
                    let plan = |me| make(id, me, &call, &parameters).expect("legal");
                    let found = verify(&check, plan);
                    assert!(found.is_ok(), "{id}, {parameters:?}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn fan_outs_and_limits_count() {
    let bcast = regular(Collective::Bcast, 10);
    for (name, fanout, sends) in
        [("chain", 0, 4), ("chain", 7, 7), ("knomial", 2, 6), ("knomial", 4, 9)]
    {
        let id = by_name(Collective::Bcast, name).expect("in the table");
        let parameters = Parameters { fanout, ..Parameters::default() };
        let root = make(id, member(1, 64), &bcast, &parameters).expect("legal");
        assert_eq!(steps(root).len(), sends, "{name} of {fanout}");
    }
    let call = regular(Collective::Alltoall, 1);
    for (max_requests, outstanding) in [(1, 2), (3, 6), (10, 20)] {
        let parameters = Parameters { max_requests, ..Parameters::default() };
        let cost = cost(Collective::Alltoall, "linear_sync", 33, &call, parameters);
        assert_eq!(cost.outstanding, outstanding, "{max_requests}");
    }
}

#[test]
fn alltoall_max_requests_limits_the_outstanding_pairs() {
    let call = regular(Collective::Alltoall, 1);
    let id = by_name(Collective::Alltoall, "linear_sync").expect("in the table");
    for pairs in [1, 2, 5] {
        let parameters = Parameters { max_requests: pairs, ..Parameters::default() };
        let all = steps(make(id, member(3, 12), &call, &parameters).expect("legal"));
        // First this rank's block, then a receive and a send for each other rank.
        for (at, step) in all.iter().enumerate().skip(1) {
            let (pair, is_send) = ((at - 1) / 2, at.is_multiple_of(2));
            assert_eq!(matches!(step.action, Action::Send { .. }), is_send, "{at}");
            let back = |of: usize| u32::try_from(at - of).expect("small");
            let after = match pair.checked_sub(pairs) {
                None => After::None,
                Some(earlier) => After::Two(back(2 * earlier + 1), back(2 * earlier + 2)),
            };
            assert_eq!(step.after, after, "step {at} with {pairs} pairs");
        }
    }
}

#[test]
fn algorithms_send_the_least_data() {
    let plain = Parameters::default();
    let barrier = |name| cost(Collective::Barrier, name, 13, &Call::Barrier, plain).messages;
    assert_eq!(barrier("bruck"), 13 * 4);
    assert_eq!(barrier("linear"), 2 * 12);
    assert_eq!(barrier("recursive_doubling"), 8 * 3 + 2 * 5);

    let call = Call::Bcast { root: 3, bytes: Shared(100) };
    for (name, segment, messages) in
        [("binomial", 0, 12), ("binary_tree", 30, 48), ("pipeline", 10, 120)]
    {
        let cost = cost(Collective::Bcast, name, 13, &call, Parameters { segment, ..plain });
        assert_eq!((cost.messages, cost.units), (messages, 1200), "{name}");
    }

    // Bandwidth-optimal: each rank sends 2 (P-1)/P of the vector.
    let call = Call::Allreduce { count: Shared(64), commutative: true, in_place: false };
    for name in ["ring", "rabenseifner"] {
        assert_eq!(cost(Collective::Allreduce, name, 8, &call, plain).units, 8 * 2 * 56, "{name}");
    }
    let doubling = cost(Collective::Allreduce, "recursive_doubling", 8, &call, plain);
    assert_eq!((doubling.messages, doubling.units), (24, 24 * 64));

    let call = Call::Allgather { block: Shared(10), in_place: false };
    for name in
        ["bruck-k-fanout", "recursive_doubling", "ring", "neighbor", "sparbit", "direct-messaging"]
    {
        assert_eq!(cost(Collective::Allgather, name, 8, &call, plain).units, 8 * 70, "{name}");
    }
}

#[test]
fn pipelines_have_segments_by_default() {
    let call = Call::Bcast { root: 0, bytes: Shared(100_000) };
    assert_eq!(cost(Collective::Bcast, "pipeline", 2, &call, Parameters::default()).messages, 25);
    assert_eq!(cost(Collective::Bcast, "binomial", 2, &call, Parameters::default()).messages, 1);
}

#[test]
fn the_window_limits_outstanding_steps() {
    let call = Call::Alltoall { block: Shared(1), in_place: false };
    for (window, outstanding) in [(0, 8), (8, 8), (20, 20)] {
        let parameters = Parameters { window, ..Parameters::default() };
        assert_eq!(
            cost(Collective::Alltoall, "linear", 33, &call, parameters).outstanding,
            outstanding
        );
    }
}

/// The names in the tuning guide of Open MPI, from number 1 on.
const TUNED: [(Collective, &[&str]); 14] = [
    (
        Collective::Allgather,
        &[
            "linear",
            "bruck-k-fanout",
            "recursive_doubling",
            "ring",
            "neighbor",
            "two_proc",
            "sparbit",
            "direct-messaging",
        ],
    ),
    (Collective::Allgatherv, &["default", "bruck", "ring", "neighbor", "two_proc", "sparbit"]),
    (
        Collective::Allreduce,
        &[
            "basic_linear",
            "nonoverlapping",
            "recursive_doubling",
            "ring",
            "segmented_ring",
            "rabenseifner",
            "allgather_reduce",
        ],
    ),
    (Collective::Alltoall, &["linear", "pairwise", "modified_bruck", "linear_sync", "two_proc"]),
    (Collective::Alltoallv, &["basic_linear", "pairwise"]),
    (
        Collective::Barrier,
        &["linear", "double_ring", "recursive_doubling", "bruck", "two_proc", "tree"],
    ),
    (
        Collective::Bcast,
        &[
            "basic_linear",
            "chain",
            "pipeline",
            "split_binary_tree",
            "binary_tree",
            "binomial",
            "knomial",
            "scatter_allgather",
            "scatter_allgather_ring",
        ],
    ),
    (Collective::Exscan, &["linear", "recursive_doubling"]),
    (Collective::Gather, &["basic_linear", "binomial", "linear_sync"]),
    (
        Collective::Reduce,
        &[
            "linear",
            "chain",
            "pipeline",
            "binary",
            "binomial",
            "in-order_binary",
            "rabenseifner",
            "knomial",
        ],
    ),
    (Collective::ReduceScatter, &["non-overlapping", "recursive_halving", "ring", "butterfly"]),
    (
        Collective::ReduceScatterBlock,
        &["basic_linear", "recursive_doubling", "recursive_halving", "butterfly"],
    ),
    (Collective::Scan, &["linear", "recursive_doubling"]),
    (Collective::Scatter, &["basic_linear", "binomial", "linear_nb"]),
];

#[test]
fn every_algorithm_of_the_tuning_guide_has_its_number() {
    assert_eq!(TUNED.iter().map(|(_, names)| names.len()).sum::<usize>(), 69);
    for (collective, names) in TUNED {
        let numbers: Vec<_> = (1..).zip(names.iter().copied()).collect();
        let found: Vec<_> = algorithms(collective)
            .map(|id| (id.algorithm().number, id.algorithm().name))
            .filter(|(number, _)| *number < 32)
            .collect();
        assert_eq!(found, numbers, "{collective}");
    }
}

#[test]
fn rows_have_sources_and_descriptions() {
    for row in ALGORITHMS {
        assert!(!row.source.is_empty(), "{row:?}");
        assert!(!row.description.is_empty() && !row.name.contains(' '), "{row:?}");
    }
}
