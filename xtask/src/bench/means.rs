//! The summary: for each group, and each kind of row in it, the geometric mean of the ratios to the
//! best other library.

use std::collections::BTreeMap;

use super::groups::GROUPS;
use super::results::{At, Results};

/// A row with a higher ratio counts as behind.
pub(crate) const BEHIND: f64 = 1.2;

#[derive(Debug, PartialEq)]
pub(crate) struct Mean<'a> {
    pub(crate) group: &'static str,
    pub(crate) at: At,
    /// The part of the tests' names before the slash; `None` for all rows.
    pub(crate) kind: Option<&'a str>,
    pub(crate) rows: usize,
    /// Geometric mean of our time divided by that of the best other.
    pub(crate) ratio: f64,
    pub(crate) behind: usize,
}

/// The means of all groups with ratios: for each kind of test, then for the whole group.
pub(crate) fn means(results: &Results) -> Vec<Mean<'_>> {
    let mut means = Vec::new();
    for group in &GROUPS {
        for at in results.parts_of(group.name) {
            let mut by_kind: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
            let mut all = Vec::new();
            for row in results.rows_of(group.name, at) {
                let Some(ratio) = results.best_other(row, at).and_then(|best| best.ratio) else {
                    continue;
                };
                all.push(ratio);
                if let Some((kind, _)) = row.subject.test.split_once('/') {
                    by_kind.entry(Some(kind)).or_default().push(ratio);
                }
            }
            let kinds =
                by_kind.into_iter().chain([(None, all)]).filter(|(_, ratios)| !ratios.is_empty());
            means.extend(kinds.map(|(kind, ratios)| Mean {
                group: group.name,
                at,
                kind,
                rows: ratios.len(),
                ratio: geometric_mean(&ratios),
                behind: ratios.iter().filter(|&&ratio| ratio > BEHIND).count(),
            }));
        }
    }
    means
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::super::distance::Distance;
    use super::super::figures::{Point, Subject, Unit};
    use super::super::results::tests::{FAR, NEAR, sample, sample_at};
    use super::*;

    fn add(results: &mut Results, test: &str, ratio: f64) {
        for (library, median) in [("oxmpi", ratio), ("mpich", 1.0)] {
            let subject =
                Subject { test: test.into(), ranks: 4, bytes: 8, unit: Unit::Microseconds };
            results.add("patterns-4", library, 0, Point { subject, median, by: None, line: None });
        }
    }

    #[test]
    fn kinds_have_means_of_their_own() {
        let mut results = sample();
        for (test, ratio) in
            [("p2p/halo", 0.5), ("p2p/ssend", 2.0), ("coll/scan", 1.2), ("coll/exscan", 1.21)]
        {
            add(&mut results, test, ratio);
        }
        let means = means(&results);
        let of_group = means.iter().filter(|mean| mean.group == "patterns-4");
        let found: Vec<_> = of_group.map(|mean| (mean.kind, mean.rows, mean.behind)).collect();
        assert_eq!(found, [(Some("coll"), 2, 1), (Some("p2p"), 2, 1), (None, 4, 2)]);
        let p2p = means.iter().find(|mean| mean.kind == Some("p2p")).unwrap();
        assert!((p2p.ratio - 1.0).abs() < 1e-9, "{p2p:?}");
    }

    #[test]
    fn near_and_far_have_means_of_their_own() {
        let results = sample_at(&[Some(NEAR), Some(FAR)]);
        let means = means(&results);
        let latency: Vec<_> =
            means.iter().filter(|mean| mean.group == "latency").map(|mean| mean.at).collect();
        assert_eq!(latency, [Some(Distance::Near), Some(Distance::Far)]);
    }

    #[test]
    fn rows_without_a_ratio_do_not_count() {
        let mut results = sample();
        for row in &mut results.rows {
            row.figures.remove("oxmpi");
        }
        assert_eq!(means(&results), []);
    }
}
