//! The launcher is killed or interrupted while its ranks are in a known state.

use std::process::Command;

use rustix::process::Signal;

use super::harness::{SOON, await_sleep, compile, installed, kill};
use crate::support::shell_word;

fn signalled(place: &str, sleeps: bool, signal: Signal, code: i32) {
    let p = compile(&["jobs/stuck"]);
    let mut job = p.start(p.mpirun(4, &[], "stuck", &[place]));
    for &pid in job.pids(4).values() {
        if sleeps {
            await_sleep(pid);
        }
    }
    job.signal(signal);
    let outcome = job.end_within(SOON);
    assert_eq!(outcome.code, code, "{outcome:?}");
    if code > 0 {
        let name = if signal == Signal::INT { "SIGINT" } else { "SIGTERM" };
        assert!(outcome.err.starts_with(&format!("mpirun: {name}; ending 4 ranks")), "{outcome:?}");
        assert_eq!(outcome.err.lines().count(), 1, "consequences are not reported: {outcome:?}");
    }
}

#[test]
fn mpirun_killed_while_ranks_receive() {
    signalled("recv", true, Signal::KILL, -9);
}

#[test]
fn mpirun_killed_while_ranks_compute() {
    signalled("compute", false, Signal::KILL, -9);
}

#[test]
fn mpirun_killed_while_ranks_ignore_signals() {
    signalled("stubborn", false, Signal::KILL, -9);
}

#[test]
fn mpirun_killed_while_messages_are_on_their_way() {
    signalled("transfer", false, Signal::KILL, -9);
}

#[test]
fn mpirun_killed_before_init_and_after_finalize() {
    signalled("before", true, Signal::KILL, -9);
    signalled("after", true, Signal::KILL, -9);
}

/// A rank starts a process in its own session, whose parent is no process of the job: that process
/// ends with `mpirun` in any case.
#[test]
fn processes_that_left_the_groups_of_ranks_end_with_mpirun() {
    let p = compile(&["jobs/stuck"]);
    let stay = "while :; do sleep 1; done";
    let script = format!(
        "#!/bin/sh\nsetsid -f /bin/sh -c 'echo rank 1 $$; {stay}' away \"$@\"\necho rank 0 $$; {stay}\n"
    );
    p.file("sender", script.as_bytes(), 0o755);
    for (signal, code) in [(Signal::KILL, -9), (Signal::TERM, 143)] {
        let mut job = p.start(p.mpirun(1, &[], "sender", &[]));
        job.pids(2);
        job.signal(signal);
        assert_eq!(job.end_within(SOON).code, code);
    }
}

#[test]
fn interrupted_while_ranks_receive() {
    signalled("recv", true, Signal::INT, 130);
}

#[test]
fn interrupted_while_ranks_compute() {
    signalled("compute", false, Signal::INT, 130);
}

#[test]
fn interrupted_while_ranks_ignore_signals() {
    signalled("stubborn", false, Signal::INT, 130);
}

#[test]
fn terminated_while_ranks_receive() {
    signalled("recv", true, Signal::TERM, 143);
}

#[test]
fn terminated_while_ranks_compute() {
    signalled("compute", false, Signal::TERM, 143);
}

#[test]
fn two_jobs_do_not_disturb_each_other() {
    let p = compile(&["jobs/stuck", "jobs/many"]);
    let other = compile(&["jobs/stuck"]);
    let mut job = p.start(p.mpirun(2, &[], "stuck", &["recv"]));
    let mut second = other.start(other.mpirun(2, &[], "stuck", &["recv"]));
    let pids = job.pids(2);
    second.pids(2);
    second.signal(Signal::KILL);
    second.end_within(SOON);
    for pid in pids.values() {
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    kill(pids[&1]);
    assert_eq!(job.end_within(SOON).code, 137);
}

#[test]
fn a_job_inside_a_rank_is_a_job_of_its_own() {
    let p = compile(&["jobs/many"]);
    let (mpirun, many) = (installed("mpirun"), p.path("many"));
    let script = format!("{} -n 3 {} work", shell_word(&mpirun), shell_word(&many));
    let mut command = Command::new(&mpirun);
    command.args(["-n", "2", "--timeout", "50", "sh", "-c", &script]);
    p.start(command).end().is_fine(6, " of 3");
}
