//! Algorithms of two levels, verified for all sizes up to 33 and many distributions of ranks over
//! nodes.
use oxmpi_plan::cost::{LogGp, Machine, time};
use oxmpi_plan::table::{algorithms, by_name};
use oxmpi_plan::verify::{Check, verify};
use oxmpi_plan::{
    Blocks, Call, Collective, Nodes, Parameters, PlanError, Restriction, Shared, TeamMember, make,
    make_on, segment_bytes,
};

const COLLECTIVES: [Collective; 9] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Allgather,
    Collective::Allgatherv,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::ReduceScatter,
    Collective::ReduceScatterBlock,
    Collective::Scan,
];

fn spreads(size: u32) -> Vec<Nodes> {
    let mixed = |rank: u32| rank.wrapping_mul(0x9e37_79b9) >> 28;
    let mut spreads: Vec<_> =
        [2, 3, 5, 8, 16].map(|each| Nodes::new((0..size).map(|r| r / each))).into();
    spreads.extend([2, 3, 4].map(|nodes| Nodes::new((0..size).map(|r| r % nodes))));
    spreads.extend([1, 3].map(|first| Nodes::new((0..size).map(|r| r < first))));
    spreads.extend([3, 7, 16].map(|nodes| Nodes::new((0..size).map(|r| mixed(r) % nodes))));
    spreads.push(Nodes::new((0..size).map(|r| (r + 1).ilog2())));
    spreads.retain(Nodes::is_hierarchy);
    spreads
}

fn calls(collective: Collective, size: u32, count: usize) -> Vec<Call> {
    let roots = || [0, 1, size / 2, size - 1].into_iter();
    let uneven =
        Blocks::new((0..size as usize).map(|rank| rank * 7 % (count + 2))).expect("they fit");
    let forms = [(false, false), (false, true), (true, false), (true, true)].into_iter();
    let (shared, blocks) = (Shared(count), Shared(uneven));
    match collective {
        Collective::Barrier => vec![Call::Barrier],
        Collective::Bcast => roots().map(|root| Call::Bcast { root, bytes: shared }).collect(),
        Collective::Allgather => {
            [false, true].map(|in_place| Call::Allgather { block: shared, in_place }).into()
        }
        Collective::Allgatherv => [false, true]
            .map(|in_place| Call::Allgatherv { blocks: blocks.clone(), in_place })
            .into(),
        Collective::Reduce => roots()
            .flat_map(|root| {
                forms.clone().map(move |(commutative, in_place)| Call::Reduce {
                    root,
                    count: shared,
                    commutative,
                    in_place,
                })
            })
            .collect(),
        _ => forms
            .map(|(commutative, in_place)| match collective {
                Collective::Allreduce => Call::Allreduce { count: shared, commutative, in_place },
                Collective::ReduceScatter => {
                    Call::ReduceScatter { blocks: blocks.clone(), commutative, in_place }
                }
                Collective::ReduceScatterBlock => {
                    Call::ReduceScatterBlock { block: shared, commutative, in_place }
                }
                _ => Call::Scan { count: shared, commutative, in_place },
            })
            .collect(),
    }
}

