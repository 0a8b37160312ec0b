//! The costs of the variants of a call, by the model of a machine.
//!
//! Up to some number of ranks, the plans of all ranks are walked ([`oxmpi_plan::cost`]): the time
//! and memory grow with the number of messages, which is the square of the ranks for some
//! algorithms. Above, the formulas ([`crate::formula`]) take the same time for any number of ranks.
//! A test compares both.

use crate::calls::{Cell, Variant, variants};
use crate::comparison::{Outcome, Timing};
use crate::formula::formula;
use crate::model::CostModel;
use oxmpi_plan::AlgorithmId;
use oxmpi_plan::cost::{LogGp, Machine, estimate};
use oxmpi_tuned::Tuning;

/// The default machine: nodes on a network of 100 Gbit/s.
pub const MACHINE: Machine = Machine {
    ranks_per_node: 1,
    inside: LogGp { latency_ns: 150.0, overhead_ns: 60.0, gap_ns: 30.0, byte_ns: 0.1 },
    between: LogGp { latency_ns: 1000.0, overhead_ns: 200.0, gap_ns: 50.0, byte_ns: 0.08 },
    copy_byte_ns: 0.1,
    reduce_byte_ns: 0.15,
};

/// The default of the largest number of ranks whose plans are walked.
pub const WALKED_RANKS: u32 = 32;

pub const MAX_RANKS: u32 = 1 << 20;

/// The largest number of walked ranks: with 4096 ranks, some algorithms have 16 million messages.
pub const MAX_WALKED_RANKS: u32 = 4096;

/// The costs of all variants of a call. Plans are walked up to `walked_ranks` ranks.
pub fn outcome(machine: &Machine, cell: &Cell, walked_ranks: u32) -> Outcome {
    let time = |variant: Variant| {
        let algorithm = variant.algorithm.unwrap_or_else(|| cell.fixed());
        Some((
            variant,
            Timing::exact(cost_ns(machine, cell, algorithm, variant.tuning, walked_ranks)?),
        ))
    };
    Outcome { cell: *cell, times: variants(cell).into_iter().filter_map(time).collect() }
}

/// `None` if the algorithm cannot serve the call.
fn cost_ns(
    machine: &Machine,
    cell: &Cell,
    algorithm: AlgorithmId,
    tuning: Tuning,
    walked_ranks: u32,
) -> Option<f64> {
    if cell.ranks > walked_ranks {
        return Some(formula(algorithm)?.cost_ns(&CostModel::new(machine, cell, tuning)));
    }
    let parameters = tuning.parameters(cell.element());
    estimate(machine, algorithm, cell.ranks, &cell.call()?, cell.element(), &parameters).ok()
}

/// The numbers of ranks to compare: powers of two within a node, then of nodes, and the largest of
/// both.
pub fn ranks(nodes: u32, ranks_per_node: u32) -> Vec<u32> {
    let doublings = |end: u32| {
        std::iter::successors(Some(1_u32), |n| n.checked_mul(2)).take_while(move |n| *n < end)
    };
    let within = doublings(ranks_per_node).chain([ranks_per_node]);
    let across = doublings(nodes).chain([nodes]).map(|nodes| nodes * ranks_per_node);
    let mut all: Vec<u32> = within.chain(across).filter(|ranks| *ranks > 1).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{cells, sizes};
    use crate::winner::rules;
    use oxmpi_plan::Collective;
    use oxmpi_tuned::Rules;
    use oxmpi_tuned::collectives::TUNABLE;
    use oxmpi_tuned::write::Version;

    #[test]
    fn numbers_of_ranks_fill_nodes_first() {
        assert_eq!(ranks(4, 6), [2, 4, 6, 12, 24]);
        assert_eq!(ranks(3, 1), [2, 3]);
        assert_eq!(ranks(1, 1), [0; 0]);
    }

    /// All collectives with up to a million ranks give valid rules.
    #[test]
    fn a_million_ranks_are_within_reach() {
        let machine = Machine { ranks_per_node: 64, ..MACHINE };
        let collectives = TUNABLE.map(|row| row.collective);
        let all = cells(
            &collectives,
            &ranks(1 << 14, 64),
            &sizes(8, 1 << 20),
            crate::calls::MAX_BUFFER_BYTES,
        );
        assert_eq!(all.iter().map(|cell| cell.ranks).max(), Some(1 << 20));
        let outcomes: Vec<Outcome> = all.iter().map(|cell| outcome(&machine, cell, 8)).collect();
        for outcome in &outcomes {
            assert!(
                outcome
                    .times
                    .iter()
                    .all(|(_, time)| time.median_ns.is_finite() && time.median_ns > 0.0)
            );
        }
        let text = rules("f", &outcomes).to_classic(Version::Two).unwrap();
        assert_eq!(Rules::parse("f", text.as_bytes()).unwrap().warnings, []);
    }

    #[test]
    fn a_walk_and_a_formula_agree_on_a_simple_call() {
        let machine = Machine { ranks_per_node: 1, ..MACHINE };
        let cell = Cell { ranks: 16, collective: Collective::Bcast, bytes: 64 };
        let of = |walked| {
            let outcome = outcome(&machine, &cell, walked);
            let binomial = outcome
                .times
                .iter()
                .find(|(v, _)| v.algorithm.is_some_and(|a| a.algorithm().name == "binomial"));
            binomial.unwrap().1.median_ns
        };
        assert!((of(16) - of(8)).abs() < 1.0);
    }
}
