//! MPI_Abort, calls with wrong arguments or at a wrong time, and calls of missing functions.

use std::process::Command;

use super::harness::{Outcome, Programs, compile, installed};
use crate::support::{TestDirectory, compiled_fortran, shell_word};

const FATAL: &str = "\nThe error handler is MPI_ERRORS_ARE_FATAL, so the job ends";
const OUTSIDE: &str = "\nBefore MPI_Init has returned, and after MPI_Finalize, the initial error handler counts, which is \
                       MPI_ERRORS_ARE_FATAL (parameter mpi_initial_errhandler): the job ends.\n";

fn errors(programs: &Programs, arguments: &[&str]) -> Outcome {
    programs.run(3, &[], "errors", arguments)
}

fn fails(programs: &Programs, what: &str, code: i32, text: &str) {
    let outcome = errors(programs, &[what]);
    outcome.reports(code, "rank ");
    assert!(outcome.err.contains(&format!(") ended the job:\n{text}")), "{outcome:?}");
    assert!(!outcome.out.contains("still here"), "{outcome:?}");
}

#[test]
fn abort_ends_the_job_with_its_code() {
    let p = compile(&["jobs/errors"]);
    let outcome = errors(&p, &["abort-one", "7"]);
    outcome.reports(7, "rank 1 (pid ");
    assert!(outcome.err.contains(") called MPI_Abort with code 7\n"), "{outcome:?}");
    // The exit status has the last 8 bits, as with other libraries; the report has the whole code.
    let outcome = errors(&p, &["abort-one", "300"]);
    outcome.reports(44, "rank 1 (pid ");
    assert!(outcome.err.contains(") called MPI_Abort with code 300, of which"), "{outcome:?}");
    for (code, status) in [("300", 44), ("0", 1)] {
        let alone = Command::new(p.path("errors")).args(["abort-all", code]).output().unwrap();
        let err = String::from_utf8_lossy(&alone.stderr);
        assert_eq!(
            (alone.status.code(), &*err),
            (Some(status), &*format!("MPI_Abort was called with code {code}\n"))
        );
    }
    errors(&p, &["abort-all", "7"]).reports(7, "rank ");
    // A code whose last 8 bits are 0 must not count as success.
    errors(&p, &["abort-one", "0"]).reports(1, "rank 1 ");
    errors(&p, &["abort-all", "256"]).reports(1, "rank ");
    errors(&p, &["abort-one", "-1"]).reports(255, "rank 1 ");
}

/// A program of Fortran that writes to its standard output and to a file, and calls MPI_ABORT, also
/// while it writes.
const WRITES: &str = "
program writes
  use mpi
  implicit none
  integer :: ierror, new
  character(len=10) :: place
  call get_command_argument(1, place)
  call MPI_Init(ierror)
  open(unit=7, file='unit_7')
  open(unit=9999, file='unit_9999')
  open(newunit=new, file='new_unit')
  write(*, '(a)') 'on the screen'
  write(7, '(a)') 'in the file'
  write(9999, '(a)') 'in another file'
  write(new, '(a)') 'in a third file'
  if (place == 'inside') write(7, *) aborted()
  ierror = aborted()
contains
  integer function aborted()
    call MPI_Abort(MPI_COMM_WORLD, 3, ierror)
    aborted = 0
  end function
end program
";

#[test]
fn an_abort_loses_nothing_that_fortran_has_written() {
    let p = compile(&[]);
    let directory = TestDirectory::new("writes");
    let source = directory.write("writes.f90", WRITES);
    for compiler in ["gfortran", "flang-new-19"] {
        let made = compiled_fortran(&source, compiler, &[]).unwrap();
        std::fs::copy(made, p.path("writes")).unwrap();
        let outcome = p.run(1, &[], "writes", &["behind"]);
        outcome.reports(3, "rank 0 (pid ");
        assert_eq!(outcome.out, "on the screen\n", "{compiler}");
        let files = [
            ("unit_7", "in the file\n"),
            ("unit_9999", "in another file\n"),
            ("new_unit", "in a third file\n"),
        ];
        // The runtime of GNU Fortran cannot flush the units of NEWUNIT.
        let count = if compiler == "gfortran" { 2 } else { 3 };
        for (file, text) in &files[..count] {
            let written = std::fs::read_to_string(p.path(file)).unwrap();
            assert_eq!(written, *text, "{compiler}: {file}");
        }
        // The call cannot get the unit.
        p.run(1, &[], "writes", &["inside"]).reports(3, "rank 0 (pid ");
    }
}

