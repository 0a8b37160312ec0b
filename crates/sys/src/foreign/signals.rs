//! How a process and a thread take signals, and how that is put back.

use std::ffi::c_int;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

/// The last signal of Linux.
const LAST: c_int = 64;
/// Bytes of a signal mask that the kernel knows.
const KNOWN: usize = LAST as usize / 8;

/// What the process does about each signal.
pub(super) struct Dispositions(Vec<(c_int, libc::sigaction)>);

impl Dispositions {
    /// Asks the kernel, one call for each signal.
    pub(super) fn read() -> Dispositions {
        // The C library refuses the signals that it keeps for itself.
        Dispositions((1..=LAST).filter_map(|signal| Some((signal, disposition(signal)?))).collect())
    }

    /// Puts back each that is another one now.
    pub(super) fn restore(&self) {
        for (signal, before) in &self.0 {
            if disposition(*signal).is_some_and(|now| !is_same(&now, before)) {
                // SAFETY: it was the disposition of this signal, so its handler is code of the
                // program, or none.
                unsafe { libc::sigaction(*signal, before, null_mut()) };
            }
        }
    }
}

fn disposition(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: a structure of numbers, for which zeros are values; the call fills it, and changes
    // nothing.
    unsafe {
        let mut now: libc::sigaction = zeroed();
        (libc::sigaction(signal, null(), &mut now) == 0).then_some(now)
    }
}

fn is_same(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && is_same_mask(&one.sa_mask, &other.sa_mask)
}

fn is_same_mask(one: &libc::sigset_t, other: &libc::sigset_t) -> bool {
    // SAFETY: a mask is an array of numbers, and has more bytes than these.
    let bytes = |mask: &libc::sigset_t| unsafe { std::ptr::from_ref(mask).cast::<[u8; KNOWN]>().read() };
    bytes(one) == bytes(other)
}

/// Which signals a thread blocks, and on which stack its handlers run.
pub(super) struct ThreadSignals {
    mask: libc::sigset_t,
    stack: libc::stack_t,
}

impl ThreadSignals {
    /// Those of this thread.
    pub(super) fn read() -> ThreadSignals {
        // SAFETY: structures of numbers and of an address that is only handed back; the calls fill
        // them, and change nothing.
        unsafe {
            let mut it: ThreadSignals = zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, null(), &mut it.mask);
            libc::sigaltstack(null(), &mut it.stack);
            it
        }
    }

    /// Puts back what is another one now. In the thread in which it was read.
    pub(super) fn restore(&self) {
        let now = ThreadSignals::read();
        if !is_same_mask(&now.mask, &self.mask) {
            // SAFETY: it was the mask of this thread.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, null_mut()) };
        }
        let parts = |stack: &libc::stack_t| (stack.ss_sp, stack.ss_size, stack.ss_flags);
        if parts(&now.stack) != parts(&self.stack) {
            // The kernel says by this flag that the thread runs on it; nobody may say so.
            let stack = libc::stack_t { ss_flags: self.stack.ss_flags & !libc::SS_ONSTACK, ..self.stack };
            // SAFETY: it was this thread's stack for handlers, or there was none. A thread that
            // runs on one keeps it.
            unsafe { libc::sigaltstack(&stack, null_mut()) };
        }
    }
}
