//! Sets of signals, and signals that can be polled and read (signalfd(2)).
//!
//! A program inherits which signals are ignored. A signal of [`IGNORABLE`] that was ignored when
//! this program started stays ignored: nohup(1) ignores SIGHUP, and a shell without job control
//! ignores SIGINT and SIGQUIT for background commands. SIGCHLD does not ([`unignore_children`]).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::foreign::disposition;
use rustix::process::Signal;

/// A set of signals for a thread to block.
#[derive(Clone, Copy)]
pub struct SignalMask(pub(super) libc::sigset_t);

impl SignalMask {
    /// The empty set.
    pub fn none() -> SignalMask {
        SignalMask(mask_of(&[]))
    }
}

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalMask")
    }
}

pub(super) fn full_mask() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigfillset(3) initialises the set and cannot fail on a valid pointer.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn mask_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset(3) initialises the set; sigaddset(3) refuses numbers that are no signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

pub(super) fn set_mask(how: c_int, set: &libc::sigset_t) -> io::Result<SignalMask> {
    let mut old = std::mem::MaybeUninit::uninit();
    // SAFETY: both sets are valid; the old one is written on success.
    let failed = unsafe { libc::pthread_sigmask(how, set, old.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    // SAFETY: pthread_sigmask(3) has written it.
    Ok(SignalMask(unsafe { old.assume_init() }))
}

/// Runs `act` with all signals blocked for the calling thread. Threads that `act` starts keep them
/// blocked, so the program's signals go to the program's threads.
pub fn without_signals<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = set_mask(libc::SIG_BLOCK, &full_mask())?;
    let result = act();
    set_mask(libc::SIG_SETMASK, &before.0)?;
    result
}

/// Signals that end or stop a program by default; the process that has started this one may ignore
/// them.
pub const IGNORABLE: [i32; 5] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP];

/// Lets this process survive a signal whose disposition is the default one, with an empty handler:
/// programs that it executes have the default disposition again.
pub fn survive_by_default(signal: Signal) {
    extern "C" fn ignore(_: c_int) {}
    let number = signal.as_raw();
    let Some(mut action) = disposition(number).filter(|now| now.sa_sigaction == libc::SIG_DFL)
    else {
        return;
    };
    action.sa_sigaction = ignore as extern "C" fn(c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing, so it may run at any time.
    unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) };
}

pub(super) fn is_ignored(signal: c_int) -> bool {
    disposition(signal).is_some_and(|now| now.sa_sigaction == libc::SIG_IGN)
}

/// Resets an ignored SIGCHLD to its default: otherwise the kernel would reap the children itself,
/// and their exit codes would be lost (wait(2)). Call it before starting programs.
pub fn unignore_children() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: the default action runs no code of this process.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Signals that can be polled and read. While the value lives, they are blocked in the thread that
/// has made it; unread signals are dropped with it.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: SignalMask,
}

impl Signals {
    /// Blocks `signals` in this thread and in threads that it starts, and collects them. Signals of
    /// [`IGNORABLE`] that this process ignores stay ignored, as the kernel would keep blocked ones.
    pub fn new(signals: &[i32]) -> io::Result<Signals> {
        let is_wanted = |signal: &i32| !(IGNORABLE.contains(signal) && is_ignored(*signal));
        let set = mask_of(&signals.iter().copied().filter(is_wanted).collect::<Vec<_>>());
        let before = set_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: `set` is valid; -1 requests a new descriptor, which is owned here.
        let fd = unsafe {
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                let error = io::Error::last_os_error();
                set_mask(libc::SIG_SETMASK, &before.0)?;
                return Err(error);
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Signals { fd, before })
    }

    /// The mask from before; pass it to started programs.
    pub fn before(&self) -> &SignalMask {
        &self.before
    }

    /// Reads the next signal; `None` if no signal is pending.
    pub fn next(&self) -> io::Result<Option<i32>> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut info) {
            Ok(n) if n == info.len() => {
                // The first field of signalfd_siginfo is ssi_signo, a u32 (signalfd(2)).
                Ok(Some(u32::from_ne_bytes([info[0], info[1], info[2], info[3]]).cast_signed()))
            }
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // An unread signal must not end this process now, such as a SIGXFSZ whose write error was
        // handled.
        while let Ok(Some(_)) = self.next() {}
        // A valid mask cannot fail.
        let _ = set_mask(libc::SIG_SETMASK, &self.before.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_can_be_read_and_the_mask_comes_back() {
        let signals = Signals::new(&[libc::SIGUSR1]).unwrap();
        assert_eq!(signals.next().unwrap(), None);
        // SAFETY: sends a signal, blocked here, to this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        assert_eq!(signals.next().unwrap(), Some(libc::SIGUSR1));
        drop(signals);
        let now = set_mask(libc::SIG_BLOCK, &mask_of(&[])).unwrap();
        // SAFETY: reads from a valid set.
        assert_eq!(unsafe { libc::sigismember(&now.0, libc::SIGUSR1) }, 0);
    }

    /// Nextest runs each test in its own process; no other test here uses these signals.
    #[test]
    fn ignored_signals_stay_ignored_except_sigchld() {
        let ignore = |signal| {
            // SAFETY: SIG_IGN runs no code of this process.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        };
        ignore(libc::SIGHUP);
        let signals = Signals::new(&[libc::SIGHUP, libc::SIGQUIT]).unwrap();
        for signal in [libc::SIGHUP, libc::SIGQUIT] {
            // SAFETY: sends a signal, ignored or blocked here, to this thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        }
        assert_eq!(signals.next().unwrap(), Some(libc::SIGQUIT));
        assert_eq!(signals.next().unwrap(), None);
        ignore(libc::SIGCHLD);
        unignore_children();
        assert!(!is_ignored(libc::SIGCHLD) && is_ignored(libc::SIGHUP));
        // SAFETY: the default action from before.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    }
}
