//! All figures of a run, as `results.json` keeps them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distance::{Distance, distinguished};
use super::figures::{Point, Subject, Unit, median};
use super::machine::Machine;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) rounds: u32,
    /// In the order of the tables: ours is the first.
    pub(crate) libraries: Vec<Library>,
    pub(crate) rows: Vec<Row>,
    /// The figures of processes without MPI, by program.
    pub(crate) limits: Vec<Row>,
    pub(crate) failures: Vec<Failure>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Library {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) settings: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) group: String,
    #[serde(flatten)]
    pub(crate) subject: Subject,
    pub(crate) figures: BTreeMap<String, Vec<Sample>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) round: u32,
    pub(crate) value: f64,
    /// Microseconds of a cache line before and after, and the distance of the cores, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<[f64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) distance: Option<Distance>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) library: String,
    pub(crate) launch: String,
    pub(crate) why: String,
}

pub(crate) const LIMIT: &str = "limit";

/// The samples of a figure: those of one distance of the cores, or all.
pub(crate) type At = Option<Distance>;

pub(crate) struct Best<'a> {
    pub(crate) name: &'a str,
    /// The ratio of our cost to its cost, if we have a figure.
    pub(crate) ratio: Option<f64>,
}

impl Results {
    pub(crate) fn add(&mut self, group: &str, library: &str, round: u32, point: Point) {
        row(&mut self.rows, group, &point.subject).add(library, round, &point);
    }

    /// Adds a limit. Each program that reaches it has samples of its own: cores may be near for one
    /// and far for the next.
    pub(crate) fn add_limit(&mut self, round: u32, point: Point) {
        let way = point.by.as_deref().unwrap_or(LIMIT);
        row(&mut self.limits, LIMIT, &point.subject).add(way, round, &point);
    }

    /// Records a failure once, even if it is repeated.
    pub(crate) fn fail(&mut self, library: &str, launch: &str, why: &str) {
        let failure = Failure { library: library.into(), launch: launch.into(), why: why.into() };
        let known =
            |other: &Failure| other.library == failure.library && other.launch == failure.launch;
        if !self.failures.iter().any(known) {
            self.failures.push(failure);
        }
    }

    /// The name of OxMPI: that of the first library.
    pub(crate) fn ours(&self) -> &str {
        self.libraries.first().map_or("", |library| &library.name)
    }

    /// The distances of the cores of all samples of which they are known.
    pub(crate) fn distances(&self) -> impl Iterator<Item = Distance> {
        self.all_samples().filter_map(|sample| sample.distance)
    }

    /// The median microseconds of a cache line in the part `at`.
    pub(crate) fn line(&self, at: At) -> Option<f64> {
        median(
            self.all_samples()
                .filter(|sample| sample.is_in(at))
                .filter_map(|sample| sample.line)
                .flatten(),
        )
    }

    fn all_samples(&self) -> impl Iterator<Item = &Sample> {
        let rows = self.rows.iter().chain(&self.limits);
        rows.flat_map(|row| row.figures.values().flatten())
    }

    /// The parts into which the samples of `rows` fall, each of which has a table of its own.
    pub(crate) fn parts<'a>(&self, mut rows: impl Iterator<Item = &'a Row>) -> Vec<At> {
        let known =
            rows.any(|row| row.figures.values().flatten().any(|sample| sample.distance.is_some()));
        match distinguished(self.distances()) {
            distances if known && !distances.is_empty() => {
                distances.iter().copied().map(Some).collect()
            }
            _ => vec![None],
        }
    }

    pub(crate) fn parts_of(&self, group: &str) -> Vec<At> {
        self.parts(self.rows_of(group, None))
    }

    pub(crate) fn rows_of(&self, group: &str, at: At) -> impl Iterator<Item = &Row> {
        let rows = self.rows.iter().filter(move |row| row.group == group);
        rows.filter(move |row| row.figures.keys().any(|name| row.median(name, at).is_some()))
    }

    /// The samples of `subject` in a group, by program: those of a library, or of the limit.
    pub(crate) fn samples(&self, group: &str, library: &str, subject: &Subject) -> Vec<&[Sample]> {
        let (rows, group) =
            if library == LIMIT { (&self.limits, LIMIT) } else { (&self.rows, group) };
        let row = rows.iter().find(|row| row.group == group && row.subject == *subject);
        let figures = row.into_iter().flat_map(|row| &row.figures);
        let mine = figures.filter(|(name, _)| library == LIMIT || *name == library);
        mine.map(|(_, samples)| samples.as_slice()).collect()
    }

    /// The limit of a row's subject: that of the best program.
    pub(crate) fn limit(&self, row: &Row, at: At) -> Option<f64> {
        let limit = self.limits.iter().find(|limit| limit.subject == row.subject)?;
        limit.best(limit.figures.keys(), at).map(|(_, value)| value)
    }

    /// The library other than ours with the best median in `row`.
    pub(crate) fn best_other<'a>(&self, row: &'a Row, at: At) -> Option<Best<'a>> {
        let others = row.figures.keys().filter(|name| *name != self.ours());
        let (name, theirs) = row.best(others, at)?;
        let ratio = row.median(self.ours(), at).map(|ours| row.unit().cost(ours, theirs));
        Some(Best { name, ratio })
    }

    /// The ratio of our cost to the limit's.
    pub(crate) fn to_limit(&self, row: &Row, at: At) -> Option<f64> {
        Some(row.unit().cost(row.median(self.ours(), at)?, self.limit(row, at)?))
    }
}

