//! `cargo xtask soak`: what finds rare defects, for as long as one likes to wait. Each run plays other seeds, and says
//! which.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::criu;
use crate::install::install;
use crate::root;
use crate::run::{Failure, Run};

/// Worlds that the simulator plays between two looks at the clock.
const WORLDS: u64 = 5000;

/// Those of each test of `crates/core/tests/all/failures.rs`, in which ranks die.
const DEADLY_WORLDS: u64 = 10_000;

/// Ways to run the stress of threads: ranks and options of `mpirun`. The first gets the whole time, the others a
/// fifth of it.
const WAYS: [(u32, &[&str]); 8] = [
    (4, &[]),
    (1, &["--mca", "wait_spin_us", "0", "--mca", "wait_yield_us", "0"]),
    (2, &["--mca", "wait_spin_us", "0", "--mca", "wait_yield_us", "0"]),
    (4, &["--mca", "single_copy", "off"]),
    (4, &["--mca", "shm_max_rings", "0", "--mca", "shm_inbox_cells", "4"]),
    (
        4,
        &["--mca", "shm_ring_slots", "4", "--mca", "shm_eager_limit_bytes", "0", "--mca", "wait_yields", "0"],
    ),
    (4, &["--mca", "rpi", "tcp"]),
    (7, &["--mca", "shm_max_rings", "1", "--mca", "shm_ring_after", "0"]),
];

/// Soaks: each of the parts takes about `seconds`.
pub(crate) fn soak(seconds: u64) -> Result<(), Failure> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs()) % 1_000_000_000;
    threads(seconds, seed)?;
    worlds(Duration::from_secs(seconds), seed)?;
    plans(seconds)?;
    checkpoints(seconds)?;
    myrinet()?;
    // One time over takes about two seconds.
    Run::cargo()
        .args(["test", "--locked", "--quiet", "-p", "oxmpi-shm", "--test", "stress"])
        .env("OXMPI_STRESS_TIMES", (seconds / 2).max(1).to_string())
        .show()
}

/// Four threads a rank do everything at once.
fn threads(seconds: u64, seed: u64) -> Result<(), Failure> {
    let prefix = root().join("target/soak");
    install(&prefix, true)?;
    let program = prefix.join("thread_stress");
    Run::new(prefix.join("bin/mpicc"))
        .args(["-O1", "-g", "-pthread"])
        .arg(root().join("tests/c/thread_stress.c"))
        .arg("-o")
        .arg(&program)
        .show()?;
    for (way, (ranks, options)) in WAYS.iter().enumerate() {
        let seconds = if way == 0 { seconds } else { seconds.div_ceil(5) };
        Run::new(prefix.join("bin/mpirun"))
            .args(["-n", &ranks.to_string(), "--timeout", &(seconds + 90).to_string()])
            .args(*options)
            .arg(&program)
            .args([seconds.to_string(), seed.to_string()])
            .show()?;
    }
    Ok(())
}

/// Every algorithm of collectives with every size, and random calls of all of them, verified: some hundreds take a second.
fn plans(seconds: u64) -> Result<(), Failure> {
    Run::cargo()
        .args(["nextest", "run", "--locked", "--no-fail-fast", "--profile", "fuzz", "-p", "oxmpi-plan"])
        .args(["--test", "sweep"])
        .env("OXMPI_PLAN_SWEEP", "all")
        .show()?;
    Run::cargo()
        .args(["test", "--locked", "--quiet", "-p", "oxmpi-plan", "--test", "sweep", "anything_goes"])
        .env("OXMPI_PLAN_CASES", (seconds * 300).max(1000).to_string())
        .show()
}

/// Jobs over all transports are lost and brought back again and again: each time takes some seconds.
fn checkpoints(seconds: u64) -> Result<(), Failure> {
    let criu = match criu::find_or_unpack() {
        Ok(criu) => criu,
        Err(failure) => {
            println!("no job is lost and brought back: {failure}");
            return Ok(());
        }
    };
    Run::cargo()
        .args(["nextest", "run", "--locked", "--no-fail-fast", "--profile", "fuzz", "-p", "oxmpi-cli"])
        .args(["--test", "jobs", "comes_back"])
        .env("OXMPI_CHECKPOINT_CYCLES", (seconds / 20).max(2).to_string())
        .env("OXMPI_TEST_CRIU", criu)
        .env("OXMPI_TEST_PREFIX", root().join("target/soak"))
        .show()
}

/// All C tests over the emulation of Myrinet's GM, and receivers that compute for longer than GM waits: some minutes, however long the
/// other parts take.
fn myrinet() -> Result<(), Failure> {
    Run::cargo()
        .args(["nextest", "run", "--locked", "--no-fail-fast", "--profile", "fuzz", "-p", "oxmpi-cli"])
        .args(["--test", "jobs", "--run-ignored", "only", "gm::"])
        .env("OXMPI_TEST_PREFIX", root().join("target/soak"))
        .show()
}

/// The simulated world, with seeds of its own.
fn worlds(time: Duration, seed: u64) -> Result<(), Failure> {
    let start = Instant::now();
    for part in 0.. {
        play(&["--test", "all", "sim::random_programs"], seed + part * WORLDS, WORLDS)?;
        play(&["--test", "all", "failures::"], seed + part * DEADLY_WORLDS, DEADLY_WORLDS)?;
        if start.elapsed() >= time {
            println!(
                "{} worlds, and {} in which ranks die, from seed {seed}",
                (part + 1) * WORLDS,
                (part + 1) * DEADLY_WORLDS
            );
            break;
        }
    }
    Ok(())
}

/// Runs a test of the simulated world with `count` seeds from `base` on.
fn play(test: &[&str], base: u64, count: u64) -> Result<(), Failure> {
    Run::cargo()
        .args(["test", "--locked", "--quiet", "-p", "oxmpi-core"])
        .args(test)
        .env("OXMPI_SIM_BASE", base.to_string())
        .env("OXMPI_SIM_COUNT", count.to_string())
        .show()
}
