//! Jobs whose messages go through daemons (rpi lamd).

use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;

use super::harness::{LaunchedJob, Programs, SOON, compile, kill, named};

fn options(nodes: &str) -> [&str; 6] {
    ["--mca", "rpi", "lamd", "--mca", "mpi_virtual_nodes", nodes]
}

fn daemons(job: &LaunchedJob) -> Vec<i32> {
    let is_daemon = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"oxmpi\0relay\0")
    };
    job.children().into_iter().filter(is_daemon).collect()
}

#[test]
fn messages_arrive_while_programs_compute() {
    let p = compile(&["jobs/background"]);
    for nodes in ["1", "2"] {
        for what in ["isend", "many", "receiver"] {
            let gate = p.path(&format!("gate.{nodes}.{what}"));
            p.run(2, &options(nodes), "background", &[what, gate.to_str().unwrap()])
                .is_fine(1, "ok");
        }
    }
}

fn stuck(p: &Programs, more: &[&str], nodes: &str) -> (LaunchedJob, Vec<i32>) {
    let options = [&options(nodes)[..], more].concat();
    let mut job = p.start(p.mpirun(4, &options, "stuck", &["recv"]));
    job.pids(4);
    let daemons = daemons(&job);
    assert_eq!(daemons.len().to_string(), nodes);
    (job, daemons)
}

#[test]
fn a_killed_daemon_ends_the_job_with_one_report() {
    let p = compile(&["jobs/stuck"]);
    let ulfm = ["--with-ft", "ulfm"];
    for (nodes, node, more) in [("1", 0, &[][..]), ("2", 0, &[]), ("2", 1, &[]), ("2", 1, &ulfm)] {
        let (job, daemons) = stuck(&p, more, nodes);
        kill(daemons[node]);
        let outcome = job.end_within(SOON);
        let host = named(0, 0).rsplit_once("host ").unwrap().1.trim_end_matches(')').to_string();
        let begin = format!(
            "the daemon of node {node} (pid {}, host {host}) was killed by SIGKILL (kill)\n",
            daemons[node]
        );
        outcome.reports(137, &begin);
        assert!(outcome.err.contains("4 ranks still running will be ended"), "{outcome:?}");
    }
}

#[test]
fn no_daemon_is_left_behind() {
    let p = compile(&["jobs/stuck", "jobs/die"]);
    for signal in [Signal::KILL, Signal::TERM] {
        let (job, daemons) = stuck(&p, &[], "2");
        job.signal(signal);
        job.end_within(SOON);
        let start = Instant::now();
        while daemons.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            assert!(start.elapsed() < SOON, "of {daemons:?} one is left");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_rank_that_dies_is_reported_as_ever() {
    let p = compile(&["jobs/die"]);
    for nodes in ["1", "2"] {
        let outcome = p.run(3, &options(nodes), "die", &["between", "segv"]);
        outcome.reports(139, "rank 1 (pid ");
        let outcome = p.run(3, &options(nodes), "die", &["after", "0"]);
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    }
}

#[test]
fn the_selection_shows_the_daemons() {
    let p = compile(&["jobs/level"]);
    let options = ["--mca", "mpi_show_select", "1", "--mca", "rpi_ssi_lamd_priority", "99"];
    let outcome = p.run(2, &options, "level", &["3"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(
        outcome.err.contains("5. rpi lamd is selected: it has the highest priority, 99"),
        "{outcome:?}"
    );
}
