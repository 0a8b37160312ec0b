//! Epochs (MPI-5.0 section 12.5). An open epoch allows accesses; its end completes them. This file
//! has the fences.

mod locks;
mod post_start;

pub use locks::LockType;

use super::{GONE, Service, Target, TargetRoutes, Window, locked};
use crate::Process;
use crate::errors::of_fault;
use crate::process::Domain;
use crate::wait_reason::{Awaited, Reason};
use oxmpi_abi::constants as abi;
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_rt_client::waiting::Need;
use oxmpi_sys::clock::{pass_ticks, ticks_of_ns};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

// The values of `Window::access`.
pub(super) const CLOSED: u32 = 0;
/// A fence allows accesses. None has come yet, so the fence may have begun no epoch.
pub(super) const FENCE: u32 = 1;
pub(super) const FENCED: u32 = 2;
pub(super) const LOCKED_ALL: u32 = 3;
/// The words `open` of the targets say which targets are locked.
pub(super) const LOCKED: u32 = 4;
/// MPI_Win_start allows accesses to the targets whose words `open` say so.
pub(super) const STARTED: u32 = 5;

// The values of `Target::open`.
pub(super) const SHUT: u32 = 0;
/// The process waits for the lock of the target.
const COMING: u32 = 1;
/// An epoch is open to the target. If a lock opened it, one more bit says the type of the lock.
pub(super) const OPEN: u32 = 2;
pub(super) const HELD_SHARED: u32 = OPEN | 4;
pub(super) const HELD_EXCLUSIVE: u32 = OPEN | 8;
/// With MPI_MODE_NOCHECK the program promises that no other lock conflicts, so none was taken.
const UNCHECKED: u32 = 16;

/// One of this number of calls makes progress.
pub(super) const LOOK_EVERY: u32 = 32;

/// With the gaps about 7 microseconds. A target that polls has answered within this time (measured
/// on an AMD EPYC, family 25, model 17).
const ANSWER_POLLS: u32 = 400;
const POLL_GAP_NS: u64 = 18;
/// One of this number of polls makes progress.
const PROGRESS_EVERY: u32 = 8;

