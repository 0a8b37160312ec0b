//! `cargo xtask conformance`: programs of other people judge OxMPI.
//!
//! mpi4py's test suite runs module by module ([`suite`]). Each rank records the result of each test
//! ([`record`]), so that a job that hangs or crashes names its test, and the next job continues
//! behind this test. A library in front of OxMPI ([`witness`]) records which functions are missing;
//! a test that accepts a missing function has failed. Then other programs run ([`programs`]).
//! `--fortran` runs large Fortran codes instead ([`fortran`]).
//! Failures are compared with a list that may only shrink ([`expected`]). See
//! `docs/conformance.md`.

mod checkpoints;
mod client;
mod debian;
mod demos;
mod expected;
mod ferrompi;
mod fortran;
mod hdf5;
mod ib;
mod job;
mod options;
mod programs;
mod record;
mod report;
mod results;
mod suite;
mod witness;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::install::{Build, install};
use crate::root;
use crate::run::Failure;
use client::Client;
use expected::Expected;
pub(crate) use fortran::of_share as fortran_codes;
pub(crate) use options::ConformanceOptions;
use options::Rpi;
use programs::{ForeignProgram, PROGRAMS};
use results::{JobSetting, Part, Results, Test, Verdict};
use suite::Suite;

pub(crate) fn conformance(options: &ConformanceOptions) -> Result<(), Failure> {
    if let Some(parts) = &options.ib {
        return ib::run(options.prefix.as_deref(), parts);
    }
    if let Some(codes) = &options.fortran {
        return fortran::run(options, codes);
    }
    let rounds: Vec<Round> =
        options.settings().map(|setting| Round { setting, without: &[] }).collect();
    judge(options, &rounds, |_| true)
}

/// Long modules whose ranks do not communicate: the nightly shares run them with one rank.
const LONG_AND_LOCAL: [&str; 3] = ["test_datatype", "test_pack", "test_util_dtlib"];

/// mpi4py's suite by its own runner, after a plain `pip install`, on 2 ranks over shared memory. It
/// judges the installation in `prefix`.
pub(crate) fn runner(prefix: &Path) -> Result<(), Failure> {
    run_by_itself(prefix, &demos::RUNNER, Rpi::Shm)
}

/// A link to an installation whose path has blanks: the build of mpi4py splits the path of `mpicc`
/// at blanks.
struct LinkWithoutBlanks(Option<PathBuf>);

impl LinkWithoutBlanks {
    fn to(prefix: &Path) -> Result<LinkWithoutBlanks, Failure> {
        if !prefix.to_string_lossy().contains(char::is_whitespace) {
            return Ok(LinkWithoutBlanks(None));
        }
        let link = std::env::temp_dir().join(format!("oxmpi-conformance-{}", std::process::id()));
        std::os::unix::fs::symlink(prefix, &link).map_err(Failure::io(link.display()))?;
        Ok(LinkWithoutBlanks(Some(link)))
    }

    fn path<'p>(&'p self, prefix: &'p Path) -> &'p Path {
        self.0.as_deref().unwrap_or(prefix)
    }
}

impl Drop for LinkWithoutBlanks {
    fn drop(&mut self) {
        // A link that is left over leads nowhere after the next 'cargo clean'.
        self.0.iter().for_each(|link| _ = fs::remove_file(link));
    }
}

/// The same over sockets.
pub(crate) fn runner_over_tcp(prefix: &Path) -> Result<(), Failure> {
    run_by_itself(prefix, &demos::RUNNER, Rpi::Tcp)
}

/// The same with the wheels of OxMPI and of mpi4py, which are in an environment of Python.
pub(crate) fn suite_of_wheels(environment: &Path) -> Result<(), Failure> {
    run_by_itself(environment, &demos::OF_WHEELS, Rpi::Shm)?;
    run_by_itself(environment, &demos::OF_WHEELS_OPEN_MPI, Rpi::Shm)
}

/// The launchers below which the suite runs by its own runner, and the shares of the nightly run.
const BELOW: [(u32, &ForeignProgram); 4] = [
    (0, &demos::BELOW_PMI2),
    (1, &demos::BELOW_PMIX),
    (5, &demos::BELOW_NONE),
    (6, &demos::BELOW_HYDRA),
];

/// The launcher of a share of the nightly run, if it has one, and the run below this launcher.
pub(crate) fn below_other_launcher(
    share: u32,
) -> Option<(&'static str, impl Fn(&Path) -> Result<(), Failure>)> {
    let (_, program) = BELOW.into_iter().find(|(of, _)| *of == share)?;
    Some((program.name, move |prefix: &Path| run_by_itself(prefix, program, Rpi::Shm)))
}

