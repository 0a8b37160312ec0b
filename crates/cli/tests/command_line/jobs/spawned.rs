//! Jobs that spawn others, and do not end together: a crash, an abort, a killed launcher or
//! singleton.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::harness::{LaunchedJob, Outcome, Programs, SOON, compile, kill};

const TRANSPORTS: [&str; 3] = ["shm", "tcp", "lamd"];

fn run(programs: &Programs, transport: &str, mode: &str, manner: &str) -> Outcome {
    programs.run(2, &["--mca", "rpi", transport], "spawner", &[mode, manner])
}

fn singleton(programs: &Programs, mode: &str, manner: &str) -> LaunchedJob {
    let mut command = Command::new(programs.path("spawner"));
    command.args([mode, manner]).arg(programs.marker());
    programs.start(command)
}

/// The process numbers of four waiting processes, two of each job (or one parent), with their
/// parents'.
fn stuck(job: &mut LaunchedJob, count: usize) -> Vec<(i32, i32)> {
    let line = |line: String| {
        let numbers: Vec<i32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        (numbers[1], numbers[2])
    };
    (0..count).map(|_| line(job.line())).collect()
}

#[test]
fn a_child_that_dies_after_a_disconnect_leaves_the_parents_alive() {
    let p = compile(&["jobs/spawner"]);
    for transport in TRANSPORTS {
        for (manner, code, words) in [
            ("kill", 137, "was killed by SIGKILL"),
            ("3", 3, "exited with code 3"),
            ("0", 1, "exited after MPI_Init without calling MPI_Finalize"),
            ("mpi", 7, "called MPI_Abort"),
        ] {
            let outcome = run(&p, transport, "disconnected", manner);
            outcome.reports(code, "rank 0 of spawned job 1 (pid ");
            assert!(outcome.err.contains(words), "{outcome:?}");
            assert!(
                outcome.err.contains("1 rank still running will be ended"),
                "its sibling: {outcome:?}"
            );
            assert_eq!(outcome.out, "parent fine\nparent fine\n", "{transport}");
        }
    }
}

#[test]
fn a_child_that_dies_while_it_is_connected_ends_all_connected_jobs() {
    let p = compile(&["jobs/spawner"]);
    for transport in TRANSPORTS {
        for (manner, code) in [("kill", 137), ("3", 3), ("mpi", 7)] {
            let outcome = run(&p, transport, "connected", manner);
            outcome.reports(code, "rank 0 of spawned job 1 (pid ");
            assert!(outcome.err.contains("3 ranks still running will be ended"), "{outcome:?}");
            assert_eq!(outcome.out, "", "{transport}");
        }
    }
}

#[test]
fn children_outlive_parents_that_have_disconnected_and_are_waited_for() {
    let p = compile(&["jobs/spawner"]);
    for transport in TRANSPORTS {
        let outcome = run(&p, transport, "outlives", "-");
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
        // The children wait for one parent.
        let count = |text| outcome.out.matches(text).count();
        assert_eq!(
            (count("parent fine\n"), count("child fine\n")),
            (2, 2),
            "{transport}: {outcome:?}"
        );
    }
}

#[test]
fn parents_that_wait_for_children_that_have_left_are_ended_with_their_code() {
    let p = compile(&["jobs/spawner"]);
    for transport in TRANSPORTS {
        let outcome = run(&p, transport, "leaves", "3");
        assert_eq!(
            (outcome.code, outcome.out.contains("fine")),
            (3, false),
            "{transport}: {outcome:?}"
        );
        let missed = "of spawned job 1 exited with code 3 after it had finalized MPI";
        assert!(outcome.err.contains(missed), "{transport}: {outcome:?}");
    }
}

#[test]
fn a_spawned_program_that_does_not_use_mpi_is_reported() {
    let p = compile(&["jobs/spawner"]);
    let outcome = run(&p, "shm", "uninitialized", "-");
    outcome.reports(1, "rank ");
    assert!(
        outcome.err.contains("of spawned job 1")
            && outcome.err.contains("without ever calling MPI_Init")
    );
}

