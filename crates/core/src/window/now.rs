//! The straight lines: accesses to memory that is mapped here, and the calls around them, where nothing has to be waited for,
//! asked or woken. `false` or `None`: it is not like that, or something is wrong; nothing was done then, and the full way
//! does it or says why not.
//!
//! What orders the stores of a put before what follows a flush is a fence, which costs as much as the rest of a short put. So it
//! is run only if there were stores since the last one ([`Window::has_stored`]): not behind gets, and not behind atomic
//! instructions, which order all by themselves on the processors of [`RMW_IS_FENCE`].

use super::control::Control;
use super::epoch::{CLOSED, FENCE, HELD_EXCLUSIVE, HELD_SHARED, LOCKED, LOOK_EVERY, SHUT};
use super::{Target, Window};
use crate::Process;
use oxmpi_fabric::Fabric;
use oxmpi_mem::atomics::{Accumulator, Instruction, compare_and_swap};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::atomic::{Ordering, fence};

/// Whether an atomic read-modify-write instruction orders all accesses before it before all that follow (Intel 64 and IA-32
/// Architectures Software Developer's Manual, volume 3, "Memory Ordering": locked instructions).
const RMW_IS_FENCE: bool = cfg!(target_arch = "x86_64");

impl Window {
    /// The `len` bytes at a displacement, if the target is mapped, may be accessed and exposes them all.
    #[inline(always)]
    fn bytes_now(&self, rank: i32, disp: i64, len: usize) -> Option<(BytesMut<'_>, &Control)> {
        let target = self.targets.get(rank as usize)?;
        let near = target.near.get()?;
        let offset = disp.checked_mul(target.disp_unit)?;
        let bytes = near.memory.as_ref()?.bytes(offset as usize, len)?;
        let control = near.control.as_ref()?;
        (!target.is_gone() && self.may_access(target)).then_some((bytes, control))
    }

    /// As [`Window::bytes_now`], to be changed. In a window with words that only an adapter changes each element takes the full way.
    #[inline(always)]
    fn elements_now(&self, rank: i32, disp: i64, len: usize) -> Option<(BytesMut<'_>, &Control)> {
        if self.words_are_the_adapters { None } else { self.bytes_now(rank, disp, len) }
    }

    /// Notes that mapped memory was stored to. Release: the note is not seen before what was stored.
    #[inline(always)]
    pub(super) fn has_stored(&self) {
        self.stored.store(true, Ordering::Release);
    }