fn run_by_itself(prefix: &Path, program: &ForeignProgram, rpi: Rpi) -> Result<(), Failure> {
    let link = LinkWithoutBlanks::to(prefix)?;
    let prefix = link.path(prefix);
    let directory = root().join("target/conformance");
    let client = Client::download(prefix, &directory)?;
    let made = directory.join("programs");
    make_directory(&made)?;
    let mut results = Results { mpi4py: client::MPI4PY, parts: Vec::new() };
    let setting = JobSetting { ranks: 2, rpi };
    program.make(prefix, &made)?;
    println!("\n{}", report::head());
    add(&mut results, program.run(&client, &made, &directory, setting)?)?;
    conclude(&results, false, &directory)
}

/// A share of the nightly run: each module of the suite with 1, 2 and 3 ranks over shared memory,
/// and with 2 and 3 over sockets.
pub(crate) fn share(prefix: &Path, share: usize, shares: usize) -> Result<(), Failure> {
    let link = LinkWithoutBlanks::to(prefix)?;
    let options = ConformanceOptions::of_modules("^(test_|bench_)", link.path(prefix));
    let settings = [(1, Rpi::Shm), (2, Rpi::Shm), (3, Rpi::Shm), (2, Rpi::Tcp), (3, Rpi::Tcp)];
    let round = |(ranks, rpi)| {
        let without: &[&str] = if ranks == 1 { &[] } else { &LONG_AND_LOCAL };
        Round { setting: JobSetting { ranks, rpi }, without }
    };
    let rounds: Vec<Round> = settings.into_iter().map(round).collect();
    judge(&options, &rounds, |at| at % shares == share)
}

pub(crate) fn infiniband(prefix: &Path) -> Result<(), Failure> {
    ib::short(prefix)
}

#[derive(Clone, Copy)]
struct Round {
    setting: JobSetting,
    without: &'static [&'static str],
}

struct Plan {
    modules: Vec<String>,
    programs: Vec<&'static ForeignProgram>,
}

/// Runs the modules and programs that the options name. `takes` decides by the number of a module,
/// counted over all rounds, whether it runs now.
fn judge(
    options: &ConformanceOptions,
    rounds: &[Round],
    takes: impl Fn(usize) -> bool,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let directory = root().join("target/conformance");
    make_directory(&directory.join("records"))?;
    let prefix = match &options.prefix {
        Some(prefix) => prefix.clone(),
        None => {
            let prefix = directory.join("oxmpi");
            install(&prefix, Build::release())?;
            prefix
        }
    };
    let client = Client::prepare(&prefix, &directory)?;
    let plan = plan(options, &client)?;
    let witness = witness::build(&prefix, &directory)?;
    println!("\n{}", report::head());
    let mut results = Results { mpi4py: client::MPI4PY, parts: Vec::new() };
    let routes: BTreeSet<Rpi> = rounds.iter().map(|round| round.setting.rpi).collect();
    let mut runnable = Vec::new();
    for rpi in routes {
        let test = way(rpi, &client);
        if !test.verdict.is_bad() {
            runnable.push(rpi);
        }
        let mut part = Part::new("way", JobSetting { ranks: 2, rpi });
        part.tests.push(test);
        add(&mut results, part)?;
    }
    let before_suite = Instant::now();
    let patience = Duration::from_secs(options.patience);
    let suite = Suite { client: &client, witness, directory: &directory, patience };
    let mut number = 0;
    for module in &plan.modules {
        for round in rounds {
            number += 1;
            let is_wanted = takes(number) && !round.without.contains(&module.as_str());
            if is_wanted && runnable.contains(&round.setting.rpi) {
                add(&mut results, suite.run(module, round.setting)?)?;
            }
        }
    }
    let in_suite = before_suite.elapsed();
    other_programs(&plan, &runnable, (&client, &prefix, &directory), &mut results)?;
    println!(
        "mpi4py's suite took {:.1} s, all together {:.1} s",
        in_suite.as_secs_f64(),
        begin.elapsed().as_secs_f64()
    );
    conclude(&results, options.shrink, &directory)
}

/// Whether messages take this route when a parameter selects it.
fn way(rpi: Rpi, client: &Client) -> Test {
    let mut command = client.mpirun();
    command.args(["-n", "2", "--timeout", "60"]).args(rpi.arguments());
    command.arg(client.python()).arg(root().join("xtask/src/conformance/way.py"));
    let why = match command.output() {
        Ok(output) => {
            let (said, complained) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if output.status.success() && said == format!("{0}\n{0}\n", rpi.name()) {
                return Test::new("way", Verdict::Passed, "");
            }
            let said = said.split_whitespace().collect::<Vec<_>>().join(" and ");
            format!("selected to go over {}, the ranks went over: {said}\n{complained}", rpi.name())
        }
        Err(error) => error.to_string(),
    };
    Test::new("way", Verdict::Failed, why.trim())
}

