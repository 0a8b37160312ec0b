//! The results of a run: tests, and their parts.

use std::collections::BTreeSet;

use serde::Serialize;

use super::options::Rpi;

/// The verdict on a test, of one rank or of all; the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Skipped,
    Passed,
    /// Passed or skipped, but a function answered that OxMPI does not have it.
    Unsupported,
    Failed,
    Error,
    /// It did not end.
    Hung,
    /// The job ended in the middle of it.
    Crashed,
}

impl Verdict {
    pub(super) fn is_bad(self) -> bool {
        self >= Verdict::Unsupported
    }
}

/// A test, with the results of all ranks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// The ranks for which it is bad.
    pub(super) ranks: BTreeSet<u32>,
    /// The MPI functions that answered that OxMPI does not have them.
    pub(super) missing: BTreeSet<String>,
    /// The text of the first such rank, or the reason of a skip.
    pub(super) text: String,
}

impl Test {
    /// A test that has no ranks of its own.
    pub(super) fn new(name: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Test {
        let (ranks, missing) = (BTreeSet::new(), BTreeSet::new());
        Test { name: name.into(), verdict, ranks, missing, text: text.into() }
    }

    /// Adds the result of one more rank.
    pub(super) fn add(&mut self, rank: u32, verdict: Verdict, text: &str) {
        if verdict.is_bad() {
            self.ranks.insert(rank);
        }
        if verdict > self.verdict || self.text.is_empty() {
            self.text = text.to_owned();
        }
        self.verdict = self.verdict.max(verdict);
    }

    /// Why it is bad, in one line.
    pub(super) fn reason(&self) -> String {
        if !self.missing.is_empty() {
            let names: Vec<&str> = self.missing.iter().map(String::as_str).collect();
            return format!("missing {}", names.join(", "));
        }
        // A Python traceback ends with the exception. Other texts begin with the reason.
        let line = if self.text.starts_with("Traceback") {
            self.text.lines().rev().find(|line| !line.trim().is_empty() && !line.starts_with(' '))
        } else {
            self.text.lines().next()
        };
        line.unwrap_or("no reason given").to_owned()
    }
}

/// One module of the suite or one program, with one number of ranks, over one route.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) ranks: u32,
    pub(super) rpi: Rpi,
    pub(super) seconds: f64,
    pub(super) tests: Vec<Test>,
}

impl Part {
    pub(super) fn new(name: impl Into<String>, setting: JobSetting) -> Part {
        let JobSetting { ranks, rpi } = setting;
        Part { name: name.into(), ranks, rpi, seconds: 0.0, tests: Vec::new() }
    }

    pub(super) fn count(&self, verdicts: &[Verdict]) -> usize {
        self.tests.iter().filter(|test| verdicts.contains(&test.verdict)).count()
    }

    pub(super) fn bad(&self) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(|test| test.verdict.is_bad())
    }
}

/// Where a part runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobSetting {
    pub(super) ranks: u32,
    pub(super) rpi: Rpi,
}

/// Everything that was run.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    pub(super) mpi4py: &'static str,
    pub(super) parts: Vec<Part>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_verdict_counts_and_its_text_is_kept() {
        let mut test = Test::new("t", Verdict::Skipped, "");
        test.add(0, Verdict::Skipped, "nothing to do");
        test.add(1, Verdict::Error, "Traceback\n  line\nValueError: 3\n");
        test.add(2, Verdict::Passed, "");
        assert_eq!((test.verdict, test.ranks.len()), (Verdict::Error, 1));
        assert_eq!(test.reason(), "ValueError: 3");
        test.missing.insert("MPI_Pack".into());
        assert_eq!(test.reason(), "missing MPI_Pack");
    }
}
