//! Programs between `mpirun` and a rank that remove the environment, descriptors, or parent by
//! which the rank finds the launcher. Either the program is the rank, or MPI_Init fails and names
//! the cause. It is never silently a job of one rank.

use std::process::Command;

use super::harness::{Outcome, Programs, compile, installed};
use crate::support::{shell_word, skip};
use oxmpi_rt_client::client::BOOT_VERSION;

const TRANSPORTS: [&[&str]; 2] = [&[], &["--mca", "rpi", "tcp"]];

/// `mpirun -n RANKS OPTIONS WORDS MARKER`, in the directory of the programs.
fn under(p: &Programs, ranks: u32, options: &[&str], words: &[&str]) -> Outcome {
    let mut command = Command::new(installed("mpirun"));
    command
        .args(["-n", &ranks.to_string(), "--timeout", "50"])
        .args(options)
        .args(words)
        .arg(p.marker());
    p.start(command).end()
}

/// `mpirun -n 2 OPTIONS bash -c SCRIPT bash MARKER`.
fn script(p: &Programs, options: &[&str], text: &str) -> Outcome {
    under(p, 2, options, &["bash", "-c", text, "bash"])
}

/// Whether `sudo` and `su` run a program without a password; otherwise the test is skipped.
fn may_change_user() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("only root may use sudo and su without a password");
    }
    is_root
}

fn is_refused(outcome: &Outcome, parts: &[&str]) {
    assert!(outcome.code != 0 && !outcome.out.contains("rank"), "{outcome:?}");
    let common = ["has started 2 ranks", "OXMPI_MCA_mpi_allow_singletons=1"];
    for part in parts.iter().chain(&common) {
        assert!(outcome.err.contains(part), "{part}: {outcome:?}");
    }
}

#[test]
fn env_that_empties_the_environment_is_named() {
    let p = compile(&["jobs/world"]);
    let named = ["'env' has taken the variables of OxMPI", "leave out -i"];
    for options in TRANSPORTS {
        is_refused(&under(&p, 2, options, &["env", "-i", "./world"]), &named);
        is_refused(&script(&p, options, "env -i ./world $1; exit $?"), &named);
        is_refused(&script(&p, options, "exec 62>&- 63>&-; env -i ./world $1; exit $?"), &named);
        // The second program of a script would also be the rank.
        is_refused(
            &script(&p, options, "./world $1 >/dev/null; env -i ./world $1; exit $?"),
            &named,
        );
    }
}

#[test]
fn sudo_is_named_unless_it_keeps_the_environment() {
    if !may_change_user() {
        return;
    }
    let p = compile(&["jobs/world"]);
    for options in TRANSPORTS {
        let outcome = under(&p, 2, options, &["sudo", "./world"]);
        is_refused(&outcome, &["'sudo' has taken the variables of OxMPI", "sudo -E"]);
        under(&p, 2, options, &["sudo", "-E", "./world"]).is_fine(2, "of 2");
    }
}

#[test]
fn a_library_of_another_release_names_both_versions() {
    let p = compile(&["jobs/world"]);
    let outcome = under(&p, 2, &[], &["env", "OXMPI_BOOT=3:62:63", "./world"]);
    assert!(outcome.code != 0 && !outcome.out.contains("rank"), "{outcome:?}");
    let own = format!("of this process version {BOOT_VERSION}");
    for part in ["mpirun speaks version 3", &own, "LD_LIBRARY_PATH"] {
        assert!(outcome.err.contains(part), "{part}: {outcome:?}");
    }
}

#[test]
fn su_is_named_where_it_makes_a_login_shell() {
    if !may_change_user() {
        return;
    }
    let p = compile(&["jobs/world"]);
    let command = format!("{} {}", shell_word(&p.path("world")), p.marker());
    for options in TRANSPORTS {
        let outcome = under(&p, 2, options, &["su", "-s", "/bin/sh", "-", "root", "-c", &command]);
        is_refused(&outcome, &["'su' has taken the variables of OxMPI", "su -m"]);
        under(&p, 2, options, &["su", "-s", "/bin/sh", "root", "-c", &command]).is_fine(2, "of 2");
    }
}