fn other_programs(
    plan: &Plan,
    rpis: &[Rpi],
    (client, prefix, directory): (&Client, &Path, &Path),
    results: &mut Results,
) -> Result<(), Failure> {
    let made = directory.join("programs");
    make_directory(&made)?;
    for program in &plan.programs {
        let failure = program.make(prefix, &made).err();
        for &rpi in rpis {
            for &ranks in program.ranks {
                let setting = JobSetting { ranks, rpi };
                let part = match &failure {
                    Some(failure) => program.not_made(failure, setting),
                    None => program.run(client, &made, directory, setting)?,
                };
                add(results, part)?;
            }
        }
    }
    Ok(())
}

/// Adds a part to the results, and writes them, so that an interrupted run has them.
fn add(results: &mut Results, part: Part) -> Result<(), Failure> {
    println!("{}", report::line(&part));
    results.parts.push(part);
    let json = serde_json::to_string_pretty(results)
        .map_err(|error| Failure::new(format!("cannot write the results: {error}")))?;
    write(&root().join("target/conformance/results.json"), &json)
}

fn conclude(results: &Results, shrink: bool, directory: &Path) -> Result<(), Failure> {
    let list = root().join("tests/conformance/expected-failures.txt");
    let text = fs::read_to_string(&list)
        .map_err(Failure::io(format!("cannot read {}", list.display())))?;
    let expected = Expected::parse(&text)?;
    let comparison = expected.compare(&results.parts);
    println!("{}\n", report::totals(&results.parts));
    for part in &results.parts {
        let surprising = |name: &str| {
            let setting = comparison.surprises.iter().find(|(test, setting)| {
                test == name && setting.ranks == part.ranks && setting.rpi == part.rpi
            });
            setting.is_some()
        };
        let reasons = report::reasons(part, surprising);
        if !reasons.is_empty() {
            println!("{}, {} ranks, {}\n{reasons}", part.name, part.ranks, part.rpi.name());
        }
    }
    for (test, setting) in &comparison.mended {
        println!(
            "expected to fail, but does not: {test} with {} ranks over {}",
            setting.ranks,
            setting.rpi.name()
        );
    }
    write(&directory.join("failures.txt"), &Expected::from_run(&results.parts).text())?;
    println!(
        "{} fail as expected; all is in {1}/results.json, what fails in {1}/failures.txt",
        comparison.known,
        directory.display()
    );
    let mut mended = comparison.mended.len();
    if shrink && mended > 0 {
        write(&list, &expected.without(&comparison.mended).text())?;
        println!("{mended} taken off {}", list.display());
        mended = 0;
    }
    match (comparison.surprises.len(), mended) {
        (0, 0) => Ok(()),
        (surprises, mended) => Err(Failure::new(format!(
            "{surprises} fail unexpectedly, {mended} are expected to fail and do not (--shrink takes them off the list)"
        ))),
    }
}

fn plan(options: &ConformanceOptions, client: &Client) -> Result<Plan, Failure> {
    let modules = client.modules()?;
    let names =
        modules.iter().map(String::as_str).chain(PROGRAMS.iter().map(|program| program.name));
    let wanted = matching(names, options.module.as_deref())?;
    let kept: Vec<_> = modules.into_iter().filter(|module| wanted.contains(module)).collect();
    let programs: Vec<_> =
        PROGRAMS.iter().filter(|program| wanted.iter().any(|name| name == program.name)).collect();
    if kept.is_empty() && programs.is_empty() {
        return Err(Failure::new("--module: nothing is left to run"));
    }
    Ok(Plan { modules: kept, programs })
}

/// The names that the regular expression finds; without one, all names.
fn matching<'a>(
    names: impl Iterator<Item = &'a str>,
    pattern: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let Some(pattern) = pattern else { return Ok(names.map(str::to_owned).collect()) };
    let pattern = regex_lite::Regex::new(pattern)
        .map_err(|error| Failure::new(format!("--module {pattern}: {error}")))?;
    Ok(names.filter(|name| pattern.is_match(name)).map(str::to_owned).collect())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(Failure::io(format!("cannot write {}", path.display())))
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(Failure::io(format!("cannot make {}", path.display())))
}
