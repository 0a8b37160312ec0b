//! Epochs: what allows accesses, and when they are complete (MPI-5.0 section 12.5).

use super::message::Message;
use super::{Near, Service, Target, Window, locked};
use crate::Process;
use crate::errors::of_fault;
use crate::process::Domain;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_plan::Call;
use std::borrow::Cow;
use std::sync::atomic::{Ordering, fence};

/// How a target is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockType {
    /// By this process alone (MPI_LOCK_EXCLUSIVE).
    Exclusive,
    /// Together with others (MPI_LOCK_SHARED).
    Shared,
}

/// What the access word of a window says: no access is allowed.
pub(super) const CLOSED: u32 = 0;
/// A fence allows accesses to all; there was none yet, so that the fence has perhaps begun nothing.
pub(super) const FENCE: u32 = 1;
/// A fence allows accesses to all, and there were some.
pub(super) const FENCED: u32 = 2;
/// All targets are locked.
pub(super) const LOCKED_ALL: u32 = 3;
/// Some targets are locked, and say so themselves.
pub(super) const LOCKED: u32 = 4;
/// MPI_Win_start allows accesses to some targets, which say so themselves.
pub(super) const STARTED: u32 = 5;

/// What the word of a target says: it is not open by itself.
pub(super) const SHUT: u32 = 0;
/// A lock is being waited for.
const COMING: u32 = 1;
/// It is open; a lock of both kinds has more bits.
pub(super) const OPEN: u32 = 2;
const HELD_SHARED: u32 = OPEN | 4;
const HELD_EXCLUSIVE: u32 = OPEN | 8;
/// The program has promised that nobody else locks it, so nobody was asked.
const UNCHECKED: u32 = 16;

/// How many calls that need no look at anything may follow each other without one.
const LOOK_EVERY: u32 = 32;

/// A target that was asked to say when all is done.
struct Flush {
    id: u64,
    rank: u32,
    /// How much had been asked of it.
    asked: u64,
}

/// What epochs of a window a process has, beside the words.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// How many targets are locked by themselves.
    locks: u32,
    /// The targets of MPI_Win_start.
    started: Vec<u32>,
    /// How many processes have access by MPI_Win_post.
    posted: Option<u32>,
    /// How many access epochs to this process have been taken note of.
    completed: u64,
}

fn sync(text: impl Into<Cow<'static, str>>) -> MpiError {
    MpiError::new(abi::MPI_ERR_RMA_SYNC, text)
}

/// Checks an assertion, which is a sum of bits.
fn check_assert(assert: i32, known: i32, function: &str) -> Result<()> {
    if assert & !known == 0 {
        return Ok(());
    }
    let text = format!("assert is {assert:#x}, of which {:#x} mean nothing to {function}", assert & !known);
    Err(MpiError::new(abi::MPI_ERR_ASSERT, text))
}

impl Epochs {
    /// Why the window cannot be freed now, if so.
    pub(super) fn open_epoch(&self, window: &Window) -> Option<MpiError> {
        let mode = window.access.load(Ordering::Relaxed);
        let epoch = match mode {
            _ if self.posted.is_some() => "an exposure epoch is open: call MPI_Win_wait",
            CLOSED | FENCE => return None,
            _ => open_access(mode),
        };
        Some(sync(format!("the window is freed while {epoch}")))
    }
}

/// What is open, and what ends it.
fn open_access(mode: u32) -> &'static str {
    match mode {
        LOCKED_ALL => "all targets are locked: call MPI_Win_unlock_all",
        LOCKED => "a target is locked: call MPI_Win_unlock",
        STARTED => "an access epoch of MPI_Win_start is open: call MPI_Win_complete",
        FENCED => "accesses since the last fence are not complete: call MPI_Win_fence",
        _ => "no access epoch is open",
    }
}

impl Target {
    /// Whether nothing that was asked by messages may be incomplete.
    #[inline(always)]
    fn is_complete(&self) -> bool {
        self.asked.load(Ordering::Relaxed) <= self.complete.load(Ordering::Relaxed)
    }
}

impl Window {
    fn set_access(&self, mode: u32) {
        self.access.store(mode, Ordering::Relaxed);
    }

