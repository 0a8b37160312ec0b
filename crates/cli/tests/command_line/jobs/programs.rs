//! Programs for `mpirun` that are not executable, do not use MPI, or start others.

use std::process::Command;

use super::harness::{Outcome, Programs, compile, installed};
use crate::support::shell_word;

fn refused(programs: &Programs, name: &str, code: i32, text: &str) {
    let outcome = programs.run(2, &[], name, &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (code, ""), "{outcome:?}");
    let begin = format!("mpirun: cannot run '{}': ", programs.path(name).display());
    assert!(outcome.err.starts_with(&begin) && outcome.err.contains(text), "{outcome:?}");
    assert_eq!(outcome.err.lines().count(), 1, "{outcome:?}");
}

#[test]
fn programs_that_cannot_run_are_reported_with_the_reason() {
    let p = compile(&[]);
    refused(&p, "missing", 127, "No such file or directory");
    std::fs::create_dir(p.path("directory")).unwrap();
    refused(&p, "directory", 126, "it is a directory");
    p.file("plain", b"hello\n", 0o644);
    refused(&p, "plain", 126, "it is not executable (chmod +x makes it so)");
    p.file("script", b"#!/nonexistent/interpreter\n", 0o755);
    refused(&p, "script", 126, "the file is there, but not the interpreter that it names");
}

#[test]
fn a_text_that_is_no_program_fails_as_in_a_shell() {
    let p = compile(&[]);
    p.file("text", b"no-such-command-here\n", 0o755);
    let outcome = p.run(2, &[], "text", &[]);
    assert_eq!(outcome.code, 127, "{outcome:?}");
    assert!(outcome.err.contains("no-such-command-here"), "{outcome:?}");
    assert!(
        outcome.err.contains("exited with code 127") && outcome.err.contains("cannot find"),
        "{outcome:?}"
    );
}

#[test]
fn programs_without_mpi_just_run() {
    let p = compile(&[]);
    for (name, lines) in [("hostname", 3), ("true", 0)] {
        let mut command = Command::new(installed("mpirun"));
        command.args(["-n", "3", "--timeout", "50", name]);
        p.start(command).end().is_fine(lines, "\n");
    }
}

#[test]
fn the_exit_code_of_a_shell_for_a_killed_program_is_understood() {
    let p = compile(&["jobs/die"]);
    let script = format!("{} between segv; exit $?", shell_word(&p.path("die")));
    let mut command = Command::new(installed("mpirun"));
    command.args(["-n", "3", "--timeout", "50", "sh", "-c", &script]);
    let outcome = p.start(command).end();
    assert_eq!(outcome.code, 139, "{outcome:?}");
    assert!(
        outcome.err.contains("exited with code 139; its last MPI call was MPI_Init"),
        "{outcome:?}"
    );
    assert!(outcome.err.contains("SIGSEGV (segmentation fault)"), "{outcome:?}");
}

#[test]
fn without_mpirun_a_program_is_a_job_of_one() {
    let p = compile(&["jobs/many", "jobs/children"]);
    for (program, how) in [("many", "work"), ("children", "exit")] {
        let output = Command::new(p.path(program)).arg(how).output().unwrap();
        let outcome = Outcome {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        outcome.is_fine(1, "fine 0 of 1");
    }
}

#[test]
fn children_of_ranks_end_without_a_trace() {
    let p = compile(&["jobs/children"]);
    for how in ["exit", "_exit", "crash"] {
        p.run(3, &[], "children", &[how]).is_fine(3, " of 3");
    }
    p.run(3, &[], "children", &["system", "true"]).is_fine(3, " of 3");
}

#[test]
fn children_that_would_stay_end_with_the_job() {
    let p = compile(&["jobs/children"]);
    p.run(3, &[], "children", &["twins"]).is_fine(3, " of 3");
}

#[test]
fn an_mpi_program_started_by_a_rank_is_a_job_of_one() {
    let p = compile(&["jobs/children", "jobs/many"]);
    let inner = format!("{} work", shell_word(&p.path("many")));
    let outcome = p.run(3, &[], "children", &["system", &inner]);
    outcome.is_fine(6, "fine ");
    assert_eq!(outcome.out.matches("fine 0 of 1\n").count(), 3, "{outcome:?}");
    assert_eq!(outcome.out.matches(" of 3\n").count(), 3, "{outcome:?}");
}

#[test]
fn a_wrapper_that_closes_descriptors_is_named_if_the_rank_cannot_reach_mpirun() {
    let p = compile(&["jobs/closer", "jobs/many"]);
    let many = p.path("many");
    for how in ["exec", "fork"] {
        p.run(3, &[], "closer", &[how, many.to_str().unwrap(), "work"]).is_fine(3, " of 3");
        // Each rank would be a job of one.
        let mut command = Command::new(installed("mpirun"));
        command.args(["-n", "3", "--timeout", "50", "env", "-u", "OXMPI_WAY_IN"]);
        command.arg(p.path("closer")).arg(how).arg(&many).args(["work", p.marker()]);
        let outcome = p.start(command).end();
        assert!(outcome.code != 0 && outcome.out.is_empty(), "{outcome:?}");
        for part in ["has started 3 ranks", "descriptors 62 and 63", "close_fds=False"] {
            assert!(outcome.err.contains(part), "{part}: {outcome:?}");
        }
    }
}

#[test]
fn each_rank_knows_the_number_of_its_program() {
    let p = compile(&["attr_predefined"]);
    let program = p.path("attr_predefined").display().to_string();
    let arguments = ["0", ":", "-n", "2", &program, "1", ":", "-n", "1", &program, "2"];
    p.run(1, &[], "attr_predefined", &arguments).is_fine(1, "ok");
    let outcome = p.run(1, &[], "attr_predefined", &["0", ":", "-n", "1", &program, "5"]);
    assert!(outcome.code != 0 && outcome.out.contains("value == appnum"), "{outcome:?}");
}
