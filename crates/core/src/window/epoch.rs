//! Epochs: what allows accesses, and when they are complete (MPI-5.0 section 12.5). Fences are here.

mod locks;
mod post_start;

pub use locks::LockType;

use super::{GONE, Near, Service, Target, Window, locked};
use crate::Process;
use crate::errors::of_fault;
use crate::process::Domain;
use crate::wait_reason::{Awaited, Reason};
use oxmpi_abi::constants as abi;
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt::waiting::Need;
use oxmpi_sys::clock::{pass_ticks, ticks_of_ns};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

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
pub(super) const HELD_SHARED: u32 = OPEN | 4;
pub(super) const HELD_EXCLUSIVE: u32 = OPEN | 8;
/// The program has promised that nobody else locks it, so nobody was asked.
const UNCHECKED: u32 = 16;

/// How many calls that need no look at anything may follow each other without one.
pub(super) const LOOK_EVERY: u32 = 32;

/// How often an origin polls for an answer before it gives up the processor, or withdraws a put: with the gap some 7 microseconds, in which
/// a target that polls has answered (measured on an AMD EPYC, family 25, model 17).
const ANSWER_LOOKS: u32 = 400;
/// From one of those polls to the next, nanoseconds.
const BETWEEN_LOOKS_NS: u64 = 18;
/// Every so many of them the process makes progress.
const LOOK_AT_ALL_EVERY: u32 = 8;

/// What must be complete at a target.
struct Flush {
    rank: u32,
    /// How much had been asked of it.
    asked: u64,
    /// The number of the request in its mailbox.
    request: Option<u64>,
    /// The number of the flush message, and how many operations had gone by messages before it.
    said: Option<(u64, u64)>,
}

/// What epochs of a window a process has, beside the words.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// The targets of MPI_Win_start.
    started: Vec<u32>,
    /// The ranks that have access by MPI_Win_post.
    posted: Option<Vec<u32>>,
    /// How many access epochs to this process have been taken note of, as long as no process has failed.
    completed: u64,
    /// How many exposure epochs were opened to each rank.
    opened: BTreeMap<u32, u64>,
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
    pub(super) fn is_complete(&self) -> bool {
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
            domain.serving = true;
            let Domain { lane, windows, .. } = domain;
            match windows.iter_mut().find(|service| service.context() == context) {
                Some(service) => f(service, lane).map_err(of_fault),
                None => Err(MpiError::new(abi::MPI_ERR_WIN, "the window was freed")),
            }
        })
    }

    /// Waits until the service of a window has an answer of a rank; `what` says which.
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

    /// Whether words in shared memory reach this target, and wake it. In a revoked window they may be another's already.
    fn is_reached_by_words<'n>(
        &self,
        window: &Window,
        rank: u32,
        near: &'n Near,
    ) -> Option<&'n super::Control> {
        near.control
            .as_ref()
            .filter(|_| window.is_own(rank) || (near.bell.is_some() && !window.comm.is_revoked()))
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
        window.order_stores();
        if window.targets[rank as usize].is_complete() {
            return Ok(());
        }
        let flush = self.ask_to_flush(window, rank, None)?;
        self.finish_flush(window, flush)
    }

    /// Sends a target a flush message, if operations have gone to it by messages.
    fn ask_to_flush(&self, window: &Window, rank: u32, unlock: Option<bool>) -> Result<Flush> {
        self.with_service(window, |service, lane| {
            let asked = window.targets[rank as usize].asked.load(Ordering::Relaxed);
            let (request, messages) = service.asked_of(rank);
            let said = match (messages, unlock) {
                // The flush of a target that has failed is an error.
                (None, None) if asked & GONE == 0 => None,
                _ => Some((service.flush(lane, rank, unlock)?, messages.unwrap_or(0))),
            };
            Ok(Flush { rank, asked, request, said })
        })
    }

    /// Waits until all is done.
    fn finish_flush(&self, window: &Window, flush: Flush) -> Result<()> {
        let Flush { rank, asked, request, said } = flush;
        let accessed = self.finish_accesses(window, rank);
        let what = ("to complete accesses to its part of", Need::Attention, rank);
        let answered = match request {
            None => Ok(false),
            Some(number) => self.wait_for_answer(window, what, number),
        };
        let said = match answered {
            // A request that its target could not carry out has gone by messages after all.
            Ok(true) if said.is_none() => self.ask_to_flush(window, rank, None)?.said,
            _ => said,
        };
        let done = match said {
            None => Ok(()),
            Some((id, messages)) => self.wait_for_service(window, what, |service, lane| {
                let done = service.flushed(lane, id)?;
                service.note_complete(rank, messages);
                Some(done)
            }),
        };
        window.targets[rank as usize].complete.fetch_max(asked & !GONE, Ordering::Relaxed);
        answered.map(drop).and(done).and(accessed)
    }

    /// Waits until a rank has answered the request with a number. A put or get of which it takes no notice is copied through the
    /// kernel. Whether an operation has gone by messages instead.
    fn wait_for_answer(&self, window: &Window, what: (&str, Need, u32), number: u64) -> Result<bool> {
        let (.., rank) = what;
        let mailboxes =
            window.targets[rank as usize].near.get().and_then(|near| near.control.as_ref()?.mailboxes());
        let (looks, gap) =
            if self.is_oversubscribed { (0, 0) } else { (ANSWER_LOOKS, ticks_of_ns(BETWEEN_LOOKS_NS)) };
        for look in 0..looks {
            if mailboxes.as_ref().is_some_and(|mailboxes| mailboxes.is_answered(window.rank(), number)) {
                break;
            }
            pass_ticks(gap);
            // The target may wait for this process in turn.
            if look % LOOK_AT_ALL_EVERY == LOOK_AT_ALL_EVERY - 1 {
                self.look(|_| ());
            }
        }
        let settled =
            self.with_service(window, |service, lane| match service.settled(lane, rank, number) {
                None => Ok(service.copy_instead(lane, rank).map(|()| None)),
                Some(settled) => settled.map(|instead| Ok(Some(instead))),
            })?;
        let process = window.targets[rank as usize].process;
        if let Some(instead) = settled.map_err(|unreachable| self.unreached(process, unreachable))? {
            return Ok(instead);
        }
        self.wait_for_service(window, what, |service, lane| service.settled(lane, rank, number))
    }

    /// As [`Process::complete_target`], for all targets that count.
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
        let complete = self.complete_all(window, |_| true);
        let own = self.near(window, &window.targets[window.rank() as usize]);
        let met = match own.memory {
            Some(_) => self.meet_own(&window.comm),
            // The other ranks have not mapped this memory: they send requests.
            None => self.meet_with_requests(&window.comm),
        };
        right.and(complete).and(met)?;
        let ends = assert & abi::MPI_MODE_NOSUCCEED != 0;
        window.set_access(if ends { CLOSED } else { FENCE });
        Ok(())
    }

    /// A look at everything, every now and then.
    #[inline(always)]
    pub fn look_sometimes(&self, window: &Window) {
        if window.is_look_due() {
            self.look_now_and_then();
        }
    }
}
