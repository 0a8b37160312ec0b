//! Reports of jobs that hang: which rank waits for which, by signal and by watchdog.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::harness::{LaunchedJob, Programs, compile};

/// Lines of the reports of a job of 5 ranks, by the place where it hangs: over shared memory, over
/// sockets, and over both. Of a line the first and the last words are given; the time is between
/// them.
type Hang = (&'static str, &'static [ReportLine], &'static [ReportLine], &'static [ReportLine]);
type ReportLine = (&'static str, &'static str);

const MESSAGE: &str = ": a message with tag 5 on MPI_COMM_WORLD of at most 8 bytes";
const HEADS: &str =
    "A deadlock: rank 0 waits for rank 1, rank 1 waits for rank 0. None of them can go on.";

const HANGS: &[Hang] = &[
    (
        "heads",
        &[],
        &[],
        &[
            (
                "rank 0: in MPI_Recv since ",
                " s, waiting for rank 1: a message with tag 5 on MPI_COMM_WORLD of at most 8 bytes",
            ),
            (
                "ranks 1-4: in MPI_Recv since ",
                " s, waiting for rank 0: a message with tag 5 on MPI_COMM_WORLD of at most 8 bytes",
            ),
            (HEADS, ""),
        ],
    ),
    (
        "barrier",
        &[
            (
                "ranks 0-3: in MPI_Barrier since ",
                " s, waiting for rank 4: barrier on MPI_COMM_WORLD, in shared memory",
            ),
            ("Ranks 0-3 wait for rank 4, which is computing.", ""),
        ],
        &[(
            "ranks 1-3: in MPI_Barrier since ",
            " s, waiting for rank 0: barrier on MPI_COMM_WORLD, algorithm linear, step 2",
        )],
        &[("rank 4: computing; the last MPI call was MPI_Barrier", "")],
    ),
    (
        "ended",
        &[],
        &[],
        &[("ranks 1-4: ended", ""), ("Rank 4 has ended, and rank 0 waits for it in vain.", "")],
    ),
    (
        "order",
        &[
            (
                "ranks 0,2,4: in MPI_Barrier since ",
                " s, waiting for ranks 1,3: barrier on communicator 'A', in shared memory",
            ),
            (
                "ranks 1,3: in MPI_Barrier since ",
                " s, waiting for ranks 0,2,4: barrier on communicator 'B', in shared memory",
            ),
        ],
        &[],
        &[(HEADS, "")],
    ),
    (
        "lock",
        &[(
            "ranks 2-4: in MPI_Win_lock since ",
            " s, waiting for rank 1: to give up the lock of rank 0 of window 'table' (exclusive wanted)",
        )],
        &[(
            "ranks 2-4: in MPI_Win_lock since ",
            " s, waiting for rank 0: to grant the lock, which others hold, of its part of window 'table'",
        )],
        &[("rank 1: in MPI_Recv since ", MESSAGE)],
    ),
    (
        "send",
        &[],
        &[],
        &[
            (
                "rank 0: in MPI_Ssend since ",
                " s, waiting for rank 1: to receive 8 bytes with tag 5 on MPI_COMM_WORLD",
            ),
            ("rank 2: in MPI_Recv since ", MESSAGE),
            (HEADS, ""),
        ],
    ),
    (
        "plan",
        &[
            (
                "ranks 0-3: in MPI_Allreduce since ",
                " s, waiting for rank 4: allreduce of 8 bytes on MPI_COMM_WORLD, in shared memory",
            ),
            ("Ranks 0-3 wait for rank 4, which is computing.", ""),
        ],
        &[
            (
                "rank 0: in MPI_Allreduce since ",
                " s, waiting for rank 4: allreduce of 8 bytes on MPI_COMM_WORLD, algorithm basic_linear, step 2",
            ),
            ("Rank 0 waits for rank 4, which is computing.", ""),
        ],
        &[],
    ),
];

fn has(report: &str, (first, last): ReportLine) -> bool {
    report.lines().any(|line| line.trim_start().starts_with(first) && line.ends_with(last))
}

