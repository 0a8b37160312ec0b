//! The pair of memory barriers between a process that sleeps and a process that wakes it.
//!
//! Both sides of a wake-up store to one word and then load from another: the sleeper announces its
//! sleep and then checks for messages; the sender publishes a message and then checks for a
//! sleeper. At least one of them must see the store of the other, which needs a full barrier
//! between store and load *on both sides*. Messages are frequent and sleeps are rare, so the
//! sleeper pays for both sides: its `membarrier` system call makes the kernel run a barrier on each
//! processor that executes a registered process. The sender then needs only an order for the
//! compiler.
//!
//! Rules
//! 1. For a *light* barrier of a protocol, the frequent side calls [`BarrierKind::light`] between
//!    its store and its load.
//! 2. For a *heavy* barrier, the rare side calls [`BarrierKind::heavy`] between its store and its
//!    load.
//! 3. The boot records of a node's segments say [`BarrierKind::Asymmetric`] or
//!    [`BarrierKind::Symmetric`] for all its processes. [`BarrierKind::Unregistered`] may be mixed
//!    with either.
//! 4. A process registers ([`start`]) before it maps a peer's segment.
//! 5. An unregistered process does a real fence on its light side, so it can always wake others.
//!    Its heavy side does not affect the light sides of others, so it may sleep only for a limited
//!    time.
//!
//! The symmetric kind is better if there are more ranks than cores: then ranks sleep often, and
//! each membarrier interrupts all processors.

use crate::sync::{Ordering, fence};

/// The barriers that this process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// Light is an order to the compiler, heavy is `membarrier(GLOBAL_EXPEDITED)`.
    Asymmetric,
    /// Both are a sequentially consistent fence.
    Symmetric,
    /// The node is asymmetric but the kernel refused to register this process (rule 5).
    Unregistered,
}

impl BarrierKind {
    /// The barrier of the frequent side: nearly free if asymmetric, else some nanoseconds.
    #[inline(always)]
    pub fn light(self) {
        #[cfg(not(loom))]
        if self == BarrierKind::Asymmetric {
            crate::sync::compiler_fence(Ordering::SeqCst);
            return;
        }
        fence(Ordering::SeqCst);
    }

    /// The barrier of the rare side: some microseconds if asymmetric.
    #[cold]
    pub fn heavy(self) {
        fence(Ordering::SeqCst);
        #[cfg(not(loom))]
        if self == BarrierKind::Asymmetric {
            kernel::membarrier(kernel::GLOBAL_EXPEDITED)
                .expect("membarrier(GLOBAL_EXPEDITED) failed after its registration had succeeded");
        }
    }
}

/// Registers this process with the kernel if the node is `asymmetric`, and returns the kind that
/// this process uses from now on. The registration survives a fork and ends with an exec.
#[cfg(not(loom))]
pub fn start(asymmetric: bool) -> BarrierKind {
    if !asymmetric {
        BarrierKind::Symmetric
    } else if kernel::membarrier(kernel::REGISTER_GLOBAL_EXPEDITED).is_ok() {
        BarrierKind::Asymmetric
    } else {
        BarrierKind::Unregistered
    }
}

/// Whether this kernel has the asymmetric barrier.
#[cfg(not(loom))]
pub fn asymmetric_is_available() -> bool {
    kernel::membarrier(kernel::QUERY).is_ok_and(|known| known & kernel::GLOBAL_EXPEDITED != 0)
}

#[cfg(not(loom))]
mod kernel {
    //! membarrier(2).
    use std::{ffi::c_int, io};

    pub(super) const QUERY: c_int = 0;
    pub(super) const GLOBAL_EXPEDITED: c_int = 1 << 1;
    pub(super) const REGISTER_GLOBAL_EXPEDITED: c_int = 1 << 2;

    pub(super) fn membarrier(command: c_int) -> io::Result<c_int> {
        // SAFETY: the call takes three integers and touches no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
    }
}
