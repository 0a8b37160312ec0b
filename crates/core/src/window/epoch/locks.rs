//! Passive target synchronization: locks and flushes (MPI-5.0 sections 12.5.3 and 12.5.4).

use super::{
    CLOSED, COMING, HELD_EXCLUSIVE, HELD_SHARED, LOCKED, LOCKED_ALL, OPEN, SHUT, STARTED,
    UNCHECKED, check_assert, open_access, sync,
};
use crate::Process;
use crate::process::Domain;
use crate::wait_reason::Reason;
use crate::window::control::ControlWords;
use crate::window::message::RmaMessage;
use crate::window::{Target, Window, locked};
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_rt_client::waiting::Need;
use std::sync::atomic::{Ordering, fence};

/// The type of a lock (MPI_Win_lock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockType {
    Exclusive,
    Shared,
}

/// The reason of a wait for the lock of a rank on another node. Only that rank knows the holders.
fn lock_at(rank: u32) -> (&'static str, Need, u32) {
    ("to grant the lock, which others hold, of its part of", Need::Attention, rank)
}

impl<F: Fabric> Process<F> {
    fn acquire(&self, window: &Window, rank: u32, exclusive: bool) -> Result<()> {
        self.check_target(window, rank)?;
        let routes = self.routes(window, &window.targets[rank as usize]);
        let own = window.rank();
        if let Some(control) = self.is_reached_by_words(window, rank, routes) {
            if control.try_lock(exclusive, own, own) {
                return Ok(());
            }
            let reason = |_: &Domain<F>| {
                let mut holders: Vec<u32> =
                    window.count().filter(|rank| control.is_held_by(*rank)).collect();
                holders.iter_mut().for_each(|rank| {
                    *rank = window.comm.team.map.process(*rank).unwrap_or(*rank);
                });
                let kind = if exclusive { "exclusive" } else { "shared" };
                let text = format!(
                    "to give up the lock of rank {rank} of {} ({kind} wanted)",
                    window.words()
                );
                Reason::new(text, Need::All, holders)
            };
            return self.wait_for_word(
                window,
                &reason,
                || control.try_lock(exclusive, own, own),
                |lost| lost == rank || control.is_held_by(lost),
            );
        }
        self.with_service(window, |service, lane| {
            service.send_message(lane, rank, &RmaMessage::Lock { exclusive })
        })?;
        self.wait_for_service(window, lock_at(rank), |service, lane| service.take_grant(lane, rank))
    }

    fn release(&self, window: &Window, rank: u32, exclusive: bool) -> Result<()> {
        let target = &window.targets[rank as usize];
        let routes = self.routes(window, target);
        if let Some(control) = self.is_reached_by_words(window, rank, routes) {
            let complete = self.complete_target(window, rank);
            if control.unlock(exclusive, window.rank()) {
                self.wake_lockers(window, control);
            }
            if window.is_own(rank) {
                self.grant_others(window);
            }
            self.look_sometimes(window);
            return complete;
        }
        fence(Ordering::SeqCst);
        // The next holder of the lock must see the puts of this process, so they end first.
        let accessed = self.finish_accesses(window, rank);
        let flush = self.send_flush(window, rank, Some(exclusive))?;
        self.finish_flush(window, flush).and(accessed)
    }

    #[cold]
    pub(in crate::window) fn wake_lockers(&self, window: &Window, control: &ControlWords) {
        for waiter in control.take_waiters() {
            self.ring(window, waiter);
        }
    }

    #[inline]
    fn grant_others(&self, window: &Window) {
        let near_all = window.targets.iter().all(|target| {
            target.routes.get().is_some_and(|routes| routes.bell.is_some())
                || target.process == self.rank
        });
        if !near_all {
            let _ = self.with_service(window, |service, lane| {
                service.grant(lane);
                Ok(())
            });
        }
    }

