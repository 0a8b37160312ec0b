//! The cost of each algorithm as a formula: as text in the terms of LogGP, and as a number by
//! [`CostModel`].
//!
//! The texts are for one level of the network and for powers of two: `p` ranks, `m` bytes as the
//! collective counts them, `lg` = log2 p, `s` segments, `f` the fan-out, `k` outstanding requests.

use crate::model::CostModel;
use oxmpi_plan::table::settled;
use oxmpi_plan::{AlgorithmId, Collective};
use oxmpi_tuned::collectives::TUNABLE;

/// The cost of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    pub collective: Collective,
    pub name: &'static str,
    /// The messages on the longest path: each costs `L + 2o`.
    pub rounds: &'static str,
    /// The bytes on the longest path: each costs `G`.
    pub bytes: &'static str,
    /// The bytes combined one after another; empty if there are none.
    pub combined: &'static str,
    pub wins: &'static str,
    cost: fn(&CostModel) -> f64,
}

impl Formula {
    /// The cost in nanoseconds.
    pub fn cost_ns(&self, model: &CostModel) -> f64 {
        (self.cost)(model)
    }

    /// The cost in the terms of LogGP.
    pub fn text(&self) -> String {
        let term = |factor: &str, unit: &str| match factor {
            "" | "0" => String::new(),
            "1" => unit.to_string(),
            factor if is_sum(factor) => format!("({factor}) {unit}"),
            factor => format!("{factor} {unit}"),
        };
        let terms =
            [term(self.rounds, "(L + 2o)"), term(self.bytes, "G"), term(self.combined, "γ")];
        terms.into_iter().filter(|term| !term.is_empty()).collect::<Vec<_>>().join(" + ")
    }
}

fn is_sum(text: &str) -> bool {
    let mut depth = 0;
    text.chars().any(|sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        sign == '+' && depth == 0
    })
}

/// The formula of an algorithm of a collective that can be tuned.
pub fn formula(algorithm: AlgorithmId) -> Option<&'static Formula> {
    let row = algorithm.algorithm();
    FORMULAS.iter().find(|formula| formula.collective == row.collective && formula.name == row.name)
}

/// All algorithms that parameters can select, except experimental ones, by the numbers of their
/// collectives in rules files. Algorithms for several nodes are not among them: only the component
/// smp uses those.
pub fn tunable() -> impl Iterator<Item = AlgorithmId> {
    let is_one = |id: &AlgorithmId| !id.algorithm().needs_nodes();
    TUNABLE.iter().flat_map(|row| settled(row.collective)).filter(is_one)
}

macro_rules! formulas {
    ($($collective:ident $name:literal: $rounds:literal, $bytes:literal, $combined:literal, $wins:literal => $cost:expr;)*) => {
        const FORMULAS: &[Formula] = &[$(Formula {
            collective: Collective::$collective,
            name: $name,
            rounds: $rounds,
            bytes: $bytes,
            combined: $combined,
            wins: $wins,
            cost: $cost,
        }),*];
    };
}

fn nothing(_: f64) -> f64 {
    0.0
}

fn doubling_whole(c: &CostModel) -> f64 {
    let round = |distance| c.exchange(distance, c.m) + c.combine(c.m);
    c.fold(c.m, c.m) + c.doublings().filter(|d| 2.0 * d <= c.p).map(round).sum::<f64>()
}

/// Recursive halving of all ranks' blocks; near partners first leave the results at other ranks,
/// which adds a shift.
fn reduce_scatter_halving(c: &CostModel, far_first: bool) -> f64 {
    let all = c.p * c.m;
    let home = if far_first { 0.0 } else { c.shift(c.p / 2.0, c.m) };
    let folded = if c.is_folded() { c.combine(all) } else { 0.0 };
    c.fold(all, c.m) + folded + c.halving_blocks(c.m, far_first) + home
}

fn reduce_and_scatter(c: &CostModel) -> f64 {
    let all = c.untuned(c.p * c.m);
    all.nomial(2.0, |bytes| c.combine(bytes)) + c.flat(c.m)
}

fn reduce_scatter_pairwise(c: &CostModel) -> f64 {
    c.pairwise(c.m) + (c.p - 1.0) * c.combine(c.m)
}

/// Recursive doubling of the blocks that the partner still needs.
fn reduce_scatter_doubling(c: &CostModel) -> f64 {
    let all = c.p * c.m;
    let round = |distance: f64| {
        let bytes = all - distance * c.m;
        c.exchange(distance, bytes) + c.combine(bytes)
    };
    c.fold(all, c.m) + c.doublings().filter(|d| 2.0 * d <= c.p).map(round).sum::<f64>()
}

