//! `cargo xtask conformance --fortran`: Fortran codes of Debian's archive, built by their own build
//! systems with our `mpifort` and `mpicc` and not modified, are judged by their own tests.
//!
//! Each code is a file below this module: how it is built, and its jobs at each number of ranks.
//! Each job gives one or more tests, and each of these a verdict.

mod compiler;
mod dbcsr;
mod elpa;
mod espresso;
mod hdf5;
mod mumps;
mod petsc;
mod pnetcdf;
mod scalapack;
mod site;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::ValueEnum;

pub(super) use self::compiler::FortranCompiler;
use self::compiler::FortranCompiler::{Flang19, Gfortran};
use self::site::{BuildFailure, Site};
use super::job::{self, Ending, Limits};
use super::options::{ConformanceOptions, Rpi, name_of};
use super::results::{JobSetting, Part, Results, Test, Verdict};
use super::{client, make_directory, report};
use crate::install::{Build, install};
use crate::packages;
use crate::root;
use crate::run::Failure;

/// The time limit of a job without its own.
const LIMIT: Duration = Duration::from_secs(120);

/// Programs that every code needs, each with its Debian package.
const NEEDED: [(&str, &str); 3] =
    [("/usr/bin/cc", "gcc"), ("/usr/bin/make", "make"), ("/usr/bin/setpriv", "util-linux")];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FortranCode {
    /// ScaLAPACK, with the tester of the BLACS
    Scalapack,
    /// MUMPS, over ScaLAPACK
    Mumps,
    /// The parallel tests of HDF5's Fortran interface
    Hdf5,
    /// PnetCDF's tests of its interfaces for Fortran 77 and 90
    Pnetcdf,
    /// PETSc's examples for Fortran
    Petsc,
    /// ELPA, over ScaLAPACK
    Elpa,
    /// pw.x of Quantum ESPRESSO
    Espresso,
    /// DBCSR, with module mpi_f08
    Dbcsr,
}

/// How a code is built and tested.
#[derive(Debug)]
struct ForeignCode {
    /// The version for which the tests below were chosen. Debian's release decides which one runs.
    version: &'static str,
    /// The source package.
    package: &'static str,
    /// Programs that the build needs, each with its Debian package.
    needed: &'static [(&'static str, &'static str)],
    ranks: &'static [u32],
    build: fn(&Site) -> Result<(), BuildFailure>,
    jobs: fn(&Site, u32) -> Result<Vec<FortranJob>, Failure>,
}

impl FortranCode {
    fn recipe(self) -> &'static ForeignCode {
        match self {
            FortranCode::Scalapack => &scalapack::RECIPE,
            FortranCode::Mumps => &mumps::RECIPE,
            FortranCode::Hdf5 => &hdf5::RECIPE,
            FortranCode::Pnetcdf => &pnetcdf::RECIPE,
            FortranCode::Petsc => &petsc::RECIPE,
            FortranCode::Elpa => &elpa::RECIPE,
            FortranCode::Espresso => &espresso::RECIPE,
            FortranCode::Dbcsr => &dbcsr::RECIPE,
        }
    }
}

/// A job with one or more tests.
#[derive(Debug)]
struct FortranJob {
    name: String,
    task: Task,
}

#[derive(Debug)]
enum Task {
    Run {
        command: Box<Command>,
        limit: Duration,
        judge: Judge,
    },
    /// The job is left out for this reason.
    Skip(&'static str),
}

/// Checks the output and the exit code of a job, and returns the reason of a failure.
type OutputCheck = fn(&str, i32) -> Result<(), String>;

/// Reads the verdict out of the output and the exit code of a job.
#[derive(Clone, Copy, Debug)]
enum Judge {
    /// The job is one test.
    One(OutputCheck),
    /// The tests that the output names. At least this number of them must not be skipped: a
    /// compiler that a build does not recognise has left out all tests for Fortran.
    Each(fn(&str) -> Vec<Test>, usize),
}

impl FortranJob {
    fn new(name: impl Into<String>, command: Command, judge: Judge) -> FortranJob {
        let task = Task::Run { command: Box::new(command), limit: LIMIT, judge };
        FortranJob { name: name.into(), task }
    }

    fn skip(name: impl Into<String>, reason: &'static str) -> FortranJob {
        FortranJob { name: name.into(), task: Task::Skip(reason) }
    }

    fn within(mut self, seconds: u64) -> FortranJob {
        if let Task::Run { limit, .. } = &mut self.task {
            *limit = Duration::from_secs(seconds);
        }
        self
    }