impl Row {
    fn unit(&self) -> Unit {
        self.subject.unit
    }

    fn add(&mut self, name: &str, round: u32, point: &Point) {
        let distance = point.line.map(Distance::of);
        let sample = Sample { round, value: point.median, line: point.line, distance };
        self.figures.entry(name.into()).or_default().push(sample);
    }

    pub(crate) fn median(&self, name: &str, at: At) -> Option<f64> {
        let samples = self.figures.get(name)?.iter().filter(|sample| sample.is_in(at));
        median(samples.map(|sample| sample.value))
    }

    fn best<'a>(&self, names: impl Iterator<Item = &'a String>, at: At) -> Option<(&'a str, f64)> {
        let medians = names.filter_map(|name| Some((name.as_str(), self.median(name, at)?)));
        medians.reduce(|best, other| if self.unit().better(other.1, best.1) { other } else { best })
    }
}

impl Sample {
    pub(crate) fn is_in(&self, at: At) -> bool {
        at.is_none() || self.distance == at
    }
}

/// Whether there are `wanted` samples of each of these distances; or of any, if no distance is
/// known.
pub(crate) fn are_enough(samples: &[Sample], distances: &[Distance], wanted: usize) -> bool {
    if distances.is_empty() || samples.iter().all(|sample| sample.distance.is_none()) {
        return samples.len() >= wanted;
    }
    let count = |at| samples.iter().filter(|sample| sample.is_in(Some(at))).count();
    distances.iter().all(|&at| count(at) >= wanted)
}

