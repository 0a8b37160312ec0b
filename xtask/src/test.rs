//! `cargo xtask test`: the everyday run, with every change. `cargo xtask nightly` has the tests
//! that it leaves out (`docs/testing.md`).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::bench;
use crate::conformance;
use crate::install::{Build, install, target_directory};
use crate::needs::{Needs, Skips};
use crate::nightly::{Passed, run_share, share_of};
use crate::root;
use crate::run::{Failure, Run};
use crate::steps::Steps;
use crate::style;

#[derive(Args, Debug)]
pub(crate) struct RunOptions {
    /// A share of the nightly run: 0/10 to 9/10
    #[arg(long, value_name = "K/10", value_parser = share_of)]
    pub(crate) share: Option<u32>,
    /// Run only the steps whose names contain STEP
    #[arg(long, value_name = "STEP")]
    pub(crate) only: Option<String>,
    /// List the checks that this machine does not allow, instead of failing
    #[arg(long)]
    allow_skips: bool,
    /// Write the times to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl RunOptions {
    pub(crate) fn skips(&self) -> Skips {
        if self.allow_skips { Skips::Allowed } else { Skips::Refused }
    }
}

/// The everyday run; with `--share K/10` that share of the nightly run after it.
pub(crate) fn test(options: &RunOptions) -> Result<(), Failure> {
    let share = options.share.map(|share| Ok((share, Passed::load(false)?))).transpose()?;
    let mut steps = Steps::new(options.only.clone());
    let needs = everyday(&mut steps, options.skips(), share);
    let skips = needs.map(|needs| needs.skips()).unwrap_or_default();
    steps.conclude(options.json.as_deref(), &skips)
}

fn everyday(steps: &mut Steps, skips: Skips, share: Option<(u32, Passed)>) -> Option<Needs> {
    let mut needs = steps.need("what the tests need", || prepare(skips))?;
    steps.run("rustfmt", || Run::cargo().args(["fmt", "--all", "--check"]).show());
    steps.run("style", || style::style(&[]));
    steps.run("clippy", || {
        let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        Run::cargo().args(lint).show()
    });
    if !steps.run("installation", || make_installation(&prefix()))
        || !steps.run("build of the tests", build_tests)
    {
        return Some(needs);
    }
    steps.run_tests("tests", "default", || {
        needs.environment(nextest()).args(["--test-threads", &threads()]).show()
    });
    steps.run("doc tests", || {
        Run::cargo().args(["test", "--workspace", "--locked", "--doc", "--quiet"]).show()
    });
    steps.run("loom", || loom(Some(2)));
    steps.run("mpi4py by its own runner", || conformance::runner(&prefix()));
    if let Some((share, mut passed)) = share {
        run_share(steps, &mut needs, share, &mut passed);
    }
    Some(needs)
}

/// The number of tests at a time: two more than processors. One test of hosts and one of
/// checkpoints run together with the others (`.config/nextest.toml`), and wait most of the time.
pub(crate) fn threads() -> String {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (processors + 2).to_string()
}

pub(crate) fn prefix() -> PathBuf {
    root().join("target/test-prefix")
}

pub(crate) fn prepare(skips: Skips) -> Result<Needs, Failure> {
    if !Run::cargo().args(["nextest", "--version"]).succeeds() {
        Run::cargo().args(["install", "--locked", "cargo-nextest"]).show()?;
    }
    Needs::prepare(skips)
}

/// Makes the installation anew: a test compares it with its list of files.
pub(crate) fn make_installation(prefix: &Path) -> Result<(), Failure> {
    remove_directory(prefix)?;
    install(prefix, Build::default())?;
    bench::compile_programs(prefix, &root().join("target/bench-programs"))
}

pub(crate) fn build_tests() -> Result<(), Failure> {
    nextest().arg("--no-run").show()
}

pub(crate) fn nextest() -> Run {
    Run::cargo()
        .args(["nextest", "run", "--workspace", "--locked"])
        .env("OXMPI_TEST_PREFIX", prefix())
}

/// Runs fuzzers for `seconds` each, with new seeds: messages of the wire, files of parameters,
/// datatypes against a naive model, matching against its rule, calls of the C interface.
/// `partition` selects some of them.
pub(crate) fn fuzz(seconds: u64, partition: Option<&str>) -> Result<(), Failure> {
    // A fuzzer runs longer than other tests, and has no time limit but its own.
    let fuzzers = ["--profile", "fuzz", "-E", "binary(/^fuzz/) | test(/^fuzz_calls::/)"];
    let run = nextest().args(fuzzers).env("OXMPI_FUZZ_SECONDS", seconds.to_string());
    match partition {
        Some(partition) => run.args(["--partition", partition]),
        None => run,
    }
    .show()
}

/// The model checker on the lane lock and the protocols in shared memory, with at most
/// `preemptions`, or with the number of each test. It needs a differently compiled standard
/// library, and so a target directory of its own.
pub(crate) fn loom(preemptions: Option<u32>) -> Result<(), Failure> {
    let run = Run::cargo()
        .args(["test", "--locked", "-p", "oxmpi-sys", "-p", "oxmpi-shm"])
        .args(["--profile", "loom", "--test", "loom", "--target-dir"])
        .arg(target_directory().join("loom"))
        .env("RUSTFLAGS", "--cfg loom");
    match preemptions {
        Some(most) => run.env("LOOM_MAX_PREEMPTIONS", most.to_string()),
        None => run,
    }
    .show()
}

fn remove_directory(directory: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::io(format!("cannot remove {}", directory.display()))(error))
        }
        _ => Ok(()),
    }
}
