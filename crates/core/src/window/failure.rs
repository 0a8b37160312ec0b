//! Windows of which a process has failed, or that were revoked (User-Level Failure Mitigation, the functions of `mpi-ext.h`).
//!
//! Nothing waits for the dead: what is asked of them fails, a lock that one of them holds is had by nobody any more (but the next
//! one has the lock of elements, rule 7 of `control`), and epochs are over without them. Calls that only tell others something tell the living; the error comes from the call that would hear
//! of the dead: MPI_Win_wait, MPI_Win_complete, MPI_Win_flush and the unlocking calls, MPI_Win_fence. A window of which a
//! process has failed is freed without the others, and revoked by that, so that none of them waits in it.
//!
//! In a revoked window nothing is read, written or signalled by words any more, but of the own process: the others may have freed
//! theirs, and what lies there belongs to somebody else. Who frees one waits until the living have heard that
//! ([`Process::wait_for_revoked`]).

use super::{GONE, Target, Window};
use crate::Process;
use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::process::Domain;
use crate::wait_reason::{Awaited, Reason};
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::MPIX_ERR_REVOKED;
use oxmpi_engine::{Fault, Lane};
use oxmpi_fabric::{Fabric, Unreachable};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_rt::waiting::Need;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How much later than the kernel the launcher says that a process has died, at most; more would be no harm.
const NEWS_COME_WITHIN: Duration = Duration::from_millis(100);

/// How much later than one process another one hears of a death, at most; it waits so long only if a member has revoked a window
/// that is not made here yet, and nobody has died.
const ALL_HEAR_WITHIN: Duration = Duration::from_secs(5);

impl Target {
    /// Whether it has failed, or the window was revoked.
    #[inline(always)]
    pub(super) fn is_gone(&self) -> bool {
        self.asked.load(Ordering::Relaxed) & GONE != 0
    }
}

impl Window {
    /// The context of its failed requests, whose handler stays when it is freed.
    pub fn context(&self) -> u32 {
        self.comm.team.point_to_point
    }

    /// Why a wait is in vain, given whose failure counts.
    pub(super) fn hindrance<F: Fabric>(&self, lane: &Lane<F>, counts: impl Fn(u32) -> bool) -> Option<Fault> {
        if self.comm.team.is_revoked() {
            return Some(Fault::Revoked);
        }
        let lost = |process: &&u32| self.comm.team.map.rank(**process).is_some_and(&counts);
        lane.lost().iter().find(lost).map(|peer| Fault::Lost { peer: *peer })
    }
}

impl<F: Fabric> Process<F> {
    /// Nobody waits in a window any more: at all its processes all that is under way in it and all that is begun fails with
    /// MPIX_ERR_REVOKED, but for freeing it (MPIX_Win_revoke). Not collective; returns at once.
    pub fn revoke_window(&self, window: &Window) {
        self.revoke(&window.comm);
    }

    /// The processes of a window that are known to have failed, in the order in which that was heard (MPIX_Win_get_failed).
    ///
    /// # Errors
    /// As [`Process::failed_group`].
    pub fn failed_of_window(&self, window: &Window) -> Result<Group> {
        self.failed_group(&window.comm)
    }

    /// Why a target cannot be locked, if so.
    pub(super) fn check_target(&self, window: &Window, rank: u32) -> Result<()> {
        if !window.targets[rank as usize].is_gone() {
            return Ok(());
        }
        self.with_service(window, |service, lane| service.check(lane, rank))
    }

    /// Why a window could not be made of `own`. Members revoke it because one has failed, of which this process hears a little
    /// later perhaps: then that is what the program is told, which has revoked nothing.
    pub(super) fn cause_of_revocation(&self, own: &Communicator, error: MpiError) -> MpiError {
        if error.class() != MPIX_ERR_REVOKED {
            return error;
        }
        let lost = |domain: &mut Domain<F>| domain.lane.lost_of(own.union());
        let awaited = Awaited::Described(&news_of_failure);
        let lost =
            self.wait_until(Instant::now() + ALL_HEAR_WITHIN, &mut self.wait_note_writer(&awaited), lost);
        lost.map_or(error, |peer| of_fault(Fault::Lost { peer }))
    }

    /// Why memory was not accessed through the kernel: its process has failed, of which this one hears a little later perhaps, or
    /// has no memory there.
    #[cold]
    pub(super) fn unreached(&self, peer: u32, unreachable: Unreachable) -> MpiError {
        let is_lost = |domain: &mut Domain<F>| domain.lane.lost().contains(&peer).then_some(());
        let awaited = Awaited::Described(&news_of_failure);
        match self.wait_until(
            Instant::now() + NEWS_COME_WITHIN,
            &mut self.wait_note_writer(&awaited),
            is_lost,
        ) {
            Some(()) => of_fault(Fault::Lost { peer }),
            None => MpiError::new(abi::MPI_ERR_RMA_RANGE, unreachable.to_string()),
        }
    }

    /// Waits for something that a word in shared memory says, as long as the processes whose failure counts live. `reason` says
    /// what it is.
    pub(super) fn wait_for_word(
        &self,
        window: &Window,
        reason: &dyn Fn(&Domain<F>) -> Reason,
        mut is_there: impl FnMut() -> bool,
        counts: impl Fn(u32) -> bool,
    ) -> Result<()> {
        let said = self.wait_for(&Awaited::Described(reason), |domain| {
            match !window.comm.team.is_revoked() && is_there() {
                true => Some(Ok(())),
                false => window.hindrance(&domain.lane, &counts).map(Err),
            }
        });
        said.map_err(of_fault)
    }

    /// Frees a window without the others, who are kept from waiting for this process. It waits until none of them accesses the
    /// memory here any more, which the program has back then.
    pub(crate) fn abandon_window(&self, window: &Window) {
        self.revoke_window(window);
        let context = window.comm.team.point_to_point;
        self.enter(|domain| {
            if let Some(at) = domain.windows.iter().position(|service| service.context() == context) {
                let mut service = domain.windows.swap_remove(at);
                service.abandon(&mut domain.lane);
            }
        });
        self.wait_for_revoked(&window.comm);
        self.forget_exposed(window);
        self.close(&window.comm);
    }
}

/// Why a wait goes on that soon ends in any case.
fn news_of_failure<F>(_: &Domain<F>) -> Reason {
    Reason::new("news of a failure", Need::Outside, [])
}
