//! `cargo xtask soak`: tests that search for rare faults as long as the user wants. Each run has
//! other seeds, and prints them.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::install::{Build, install};
use crate::needs::{Needs, Skips};
use crate::root;
use crate::run::{Failure, Run};
use crate::test::{nextest, prepare};

/// Worlds that the simulator runs between two readings of the clock.
const WORLDS: u64 = 5000;

/// Worlds of each test of `crates/core/tests/all/failures.rs`, in which ranks die.
const DEADLY_WORLDS: u64 = 10_000;

/// Runs of the thread stress: ranks and options of `mpirun`. The first gets the whole time, the
/// others a fifth of it.
#[rustfmt::skip] // a table
const STRESS_RUNS: [(u32, &[&str]); 8] = [
    (4, &[]),
    (1, &["--mca", "wait_spin_us", "0", "--mca", "wait_yield_us", "0"]),
    (2, &["--mca", "wait_spin_us", "0", "--mca", "wait_yield_us", "0"]),
    (4, &["--mca", "single_copy", "off"]),
    (4, &["--mca", "shm_max_rings", "0", "--mca", "shm_inbox_cells", "4"]),
    (4, &["--mca", "shm_ring_slots", "4", "--mca", "shm_eager_limit_bytes", "0", "--mca", "wait_yields", "0"]),
    (4, &["--mca", "rpi", "tcp"]),
    (7, &["--mca", "shm_max_rings", "1", "--mca", "shm_ring_after", "0"]),
];

#[derive(Args, Debug)]
pub(crate) struct SoakOptions {
    /// Seconds that each of five parts runs
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
}

pub(crate) fn soak(options: &SoakOptions) -> Result<(), Failure> {
    let seconds = options.seconds;
    let needs = prepare(Skips::Refused)?;
    let prefix = root().join("target/soak");
    install(&prefix, Build::release())?;
    threads(&prefix, seconds)?;
    worlds(Duration::from_secs(seconds))?;
    deadly_worlds(Duration::from_secs(seconds))?;
    plans()?;
    random_plans(seconds)?;
    checkpoints(&needs, seconds)?;
    stress(seconds)
}

/// The tests of a file. nextest fails if a filter selects none.
fn tests(package: &str, file: &str) -> Run {
    Run::cargo().args([
        "nextest",
        "run",
        "--locked",
        "--profile",
        "fuzz",
        "-p",
        package,
        "--test",
        file,
    ])
}

/// Rings and doors of shared memory. One pass takes about two seconds.
pub(crate) fn stress(seconds: u64) -> Result<(), Failure> {
    tests("oxmpi-shm", "stress").env("OXMPI_STRESS_TIMES", (seconds / 2).max(1).to_string()).show()
}

fn seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs()) % 1_000_000_000
}

/// Four threads a rank do everything at once.
pub(crate) fn threads(prefix: &Path, seconds: u64) -> Result<(), Failure> {
    let seed = seed();
    let program = prefix.join("thread_stress");
    Run::new(prefix.join("bin/mpicc"))
        .args(["-O1", "-g", "-pthread"])
        .arg(root().join("tests/c/thread_stress.c"))
        .arg("-o")
        .arg(&program)
        .show()?;
    for (number, (ranks, options)) in STRESS_RUNS.iter().enumerate() {
        let seconds = if number == 0 { seconds } else { seconds.div_ceil(5) };
        Run::new(prefix.join("bin/mpirun"))
            .args(["-n", &ranks.to_string(), "--timeout", &(seconds + 90).to_string()])
            .args(*options)
            .arg(&program)
            .args([seconds.to_string(), seed.to_string()])
            .show()?;
    }
    Ok(())
}

/// Every algorithm of collectives with every size to 64, verified.
pub(crate) fn plans() -> Result<(), Failure> {
    tests("oxmpi-plan", "sweep")
        .args(["--run-ignored", "all"])
        .env("OXMPI_PLAN_SWEEP", "all")
        .show()
}

/// Random calls of all collectives, verified: some hundreds take a second.
pub(crate) fn random_plans(seconds: u64) -> Result<(), Failure> {
    tests("oxmpi-plan", "sweep")
        .arg("random_calls_are_correct")
        .env("OXMPI_PLAN_CASES", (seconds * 300).max(1000).to_string())
        .show()
}

/// Jobs over all transports are killed and restarted many times: each time takes some
/// seconds.
pub(crate) fn checkpoints(needs: &Needs, seconds: u64) -> Result<(), Failure> {
    needs
        .environment(nextest())
        .args(["--profile", "fuzz", "-E", "test(/^jobs::checkpoints::.*comes_back/)"])
        .env("OXMPI_CHECKPOINT_CYCLES", (seconds / 20).max(2).to_string())
        .show()
}

pub(crate) fn worlds(time: Duration) -> Result<(), Failure> {
    play_for(time, "sim::random_programs", WORLDS)
}

pub(crate) fn deadly_worlds(time: Duration) -> Result<(), Failure> {
    play_for(time, "failures::", DEADLY_WORLDS)
}

fn play_for(time: Duration, test: &str, worlds: u64) -> Result<(), Failure> {
    let (start, seed) = (Instant::now(), seed());
    for part in 0.. {
        play(test, seed + part * worlds, worlds)?;
        if start.elapsed() >= time {
            println!("{} worlds of {test} from seed {seed}", (part + 1) * worlds);
            break;
        }
    }
    Ok(())
}

fn play(test: &str, base: u64, count: u64) -> Result<(), Failure> {
    tests("oxmpi-core", "all")
        .arg(test)
        .env("OXMPI_SIM_BASE", base.to_string())
        .env("OXMPI_SIM_COUNT", count.to_string())
        .show()
}
