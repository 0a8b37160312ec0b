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
    /// Passed or skipped, but the test called a function that OxMPI does not have.
    Unsupported,
    Failed,
    Error,
    Hung,
    Crashed,
}

impl Verdict {
    pub(super) fn is_bad(self) -> bool {
        self >= Verdict::Unsupported
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// The ranks with a bad result.
    pub(super) ranks: BTreeSet<u32>,
    /// The missing MPI functions that the test called.
    pub(super) missing: BTreeSet<String>,
    /// The text of the first bad rank, or the reason of a skip.
    pub(super) text: String,
}

impl Test {
    pub(super) fn new(name: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Test {
        let (ranks, missing) = (BTreeSet::new(), BTreeSet::new());
        Test { name: name.into(), verdict, ranks, missing, text: text.into() }
    }

    pub(super) fn add(&mut self, rank: u32, verdict: Verdict, text: &str) {
        if verdict.is_bad() {
            self.ranks.insert(rank);
        }
        if verdict > self.verdict || self.text.is_empty() {
            self.text = text.to_owned();
        }
        self.verdict = self.verdict.max(verdict);
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobSetting {
    pub(super) ranks: u32,
    pub(super) rpi: Rpi,
}

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
