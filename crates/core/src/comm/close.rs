//! The end of a communicator (MPI-5.0 sections 7.4.3 and 11.10.4).

use super::Communicator;
use crate::Process;
use crate::process::Domain;
use crate::wait_reason::{Awaited, Reason};
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::Completion;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_plan::Call;
use oxmpi_rt_client::waiting::Need;
use std::time::{Duration, Instant};

/// The pause of a disconnect before it queries the launcher for living peers. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl<F: Fabric> Process<F> {
    /// Frees a communicator; its operations under way continue (MPI_Comm_free).
    pub fn close(&self, comm: &Communicator) {
        self.domain.lock().foreign.released(comm);
        self.forget(comm);
    }

    pub(super) fn forget(&self, comm: &Communicator) {
        self.leave_sections(comm);
        let mut domain = self.domain.lock();
        domain.leave_agreements_of(comm.union().collective);
        domain.closing.extend(comm.teams().cloned());
        domain.reap();
    }

    /// Waits until no operation of this process is under way in the communicator, then frees it
    /// (MPI_Comm_disconnect). Collective. If ranks belong to several jobs, a return at any rank
    /// means that all have made the call: from then on the end of one job does not affect the
    /// other.
    pub fn disconnect(&self, comm: &Communicator) {
        let reason = |domain: &Domain<F>| {
            let place = domain.place(comm.team.point_to_point, None);
            Reason::new(
                format!("the end of all operations that are under way{place}"),
                Need::All,
                self.others_in(comm),
            )
        };
        self.wait_for(&Awaited::Described(&reason), |domain| {
            (!comm.teams().any(|team| domain.is_busy(team))).then_some(())
        });
        let released = self.domain.lock().foreign.released(comm);
        if let Some(others) = released {
            self.wait_for_released(comm);
            // After a failure another rank may still need a decision from this rank.
            self.domain.lock().leave_agreements_of(comm.union().collective);
            self.take_leave_of(&others);
        }
        self.forget(comm);
    }

    /// Waits in a barrier until all processes of the communicator have released it. It queries the
    /// launcher from time to time, since a process that has left the barrier may have ended with
    /// its job.
    fn wait_for_released(&self, comm: &Communicator) {
        let buffers = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        let at = (comm.union(), comm.next_tag());
        let Ok(barrier) = self.start_in(at, Call::Barrier, buffers, Combine::Nothing, None, None)
        else {
            // A process has failed, so no process can be awaited.
            return;
        };
        let bonds = self.domain.lock().foreign.bonds.clone();
        let mut pause = FIRST_PAUSE;
        let done =
            |domain: &mut Domain<F>| domain.lane.test(barrier).unwrap_or(Some(Completion::EMPTY));
        let awaited = Awaited::Request(barrier.raw());
        let mut note_writer = self.wait_note_writer(&awaited);
        while self.wait_until(Instant::now() + pause, &mut note_writer, done).is_none() {
            if bonds.as_ref().is_some_and(|bonds| bonds.is_over(comm.team.id.0)) {
                self.wait_for(&awaited, |domain| domain.abandon(barrier).then_some(()));
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn others_in(&self, comm: &Communicator) -> Vec<u32> {
        crate::wait_reason::others(comm.union(), self.rank)
    }

    fn take_leave_of(&self, others: &[u32]) {
        let settled = |domain: &mut Domain<F>| {
            let fabric = domain.lane.fabric_mut();
            // This calls `settle` for each process, so that all start their part before the wait.
            let waiting = others.iter().filter(|process| !fabric.settle(**process)).count();
            (waiting == 0).then_some(())
        };
        let reason = |_: &Domain<F>| Reason::new("to take leave", Need::Attention, others);
        self.wait_for(&Awaited::Described(&reason), settled);
        let mut domain = self.domain.lock();
        others.iter().for_each(|process| domain.lane.fabric_mut().detach(*process));
    }
}
