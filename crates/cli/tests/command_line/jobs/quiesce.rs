//! `oxmpi quiesce`: the messages of a running job come to rest, and all its connections are made
//! anew.

use std::process::{Command, Output};

use rustix::process::Signal;

use super::harness::{LaunchedJob, SOON, compile, installed};

fn quiesce(words: &[&str]) -> Output {
    Command::new(installed("oxmpi")).arg("quiesce").args(words).output().unwrap()
}

fn request_quiesce(job: &LaunchedJob) {
    let output = quiesce(&[&job.child.id().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("processes stood still after") && said.ends_with("they go on\n"),
        "{said}"
    );
}

fn refused(words: &[&str], code: i32, text: &str) {
    let output = quiesce(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && said.contains(text), "{words:?}: {output:?}");
}

fn made_anew(ranks: u32, options: &[&str]) {
    const TIMES: u32 = 5;
    let p = compile(&["jobs/quiesce"]);
    let options = [&["--mca", "rpi", "crtcp"], options].concat();
    let mut job = p.start(p.mpirun(ranks, &options, "quiesce", &[&TIMES.to_string()]));
    job.pids(ranks);
    for time in 1..=TIMES {
        request_quiesce(&job);
        assert_eq!(job.line(), format!("remade {time}"));
    }
    assert_eq!(job.line(), "whole");
    let outcome = job.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let count = outcome
        .err
        .matches(&format!("mpirun: the messages of {ranks} processes stood still"))
        .count();
    assert_eq!((count as u32, outcome.err.lines().count() as u32), (TIMES, TIMES), "{outcome:?}");
}

#[test]
fn connections_are_made_anew_and_nothing_is_lost() {
    made_anew(4, &[]);
}

#[test]
fn announced_and_eager_messages_are_not_lost_either() {
    made_anew(3, &["--mca", "rpi_crtcp_short", "0"]);
    made_anew(3, &["--mca", "rpi_crtcp_short", "4m", "--mca", "rpi_crtcp_sockbuf", "64k"]);
}

#[test]
fn a_rank_that_waits_or_dies_is_no_obstacle() {
    let p = compile(&["jobs/stuck"]);
    let mut job = p.start(p.mpirun(4, &["--mca", "rpi", "crtcp"], "stuck", &["recv"]));
    let pids = job.pids(4);
    request_quiesce(&job);
    super::harness::kill(pids[&2]);
    let outcome = job.end_within(SOON);
    assert_ne!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn processes_that_cannot_quiesce_are_named() {
    let p = compile(&["jobs/stuck"]);
    let mut job = p.start(p.mpirun(2, &["--mca", "rpi", "tcp"], "stuck", &["recv"]));
    let pids = job.pids(2);
    let why = "oxmpi quiesce: messages over 'tcp' cannot be quiesced: start the job with '--mca rpi crtcp'";
    refused(&[&job.child.id().to_string()], 1, why);
    refused(&[&pids[&0].to_string()], 1, "not mpirun of this installation; its mpirun is process");
    for word in ["x", "-1", "0"] {
        refused(&[word], 2, &format!("'{word}': not the number of a process"));
    }
    refused(&["1", "2"], 2, "'2'");
    refused(&["--timeout", "x", "1"], 2, "--timeout x: not a number of seconds");
    refused(&["--time", "1"], 2, "unknown option '--time'");
    job.signal(Signal::TERM);
    let outcome = job.end_within(SOON);
    assert!(!outcome.err.contains("quiesce"), "{outcome:?}");
    refused(&["4194304"], 1, "process 4194304: No such file");
}

#[test]
fn a_rank_that_does_not_call_mpi_is_named_at_the_time_limit() {
    let p = compile(&["jobs/stuck"]);
    let crtcp = ["--mca", "rpi", "crtcp"];
    let mut job = p.start(p.mpirun(2, &crtcp, "stuck", &["compute"]));
    job.pids(2);
    let pid = job.child.id().to_string();
    let why = "within 0.5 s no call of MPI has come from rank 0, rank 1; what has begun goes on when it comes";
    refused(&["--timeout", "0.5", &pid], 1, why);
    refused(&[&pid], 1, "messages are being quiesced already");
    job.signal(Signal::TERM);
    assert_eq!(job.end_within(SOON).code, 143);
    let job = p.start({
        let mut command = Command::new(installed("mpirun"));
        command.args(["-n", "2"]).args(crtcp).args(["sh", "-c", "sleep 30", p.marker()]);
        command
    });
    let pid = job.child.id().to_string();
    let start = std::time::Instant::now();
    while String::from_utf8_lossy(&quiesce(&[&pid]).stderr).contains("only starting") {
        assert!(start.elapsed() < SOON);
    }
    refused(&[&pid], 1, "rank 0 has not called MPI_Init yet: try again when it has");
    job.signal(Signal::TERM);
    job.end_within(SOON);
}
