//! One figure: its line in the output of a benchmark program, its unit, and comparisons.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "MiB")]
    Mebibytes,
    /// 10^6 bytes a second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// 10^6 messages a second.
    #[serde(rename = "M/s")]
    MillionsPerSecond,
}

impl Unit {
    const ALL: [Unit; 5] = [
        Unit::Microseconds,
        Unit::Seconds,
        Unit::Mebibytes,
        Unit::MegabytesPerSecond,
        Unit::MillionsPerSecond,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Unit::Microseconds => "us",
            Unit::Seconds => "s",
            Unit::Mebibytes => "MiB",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::MillionsPerSecond => "M/s",
        }
    }

    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Unit::MegabytesPerSecond | Unit::MillionsPerSecond)
    }

    /// The ratio of the costs: 2 is twice the time or half the rate.
    pub(crate) fn cost(self, ours: f64, theirs: f64) -> f64 {
        if self.is_rate() { theirs / ours } else { ours / theirs }
    }

    pub(crate) fn better(self, a: f64, b: f64) -> bool {
        self.cost(a, b) < 1.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) test: String,
    pub(crate) ranks: u32,
    pub(crate) bytes: u64,
    pub(crate) unit: Unit,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) subject: Subject,
    /// The median over the run's batches.
    pub(crate) median: f64,
    pub(crate) by: Option<String>,
    /// Microseconds of a cache line between the cores before and after, if measured.
    pub(crate) line: Option<[f64; 2]>,
}

/// Other lines are ignored. An error names the wrong line.
pub(crate) fn points(output: &str) -> Result<Vec<Point>, String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("point "));
    lines.map(|line| point(line).ok_or_else(|| format!("'point {line}' is no figure"))).collect()
}

fn point(line: &str) -> Option<Point> {
    let words: BTreeMap<&str, &str> =
        line.split_whitespace().map(|word| word.split_once('=')).collect::<Option<_>>()?;
    let unit = Unit::ALL.into_iter().find(|unit| Some(&unit.text()) == words.get("unit"))?;
    let median: f64 = words.get("median")?.parse().ok()?;
    let subject = Subject {
        test: (*words.get("test")?).to_owned(),
        ranks: words.get("ranks")?.parse().ok()?,
        bytes: words.get("bytes")?.parse().ok()?,
        unit,
    };
    let by = words.get("by").map(|&by| by.to_owned());
    let line = match words.get("line") {
        Some(times) => Some(line_times(times)?),
        None => None,
    };
    // Figures are divisors later.
    is_positive(median).then_some(Point { subject, median, by, line })
}

/// `0.061,0.063`: us before and after.
fn line_times(text: &str) -> Option<[f64; 2]> {
    let (before, after) = text.split_once(',')?;
    let times: [f64; 2] = [before.parse().ok()?, after.parse().ok()?];
    times.into_iter().all(is_positive).then_some(times)
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The middle value, or the mean of the two middle values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[last.div_ceil(2)]) / 2.0)
}

/// With three significant digits.
pub(crate) fn text(value: f64) -> String {
    let digits = match value.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 => 2,
        x if x >= 0.1 => 3,
        x if x >= 0.01 => 4,
        _ => 5,
    };
    format!("{value:.digits$}")
}

/// `64 KiB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    match bytes {
        0 => "0 B".into(),
        b if b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b % (1 << 10) == 0 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_program_is_a_figure() {
        let output = "a warning of the library\n\
            point test=latency ranks=2 bytes=8 unit=us median=0.344 least=0.31 most=0.42 by=copy line=0.06,0.25\n\
            point test=bandwidth ranks=2 bytes=65536 unit=MB/s median=5638 least=1 most=2\n";
        let points = points(output).unwrap();
        assert_eq!(points.len(), 2);
        let subject =
            Subject { test: "latency".into(), ranks: 2, bytes: 8, unit: Unit::Microseconds };
        let point =
            Point { subject, median: 0.344, by: Some("copy".into()), line: Some([0.06, 0.25]) };
        assert_eq!(points[0], point);
        assert_eq!(points[1].subject.unit, Unit::MegabytesPerSecond);
        assert_eq!((&points[1].by, points[1].line), (&None, None));
    }

    #[test]
    fn a_broken_line_is_named() {
        for line in [
            "point test=latency ranks=2 bytes=8 unit=us median=fast",
            "point test=latency ranks=2 bytes=8 unit=furlongs median=1",
            "point test=latency ranks=2 unit=us median=1",
            "point test=latency ranks=2 bytes=8 unit=us median=0",
            "point test=latency ranks=2 bytes=8 unit=us median=inf",
            "point test=latency ranks=2 bytes=8 unit=us median=1 line=0.1",
            "point test=latency ranks=2 bytes=8 unit=us median=1 line=0.1,0",
            "point latency",
        ] {
            let error = points(line).unwrap_err();
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn a_cost_above_one_is_worse_in_any_unit() {
        assert_eq!(Unit::Microseconds.cost(2.0, 1.0), 2.0);
        assert_eq!(Unit::MegabytesPerSecond.cost(2.0, 1.0), 0.5);
        assert!(Unit::Mebibytes.better(1.0, 2.0) && Unit::MillionsPerSecond.better(2.0, 1.0));
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [0.00473, 0.0473, 0.473, 1.234, 12.34, 1234.5].map(text),
            ["0.00473", "0.0473", "0.473", "1.23", "12.3", "1234"]
        );
        assert_eq!(
            [0, 8, 1536, 65536, 4 << 20].map(bytes_text),
            ["0 B", "8 B", "1536 B", "64 KiB", "4 MiB"]
        );
    }
}
