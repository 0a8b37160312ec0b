//! Signals that a parent passes on to a child, which gets the same signals from elsewhere as well.
//!
//! The kernel keeps one instance of a pending signal, with its first sender, so a child could not
//! tell whether its parent has sent one. Each of [`RELAYED`] therefore has a real-time signal that
//! stands for it: the kernel keeps all instances of real-time signals (signal(7)).

use std::ffi::c_int;
use std::io;

use rustix::process::Pid;

/// The signals that end a job.
pub const RELAYED: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The offset from the first real-time signal: debuggers and libraries use lower ones.
const FIRST: c_int = 8;

/// The real-time signals that stand for [`RELAYED`], in its order.
pub fn stand_ins() -> [i32; 4] {
    std::array::from_fn(|at| libc::SIGRTMIN() + FIRST + at as c_int)
}

/// The signal of [`RELAYED`] for which a real-time signal stands.
pub fn stands_for(number: i32) -> Option<i32> {
    stand_ins().iter().position(|stand_in| *stand_in == number).map(|at| RELAYED[at])
}

/// Passes on one of [`RELAYED`] to a child that collects [`stand_ins`]. Errors: `InvalidInput` for
/// another signal; the error of kill(2).
pub fn relay(child: Pid, signal: i32) -> io::Result<()> {
    let at =
        RELAYED.iter().position(|relayed| *relayed == signal).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill(2) has no preconditions; the number is positive, so it means one process.
    match unsafe { libc::kill(child.as_raw_nonzero().get(), stand_ins()[at]) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::Signals;

    #[test]
    fn a_signal_that_is_relayed_is_not_lost_beside_the_same_one() {
        let signals = Signals::new(&[&RELAYED[..], &stand_ins()].concat()).unwrap();
        let [.., stand_in] = stand_ins();
        for signal in [libc::SIGTERM, stand_in, libc::SIGTERM, stand_in] {
            // SAFETY: sends a signal, blocked here, to this thread; other threads do not block it.
            unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        }
        let all: Vec<i32> = std::iter::from_fn(|| signals.next().unwrap()).collect();
        let relayed = all.iter().filter_map(|number| stands_for(*number));
        assert_eq!(relayed.collect::<Vec<_>>(), [libc::SIGTERM; 2]);
        assert_eq!(all.iter().filter(|number| **number == libc::SIGTERM).count(), 1);
        assert!(
            relay(rustix::process::getpid(), libc::SIGUSR1).is_err()
                && stands_for(libc::SIGTERM).is_none()
        );
    }
}
