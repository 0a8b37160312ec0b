//! The comparison of the variants of one call, round by round. The result depends on the times
//! alone, which the caller passes in.
//!
//! 1. The first round warms up connections and caches and gives the approximate time of each
//!    variant.
//! 2. A round measures all remaining variants one after another, so that drift affects all alike;
//!    each round begins with another variant. Slow variants are repeated less within a round.
//! 3. After a round, a variant is dropped if its best time exceeds the leader's median by a factor
//!    ([`DROP_FACTORS`]) that becomes smaller with each round. The fixed choice stays for
//!    [`MIN_ROUNDS`] counted rounds, and then unless its best time is twice the leader's median:
//!    the rules are compared with the fixed choice, so a single disturbance must not decide its
//!    time.
//! 4. The comparison ends when one variant remains, after [`MAX_ROUNDS`] counted rounds, or when
//!    its time is used up.

use crate::calls::{Cell, Variant};

/// Counted rounds before the time limit may end a comparison.
const MIN_ROUNDS: usize = 3;
const MAX_ROUNDS: usize = 11;
/// After each counted round, a variant is dropped if its best time is this factor above the
/// leader's median. Two disturbances in a row happen, three hardly ever.
const DROP_FACTORS: [f64; 5] = [8.0, 8.0, 1.5, 1.25, 1.1];
/// The smallest such factor for the fixed choice.
const FIXED_DROP_FACTOR: f64 = 2.0;
const MAX_CALLS: u32 = 200;

/// One round of a comparison: the runs to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuringRound {
    pub cell: Cell,
    pub runs: Vec<(Variant, u32)>,
}

/// The comparison of the variants of one call.
#[derive(Clone, Debug)]
pub struct VariantComparison {
    cell: Cell,
    runs: Vec<Contender>,
    rounds: usize,
    /// The time of all runs so far, and its limit.
    spent_ns: f64,
    budget_ns: f64,
}

#[derive(Clone, Debug)]
struct Contender {
    variant: Variant,
    first_ns: f64,
    times_ns: Vec<f64>,
    is_in: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub cell: Cell,
    /// The measured variants and their times. The first is the fixed choice.
    pub times: Vec<(Variant, Timing)>,
}

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    pub median_ns: f64,
    /// Half of the distance between the quartiles.
    pub spread_ns: f64,
    pub least_ns: f64,
}

impl Timing {
    /// A time without spread, as a model gives it.
    pub const fn exact(median_ns: f64) -> Timing {
        Timing { median_ns, spread_ns: 0.0, least_ns: median_ns }
    }

    /// The time of several runs; `None` without runs.
    pub fn of(times_ns: &[f64]) -> Option<Timing> {
        let mut sorted = times_ns.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            sorted.get(((sorted.len().checked_sub(1)?) as f64 * part).round() as usize).copied()
        };
        Some(Timing {
            median_ns: at(0.5)?,
            spread_ns: (at(0.75)? - at(0.25)?) / 2.0,
            least_ns: at(0.0)?,
        })
    }
}

impl VariantComparison {
    /// A comparison that may take `budget_ns` nanoseconds.
    pub fn new(cell: Cell, variants: Vec<Variant>, budget_ns: f64) -> VariantComparison {
        let contender = |variant| Contender {
            variant,
            first_ns: f64::INFINITY,
            times_ns: Vec::new(),
            is_in: true,
        };
        VariantComparison {
            cell,
            runs: variants.into_iter().map(contender).collect(),
            rounds: 0,
            spent_ns: 0.0,
            budget_ns,
        }
    }

    /// The next round; `None` at the end.
    pub fn next_round(&self) -> Option<MeasuringRound> {
        let mut live: Vec<&Contender> = self.runs.iter().filter(|run| run.is_in).collect();
        let is_over = match self.rounds {
            0 => false,
            rounds if rounds > MAX_ROUNDS => true,
            rounds => live.len() < 2 || (rounds > MIN_ROUNDS && self.spent_ns >= self.budget_ns),
        };
        if is_over {
            return None;
        }
        let shift = self.rounds % live.len().max(1);
        live.rotate_left(shift);
        // The remaining time is shared by all remaining variants and rounds.
        let left = (self.budget_ns - self.spent_ns).max(0.0);
        let rounds = (MAX_ROUNDS + 1).saturating_sub(self.rounds).max(1);
        let slice_ns = left / (live.len().max(1) * rounds) as f64;
        let calls = |run: &Contender| match self.rounds {
            0 => 1,
            _ => ((slice_ns / run.first_ns.max(1.0)) as u32).clamp(1, MAX_CALLS),
        };
        Some(MeasuringRound {
            cell: self.cell,
            runs: live.into_iter().map(|run| (run.variant, calls(run))).collect(),
        })
    }

    /// Takes the times of the last [`VariantComparison::next_round`]: of one call for each run, in
    /// the order of the runs, and of the whole round. Returns false if they do not fit the round.
    #[must_use]
    pub fn take(&mut self, round: &MeasuringRound, times_ns: &[f64], all_ns: f64) -> bool {
        if round.runs.len() != times_ns.len() {
            return false;
        }
        for ((variant, _), time) in round.runs.iter().zip(times_ns) {
            let Some(run) = self.runs.iter_mut().find(|run| run.variant == *variant) else {
                return false;
            };
            match self.rounds {
                0 => run.first_ns = *time,
                _ => run.times_ns.push(*time),
            }
        }
        self.rounds += 1;
        self.spent_ns += all_ns;
        self.drop_slow();
        true
    }

