//! The options of `cargo xtask bench`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::groups::{GROUPS, Group, Program};
use crate::root;
use crate::run::Failure;

pub(crate) const HELP: &str = "\
cargo xtask bench [options]        measure OxMPI beside other MPI libraries and beside the machine's own limit

  --peers DIR           the other libraries: prefixes DIR/openmpi, DIR/mpich, DIR/impi, as far as they are there
  --rounds N            how often everything is measured, 5 if not given, with near cores and with far ones where the
                        machine has both; figures are medians
  --minutes M           measure no longer than about M minutes, 30 if not given
  --groups A,B          what is measured, everything if not given:
                        latency bandwidth rate derived collectives over4 over8 start memory
                        patterns-2 patterns-4 patterns-8 patterns-threads patterns-denied; patterns stands for these five
  --out DIR             where report.md, results.json and the pictures go, target/bench if not given

cargo xtask bench --install-peers DIR   make these prefixes with pip (a Python 3 with venv is needed)
cargo xtask bench --report FILE         write report and pictures again from a results.json
";

/// The action that the words after `bench` request.
#[derive(Debug)]
pub(crate) enum BenchAction {
    Help,
    InstallPeers(PathBuf),
    Report { results: PathBuf, out: PathBuf },
    Measure(Options),
}

/// How to measure.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) peers: Option<PathBuf>,
    /// Samples of each figure, for each distance of the cores.
    pub(crate) rounds: u32,
    /// After this time nothing more is launched.
    pub(crate) time: Duration,
    pub(crate) groups: Vec<&'static Group>,
    pub(crate) out: PathBuf,
}

/// Reads the words after `bench`. An error names the word.
pub(crate) fn read(words: &[&str]) -> Result<BenchAction, Failure> {
    let (mut peers, mut rounds, mut out) = (None, 5, root().join("target/bench"));
    let mut time = minutes("30")?;
    let (mut results, mut groups) = (None, GROUPS.iter().collect());
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if matches!(word, "help" | "-h" | "--help") {
            return Ok(BenchAction::Help);
        }
        // Both forms, --rounds 2 and --rounds=2.
        let (option, attached) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        let mut value = || {
            let value = attached.or_else(|| words.next());
            value.ok_or_else(|| Failure::new(format!("{option} needs a value\n\n{HELP}")))
        };
        match option {
            "--peers" => peers = Some(PathBuf::from(value()?)),
            "--out" => out = PathBuf::from(value()?),
            "--rounds" => rounds = count(value()?)?,
            "--minutes" => time = minutes(value()?)?,
            "--groups" => groups = read_groups(value()?)?,
            "--install-peers" => return Ok(BenchAction::InstallPeers(PathBuf::from(value()?))),
            "--report" => results = Some(PathBuf::from(value()?)),
            _ => return Err(Failure::new(format!("bench has no option '{word}'\n\n{HELP}"))),
        }
    }
    Ok(match results {
        Some(results) => BenchAction::Report { results, out },
        None => BenchAction::Measure(Options { peers, rounds, time, groups, out }),
    })
}

fn count(text: &str) -> Result<u32, Failure> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| Failure::new(format!("--rounds '{text}' is not a number of rounds from 1 on")))
}

/// Minutes, also fractions: `0.5`.
fn minutes(text: &str) -> Result<Duration, Failure> {
    let seconds = text.parse().ok().map(|minutes: f64| minutes * 60.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.filter(|time| !time.is_zero());
    time.ok_or_else(|| Failure::new(format!("--minutes '{text}' is not a number of minutes above 0")))
}

/// Groups by their names, or by the common part before the hyphen.
fn read_groups(text: &str) -> Result<Vec<&'static Group>, Failure> {
    let mut groups: Vec<&Group> = Vec::new();
    for name in text.split(',') {
        let is_meant = |group: &&Group| {
            group.name == name || group.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
        };
        let before = groups.len();
        groups.extend(GROUPS.iter().filter(is_meant));
        if groups.len() == before {
            let names = GROUPS.iter().map(|group| group.name).collect::<Vec<_>>().join(" ");
            return Err(Failure::new(format!("--groups '{name}' is none of: {names}")));
        }
    }
    Ok(groups)
}

impl Options {
    /// The programs of the groups.
    pub(crate) fn programs(&self) -> BTreeSet<Program> {
        self.groups.iter().flat_map(|group| group.launches).map(|launch| launch.program).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_options_everything_is_measured() {
        let Ok(BenchAction::Measure(options)) = read(&[]) else { panic!() };
        assert_eq!((options.rounds, options.groups.len(), options.peers), (5, GROUPS.len(), None));
    }

    #[test]
    fn options_are_read_in_both_forms() {
        let words =
            ["--rounds=2", "--minutes", "0.5", "--groups", "latency,start", "--peers", "p", "--out=o"];
        let Ok(BenchAction::Measure(options)) = read(&words) else { panic!() };
        let names: Vec<_> = options.groups.iter().map(|group| group.name).collect();
        assert_eq!((options.rounds, names), (2, vec!["latency", "start"]));
        assert_eq!(options.time, Duration::from_secs(30));
        assert_eq!((options.peers, options.out), (Some("p".into()), "o".into()));
    }

    #[test]
    fn an_error_names_the_word() {
        for (words, named) in [
            (&["--round", "2"][..], "--round"),
            (&["--rounds", "0"], "'0'"),
            (&["--rounds"], "--rounds needs"),
            (&["--minutes", "0"], "'0'"),
            (&["--minutes", "-1"], "'-1'"),
            (&["--minutes", "soon"], "'soon'"),
            (&["--groups", "latency,speed"], "'speed'"),
            (&["--groups", "pattern"], "'pattern'"),
            (&["--groups", ""], "''"),
        ] {
            let error = read(words).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_name_before_the_hyphen_stands_for_all_such_groups() {
        let Ok(BenchAction::Measure(options)) = read(&["--groups", "patterns,rate"]) else { panic!() };
        let names: Vec<_> = options.groups.iter().map(|group| group.name).collect();
        let patterns = ["patterns-2", "patterns-4", "patterns-8", "patterns-threads", "patterns-denied"];
        assert_eq!(names, [&patterns[..], &["rate"]].concat());
        assert_eq!(options.programs(), [Program::P2p, Program::Patterns].into());
    }

    #[test]
    fn a_program_that_no_group_needs_is_not_among_them() {
        let Ok(BenchAction::Measure(options)) = read(&["--groups", "patterns-2"]) else { panic!() };
        assert_eq!(options.programs(), [Program::Patterns].into());
    }

    #[test]
    fn the_help_names_all_groups() {
        for group in &GROUPS {
            assert!(HELP.contains(group.name), "{}", group.name);
        }
    }
}
