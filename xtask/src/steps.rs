//! The steps of a run. Each step is announced and timed, and has a line in the table at the end,
//! even if the run fails.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::junit::{self, SlowTest};
use crate::root;
use crate::run::Failure;

const SLOWEST: usize = 30;

#[derive(Debug, Serialize)]
pub(crate) struct Step {
    name: String,
    seconds: f64,
    failure: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Steps {
    begin: Instant,
    /// Only steps with this text in their names run.
    only: Option<String>,
    done: Vec<Step>,
    slowest: Vec<SlowTest>,
}

/// The content of the file of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    seconds: f64,
    steps: &'a [Step],
    slowest_tests: &'a [SlowTest],
    skips: &'a [String],
}

impl Steps {
    pub(crate) fn new(only: Option<String>) -> Steps {
        Steps { begin: Instant::now(), only, done: Vec::new(), slowest: Vec::new() }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Runs a step, if it is wanted, and prints its name before and its time after it. Returns
    /// false if it failed; the other steps run all the same, so that one run shows every failure.
    pub(crate) fn run(&mut self, name: &str, act: impl FnOnce() -> Result<(), Failure>) -> bool {
        !self.wants(name) || self.need(name, act).is_some()
    }

    /// Runs a step that the others need, wanted or not. Returns `None` if it failed.
    pub(crate) fn need<T>(
        &mut self,
        name: &str,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Option<T> {
        println!("\n== {} | {name}", clock(self.begin.elapsed()));
        let begin = Instant::now();
        let result = act();
        let seconds = begin.elapsed().as_secs_f64();
        let verdict = if result.is_ok() { "done" } else { "FAILED" };
        println!(
            "== {} | {name}: {verdict} in {}",
            clock(self.begin.elapsed()),
            clock(begin.elapsed())
        );
        let failure = result.as_ref().err().map(ToString::to_string);
        self.done.push(Step { name: name.into(), seconds, failure });
        result.ok()
    }

    /// Runs a step that runs tests by nextest with this profile: the slowest tests go into the
    /// table.
    pub(crate) fn run_tests(
        &mut self,
        name: &str,
        profile: &str,
        act: impl FnOnce() -> Result<(), Failure>,
    ) -> bool {
        // The file of an earlier run.
        let _ = fs::remove_file(junit::file(profile));
        let has_passed = self.run(name, act);
        if let Ok(text) = fs::read_to_string(junit::file(profile)) {
            self.slowest.extend(junit::tests_in(&text));
            self.slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
            self.slowest.truncate(SLOWEST);
        }
        has_passed
    }

    fn failures(&self) -> Result<(), Failure> {
        let failed = self.done.iter().filter_map(|step| Some((&step.name, step.failure.as_ref()?)));
        let lines: Vec<_> = failed.map(|(name, failure)| format!("{name}: {failure}")).collect();
        if lines.is_empty() { Ok(()) } else { Err(Failure::new(lines.join("\n"))) }
    }

    /// Prints the table and writes it to `json`, and returns the failures of all steps. `skips`:
    /// checks that the machine did not allow.
    pub(crate) fn conclude(&self, json: Option<&Path>, skips: &[String]) -> Result<(), Failure> {
        print!("\n{}", self.table(skips));
        if let Some(json) = json {
            self.write(json, skips)?;
        }
        self.failures()
    }

    fn write(&self, json: &Path, skips: &[String]) -> Result<(), Failure> {
        let report = Report {
            seconds: self.begin.elapsed().as_secs_f64(),
            steps: &self.done,
            slowest_tests: &self.slowest,
            skips,
        };
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("the times cannot be written to {}: {error}", json.display()))
        };
        let text = serde_json::to_string_pretty(&report).map_err(|error| failed(&error))?;
        fs::write(root().join(json), text).map_err(|error| failed(&error))
    }

    fn table(&self, skips: &[String]) -> String {
        let mut text = String::new();
        for step in &self.done {
            let time = clock(Duration::from_secs_f64(step.seconds));
            let verdict = if step.failure.is_some() { "  FAILED" } else { "" };
            let _ = writeln!(text, "{time:>8}  {}{verdict}", step.name);
        }
        let _ = writeln!(text, "{:>8}  all", clock(self.begin.elapsed()));
        if !self.slowest.is_empty() {
            let _ = writeln!(text, "\nThe slowest tests:");
        }
        for test in &self.slowest {
            let _ = writeln!(text, "{:>6.1} s  {} {}", test.seconds, test.binary, test.name);
        }
        if !skips.is_empty() {
            let _ = writeln!(text, "\nSkipped, as --allow-skips allows:");
        }
        for skip in skips {
            let _ = writeln!(text, "  {skip}");
        }
        text
    }
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_timed_and_failures_named() {
        let mut steps = Steps::new(None);
        assert!(steps.run("first", || Ok(())));
        assert!(steps.failures().is_ok());
        assert!(!steps.run("second", || Err(Failure::new("it broke"))));
        assert_eq!(steps.failures().unwrap_err().to_string(), "second: it broke");
        let table = steps.table(&["no CRIU".into()]);
        for line in ["0:00  first\n", "0:00  second  FAILED\n", "0:00  all\n", "  no CRIU\n"] {
            assert!(table.contains(line), "{table}");
        }
    }

    #[test]
    fn steps_that_are_not_wanted_do_not_run() {
        let mut steps = Steps::new(Some("loom".into()));
        assert!(steps.run("tests", || Err(Failure::new("it ran"))));
        assert!(!steps.run("loom", || Err(Failure::new("it ran"))));
        assert_eq!(steps.failures().unwrap_err().to_string(), "loom: it ran");
    }

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!(clock(Duration::from_secs_f64(59.7)), "1:00");
        assert_eq!(clock(Duration::from_secs(3671)), "61:11");
    }
}