    /// Whether an access epoch to a target is open.
    #[inline(always)]
    pub(super) fn may_access(&self, target: &Target) -> bool {
        match self.access.load(Ordering::Relaxed) {
            LOCKED | STARTED => target.open.load(Ordering::Relaxed) & OPEN != 0,
            FENCED | LOCKED_ALL => true,
            FENCE => {
                self.set_access(FENCED);
                true
            }
            _ => false,
        }
    }

    #[cold]
    pub(super) fn no_access(&self, rank: i32) -> MpiError {
        sync(format!(
            "no access epoch to rank {rank} is open: call MPI_Win_fence, MPI_Win_start, MPI_Win_lock or \
             MPI_Win_lock_all before"
        ))
    }

    /// Whether a target is locked.
    #[inline(always)]
    pub(super) fn is_locked(&self, target: &Target) -> bool {
        match self.access.load(Ordering::Relaxed) {
            LOCKED => target.open.load(Ordering::Relaxed) & OPEN != 0,
            LOCKED_ALL => true,
            _ => false,
        }
    }

    #[cold]
    pub(super) fn not_locked(&self, rank: i32) -> MpiError {
        sync(format!("rank {rank} is not locked: call MPI_Win_lock or MPI_Win_lock_all before"))
    }

    fn check_passive(&self) -> Result<()> {
        match self.access.load(Ordering::Relaxed) {
            LOCKED | LOCKED_ALL => Ok(()),
            _ => Err(sync("no target is locked: call MPI_Win_lock or MPI_Win_lock_all before")),
        }
    }

    /// Begins an epoch of locks or of MPI_Win_start.
    fn check_closed(&self, what: &str) -> Result<()> {
        match self.access.load(Ordering::Relaxed) {
            CLOSED | FENCE => Ok(()),
            mode => Err(sync(format!("{what} while {}", open_access(mode)))),
        }
    }

    fn count(&self) -> std::ops::Range<u32> {
        0..self.size()
    }
}

impl<F: Fabric> Process<F> {
    /// Does something with the service of a window and the lane.
    pub(super) fn with_service<R>(
        &self,
        window: &Window,
        f: impl FnOnce(&mut Service, &mut oxmpi_engine::Lane<F>) -> std::result::Result<R, Fault>,
    ) -> Result<R> {
        let context = window.comm.team.point_to_point;
        self.enter(|domain| {
            let Domain { lane, windows, .. } = domain;
            match windows.iter_mut().find(|service| service.context() == context) {
                Some(service) => f(service, lane).map_err(of_fault),
                None => Err(MpiError::new(abi::MPI_ERR_WIN, "the window was freed")),
            }
        })
    }

    /// Waits until the service of a window has an answer.
    fn wait_for_service<R>(
        &self,
        window: &Window,
        mut question: impl FnMut(
            &mut Service,
            &mut oxmpi_engine::Lane<F>,
        ) -> Option<std::result::Result<R, Fault>>,
    ) -> Result<R> {
        let context = window.comm.team.point_to_point;
        let answer = self.wait_for(|domain| {
            let Domain { lane, windows, .. } = domain;
            match windows.iter_mut().find(|service| service.context() == context) {
                Some(service) => question(service, lane),
                None => Some(Err(Fault::Closed)),
            }
        });
        answer.map_err(of_fault)
    }

