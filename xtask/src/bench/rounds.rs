//! Measuring in rounds. In a round, every launch that lacks samples (of near and of far cores where
//! the machine has both) goes through all libraries. Each round begins with another library, so
//! that other load affects all alike.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::distance::{Distance, distinguished};
use super::figures::{Point, Subject, Unit, points};
use super::groups::{BenchGroup, BenchLaunch, BenchProgram, FigureSource};
use super::launch::{Ended, Failed, launch};
use super::mpi::{Execution, Mpi};
use super::options::BenchOptions;
use super::results::{LIMIT, Library, Results, are_enough};
use crate::run::Failure;

/// The time of a point in `bench/limit.c`, in ms: it tries several copies for each.
const LIMIT_POINT: &str = "5";

pub(crate) struct Measurement<'a> {
    pub(crate) options: &'a BenchOptions,
    /// The libraries with compiled programs; ours is the first.
    pub(crate) mpis: Vec<Mpi>,
    pub(crate) limit: &'a Path,
    pub(crate) results: Results,
    courses: BTreeMap<(String, &'static str), Course>,
}

#[derive(Default)]
struct Course {
    runs: u32,
    failures: u32,
    /// The launch did not end, and is not tried again.
    hangs: bool,
    subjects: Vec<Subject>,
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    All,
    Sizes(BTreeSet<u64>),
}

impl Course {
    /// `is_enough`: whether a subject has all its samples, `rounds` in number.
    fn wanted(&self, rounds: u32, is_enough: impl Fn(&Subject) -> bool) -> Wanted {
        if self.hangs || self.failures >= rounds {
            return Wanted::Nothing;
        }
        if self.subjects.is_empty() {
            return if self.runs < rounds { Wanted::All } else { Wanted::Nothing };
        }
        let lacking: Vec<&Subject> =
            self.subjects.iter().filter(|subject| !is_enough(subject)).collect();
        match lacking.len() {
            0 => Wanted::Nothing,
            count if count == self.subjects.len() => Wanted::All,
            _ => Wanted::Sizes(lacking.iter().map(|subject| subject.bytes).collect()),
        }
    }
}

