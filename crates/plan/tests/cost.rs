//! The cost model against closed formulas.

use oxmpi_plan::cost::{LogGp, Machine, estimate, outline};
use oxmpi_plan::table::{algorithms, by_name, make};
use oxmpi_plan::{Blocks, Call, Edge, Edges, Paired, Parameters, RootOnly, Shared, TeamMember};

const INSIDE: LogGp = LogGp { latency_ns: 100.0, overhead_ns: 20.0, gap_ns: 30.0, byte_ns: 0.25 };
const BETWEEN: LogGp =
    LogGp { latency_ns: 1500.0, overhead_ns: 200.0, gap_ns: 300.0, byte_ns: 0.5 };

fn machine(ranks_per_node: u32) -> Machine {
    Machine {
        ranks_per_node,
        inside: INSIDE,
        between: BETWEEN,
        copy_byte_ns: 0.0,
        reduce_byte_ns: 0.125,
    }
}

fn hop(level: LogGp, bytes: usize) -> f64 {
    2.0 * level.overhead_ns + level.latency_ns + level.byte_ns * bytes as f64
}

fn cost(machine: &Machine, name: &str, size: u32, call: &Call) -> f64 {
    let algorithm = by_name(call.collective(), name).expect("in the table");
    estimate(machine, algorithm, size, call, 8, &Parameters::default()).expect("legal")
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.01, "{found} ns, not {expected}");
}

#[test]
fn a_ring_takes_a_hop_for_each_other_rank() {
    for (size, bytes) in [(2, 8), (7, 1000), (64, 65536)] {
        let call = Call::Allgather { block: Shared(bytes), in_place: false };
        let expected = f64::from(size - 1) * hop(BETWEEN, bytes);
        assert_near(cost(&machine(1), "ring", size, &call), expected);
    }
    // With several ranks on a node, each round takes as long as its slowest hop.
    let call = Call::Allgather { block: Shared(1000), in_place: false };
    assert_near(cost(&machine(8), "ring", 8, &call), 7.0 * hop(INSIDE, 1000));
}

#[test]
fn a_binomial_tree_takes_a_hop_for_each_level() {
    for (levels, bytes) in [(1, 8), (5, 4000), (10, 100)] {
        let call = Call::Bcast { root: 3 % (1 << levels), bytes: Shared(bytes) };
        let expected = f64::from(levels) * hop(BETWEEN, bytes);
        assert_near(cost(&machine(1), "binomial", 1 << levels, &call), expected);
    }
    // Four nodes of eight: two levels between nodes, three inside.
    let call = Call::Bcast { root: 0, bytes: Shared(500) };
    assert_near(
        cost(&machine(8), "binomial", 32, &call),
        2.0 * hop(BETWEEN, 500) + 3.0 * hop(INSIDE, 500),
    );
}

#[test]
fn recursive_doubling_takes_a_hop_and_a_reduction_for_each_level() {
    for (levels, count) in [(1, 1), (4, 1000), (8, 100)] {
        let call = Call::Allreduce { count: Shared(count), commutative: true, in_place: false };
        let expected = f64::from(levels) * (hop(BETWEEN, 8 * count) + 0.125 * (8 * count) as f64);
        assert_near(cost(&machine(1), "recursive_doubling", 1 << levels, &call), expected);
    }
}

#[test]
fn a_flat_gather_takes_as_long_as_the_link_into_the_root() {
    let call = Call::Gather { root: 0, block: Shared(4000), in_place: false };
    let expected = hop(BETWEEN, 0) + 15.0 * 4000.0 * BETWEEN.byte_ns;
    assert_near(cost(&machine(1), "basic_linear", 16, &call), expected);
    // Short messages are a gap apart.
    let call = Call::Gather { root: 0, block: Shared(4), in_place: false };
    let expected = hop(BETWEEN, 4) + 14.0 * BETWEEN.gap_ns;
    assert_near(cost(&machine(1), "basic_linear", 16, &call), expected);
}

#[test]
fn the_ranks_of_a_node_share_its_link_out() {
    let bytes = 4000;
    let call = Call::Allgather { block: Shared(bytes), in_place: false };
    let inside = hop(INSIDE, bytes) + hop(INSIDE, 2 * bytes);
    let between = hop(BETWEEN, 0) + 4.0 * BETWEEN.byte_ns * (4 * bytes) as f64;
    assert_near(cost(&machine(4), "recursive_doubling", 8, &call), inside + between);
}

