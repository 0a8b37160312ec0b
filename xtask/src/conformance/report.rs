//! The report: the table, and the reasons of failures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::results::{Part, Verdict};

/// Lines of a traceback that are printed.
const MOST_LINES: usize = 6;
/// Tests with the same reason that are named.
const MOST_NAMES: usize = 4;

const COLUMNS: &str = "ranks  rpi   run failed errors  lost skipped seconds";

pub(super) fn head() -> String {
    format!("{:<24} {COLUMNS}", "module")
}

pub(super) fn line(part: &Part) -> String {
    row(&part.name, &part.ranks.to_string(), &part.rpi.name(), &[part], part.seconds)
}

pub(super) fn totals(parts: &[Part]) -> String {
    let all: Vec<&Part> = parts.iter().collect();
    row("total", "", "", &all, parts.iter().map(|part| part.seconds).sum())
}

fn row(name: &str, ranks: &str, rpi: &str, parts: &[&Part], seconds: f64) -> String {
    let count = |verdicts: &[Verdict]| parts.iter().map(|part| part.count(verdicts)).sum::<usize>();
    let run: usize = parts.iter().map(|part| part.tests.len()).sum();
    format!(
        "{name:<24} {ranks:>5} {rpi:>4} {run:>5} {:>6} {:>6} {:>5} {:>7} {seconds:>7.1}",
        count(&[Verdict::Failed, Verdict::Unsupported]),
        count(&[Verdict::Error]),
        count(&[Verdict::Hung, Verdict::Crashed]),
        count(&[Verdict::Skipped]),
    )
}

/// Why tests of a part fail, with equal reasons together; only the tests that `shown` selects.
pub(super) fn reasons(part: &Part, shown: impl Fn(&str) -> bool) -> String {
    let mut alike: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for test in part.bad().filter(|test| shown(&test.name)) {
        alike.entry(test.reason()).or_default().push(test);
    }
    let mut text = String::new();
    for (reason, tests) in alike {
        let names: Vec<&str> =
            tests.iter().take(MOST_NAMES).map(|test| short(&test.name)).collect();
        let more = tests.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "    {reason}\n      in {}{more}", names.join(", "));
        // A missing function needs no traceback.
        if tests[0].missing.is_empty() {
            for line in story(&tests[0].text) {
                let _ = writeln!(text, "        {line}");
            }
        }
    }
    text
}

/// The skipped tests of all parts by their reasons.
pub(super) fn skips(parts: &[Part]) -> String {
    let mut alike: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for part in parts {
        for test in part.tests.iter().filter(|test| test.verdict == Verdict::Skipped) {
            let name = format!("{} ({})", short(&test.name), part.ranks);
            alike.entry((&part.name, &test.text)).or_default().insert(name);
        }
    }
    let mut text = String::new();
    for ((part, reason), names) in alike {
        let names: Vec<_> = names.into_iter().collect();
        let _ = writeln!(text, "skipped in {part}: {reason}\n    {}", names.join(", "));
    }
    text
}

fn short(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, rest)| rest)
}

/// The end of a traceback: the lines next to the exception.
fn story(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if text.starts_with("Traceback") {
        lines[lines.len().saturating_sub(MOST_LINES)..].to_vec()
    } else {
        lines.into_iter().take(2 * MOST_LINES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Rpi;
    use super::super::results::{JobSetting, Test};
    use super::*;

    #[test]
    fn a_table_counts_each_verdict_once() {
        let mut part = Part::new("test_x", JobSetting { ranks: 2, rpi: Rpi::Shm });
        use Verdict::*;
        for verdict in [Skipped, Passed, Passed, Unsupported, Failed, Error, Hung, Crashed] {
            part.tests.push(Test::new(
                format!("test_x.T.{verdict:?}"),
                verdict,
                "AssertionError: no",
            ));
        }
        let words: Vec<String> = line(&part).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["test_x", "2", "shm", "8", "2", "1", "2", "1", "0.0"]);
        part.tests[0].text = "too few ranks".into();
        let skipped = skips(std::slice::from_ref(&part));
        assert_eq!(skipped, "skipped in test_x: too few ranks\n    T.Skipped (2)\n");
        let reasons = reasons(&part, |name| !name.ends_with("Hung"));
        assert!(reasons.contains("in T.Unsupported, T.Failed, T.Error, T.Crashed\n"), "{reasons}");
    }
}