    /// MPI_Win_lock.
    pub fn lock_window(
        &self,
        window: &Window,
        kind: LockType,
        rank: i32,
        assert: i32,
    ) -> Result<()> {
        check_assert(assert, abi::MPI_MODE_NOCHECK, "MPI_Win_lock")?;
        if rank == abi::MPI_PROC_NULL {
            return Ok(());
        }
        let target = window.target(rank)?;
        {
            let _epochs = locked(&window.epochs);
            match window.access.load(Ordering::Relaxed) {
                LOCKED if target.open.load(Ordering::Relaxed) != SHUT => {
                    return Err(sync(format!("rank {rank} is locked already by this process")));
                }
                LOCKED => {}
                _ => window.check_closed("MPI_Win_lock")?,
            }
            window.locks.fetch_add(1, Ordering::Relaxed);
            target.open.store(COMING, Ordering::Relaxed);
            window.set_access(LOCKED);
        }
        let exclusive = kind == LockType::Exclusive;
        let unchecked = assert & abi::MPI_MODE_NOCHECK != 0;
        let acquired = match unchecked {
            true => self.check_target(window, rank as u32),
            false => self.acquire(window, rank as u32, exclusive),
        };
        match acquired {
            Ok(()) => {
                let held = if exclusive { HELD_EXCLUSIVE } else { HELD_SHARED };
                target.open.store(held | if unchecked { UNCHECKED } else { 0 }, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                self.shut(window, target);
                Err(error)
            }
        }
    }

    fn shut(&self, window: &Window, target: &Target) {
        let _epochs = locked(&window.epochs);
        target.open.store(SHUT, Ordering::Relaxed);
        if window.locks.fetch_sub(1, Ordering::Relaxed) == 1 {
            window.set_access(CLOSED);
        }
    }

    /// Completes the accesses to a target, and unlocks it (MPI_Win_unlock).
    pub fn unlock_window(&self, window: &Window, rank: i32) -> Result<()> {
        if rank == abi::MPI_PROC_NULL {
            return Ok(());
        }
        let target = window.target(rank)?;
        let held = target.open.load(Ordering::Relaxed);
        if window.access.load(Ordering::Relaxed) != LOCKED || held & OPEN == 0 {
            return Err(sync(format!(
                "MPI_Win_unlock of rank {rank}, which MPI_Win_lock has not locked"
            )));
        }
        let released = if held & UNCHECKED != 0 {
            self.look_sometimes(window);
            self.complete_target(window, rank as u32)
        } else {
            self.release(window, rank as u32, held & HELD_EXCLUSIVE == HELD_EXCLUSIVE)
        };
        self.shut(window, target);
        released
    }

    /// MPI_Win_lock_all.
    pub fn lock_all_window(&self, window: &Window, assert: i32) -> Result<()> {
        check_assert(assert, abi::MPI_MODE_NOCHECK, "MPI_Win_lock_all")?;
        {
            let _epochs = locked(&window.epochs);
            window.check_closed("MPI_Win_lock_all")?;
            // No access is allowed before all locks are granted.
            window.locks.store(u32::from(assert & abi::MPI_MODE_NOCHECK == 0), Ordering::Relaxed);
            window.set_access(STARTED);
        }
        if assert & abi::MPI_MODE_NOCHECK == 0 {
            // The grants by messages come while this process takes the locks in shared memory.
            let far = |rank: &u32| {
                let routes = self.routes(window, &window.targets[*rank as usize]);
                self.is_reached_by_words(window, *rank, routes).is_none()
            };
            let far: Vec<u32> = window.count().filter(far).collect();
            for &rank in &far {
                let message = RmaMessage::Lock { exclusive: false };
                // After an error here, the wait for the grant returns the error.
                let _ = self.with_service(window, |service, lane| {
                    service.send_message(lane, rank, &message)
                });
            }
            let mut outcome = Ok(());
            let mut missing = Vec::new();
            for rank in window.count() {
                let acquired = match far.contains(&rank) {
                    true => self.wait_for_service(window, lock_at(rank), |service, lane| {
                        service.take_grant(lane, rank)
                    }),
                    false => self.acquire(window, rank, false),
                };
                if acquired.is_err() {
                    missing.push(rank);
                    outcome = outcome.and(acquired);
                }
            }
            if outcome.is_err() {
                for rank in window.count().filter(|rank| !missing.contains(rank)) {
                    let _ = self.release(window, rank, false);
                }
                window.locks.store(0, Ordering::Relaxed);
                window.set_access(CLOSED);
                return outcome;
            }
        }
        window.set_access(LOCKED_ALL);
        Ok(())
    }

    /// Completes all accesses, and unlocks all targets (MPI_Win_unlock_all).
    pub fn unlock_all_window(&self, window: &Window) -> Result<()> {
        let checked = {
            let _epochs = locked(&window.epochs);
            match window.access.load(Ordering::Relaxed) {
                LOCKED_ALL => window.locks.swap(0, Ordering::Relaxed) > 0,
                mode => {
                    let text = format!(
                        "MPI_Win_unlock_all without MPI_Win_lock_all: {}",
                        open_access(mode)
                    );
                    return Err(sync(text));
                }
            }
        };
        let mut outcome = self.complete_all(window, |_| true);
        if checked {
            for rank in window.count() {
                outcome = outcome.and(self.release(window, rank, false));
            }
        }
        self.look_sometimes(window);
        window.set_access(CLOSED);
        outcome
    }

    /// Completes the accesses to a locked target (MPI_Win_flush, MPI_Win_flush_local).
    ///
    /// Errors: MPI_ERR_RMA_RANGE if the target does not expose accessed memory; MPI_ERR_RANK;
    /// MPI_ERR_RMA_SYNC if the target is not locked.
    #[inline]
    pub fn flush_window(&self, window: &Window, rank: i32) -> Result<()> {
        if rank == abi::MPI_PROC_NULL {
            return window.check_passive();
        }
        let target = window.target(rank)?;
        if !window.is_locked(target) {
            return Err(window.not_locked(rank));
        }
        if !target.is_complete() {
            return self.complete_target(window, rank as u32);
        }
        // The fence orders the stores, as in [`Process::complete_target`].
        window.order_stores();
        self.look_sometimes(window);
        Ok(())
    }

    /// Completes the accesses to all locked targets (MPI_Win_flush_all, MPI_Win_flush_local_all).
    pub fn flush_all_window(&self, window: &Window) -> Result<()> {
        window.check_passive()?;
        self.look_sometimes(window);
        self.complete_all(window, |target| window.is_locked(target))
    }
}
