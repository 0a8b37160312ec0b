//! The records of the ranks of a job of the suite, and the failed test of an unsuccessful job.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::results::{Test, Verdict};

/// A line of `recorder.py`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    plan: Option<Vec<String>>,
    end: Option<String>,
    verdict: String,
    text: String,
    missing: Vec<String>,
    out_of_step: Option<String>,
    finished: bool,
}

#[derive(Debug)]
struct End {
    verdict: Verdict,
    text: String,
    missing: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Rank {
    /// The tests to run, once the rank knows them.
    plan: Option<Vec<String>>,
    ends: BTreeMap<String, End>,
    out_of_step: Option<String>,
    finished: bool,
    /// The Python stack of a slow or crashed rank.
    stacks: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Finished,
    In(String),
    /// After this test, which ended in all ranks, with different results.
    After(String),
    /// Before a rank knew its tests.
    Start,
    Exit,
}

impl Rank {
    /// Reads the record of `rank`. A missing record is empty.
    pub(super) fn read(directory: &Path, rank: u32) -> Rank {
        let text = |kind: &str| {
            let bytes = fs::read(directory.join(format!("{rank}.{kind}"))).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Rank { stacks: text("stacks"), ..Rank::parse(&text("json")) }
    }

    fn parse(text: &str) -> Rank {
        let mut rank = Rank::default();
        // The last line may have been cut off by the end of the process.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            if let Some(test) = line.end {
                let verdict = match line.verdict.as_str() {
                    "ok" if line.missing.is_empty() => Verdict::Passed,
                    "skip" if line.missing.is_empty() => Verdict::Skipped,
                    "ok" | "skip" => Verdict::Unsupported,
                    "failure" => Verdict::Failed,
                    _ => Verdict::Error,
                };
                rank.ends.insert(test, End { verdict, text: line.text, missing: line.missing });
            }
            rank.plan = line.plan.or(rank.plan);
            rank.out_of_step = line.out_of_step.or(rank.out_of_step);
            rank.finished |= line.finished;
        }
        rank
    }

    /// The first test of the plan that has not ended, with its place.
    fn position(&self) -> Option<(usize, &str)> {
        let plan = self.plan.iter().flatten().map(String::as_str).enumerate();
        plan.into_iter().find(|(_, test)| !self.ends.contains_key(*test))
    }

    fn crashed(&self) -> bool {
        self.stacks.contains("Fatal Python error")
    }
}

/// Where the job stopped. It is the test of the rank that crashed; otherwise that of the
/// rank with the least progress.
pub(super) fn stop(ranks: &[Rank]) -> Stop {
    if ranks.iter().all(|rank| rank.finished) {
        return Stop::Finished;
    }
    if let Some(test) = ranks.iter().find_map(|rank| rank.out_of_step.as_ref()) {
        return Stop::After(test.clone());
    }
    let any_crashed = ranks.iter().any(Rank::crashed);
    // One rank may crash in its first test before another one is awake.
    if ranks.iter().any(|rank| rank.plan.is_none() && (!any_crashed || rank.crashed())) {
        return Stop::Start;
    }
    let suspects = ranks.iter().filter(|rank| !any_crashed || rank.crashed());
    match suspects.filter_map(Rank::position).min() {
        Some((_, test)) => Stop::In(test.to_owned()),
        None => Stop::Exit,
    }
}

/// The tests that have ended in all ranks, the tests of the import, and the failed test with all
/// its records.
pub(super) fn merge(ranks: &[Rank], blamed: Option<&str>) -> Vec<Test> {
    let names: BTreeSet<&String> = ranks.iter().flat_map(|rank| rank.ends.keys()).collect();
    let mut tests = Vec::new();
    for name in names {
        let planned = |rank: &Rank| rank.plan.iter().flatten().any(|test| test == name);
        let everywhere = ranks.iter().all(|rank| rank.ends.contains_key(name) || !planned(rank));
        if !everywhere && blamed != Some(name) {
            continue;
        }
        let mut test = Test::new(name, Verdict::Skipped, "");
        for (number, rank) in (0..).zip(ranks) {
            if let Some(end) = rank.ends.get(name) {
                test.add(number, end.verdict, &end.text);
                test.missing.extend(end.missing.iter().cloned());
            }
        }
        tests.push(test);
    }
    tests
}

/// The Python stacks of the ranks when they stopped: the innermost lines of each.
pub(super) fn stacks(ranks: &[Rank]) -> String {
    let mut text = String::new();
    for (number, rank) in ranks.iter().enumerate() {
        let lines = rank.stacks.lines().filter(|line| !line.trim().is_empty()).take(12);
        for line in lines {
            text.push_str(&format!("rank {number}: {line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(text: &str) -> Rank {
        Rank::parse(text)
    }

    const PLAN: &str = "{\"plan\": [\"m.a\", \"m.b\", \"m.c\"]}\n";

    fn end(test: &str, verdict: &str, missing: &str) -> String {
        format!(
            "{{\"end\": \"{test}\", \"verdict\": \"{verdict}\", \"text\": \"t\", \"missing\": [{missing}], \"seconds\": 0.1}}\n"
        )
    }

    #[test]
    fn the_rank_that_is_least_far_names_the_test() {
        let far = rank(&(PLAN.to_owned() + &end("m.a", "ok", "") + &end("m.b", "ok", "")));
        let near = rank(&(PLAN.to_owned() + &end("m.a", "ok", "") + "{\"end\": \"m.b\", \"verd"));
        let mut ranks = [far, near];
        assert_eq!(stop(&ranks), Stop::In("m.b".into()));
        let names: Vec<_> = merge(&ranks, None).into_iter().map(|test| test.name).collect();
        assert_eq!(names, ["m.a"]);
        // Unless another one crashed.
        ranks[0].stacks = "Fatal Python error: Segmentation fault\n".into();
        assert_eq!(stop(&ranks), Stop::In("m.c".into()));
        ranks[1] = rank("");
        assert_eq!(stop(&ranks), Stop::In("m.c".into()));
    }

    #[test]
    fn a_job_may_stop_before_and_after_its_tests() {
        assert_eq!(stop(&[rank(PLAN), rank("")]), Stop::Start);
        let done = PLAN.to_owned()
            + &end("m.a", "ok", "")
            + &end("m.b", "ok", "")
            + &end("m.c", "skip", "");
        assert_eq!(stop(&[rank(&done)]), Stop::Exit);
        let finished = done.clone() + "{\"finished\": true}\n";
        assert_eq!(stop(&[rank(&finished), rank(&done)]), Stop::Exit);
        assert_eq!(stop(&[rank(&finished), rank(&finished)]), Stop::Finished);
        let apart = PLAN.to_owned() + &end("m.a", "error", "") + "{\"out_of_step\": \"m.a\"}\n";
        assert_eq!(stop(&[rank(&apart), rank(&done)]), Stop::After("m.a".into()));
    }

    #[test]
    fn a_missing_function_makes_a_skip_bad() {
        let one = rank(
            &(PLAN.to_owned() + &end("m.a", "skip", "\"MPI_Pack\"") + &end("m.b", "skip", "")),
        );
        let other = rank(&(PLAN.to_owned() + &end("m.a", "ok", "") + &end("m.b", "ok", "")));
        let tests = merge(&[one, other], None);
        assert_eq!((tests[0].verdict, tests[0].ranks.len()), (Verdict::Unsupported, 1));
        assert_eq!(tests[0].reason(), "missing MPI_Pack");
        assert_eq!(tests[1].verdict, Verdict::Passed);
    }
}