impl<'a> Measurement<'a> {
    pub(crate) fn new(
        options: &'a BenchOptions,
        limit: &'a Path,
        results: Results,
    ) -> Measurement<'a> {
        Measurement { options, mpis: Vec::new(), limit, results, courses: BTreeMap::new() }
    }

    /// Admits a library if messages arrive whole with it in all needed programs; otherwise prints
    /// the reason. `source` returns the source of a program.
    pub(crate) fn admit(&mut self, mpi: Mpi, source: impl Fn(BenchProgram) -> PathBuf) {
        let admitted = self.options.programs().into_iter().try_fold(None, |_, program| {
            mpi.compile(program, &source(program))?;
            let run = |ranks, args: &[&str]| {
                let args = args.iter().map(|&arg| arg.to_owned()).collect();
                let limit = Duration::from_secs(90);
                self.run(
                    &mpi,
                    &Execution { program, ranks, args, denies_single_copy: false, limit },
                )
            };
            run(2, &["-p", "check"])?;
            run(1, &["version"]).map(Some)
        });
        match admitted {
            Ok(ended) => {
                let output = ended.as_ref().map_or("", |ended| &ended.output);
                let version = output.lines().find_map(|line| line.strip_prefix("version "));
                self.results.libraries.push(Library {
                    name: mpi.kind.name.into(),
                    version: version.map_or("unknown".into(), shortened),
                    settings: mpi.settings(),
                });
                self.mpis.push(mpi);
            }
            Err(failed) => {
                println!("{} is left out: {}", mpi.kind.title, failed.why);
                self.results.fail(mpi.kind.name, "compiling and checking the program", &failed.why);
            }
        }
    }

    /// Runs rounds until each figure has its samples or the time is over. Calls `save` after each,
    /// so that an interrupted run loses little.
    pub(crate) fn run_all(
        &mut self,
        save: impl Fn(&Results) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let end = Instant::now() + self.options.time;
        for round in 0.. {
            let mut nothing_to_do = true;
            for group in self.options.groups() {
                for launch in group.launches {
                    let distances = distinguished(self.results.distances());
                    let wanted = self.wanted(group, launch, distances);
                    if wanted.iter().all(|(_, wanted)| *wanted == Wanted::Nothing) {
                        continue;
                    }
                    if Instant::now() >= end {
                        println!(
                            "the time is over: some figures have fewer than {} samples",
                            self.options.rounds
                        );
                        return save(&self.results);
                    }
                    if std::mem::replace(&mut nothing_to_do, false) {
                        self.results.machine.note_load();
                    }
                    println!("round {}: {}", round + 1, name_of(group, launch));
                    self.results.rounds = round + 1;
                    for at in order(wanted.len(), round) {
                        let (library, wanted) = &wanted[at];
                        self.measure(group, launch, library, wanted, round);
                    }
                }
            }
            if nothing_to_do {
                break;
            }
            save(&self.results)?;
        }
        save(&self.results)
    }

    /// The part of a launch that each library, and the limit, still has to measure.
    fn wanted(
        &self,
        group: &BenchGroup,
        launch: &BenchLaunch,
        distances: &[Distance],
    ) -> Vec<(&'static str, Wanted)> {
        let libraries =
            self.mpis.iter().map(|mpi| mpi.kind.name).chain(group.has_limit.then_some(LIMIT));
        let rounds = self.options.rounds;
        let wanted = |library| {
            let is_enough = |subject: &Subject| {
                let by_way = self.results.samples(group.name, library, subject);
                by_way.iter().all(|samples| are_enough(samples, distances, rounds as usize))
            };
            let course = self.courses.get(&(name_of(group, launch), library));
            course.map_or(Wanted::All, |course| course.wanted(rounds, is_enough))
        };
        libraries.map(|library| (library, wanted(library))).collect()
    }

    fn measure(
        &mut self,
        group: &BenchGroup,
        launch: &BenchLaunch,
        library: &'static str,
        wanted: &Wanted,
        round: u32,
    ) {
        let mut args: Vec<String> = launch.args.iter().map(|&arg| arg.to_owned()).collect();
        match wanted {
            Wanted::Nothing => return,
            Wanted::All => {}
            Wanted::Sizes(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
                let before_test = args.len().saturating_sub(1);
                args.splice(before_test..before_test, ["-s".into(), sizes.join(",")]);
            }
        }
        let found = match self.mpis.iter().find(|mpi| mpi.kind.name == library) {
            Some(mpi) => self.figures(mpi, launch, args),
            None => self.limits(launch, &args),
        };
        let course = self.courses.entry((name_of(group, launch), library)).or_default();
        course.runs += 1;
        match found {
            Ok(points) => {
                for point in points {
                    if !course.subjects.contains(&point.subject) {
                        course.subjects.push(point.subject.clone());
                    }
                    if library == LIMIT {
                        self.results.add_limit(round, point);
                    } else {
                        self.results.add(group.name, library, round, point);
                    }
                }
            }
            Err(failed) => {
                course.failures += 1;
                course.hangs = failed.timed_out;
                self.failed(library, &name_of(group, launch), &failed.why);
            }
        }
    }

    fn failed(&mut self, library: &str, launch: &str, why: &str) {
        println!("  {library} failed ({launch}): {why}");
        self.results.fail(library, launch, why);
    }

    fn figures(
        &self,
        mpi: &Mpi,
        launch: &BenchLaunch,
        mut args: Vec<String>,
    ) -> Result<Vec<Point>, Failed> {
        if launch.source == FigureSource::PointsOfMeeting {
            let meeting = self.options.out.join("meeting");
            // A new file: the counter of an earlier launch must not be found.
            let _ = fs::remove_file(&meeting);
            fs::write(&meeting, "")
                .map_err(|e| Failed::new(format!("cannot write {}: {e}", meeting.display())))?;
            args.splice(0..0, ["-m".into(), meeting.display().to_string()]);
        }
        let BenchLaunch { program, ranks, limit, .. } = *launch;
        let denies_single_copy = launch.denies_single_copy();
        let ended =
            self.run(mpi, &Execution { program, ranks, args, denies_single_copy, limit })?;
        if launch.source == FigureSource::WallTime {
            let subject = Subject {
                test: "start".into(),
                ranks: launch.ranks,
                bytes: 0,
                unit: Unit::Seconds,
            };
            return Ok(vec![Point { subject, median: ended.seconds, by: None, line: None }]);
        }
        let points = points(&ended.output).map_err(Failed::new)?;
        if points.is_empty() {
            return Err(Failed::new("the program printed no figure"));
        }
        Ok(points)
    }

    /// The limits of a launch, for the same test and sizes. A single core has none.
    fn limits(&self, of: &BenchLaunch, args: &[String]) -> Result<Vec<Point>, Failed> {
        let mut command = Command::new(self.limit);
        if let Some((test, options)) = args.split_last() {
            command
                .args(options.iter().filter(|option| *option != "-p"))
                .args(["-t", LIMIT_POINT])
                .arg(test);
        }
        let ended = launch(command, of.limit, &self.options.out)?;
        points(&ended.output).map_err(Failed::new)
    }

    fn run(&self, mpi: &Mpi, execution: &Execution) -> Result<Ended, Failed> {
        mpi.run(self.results.machine.cores, execution)
    }
}