    /// Whether words in shared memory reach this target, and wake it.
    fn is_reached_by_words<'n>(
        &self,
        window: &Window,
        rank: u32,
        near: &'n Near,
    ) -> Option<&'n super::Control> {
        near.control.as_ref().filter(|_| window.is_own(rank) || near.bell.is_some())
    }

    /// Wakes a rank that may wait for a word in shared memory.
    fn ring(&self, window: &Window, rank: u32) {
        if window.is_own(rank) {
            if let Some(door) = &self.door {
                door.ring_own();
            }
        } else if let Some(target) = window.targets.get(rank as usize)
            && let Some(bell) = &self.near(window, target).bell
        {
            bell.ring();
        }
    }

    /// Completes what was asked of a target, at the target.
    ///
    /// # Errors
    /// The target has failed, or exposes no memory where it was accessed.
    pub(super) fn complete_target(&self, window: &Window, rank: u32) -> Result<()> {
        // What was stored before is seen before whatever is loaded behind this.
        fence(Ordering::SeqCst);
        if window.targets[rank as usize].is_complete() {
            return Ok(());
        }
        let flush = self.ask_to_flush(window, rank, None)?;
        self.finish_flush(window, flush)
    }

    /// Asks a target to say when all from before is done.
    fn ask_to_flush(&self, window: &Window, rank: u32, unlock: Option<bool>) -> Result<Flush> {
        self.with_service(window, |service, lane| {
            let asked = window.targets[rank as usize].asked.load(Ordering::Relaxed);
            service.flush(lane, rank, unlock).map(|id| Flush { id, rank, asked })
        })
    }

    /// Waits until it says so.
    fn finish_flush(&self, window: &Window, flush: Flush) -> Result<()> {
        let done = self.wait_for_service(window, |service, lane| service.flushed(lane, flush.id));
        window.targets[flush.rank as usize].complete.fetch_max(flush.asked, Ordering::Relaxed);
        done
    }

    /// As [`Process::complete_target`], for all targets.
    fn complete_all(&self, window: &Window) -> Result<()> {
        fence(Ordering::SeqCst);
        if !window.far.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut flushes = Vec::new();
        let mut outcome = Ok(());
        for rank in window.count().filter(|rank| !window.targets[*rank as usize].is_complete()) {
            match self.ask_to_flush(window, rank, None) {
                Ok(flush) => flushes.push(flush),
                Err(error) => outcome = Err(error),
            }
        }
        for flush in flushes {
            outcome = outcome.and(self.finish_flush(window, flush));
        }
        outcome
    }

    /// MPI_Win_fence. Collective: who calls it wrongly takes part all the same.
    ///
    /// # Errors
    /// MPI_ERR_ASSERT; MPI_ERR_RMA_SYNC if there are locks, or epochs of MPI_Win_start or MPI_Win_post; a process has failed.
    pub fn fence_window(&self, window: &Window, assert: i32) -> Result<()> {
        const KNOWN: i32 =
            abi::MPI_MODE_NOSTORE | abi::MPI_MODE_NOPUT | abi::MPI_MODE_NOPRECEDE | abi::MPI_MODE_NOSUCCEED;
        let posted = locked(&window.epochs).posted.is_some();
        let right = match window.access.load(Ordering::Relaxed) {
            _ if posted => {
                Err(sync("MPI_Win_fence while an exposure epoch is open: call MPI_Win_wait before"))
            }
            CLOSED | FENCE => Ok(()),
            FENCED if assert & abi::MPI_MODE_NOPRECEDE != 0 => Err(MpiError::new(
                abi::MPI_ERR_ASSERT,
                "assert has MPI_MODE_NOPRECEDE, but there were accesses since the last fence",
            )),
            FENCED => Ok(()),
            mode => Err(sync(format!("MPI_Win_fence while {}", open_access(mode)))),
        };
        let right = check_assert(assert, KNOWN, "MPI_Win_fence").and(right);
        let complete = self.complete_all(window);
        let buffers = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        let met = self.run(&window.comm, Call::Barrier, buffers, Combine::Nothing);
        right.and(complete).and(met)?;
        let ends = assert & abi::MPI_MODE_NOSUCCEED != 0;
        window.set_access(if ends { CLOSED } else { FENCE });
        Ok(())
    }

    /// The ranks in the window of a group's processes.
    fn ranks_of(&self, window: &Window, group: &Group) -> Result<Vec<u32>> {
        let rank = |(at, process)| {
            window.comm.team.map.rank(process).ok_or_else(|| {
                let text = format!("the process with rank {at} in the group is not in the window's group");
                MpiError::new(abi::MPI_ERR_GROUP, text)
            })
        };
        group.processes().enumerate().map(rank).collect()
    }

    /// Tells a rank something that it waits for.
    fn signal(
        &self,
        window: &Window,
        rank: u32,
        word: impl FnOnce(&super::Control),
        message: &Message,
    ) -> Result<()> {
        let near = self.near(window, &window.targets[rank as usize]);
        match self.is_reached_by_words(window, rank, near) {
            Some(control) => {
                word(control);
                self.ring(window, rank);
                Ok(())
            }
            None => self.with_service(window, |service, lane| service.say(lane, rank, message)),
        }
    }

    /// Opens an access epoch to the processes of a group, when they have opened theirs to this one (MPI_Win_start).
    ///
    /// # Errors
    /// MPI_ERR_ASSERT, MPI_ERR_GROUP, MPI_ERR_RMA_SYNC.
    pub fn start_window(&self, window: &Window, group: &Group, assert: i32) -> Result<()> {
        check_assert(assert, abi::MPI_MODE_NOCHECK, "MPI_Win_start")?;
        let ranks = self.ranks_of(window, group)?;
        {
            let mut epochs = locked(&window.epochs);
            window.check_closed("MPI_Win_start")?;
            epochs.started.clone_from(&ranks);
            window.set_access(STARTED);
        }
        for rank in ranks {
            let target = &window.targets[rank as usize];
            // Also without a check: the signal is there, or as good as there.
            let next = target.posts_taken.fetch_add(1, Ordering::Relaxed) + 1;
            let control = &window.exposure.control;
            self.wait_for(|_| (control.posted(rank) >= next).then_some(()));
            target.open.store(OPEN, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends the access epoch of MPI_Win_start (MPI_Win_complete).
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC if there is none; a process has failed, or exposes no memory where it was accessed.
    pub fn complete_window(&self, window: &Window) -> Result<()> {
        let ranks = {
            let mut epochs = locked(&window.epochs);
            match window.access.load(Ordering::Relaxed) {
                STARTED => std::mem::take(&mut epochs.started),
                mode => {
                    let text = format!("MPI_Win_complete without MPI_Win_start: {}", open_access(mode));
                    return Err(sync(text));
                }
            }
        };
        let mut outcome = Ok(());
        for rank in ranks {
            let target = &window.targets[rank as usize];
            let complete = self.complete_target(window, rank);
            target.open.store(SHUT, Ordering::Relaxed);
            let told = self.signal(window, rank, super::Control::complete, &Message::Complete);
            outcome = outcome.and(complete).and(told);
        }
        window.set_access(CLOSED);
        outcome
    }

    /// Opens an exposure epoch to the processes of a group (MPI_Win_post).
    ///
    /// # Errors
    /// MPI_ERR_ASSERT, MPI_ERR_GROUP, MPI_ERR_RMA_SYNC.
    pub fn post_window(&self, window: &Window, group: &Group, assert: i32) -> Result<()> {
        const KNOWN: i32 = abi::MPI_MODE_NOCHECK | abi::MPI_MODE_NOSTORE | abi::MPI_MODE_NOPUT;
        check_assert(assert, KNOWN, "MPI_Win_post")?;
        let ranks = self.ranks_of(window, group)?;
        {
            let mut epochs = locked(&window.epochs);
            if epochs.posted.is_some() {
                return Err(sync("MPI_Win_post while an exposure epoch is open: call MPI_Win_wait before"));
            }
            epochs.posted = Some(ranks.len() as u32);
        }
        fence(Ordering::SeqCst);
        let own = window.rank();
        ranks
            .into_iter()
            .try_for_each(|rank| self.signal(window, rank, |control| control.post(own), &Message::Post))
    }

    /// The count of completed epochs at which the exposure epoch is over, and how many of them are its own.
    fn end_of_exposure(&self, window: &Window, function: &str) -> Result<(u64, u32)> {
        let epochs = locked(&window.epochs);
        let posted = epochs.posted.ok_or_else(|| sync(format!("{function} without MPI_Win_post")))?;
        Ok((epochs.completed + u64::from(posted), posted))
    }

    fn end_exposure(&self, window: &Window, count: u64) {
        let mut epochs = locked(&window.epochs);
        epochs.posted = None;
        epochs.completed = count;
        fence(Ordering::SeqCst);
    }

    /// Waits for the end of the exposure epoch (MPI_Win_wait).
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC if there is none.
    pub fn wait_window(&self, window: &Window) -> Result<()> {
        let (end, _) = self.end_of_exposure(window, "MPI_Win_wait")?;
        let control = &window.exposure.control;
        self.wait_for(|_| (control.completed() >= end).then_some(()));
        self.end_exposure(window, end);
        Ok(())
    }

    /// Whether the exposure epoch is over; then it is ended (MPI_Win_test).
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC if there is none.
    pub fn test_window(&self, window: &Window) -> Result<bool> {
        let (end, _) = self.end_of_exposure(window, "MPI_Win_test")?;
        let over = self.look(|_| window.exposure.control.completed() >= end);
        if over {
            self.end_exposure(window, end);
        }
        Ok(over)
    }

    /// Waits for the lock of a target.
    fn acquire(&self, window: &Window, rank: u32, exclusive: bool) -> Result<()> {
        let near = self.near(window, &window.targets[rank as usize]);
        let own = window.rank();
        if let Some(control) = self.is_reached_by_words(window, rank, near) {
            if !control.try_lock(exclusive, own) {
                self.wait_for(|_| control.try_lock(exclusive, own).then_some(()));
            }
            return Ok(());
        }
        self.with_service(window, |service, lane| service.say(lane, rank, &Message::Lock { exclusive }))?;
        self.wait_for_service(window, |service, lane| service.take_grant(lane, rank))
    }

    /// Gives up the lock of a target, at which all is complete then.
    fn release(&self, window: &Window, rank: u32, exclusive: bool) -> Result<()> {
        let target = &window.targets[rank as usize];
        let near = self.near(window, target);
        if let Some(control) = self.is_reached_by_words(window, rank, near) {
            let complete = self.complete_target(window, rank);
            if control.unlock(exclusive) {
                for waiter in control.take_waiters() {
                    self.ring(window, waiter);
                }
            }
            if window.is_own(rank) {
                self.grant_others(window);
            }
            self.look_sometimes(window);
            return complete;
        }
        fence(Ordering::SeqCst);
        let flush = self.ask_to_flush(window, rank, Some(exclusive))?;
        self.finish_flush(window, flush)
    }

    /// Those who have asked for the lock of this process by messages may have it now.
    #[inline]
    fn grant_others(&self, window: &Window) {
        let near_all = window.targets.iter().all(|target| {
            target.near.get().is_some_and(|near| near.bell.is_some()) || target.process == self.rank
        });
        if !near_all {
            let _ = self.with_service(window, |service, lane| {
                service.lock_is_free(lane);
                Ok(())
            });
        }
    }

    /// Locks a target (MPI_Win_lock).
    ///
    /// # Errors
    /// MPI_ERR_ASSERT, MPI_ERR_RANK, MPI_ERR_RMA_SYNC; a process has failed.
    pub fn lock_window(&self, window: &Window, kind: LockType, rank: i32, assert: i32) -> Result<()> {
        check_assert(assert, abi::MPI_MODE_NOCHECK, "MPI_Win_lock")?;
        if rank == abi::MPI_PROC_NULL {
            return Ok(());
        }
        let target = window.target(rank)?;
        {
            let mut epochs = locked(&window.epochs);
            match window.access.load(Ordering::Relaxed) {
                LOCKED if target.open.load(Ordering::Relaxed) != SHUT => {
                    return Err(sync(format!("rank {rank} is locked already by this process")));
                }
                LOCKED => {}
                _ => window.check_closed("MPI_Win_lock")?,
            }
            epochs.locks += 1;
            target.open.store(COMING, Ordering::Relaxed);
            window.set_access(LOCKED);
        }
        let exclusive = kind == LockType::Exclusive;
        let unchecked = assert & abi::MPI_MODE_NOCHECK != 0;
        let acquired = if unchecked { Ok(()) } else { self.acquire(window, rank as u32, exclusive) };
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

    /// A target is not locked any more.
    fn shut(&self, window: &Window, target: &Target) {
        let mut epochs = locked(&window.epochs);
        target.open.store(SHUT, Ordering::Relaxed);
        epochs.locks -= 1;
        if epochs.locks == 0 {
            window.set_access(CLOSED);
        }
    }

    /// Completes the accesses to a target and unlocks it (MPI_Win_unlock).
    ///
    /// # Errors
    /// MPI_ERR_RANK; MPI_ERR_RMA_SYNC if it is not locked; as [`Process::flush_window`].
    pub fn unlock_window(&self, window: &Window, rank: i32) -> Result<()> {
        if rank == abi::MPI_PROC_NULL {
            return Ok(());
        }
        let target = window.target(rank)?;
        let held = target.open.load(Ordering::Relaxed);
        if window.access.load(Ordering::Relaxed) != LOCKED || held & OPEN == 0 {
            return Err(sync(format!("MPI_Win_unlock of rank {rank}, which MPI_Win_lock has not locked")));
        }
        let released = if held & UNCHECKED != 0 {
            self.complete_target(window, rank as u32)
        } else {
            self.release(window, rank as u32, held & HELD_EXCLUSIVE == HELD_EXCLUSIVE)
        };
        self.shut(window, target);
        released
    }

    /// Locks all targets together with others (MPI_Win_lock_all).
    ///
    /// # Errors
    /// As [`Process::lock_window`].
    pub fn lock_all_window(&self, window: &Window, assert: i32) -> Result<()> {
        check_assert(assert, abi::MPI_MODE_NOCHECK, "MPI_Win_lock_all")?;
        {
            let mut epochs = locked(&window.epochs);
            window.check_closed("MPI_Win_lock_all")?;
            // The accesses wait until all locks are there.
            epochs.locks = u32::from(assert & abi::MPI_MODE_NOCHECK == 0);
            window.set_access(STARTED);
        }
        if assert & abi::MPI_MODE_NOCHECK == 0 {
            // Messages first: their answers come meanwhile.
            let far = |rank: &u32| {
                let near = self.near(window, &window.targets[*rank as usize]);
                self.is_reached_by_words(window, *rank, near).is_none()
            };
            let far: Vec<u32> = window.count().filter(far).collect();
            for &rank in &far {
                let message = Message::Lock { exclusive: false };
                self.with_service(window, |service, lane| service.say(lane, rank, &message))?;
            }
            for rank in window.count() {
                match far.contains(&rank) {
                    true => {
                        self.wait_for_service(window, |service, lane| service.take_grant(lane, rank))?;
                    }
                    false => self.acquire(window, rank, false)?,
                }
            }
        }
        window.set_access(LOCKED_ALL);
        Ok(())
    }

    /// Completes all accesses and unlocks all targets (MPI_Win_unlock_all).
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC if they are not locked; as [`Process::flush_window`].
    pub fn unlock_all_window(&self, window: &Window) -> Result<()> {
        let checked = {
            let mut epochs = locked(&window.epochs);
            match window.access.load(Ordering::Relaxed) {
                LOCKED_ALL => std::mem::take(&mut epochs.locks) > 0,
                mode => {
                    let text = format!("MPI_Win_unlock_all without MPI_Win_lock_all: {}", open_access(mode));
                    return Err(sync(text));
                }
            }
        };
        let mut outcome = self.complete_all(window);
        if checked {
            for rank in window.count() {
                outcome = outcome.and(self.release(window, rank, false));
            }
        }
        window.set_access(CLOSED);
        outcome
    }

    /// Completes the accesses to a locked target, here and there (MPI_Win_flush, MPI_Win_flush_local).
    ///
    /// # Errors
    /// MPI_ERR_RANK, MPI_ERR_RMA_SYNC; MPI_ERR_RMA_RANGE if the target exposes no memory where it was accessed; it has failed.
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
        // As there.
        fence(Ordering::SeqCst);
        self.look_sometimes(window);
        Ok(())
    }

    /// As [`Process::flush_window`] for all targets that are locked (MPI_Win_flush_all, MPI_Win_flush_local_all).
    ///
    /// # Errors
    /// As there.
    pub fn flush_all_window(&self, window: &Window) -> Result<()> {
        window.check_passive()?;
        self.look_sometimes(window);
        self.complete_all(window)
    }

    /// A look at everything, every now and then: programs wait in loops around calls that need none. Whether one thread more
    /// or less counts does not matter.
    #[inline(always)]
    fn look_sometimes(&self, window: &Window) {
        let calls = window.calls.load(Ordering::Relaxed).wrapping_add(1);
        window.calls.store(calls, Ordering::Relaxed);
        if calls.is_multiple_of(LOOK_EVERY) {
            self.look_now_and_then();
        }
    }
}
