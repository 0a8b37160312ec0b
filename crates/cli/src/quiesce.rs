//! `oxmpi quiesce`: lets the messages of a running job stand still for a moment.

use std::ffi::OsString;

use oxmpi_rt::launch::QUIESCE;
use rustix::process::{Pid, kill_process};

pub(crate) const HELP: &str = "\
oxmpi quiesce PID: end all connections of a running job, and let it make them again

PID is the process number of its mpirun, which was started with '--mca rpi crtcp'. When each rank has called MPI for the next
time, no message is on its way any more; then all connections and listening sockets are closed, and made anew where they
are needed. The program notices nothing but the time. mpirun says on its standard error when that is done.
";

/// Answers `oxmpi quiesce ARGS` and returns the exit code: 1 if there is no such job, 2 if the question is wrong.
pub(crate) fn main(args: &[OsString]) -> i32 {
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).collect();
    match words.iter().map(AsRef::as_ref).collect::<Vec<_>>()[..] {
        [] | ["-h" | "--help"] => {
            crate::say(HELP);
            0
        }
        [pid] => match pid.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw) {
            Some(pid) => ask(pid),
            None => wrong(2, &format!("'{pid}' is no process number")),
        },
        _ => wrong(2, "one process number is needed ('oxmpi quiesce --help')"),
    }
}

fn ask(pid: Pid) -> i32 {
    let number = pid.as_raw_nonzero();
    let own = std::fs::read_link("/proc/self/exe");
    match (std::fs::read_link(format!("/proc/{number}/exe")), own) {
        (Ok(theirs), Ok(own)) if theirs == own => {}
        (Ok(theirs), _) => {
            return wrong(
                1,
                &format!("process {number} is {}, not this installation's mpirun", theirs.display()),
            );
        }
        (Err(error), _) => return wrong(1, &format!("process {number}: {error}")),
    }
    match kill_process(pid, QUIESCE) {
        Ok(()) => 0,
        Err(error) => wrong(1, &format!("process {number} cannot be asked: {error}")),
    }
}

fn wrong(code: i32, text: &str) -> i32 {
    oxmpi_sys::complain!("oxmpi quiesce: {text}");
    code
}