    /// Runs the job. Its tests have the name of the code in front.
    fn run(self, code: &str, site: &Site, ranks: u32) -> Result<Vec<Test>, Failure> {
        let name = format!("{code}.{}", self.name);
        let (command, limit, judge) = match self.task {
            Task::Skip(reason) => return Ok(vec![Test::new(name, Verdict::Skipped, reason)]),
            Task::Run { command, limit, judge } => (*command, limit, judge),
        };
        let log = site.log(&format!("{name}.{ranks}"));
        let limits = Limits { patience: limit, total: limit };
        let ending = job::run(command, &site.quiet()?, &log, limits)?;
        let bytes = std::fs::read(&log).unwrap_or_default();
        let output = String::from_utf8_lossy(&bytes);
        Ok(judged(code, &name, &output, ending, limit, judge))
    }
}

fn judged(
    code: &str,
    name: &str,
    output: &str,
    ending: Ending,
    limit: Duration,
    judge: Judge,
) -> Vec<Test> {
    let end = || job::last_lines(output, 12);
    let whole = |verdict, text: String| Test::new(name, verdict, text);
    let exit = match ending {
        Ending::Exit(code) => code,
        _ => {
            let text = format!("no end after {} s\n{}", limit.as_secs(), end());
            return vec![whole(Verdict::Hung, text)];
        }
    };
    match judge {
        Judge::One(check) => vec![match check(output, exit) {
            Ok(()) => whole(Verdict::Passed, String::new()),
            Err(text) => whole(Verdict::Failed, format!("{text}\nexit code {exit}\n{}", end())),
        }],
        Judge::Each(read, least) => {
            let mut tests = read(output);
            for test in &mut tests {
                test.name = format!("{code}.{}", test.name);
            }
            let run = tests.iter().filter(|test| test.verdict != Verdict::Skipped).count();
            let is_bad = tests.iter().any(|test| test.verdict.is_bad());
            // The exit code of 'make' is the sum of all tests.
            if exit != 0 && !is_bad {
                tests.push(whole(Verdict::Crashed, format!("exit code {exit}\n{}", end())));
            } else if run < least {
                let text = format!("{run} tests instead of {least}\n{}", end());
                tests.push(whole(Verdict::Failed, text));
            }
            tests
        }
    }
}

/// An exit code of 0, and a text in the output.
fn success_with(text: &str, output: &str, exit: i32) -> Result<(), String> {
    match (exit, output.contains(text)) {
        (0, true) => Ok(()),
        (0, false) => Err(format!("the output has no '{text}'")),
        _ => Err("no success".to_owned()),
    }
}

/// The codes that the options name, or all.
pub(super) fn run(options: &ConformanceOptions, codes: &[FortranCode]) -> Result<(), Failure> {
    let codes = if codes.is_empty() { FortranCode::value_variants() } else { codes };
    let prefix = match &options.prefix {
        Some(prefix) => prefix.clone(),
        None => {
            let prefix = root().join("target/conformance/oxmpi");
            install(&prefix, Build::release())?;
            prefix
        }
    };
    judge(&prefix, options.compiler, codes, options.shrink)
}

/// The shares of the nightly run in which codes run: the codes of a share are built and tested in
/// about five minutes of two processors. With flang pw.x takes as long alone, and has no share.
const NIGHTLY: [(u32, FortranCode, FortranCompiler); 15] = [
    (0, FortranCode::Hdf5, Gfortran),
    (0, FortranCode::Scalapack, Flang19),
    (1, FortranCode::Pnetcdf, Gfortran),
    (1, FortranCode::Hdf5, Flang19),
    (3, FortranCode::Dbcsr, Gfortran),
    (3, FortranCode::Petsc, Flang19),
    (4, FortranCode::Scalapack, Gfortran),
    (5, FortranCode::Mumps, Gfortran),
    (5, FortranCode::Mumps, Flang19),
    (6, FortranCode::Elpa, Gfortran),
    (6, FortranCode::Elpa, Flang19),
    (7, FortranCode::Pnetcdf, Flang19),
    (7, FortranCode::Dbcsr, Flang19),
    (8, FortranCode::Petsc, Gfortran),
    (9, FortranCode::Espresso, Gfortran),
];

/// The codes of a share of the nightly run, each with the name of its step and its run.
pub(crate) fn of_share(
    share: u32,
) -> impl Iterator<Item = (String, impl Fn(&Path) -> Result<(), Failure>)> {
    let codes = NIGHTLY.into_iter().filter(move |(of, ..)| *of == share);
    codes.map(|(_, code, compiler)| {
        let name = format!("{} with {}", name_of(code), compiler.program());
        (name, move |prefix: &Path| judge(prefix, compiler, &[code], false))
    })
}

fn judge(
    prefix: &Path,
    compiler: FortranCompiler,
    codes: &[FortranCode],
    shrink: bool,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let directory = root().join("target/conformance");
    let site = Site::new(prefix, compiler, &directory);
    make_directory(&site.programs)?;
    let mut results = Results { mpi4py: client::MPI4PY, parts: Vec::new() };
    for &code in codes {
        let recipe = code.recipe();
        let built = make(code, recipe, &site);
        println!("\n{}", report::head());
        for &ranks in recipe.ranks {
            super::add(&mut results, part(code, recipe, &site, ranks, &built)?)?;
        }
    }
    if codes.len() > 1 {
        println!("\n{}", report::head());
        results.parts.iter().for_each(|part| println!("{}", report::line(part)));
    }
    print!("{}", report::skips(&results.parts));
    println!("all together {:.1} s", begin.elapsed().as_secs_f64());
    super::conclude(&results, shrink, &directory)
}

/// Installs the programs that a code needs, and builds the code.
fn make(code: FortranCode, recipe: &ForeignCode, site: &Site) -> Result<(), BuildFailure> {
    let missing: Vec<&str> = [site.compiler.needed()]
        .iter()
        .chain(&NEEDED)
        .chain(recipe.needed)
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        packages::install(&missing)?;
    }
    let begin = Instant::now();
    site.once(&name_of(code), recipe.build)?;
    println!("{} is built after {:.1} s", name_of(code), begin.elapsed().as_secs_f64());
    if let Some(version) = site.version(recipe.package)
        && version != recipe.version
    {
        println!("its version is {version}: the tests were chosen for {}", recipe.version);
    }
    Ok(())
}

