//! The failures that are expected: a list that may only shrink.
//!
//! A line is `TEST RANKS ROUTES REASON`, such as
//! `test_pack.TestPack.testPack 1,2,3 shm,tcp missing MPI_Pack`: the test fails with each of these
//! numbers of ranks over each of these routes. A listed test that does not fail is an error too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use clap::ValueEnum as _;

use super::options::Rpi;
use super::results::{JobSetting, Part, Test};
use crate::run::Failure;

const HEAD: &str = "\
# What is known to fail in 'cargo xtask conformance', one test a line: test, ranks, routes, reason.
# This list may only shrink ('cargo xtask conformance --shrink'). A test in it that does not fail is an error as well.
";

/// A test with its number of ranks and its route.
type Key = (String, JobSetting);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected(BTreeMap<Key, String>);

#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) surprises: BTreeSet<Key>,
    pub(super) mended: BTreeSet<Key>,
    pub(super) known: usize,
}

impl Expected {
    pub(super) fn parse(text: &str) -> Result<Expected, Failure> {
        let mut list = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| {
                Failure::new(format!("expected-failures.txt, line {number}: {what}: {line}"))
            };
            let mut words = line.splitn(4, ' ');
            let (Some(test), Some(ranks), Some(rpis), Some(reason)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return Err(wrong("not test, ranks, routes and reason"));
            };
            for ranks in ranks.split(',') {
                let ranks: u32 = ranks.parse().map_err(|_| wrong("not a number of ranks"))?;
                for rpi in rpis.split(',') {
                    let rpi =
                        Rpi::from_str(rpi, false).map_err(|_| wrong("neither shm, tcp nor ofi"))?;
                    let key = (test.to_owned(), JobSetting { ranks, rpi });
                    if list.insert(key, reason.to_owned()).is_some() {
                        return Err(wrong("a second time"));
                    }
                }
            }
        }
        Ok(Expected(list))
    }

    pub(super) fn from_run(parts: &[Part]) -> Expected {
        let bad = parts.iter().flat_map(|part| part.bad().map(move |test| (part, test)));
        let entry = |(part, test): (&Part, &Test)| {
            ((test.name.clone(), setting(part)), one_line(&test.reason()))
        };
        Expected(bad.map(entry).collect())
    }

    pub(super) fn compare(&self, parts: &[Part]) -> Comparison {
        let mut comparison = Comparison::default();
        for part in parts {
            let setting = setting(part);
            for test in part.bad() {
                let key = (test.name.clone(), setting);
                if self.0.contains_key(&key) {
                    comparison.known += 1;
                } else {
                    comparison.surprises.insert(key);
                }
            }
            // Tests of this part that have not failed, or do not exist any more.
            let bad: BTreeSet<&str> = part.bad().map(|test| test.name.as_str()).collect();
            let ours = |key: &&Key| {
                key.1 == setting && belongs(&key.0, &part.name) && !bad.contains(key.0.as_str())
            };
            comparison.mended.extend(self.0.keys().filter(ours).cloned());
        }
        comparison
    }

    pub(super) fn without(&self, mended: &BTreeSet<Key>) -> Expected {
        let left = self.0.iter().filter(|(key, _)| !mended.contains(*key));
        Expected(left.map(|(key, reason)| (key.clone(), reason.clone())).collect())
    }

    /// The text of the list, each test with as few lines as possible.
    pub(super) fn text(&self) -> String {
        // The ranks of a test at which it fails for the same reason, for each route.
        let mut ranks: BTreeMap<(&str, &str, Rpi), Vec<String>> = BTreeMap::new();
        for ((test, setting), reason) in &self.0 {
            ranks.entry((test, reason, setting.rpi)).or_default().push(setting.ranks.to_string());
        }
        let mut rpis: BTreeMap<(&str, &str, String), Vec<String>> = BTreeMap::new();
        for ((test, reason, rpi), ranks) in ranks {
            rpis.entry((test, reason, ranks.join(","))).or_default().push(rpi.name());
        }
        let mut text = HEAD.to_owned();
        for ((test, reason, ranks), rpis) in rpis {
            let _ = writeln!(text, "{test} {ranks} {} {reason}", rpis.join(","));
        }
        text
    }
}

fn setting(part: &Part) -> JobSetting {
    JobSetting { ranks: part.ranks, rpi: part.rpi }
}

/// Whether a test is one of a part: `test_comm.TestComm.test` of `test_comm`, `hpcc` of `hpcc`, and
/// tests that could not be loaded.
fn belongs(test: &str, part: &str) -> bool {
    test.strip_prefix("unittest.loader._FailedTest.")
        .unwrap_or(test)
        .strip_prefix(part)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::Verdict;
    use super::*;

    const LIST: &str = "\
test_pack.TestPack.testPack 1,2 shm,tcp missing MPI_Pack
test_pack.TestPack.testSize 2 shm missing MPI_Pack_size
";

    fn part(ranks: u32, verdicts: &[(&str, Verdict)]) -> Part {
        let mut part = Part::new("test_pack", JobSetting { ranks, rpi: Rpi::Shm });
        part.tests =
            verdicts.iter().map(|(name, verdict)| Test::new(*name, *verdict, "why")).collect();
        part
    }

    #[test]
    fn a_list_is_written_as_it_is_read() {
        let list = Expected::parse(LIST).unwrap();
        assert_eq!(list.text(), format!("{HEAD}{LIST}"));
        assert_eq!(Expected::parse(&list.text()).unwrap(), list);
        let mended =
            [("test_pack.TestPack.testPack".to_owned(), JobSetting { ranks: 2, rpi: Rpi::Tcp })];
        let fewer = list.without(&mended.into()).text();
        assert!(
            fewer.contains("testPack 1,2 shm missing") && fewer.contains("testPack 1 tcp missing"),
            "{fewer}"
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, what) in [
            ("test_a 1 shm", "not test"),
            ("test_a x shm why", "not a number"),
            ("test_a 1 udp why", "neither"),
            ("test_a 1,1 shm why", "second time"),
        ] {
            let error = Expected::parse(&format!("# head\n{line}\n")).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn surprises_and_mended_tests_are_found() {
        let list = Expected::parse(LIST).unwrap();
        let run = [part(
            2,
            &[
                ("test_pack.TestPack.testPack", Verdict::Unsupported),
                ("test_pack.TestPack.testSize", Verdict::Passed),
                ("test_pack.TestPack.testOther", Verdict::Hung),
                ("test_pack.TestPack.testSkipped", Verdict::Skipped),
            ],
        )];
        let comparison = list.compare(&run);
        let names = |keys: &BTreeSet<Key>| keys.iter().map(|key| key.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&comparison.surprises), ["test_pack.TestPack.testOther"]);
        assert_eq!(names(&comparison.mended), ["test_pack.TestPack.testSize"]);
        assert_eq!(comparison.known, 1);
        // A test that is gone is mended too; other settings and other parts say nothing about it.
        assert_eq!(list.compare(&[part(1, &[])]).mended.len(), 1);
        assert!(list.compare(&[part(3, &[])]).mended.is_empty());
        let none = Expected::from_run(&run).compare(&run);
        assert!(none.surprises.is_empty() && none.mended.is_empty());
    }
}
