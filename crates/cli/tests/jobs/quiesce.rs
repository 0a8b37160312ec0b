//! The messages of a running job stand still, and all its connections are made anew.

use std::process::{Command, Output};

use rustix::process::Signal;

use crate::harness::{Job, SOON, compile, installed};

fn quiesce(pid: &str) -> Output {
    Command::new(installed("oxmpi")).args(["quiesce", pid]).output().unwrap()
}

fn ask(job: &Job) {
    let output = quiesce(&job.child.id().to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn made_anew(ranks: u32, options: &[&str]) {
    const TIMES: u32 = 5;
    let p = compile(&["jobs/quiesce"]);
    let options = [&["--mca", "rpi", "crtcp"], options].concat();
    let mut job = p.start(p.mpirun(ranks, &options, "quiesce", &[&TIMES.to_string()]));
    job.pids(ranks);
    for time in 1..=TIMES {
        ask(&job);
        assert_eq!(job.line(), format!("remade {time}"));
    }
    assert_eq!(job.line(), "whole");
    let outcome = job.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let told = outcome.err.matches(&format!("mpirun: the messages of {ranks} processes stood still")).count();
    assert_eq!((told as u32, outcome.err.lines().count() as u32), (TIMES, TIMES), "{outcome:?}");
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
    ask(&job);
    crate::harness::kill(pids[&2]);
    let outcome = job.end_within(SOON);
    assert_ne!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn who_cannot_be_asked_is_named() {
    let p = compile(&["jobs/stuck"]);
    let mut job = p.start(p.mpirun(2, &["--mca", "rpi", "tcp"], "stuck", &["recv"]));
    let pids = job.pids(2);
    ask(&job);
    let output = quiesce(&pids[&0].to_string());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("not this installation's mpirun"), "{text}");
    for word in ["x", "-1", "0", "1 2"] {
        let output = quiesce(word);
        assert_eq!(output.status.code(), Some(2), "{word}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("'{word}'")), "{word}");
    }
    job.signal(Signal::TERM);
    let outcome = job.end_within(SOON);
    let why = "mpirun: messages over 'tcp' cannot be quiesced: start the job with '--mca rpi crtcp'";
    assert!(outcome.err.contains(why), "{outcome:?}");
}