#[test]
fn abort_before_init() {
    let p = compile(&["jobs/errors"]);
    let outcome = errors(&p, &["abort-before", "7"]);
    outcome.reports(7, "rank ");
    assert!(
        outcome.err.contains("MPI_Abort was called with code 7 while MPI was not initialised\n"),
        "{outcome:?}"
    );
}

#[test]
fn wrong_arguments_are_named_with_their_values() {
    let p = compile(&["jobs/errors"]);
    let peer = "MPI_Send: MPI_ERR_RANK: dest is 99; the communicator has the ranks 0 to 2";
    fails(&p, "peer", 6, &format!("{peer}{FATAL}"));
    fails(&p, "tag", 4, "MPI_Send: MPI_ERR_TAG: tag is -5;");
    fails(&p, "count", 2, "MPI_Bcast: MPI_ERR_COUNT: count is -3;");
    fails(
        &p,
        "truncate",
        15,
        "MPI_Sendrecv: MPI_ERR_TRUNCATE: a message of 8 bytes arrived for a receive buffer of 4 bytes",
    );
    errors(&p, &["peer-one"]).reports(6, "rank 1 (pid ");
}

#[test]
fn calls_at_a_wrong_time() {
    let p = compile(&["jobs/errors"]);
    let early = "MPI_Comm_rank: MPI_ERR_OTHER: called before MPI_Init or MPI_Init_thread, and there is no session";
    fails(&p, "before", 16, &format!("{early}{OUTSIDE}"));
    let twice = "MPI_Init: MPI_ERR_OTHER: MPI was initialised before; it can be only once";
    fails(&p, "double", 16, &format!("{twice}{FATAL}"));
    fails(
        &p,
        "after",
        16,
        &format!(
            "MPI_Send: MPI_ERR_OTHER: called after MPI_Finalize, and there is no session{OUTSIDE}"
        ),
    );
    fails(&p, "after-init", 16, &format!("{twice}{OUTSIDE}"));
    fails(&p, "after-finalize", 16, "MPI_Finalize: MPI_ERR_OTHER: called after MPI_Finalize");
}

#[test]
fn the_initial_error_handler_is_the_choice_of_the_user() {
    let p = compile(&["jobs/errors"]);
    let with = |handler: &'static str| {
        p.run(2, &["--initial-errhandler", handler], "errors", &["initial"])
    };
    with("mpi_errors_return").is_fine(2, "before 16, between 6, after 16, handlers return return");
    for handler in ["mpi_errors_are_fatal", "mpi_errors_abort"] {
        let outcome = with(handler);
        outcome.reports(16, "rank ");
        assert!(outcome.err.contains(&handler.to_uppercase()), "{outcome:?}");
    }
    let outcome = with("mpi_errors_perhaps");
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(
        outcome.err.contains("'mpi_errors_perhaps' is not one of mpi_errors_are_fatal"),
        "{outcome:?}"
    );
}

#[test]
fn without_the_world_model_the_initial_error_handler_counts() {
    let p = compile(&["jobs/errors"]);
    let text = "MPI_Comm_rank: MPI_ERR_COMM: comm: the communicator MPI_COMM_WORLD: it is there between MPI_Init and \
                MPI_Finalize only";
    fails(&p, "session", 5, &format!("{text}{FATAL}"));
    let with = |arguments: &[&str]| {
        p.run(2, &["--initial-errhandler", "mpi_errors_return"], "errors", arguments)
    };
    with(&["session"]).is_fine(2, "early 5");
    with(&["session", "7"]).reports(7, "rank ");
}

#[test]
fn an_error_of_no_object_is_for_the_handler_of_self_or_else_of_world() {
    let p = compile(&["jobs/errors"]);
    // The marker is an argument, too.
    errors(&p, &["no-object"]).is_fine(3, "returned 3");
    let self_is_set = errors(&p, &["no-object", "0"]);
    self_is_set.reports(3, "rank ");
    assert!(self_is_set.out.contains("returned 3"), "{self_is_set:?}");
    let strict = p.run(2, &["--mca", "mpi_strict", "1"], "errors", &["no-object"]);
    strict.reports(3, "rank ");
    assert!(!strict.out.contains("returned"), "{strict:?}");
}

