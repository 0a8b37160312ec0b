//! The winner of each comparison, and the rules of the winners.

use crate::calls::{Cell, Variant};
use crate::comparison::{Outcome, Timing};
use oxmpi_plan::table::Parameter;
use oxmpi_plan::{AlgorithmId, Collective};
use oxmpi_tuned::collectives::{Measure, TUNABLE, index_of};
use oxmpi_tuned::rules::{CommRules, Matching, MessageRule, SizeRange};
use oxmpi_tuned::{Distribution, Position, Rules};

/// A winner must be faster than the fixed choice by this part of the fixed choice's time.
pub const LEAST_GAIN: f64 = 0.05;

/// The best variant of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Winner {
    pub cell: Cell,
    /// The variant for a rule; [`Variant::FIXED`] for no rule.
    pub variant: Variant,
    /// The times of the variant and of the fixed choice, in nanoseconds.
    pub best_ns: f64,
    pub fixed_ns: f64,
}

impl Winner {
    /// The algorithm of the variant, or of the fixed cut-offs.
    pub fn algorithm(&self) -> AlgorithmId {
        self.variant.algorithm.unwrap_or_else(|| self.cell.fixed())
    }
}

/// The winner of a comparison among the variants that `may` accepts. Its median must be better than
/// that of the fixed choice by more than the spread of both and by [`LEAST_GAIN`], and its least
/// time by [`LEAST_GAIN`]: on a machine with other load, medians alone are random.
pub fn winner(outcome: &Outcome, may: impl Fn(&Variant) -> bool) -> Option<Winner> {
    let (_, fixed) = *outcome.times.iter().find(|(variant, _)| *variant == Variant::FIXED)?;
    let others =
        outcome.times.iter().filter(|(variant, _)| variant.algorithm.is_some() && may(variant));
    let best = others.min_by(|a, b| a.1.median_ns.total_cmp(&b.1.median_ns));
    let is_worth = |time: &Timing| {
        let gain = fixed.median_ns - time.median_ns;
        let gain_at_best = fixed.least_ns - time.least_ns;
        gain > fixed.median_ns * LEAST_GAIN
            && gain > fixed.spread_ns + time.spread_ns
            && gain_at_best > fixed.least_ns * LEAST_GAIN
    };
    let (variant, best_ns) = match best.filter(|(_, time)| is_worth(time)) {
        Some((variant, time)) => (*variant, time.median_ns),
        None => (Variant::FIXED, fixed.median_ns),
    };
    Some(Winner { cell: outcome.cell, variant, best_ns, fixed_ns: fixed.median_ns })
}

/// Merges comparisons with the same key in rules files. For some collectives (scans, alltoallv),
/// the message size in the key does not depend on the bytes of the call. Their times are divided by
/// that of the fixed choice; the geometric mean over all sizes counts, for variants measured at all
/// sizes.
fn by_key(outcomes: &[Outcome]) -> Vec<Outcome> {
    let mut all: Vec<Outcome> = Vec::new();
    let mut rest = outcomes;
    while let Some(first) = rest.first() {
        let key = |outcome: &Outcome| {
            (outcome.cell.ranks, outcome.cell.collective, outcome.cell.facts().message_size)
        };
        let same = rest.iter().take_while(|outcome| key(outcome) == key(first)).count();
        let (group, others) = rest.split_at(same);
        rest = others;
        all.push(if same == 1 { first.clone() } else { averaged(group) });
    }
    all
}

fn averaged(group: &[Outcome]) -> Outcome {
    let relative = |outcome: &Outcome, variant: &Variant| {
        let of = |wanted: &Variant| {
            outcome.times.iter().find(|(variant, _)| variant == wanted).map(|(_, time)| *time)
        };
        let (time, fixed) = (of(variant)?, of(&Variant::FIXED)?);
        let fixed_ns = fixed.median_ns.max(1e-3);
        Some([time.median_ns, time.least_ns, time.spread_ns].map(|ns| ns.max(1e-3) / fixed_ns))
    };
    let mean = |variant: &Variant| {
        let parts: Vec<[f64; 3]> =
            group.iter().map(|outcome| relative(outcome, variant)).collect::<Option<_>>()?;
        let how_many = parts.len() as f64;
        let mean =
            |of: usize| (parts.iter().map(|part| part[of].ln()).sum::<f64>() / how_many).exp();
        let spread_ns = parts.iter().map(|part| part[2]).sum::<f64>() / how_many;
        Some(Timing { median_ns: mean(0), spread_ns, least_ns: mean(1) })
    };
    let times =
        group[0].times.iter().filter_map(|(variant, _)| Some((*variant, mean(variant)?))).collect();
    Outcome { cell: group[0].cell, times }
}

