//! Ranks that fail by themselves, or are killed in any state.

use super::harness::{Programs, SOON, await_sleep, compile, kill, named};

/// Rank 1 of 3 ends by itself. Its peers wait for it, so only the launcher can end the job.
fn dies(programs: &Programs, phase: &str, manner: &str, code: i32, words: &str) {
    let mut job = programs.start(programs.mpirun(3, &[], "die", &[phase, manner]));
    let line = job.line();
    let pid = line.strip_prefix("victim ").unwrap().parse().unwrap();
    let outcome = job.end_within(SOON);
    if code == 0 {
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    } else {
        outcome.reports(code, &format!("{} {words}\n", named(1, pid)));
    }
}

#[test]
fn before_init() {
    let p = compile(&["jobs/die"]);
    dies(&p, "before", "kill", 137, "was killed by SIGKILL (kill)");
    dies(&p, "before", "segv", 139, "was killed by SIGSEGV (segmentation fault)");
    dies(&p, "before", "abort", 134, "was killed by SIGABRT (abort)");
    dies(&p, "before", "3", 3, "exited with code 3");
    dies(&p, "before", "0", 1, "exited without ever calling MPI_Init");
}

#[test]
fn between_init_and_finalize() {
    let p = compile(&["jobs/die"]);
    let words = |what| format!("{what}; its last MPI call was MPI_Init");
    dies(&p, "between", "kill", 137, &words("was killed by SIGKILL (kill)"));
    dies(&p, "between", "segv", 139, &words("was killed by SIGSEGV (segmentation fault)"));
    dies(&p, "between", "abort", 134, &words("was killed by SIGABRT (abort)"));
    dies(&p, "between", "3", 3, &words("exited with code 3"));
    dies(&p, "between", "0", 1, &words("exited after MPI_Init without calling MPI_Finalize"));
}

#[test]
fn after_finalize() {
    let p = compile(&["jobs/die"]);
    let words = |what| format!("{what}; its last MPI call was MPI_Finalize");
    dies(&p, "after", "kill", 137, &words("was killed by SIGKILL (kill)"));
    dies(&p, "after", "segv", 139, &words("was killed by SIGSEGV (segmentation fault)"));
    dies(&p, "after", "abort", 134, &words("was killed by SIGABRT (abort)"));
    dies(&p, "after", "3", 3, &words("exited with code 3"));
    dies(&p, "after", "0", 0, "");
}

#[test]
fn after_finalize_while_others_go_on() {
    let p = compile(&["jobs/late"]);
    let run = |options: &[&str], mode: &str| p.run(3, options, "late", &[mode]);
    for transport in ["shm", "tcp"] {
        // The other ranks never call MPI_Finalize.
        for mode in ["wait", "session"] {
            let ended = run(&["--mca", "rpi", transport], mode);
            assert_eq!((ended.code, &*ended.out), (3, ""), "{ended:?}");
            let lines: Vec<&str> =
                ended.err.lines().filter(|line| line.starts_with("mpirun: ")).collect();
            assert!(
                lines[0].contains("rank 1 (pid ") && lines[0].contains("exited with code 3"),
                "{ended:?}"
            );
            let missed = "mpirun: rank 1 exited with code 3 after it had finalized MPI (by MPI_Finalize, or that of its last \
                          session), which rank 0 and 1 more have not begun to";
            assert_eq!(lines[1..], [missed], "{ended:?}");
        }
    }
    // All ranks have called MPI_Finalize or are about to, and end in their own time, with one
    // report and the first code.
    for mode in ["own", "slow", "callback"] {
        let ended = run(&[], mode);
        ended.reports_once();
        assert_eq!((ended.code, ended.out.matches("is done").count()), (3, 2), "{ended:?}");
    }
}

#[test]
fn nonzero_exit_codes_may_leave_the_job_running() {
    let p = compile(&["jobs/late"]);
    for name in [
        "mpi_abort_on_non_zero_status",
        "orte_abort_on_non_zero_status",
        "prte_abort_on_non_zero_status",
    ] {
        let ended = p.run(3, &["--mca", name, "false"], "late", &["go on"]);
        ended.reports_once();
        assert_eq!((ended.code, ended.out.matches("is done").count()), (3, 2), "{ended:?}");
    }
    let script = "[ $OXMPI_COMM_WORLD_RANK = 1 ] && exit 3; sleep 1; echo done";
    p.file("script", format!("#!/bin/sh\n{script}\n").as_bytes(), 0o755);
    for (value, code, done) in [("1", 3, 0), ("0", 3, 1)] {
        let ended = p.run(2, &["--mca", "mpi_abort_on_non_zero_status", value], "script", &[]);
        assert_eq!((ended.code, ended.out.matches("done").count()), (code, done), "{ended:?}");
    }
}

