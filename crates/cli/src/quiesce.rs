//! `oxmpi quiesce`: quiesces the messages of a running job for a moment.

use std::time::Duration;

use oxmpi_launcher::inquiry;

use crate::command::{Stop, failed, pid, timeout};

/// End all connections of a running job, and let it make them again
///
/// The job must have been started with '--mca rpi crtcp'. When each rank has called MPI for the
/// next time, no message is on its way any more; then all connections and listening sockets are
/// closed, and made anew where they are needed. The program notices nothing but the time.
///
/// The exit code is 0 on success; then a line says how long it took, and mpirun says the same on
/// its standard error. The exit code is 1, with the reason, if there is no such job, if it cannot
/// do that, or if a rank has not called MPI in time.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct QuiesceArgs {
    /// The longest wait until each rank has called MPI
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = timeout)]
    timeout: Duration,
    /// The process number of the job's mpirun
    #[arg(value_parser = pid, allow_negative_numbers = true)]
    pid: u32,
}

/// Runs `oxmpi quiesce`: an error if the job did not become quiet.
pub(crate) fn main(args: &QuiesceArgs) -> Result<i32, Stop> {
    let text = inquiry::quiesce(args.pid, args.timeout).map_err(failed)?;
    crate::say(&format!("{text}\n"));
    Ok(0)
}