fn check(size: u32, counts: &[usize]) {
    for (way, nodes) in spreads(size).into_iter().enumerate() {
        for collective in COLLECTIVES {
            let smp = by_name(collective, "smp").expect("in the table");
            for count in counts {
                for call in calls(collective, size, *count) {
                    let refusal =
                        smp.algorithm().refusal_on(size, call.commutative(), Some(&nodes));
                    let made = make_on(
                        smp,
                        TeamMember { rank: 0, size },
                        &call,
                        &Parameters::default(),
                        &nodes,
                    );
                    assert_eq!(made.is_err(), refusal.is_some(), "{collective}");
                    if refusal.is_some() {
                        assert!(!nodes.are_in_order(), "{collective} {refusal:?}");
                        continue;
                    }
                    let pieces = (count / 4).max(1);
                    let variants = [(1, 0, 0), (3, 64, pieces), (2, 64, 0), (4, 0, 3 * pieces)];
                    for (seed, window, segment) in
                        variants.into_iter().take(if size > 33 { 2 } else { 4 })
                    {
                        let parameters = Parameters { window, segment, ..Parameters::default() };
                        let plan =
                            |me| make_on(smp, me, &call, &parameters, &nodes).expect("legal");
                        let found = verify(&Check::new(size, &call, seed + *count as u64), plan);
                        assert!(found.is_ok(), "{size} ranks, spread {way}, {call:?}: {found:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn small_teams() {
    (3..=17).for_each(|size| check(size, &[0, 1, 4]));
}

#[test]
fn larger_teams() {
    (18..=33).for_each(|size| check(size, &[3]));
}

#[test]
fn long_vectors_are_cut() {
    check(7, &[5000]);
}

/// By the model, the library's choice of segments is cheaper, and no segments are hardly more
/// expensive where it chooses none.
#[test]
fn segments_are_used_if_they_pay() {
    let level =
        |latency_ns, byte_ns| LogGp { latency_ns, overhead_ns: 100.0, gap_ns: 50.0, byte_ns };
    for (nodes, ranks_per_node) in
        [(2, 2), (2, 4), (2, 16), (4, 8), (8, 2), (8, 16), (32, 4), (3, 5)]
    {
        let machine = Machine {
            ranks_per_node,
            inside: level(150.0, 0.1),
            between: level(1000.0, 0.08),
            copy_byte_ns: 0.02,
            reduce_byte_ns: 0.02,
        };
        let size = nodes * ranks_per_node;
        let spread = Nodes::new((0..size).map(|rank| rank / ranks_per_node));
        for bytes in [64 << 10, 128 << 10, 512 << 10, 2 << 20, 16 << 20] {
            let count = Shared(bytes / 8);
            let calls = [
                Call::Bcast { root: 0, bytes: Shared(bytes) },
                Call::Reduce { root: 0, count, commutative: true, in_place: false },
                Call::Allreduce { count, commutative: true, in_place: false },
            ];
            for call in calls {
                let collective = call.collective();
                let (smp, unit) = (
                    by_name(collective, "smp").expect("in the table"),
                    if collective == Collective::Bcast { 1 } else { 8 },
                );
                let cost = |segment: usize| {
                    let parameters =
                        Parameters { segment: segment / unit, ..Parameters::default() };
                    let plan = |rank| {
                        make_on(smp, TeamMember { rank, size }, &call, &parameters, &spread)
                            .expect("legal")
                    };
                    time(&machine, 8, (0..size).map(plan).collect()).expect("no deadlock")
                };
                let chosen = segment_bytes(collective, &spread, bytes, true);
                let (whole, cut) = (cost(0), cost(64 << 10));
                let (taken, other) = if chosen > 0 { (cut, whole) } else { (whole, cut) };
                assert!(
                    taken <= 1.3 * other,
                    "{collective} of {bytes} bytes, {nodes} x {ranks_per_node}: {taken} ns, {other} ns by the other variant, segment {chosen}"
                );
            }
        }
    }
    let many = Nodes::new((0..128).map(|rank| rank / 16));
    assert_eq!(segment_bytes(Collective::Bcast, &many, 4 << 20, true), 64 << 10);
    assert_eq!(segment_bytes(Collective::Bcast, &many, 64 << 10, true), 0);
    assert_eq!(
        segment_bytes(Collective::Reduce, &many, 4 << 20, false),
        0,
        "chains do not keep rank order"
    );
}

#[test]
fn two_levels_without_nodes_are_refused_with_a_reason() {
    let (size, parameters) = (4, Parameters::default());
    let me = TeamMember { rank: 0, size };
    for collective in Collective::ALL {
        for smp in algorithms(collective).filter(|id| id.algorithm().name == "smp") {
            let call = calls(collective, size, 1).remove(0);
            let error = make(smp, me, &call, &parameters).expect_err("no nodes");
            assert!(matches!(error, PlanError::Restricted { restriction: Restriction::Nodes, .. }));
            for nodes in [Nodes::new([0, 0, 0, 0]), Nodes::new([0, 1, 2, 3])] {
                assert_eq!(
                    make_on(smp, me, &call, &parameters, &nodes).expect_err("one level"),
                    error
                );
            }
            let nodes = Nodes::new([0, 0, 1]);
            let error = make_on(smp, me, &call, &parameters, &nodes).expect_err("of three");
            assert_eq!(error, PlanError::WrongNodes { ranks: 3, size });
        }
    }
}

#[test]
fn few_messages_cross_between_nodes() {
    let nodes = Nodes::new((0..12).map(|rank| rank / 4));
    let crossing = |name: &str| {
        let call = Call::Allreduce { count: Shared(1), commutative: true, in_place: false };
        let id = by_name(Collective::Allreduce, name).expect("in the table");
        let sends = |rank: u32| {
            use oxmpi_plan::{Action, Generator};
            let me = TeamMember { rank, size: 12 };
            let mut plan = make_on(id, me, &call, &Parameters::default(), &nodes).expect("legal");
            let steps: Vec<_> = std::iter::from_fn(|| plan.next()).collect();
            let nodes = &nodes;
            let crosses = move |to: u32| nodes.of(to) != nodes.of(rank);
            steps
                .iter()
                .filter(|s| matches!(s.action, Action::Send { to, .. } if crosses(to)))
                .count()
        };
        (0..12).map(sends).sum::<usize>()
    };
    assert_eq!(crossing("smp"), 4, "three nodes that double");
    assert!(crossing("recursive_doubling") > 8);
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn many_ranks() {
        [64, 100, 129].into_iter().for_each(|size| check(size, &[2]));
    }
}