fn watchdog(transport: &str) {
    let p = compile(&["jobs/hang"]);
    let start = |(place, ..): &Hang| {
        // Over sockets the collectives use sockets, too.
        let coll = if transport == "shm" { "" } else { "^shmem" };
        let options = [
            "--mca",
            "mpi_watchdog",
            "2",
            "--mca",
            "mpi_watchdog_abort",
            "1",
            "--quiet",
            "--mca",
            "rpi",
            transport,
        ];
        let options = [&options[..], &["--mca", "coll", coll]].concat();
        p.start(p.mpirun(5, &options, "hang", &[place]))
    };
    let jobs: Vec<LaunchedJob> = HANGS.iter().map(start).collect();
    for (job, (place, shm, tcp, both)) in jobs.into_iter().zip(HANGS) {
        let outcome = job.wait();
        assert_eq!(outcome.code, 124, "{place}: {outcome:?}");
        let head =
            "mpirun: a rank has waited for 2 s, and nothing has come for it (mpi_watchdog):\n";
        assert!(outcome.err.starts_with(head), "{place}: {outcome:?}");
        let own = if transport == "shm" { shm } else { tcp };
        for line in own.iter().chain(*both) {
            assert!(has(&outcome.err, *line), "{place}: no line {line:?}: {}", outcome.err);
        }
        assert!(outcome.err.contains("  The job ends with exit code 124; "), "{outcome:?}");
    }
}

#[test]
fn the_watchdog_reports_waiting_ranks_in_shared_memory() {
    watchdog("shm");
}

#[test]
fn the_watchdog_reports_waiting_ranks_over_sockets() {
    watchdog("tcp");
}

/// A rank that waits for a client may wait for long, and so may the ranks that wait for it.
#[test]
fn the_watchdog_is_silent_about_accepting() {
    let p = compile(&["jobs/hang"]);
    let options = ["--watchdog", "1", "--mca", "mpi_watchdog_abort", "1", "--timeout", "4"];
    let outcome = p.run(3, &options, "hang", &["accept"]);
    assert_eq!(outcome.code, 124, "{outcome:?}");
    assert!(outcome.err.starts_with("mpirun: the time of 4 s (--timeout) is over"), "{outcome:?}");
}

#[test]
fn waits_for_ended_ranks_are_reported_without_a_request() {
    let p = compile(&["jobs/hang"]);
    let start = |place: &str, options: &[&str]| {
        let options = [options, &["--mca", "mpi_watchdog_abort", "1"]].concat();
        p.start(p.mpirun(5, &options, "hang", &[place]))
    };
    let soon = ["--mca", "mpi_watch_ended", "1"];
    let jobs = [("10", start("ended", &[])), ("1", start("ended", &soon))];
    let late = [&soon[..], &["--timeout", "5"]].concat();
    let may_end =
        ["heads", "order", "barrier", "accept", "plan"].map(|place| (place, start(place, &late)));
    for (seconds, job) in jobs {
        let outcome = job.wait();
        let head = format!(
            "mpirun: a rank has waited for {seconds} s for one that has ended (mpi_watch_ended):\n"
        );
        assert!(outcome.code == 124 && outcome.err.starts_with(&head), "{outcome:?}");
        assert!(
            has(&outcome.err, ("Rank 4 has ended, and rank 0 waits for it in vain.", "")),
            "{outcome:?}"
        );
    }
    for (place, job) in may_end {
        let outcome = job.wait();
        let head = "mpirun: the time of 5 s (--timeout) is over";
        assert!(outcome.code == 124 && outcome.err.starts_with(head), "{place}: {outcome:?}");
    }
}

/// A rank that waits for an ended one waits for long as well: both are one event.
#[test]
fn both_watchdogs_make_one_report_of_one_hang() {
    let p = compile(&["jobs/hang"]);
    let options = ["--watchdog", "1", "--mca", "mpi_watch_ended", "1", "--timeout", "6"];
    let outcome = p.run(5, &options, "hang", &["ended"]);
    assert_eq!(outcome.err.matches("mpirun: a rank has waited for 1 s").count(), 1, "{outcome:?}");
}