#[test]
fn a_code_after_finalize_is_a_failure_to_the_survivors() {
    let p = compile(&["jobs/late"]);
    for transport in ["shm", "tcp"] {
        let ended = p.run(3, &["--with-ft", "ulfm", "--mca", "rpi", transport], "late", &["ulfm"]);
        assert_eq!((ended.code, ended.out.matches("is done").count()), (3, 2), "{ended:?}");
        assert!(
            ended.err.contains("exited with code 3") && ended.err.contains("the job goes on"),
            "{ended:?}"
        );
    }
}

#[test]
fn in_a_session() {
    let p = compile(&["jobs/die"]);
    let words = |what| format!("{what}; its last MPI call was MPI_Session_init");
    dies(&p, "session", "kill", 137, &words("was killed by SIGKILL (kill)"));
    dies(&p, "session", "3", 3, &words("exited with code 3"));
    dies(&p, "session", "0", 1, &words("exited after MPI_Init without calling MPI_Finalize"));
}

#[test]
fn after_the_last_session() {
    let p = compile(&["jobs/die"]);
    let words = |what| format!("{what}; its last MPI call was MPI_Session_finalize");
    dies(&p, "session is over", "kill", 137, &words("was killed by SIGKILL (kill)"));
    dies(&p, "session is over", "3", 3, &words("exited with code 3"));
    dies(&p, "session is over", "0", 0, "");
}

/// One rank of 4 is killed while all wait at `place`; the report must name its last call, `call`.
fn killed(place: &str, sleeps: bool, calls: [&str; 2], options: &[&str]) {
    let p = compile(&["jobs/stuck"]);
    for (victim, call) in (0..).zip(calls) {
        let mut job = p.start(p.mpirun(4, options, "stuck", &[place]));
        let pid = job.pids(4)[&victim];
        if sleeps {
            await_sleep(pid);
        }
        kill(pid);
        let outcome = job.end_within(SOON);
        let call =
            if call.is_empty() { String::new() } else { format!("; its last MPI call was {call}") };
        outcome
            .reports(137, &format!("{} was killed by SIGKILL (kill){call}\n", named(victim, pid)));
    }
}

#[test]
fn killed_before_init() {
    killed("before", true, ["", ""], &[]);
}

#[test]
fn killed_in_a_receive() {
    killed("recv", true, ["MPI_Recv"; 2], &[]);
}

#[test]
fn killed_in_a_send_that_nobody_receives() {
    killed("send", true, ["MPI_Send"; 2], &[]);
}

#[test]
fn killed_in_a_barrier() {
    killed("barrier", true, ["MPI_Barrier"; 2], &[]);
}

#[test]
fn killed_while_computing() {
    killed("compute", false, ["MPI_Comm_size"; 2], &[]);
}

#[test]
fn killed_in_finalize() {
    killed("finalize", true, ["MPI_Recv", "MPI_Finalize"], &[]);
}

#[test]
fn killed_after_finalize() {
    killed("after", true, ["MPI_Finalize"; 2], &[]);
}

#[test]
fn sender_and_receiver_of_long_messages_killed() {
    killed("pairs", false, ["MPI_Send", "MPI_Recv"], &[]);
}

#[test]
fn sender_and_receiver_of_long_messages_through_shared_memory_killed() {
    killed("pairs", false, ["MPI_Send", "MPI_Recv"], &["--mca", "single_copy", "off"]);
}

#[test]
fn killed_while_everybody_sends_and_receives() {
    killed("transfer", false, ["MPI_Sendrecv"; 2], &[]);
}

#[test]
fn peers_that_ignore_the_request_to_end_are_killed() {
    killed("stubborn", false, ["MPI_Comm_size"; 2], &[]);
}

const SOCKETS: [&str; 3] = ["--mca", "rpi", "tcp"];

#[test]
fn killed_in_a_receive_over_sockets() {
    killed("recv", true, ["MPI_Recv"; 2], &SOCKETS);
}

#[test]
fn killed_in_a_barrier_over_sockets() {
    killed("barrier", true, ["MPI_Barrier"; 2], &SOCKETS);
}

#[test]
fn killed_in_finalize_over_sockets() {
    killed("finalize", true, ["MPI_Recv", "MPI_Finalize"], &SOCKETS);
}

#[test]
fn sender_and_receiver_of_long_messages_over_sockets_killed() {
    killed("pairs", false, ["MPI_Send", "MPI_Recv"], &SOCKETS);
}

#[test]
fn killed_while_everybody_sends_and_receives_over_sockets() {
    killed("transfer", false, ["MPI_Sendrecv"; 2], &SOCKETS);
}