#[test]
fn the_tags_of_spawned_ranks_name_their_job() {
    let p = compile(&["jobs/spawner"]);
    let outcome = p.run(1, &["--tag-output"], "spawner", &["outlives", "-"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let mut lines: Vec<_> = outcome.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] parent fine", "[1.0] child fine", "[1.1] child fine"]);
}

#[test]
fn a_killed_launcher_leaves_no_spawned_process() {
    let p = compile(&["jobs/spawner"]);
    for transport in TRANSPORTS {
        let mut job =
            p.start(p.mpirun(2, &["--mca", "rpi", transport], "spawner", &["stuck", "-"]));
        stuck(&mut job, 4);
        kill(job.child.id() as i32);
        assert_eq!(job.end_within(SOON).code, -9);
    }
}

#[test]
fn a_singleton_spawns() {
    let p = compile(&["jobs/spawner"]);
    let outcome = singleton(&p, "disconnected", "0").end();
    assert_eq!(outcome.code, 0, "the singleton is none of its launcher's children: {outcome:?}");
    assert!(
        outcome.out.starts_with("parent fine\n") && outcome.err.contains("rank 0 of spawned job 1")
    );
    let outcome = singleton(&p, "outlives", "-").end();
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert_eq!(outcome.out, "parent fine\nchild fine\nchild fine\n");
}

#[test]
fn a_singleton_without_sockets_or_daemons_gets_the_remedy() {
    let p = compile(&["jobs/spawner"]);
    for transport in ["tcp", "crtcp", "lamd"] {
        let mut command = Command::new(p.path("spawner"));
        command.args(["disconnected", "0"]).arg(p.marker()).env("OXMPI_MCA_rpi", transport);
        let outcome = p.start(command).end();
        let text = format!("start it with 'mpirun -n 1 --mca rpi {transport} PROGRAM'");
        assert!(outcome.code != 0 && outcome.err.contains(&text), "{transport}: {outcome:?}");
    }
}

#[test]
fn a_singleton_ends_with_its_connected_jobs() {
    let p = compile(&["jobs/spawner"]);
    let outcome = singleton(&p, "connected", "kill").end_within(SOON);
    assert_eq!(outcome.code, -15, "{outcome:?}");
    assert!(outcome.err.contains("rank 0 of spawned job 1") && outcome.err.contains("SIGKILL"));
}

#[test]
fn with_a_killed_singleton_everything_ends() {
    let p = compile(&["jobs/spawner"]);
    let mut job = singleton(&p, "stuck", "-");
    let all = stuck(&mut job, 3);
    let own = job.child.id() as i32;
    let launcher = all.iter().find(|(pid, _)| *pid != own).map(|(_, parent)| *parent).unwrap();
    kill(own);
    let outcome = job.end_within(SOON);
    assert_eq!(outcome.code, -9);
    assert!(
        outcome.err.contains("rank 0") && outcome.err.contains("without calling MPI_Finalize"),
        "{outcome:?}"
    );
    let start = Instant::now();
    while Path::new(&format!("/proc/{launcher}")).exists() {
        assert!(start.elapsed() < SOON, "the launcher of the singleton is left behind");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn with_the_killed_launcher_of_a_singleton_everything_ends() {
    let p = compile(&["jobs/spawner"]);
    let mut job = singleton(&p, "stuck", "-");
    let all = stuck(&mut job, 3);
    let own = job.child.id() as i32;
    kill(all.iter().find(|(pid, _)| *pid != own).map(|(_, parent)| *parent).unwrap());
    let outcome = job.end_within(SOON);
    assert_eq!(outcome.code, -15, "{outcome:?}");
    assert!(
        outcome
            .err
            .contains("was killed, and the processes that it had started were ended with it"),
        "{outcome:?}"
    );
}
