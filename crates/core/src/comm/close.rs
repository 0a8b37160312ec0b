//! The end of a communicator (MPI-5.0 sections 7.4.3 and 11.10.4).

use super::Communicator;
use crate::Process;
use crate::awaited::{Awaited, Reason};
use crate::process::Domain;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::Completion;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_plan::Call;
use oxmpi_rt::waiting::Need;
use std::time::{Duration, Instant};

/// How long a disconnect waits before the launcher is asked whether anybody is left; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest time between two questions.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl<F: Fabric> Process<F> {
    /// Frees a communicator; what is under way in it goes on (MPI_Comm_free).
    pub fn close(&self, comm: &Communicator) {
        self.domain.lock().foreign.released(comm);
        self.forget(comm);
    }

    /// Frees a communicator of which the launcher was told nothing, or has been told all.
    pub(super) fn forget(&self, comm: &Communicator) {
        self.leave_sections(comm);
        let mut domain = self.domain.lock();
        domain.leave_agreements_of(comm.union().collective);
        domain.closing.extend(comm.teams().cloned());
        domain.reap();
    }

    /// Waits until nothing is under way in the communicator, then frees it (MPI_Comm_disconnect). Collective. If all are
    /// of one job nobody waits for the others: only for their part in what this process has begun.
    ///
    /// If some are of other jobs all have said, when it returns anywhere, that they do not need each other any more:
    /// from then on the end of one job does not concern the other.
    pub fn disconnect(&self, comm: &Communicator) {
        let reason = |domain: &Domain<F>| {
            let place = domain.place(comm.team.point_to_point, None);
            Reason::new(format!("the end of all that is under way{place}"), Need::All, self.others_in(comm))
        };
        self.wait_for(&Awaited::Said(&reason), |domain| {
            (!comm.teams().any(|team| domain.is_busy(team))).then_some(())
        });
        let released = self.domain.lock().foreign.released(comm);
        if let Some(others) = released {
            self.wait_for_released(comm);
            // Who could not meet the others because one of them has failed may be waited for by one who lacks a decision.
            self.domain.lock().leave_agreements_of(comm.union().collective);
            self.take_leave_of(&others);
        }
        self.forget(comm);
    }

    /// Waits until all processes of the communicator have said that they do not need it any more. They meet in a barrier;
    /// as one that has left it may be gone already, and have taken others of its job with it, the launcher is asked
    /// now and then whether anybody is left.
    fn wait_for_released(&self, comm: &Communicator) {
        let buffers = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        let at = (comm.union(), comm.next_tag());
        let Ok(barrier) = self.start_in(at, Call::Barrier, buffers, Combine::Nothing, None, None) else {
            // A process has failed: nobody can be waited for.
            return;
        };
        let bonds = self.domain.lock().foreign.bonds.clone();
        let mut pause = FIRST_PAUSE;
        let done = |domain: &mut Domain<F>| domain.lane.test(barrier).unwrap_or(Some(Completion::EMPTY));
        let awaited = Awaited::Request(barrier.raw());
        let mut telling = self.telling(&awaited);
        while self.wait_until(Instant::now() + pause, &mut telling, done).is_none() {
            if bonds.as_ref().is_some_and(|bonds| bonds.is_over(comm.team.id.0)) {
                self.wait_for(&awaited, |domain| domain.abandon(barrier).then_some(()));
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn others_in(&self, comm: &Communicator) -> Vec<u32> {
        crate::awaited::others(comm.union(), self.rank)
    }

    /// This process has no communicator with these any more: what they need of it they get first.
    fn take_leave_of(&self, others: &[u32]) {
        let settled = |domain: &mut Domain<F>| {
            let fabric = domain.lane.fabric_mut();
            // All are asked before any is waited for.
            let waiting = others.iter().filter(|process| !fabric.settle(**process)).count();
            (waiting == 0).then_some(())
        };
        let reason = |_: &Domain<F>| Reason::new("to take leave", Need::Attention, others);
        self.wait_for(&Awaited::Said(&reason), settled);
        let mut domain = self.domain.lock();
        others.iter().for_each(|process| domain.lane.fabric_mut().detach(*process));
    }
}