#[test]
fn a_program_that_goes_on_in_another_process_is_the_rank() {
    let p = compile(&["jobs/world", "jobs/own_signals"]);
    for options in TRANSPORTS {
        under(&p, 2, options, &["setsid", "-f", "./world"]).is_fine(2, "of 2");
        script(&p, options, "./world $1 & exit 0").is_fine(2, "of 2");
        script(&p, options, "setsid -f bash -c \"./world $1; exit\"").is_fine(2, "of 2");
        let outcome = under(&p, 2, options, &["setsid", "-f", "env", "-i", "./world"]);
        is_refused(&outcome, &["'env' has taken"]);
    }
    under(&p, 2, &[], &["setsid", "-f", "./own_signals", "crash"]).reports(139, "rank 1 ");
}

#[test]
fn processes_that_a_program_leaves_behind_end_with_the_job() {
    let p = compile(&["jobs/world"]);
    let is_silent = |text: &str| {
        let outcome = script(&p, &[], text);
        assert_eq!(
            (outcome.code, outcome.out.as_str(), outcome.err.as_str()),
            (0, "", ""),
            "{outcome:?}"
        );
    };
    is_silent("(exec -a $1 sleep 600) & exit 0");
    let text = "(env -u OXMPI_BOOT ./world $1; exec -a $1 sleep 600) > out.$OXMPI_COMM_WORLD_RANK & exit 0";
    is_silent(text);
}

/// Words that start a program in its own PID namespace; `None`: not permitted here.
fn in_namespace() -> Option<&'static [&'static str]> {
    let words = &["unshare", "--pid", "--fork", "--mount-proc"];
    if Command::new(words[0]).args(&words[1..]).arg("true").status().is_ok_and(|s| s.success()) {
        return Some(words);
    }
    skip("'unshare --pid' is not permitted here");
    None
}

#[test]
fn in_another_pid_namespace_the_inherited_segment_tells() {
    let Some(namespace) = in_namespace() else { return };
    let p = compile(&["jobs/world"]);
    let words = [namespace, &["env", "-i", "./world"]].concat();
    is_refused(&under(&p, 2, &[], &words), &["taken the variables of OxMPI"]);
}

/// A container that was entered from outside: the kernel reports process number 0 for the leaders
/// of mpirun's group and session.
#[test]
fn mpirun_may_belong_to_a_session_outside_its_pid_namespace() {
    let Some(namespace) = in_namespace() else { return };
    let p = compile(&["jobs/world"]);
    let mut command = Command::new(namespace[0]);
    command.args(&namespace[1..]).arg(installed("mpirun"));
    command.args(["-n", "2", "--timeout", "50", "env", "-i", "./world", p.marker()]);
    is_refused(&p.start(command).end(), &["'env' has taken the variables of OxMPI"]);
}

#[test]
fn a_tool_with_an_empty_environment_is_a_job_of_one() {
    let p = compile(&["jobs/world"]);
    p.compile_text("tool", TOOL);
    let sudo = may_change_user().then_some("sudo ./world");
    for tool in ["env -i ./world"].into_iter().chain(sudo) {
        let outcome = under(&p, 2, &[], &["./tool", tool]);
        outcome.is_fine(4, "rank 0 of 1");
    }
}

const TOOL: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    char command[400];
    MPI_Init(&argc, &argv);
    snprintf(command, sizeof command, "%s %s", argv[1], argv[2]);
    if (system(command) != 0)
        return 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return system(command) != 0;
}
"#;

#[test]
fn a_job_of_one_rank_is_right_where_one_was_started_or_the_user_says_so() {
    let p = compile(&["jobs/world"]);
    under(&p, 1, &[], &["env", "-i", "./world"]).is_fine(1, "rank 0 of 1");
    let allowed = ["env", "-i", "OXMPI_MCA_mpi_allow_singletons=1", "./world"];
    under(&p, 2, &[], &allowed).is_fine(2, "rank 0 of 1");
}
