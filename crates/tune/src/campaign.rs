//! All comparisons, one after another. The next round follows from the settings and the times so
//! far, so a file with the times is enough to resume a campaign.

use crate::calls::{Cell, MAX_BUFFER_BYTES, cells, variants};
use crate::comparison::{MeasuringRound, Outcome, VariantComparison};
use oxmpi_plan::Collective;
use std::collections::VecDeque;

/// The calls to compare, and the time limit.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignSettings {
    pub collectives: Vec<Collective>,
    pub ranks: Vec<u32>,
    /// In bytes, ascending.
    pub sizes: Vec<usize>,
    pub minutes: f64,
    pub mca: Vec<(String, String)>,
}

impl CampaignSettings {
    /// The calls to compare.
    pub fn cells(&self) -> Vec<Cell> {
        cells(&self.collectives, &self.ranks, &self.sizes, MAX_BUFFER_BYTES)
    }
}

/// The state of all comparisons.
#[derive(Clone, Debug)]
pub struct Campaign {
    left: VecDeque<Cell>,
    now: Option<VariantComparison>,
    left_ns: f64,
    cells: usize,
    outcomes: Vec<Outcome>,
}

/// The times of a [`MeasuringRound`].
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The time of one call of each run, in nanoseconds.
    pub times_ns: Vec<f64>,
    pub all_ns: f64,
}

impl Campaign {
    /// The campaign before its first round.
    pub fn new(settings: &CampaignSettings) -> Campaign {
        let left: VecDeque<Cell> = settings.cells().into();
        let cells = left.len();
        let left_ns = settings.minutes * 60e9;
        let mut campaign = Campaign { left, now: None, left_ns, cells, outcomes: Vec::new() };
        campaign.go_on();
        campaign
    }

    /// The next round to measure; `None` at the end.
    pub fn next_round(&self) -> Option<MeasuringRound> {
        self.now.as_ref()?.next_round()
    }

    /// Takes the times of [`Campaign::next_round`]. Returns false if they do not fit the round.
    #[must_use]
    pub fn take(&mut self, answer: &Answer) -> bool {
        let Some((round, comparison)) = self.next_round().zip(self.now.as_mut()) else {
            return false;
        };
        if !comparison.take(&round, &answer.times_ns, answer.all_ns) {
            return false;
        }
        self.left_ns -= answer.all_ns;
        if comparison.next_round().is_none() {
            self.outcomes.push(comparison.outcome());
            self.go_on();
        }
        true
    }

    fn go_on(&mut self) {
        // Time that a comparison leaves is shared by the remaining comparisons.
        let share_ns = self.left_ns.max(0.0) / self.left.len().max(1) as f64;
        self.now = self
            .left
            .pop_front()
            .map(|cell| VariantComparison::new(cell, variants(&cell), share_ns));
    }

    /// The results of the completed comparisons.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The numbers of completed comparisons and of all comparisons.
    pub fn progress(&self) -> (usize, usize) {
        (self.outcomes.len(), self.cells)
    }

    /// The remaining time in seconds.
    pub fn left_seconds(&self) -> f64 {
        self.left_ns.max(0.0) / 1e9
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> CampaignSettings {
        CampaignSettings {
            collectives: vec![Collective::Barrier, Collective::Bcast],
            ranks: vec![2, 4],
            sizes: vec![8, 32],
            minutes: 0.001,
            mca: vec![
                ("rpi".to_string(), "tcp".to_string()),
                ("coll".to_string(), "a b".to_string()),
            ],
        }
    }

    pub(crate) fn answer(round: &MeasuringRound) -> Answer {
        let time =
            |(at, _): (usize, &(_, u32))| 1000.0 + 700.0 * at as f64 + round.cell.bytes as f64;
        let times_ns: Vec<f64> = round.runs.iter().enumerate().map(time).collect();
        let all_ns = round
            .runs
            .iter()
            .zip(&times_ns)
            .map(|((_, calls), time)| f64::from(*calls) * time)
            .sum();
        Answer { times_ns, all_ns }
    }

    #[test]
    fn every_call_is_compared() {
        let mut campaign = Campaign::new(&settings());
        while let Some(round) = campaign.next_round() {
            assert!(campaign.take(&answer(&round)));
        }
        assert_eq!(campaign.progress(), (6, 6));
        let compared: Vec<Cell> = campaign.outcomes().iter().map(|outcome| outcome.cell).collect();
        assert_eq!(compared, settings().cells());
        assert!(!campaign.take(&Answer { times_ns: vec![], all_ns: 0.0 }));
    }

    #[test]
    fn a_comparison_uses_up_only_its_own_time() {
        let mut campaign = Campaign::new(&CampaignSettings { minutes: 1.0, ..settings() });
        let before = campaign.left_seconds();
        let round = campaign.next_round().unwrap();
        assert!(campaign.take(&Answer { all_ns: 5e9, ..answer(&round) }));
        assert!((before - campaign.left_seconds() - 5.0).abs() < 1e-6);
    }
}