    /// Orders what was stored to mapped memory before all that follows.
    #[inline(always)]
    pub(super) fn order_stores(&self) {
        if !RMW_IS_FENCE || self.stored.load(Ordering::Relaxed) {
            self.stored.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// A target whose lock is a word in shared memory, and that word, if the target is not this process.
    #[inline(always)]
    fn locked_by_word(&self, rank: i32) -> Option<(&Target, &Control)> {
        let target = self.targets.get(rank as usize)?;
        let near = target.near.get()?;
        // Own locks are asked for by messages as well; words wake only those who have a bell.
        near.bell.as_ref()?;
        Some((target, near.control.as_ref()?))
    }

    /// Counts a call that needs no look at anything. Whether one is due all the same: programs wait in loops around such calls.
    /// Whether one thread more or less counts does not matter.
    #[inline(always)]
    pub(super) fn is_look_due(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        calls.is_multiple_of(LOOK_EVERY)
    }
}

impl<F: Fabric> Process<F> {
    /// Puts bytes that lie in one piece (MPI_Put).
    #[inline(always)]
    pub fn put_now(&self, window: &Window, bytes: Bytes<'_>, rank: i32, disp: i64) -> bool {
        match window.bytes_now(rank, disp, bytes.len()) {
            Some((target, _)) => {
                bytes.copy_to(target);
                window.has_stored();
                true
            }
            None => false,
        }
    }

    /// Gets as many bytes as `into` has (MPI_Get).
    #[inline(always)]
    pub fn get_now(&self, window: &Window, into: BytesMut<'_>, rank: i32, disp: i64) -> bool {
        match window.bytes_now(rank, disp, into.len()) {
            Some((target, _)) => {
                target.as_bytes().copy_to(into);
                true
            }
            None => false,
        }
    }

    /// Changes one integer, and tells the value from before (MPI_Fetch_and_op).
    #[inline(always)]
    pub fn fetch_word_now(
        &self,
        window: &Window,
        instruction: Instruction,
        operand: Bytes<'_>,
        old: BytesMut<'_>,
        (rank, disp): (i32, i64),
    ) -> bool {
        match window.elements_now(rank, disp, old.len()) {
            Some((target, _)) => instruction.apply(operand, target, old),
            None => false,
        }
    }

    /// Accumulates to one element without padding, and tells the value from before (MPI_Fetch_and_op).
    #[inline(always)]
    pub fn fetch_now(
        &self,
        window: &Window,
        accumulator: &Accumulator,
        operand: Bytes<'_>,
        old: BytesMut<'_>,
        (rank, disp): (i32, i64),
    ) -> bool {
        match window.elements_now(rank, disp, old.len()) {
            Some((target, control)) => {
                accumulator.apply(operand, target, Some(old), || self.hold_elements(window, control));
                window.has_stored();
                true
            }
            None => false,
        }
    }

    /// Compares one element and swaps it (MPI_Compare_and_swap).
    #[inline(always)]
    pub fn swap_now(
        &self,
        window: &Window,
        (new, compare): (Bytes<'_>, Bytes<'_>),
        old: BytesMut<'_>,
        (rank, disp): (i32, i64),
    ) -> bool {
        match window.elements_now(rank, disp, old.len()) {
            Some((target, control)) => {
                compare_and_swap(new, compare, target, old, || self.hold_elements(window, control));
                window.has_stored();
                true
            }
            None => false,
        }
    }

    /// Completes the accesses to a locked target (MPI_Win_flush, MPI_Win_flush_local). Whether
    /// [`Process::look_now_and_then`] is due.
    #[inline(always)]
    pub fn flush_now(&self, window: &Window, rank: i32) -> Option<bool> {
        let target = window.targets.get(rank as usize)?;
        if !window.is_locked(target) || !target.is_complete() {
            return None;
        }
        window.order_stores();
        Some(window.is_look_due())
    }

    /// Locks a target of which nobody has the lock, in a process with one thread (MPI_Win_lock without an assertion).
    #[inline(always)]
    pub fn lock_now(&self, window: &Window, exclusive: bool, rank: i32) -> bool {
        let Some((target, control)) = window.locked_by_word(rank) else { return false };
        let mode = window.access.load(Ordering::Relaxed);
        if !matches!(mode, CLOSED | FENCE | LOCKED)
            || target.open.load(Ordering::Relaxed) != SHUT
            || target.is_gone()
        {
            return false;
        }
        // While it is held no other thread is here.
        let Some(_only) = self.domain.home() else { return false };
        if !control.lock_if_free(exclusive, window.rank()) {
            return false;
        }
        window.locks.store(window.locks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        target.open.store(if exclusive { HELD_EXCLUSIVE } else { HELD_SHARED }, Ordering::Release);
        window.access.store(LOCKED, Ordering::Relaxed);
        true
    }

    /// Completes the accesses to a target and unlocks it, in a process with one thread (MPI_Win_unlock). Whether
    /// [`Process::look_now_and_then`] is due.
    #[inline(always)]
    pub fn unlock_now(&self, window: &Window, rank: i32) -> Option<bool> {
        let (target, control) = window.locked_by_word(rank)?;
        let held = target.open.load(Ordering::Relaxed);
        if window.access.load(Ordering::Relaxed) != LOCKED
            || !matches!(held, HELD_SHARED | HELD_EXCLUSIVE)
            || !target.is_complete()
        {
            return None;
        }
        let only = self.domain.home()?;
        if RMW_IS_FENCE {
            // What unlocks is a fence.
            window.stored.store(false, Ordering::Relaxed);
        } else {
            window.order_stores();
        }
        let wakes = control.unlock(held == HELD_EXCLUSIVE, window.rank());
        target.open.store(SHUT, Ordering::Relaxed);
        let locks = window.locks.load(Ordering::Relaxed) - 1;
        window.locks.store(locks, Ordering::Relaxed);
        if locks == 0 {
            window.access.store(CLOSED, Ordering::Relaxed);
        }
        drop(only);
        if wakes {
            self.wake_lockers(window, control);
        }
        Some(window.is_look_due())
    }
}
