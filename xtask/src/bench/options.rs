//! The options of `cargo xtask bench`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser as _};

use super::groups::{BenchGroup, BenchProgram, GROUPS};
use crate::root;

/// The name for all groups whose names begin with it.
const PATTERNS: &str = "patterns";

#[derive(Args, Debug)]
pub(crate) struct BenchOptions {
    /// The other libraries: those of DIR/openmpi, DIR/mpich and DIR/impi that exist
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,
    /// Samples of each figure, which is their median, for near cores and for far ones where the
    /// machine has both
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Minutes after which no further program starts, also fractions
    #[arg(long = "minutes", value_name = "M", default_value = "30", value_parser = minutes)]
    pub(crate) time: Duration,
    /// Measure only these groups; 'patterns' stands for all groups whose names begin with it
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = group_names())]
    groups: Vec<String>,
    /// The directory of report.md, results.json and the pictures
    // Programs get paths below it and may run elsewhere.
    #[arg(
        long,
        value_name = "DIR",
        default_value_os_t = root().join("target/bench"),
        value_parser = PathBufValueParser::new().try_map(std::path::absolute)
    )]
    pub(crate) out: PathBuf,
    /// Instead: make the prefixes for --peers with pip (a Python 3 with venv is needed)
    #[arg(long, value_name = "DIR", exclusive = true)]
    pub(crate) install_peers: Option<PathBuf>,
    /// Instead: write report and pictures again from a results.json
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

impl BenchOptions {
    pub(crate) fn groups(&self) -> impl Iterator<Item = &'static BenchGroup> {
        GROUPS.iter().filter(|group| {
            let is_meant = |name: &String| {
                group.name == name || (name == PATTERNS && group.name.starts_with(PATTERNS))
            };
            self.groups.is_empty() || self.groups.iter().any(is_meant)
        })
    }

    pub(crate) fn programs(&self) -> BTreeSet<BenchProgram> {
        self.groups().flat_map(|group| group.launches).map(|launch| launch.program).collect()
    }
}

fn group_names() -> PossibleValuesParser {
    GROUPS.iter().map(|group| group.name).chain([PATTERNS]).into()
}

fn minutes(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(|minutes: f64| minutes * 60.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or("it is not a number of minutes above 0".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::read;

    #[test]
    fn without_options_everything_is_measured() {
        let options: BenchOptions = read(&[]).unwrap();
        assert_eq!(options.groups().count(), GROUPS.len());
        assert_eq!(options.time, Duration::from_secs(1800));
    }

    #[test]
    fn a_wrong_value_is_refused() {
        for (words, named) in [
            (["--rounds", "0"], "'0'"),
            (["--minutes", "0"], "'0'"),
            (["--minutes", "soon"], "'soon'"),
            (["--groups", "latency,speed"], "'speed'"),
            (["--groups", "pattern"], "'patterns'"),
        ] {
            let error = read::<BenchOptions>(&words).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_name_patterns_stands_for_all_such_groups() {
        let options: BenchOptions = read(&["--groups", "patterns,rate"]).unwrap();
        let names: Vec<_> = options.groups().map(|group| group.name).collect();
        let patterns =
            ["patterns-2", "patterns-4", "patterns-8", "patterns-threads", "patterns-denied"];
        assert_eq!(names, [&["rate"], &patterns[..]].concat());
        assert_eq!(options.programs(), [BenchProgram::P2p, BenchProgram::Patterns].into());
    }

    #[test]
    fn a_program_that_no_group_needs_is_not_among_them() {
        let options: BenchOptions = read(&["--groups", "patterns-2"]).unwrap();
        assert_eq!(options.programs(), [BenchProgram::Patterns].into());
    }
}
