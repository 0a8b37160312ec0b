//! Pending signals of stopped processes.

use std::ffi::{c_int, c_uint};
use std::io;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use rustix::process::Signal;

/// The longest wait until the kernel has stopped a thread for the tracer.
const LIMIT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Discards a pending signal of a stopped process, so that it has no effect when the process
/// continues. The process stays stopped. Returns whether the signal was pending.
pub fn discard_pending(process: u32, signal: Signal) -> io::Result<bool> {
    let mut found = false;
    for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let entry = entry?;
        let status = std::fs::read_to_string(entry.path().join("status"))?;
        let thread = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (Some(thread), true) = (thread, waits_in(&status, signal.as_raw())) {
            discard_from(thread, signal.as_raw())?;
            found = true;
        }
    }
    Ok(found)
}

/// Whether a thread gets a signal as soon as it runs, by its `/proc/PID/task/TID/status`
/// (proc_pid_status(5)).
fn waits_in(status: &str, signal: i32) -> bool {
    let is_in = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    };
    (is_in("SigPnd:") || is_in("ShdPnd:")) && !is_in("SigBlk:")
}

/// Lets the traced thread run until the delivery of the signal, and suppresses it.
fn discard_from(thread: i32, signal: i32) -> io::Result<()> {
    trace(libc::PTRACE_SEIZE, thread, 0)?;
    let end = Instant::now() + LIMIT;
    loop {
        let (stop, is_event) = await_stop(thread, end)?;
        if is_event {
            // A stop of the whole process, or a stop that the tracing causes.
            trace(libc::PTRACE_CONT, thread, 0)?;
            continue;
        }
        // Another signal came first and is delivered.
        let delivered = if stop == signal { 0 } else { stop };
        return trace(libc::PTRACE_DETACH, thread, delivered);
    }
}

/// Waits until a traced thread has stopped. Returns the signal, and whether the stop is an event
/// without a signal delivery.
fn await_stop(thread: i32, end: Instant) -> io::Result<(c_int, bool)> {
    loop {
        let mut status = 0;
        // SAFETY: waitpid(2) writes one word, `status`.
        let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
        match found {
            0 if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
            0 => return Err(io::ErrorKind::TimedOut.into()),
            1.. if libc::WIFSTOPPED(status) => {
                return Ok((libc::WSTOPSIG(status), status >> 16 != 0));
            }
            1.. => return Err(io::ErrorKind::NotFound.into()),
            _ => return Err(io::Error::last_os_error()),
        }
    }
}

fn trace(request: c_uint, thread: i32, data: c_int) -> io::Result<()> {
    // SAFETY: the requests SEIZE, CONT and DETACH access no memory of this process; the fourth
    // argument is a number.
    let done = unsafe { libc::ptrace(request, thread, null_mut::<()>(), i64::from(data)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_stat::ProcessStat;
    use rustix::process::{Pid, kill_process};
    use std::process::{Child, Command};

    fn await_state(child: &Child, wanted: &str) {
        let start = Instant::now();
        while !ProcessStat::of(child.id()).is_some_and(|stat| wanted.contains(stat.state)) {
            assert!(start.elapsed() < 30 * LIMIT, "{:?}", ProcessStat::of(child.id()));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn a_signal_that_waits_in_a_stopped_process_is_taken_away() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let send = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
        send(Signal::STOP);
        await_state(&child, "T");
        assert!(!discard_pending(child.id(), Signal::PIPE).unwrap());
        send(Signal::PIPE);
        assert!(discard_pending(child.id(), Signal::PIPE).unwrap());
        await_state(&child, "T");
        assert!(!discard_pending(child.id(), Signal::PIPE).unwrap());
        send(Signal::CONT);
        await_state(&child, "RS");
        send(Signal::TERM);
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
    }

    #[test]
    fn a_signal_that_is_blocked_is_left_where_it_is() {
        let status = |pending, blocked| {
            format!("Name:\tx\nSigPnd:\t{pending}\nShdPnd:\t0000000000000000\nSigBlk:\t{blocked}\n")
        };
        let (pipe, none) = ("0000000000001000", "0000000000000000");
        assert!(waits_in(&status(pipe, none), libc::SIGPIPE));
        assert!(!waits_in(&status(pipe, pipe), libc::SIGPIPE));
        assert!(!waits_in(&status(none, none), libc::SIGPIPE) && !waits_in("", libc::SIGPIPE));
    }
}
