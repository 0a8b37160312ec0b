//! Measuring: rounds in which every launch goes through all libraries, each round beginning with another one, so that
//! what else the machine does meets all alike.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::figures::{Point, Subject, Unit, points};
use super::groups::{Gives, Group, Launch};
use super::launch::{Ended, Failed, launch};
use super::mpi::Mpi;
use super::options::Options;
use super::results::{LIMIT, Library, Results};
use crate::run::Failure;

/// The longest time of `bench/limit.c` at its default time of a point: the better part of a minute.
const LIMIT_OF_LIMIT: Duration = Duration::from_secs(240);

pub(crate) struct Measurement<'a> {
    pub(crate) options: &'a Options,
    /// Those whose program is compiled; ours is the first.
    pub(crate) mpis: Vec<Mpi>,
    /// The compiled `bench/limit.c`, if there is one.
    pub(crate) limit: Option<&'a Path>,
    pub(crate) results: Results,
    /// Launches that did not end, which are not tried again.
    hanging: BTreeSet<(&'static str, String)>,
}

impl<'a> Measurement<'a> {
    pub(crate) fn new(options: &'a Options, limit: Option<&'a Path>, results: Results) -> Measurement<'a> {
        Measurement { options, mpis: Vec::new(), limit, results, hanging: BTreeSet::new() }
    }

    /// Takes in a library if messages arrive whole with it; otherwise says why not.
    pub(crate) fn admit(&mut self, mpi: Mpi, source: &Path) {
        let out = &self.options.out;
        let admitted = mpi.compile(source, out).and_then(|()| {
            self.run(&mpi, 2, &["-p".into(), "check".into()], Duration::from_secs(90))?;
            self.run(&mpi, 1, &["version".into()], Duration::from_secs(60))
        });
        match admitted {
            Ok(ended) => {
                let version = ended.output.lines().find_map(|line| line.strip_prefix("version "));
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

    /// Runs all rounds; calls `save` after each, so that one who interrupts the run loses little.
    pub(crate) fn run_all(&mut self, save: impl Fn(&Results) -> Result<(), Failure>) -> Result<(), Failure> {
        for round in 0..self.options.rounds {
            self.results.machine.note_load();
            if self.options.groups.iter().any(|group| group.has_limit) {
                println!("round {} of {}: limit", round + 1, self.options.rounds);
                self.measure_limit(round);
            }
            for group in &self.options.groups {
                println!("round {} of {}: {}", round + 1, self.options.rounds, group.name);
                for launch in group.launches {
                    self.measure(group, launch, round);
                }
            }
            self.results.rounds = round + 1;
            save(&self.results)?;
        }
        Ok(())
    }

    fn measure_limit(&mut self, round: u32) {
        let Some(limit) = self.limit else { return };
        let ended = launch(Command::new(limit), LIMIT_OF_LIMIT, &self.options.out);
        match ended.and_then(|ended| points(&ended.output).map_err(Failed::new)) {
            Ok(points) => points.into_iter().for_each(|point| self.results.add_limit(round, point)),
            Err(failed) => self.failed(LIMIT, "limit", &failed.why),
        }
    }

    /// One launch of all libraries.
    fn measure(&mut self, group: &Group, launch: &Launch, round: u32) {
        let name = format!("{}: {} ranks, {}", group.name, launch.ranks, launch.args.join(" "));
        for at in order(self.mpis.len(), round) {
            let library = self.mpis[at].kind.name;
            if self.hanging.contains(&(library, name.clone())) {
                continue;
            }
            match self.figures(&self.mpis[at], launch) {
                Ok(points) => {
                    for point in points {
                        self.results.add(group.name, library, round, point);
                    }
                }
                Err(failed) => {
                    self.failed(library, &name, &failed.why);
                    if failed.timed_out {
                        self.hanging.insert((library, name.clone()));
                    }
                }
            }
        }
    }

    fn failed(&mut self, library: &str, launch: &str, why: &str) {
        println!("  {library} failed ({launch}): {why}");
        self.results.fail(library, launch, why);
    }

    /// The figures of one launch of one library.
    fn figures(&self, mpi: &Mpi, launch: &Launch) -> Result<Vec<Point>, Failed> {
        let mut args: Vec<String> = launch.args.iter().map(|&arg| arg.to_owned()).collect();
        if launch.gives == Gives::PointsOfMeeting {
            let meeting = self.options.out.join("meeting");
            // A new file: the counter of an earlier launch must not be found.
            let _ = fs::remove_file(&meeting);
            fs::write(&meeting, "")
                .map_err(|e| Failed::new(format!("cannot write {}: {e}", meeting.display())))?;
            args.splice(0..0, ["-m".into(), meeting.display().to_string()]);
        }
        let ended = self.run(mpi, launch.ranks, &args, launch.limit)?;
        if launch.gives == Gives::WallTime {
            let subject =
                Subject { test: "start".into(), ranks: launch.ranks, bytes: 0, unit: Unit::Seconds };
            return Ok(vec![Point { subject, median: ended.seconds }]);
        }
        let points = points(&ended.output).map_err(Failed::new)?;
        if points.is_empty() {
            return Err(Failed::new("the program printed no figure"));
        }
        Ok(points)
    }

    fn run(&self, mpi: &Mpi, ranks: u32, args: &[String], limit: Duration) -> Result<Ended, Failed> {
        mpi.run(ranks, self.results.machine.cores, args, limit, &self.options.out)
    }
}

/// What a library says of itself up to the first detail: `Open MPI v5.0.11, package: ...`, `OxMPI 0.1.0 (MPI 5.0, ...)`.
fn shortened(version: &str) -> String {
    let end = version.find(',').into_iter().chain(version.find(" (")).min().unwrap_or(version.len());
    version[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// In which order `count` libraries have their turn in a round: A B C, then B C A.
fn order(count: usize, round: u32) -> impl Iterator<Item = usize> {
    let first = round as usize;
    (0..count).map(move |at| (at + first) % count)
}

#[cfg(test)]
mod tests {
    use super::{order, shortened};

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
