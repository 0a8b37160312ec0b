//! `oxmpi quiesce`: quiesces the messages of a running job for a moment.

use std::time::Duration;

use oxmpi_launcher::inquiry;

use crate::command::{Stop, failed, pid, timeout};

/// End all connections of a running job, and let it make them again
///
/// The job must have been started with '--mca rpi crtcp'. After the next MPI call of each rank no
/// message is under way. All connections and listening sockets are then closed, and opened again
/// where they are needed. The program notices only the delay.
///
/// The exit code is 0 on success: a line says how long it took, here and on mpirun's standard
/// error. The exit code is 1, with the reason, if there is no such job, if the job cannot do this,
/// or if a rank has not called MPI in time.
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

pub(crate) fn main(args: &QuiesceArgs) -> Result<i32, Stop> {
    let text = inquiry::quiesce(args.pid, args.timeout).map_err(failed)?;
    crate::say(&format!("{text}\n"));
    Ok(0)
}
