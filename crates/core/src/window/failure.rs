//! Windows of which a process has failed, and revoked windows (User-Level Failure Mitigation).
//!
//! No call waits for a failed process. Operations to it fail, no rank gets a lock that it held, and
//! epochs end without it. The call that needs the failed rank returns the error; a call that only
//! sends signals succeeds. A window with a failed process is freed without the other ranks, and is
//! then revoked.
//!
//! In a revoked window a rank uses words in shared memory only in its own process, since other
//! ranks may have freed theirs. The process that frees its part waits until the living ranks know
//! of the revocation ([`Process::wait_for_revoked`]).

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
use oxmpi_rt_client::waiting::Need;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The launcher reports the end of a process at most this time after the kernel does.
const LAUNCHER_REPORT_DELAY: Duration = Duration::from_millis(100);

/// The time to wait for the report of a failure that has made another rank revoke the new window.
/// It passes as a whole only if no process has failed.
const FAILURE_REPORT_DELAY: Duration = Duration::from_secs(5);

impl Target {
    #[inline(always)]
    pub(super) fn is_gone(&self) -> bool {
        self.issued.load(Ordering::Relaxed) & GONE != 0
    }
}

impl Window {
    /// The context of failed requests. Its error handler stays when the window is freed.
    pub fn context(&self) -> u32 {
        self.comm.team.point_to_point
    }

    /// The fault of a wait: the window is revoked, or a rank for which `counts` is true has failed.
    pub(super) fn wait_fault<F: Fabric>(
        &self,
        lane: &Lane<F>,
        counts: impl Fn(u32) -> bool,
    ) -> Option<Fault> {
        if self.comm.team.is_revoked() {
            return Some(Fault::Revoked);
        }
        let lost = |process: &&u32| self.comm.team.map.rank(**process).is_some_and(&counts);
        lane.lost().iter().find(lost).map(|peer| Fault::Lost { peer: *peer })
    }
}

impl<F: Fabric> Process<F> {
    /// Revokes a window (MPIX_Win_revoke): all its operations at all processes fail, except freeing
    /// it. The call is local.
    pub fn revoke_window(&self, window: &Window) {
        self.revoke(&window.comm);
    }

    /// The failed processes, in the order of the reports (MPIX_Win_get_failed).
    pub fn failed_of_window(&self, window: &Window) -> Result<Group> {
        self.failed_group(&window.comm)
    }

    pub(super) fn check_target(&self, window: &Window, rank: u32) -> Result<()> {
        if !window.targets[rank as usize].is_gone() {
            return Ok(());
        }
        self.with_service(window, |service, lane| service.check(lane, rank))
    }

    /// The error of a revoked new window. The program has not revoked it: a rank did so because a
    /// process failed. So this waits for the report of that failure and returns it.
    pub(super) fn cause_of_revocation(&self, own: &Communicator, error: MpiError) -> MpiError {
        if error.class() != MPIX_ERR_REVOKED {
            return error;
        }
        let lost = |domain: &mut Domain<F>| domain.lane.lost_of(own.union());
        let awaited = Awaited::Described(&failure_report);
        let lost = self.wait_until(
            Instant::now() + FAILURE_REPORT_DELAY,
            &mut self.wait_note_writer(&awaited),
            lost,
        );
        lost.map_or(error, |peer| of_fault(Fault::Lost { peer }))
    }

    /// The error of a failed copy: the peer has failed, or it has no memory at the address.
    #[cold]
    pub(super) fn copy_error(&self, peer: u32, unreachable: Unreachable) -> MpiError {
        let is_lost = |domain: &mut Domain<F>| domain.lane.lost().contains(&peer).then_some(());
        let awaited = Awaited::Described(&failure_report);
        match self.wait_until(
            Instant::now() + LAUNCHER_REPORT_DELAY,
            &mut self.wait_note_writer(&awaited),
            is_lost,
        ) {
            Some(()) => of_fault(Fault::Lost { peer }),
            None => MpiError::new(abi::MPI_ERR_RMA_RANGE, unreachable.to_string()),
        }
    }

    /// Waits until `is_there`, or until a process for which `counts` is true has failed.
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
                false => window.wait_fault(&domain.lane, &counts).map(Err),
            }
        });
        said.map_err(of_fault)
    }

    /// Frees a window without the other ranks. After this no rank accesses its memory here.
    pub(crate) fn abandon_window(&self, window: &Window) {
        self.revoke_window(window);
        let context = window.comm.team.point_to_point;
        self.enter(|domain| {
            if let Some(at) = domain.windows.iter().position(|service| service.context() == context)
            {
                let mut service = domain.windows.swap_remove(at);
                service.abandon(&mut domain.lane);
            }
        });
        self.wait_for_revoked(&window.comm);
        self.forget_exposed(window);
        self.close(&window.comm);
    }
}

fn failure_report<F>(_: &Domain<F>) -> Reason {
    Reason::new("news of a failure", Need::Outside, [])
}
