//! Reads and restores the signal handling of a process and of a thread.

use std::ffi::c_int;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

const LAST: c_int = 64;
const KNOWN: usize = LAST as usize / 8;

pub(super) struct Dispositions(Vec<(c_int, libc::sigaction)>);

impl Dispositions {
    pub(super) fn read() -> Dispositions {
        // The C library refuses the signals that it uses itself; they are left out.
        Dispositions((1..=LAST).filter_map(|signal| Some((signal, disposition(signal)?))).collect())
    }

    pub(super) fn restore(&self) {
        for (signal, before) in &self.0 {
            if disposition(*signal).is_some_and(|now| !is_same(&now, before)) {
                // SAFETY: this was the disposition of the signal, so its handler is code of the
                // program, or none.
                unsafe { libc::sigaction(*signal, before, null_mut()) };
            }
        }
    }
}

pub(crate) fn disposition(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: zeros are valid for this structure of numbers; the call only fills it.
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
    // SAFETY: a mask is an array of numbers of at least `KNOWN` bytes.
    let bytes =
        |mask: &libc::sigset_t| unsafe { std::ptr::from_ref(mask).cast::<[u8; KNOWN]>().read() };
    bytes(one) == bytes(other)
}

pub(super) struct ThreadSignals {
    mask: libc::sigset_t,
    stack: libc::stack_t,
}

impl ThreadSignals {
    pub(super) fn read() -> ThreadSignals {
        // SAFETY: zeros are valid for both structures; the calls only fill them, and the address in
        // one of them is only handed back to the kernel.
        unsafe {
            let mut it: ThreadSignals = zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, null(), &mut it.mask);
            libc::sigaltstack(null(), &mut it.stack);
            it
        }
    }

    /// Restores the mask and the stack if they have changed, in the thread that has read them.
    pub(super) fn restore(&self) {
        let now = ThreadSignals::read();
        if !is_same_mask(&now.mask, &self.mask) {
            // SAFETY: this was the mask of this thread.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, null_mut()) };
        }
        let parts = |stack: &libc::stack_t| (stack.ss_sp, stack.ss_size, stack.ss_flags);
        if parts(&now.stack) != parts(&self.stack) {
            // The kernel sets SS_ONSTACK while the thread runs on the stack, but refuses it here.
            let stack =
                libc::stack_t { ss_flags: self.stack.ss_flags & !libc::SS_ONSTACK, ..self.stack };
            // SAFETY: this was the thread's signal stack, or the thread had none. The kernel
            // refuses the change while the thread runs on its signal stack.
            unsafe { libc::sigaltstack(&stack, null_mut()) };
        }
    }
}
