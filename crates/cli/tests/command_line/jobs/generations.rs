//! Which process is a rank: the programs of a script one after another, a program without inherited
//! descriptors, and one that closes them itself.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::harness::{Outcome, Programs, compile, installed};

/// `mpirun -n RANKS OPTIONS bash -c SCRIPT`. The test needs bash, as sh closes only descriptors up
/// to 9.
fn script(p: &Programs, ranks: u32, options: &[&str], text: &str) -> Command {
    let mut command = Command::new(installed("mpirun"));
    command.args(["-n", &ranks.to_string(), "--timeout", "50"]).args(options);
    command.args(["bash", "-c", text, "bash", p.marker()]);
    command
}

fn run(p: &Programs, ranks: u32, options: &[&str], text: &str) -> Outcome {
    p.start(script(p, ranks, options, text)).end()
}

const TRANSPORTS: [&[&str]; 6] = [
    &[],
    &["--mca", "rpi", "tcp"],
    &["--mca", "rpi", "lamd"],
    &["--mca", "rpi", "usysv"],
    &["--mca", "rpi", "sysv"],
    &["--mca", "mpi_virtual_nodes", "2"],
];

#[test]
fn the_programs_of_a_script_are_the_ranks_one_after_the_other() {
    let p = compile(&["jobs/world"]);
    for options in TRANSPORTS {
        let outcome = run(&p, 3, options, "./world $1 && ./world $1 && ./world $1");
        outcome.is_fine(9, "of 3");
        for rank in 0..3 {
            assert_eq!(
                outcome.out.matches(&format!("rank {rank} ")).count(),
                3,
                "{options:?}: {outcome:?}"
            );
        }
    }
}

#[test]
fn a_rank_may_execute_the_next_program() {
    let p = compile(&["jobs/world"]);
    p.compile_text("next", NEXT);
    p.run(2, &[], "next", &[]).is_fine(2, "of 2");
}

const NEXT: &str = r#"
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    execl("./world", "world", argv[1], (char *) 0);
    return 1;
}
"#;

#[test]
fn a_program_behind_closed_descriptors_is_the_rank() {
    let p = compile(&["jobs/world"]);
    for options in [&[][..], &["--mca", "rpi", "tcp"]] {
        run(&p, 3, options, "exec 62>&- 63>&-; ./world $1; exit $?").is_fine(3, "of 3");
    }
    let twice = "(exec 62>&- 63>&-; ./world $1) && ./world $1 && (exec 62>&- 63>&-; ./world $1)";
    run(&p, 2, &[], twice).is_fine(6, "of 2");
}

#[test]
fn a_tool_that_a_rank_starts_is_a_job_of_one() {
    let p = compile(&["jobs/world"]);
    p.compile_text("tool", TOOL);
    p.run(2, &[], "tool", &[]).is_fine(4, "rank 0 of 1");
}

const TOOL: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    char command[400];
    MPI_Init(&argc, &argv);
    snprintf(command, sizeof command, "./world %s", argv[1]);
    if (system(command) != 0)
        return 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return system(command) != 0;
}
"#;

#[test]
fn a_rank_that_waits_for_the_first_program_of_a_peer_is_named_with_it() {
    let p = compile(&["jobs/world"]);
    let text = "if [ $OXMPI_COMM_WORLD_RANK = 0 ]; then ./world alone $1; echo waits; ./world $1; \
                else cat go; ./world alone $1; ./world $1; fi";
    assert!(Command::new("mkfifo").arg(p.path("go")).status().unwrap().success());
    let mut job = p.start(script(&p, 2, &[], text));
    while job.line() != "waits" {}
    // The report names the second program only after its request to the launcher.
    std::thread::sleep(Duration::from_millis(500));
    job.signal(Signal::USR1);
    std::thread::sleep(Duration::from_millis(200));
    std::fs::write(p.path("go"), "").unwrap();
    let outcome = job.end();
    assert_eq!((outcome.code, outcome.out.matches("of 2").count()), (0, 4), "{outcome:?}");
    let named = outcome.err.contains("waits in MPI_Init")
        && outcome.err.contains("for rank 1, whose first program");
    assert!(named, "{outcome:?}");
}

#[test]
fn a_script_that_runs_one_program_more_than_its_peers_ends_the_job() {
    let p = compile(&["jobs/world"]);
    let text = "./world $1; [ $OXMPI_COMM_WORLD_RANK = 0 ] || exit 0; sleep 0.5; ./world $1";
    let outcome = run(&p, 2, &[], text);
    assert!(
        outcome.code != 0 && outcome.err.contains("that of rank 1, which has ended"),
        "{outcome:?}"
    );
    let text = "./world $1; [ $OXMPI_COMM_WORLD_RANK = 0 ] || exit 0; env -u OXMPI_BOOT ./world $1";
    let outcome = run(&p, 2, &[], text);
    assert!(outcome.code == 0 && outcome.out.contains("rank 0 of 1"), "{outcome:?}");
}

#[test]
fn no_program_follows_a_program_that_has_not_finalized() {
    let p = compile(&["jobs/world"]);
    p.compile_text("dies", DIES);
    let outcome = run(&p, 2, &[], "./dies $1; ./world $1; exit 0");
    assert!(outcome.code != 0 && !outcome.out.contains("of "), "{outcome:?}");
    assert!(outcome.err.contains("has ended without MPI_Finalize"), "{outcome:?}");
}

const DIES: &str = r#"
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    _exit(3);
}
"#;

#[test]
fn ranks_in_shared_memory_that_close_their_descriptors_go_on() {
    let p = compile(&["jobs/closed"]);
    for how in ["once", "late", "reused"] {
        for ranks in [1, 2, 3, 4] {
            p.run(ranks, &[], "closed", &[how]).is_fine(1, "all met");
        }
        p.run(4, &["--mca", "rpi", "usysv"], "closed", &[how]).is_fine(1, "all met");
    }
}

#[test]
fn ranks_over_sockets_that_close_their_descriptors_end_with_the_cause() {
    let p = compile(&["jobs/closed"]);
    for transport in ["tcp", "lamd"] {
        for (ranks, how) in [(2, "once"), (3, "once"), (4, "late"), (3, "reused")] {
            let outcome = p.run(ranks, &["--mca", "rpi", transport], "closed", &[how]);
            assert!(
                outcome.code != 0 && outcome.err.contains("was closed by the program"),
                "{transport}: {outcome:?}"
            );
        }
    }
}