fn row<'a>(rows: &'a mut Vec<Row>, group: &str, subject: &Subject) -> &'a mut Row {
    let at = rows.iter().position(|row| row.group == group && row.subject == *subject);
    let at = at.unwrap_or_else(|| {
        rows.push(Row { group: group.into(), subject: subject.clone(), figures: BTreeMap::new() });
        rows.len() - 1
    });
    &mut rows[at]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::figures::Unit;
    use super::*;

    pub(crate) const NEAR: [f64; 2] = [0.06, 0.07];
    pub(crate) const FAR: [f64; 2] = [0.22, 0.24];

    /// Two libraries beside ours and a limit, two sizes of latency and of bandwidth, two rounds.
    pub(crate) fn sample() -> Results {
        sample_at(&[None])
    }

    /// The same with each of these lines; far samples cost ten times as much, except the limit.
    pub(crate) fn sample_at(lines: &[Option<[f64; 2]>]) -> Results {
        let mut results = Results { rounds: 2, ..Results::default() };
        for name in ["oxmpi", "openmpi", "mpich"] {
            results.libraries.push(Library {
                name: name.into(),
                version: "1".into(),
                settings: String::new(),
            });
        }
        for (test, unit) in
            [("latency", Unit::Microseconds), ("bandwidth", Unit::MegabytesPerSecond)]
        {
            for bytes in [8, 65536] {
                for round in 0..2 {
                    for &line in lines {
                        let point = |median| Point {
                            subject: Subject { test: test.into(), ranks: 2, bytes, unit },
                            median,
                            by: None,
                            line,
                        };
                        let cost = if line == Some(FAR) { 10.0 } else { 1.0 };
                        results.add(test, "oxmpi", round, point(2.0 * cost));
                        results.add(test, "openmpi", round, point(4.0 * cost));
                        results.add(test, "mpich", round, point(8.0 * cost));
                        results.add_limit(round, point(1.0));
                    }
                }
            }
        }
        results
    }

    #[test]
    fn the_best_other_is_the_best_by_its_unit() {
        let results = sample();
        let best = |row: usize| results.best_other(&results.rows[row], None).unwrap();
        assert_eq!((best(0).name, best(0).ratio), ("openmpi", Some(0.5)));
        assert_eq!((best(2).name, best(2).ratio), ("mpich", Some(4.0)));
        assert_eq!(results.to_limit(&results.rows[0], None), Some(2.0));
        assert_eq!(results.to_limit(&results.rows[2], None), Some(0.5));
    }

    #[test]
    fn near_and_far_have_medians_of_their_own() {
        let results = sample_at(&[Some(NEAR), Some(FAR), Some([0.06, 0.24])]);
        let row = &results.rows[0];
        let [near, far] = [Some(Distance::Near), Some(Distance::Far)];
        assert_eq!((row.median("oxmpi", near), row.median("oxmpi", far)), (Some(2.0), Some(20.0)));
        assert_eq!(results.best_other(row, far).unwrap().ratio, Some(0.5));
        assert_eq!(
            (results.to_limit(row, near), results.to_limit(row, far)),
            (Some(2.0), Some(20.0))
        );
        assert_eq!(results.parts(results.rows.iter()), [near, far]);
        assert_eq!(results.rows_of("latency", far).count(), 2);
    }

    #[test]
    fn cores_that_stay_where_they_are_make_one_part() {
        for lines in [[None], [Some(NEAR)], [Some(FAR)], [Some([0.13, 0.14])]] {
            let results = sample_at(&lines);
            assert_eq!(results.parts(results.rows.iter()), [None]);
            assert!(results.rows[0].median("oxmpi", None).is_some());
        }
    }

    #[test]
    fn figures_without_a_line_are_one_part_among_others_with_one() {
        let mut results = sample_at(&[Some(NEAR), Some(FAR)]);
        let subject = Subject { test: "start".into(), ranks: 2, bytes: 0, unit: Unit::Seconds };
        results.add("start", "oxmpi", 0, Point { subject, median: 1.0, by: None, line: None });
        assert_eq!(results.parts(results.rows_of("start", None)), [None]);
    }

    #[test]
    fn samples_are_enough_when_each_distance_has_as_many_as_are_wanted() {
        let samples =
            |lines: &[Option<[f64; 2]>]| sample_at(lines).rows[0].figures["oxmpi"].clone();
        let both = [Distance::Near, Distance::Far];
        assert!(are_enough(&samples(&[Some(NEAR), Some(FAR)]), &both, 2));
        assert!(!are_enough(&samples(&[Some(NEAR), Some(FAR)]), &both, 3));
        assert!(!are_enough(&samples(&[Some(NEAR), Some([0.06, 0.24])]), &both, 1));
        assert!(are_enough(&samples(&[Some(NEAR)]), &[], 2));
        // These get no more samples.
        assert!(are_enough(&samples(&[None]), &both, 2));
    }

    #[test]
    fn the_best_way_to_a_limit_counts() {
        let mut results = sample();
        let subject = results.rows[0].subject.clone();
        for (way, median) in [("copy", 0.5), ("pull", 3.0), ("copy", 0.7)] {
            let (subject, by) = (subject.clone(), Some(way.to_owned()));
            results.add_limit(0, Point { subject, median, by, line: None });
        }
        assert_eq!(results.limit(&results.rows[0], None), Some(0.6));
        let counts: Vec<usize> = results
            .samples("latency", LIMIT, &subject)
            .iter()
            .map(|samples| samples.len())
            .collect();
        assert_eq!(counts, [2, 2, 1]);
    }

    #[test]
    fn without_ours_there_is_no_ratio() {
        let mut results = sample();
        results.rows[0].figures.remove("oxmpi");
        assert_eq!(results.best_other(&results.rows[0], None).unwrap().ratio, None);
        assert_eq!(results.to_limit(&results.rows[0], None), None);
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
        let results = sample_at(&[Some(NEAR), Some(FAR)]);
        let text = serde_json::to_string(&results).unwrap();
        assert!(text.contains(r#""distance":"far""#), "{text}");
        let back: Results = serde_json::from_str(&text).unwrap();
        assert_eq!(back.rows[0].figures, results.rows[0].figures);
        assert_eq!(back.rows[0].subject, results.rows[0].subject);
    }
}
