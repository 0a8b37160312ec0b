//! The clients with real process managers. Each test starts this program again as the processes of
//! a job ([`process`]).
#![allow(clippy::unwrap_used)] // a test may panic anywhere

#[path = "../../cli/tests/support/mod.rs"]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use oxmpi_join::evidence::Evidence;
use oxmpi_join::{JoinSettings, ProcessManager, connect};

use support::launchers::{LAUNCHERS, Launcher};
use support::texts;

/// The role of a process of a job.
const ROLE: &str = "OXMPI_JOIN_ROLE";
const LONG: Duration = Duration::from_secs(60);
const PROCESSES: usize = 4;

/// The arguments by which this program is one process of a job.
const AS_PROCESS: [&str; 5] = ["--exact", "process", "--ignored", "--nocapture", "--quiet"];

#[test]
#[ignore = "it is a process of the other tests"]
fn process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let managers = Evidence::gather(None).managers();
    let Some(found) = managers.first() else {
        println!("no manager");
        return;
    };
    let settings = JoinSettings {
        pmix_library: "libpmix.so.2",
        munge_library: "libmunge.so.2",
        munge_socket: None,
        limit: LONG,
    };
    let manager = connect(found, &settings).unwrap().unwrap();
    match role.as_str() {
        "values" => values(manager),
        "abort" => abort(manager),
        "late" => late(manager),
        other => panic!("there is no role {other}"),
    }
}

/// The value that a process leaves: of any bytes, and longer than a line of any manager.
fn value_of(rank: u32) -> Vec<u8> {
    (0..5000 + rank).map(|place| (place * (rank + 3)) as u8).collect()
}

fn values(mut manager: Box<dyn ProcessManager>) {
    let (rank, size) = (manager.rank(), manager.size());
    // In two rounds, as the second one must not hide behind values of the first one.
    for round in ["first", "second"] {
        if rank != 1 {
            manager.put(round, &value_of(rank)).unwrap();
            manager.put(&format!("{round}.empty"), b"").unwrap();
        }
        manager.fence(LONG).unwrap();
        for other in 0..size {
            let wanted = (other != 1).then(|| value_of(other));
            assert!(manager.get(other, round, LONG).unwrap() == wanted, "{other}");
            let empty = manager.get(other, &format!("{round}.empty"), LONG).unwrap();
            assert_eq!(empty, (other != 1).then(Vec::new));
        }
        manager.fence(LONG).unwrap();
    }
    let text = format!("\nrank {rank} of {size} in {}\n", manager.job());
    manager.leave().unwrap();
    print!("{text}");
}

fn abort(mut manager: Box<dyn ProcessManager>) {
    if manager.rank() == 1 {
        let error = manager.abort(7, "the text");
        println!("\n{error}\n");
        std::process::exit(7);
    }
    let _ = manager.fence(LONG);
    std::thread::sleep(LONG);
}

fn late(mut manager: Box<dyn ProcessManager>) {
    if manager.rank() == 0 {
        println!("\n{}\n", manager.fence(Duration::from_millis(300)).unwrap_err());
        // The other processes end, although an answer is missing.
        manager.abort(3, "the text");
        std::process::exit(3);
    }
    std::thread::sleep(LONG);
}

fn own() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().into()
}

/// Runs a job of this program: the exit code, and both streams.
fn run(launcher: Launcher, role: &str) -> Option<(i32, String, String)> {
    let mut command = launcher.command(PROCESSES)?;
    command.arg(own()).args(AS_PROCESS).env(ROLE, role);
    Some(texts(&command.output().unwrap()))
}

fn count(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn all_processes_read_the_values_of_all() {
    for launcher in LAUNCHERS {
        let Some(outcome) = run(launcher, "values") else { continue };
        assert_eq!(outcome.0, 0, "{launcher:?}: {outcome:?}");
        let jobs: Vec<&str> = outcome.1.lines().filter(|line| line.starts_with("rank ")).collect();
        assert_eq!(jobs.len(), PROCESSES, "{launcher:?}: {outcome:?}");
        for rank in 0..PROCESSES {
            let begin = format!("rank {rank} of {PROCESSES} in ");
            assert!(jobs.iter().any(|line| line.starts_with(&begin)), "{launcher:?}: {outcome:?}");
        }
        let name = |line: &&str| line.split_once(" in ").map(|(_, job)| job.to_string());
        assert!(jobs.iter().all(|line| name(line) == name(&jobs[0])), "{launcher:?}: {outcome:?}");
    }
}

/// After the first program has left, its successor in a script finds a closed socket. At a port
/// it would be welcome.
#[test]
fn a_second_program_of_a_script_has_no_manager() {
    let Some(mut command) = Launcher::Hydra.command(2) else { return };
    let words = [&[&*own()], &AS_PROCESS[..]].concat().join(" ");
    command.args(["sh", "-c", &format!("{words}; {words}")]).env(ROLE, "values");
    let outcome = texts(&command.output().unwrap());
    assert_eq!((outcome.0, count(&outcome.1, "no manager")), (0, 2), "{outcome:?}");
}

#[test]
fn a_process_without_a_launcher_has_no_manager() {
    let mut alone = Command::new(own());
    let (code, out, err) = texts(&alone.args(AS_PROCESS).env(ROLE, "values").output().unwrap());
    assert_eq!((code, count(&out, "no manager")), (0, 1), "{out}{err}");
}

/// Each launcher takes seconds for these.
mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn an_abort_ends_all_processes_at_once() {
        for launcher in LAUNCHERS {
            let begun = Instant::now();
            let Some(outcome) = run(launcher, "abort") else { continue };
            // Slurm's plugin pmi2 kills all processes, whatever the code. prterun sometimes crashes
            // after it has ended the job.
            let codes = match launcher {
                Launcher::Srun("pmi2") => [137, 137],
                Launcher::Prterun => [7, -1],
                _ => [7, 7],
            };
            assert!(
                codes.contains(&outcome.0) && begun.elapsed() < LONG / 2,
                "{launcher:?}: {outcome:?}"
            );
        }
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_fence_without_the_others_ends_at_its_limit() {
        for launcher in LAUNCHERS {
            let begun = Instant::now();
            let Some(outcome) = run(launcher, "late") else { continue };
            assert!(outcome.0 != 0 && begun.elapsed() < LONG / 2, "{launcher:?}: {outcome:?}");
            assert_eq!(count(&outcome.1, "'fence' within 0.3 s"), 1, "{launcher:?}: {outcome:?}");
        }
    }
}