#[test]
fn the_time_limit_is_reported_with_the_waiting_ranks() {
    let p = compile(&["jobs/hang"]);
    for transport in ["shm", "tcp"] {
        let options =
            ["--timeout", "5", "--mca", "mpi_watch_ended", "0", "--mca", "rpi", transport];
        for (place, line) in [
            ("heads", (HEADS, "")),
            ("ended", ("Rank 4 has ended, and rank 0 waits for it in vain.", "")),
            (
                "send",
                (
                    "rank 0: in MPI_Ssend since ",
                    " s, waiting for rank 1: to receive 8 bytes with tag 5 on MPI_COMM_WORLD",
                ),
            ),
        ] {
            let outcome = p.run(5, &options, "hang", &[place]);
            let head = "mpirun: the time of 5 s (--timeout) is over";
            assert!(outcome.code == 124 && outcome.err.starts_with(head), "{place}: {outcome:?}");
            assert!(has(&outcome.err, line), "{place}: {outcome:?}");
            assert_eq!(outcome.err.matches("mpirun: ").count(), 1, "one report: {outcome:?}");
        }
    }
}

/// Different lengths lead ranks to different components. Each waits without end, and the report has
/// the lengths.
#[test]
fn the_time_limit_is_reported_with_different_lengths() {
    let p = compile(&["jobs/hang"]);
    let outcome = p.run(5, &["--timeout", "4"], "hang", &["lengths"]);
    assert_eq!(outcome.code, 124, "{outcome:?}");
    let short =
        " s, waiting for rank 0: allreduce of 524288 bytes on MPI_COMM_WORLD, in shared memory";
    assert!(has(&outcome.err, ("ranks 1-4: in MPI_Allreduce since ", short)), "{outcome:?}");
    assert!(
        outcome.err.contains(": allreduce of 8388608 bytes on MPI_COMM_WORLD, algorithm "),
        "{outcome:?}"
    );
}

fn reported(p: &Programs, options: &[&str], place: &str, lines: &[ReportLine]) {
    let file = p.path(&format!("report-{place}-{}", options.concat()));
    let mut command = Command::new("sh");
    command.args(["-c", "file=$1; shift; exec \"$@\" 2>\"$file\"", "sh"]).arg(&file);
    let mpirun = p.mpirun(5, options, "hang", &[place]);
    command.arg(mpirun.get_program()).args(mpirun.get_args());
    let mut job = p.start(command);
    job.pids(5);
    let start = Instant::now();
    let all = loop {
        job.signal(Signal::USR1);
        std::thread::sleep(Duration::from_millis(300));
        let all = std::fs::read_to_string(&file).unwrap();
        if lines.iter().all(|line| has(&all, *line)) || start.elapsed() > Duration::from_secs(30) {
            break all;
        }
    };
    assert!(all.starts_with("mpirun: what the ranks do (SIGUSR1):\n"), "{all}");
    for line in lines {
        assert!(has(&all, *line), "{place}: no line {line:?}: {all}");
    }
    job.signal(Signal::INT);
    job.end();
}

#[test]
fn usr1_reports_the_waits_of_the_ranks() {
    let p = compile(&["jobs/hang"]);
    for transport in ["shm", "tcp"] {
        let options = ["--mca", "rpi", transport];
        let heads = (
            "rank 0: in MPI_Recv since ",
            " s, waiting for rank 1: a message with tag 5 on MPI_COMM_WORLD of at most 8 bytes",
        );
        reported(&p, &options, "heads", &[heads, (HEADS, ""), ("On host ", ".")]);
        let accepting = (
            "rank 0: in MPI_Comm_accept since ",
            " s, waiting for somebody to connect to the port",
        );
        reported(&p, &options, "accept", &[accepting]);
    }
}

#[test]
fn usr1_is_passed_on_on_request() {
    let p = compile(&["jobs/hang"]);
    for (mode, reports) in [("forward", 0), ("both", 1)] {
        let mut job = p.start(p.mpirun(2, &["--mca", "mpi_sigusr1", mode], "hang", &["heads"]));
        job.pids(2);
        job.signal(Signal::USR1);
        let outcome = job.end();
        assert_eq!(outcome.code, 128 + 10, "{outcome:?}");
        assert_eq!(outcome.err.matches("what the ranks do").count(), reports, "{outcome:?}");
    }
}