struct Flush {
    rank: u32,
    /// The value of [`Target::issued`] at the flush.
    issued: u64,
    request: Option<u64>,
    /// The number of the flush message, and the number of operations by messages before it.
    message: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Epochs {
    started: Vec<u32>,
    posted: Option<Vec<u32>>,
    /// The completed access epochs at the end of the last exposure epoch, exact without failures.
    completed: u64,
    opened: BTreeMap<u32, u64>,
}

fn sync(text: impl Into<Cow<'static, str>>) -> MpiError {
    MpiError::new(abi::MPI_ERR_RMA_SYNC, text)
}

fn check_assert(assert: i32, known: i32, function: &str) -> Result<()> {
    if assert & !known == 0 {
        return Ok(());
    }
    let [all, bad] = [assert, assert & !known].map(|bits| shown::number(ValueKind::Assert, bits));
    let text = format!("assert is {all}, of which {bad} mean nothing to {function}");
    Err(MpiError::new(abi::MPI_ERR_ASSERT, text))
}

impl Epochs {
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
    #[inline(always)]
    pub(super) fn is_complete(&self) -> bool {
        self.issued.load(Ordering::Relaxed) <= self.complete.load(Ordering::Relaxed)
    }
}

impl Window {
    fn set_access(&self, mode: u32) {
        self.access.store(mode, Ordering::Relaxed);
    }

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
             MPI_Win_lock_all first"
        ))
    }

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
        sync(format!("rank {rank} is not locked: call MPI_Win_lock or MPI_Win_lock_all first"))
    }

    fn check_passive(&self) -> Result<()> {
        match self.access.load(Ordering::Relaxed) {
            LOCKED | LOCKED_ALL => Ok(()),
            _ => Err(sync("no target is locked: call MPI_Win_lock or MPI_Win_lock_all first")),
        }
    }

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
    pub(super) fn with_service<R>(
        &self,
        window: &Window,
        f: impl FnOnce(&mut Service, &mut oxmpi_engine::Lane<F>) -> std::result::Result<R, Fault>,
    ) -> Result<R> {
        let context = window.comm.team.point_to_point;
        self.enter(|domain| {
            domain.serving = true;
            let Domain { lane, windows, .. } = domain;
            match windows.iter_mut().find(|service| service.context() == context) {
                Some(service) => f(service, lane).map_err(of_fault),
                None => Err(MpiError::new(abi::MPI_ERR_WIN, "the window was freed")),
            }
        })
    }

    pub(super) fn wait_for_service<R>(
        &self,
        window: &Window,
        (what, need, rank): (&str, Need, u32),
        mut question: impl FnMut(
            &mut Service,
            &mut oxmpi_engine::Lane<F>,
        ) -> Option<std::result::Result<R, Fault>>,
    ) -> Result<R> {
        let context = window.comm.team.point_to_point;
        let reason = |_: &Domain<F>| {
            let target = window.comm.team.map.process(rank);
            Reason::new(format!("{what} {}", window.words()), need, Vec::from_iter(target))
        };
        let answer = self.wait_for(&Awaited::Described(&reason), |domain| {
            let Domain { lane, windows, .. } = domain;
            match windows.iter_mut().find(|service| service.context() == context) {
                Some(service) => question(service, lane),
                None => Some(Err(Fault::Closed)),
            }
        });
        answer.map_err(of_fault)
    }

    /// The target's control words, if this process may use them. In a revoked window their memory
    /// may belong to another object by now.
    fn is_reached_by_words<'n>(
        &self,
        window: &Window,
        rank: u32,
        routes: &'n TargetRoutes,
    ) -> Option<&'n super::ControlWords> {
        routes
            .control
            .as_ref()
            .filter(|_| window.is_own(rank) || (routes.bell.is_some() && !window.comm.is_revoked()))
    }

    fn ring(&self, window: &Window, rank: u32) {
        if window.is_own(rank) {
            if let Some(door) = &self.door {
                door.ring_own();
            }
        } else if let Some(target) = window.targets.get(rank as usize)
            && let Some(bell) = &self.routes(window, target).bell
        {
            bell.ring();
        }
    }

    pub(super) fn complete_target(&self, window: &Window, rank: u32) -> Result<()> {
        // The stores before this call become visible before the loads after it.
        window.order_stores();
        if window.targets[rank as usize].is_complete() {
            return Ok(());
        }
        let flush = self.send_flush(window, rank, None)?;
        self.finish_flush(window, flush)
    }

    fn send_flush(&self, window: &Window, rank: u32, unlock: Option<bool>) -> Result<Flush> {
        self.with_service(window, |service, lane| {
            let issued = window.targets[rank as usize].issued.load(Ordering::Relaxed);
            let (request, messages) = service.incomplete_at(rank);
            let message = match (messages, unlock) {
                // For a failed target `flush` returns the error.
                (None, None) if issued & GONE == 0 => None,
                _ => Some((service.flush(lane, rank, unlock)?, messages.unwrap_or(0))),
            };
            Ok(Flush { rank, issued, request, message })
        })
    }

    fn finish_flush(&self, window: &Window, flush: Flush) -> Result<()> {
        let Flush { rank, issued, request, message } = flush;
        let accessed = self.finish_accesses(window, rank);
        let what = ("to complete accesses to its part of", Need::Attention, rank);
        let answered = match request {
            None => Ok(false),
            Some(number) => self.wait_for_answer(window, what, number),
        };
        let message = match answered {
            // The target could not carry out the request, so this process sent it again by a
            // message.
            Ok(true) if message.is_none() => self.send_flush(window, rank, None)?.message,
            _ => message,
        };
        let done = match message {
            None => Ok(()),
            Some((id, messages)) => self.wait_for_service(window, what, |service, lane| {
                let done = service.flushed(lane, id)?;
                service.note_complete(rank, messages);
                Some(done)
            }),
        };
        window.targets[rank as usize].complete.fetch_max(issued & !GONE, Ordering::Relaxed);
        answered.map(drop).and(done).and(accessed)
    }

    /// Waits for the answer to a request in a mailbox. If the target has not begun a put or get
    /// after the polls, the kernel copies instead. Returns whether an operation may have gone by
    /// messages.
    fn wait_for_answer(
        &self,
        window: &Window,
        what: (&str, Need, u32),
        number: u64,
    ) -> Result<bool> {
        let (.., rank) = what;
        let mailboxes = window.targets[rank as usize]
            .routes
            .get()
            .and_then(|routes| routes.control.as_ref()?.mailboxes());
        let (polls, gap) =
            if self.is_oversubscribed { (0, 0) } else { (ANSWER_POLLS, ticks_of_ns(POLL_GAP_NS)) };
        for poll in 0..polls {
            if mailboxes
                .as_ref()
                .is_some_and(|mailboxes| mailboxes.is_answered(window.rank(), number))
            {
                break;
            }
            pass_ticks(gap);
            // The target may wait for progress of this process.
            if poll % PROGRESS_EVERY == PROGRESS_EVERY - 1 {
                self.look(|_| ());
            }
        }
        let settled =
            self.with_service(window, |service, lane| match service.settled(lane, rank, number) {
                None => Ok(service.copy_instead(lane, rank).map(|()| None)),
                Some(settled) => settled.map(|instead| Ok(Some(instead))),
            })?;
        let process = window.targets[rank as usize].process;
        if let Some(instead) =
            settled.map_err(|unreachable| self.copy_error(process, unreachable))?
        {
            return Ok(instead);
        }
        self.wait_for_service(window, what, |service, lane| service.settled(lane, rank, number))
    }

    /// [`Process::complete_target`] for all targets for which `counts` is true.
    fn complete_all(&self, window: &Window, counts: impl Fn(&Target) -> bool) -> Result<()> {
        window.order_stores();
        if !window.far.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut flushes = Vec::new();
        let mut outcome = Ok(());
        let open = |rank: &u32| {
            let target = &window.targets[*rank as usize];
            !target.is_complete() && counts(target)
        };
        for rank in window.count().filter(open) {
            match self.send_flush(window, rank, None) {
                Ok(flush) => flushes.push(flush),
                Err(error) => outcome = Err(error),
            }
        }
        for flush in flushes {
            outcome = outcome.and(self.finish_flush(window, flush));
        }
        outcome
    }

    /// MPI_Win_fence. Collective: a rank with a wrong call takes part.
    ///
    /// Errors: MPI_ERR_ASSERT; MPI_ERR_RMA_SYNC if locks or epochs of MPI_Win_start or MPI_Win_post
    /// are open; MPIX_ERR_PROC_FAILED.
    pub fn fence_window(&self, window: &Window, assert: i32) -> Result<()> {
        const KNOWN: i32 = abi::MPI_MODE_NOSTORE
            | abi::MPI_MODE_NOPUT
            | abi::MPI_MODE_NOPRECEDE
            | abi::MPI_MODE_NOSUCCEED;
        let posted = locked(&window.epochs).posted.is_some();
        let right = match window.access.load(Ordering::Relaxed) {
            _ if posted => {
                Err(sync("MPI_Win_fence while an exposure epoch is open: call MPI_Win_wait first"))
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
        let complete = self.complete_all(window, |_| true);
        let own = self.routes(window, &window.targets[window.rank() as usize]);
        let met = match own.memory {
            Some(_) => self.meet_own(&window.comm),
            None => self.meet_with_requests(&window.comm),
        };
        right.and(complete).and(met)?;
        let ends = assert & abi::MPI_MODE_NOSUCCEED != 0;
        window.set_access(if ends { CLOSED } else { FENCE });
        Ok(())
    }

    /// Makes progress in one of [`LOOK_EVERY`] calls.
    #[inline(always)]
    pub fn look_sometimes(&self, window: &Window) {
        if window.is_look_due() {
            self.look_now_and_then();
        }
    }
}