/// The rules of the winners. `outcomes` are sorted by ranks, then collectives, then bytes.
///
/// Neighbouring sizes with the same winner share a rule. The rule of a size extends to the next
/// size; the first also to all smaller sizes, the last to all larger. The rules of a number of
/// ranks extend to the next measured number, with winners that serve any number of ranks; there is
/// no rule above the largest number. There is no rule where the fixed choice is as good.
pub fn rules(file: &str, outcomes: &[Outcome]) -> Rules {
    let outcomes = by_key(outcomes);
    let mut rules = Rules::new(file, Matching::First);
    let mut ranks: Vec<u32> = outcomes.iter().map(|outcome| outcome.cell.ranks).collect();
    ranks.dedup();
    for row in TUNABLE {
        let Some(all) = index_of(row.collective).map(|index| &mut rules.collectives[index]) else {
            continue;
        };
        for (at, &here) in ranks.iter().enumerate() {
            let mine: Vec<&Outcome> = outcomes
                .iter()
                .filter(|outcome| {
                    outcome.cell.ranks == here && outcome.cell.collective == row.collective
                })
                .collect();
            // Up to the next measured number.
            let last = ranks.get(at + 1).map_or(u64::from(here), |next| u64::from(*next) - 1);
            let exact = messages(row.collective, &mine, |_| true);
            let between = messages(row.collective, &mine, Variant::serves_any_ranks);
            let here = u64::from(here);
            let parts = match exact == between {
                true => vec![(here, last, exact)],
                false => vec![(here, here, exact), (here + 1, last, between)],
            };
            for (min, max, messages) in parts {
                if min <= max && !messages.is_empty() {
                    all.push(CommRules {
                        ranks: SizeRange { min, max },
                        distribution: Distribution::Any,
                        messages,
                    });
                }
            }
        }
    }
    rules
}

/// The rules for the message sizes of one number of ranks; empty if the fixed choice is as good for
/// all.
fn messages(
    collective: Collective,
    outcomes: &[&Outcome],
    may: impl Fn(&Variant) -> bool,
) -> Vec<MessageRule> {
    let winners: Vec<Winner> =
        outcomes.iter().filter_map(|outcome| winner(outcome, &may)).collect();
    let mut all: Vec<(u64, Variant)> = Vec::new();
    for winner in &winners {
        if all.last().is_none_or(|(_, variant)| *variant != winner.variant) {
            let from = if all.is_empty() { 0 } else { message_size(collective, &winner.cell) };
            all.push((from, winner.variant));
        }
    }
    let end = |at: usize| all.get(at + 1).map_or(u64::MAX, |(next, _)| next - 1);
    let rule = |(at, (min, variant)): (usize, &(u64, Variant))| {
        let algorithm = variant.algorithm?;
        let uses_requests = algorithm.algorithm().uses(Parameter::MaxRequests);
        Some(MessageRule {
            sizes: SizeRange { min: *min, max: end(at) },
            algorithm: Some(algorithm),
            fan_out: variant.tuning.fan_out,
            segment_bytes: variant.tuning.segment_bytes,
            max_requests: uses_requests.then_some(variant.tuning.max_requests),
            at: Position { line: 0, column: 0 },
        })
    };
    all.iter().enumerate().filter_map(rule).collect()
}