    fn drop_slow(&mut self) {
        let counted = self.rounds - 1;
        let medians =
            self.runs.iter().filter(|run| run.is_in).filter_map(|run| Timing::of(&run.times_ns));
        let Some(leader) = medians.map(|time| time.median_ns).min_by(f64::total_cmp) else {
            // The first round drops only variants that are 20 times slower than the fastest.
            let least = self.runs.iter().map(|run| run.first_ns).fold(f64::INFINITY, f64::min);
            for run in self.runs.iter_mut().skip(1) {
                run.is_in = run.first_ns <= least * 20.0;
            }
            return;
        };
        let factor = DROP_FACTORS[(counted - 1).min(DROP_FACTORS.len() - 1)];
        for (at, run) in self.runs.iter_mut().enumerate() {
            let best = run.times_ns.iter().copied().fold(f64::INFINITY, f64::min);
            let limit = match at {
                0 if counted < MIN_ROUNDS => f64::INFINITY,
                0 => factor.max(FIXED_DROP_FACTOR),
                _ => factor,
            };
            run.is_in = run.is_in && best <= leader * limit;
        }
    }

    /// The times of all variants that have a counted round, and of the fixed choice.
    pub fn outcome(&self) -> Outcome {
        let time = |(at, run): (usize, &Contender)| {
            let time =
                Timing::of(&run.times_ns).or((at == 0).then_some(Timing::exact(run.first_ns)))?;
            Some((run.variant, time))
        };
        Outcome { cell: self.cell, times: self.runs.iter().enumerate().filter_map(time).collect() }
    }

    /// The time of all runs so far, in nanoseconds.
    pub fn spent_ns(&self) -> f64 {
        self.spent_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::variants;
    use oxmpi_plan::Collective;

    /// Random times; 5 % of them are five times too long.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn of(&mut self, true_ns: f64) -> f64 {
            let far = if self.next() < 0.05 { 5.0 } else { 1.0 };
            true_ns * (1.0 + 0.04 * self.next()) * far
        }
    }

    fn cell() -> Cell {
        Cell { ranks: 8, collective: Collective::Allreduce, bytes: 4096 }
    }

    /// Runs a comparison in which variant number `v` takes `truth(v)`; returns the number of calls
    /// of each variant.
    fn run(
        seed: u64,
        budget_ns: f64,
        truth: impl Fn(usize) -> f64,
    ) -> (VariantComparison, Vec<u32>) {
        let all = variants(&cell());
        let mut noise = Noise(seed);
        let mut comparison = VariantComparison::new(cell(), all.clone(), budget_ns);
        let mut calls = vec![0; all.len()];
        while let Some(round) = comparison.next_round() {
            let mut times = Vec::new();
            let mut spent = 0.0;
            for (variant, count) in &round.runs {
                let at = all.iter().position(|v| v == variant).unwrap();
                calls[at] += count;
                let time = noise.of(truth(at));
                spent += time * f64::from(*count);
                times.push(time);
            }
            assert!(comparison.take(&round, &times, spent));
        }
        (comparison, calls)
    }

    #[test]
    fn the_fastest_variant_wins_and_slow_variants_are_measured_less() {
        for seed in 1..200 {
            let truth = |at: usize| if at == 3 { 1000.0 } else { 1300.0 + 400.0 * at as f64 };
            let (comparison, calls) = run(seed, 1e8, truth);
            let outcome = comparison.outcome();
            let best = outcome
                .times
                .iter()
                .min_by(|a, b| a.1.median_ns.total_cmp(&b.1.median_ns))
                .unwrap();
            assert_eq!(best.0, variants(&cell())[3], "seed {seed}: {outcome:?}");
            assert!(calls[3] >= calls[6], "seed {seed}: {calls:?}");
            assert!(outcome.times.iter().any(|(variant, _)| *variant == Variant::FIXED));
        }
    }

    #[test]
    fn one_disturbance_does_not_decide_the_time_of_the_fixed_choice() {
        let mut comparison = VariantComparison::new(cell(), variants(&cell()), 0.0);
        for index in 0.. {
            let Some(round) = comparison.next_round() else { break };
            let time = |variant: &Variant| {
                if *variant == Variant::FIXED && index == 1 { 60_000.0 } else { 1000.0 }
            };
            let times: Vec<f64> = round.runs.iter().map(|(variant, _)| time(variant)).collect();
            assert!(comparison.take(&round, &times, 1.0));
        }
        let (_, fixed) = comparison.outcome().times[0];
        assert_eq!((fixed.median_ns, fixed.least_ns), (1000.0, 1000.0));
    }

    #[test]
    fn close_variants_are_repeated_until_the_time_is_used_up() {
        let (comparison, calls) = run(7, 1e8, |at| if at < 2 { 1000.0 } else { 9000.0 });
        assert!(calls[0] > 100 && calls[1] > 100, "{calls:?}");
        assert!(calls[2..].iter().all(|few| *few * 4 < calls[0]), "{calls:?}");
        assert!(comparison.spent_ns() < 2e8);
    }

    #[test]
    fn a_comparison_without_time_ends() {
        let (comparison, calls) = run(3, 0.0, |at| 10.0_f64.powi(at as i32));
        assert!(calls.iter().all(|calls| *calls <= 1 + MIN_ROUNDS as u32 + MAX_ROUNDS as u32));
        assert!(!comparison.outcome().times.is_empty());
        assert_eq!(calls[5], 1);
    }

    #[test]
    fn times_of_another_number_of_runs_are_refused() {
        let mut comparison = VariantComparison::new(cell(), variants(&cell()), 1.0);
        let round = comparison.next_round().unwrap();
        assert!(!comparison.take(&round, &[1.0], 1.0));
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(Timing::of(&[]), None);
        assert_eq!(
            Timing::of(&[3.0, 1.0, 2.0, 100.0, 2.0]),
            Some(Timing { median_ns: 2.0, spread_ns: 0.5, least_ns: 1.0 })
        );
    }
}