#[test]
fn a_call_from_a_signal_handler_is_one_report() {
    let p = compile(&["jobs/errors"]);
    let outcome = errors(&p, &["signal"]);
    outcome.reports(1, "rank 1 ");
    assert!(
        outcome.err.contains("MPI_Iprobe: this thread is inside the library already"),
        "{outcome:?}"
    );
    assert!(!outcome.err.contains("panicked") && outcome.err.lines().count() < 12, "{outcome:?}");
}

#[test]
fn a_user_handler_may_end_the_program() {
    let p = compile(&["jobs/errors"]);
    errors(&p, &["handler-exits", "9"]).reports(9, "rank ");
    let outcome = errors(&p, &["handler-abort"]);
    outcome.reports(6, "rank 1 ");
    assert!(outcome.err.contains("The error handler is MPI_ERRORS_ABORT"), "{outcome:?}");
}

#[test]
fn a_returned_error_names_function_and_value() {
    let p = compile(&["jobs/errors"]);
    errors(&p, &["return"])
        .is_fine(3, "MPI_Send: dest is 99; the communicator has the ranks 0 to 2");
}

#[test]
fn a_singleton_reports_its_errors_itself() {
    let p = compile(&["jobs/errors"]);
    for (what, code, text) in [
        ("peer", 6, "MPI_Send: MPI_ERR_RANK: dest is 99; the communicator has the ranks 0 to 0"),
        ("before", 16, "MPI_Comm_rank: MPI_ERR_OTHER: called before MPI_Init"),
        ("after", 16, "MPI_Send: MPI_ERR_OTHER: called after MPI_Finalize"),
    ] {
        let output = Command::new(p.path("errors")).arg(what).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && err.starts_with(text), "{what}: {err}");
        assert_eq!(err.matches(text).count(), 1, "{err}");
    }
}

#[test]
fn a_misspelt_parameter_is_reported_with_the_nearest_name() {
    let p = compile(&["jobs/many"]);
    let text = "there is no parameter 'shm_ring_slot' (did you mean 'shm_ring_slots'?)";
    let variable = ("OXMPI_MCA_shm_ring_slot", "256");
    let mut command = p.mpirun(2, &[], "many", &["init"]);
    command.env(variable.0, variable.1);
    let outcome = p.start(command).end();
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""));
    assert!(
        outcome.err.starts_with("mpirun: environment variable OXMPI_MCA_shm_ring_slot: "),
        "{outcome:?}"
    );
    assert!(outcome.err.contains(text), "{outcome:?}");
    let script = format!("{}={} exec {} init", variable.0, variable.1, shell_word(&p.path("many")));
    let mut command = Command::new(installed("mpirun"));
    command.args(["-n", "4", "--timeout", "50", "sh", "-c", &script]);
    let outcome = p.start(command).end();
    outcome.reports(16, "rank ");
    assert!(
        outcome.err.contains(") ended the job:\nMPI_Init: ") && outcome.err.contains(text),
        "{outcome:?}"
    );
    let output =
        Command::new(p.path("many")).arg("init").env(variable.0, variable.1).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(16) && err.starts_with("MPI_Init: ") && err.contains(text),
        "{err}"
    );
}

#[test]
fn a_parameter_far_from_all_is_refused_too() {
    let p = compile(&["jobs/many"]);
    let mut command = p.mpirun(2, &[], "many", &["init"]);
    command.env("OXMPI_MCA_unknown", "1");
    let outcome = p.start(command).end();
    assert!(
        outcome.code == 2 && outcome.err.contains("there is no parameter 'unknown'"),
        "{outcome:?}"
    );
    assert!(outcome.err.contains("'oxmpi info --params' lists them all"), "{outcome:?}");
    let outcome = p.run(2, &["--mca", "shm_max_rings", "many"], "many", &["init"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""));
    let text = "mpirun: --mca shm_max_rings many: parameter 'shm_max_rings': 'many' is not a number from 0 to 1024";
    assert!(outcome.err.starts_with(text), "{outcome:?}");
}

/// With plans the error is in the message for the receiver.
#[test]
fn a_shorter_length_at_a_receiver_of_a_collective_is_an_error() {
    let p = compile(&["jobs/shorter"]);
    for rpi in ["shm", "tcp"] {
        p.run(2, &["--mca", "coll", "^shmem", "--mca", "rpi", rpi], "shorter", &[])
            .is_fine(1, "ok");
    }
}
