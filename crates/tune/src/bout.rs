//! The comparison of the ways to serve one call, round by round. Pure: times come from outside, and nothing else decides.
//!
//! 1. The first round only shows how long each takes, and warms up connections and caches.
//! 2. A round measures all that are still in it one after the other, so that drift hits all alike, each round beginning with
//!    another. What takes long is repeated less within a round.
//! 3. After a round those leave whose best time is beaten clearly by the median of the leader. The longer it lasts the less
//!    is clearly. The fixed choice stays for as many rounds as count at least, and then unless it is beaten twice over: the
//!    rules are written against it, and one disturbance of it must not become one.
//! 4. It ends when one is left, when nobody could be told from the leader any better, or when its time is up.

use crate::question::{Cell, Variant};

/// Rounds that count before anything is decided.
const FEWEST: usize = 3;
/// Rounds that count, at most.
const MOST: usize = 11;
/// How many times the leader's median the best time of one that stays may be, after each round that counts. Two disturbances
/// in a row happen, three do hardly.
const CLEARLY: [f64; 5] = [8.0, 8.0, 1.5, 1.25, 1.1];
/// The same for the fixed choice.
const CLEARLY_FIXED: f64 = 2.0;
/// Calls in a row, at most.
const MOST_CALLS: u32 = 200;

/// What is to be measured next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The call.
    pub cell: Cell,
    /// The ways to serve it, and how often each.
    pub runs: Vec<(Variant, u32)>,
}

/// A comparison.
#[derive(Clone, Debug)]
pub struct Bout {
    cell: Cell,
    runs: Vec<Runner>,
    /// Rounds that are over.
    rounds: usize,
    /// What all took so far, and may take, in nanoseconds.
    spent_ns: f64,
    budget_ns: f64,
}

#[derive(Clone, Debug)]
struct Runner {
    variant: Variant,
    /// Of the first round.
    first_ns: f64,
    times_ns: Vec<f64>,
    is_in: bool,
}

/// How a comparison ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The call.
    pub cell: Cell,
    /// The ways that were measured, and what each takes, in nanoseconds. The first is the fixed choice.
    pub times: Vec<(Variant, Time)>,
}

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// The median, in nanoseconds.
    pub median_ns: f64,
    /// Half of what lies between the quartiles.
    pub spread_ns: f64,
    /// The least: what it takes when nothing disturbs it.
    pub least_ns: f64,
}

impl Time {
    /// Of a model, which does not scatter.
    #[must_use]
    pub const fn exact(median_ns: f64) -> Time {
        Time { median_ns, spread_ns: 0.0, least_ns: median_ns }
    }

    /// Of several times; none of none.
    #[must_use]
    pub fn of(times_ns: &[f64]) -> Option<Time> {
        let mut sorted = times_ns.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at =
            |part: f64| sorted.get(((sorted.len().checked_sub(1)?) as f64 * part).round() as usize).copied();
        Some(Time { median_ns: at(0.5)?, spread_ns: (at(0.75)? - at(0.25)?) / 2.0, least_ns: at(0.0)? })
    }
}

impl Bout {
    /// A comparison that may take so long.
    #[must_use]
    pub fn new(cell: Cell, variants: Vec<Variant>, budget_ns: f64) -> Bout {
        let runner = |variant| Runner { variant, first_ns: f64::INFINITY, times_ns: Vec::new(), is_in: true };
        Bout { cell, runs: variants.into_iter().map(runner).collect(), rounds: 0, spent_ns: 0.0, budget_ns }
    }

    /// The next round; none when it is over.
    #[must_use]
    pub fn ask(&self) -> Option<Ask> {
        let mut live: Vec<&Runner> = self.runs.iter().filter(|run| run.is_in).collect();
        let is_over = match self.rounds {
            0 => false,
            rounds if rounds > MOST => true,
            rounds => live.len() < 2 || (rounds > FEWEST && self.spent_ns >= self.budget_ns),
        };
        if is_over {
            return None;
        }
        let shift = self.rounds % live.len().max(1);
        live.rotate_left(shift);
        // What is left is shared by all that are in it and the rounds that may come.
        let left = (self.budget_ns - self.spent_ns).max(0.0);
        let rounds = (MOST + 1).saturating_sub(self.rounds).max(1);
        let slice_ns = left / (live.len().max(1) * rounds) as f64;
        let calls = |run: &Runner| match self.rounds {
            0 => 1,
            _ => ((slice_ns / run.first_ns.max(1.0)) as u32).clamp(1, MOST_CALLS),
        };
        Some(Ask { cell: self.cell, runs: live.into_iter().map(|run| (run.variant, calls(run))).collect() })
    }

    /// Takes what the runs of the last [`Bout::ask`] took, in its order, each for one call, and all together.
    ///
    /// Returns whether there is one time for each.
    #[must_use]
    pub fn take(&mut self, asked: &Ask, times_ns: &[f64], all_ns: f64) -> bool {
        if asked.runs.len() != times_ns.len() {
            return false;
        }
        for ((variant, _), time) in asked.runs.iter().zip(times_ns) {
            let Some(run) = self.runs.iter_mut().find(|run| run.variant == *variant) else { return false };
            match self.rounds {
                0 => run.first_ns = *time,
                _ => run.times_ns.push(*time),
            }
        }
        self.rounds += 1;
        self.spent_ns += all_ns;
        self.drop_beaten();
        true
    }