#[test]
fn every_algorithm_has_a_time() {
    let count = Shared(1000);
    for size in [1, 2, 7, 16, 60] {
        for call in [
            Call::Barrier,
            Call::Bcast { root: 0, bytes: count },
            Call::Gather { root: 0, block: count, in_place: false },
            Call::Scatter { root: 0, block: count, in_place: false },
            Call::Allgather { block: count, in_place: false },
            Call::Alltoall { block: count, in_place: false },
            Call::Reduce { root: 0, count, commutative: true, in_place: false },
            Call::Allreduce { count, commutative: true, in_place: false },
            Call::ReduceScatterBlock { block: count, commutative: true, in_place: false },
            Call::Scan { count, commutative: true, in_place: false },
            Call::Exscan { count, commutative: true, in_place: false },
        ] {
            for id in algorithms(call.collective())
                .filter(|id| id.algorithm().refusal(size, true).is_none())
            {
                for parameters in
                    [Parameters::default(), Parameters { window: 0, ..Parameters::default() }]
                {
                    let time =
                        estimate(&machine(8), id, size, &call, 8, &parameters).expect("legal");
                    assert!(size == 1 || time > 0.0, "{id} of {size} ranks takes {time} ns");
                }
            }
        }
    }
}

#[test]
fn thousands_of_ranks_have_a_time() {
    let call = Call::Allreduce { count: Shared(1 << 20), commutative: true, in_place: false };
    let doubling = cost(&machine(64), "recursive_doubling", 4096, &call);
    assert!(cost(&machine(64), "rabenseifner", 4096, &call) < doubling);
}

/// The most receivers that copy from one rank's memory at the same time, in a call whose receivers
/// copy all messages.
fn readers(name: &str, size: u32, calls: impl Fn(u32) -> Call) -> usize {
    let plans = (0..size).map(|rank| {
        let call = calls(rank);
        let algorithm = by_name(call.collective(), name).expect("in the table");
        make(algorithm, TeamMember { rank, size }, &call, &Parameters::default()).expect("legal")
    });
    let outline =
        outline(&machine(size), 1, plans.collect(), 1, f64::INFINITY).expect("they fit together");
    outline.expect("there is no limit").readers
}

#[test]
fn each_source_of_an_exchange_has_one_reader_at_a_time() {
    let block = Shared(64 << 10);
    for size in [2, 3, 4, 7, 8, 16, 33] {
        let check = |name: &str, calls: &dyn Fn(u32) -> Call| {
            assert_eq!(
                readers(name, size, calls),
                1,
                "{name}, {size} ranks: {}",
                calls(0).collective()
            );
        };
        for name in ["linear", "pairwise", "modified_bruck", "linear_sync"] {
            check(name, &|_| Call::Alltoall { block, in_place: false });
        }
        for name in ["bruck-k-fanout", "ring", "sparbit", "direct-messaging"] {
            check(name, &|_| Call::Allgather { block, in_place: false });
        }
        check("pairwise", &|_| Call::ReduceScatterBlock {
            block,
            commutative: true,
            in_place: false,
        });
        check("ring", &|_| Call::Allreduce { count: block, commutative: true, in_place: false });
        // To both neighbours, with different orders of sends and receives.
        check("linear", &|rank| {
            let sides = [(rank + size - 1) % size, (rank + 1) % size];
            let edges = |sides: [u32; 2]| {
                [0, 1]
                    .map(|at| Edge { peer: sides[at], start: at * block.0, len: block.0 })
                    .to_vec()
            };
            // The answer to a message to the left comes from the right.
            Call::Neighbor { edges: Paired(Edges::new(edges(sides), edges([sides[1], sides[0]]))) }
        });
        let blocks = || Blocks::new(vec![block.0; size as usize]).expect("short enough");
        for name in ["basic_linear", "pairwise"] {
            check(name, &|_| Call::Alltoallv {
                send: Paired(blocks()),
                receive: Paired(blocks()),
                in_place: false,
            });
        }
        check("default", &|rank| {
            let all = if rank == 0 { RootOnly::at_root(blocks()) } else { RootOnly::elsewhere() };
            Call::Gatherv { root: 0, mine: Paired(block.0), all, in_place: false }
        });
    }
}

/// The readers of the root are the branches of a tree; in a flat tree, all other ranks.
#[test]
fn the_root_of_a_tree_has_a_reader_for_each_branch() {
    let call = |_| Call::Bcast { root: 0, bytes: Shared(1 << 20) };
    assert_eq!(readers("pipeline", 16, call), 1);
    assert_eq!(readers("binary_tree", 16, call), 2);
    assert_eq!(readers("binomial", 16, call), 4);
    assert_eq!(readers("basic_linear", 16, call), 15);
    let call = |_| Call::Scatter { root: 0, block: Shared(64 << 10), in_place: false };
    assert_eq!((readers("binomial", 16, call), readers("basic_linear", 16, call)), (4, 15));
}