/// The tests of a code with this number of ranks.
fn part(
    code: FortranCode,
    recipe: &ForeignCode,
    site: &Site,
    ranks: u32,
    built: &Result<(), BuildFailure>,
) -> Result<Part, Failure> {
    let begin = Instant::now();
    let name = site.compiler.name_tests(&name_of(code));
    let mut part = Part::new(&name, JobSetting { ranks, rpi: Rpi::Shm });
    match built {
        Ok(()) => {
            for job in (recipe.jobs)(site, ranks)? {
                part.tests.extend(job.run(&name, site, ranks)?);
            }
        }
        Err(BuildFailure::NoSource(why)) => {
            part.tests.push(Test::new(&name, Verdict::Skipped, why.clone()));
        }
        Err(BuildFailure::Broken(why)) => {
            let text = format!("cannot be built: {why}");
            part.tests.push(Test::new(&name, Verdict::Error, text));
        }
    }
    part.seconds = begin.elapsed().as_secs_f64();
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(output: &str, ending: Ending, judge: Judge) -> Vec<(String, Verdict)> {
        let tests = judged("code", "code.job", output, ending, LIMIT, judge);
        tests.into_iter().map(|test| (test.name, test.verdict)).collect()
    }

    #[test]
    fn a_job_is_one_test_or_several() {
        let one = Judge::One(|output, exit| success_with("good", output, exit));
        let job = |verdict| vec![("code.job".to_owned(), verdict)];
        assert_eq!(verdicts("good", Ending::Exit(0), one), job(Verdict::Passed));
        assert_eq!(verdicts("good", Ending::Exit(1), one), job(Verdict::Failed));
        assert_eq!(verdicts("bad", Ending::Exit(0), one), job(Verdict::Failed));
        assert_eq!(verdicts("good", Ending::TimedOut, one), job(Verdict::Hung));
        let read = |output: &str| {
            let verdict = |name: &str| if name == "-" { Verdict::Skipped } else { Verdict::Passed };
            let test = |name: &str| Test::new(name, verdict(name), "");
            output.split_whitespace().map(test).collect::<Vec<_>>()
        };
        let each = Judge::Each(read, 2);
        let passed = |name: &str| (format!("code.{name}"), Verdict::Passed);
        let job = |verdict| ("code.job".to_owned(), verdict);
        assert_eq!(verdicts("a b", Ending::Exit(0), each), [passed("a"), passed("b")]);
        assert_eq!(verdicts("a", Ending::Exit(0), each), [passed("a"), job(Verdict::Failed)]);
        let skipped = ("code.-".to_owned(), Verdict::Skipped);
        let few = [passed("a"), skipped, job(Verdict::Failed)];
        assert_eq!(verdicts("a -", Ending::Exit(0), each), few);
        let crashed = verdicts("a b", Ending::Exit(2), each);
        assert_eq!(crashed, [passed("a"), passed("b"), job(Verdict::Crashed)]);
    }

    #[test]
    fn each_code_runs_in_a_share() {
        for code in FortranCode::value_variants() {
            let is_run = |compiler| {
                let runs = NIGHTLY.iter().filter(|(_, a, b)| (a, *b) == (code, compiler)).count();
                assert!(runs <= 1, "{code:?} runs twice with {compiler:?}");
                runs == 1
            };
            assert!(is_run(Gfortran), "{code:?}");
            is_run(Flang19);
        }
        assert!(NIGHTLY.iter().all(|(share, ..)| *share < 10));
    }
}