    fn drop_beaten(&mut self) {
        let counted = self.rounds - 1;
        let medians = self.runs.iter().filter(|run| run.is_in).filter_map(|run| Time::of(&run.times_ns));
        let Some(leader) = medians.map(|time| time.median_ns).min_by(f64::total_cmp) else {
            // Of the first round only those leave that are hopeless.
            let least = self.runs.iter().map(|run| run.first_ns).fold(f64::INFINITY, f64::min);
            for run in self.runs.iter_mut().skip(1) {
                run.is_in = run.first_ns <= least * 20.0;
            }
            return;
        };
        let clearly = CLEARLY[(counted - 1).min(CLEARLY.len() - 1)];
        for (at, run) in self.runs.iter_mut().enumerate() {
            let best = run.times_ns.iter().copied().fold(f64::INFINITY, f64::min);
            let limit = match at {
                0 if counted < FEWEST => f64::INFINITY,
                0 => clearly.max(CLEARLY_FIXED),
                _ => clearly,
            };
            run.is_in = run.is_in && best <= leader * limit;
        }
    }

    /// What was found out. Ways that were never measured in a round that counts are left out, but the fixed choice.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let time = |(at, run): (usize, &Runner)| {
            let time = Time::of(&run.times_ns).or((at == 0).then_some(Time::exact(run.first_ns)))?;
            Some((run.variant, time))
        };
        Outcome { cell: self.cell, times: self.runs.iter().enumerate().filter_map(time).collect() }
    }

    /// What all took so far, in nanoseconds.
    #[must_use]
    pub fn spent_ns(&self) -> f64 {
        self.spent_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::variants;
    use oxmpi_plan::Collective;

    /// Times that scatter by a seed: now and then one is far off.
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

    /// Runs a comparison in which variant number `v` takes `truth(v)`; returns the number of calls of each.
    fn run(seed: u64, budget_ns: f64, truth: impl Fn(usize) -> f64) -> (Bout, Vec<u32>) {
        let all = variants(&cell());
        let mut noise = Noise(seed);
        let mut bout = Bout::new(cell(), all.clone(), budget_ns);
        let mut calls = vec![0; all.len()];
        while let Some(ask) = bout.ask() {
            let mut times = Vec::new();
            let mut spent = 0.0;
            for (variant, count) in &ask.runs {
                let at = all.iter().position(|v| v == variant).unwrap();
                calls[at] += count;
                let time = noise.of(truth(at));
                spent += time * f64::from(*count);
                times.push(time);
            }
            assert!(bout.take(&ask, &times, spent));
        }
        (bout, calls)
    }

    #[test]
    fn the_fastest_is_found_whatever_the_seed_and_the_slow_are_measured_less() {
        for seed in 1..200 {
            let truth = |at: usize| if at == 3 { 1000.0 } else { 1300.0 + 400.0 * at as f64 };
            let (bout, calls) = run(seed, 1e8, truth);
            let outcome = bout.outcome();
            let best = outcome.times.iter().min_by(|a, b| a.1.median_ns.total_cmp(&b.1.median_ns)).unwrap();
            assert_eq!(best.0, variants(&cell())[3], "seed {seed}: {outcome:?}");
            assert!(calls[3] >= calls[6], "seed {seed}: {calls:?}");
            assert!(outcome.times.iter().any(|(variant, _)| *variant == Variant::FIXED));
        }
    }

    #[test]
    fn one_disturbance_of_the_fixed_choice_is_not_taken_for_its_time() {
        let mut bout = Bout::new(cell(), variants(&cell()), 0.0);
        for round in 0.. {
            let Some(ask) = bout.ask() else { break };
            let time =
                |variant: &Variant| if *variant == Variant::FIXED && round == 1 { 60_000.0 } else { 1000.0 };
            let times: Vec<f64> = ask.runs.iter().map(|(variant, _)| time(variant)).collect();
            assert!(bout.take(&ask, &times, 1.0));
        }
        let (_, fixed) = bout.outcome().times[0];
        assert_eq!((fixed.median_ns, fixed.least_ns), (1000.0, 1000.0));
    }

    #[test]
    fn close_ones_are_repeated_to_the_end_of_the_time() {
        let (bout, calls) = run(7, 1e8, |at| if at < 2 { 1000.0 } else { 9000.0 });
        assert!(calls[0] > 100 && calls[1] > 100, "{calls:?}");
        assert!(calls[2..].iter().all(|few| *few * 4 < calls[0]), "{calls:?}");
        assert!(bout.spent_ns() < 2e8);
    }

    #[test]
    fn it_ends_without_time_and_with_hopeless_ones() {
        let (bout, calls) = run(3, 0.0, |at| 10.0_f64.powi(at as i32));
        assert!(calls.iter().all(|calls| *calls <= 1 + FEWEST as u32 + MOST as u32));
        assert!(!bout.outcome().times.is_empty());
        // Far off in the first round: never measured again.
        assert_eq!(calls[5], 1);
    }

    #[test]
    fn answers_of_another_length_are_refused() {
        let mut bout = Bout::new(cell(), variants(&cell()), 1.0);
        let ask = bout.ask().unwrap();
        assert!(!bout.take(&ask, &[1.0], 1.0));
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(Time::of(&[]), None);
        assert_eq!(
            Time::of(&[3.0, 1.0, 2.0, 100.0, 2.0]),
            Some(Time { median_ns: 2.0, spread_ns: 0.5, least_ns: 1.0 })
        );
    }
}
