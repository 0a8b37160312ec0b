//! All comparisons, one after the other. Pure: what it asks next follows from its settings and the answers so far, so the
//! answers written down are all that is needed to go on later.

use crate::bout::{Ask, Bout, Outcome};
use crate::question::{Cell, MOST_BYTES, cells, variants};
use oxmpi_plan::Collective;
use std::collections::VecDeque;

/// What is to be compared, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The collectives.
    pub collectives: Vec<Collective>,
    /// Numbers of ranks, ascending.
    pub ranks: Vec<u32>,
    /// Sizes in bytes, ascending.
    pub sizes: Vec<usize>,
    /// How long all may take, in minutes.
    pub minutes: f64,
    /// Parameters of the jobs that measure: names and values.
    pub mca: Vec<(String, String)>,
}

impl Settings {
    /// The calls to compare.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        cells(&self.collectives, &self.ranks, &self.sizes, MOST_BYTES)
    }
}

/// The comparisons.
#[derive(Clone, Debug)]
pub struct Campaign {
    left: VecDeque<Cell>,
    now: Option<Bout>,
    /// What may be spent yet, in nanoseconds.
    left_ns: f64,
    cells: usize,
    outcomes: Vec<Outcome>,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What each of the runs took for a call, in their order, in nanoseconds.
    pub times_ns: Vec<f64>,
    /// What all of it took, in nanoseconds.
    pub all_ns: f64,
}

impl Campaign {
    /// Before the first comparison.
    #[must_use]
    pub fn new(settings: &Settings) -> Campaign {
        let left: VecDeque<Cell> = settings.cells().into();
        let cells = left.len();
        let left_ns = settings.minutes * 60e9;
        let mut campaign = Campaign { left, now: None, left_ns, cells, outcomes: Vec::new() };
        campaign.go_on();
        campaign
    }

    /// The next thing to measure; none at the end.
    #[must_use]
    pub fn ask(&self) -> Option<Ask> {
        self.now.as_ref()?.ask()
    }

    /// Takes the answer to [`Campaign::ask`]. Returns whether it is one.
    #[must_use]
    pub fn take(&mut self, answer: &Answer) -> bool {
        let Some((ask, bout)) = self.ask().zip(self.now.as_mut()) else { return false };
        if !bout.take(&ask, &answer.times_ns, answer.all_ns) {
            return false;
        }
        self.left_ns -= answer.all_ns;
        if bout.ask().is_none() {
            self.outcomes.push(bout.outcome());
            self.go_on();
        }
        true
    }

    fn go_on(&mut self) {
        // What one comparison does not need is for those to come.
        let share_ns = self.left_ns.max(0.0) / self.left.len().max(1) as f64;
        self.now = self.left.pop_front().map(|cell| Bout::new(cell, variants(&cell), share_ns));
    }

    /// What was found out so far.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Comparisons that are over, and all of them.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.outcomes.len(), self.cells)
    }

    /// What may be spent yet, in seconds.
    #[must_use]
    pub fn left_seconds(&self) -> f64 {
        self.left_ns.max(0.0) / 1e9
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> Settings {
        Settings {
            collectives: vec![Collective::Barrier, Collective::Bcast],
            ranks: vec![2, 4],
            sizes: vec![8, 32],
            minutes: 0.001,
            mca: vec![("rpi".to_string(), "tcp".to_string()), ("coll".to_string(), "a b".to_string())],
        }
    }

    /// A time that depends on the way and the call alone.
    pub(crate) fn answer(ask: &Ask) -> Answer {
        let time = |(at, _): (usize, &(_, u32))| 1000.0 + 700.0 * at as f64 + ask.cell.bytes as f64;
        let times_ns: Vec<f64> = ask.runs.iter().enumerate().map(time).collect();
        let all_ns = ask.runs.iter().zip(&times_ns).map(|((_, calls), time)| f64::from(*calls) * time).sum();
        Answer { times_ns, all_ns }
    }

    #[test]
    fn every_call_gets_its_comparison_within_the_time() {
        let mut campaign = Campaign::new(&settings());
        while let Some(ask) = campaign.ask() {
            assert!(campaign.take(&answer(&ask)));
        }
        assert_eq!(campaign.progress(), (6, 6));
        let compared: Vec<Cell> = campaign.outcomes().iter().map(|outcome| outcome.cell).collect();
        assert_eq!(compared, settings().cells());
        assert!(!campaign.take(&Answer { times_ns: vec![], all_ns: 0.0 }));
    }

    #[test]
    fn what_is_not_needed_is_left_for_the_others() {
        let mut campaign = Campaign::new(&Settings { minutes: 1.0, ..settings() });
        let before = campaign.left_seconds();
        let ask = campaign.ask().unwrap();
        assert!(campaign.take(&Answer { all_ns: 5e9, ..answer(&ask) }));
        assert!((before - campaign.left_seconds() - 5.0).abs() < 1e-6);
    }
}
