//! Random calls of the C interface: valid, null, freed and senseless handles, random counts, ranks
//! and tags. The program must not crash, hang or exit; the results of the calls are ignored.
//!
//! A program made from the table of the ABI (module `source`) calls functions at random, with
//! pointers that are always valid or, on request, sometimes null. It runs alone, alone without
//! checks of arguments, and on two ranks.
//!
//! It runs for OXMPI_FUZZ_SECONDS (default 4) and prints its seed. OXMPI_FUZZ_SEED repeats a seed
//! and leaves the program in target/tmp/fuzz-calls, where it can be run by hand; FUZZ_TRACE=1 names
//! each call. It needs the installation that OXMPI_TEST_PREFIX names.

mod source;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::{installed, root};

const STEPS: u64 = 20_000;
/// The exit code of a good run. The program ends by MPI_Abort, as not all its operations can be
/// completed.
const GOOD: i32 = 77;

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

struct Directory {
    path: PathBuf,
    stays: bool,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.stays {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum FuzzRun {
    Alone,
    Trusting,
    TwoRanks,
    TwoRanksOverSockets,
}

const FUZZ_RUNS: [FuzzRun; 4] =
    [FuzzRun::Alone, FuzzRun::Trusting, FuzzRun::TwoRanks, FuzzRun::TwoRanksOverSockets];

fn run(fuzz_run: FuzzRun, directory: &Path, program: &Path, seed: u64) -> Result<(), String> {
    let ranks = if matches!(fuzz_run, FuzzRun::Alone | FuzzRun::Trusting) { "1" } else { "2" };
    let mut command = Command::new(installed("mpirun"));
    command.args([
        "-n",
        ranks,
        "--timeout",
        "100",
        "--mca",
        "mpi_initial_errhandler",
        "mpi_errors_return",
    ]);
    match fuzz_run {
        FuzzRun::Trusting => command.args(["--mca", "mpi_param_check", "0"]),
        FuzzRun::TwoRanksOverSockets => command.args(["--mca", "rpi", "tcp"]),
        _ => &mut command,
    };
    command.arg(program).args([seed.to_string(), STEPS.to_string()]).current_dir(directory);
    if matches!(fuzz_run, FuzzRun::Trusting) {
        command.arg("trusting");
    }
    let output = command.output().unwrap();
    if output.status.code() == Some(GOOD) {
        return Ok(());
    }
    let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    Err(format!("{}\n{out}{errors}", output.status))
}

#[test]
fn no_call_crashes_or_hangs() {
    let replayed = number_from_env("OXMPI_FUZZ_SEED");
    let name = replayed
        .map_or_else(|| format!("fuzz-calls-{}", std::process::id()), |_| "fuzz-calls".to_owned());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    let directory = Directory { path, stays: replayed.is_some() };
    let text = directory.path.join("fuzz.c");
    std::fs::write(&text, source::source()).unwrap();
    let program = directory.path.join("fuzz");
    let mut mpicc = Command::new(installed("mpicc"));
    mpicc
        .args(["-O1", "-g", "-w", "-I"])
        .arg(root().join("tests/c/fuzz"))
        .arg(&text)
        .arg("-o")
        .arg(&program);
    let output = mpicc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let time = Duration::from_secs(number_from_env("OXMPI_FUZZ_SECONDS").unwrap_or(4));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = replayed.unwrap_or(now.as_micros() as u64 % 1_000_000_000);
    println!("OXMPI_FUZZ_SEED={first}");
    let start = Instant::now();
    for seed in first.. {
        for fuzz_run in FUZZ_RUNS {
            if let Err(error) = run(fuzz_run, &directory.path, &program, seed) {
                panic!("OXMPI_FUZZ_SEED={seed}, {fuzz_run:?}: {error}");
            }
        }
        if replayed.is_some() || start.elapsed() >= time {
            println!(
                "{} seeds, {} calls each in {} configurations",
                seed - first + 1,
                STEPS,
                FUZZ_RUNS.len()
            );
            break;
        }
    }
}