fn message_size(collective: Collective, cell: &Cell) -> u64 {
    match index_of(collective).map(|index| TUNABLE[index].measure) {
        // The only size of its communicator: the rule is for all sizes.
        None | Some(Measure::TypeByRanks | Measure::Unused) => 0,
        Some(Measure::Buffer | Measure::AllBlocks | Measure::Sum) => cell.facts().message_size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_plan::table::by_name;
    use oxmpi_tuned::selection::Reason;
    use oxmpi_tuned::write::Version;
    use oxmpi_tuned::{Selection, Tuning};

    fn variant(collective: Collective, name: &str) -> Variant {
        Variant { algorithm: Some(by_name(collective, name).unwrap()), tuning: Tuning::default() }
    }

    fn outcome(
        ranks: u32,
        collective: Collective,
        bytes: usize,
        fixed: f64,
        others: &[(&str, f64)],
    ) -> Outcome {
        let mut times = vec![(Variant::FIXED, Timing::exact(fixed))];
        times.extend(
            others.iter().map(|(name, ns)| (variant(collective, name), Timing::exact(*ns))),
        );
        Outcome { cell: Cell { ranks, collective, bytes }, times }
    }

    #[test]
    fn a_variant_within_the_noise_of_the_fixed_choice_does_not_win() {
        let of = |fixed, spread, best| {
            let mut outcome =
                outcome(4, Collective::Bcast, 8, fixed, &[("chain", best), ("pipeline", 9e9)]);
            outcome.times[0].1.spread_ns = spread;
            winner(&outcome, |_| true).unwrap().variant
        };
        assert_eq!(of(100.0, 0.0, 97.0), Variant::FIXED);
        assert_eq!(of(100.0, 0.0, 90.0), variant(Collective::Bcast, "chain"));
        assert_eq!(of(100.0, 20.0, 90.0), Variant::FIXED);
        // Often disturbed, but its least time is as good.
        let mut outcome = outcome(4, Collective::Bcast, 8, 100.0, &[("chain", 50.0)]);
        outcome.times[0].1.least_ns = 48.0;
        assert_eq!(winner(&outcome, |_| true).unwrap().variant, Variant::FIXED);
        assert_eq!(of(100.0, 0.0, 110.0), Variant::FIXED);
    }

    #[test]
    fn neighbouring_sizes_with_one_winner_share_a_rule_and_ties_have_none() {
        let c = Collective::Allreduce;
        let (ring, linear) = ("ring", "basic_linear");
        let all = [
            outcome(4, c, 8, 10.0, &[(linear, 5.0), (ring, 8.0)]),
            outcome(4, c, 32, 10.0, &[(linear, 5.0), (ring, 8.0)]),
            outcome(4, c, 128, 10.0, &[(linear, 10.0)]),
            outcome(4, c, 512, 10.0, &[(ring, 2.0)]),
            outcome(4, c, 2048, 10.0, &[(ring, 1.0)]),
            outcome(8, c, 8, 10.0, &[(ring, 9.9)]),
            outcome(8, c, 32, 10.0, &[]),
        ];
        let rules = rules("f", &all);
        let [comm] = &rules.collectives[index_of(c).unwrap()][..] else { panic!("{rules:?}") };
        assert_eq!(comm.ranks, SizeRange { min: 4, max: 7 });
        let said: Vec<_> = comm
            .messages
            .iter()
            .map(|m| (m.sizes.min, m.sizes.max, m.algorithm.unwrap().algorithm().name))
            .collect();
        assert_eq!(said, [(0, 127, linear), (512, u64::MAX, ring)]);
        assert!(!rules.mentions(Collective::Bcast));
    }

    #[test]
    fn a_winner_for_certain_numbers_of_ranks_gets_a_rule_for_its_number_only() {
        let c = Collective::Allgather;
        let all = [
            outcome(4, c, 8, 10.0, &[("recursive_doubling", 2.0), ("sparbit", 5.0)]),
            outcome(8, c, 8, 10.0, &[("recursive_doubling", 2.0)]),
        ];
        let rules = rules("f", &all);
        let said: Vec<_> = rules.collectives[index_of(c).unwrap()]
            .iter()
            .map(|comm| {
                (
                    comm.ranks.min,
                    comm.ranks.max,
                    comm.messages[0].algorithm.unwrap().algorithm().name,
                )
            })
            .collect();
        assert_eq!(
            said,
            [(4, 4, "recursive_doubling"), (5, 7, "sparbit"), (8, 8, "recursive_doubling")]
        );
    }

    #[test]
    fn collectives_without_message_size_use_the_mean() {
        let c = Collective::Scan;
        let all = [
            outcome(4, c, 8, 10.0, &[("linear", 5.0)]),
            outcome(4, c, 800, 10.0, &[("linear", 12.0)]),
            outcome(8, c, 8, 10.0, &[("linear", 5.0)]),
            outcome(8, c, 800, 10.0, &[("linear", 40.0)]),
        ];
        let rules = rules("f", &all);
        let [comm] = &rules.collectives[index_of(c).unwrap()][..] else { panic!("{rules:?}") };
        assert_eq!(
            (comm.ranks.min, comm.messages.len(), comm.messages[0].sizes),
            (4, 1, SizeRange::from(0))
        );
    }

    #[test]
    fn written_rules_choose_the_winners() {
        let mut all = Vec::new();
        for ranks in [2, 5, 8] {
            for (c, name) in [(Collective::Alltoall, "linear_sync"), (Collective::Bcast, "chain")] {
                for (bytes, ns) in [(8, 3.0), (64, 30.0), (4096, 2.0)] {
                    let mut one = outcome(ranks, c, bytes, 10.0, &[(name, ns)]);
                    one.times[1].0.tuning =
                        Tuning { segment_bytes: 0, fan_out: 3, max_requests: 0 };
                    if c == Collective::Alltoall {
                        one.times[1].0.tuning =
                            Tuning { segment_bytes: 0, fan_out: 0, max_requests: 4 };
                    }
                    all.push(one);
                }
            }
        }
        let made = rules("f", &all);
        for text in [made.to_classic(Version::Two).unwrap(), made.to_json()] {
            let read = Rules::parse("f", text.as_bytes()).unwrap();
            assert_eq!(read.warnings, [], "{text}");
            let selection = Selection::default().with_rules(read.rules);
            for outcome in &all {
                let wanted = winner(outcome, |_| true).unwrap();
                let facts = outcome.cell.facts();
                let decision = selection.decide(&facts).unwrap();
                assert_eq!(
                    matches!(decision.reason, Reason::Fixed(_)),
                    wanted.variant == Variant::FIXED,
                    "{text}"
                );
                assert_eq!(decision.algorithm, wanted.algorithm(), "{:?}\n{text}", outcome.cell);
                assert_eq!(decision.tuning, wanted.variant.tuning);
            }
        }
    }
}
