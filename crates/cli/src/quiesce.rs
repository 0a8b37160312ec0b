//! `oxmpi quiesce`: quiesces the messages of a running job for a moment.

use std::ffi::OsString;
use std::time::Duration;

use oxmpi_rt::inquiry;

use crate::command::{Stop, answer, failed, is_option, split, unknown, usage, words};
use crate::mpirun::{TIMEOUT_WANTED, seconds};

pub(crate) const HELP: &str = "\
oxmpi quiesce PID: end all connections of a running job, and let it make them again

      --timeout SECONDS         the longest wait (60) until each rank has called MPI

PID is the process number of its mpirun, which was started with '--mca rpi crtcp'. When each rank has called MPI for the next
time, no message is on its way any more; then all connections and listening sockets are closed, and made anew where they
are needed. The program notices nothing but the time.
The exit code is 0 on success; then a line says how long it took, and mpirun says the same on its standard error. The exit code
is 1, with the reason, if there is no such job, if it cannot do that, or if a rank has not called MPI in time.
";

/// The form of the command, for messages.
const USAGE: &str = "'oxmpi quiesce [--timeout SECONDS] PID' ('oxmpi quiesce --help')";

/// The default for the time that a rank may compute without calling MPI.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `oxmpi quiesce ARGS`. Returns 1 if the job did not become quiet, 2 if an argument is wrong.
pub(crate) fn main(args: &[OsString]) -> i32 {
    answer("quiesce", HELP, try_quiesce(args))
}

fn try_quiesce(args: &[OsString]) -> Result<Option<i32>, Stop> {
    let (mut limit, mut pids) = (LIMIT, Vec::new());
    let is_alone = args.is_empty();
    let mut args = words(args);
    while let Some(arg) = args.next() {
        let (option, inline) = split(&arg);
        match option {
            "-h" | "--help" => return Ok(None),
            "--timeout" | "-timeout" => {
                let value = inline.or_else(|| args.next());
                let value =
                    value.ok_or_else(|| usage(format!("{option} needs {TIMEOUT_WANTED} after it")))?;
                limit = seconds(&value)
                    .ok_or_else(|| usage(format!("{option} {value}: not {TIMEOUT_WANTED}")))?;
            }
            _ if is_option(option) && option.parse::<i64>().is_err() => {
                return Err(unknown(option, &["--timeout"]));
            }
            _ => pids.push(arg),
        }
    }
    let pid = match &pids[..] {
        [] if is_alone => return Ok(None),
        [pid] => pid.parse::<u32>().ok().filter(|pid| *pid > 0),
        [] => return Err(usage(format!("one process number is needed, that of mpirun: {USAGE}"))),
        [_, more, ..] => {
            return Err(usage(format!("'{more}': one process number is needed, that of mpirun: {USAGE}")));
        }
    };
    let pid = pid.ok_or_else(|| usage(format!("'{}' is no process number", pids[0])))?;
    let text = inquiry::quiesce(pid, limit).map_err(failed)?;
    crate::say(&format!("{text}\n"));
    Ok(Some(0))
}