fn name_of(group: &BenchGroup, launch: &BenchLaunch) -> String {
    format!("{}: {} ranks, {}", group.name, launch.ranks, launch.args.join(" "))
}

/// The name and version of a library up to the first detail: `Open MPI v5.0.11, package: ...`,
/// `OxMPI 0.1.0 (MPI 5.0, ...)`.
fn shortened(version: &str) -> String {
    let end =
        version.find(',').into_iter().chain(version.find(" (")).min().unwrap_or(version.len());
    version[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The order of `count` libraries in a round: A B C, then B C A.
fn order(count: usize, round: u32) -> impl Iterator<Item = usize> {
    let first = round as usize;
    (0..count).map(move |at| (at + first) % count)
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Subject, Unit};
    use super::{Course, Wanted, order, shortened};

    fn subject(bytes: u64) -> Subject {
        Subject { test: "latency".into(), ranks: 2, bytes, unit: Unit::Microseconds }
    }

    #[test]
    fn what_lacks_samples_is_measured_again() {
        let course = Course {
            runs: 9,
            subjects: vec![subject(0), subject(8), subject(64)],
            ..Course::default()
        };
        assert_eq!(course.wanted(5, |_| true), Wanted::Nothing);
        assert_eq!(course.wanted(5, |_| false), Wanted::All);
        assert_eq!(course.wanted(5, |subject| subject.bytes != 8), Wanted::Sizes([8].into()));
    }

    #[test]
    fn what_fails_or_hangs_is_given_up() {
        let course = |runs, failures, hangs| Course { runs, failures, hangs, subjects: Vec::new() };
        assert_eq!(course(4, 4, false).wanted(5, |_| false), Wanted::All);
        assert_eq!(course(5, 5, false).wanted(5, |_| false), Wanted::Nothing);
        assert_eq!(course(1, 1, true).wanted(5, |_| false), Wanted::Nothing);
        // The launch succeeds without figures.
        assert_eq!(course(5, 0, false).wanted(5, |_| false), Wanted::Nothing);
    }

    #[test]
    fn a_version_is_its_first_words() {
        assert_eq!(shortened("Open MPI v5.0.11, package: Open MPI root@host"), "Open MPI v5.0.11");
        assert_eq!(shortened("OxMPI 0.1.0 (MPI 5.0, standard ABI)"), "OxMPI 0.1.0");
        assert_eq!(shortened("MPICH Version:      5.0.2"), "MPICH Version: 5.0.2");
        assert_eq!(shortened("Intel(R) MPI Library 2021.18.1"), "Intel(R) MPI Library 2021.18.1");
    }

    #[test]
    fn each_round_begins_with_another_library() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| order(3, round).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(order(0, 5).count(), 0);
    }
}
