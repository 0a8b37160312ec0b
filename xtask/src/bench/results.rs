//! All figures of a run, as `results.json` keeps them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::{self, Point, Rounds, Subject, ratio};
use super::machine::Machine;

/// A run of the verb.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    /// Rounds that are complete.
    pub(crate) rounds: u32,
    /// In the order of the tables: ours is the first.
    pub(crate) libraries: Vec<Library>,
    pub(crate) rows: Vec<Row>,
    /// What processes reach without MPI.
    pub(crate) limits: Vec<Row>,
    pub(crate) failures: Vec<Failure>,
}

/// A library that was measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Library {
    pub(crate) name: String,
    /// What it says of itself.
    pub(crate) version: String,
    /// Environment and options.
    pub(crate) settings: String,
}

/// The figures of one subject, by library and round.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) group: String,
    #[serde(flatten)]
    pub(crate) subject: Subject,
    pub(crate) figures: BTreeMap<String, Rounds>,
}

/// A launch that gave no figures.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) library: String,
    /// The group and arguments.
    pub(crate) launch: String,
    pub(crate) why: String,
}

/// The name under which limits are kept.
pub(crate) const LIMIT: &str = "limit";

/// The best of the others in a row.
pub(crate) struct Best<'a> {
    pub(crate) name: &'a str,
    /// How much more ours costs, if we have a figure in the same rounds.
    pub(crate) ratio: Option<f64>,
}

impl Results {
    /// Adds a figure of a library to its row.
    pub(crate) fn add(&mut self, group: &str, library: &str, round: u32, point: Point) {
        row(&mut self.rows, group, point.subject)
            .figures
            .entry(library.into())
            .or_default()
            .insert(round, point.median);
    }

    /// Adds a limit, of which the best of a round counts: there are several ways to the same end.
    pub(crate) fn add_limit(&mut self, round: u32, point: Point) {
        let unit = point.subject.unit;
        let rounds = row(&mut self.limits, LIMIT, point.subject).figures.entry(LIMIT.into()).or_default();
        let best = rounds.entry(round).or_insert(point.median);
        if unit.better(point.median, *best) {
            *best = point.median;
        }
    }

    /// Notes a failure, once however often it happens.
    pub(crate) fn fail(&mut self, library: &str, launch: &str, why: &str) {
        let failure = Failure { library: library.into(), launch: launch.into(), why: why.into() };
        let known = |other: &Failure| other.library == failure.library && other.launch == failure.launch;
        if !self.failures.iter().any(known) {
            self.failures.push(failure);
        }
    }

    /// Our name: that of the first library.
    pub(crate) fn ours(&self) -> &str {
        self.libraries.first().map_or("", |library| &library.name)
    }

    /// The limit of a row's subject.
    pub(crate) fn limit(&self, row: &Row) -> Option<&Rounds> {
        self.limits.iter().find(|limit| limit.subject == row.subject)?.figures.get(LIMIT)
    }

    /// The library with the best median in `row` but for ours.
    pub(crate) fn best_other<'a>(&self, row: &'a Row) -> Option<Best<'a>> {
        let unit = row.subject.unit;
        let others = row.figures.keys().filter(|name| *name != self.ours());
        let best = others
            .filter_map(|name| Some((name, row.median(name)?)))
            .reduce(|best, other| if unit.better(other.1, best.1) { other } else { best });
        let (name, _) = best?;
        let ratio = row.figures.get(self.ours()).and_then(|ours| ratio(unit, ours, row.figures.get(name)?));
        Some(Best { name, ratio })
    }

    /// How much more ours costs than the limit.
    pub(crate) fn to_limit(&self, row: &Row) -> Option<f64> {
        ratio(row.subject.unit, row.figures.get(self.ours())?, self.limit(row)?)
    }
}

impl Row {
    /// The median over the rounds of the library `name`.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        figures::median(self.figures.get(name)?.values().copied())
    }
}

fn row<'a>(rows: &'a mut Vec<Row>, group: &str, subject: Subject) -> &'a mut Row {
    let at = rows.iter().position(|row| row.group == group && row.subject == subject);
    let at = at.unwrap_or_else(|| {
        rows.push(Row { group: group.into(), subject, figures: BTreeMap::new() });
        rows.len() - 1
    });
    &mut rows[at]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::figures::Unit;
    use super::*;

    /// Two libraries beside ours and a limit, two sizes of latency and of bandwidth, two rounds.
    pub(crate) fn sample() -> Results {
        let mut results = Results { rounds: 2, ..Results::default() };
        for name in ["oxmpi", "openmpi", "mpich"] {
            results.libraries.push(Library {
                name: name.into(),
                version: "1".into(),
                settings: String::new(),
            });
        }
        for (test, unit) in [("latency", Unit::Microseconds), ("bandwidth", Unit::MegabytesPerSecond)] {
            for bytes in [8, 65536] {
                for round in 0..2 {
                    let point = |median| Point {
                        subject: Subject { test: test.into(), ranks: 2, bytes, unit },
                        median,
                    };
                    results.add(test, "oxmpi", round, point(2.0));
                    results.add(test, "openmpi", round, point(4.0));
                    results.add(test, "mpich", round, point(8.0));
                    results.add_limit(round, point(1.0));
                }
            }
        }
        results
    }

    #[test]
    fn the_best_other_is_the_best_by_its_unit() {
        let results = sample();
        let best = |row: usize| results.best_other(&results.rows[row]).unwrap();
        assert_eq!((best(0).name, best(0).ratio), ("openmpi", Some(0.5)));
        assert_eq!((best(2).name, best(2).ratio), ("mpich", Some(4.0)));
        assert_eq!(results.to_limit(&results.rows[0]), Some(2.0));
        assert_eq!(results.to_limit(&results.rows[2]), Some(0.5));
    }

    #[test]
    fn the_best_way_to_a_limit_counts() {
        let mut results = sample();
        let latency = results.rows[0].subject.clone();
        results.add_limit(0, Point { subject: latency.clone(), median: 0.5 });
        results.add_limit(1, Point { subject: latency, median: 3.0 });
        assert_eq!(results.limit(&results.rows[0]), Some(&Rounds::from([(0, 0.5), (1, 1.0)])));
    }

    #[test]
    fn without_ours_there_is_no_ratio() {
        let mut results = sample();
        results.rows[0].figures.remove("oxmpi");
        assert_eq!(results.best_other(&results.rows[0]).unwrap().ratio, None);
        assert_eq!(results.to_limit(&results.rows[0]), None);
    }

    #[test]
    fn the_same_failure_is_noted_once() {
        let mut results = sample();
        results.fail("mpich", "latency", "no end after 90 s");
        results.fail("mpich", "latency", "no end after 90 s");
        assert_eq!(results.failures.len(), 1);
    }

    #[test]
    fn results_survive_a_file() {
        let text = serde_json::to_string(&sample()).unwrap();
        let back: Results = serde_json::from_str(&text).unwrap();
        assert_eq!(back.rows[0].figures, sample().rows[0].figures);
        assert_eq!(back.rows[0].subject, sample().rows[0].subject);
    }
}
