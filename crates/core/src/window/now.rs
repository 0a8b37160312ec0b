//! The fast path of accesses to mapped memory and of the calls around them. `false` or `None` means
//! that nothing happened; the caller then uses the full call.
//!
//! A fence orders the stores of a put before the accesses after a flush. It costs as much as the
//! rest of a short put, so it runs only after stores, and not after an atomic instruction on the
//! processors of [`RMW_IS_FENCE`].

use super::control::ControlWords;
use super::epoch::{CLOSED, FENCE, HELD_EXCLUSIVE, HELD_SHARED, LOCKED, LOOK_EVERY, SHUT};
use super::{Target, Window};
use crate::Process;
use oxmpi_fabric::Fabric;
use oxmpi_mem::atomics::{Accumulator, Instruction, compare_and_swap};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::atomic::{Ordering, fence};

/// Whether an atomic read-modify-write instruction orders all earlier accesses before all later
/// ones (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, "Memory Ordering":
/// locked instructions).
const RMW_IS_FENCE: bool = cfg!(target_arch = "x86_64");

impl Window {
    /// The bytes if this process has mapped them and an epoch is open to the target.
    #[inline(always)]
    fn bytes_now(&self, rank: i32, disp: i64, len: usize) -> Option<(BytesMut<'_>, &ControlWords)> {
        let target = self.targets.get(rank as usize)?;
        let routes = target.routes.get()?;
        let offset = disp.checked_mul(target.disp_unit)?;
        let bytes = routes.memory.as_ref()?.bytes(offset as usize, len)?;
        let control = routes.control.as_ref()?;
        (!target.is_gone() && self.may_access(target)).then_some((bytes, control))
    }

    /// [`Window::bytes_now`] for accumulates; `None` if only the adapter may change some words.
    #[inline(always)]
    fn elements_now(
        &self,
        rank: i32,
        disp: i64,
        len: usize,
    ) -> Option<(BytesMut<'_>, &ControlWords)> {
        if self.adapter_owns_words { None } else { self.bytes_now(rank, disp, len) }
    }

    /// Notes a store to mapped memory. Release, so that a thread that sees the note sees the store.
    #[inline(always)]
    pub(super) fn has_stored(&self) {
        self.stored.store(true, Ordering::Release);
    }

    /// Orders earlier stores to mapped memory before all later accesses.
    #[inline(always)]
    pub(super) fn order_stores(&self) {
        if !RMW_IS_FENCE || self.stored.load(Ordering::Relaxed) {
            self.stored.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// Another target and its control words, if its lock is a word in shared memory.
    #[inline(always)]
    fn locked_by_word(&self, rank: i32) -> Option<(&Target, &ControlWords)> {
        let target = self.targets.get(rank as usize)?;
        let routes = target.routes.get()?;
        // A word wakes only a process with a bell. This process has no bell here: other ranks may
        // request its lock by messages.
        routes.bell.as_ref()?;
        Some((target, routes.control.as_ref()?))
    }

    /// Counts a call without progress. Returns whether this call should make progress. A count that
    /// another thread overwrites does no harm.
    #[inline(always)]
    pub(super) fn is_look_due(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        calls.is_multiple_of(LOOK_EVERY)
    }
}

impl<F: Fabric> Process<F> {
    /// MPI_Put of contiguous bytes.
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

    /// MPI_Get of `into.len()` contiguous bytes.
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

    /// Changes one integer; `old` gets its value from before (MPI_Fetch_and_op).
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

    /// Changes one element without padding; `old` gets its value from before (MPI_Fetch_and_op).
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
                accumulator
                    .apply(operand, target, Some(old), || self.hold_elements(window, control));
                window.has_stored();
                true
            }
            None => false,
        }
    }

    /// MPI_Compare_and_swap of one element.
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

    /// MPI_Win_flush, MPI_Win_flush_local. Returns whether [`Process::look_now_and_then`] is due.
    #[inline(always)]
    pub fn flush_now(&self, window: &Window, rank: i32) -> Option<bool> {
        let target = window.targets.get(rank as usize)?;
        if !window.is_locked(target) || !target.is_complete() {
            return None;
        }
        window.order_stores();
        Some(window.is_look_due())
    }

    /// Takes a free lock, in a process with one thread (MPI_Win_lock without an assertion).
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
        // This guard keeps other threads out.
        let Some(_only) = self.domain.home() else { return false };
        if !control.lock_if_free(exclusive, window.rank()) {
            return false;
        }
        window.locks.store(window.locks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        target.open.store(if exclusive { HELD_EXCLUSIVE } else { HELD_SHARED }, Ordering::Release);
        window.access.store(LOCKED, Ordering::Relaxed);
        true
    }

    /// Unlocks in a process with one thread (MPI_Win_unlock). Returns whether
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
            // The instruction that unlocks is a fence.
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