fn reduce_and_scatter_linear(c: &CostModel) -> f64 {
    c.flat_combined(c.p * c.m) + c.flat(c.m)
}

fn gather_and_broadcast(c: &CostModel) -> f64 {
    c.flat_in_order(c.m) + c.flat(c.p * c.m)
}

fn sparbit(c: &CostModel) -> f64 {
    c.sparbit()
}

fn neighbor(c: &CostModel) -> f64 {
    c.neighbours(1.0, c.m) + c.neighbours((c.p / 2.0 - 1.0).max(0.0), 2.0 * c.m)
}

/// The root calls one rank after another, which sends the first part of its block.
fn called(c: &CostModel) -> f64 {
    let first = if c.tuning.segment_bytes == 0 { 1024.0 } else { c.tuning.segment_bytes as f64 };
    // A round trip of a call and the first part for each rank; the other parts overlap with it.
    ((c.p - 1.0) * (c.hop(0.0) + c.hop(first.min(c.m)))).max(c.flat_in(c.m))
}

formulas! {
    Barrier "linear": "2", "0", "", "two or three ranks" => |c| c.flat_in_order(0.0) + c.flat(0.0);
    Barrier "double_ring": "2p", "0", "", "never by the model" => |c| c.ring(2.0 * c.p, 0.0, 0.0);
    Barrier "recursive_doubling": "lg", "0", "", "powers of two; as bruck on one rank a node" => |c| c.fold(0.0, 0.0)
        + c.doublings().filter(|d| 2.0 * d <= c.p).map(|d| c.exchange(d, 0.0)).sum::<f64>();
    Barrier "bruck": "lg", "0", "", "any number of ranks, few on each node" => |c| c.doublings().map(|d| c.shift(d, 0.0)).sum();
    Barrier "two_proc": "1", "0", "", "two ranks" => |c| c.hop(0.0);
    Barrier "tree": "2 lg", "0", "", "many ranks on each node: one message in and out of each" => |c| 2.0 * c.nomial(2.0, nothing);

    Bcast "basic_linear": "1", "p m", "", "up to a handful of ranks" => |c| c.flat_segments();
    Bcast "chain": "p/f + s", "(f + p/(f s)) m", "", "long messages on some ranks" => |c| c.chains(c.fan_out(4.0), nothing);
    Bcast "pipeline": "p + s", "(1 + p/s) m", "", "very long messages on few ranks" => |c| c.chains(1.0, nothing);
    Bcast "split_binary_tree": "lg + s + 1", "(3/2 + lg/s) m", "", "long messages, few ranks on each node" => |c| c.binary(c.m / 2.0, c.p / 2.0, nothing) + c.shift(c.p / 2.0, c.m / 2.0);
    Bcast "binary_tree": "lg + 2s", "2 (1 + lg/s) m", "", "hardly: half of the ranks send everything twice" => |c| c.binary(c.m, c.p, nothing);
    Bcast "binomial": "lg", "lg m", "", "short messages" => |c| c.nomial(2.0, nothing);
    Bcast "knomial": "log_f p", "(f - 1) log_f p m", "", "short messages where latency counts more than overhead" => |c| c.nomial(c.fan_out(4.0), nothing);
    Bcast "scatter_allgather": "2 lg", "2 m", "", "long messages on many ranks" => |c| c.binomial_parts() + c.bruck(2.0, c.m / c.p);
    Bcast "scatter_allgather_ring": "lg + p", "2 m", "", "very long messages, many ranks on each node" => |c| c.binomial_parts() + c.ring(c.p - 1.0, c.m / c.p, 0.0);

    Gather "basic_linear": "1", "p m", "", "nearly always" => |c| c.flat_in_order(c.m);
    Gather "binomial": "lg", "p m", "", "short blocks, many ranks on each node" => |c| c.binomial_blocks(c.m);
    Gather "linear_sync": "2p", "p m", "", "long blocks where many senders at once disturb each other, which the model does not know" => called;

    Scatter "basic_linear": "1", "p m", "", "long blocks" => |c| c.flat(c.m);
    Scatter "binomial": "lg", "p m", "", "short blocks" => |c| c.binomial_blocks(c.m);
    Scatter "linear_nb": "1", "p m", "", "as basic_linear, with less memory in use" => |c| c.flat(c.m);

    Allgather "linear": "2", "p^2 m", "", "hardly: the root sends everything to all" => gather_and_broadcast;
    Allgather "bruck-k-fanout": "log_f p", "p m", "", "short blocks" => |c| c.bruck(c.fan_out(2.0).max(2.0), c.m);
    Allgather "recursive_doubling": "lg", "p m", "", "short and middle blocks, powers of two" => |c| c.doubling(c.p * c.m);
    Allgather "ring": "p", "p m", "", "long blocks: each node sends each block once" => |c| c.ring(c.p - 1.0, c.m, 0.0);
    Allgather "neighbor": "p/2", "p m", "", "long blocks, half the rounds of ring" => neighbor;
    Allgather "two_proc": "1", "m", "", "two ranks" => |c| c.hop(c.m);
    Allgather "sparbit": "lg", "p m", "", "middle blocks, any number of ranks" => sparbit;
    Allgather "direct-messaging": "1", "p m", "", "few ranks" => |c| c.direct(c.m);

    Allgatherv "default": "2", "p^2 m", "", "hardly: the root sends everything to all" => gather_and_broadcast;
    Allgatherv "bruck": "lg", "p m", "", "short blocks" => |c| c.bruck(2.0, c.m);
    Allgatherv "ring": "p", "p m", "", "long blocks of like lengths" => |c| c.ring(c.p - 1.0, c.m, 0.0);
    Allgatherv "neighbor": "p/2", "p m", "", "as ring, half the rounds" => neighbor;
    Allgatherv "two_proc": "1", "m", "", "two ranks" => |c| c.hop(c.m);
    Allgatherv "sparbit": "lg", "p m", "", "middle blocks" => sparbit;
    Allgatherv "linear": "1", "p m", "", "few ranks, and blocks of very different lengths" => |c| c.direct(c.m);

    Allreduce "basic_linear": "2", "2p m", "p m", "two or three ranks" => |c| c.flat_combined(c.m) + c.flat_segments();
    Allreduce "nonoverlapping": "2 lg", "2 lg m", "lg m", "short vectors, many ranks on each node" => |c| {
        let reduce = c.untuned(c.m);
        reduce.nomial(2.0, |bytes| c.combine(bytes)) + c.nomial(2.0, nothing)
    };
    Allreduce "recursive_doubling": "lg", "lg m", "lg m", "short vectors" => doubling_whole;
    Allreduce "ring": "2p", "2 m", "m", "very long vectors" => |c| {
        let part = c.m / c.p;
        c.ring(c.p - 1.0, part, c.combine(part)) + c.ring(c.p - 1.0, part, 0.0)
    };
    Allreduce "segmented_ring": "(1 + s) p", "2 m", "m", "very long vectors on few ranks: sending and combining overlap" => |c| {
        let part = c.m / c.p;
        let (segments, bytes) = c.pipeline_segments(part);
        c.ring((c.p - 1.0) * segments, bytes, c.combine(bytes)) + c.ring(c.p - 1.0, part, 0.0)
    };
    Allreduce "rabenseifner": "2 lg", "2 m", "m", "long vectors" => |c| {
        // Each rank of a folded pair combines half of the vector, and receives the result in halves
        // while other ranks exchange them.
        let folded = if c.is_folded() { c.combine(c.m / 2.0) + c.hop(c.m / 2.0) } else { 0.0 };
        c.fold(c.m / 2.0, c.m / 2.0) + folded + c.halving(c.m, true) + c.doubling(c.m)
    };
    Allreduce "allgather_reduce": "lg", "p m", "p m", "hardly: all ranks combine everything" => |c| c.bruck(2.0, c.m) + c.p * c.combine(c.m);

    Alltoall "linear": "1", "p m", "", "middle and long blocks" => |c| c.direct(c.m);
    Alltoall "pairwise": "p", "p m", "", "long blocks where many messages at once disturb each other, which the model does not know" => |c| c.pairwise(c.m);
    Alltoall "modified_bruck": "lg", "(p/2) lg m", "", "short blocks" => |c| {
        let half = (c.p / 2.0).floor().max(1.0) * c.m;
        let round = |distance| c.shift(distance, half) + 2.0 * c.copy(half);
        c.doublings().map(round).sum::<f64>() + 2.0 * c.copy(c.p * c.m)
    };
    Alltoall "linear_sync": "p/k", "p m", "", "as linear, with less memory in use" => |c| {
        let requests = if c.tuning.max_requests == 0 { 32.0 } else { f64::from(c.tuning.max_requests) };
        c.direct(c.m).max((c.p - 1.0) / requests * c.hop(c.m))
    };
    Alltoall "two_proc": "1", "m", "", "two ranks" => |c| c.hop(c.m);

    Alltoallv "basic_linear": "1", "p m", "", "nearly always" => |c| c.direct(c.m);
    Alltoallv "pairwise": "p", "p m", "", "long blocks, as of alltoall" => |c| c.pairwise(c.m);

    Exscan "linear": "p", "p m", "p m", "two ranks" => |c| c.chain(c.m, c.combine(c.m));
    Exscan "recursive_doubling": "lg + 1", "(lg + 1) m", "lg m", "nearly always" => |c| c.shift(1.0, c.m)
        + c.doublings().map(|d| c.shift(d, c.m) + c.combine(c.m)).sum::<f64>();

    Reduce "linear": "1", "p m", "p m", "two or three ranks" => |c| c.flat_combined(c.m);
    Reduce "chain": "p/f + s", "(f + p/(f s)) m", "(f + p/(f s)) m", "long vectors on some ranks" => |c| c.chains(c.fan_out(4.0), |bytes| c.combine(bytes));
    Reduce "pipeline": "p + s", "(1 + p/s) m", "(1 + p/s) m", "very long vectors on few ranks" => |c| c.chains(1.0, |bytes| c.combine(bytes));
    Reduce "binary": "lg + 2s", "2 (1 + lg/s) m", "2 (1 + lg/s) m", "hardly: half of the ranks take everything twice" => |c| c.binary(c.m, c.p, |bytes| c.combine(bytes));
    Reduce "binomial": "lg", "lg m", "lg m", "short vectors" => |c| c.nomial(2.0, |bytes| c.combine(bytes));
    Reduce "in-order_binary": "lg + 2s", "2 (1 + lg/s) m", "2 (1 + lg/s) m", "long vectors, many ranks on each node; operations that do not commute" => |c| c.in_order(|bytes| c.combine(bytes));
    Reduce "rabenseifner": "2 lg", "2 m", "m", "long vectors" => |c| c.fold(c.m, 0.0) + c.halving(c.m, true) + c.binomial_parts();
    Reduce "knomial": "log_f p", "(f - 1) log_f p m", "(f - 1) log_f p m", "short vectors where latency counts more than overhead" => |c| c.nomial(c.fan_out(4.0), |bytes| c.combine(bytes));

    ReduceScatter "non-overlapping": "lg + 1", "(lg + 1) p m", "lg p m", "hardly: all blocks travel lg times" => reduce_and_scatter;
    ReduceScatter "recursive_halving": "lg", "p m", "p m", "short and middle blocks, few ranks on each node" => |c| reduce_scatter_halving(c, true);
    ReduceScatter "ring": "p", "p m", "p m", "long blocks" => |c| c.ring(c.p - 1.0, c.m, c.combine(c.m));
    ReduceScatter "butterfly": "lg + 1", "p m", "p m", "many ranks on each node: the long halves stay there; operations that do not commute" => |c| reduce_scatter_halving(c, false);
    ReduceScatter "pairwise": "p", "p m", "p m", "long blocks of operations that do not commute, numbers of ranks that are no powers of two" => reduce_scatter_pairwise;
    ReduceScatter "linear": "2", "p^2 m", "p^2 m", "two or three ranks, and vectors of few bytes" => reduce_and_scatter_linear;

    ReduceScatterBlock "basic_linear": "lg + 1", "(lg + 1) p m", "lg p m", "hardly: all blocks travel lg times" => reduce_and_scatter;
    ReduceScatterBlock "recursive_doubling": "lg", "lg p m", "lg p m", "very short blocks of operations that do not commute" => reduce_scatter_doubling;
    ReduceScatterBlock "recursive_halving": "lg", "p m", "p m", "few ranks on each node" => |c| reduce_scatter_halving(c, true);
    ReduceScatterBlock "butterfly": "lg + 1", "p m", "p m", "many ranks on each node: the long halves stay there; operations that do not commute" => |c| reduce_scatter_halving(c, false);
    ReduceScatterBlock "pairwise": "p", "p m", "p m", "long blocks, numbers of ranks that are no powers of two" => reduce_scatter_pairwise;
    ReduceScatterBlock "linear": "2", "p^2 m", "p^2 m", "two or three ranks, and vectors of few bytes" => reduce_and_scatter_linear;

    Scan "linear": "p", "p m", "p m", "two ranks" => |c| c.chain(c.m, c.combine(c.m));
    Scan "recursive_doubling": "lg", "lg m", "lg m", "nearly always" => |c| c.doublings().map(|d| c.shift(d, c.m) + c.combine(c.m)).sum();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Cell, cells};
    use crate::simulate::MACHINE;
    use oxmpi_plan::cost::{Machine, estimate};
    use oxmpi_plan::{ALGORITHMS, Parameters};
    use oxmpi_tuned::Tuning;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    #[test]
    fn every_selectable_algorithm_has_one_formula() {
        for id in tunable() {
            assert!(formula(id).is_some(), "{id}");
        }
        assert_eq!(FORMULAS.len(), tunable().count());
        assert!(ALGORITHMS.len() > FORMULAS.len());
    }

    #[test]
    fn formulas_have_texts() {
        let text = |collective, name| {
            let id = oxmpi_plan::table::by_name(collective, name).unwrap();
            formula(id).unwrap().text()
        };
        assert_eq!(text(Collective::Bcast, "pipeline"), "(p + s) (L + 2o) + (1 + p/s) m G");
        assert_eq!(text(Collective::Barrier, "bruck"), "lg (L + 2o)");
        assert_eq!(text(Collective::Alltoall, "two_proc"), "(L + 2o) + m G");
        assert_eq!(text(Collective::Allreduce, "ring"), "2p (L + 2o) + 2 m G + m γ");
    }

    /// Nodes, and ranks on each: few enough to walk all plans.
    const SHAPES: [(u32, u32); 6] = [(1, 16), (16, 1), (4, 8), (5, 6), (8, 16), (32, 4)];

    fn compare(shapes: &[(u32, u32)], check: impl Fn(&Cell, &Machine, AlgorithmId, f64, f64)) {
        for &(nodes, ranks_per_node) in shapes {
            let ranks = nodes * ranks_per_node;
            let machine = Machine { ranks_per_node, ..MACHINE };
            for row in TUNABLE {
                for cell in
                    cells(&[row.collective], &[ranks], &[8, 512, 16384, 1 << 18], usize::MAX)
                {
                    let call = cell.call().unwrap();
                    let is_legal = |id: &AlgorithmId| id.algorithm().refusal(ranks, true).is_none();
                    for id in tunable()
                        .filter(|id| id.algorithm().collective == row.collective)
                        .filter(is_legal)
                    {
                        let walked = estimate(
                            &machine,
                            id,
                            ranks,
                            &call,
                            cell.element(),
                            &Parameters::default(),
                        )
                        .unwrap();
                        let said = formula(id).unwrap().cost_ns(&CostModel::new(
                            &machine,
                            &cell,
                            Tuning::default(),
                        ));
                        check(&cell, &machine, id, said, walked);
                    }
                }
            }
        }
    }

    #[test]
    fn formulas_approximate_the_cost_of_the_plans() {
        let far = RefCell::new((0, 0));
        compare(&SHAPES, |cell, machine, id, said, walked| {
            let ratio = said / walked;
            let text = || {
                format!(
                    "{id} {cell}, {} a node: {said} said, {walked} walked",
                    machine.ranks_per_node
                )
            };
            assert!((0.4..=2.5).contains(&ratio), "{}", text());
            let mut far = far.borrow_mut();
            far.0 += u32::from(!(0.75..=1.33).contains(&ratio));
            far.1 += 1;
        });
        let (far, all) = far.into_inner();
        assert!(far * 10 < all, "{far} of {all} differ by more than a third");
    }

    /// Nodes, and ranks on each: more than `oxmpi tune` walks by default.
    const LARGE: [(u32, u32); 8] =
        [(1, 48), (1, 64), (1, 100), (1, 256), (6, 8), (8, 8), (25, 4), (16, 16)];

    #[test]
    fn winners_by_formula_lose_little() {
        let found = RefCell::new(BTreeMap::<(Cell, u32), Vec<(f64, f64)>>::new());
        compare(&SHAPES, |cell, machine, _, said, walked| {
            found
                .borrow_mut()
                .entry((*cell, machine.ranks_per_node))
                .or_default()
                .push((said, walked));
        });
        for (cell, times) in found.into_inner() {
            let best = times.iter().map(|time| time.1).fold(f64::INFINITY, f64::min);
            let chosen = times.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
            assert!(chosen <= best * 1.6, "{cell:?}: {chosen} instead of {best}");
        }
    }

    mod night {
        use super::*;

        #[test]
        #[ignore = "cargo xtask nightly"]
        fn formulas_approximate_the_cost_of_the_plans_of_many_ranks() {
            compare(&LARGE, |cell, machine, id, said, walked| {
                let off = (said / walked).max(walked / said);
                let q = machine.ranks_per_node;
                assert!(off <= 1.5, "{id} {cell}, {q} a node: {said} said, {walked} walked");
            });
        }
    }
}
