//! The end of a session, or of the World Model while a session lives (MPI-5.0, "The Sessions Model"), and the time when
//! neither is there.

use crate::awaited::Awaited;
use crate::buffered::BufferOf;
use crate::comm::Communicator;
use crate::process::Domain;
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::origin::Origin;
use std::sync::Arc;

impl<F: Fabric> Process<F> {
    /// Ends what a session has left: sees that nothing of it waits, and frees its communicators, which are `comms`, as if
    /// each were disconnected. Its buffer is detached. If the session is the last user of the process, everything that the process
    /// has sent is delivered first.
    ///
    /// # Errors
    /// MPI_ERR_PENDING if operations go on for which the program holds requests, and those of [`Process::deliver_all`]; nothing is
    /// freed then.
    pub fn end_session(&self, origin: Origin, comms: &[Arc<Communicator>], is_last: bool) -> Result<()> {
        let held = self.look(|domain| {
            let of = |comm: &Arc<Communicator>| -> usize {
                let teams =
                    comm.teams().map(|team| domain.lane.held_in(team) + domain.collectives_in(team).0);
                teams.sum()
            };
            comms.iter().map(of).sum::<usize>()
        });
        if held > 0 {
            let text = format!(
                "operations on communicators of the session go on, {held} of them: complete them before (MPI_Wait and its kin)"
            );
            return Err(MpiError::new(abi::MPI_ERR_PENDING, text));
        }
        self.await_quiet(comms);
        if is_last {
            self.deliver_all()?;
        }
        // It fails if there is none.
        let _ = self.detach(BufferOf::Session(origin));
        self.close_all(comms);
        Ok(())
    }

    /// Waits until all that was sent in these communicators is with its receiver, or will get there without this process,
    /// and until collectives are over that nobody can ask for any more. Then those but the predefined ones are freed.
    /// A receive whose request was freed keeps its context until its message has come.
    pub fn end_communicators(&self, comms: &[Arc<Communicator>]) {
        self.await_quiet(comms);
        self.close_all(comms);
    }

    fn await_quiet(&self, comms: &[Arc<Communicator>]) {
        self.wait_for(&Awaited::Said(&Domain::reason_of_sends), |domain| {
            let is_quiet = |comm: &Arc<Communicator>| {
                comm.teams()
                    .all(|team| !domain.lane.is_sending_in(team) && domain.collectives_in(team).1 == 0)
            };
            comms.iter().all(is_quiet).then_some(())
        });
    }

    fn close_all(&self, comms: &[Arc<Communicator>]) {
        for comm in comms.iter().filter(|comm| !self.is_predefined(comm)) {
            self.close(comm);
        }
    }

    fn is_predefined(&self, comm: &Arc<Communicator>) -> bool {
        [self.world(), self.own()].into_iter().any(|known| Arc::ptr_eq(known, comm))
    }

    /// Waits until everything this process has sent is with its receiver, or will get there without it, and until receives are
    /// over whose requests were freed. Unlike after [`Process::drain`] everything can go on later ([`Process::resume`]).
    pub fn rest(&self) {
        // The others may still wait for an agreement whose coordinator has failed.
        self.domain.lock().leave_agreements();
        self.wait_for(&Awaited::Said(&Domain::reason_of_end), |domain| {
            let lane = &mut domain.lane;
            (lane.is_drained() && lane.are_receives_over() && lane.fabric_mut().rest()).then_some(())
        });
        self.domain.lock().reap();
    }

    /// As [`Process::rest`].
    ///
    /// # Errors
    /// Those of [`Process::check_delivered`]. The process does not rest then.
    pub fn deliver_all(&self) -> Result<()> {
        self.rest();
        self.check_delivered().inspect_err(|_| self.resume())
    }

    /// Sees after [`Process::rest`] or [`Process::drain`] whether what this process has sent is with its receivers.
    ///
    /// # Errors
    /// MPI_ERR_OTHER if one of them runs and was given up, as it could not be reached.
    pub fn check_delivered(&self) -> Result<()> {
        match self.domain.lock().lane.fabric_mut().lost_messages() {
            Some(why) => Err(MpiError::new(abi::MPI_ERR_OTHER, format!("messages are lost: {why}"))),
            None => Ok(()),
        }
    }

    /// The process may send again after [`Process::rest`]. A thread that may not call changes nothing: it cannot send.
    pub fn resume(&self) {
        if let Ok(mut domain) = self.domain.try_enter() {
            domain.lane.resume();
        }
    }

    /// Does what others have asked for until they could see that this process has left MPI: they may wait for it, and it does not
    /// look again.
    pub fn answer_last(&self) {
        self.domain.lock().lane.look_last();
        self.wait_for(&Awaited::Said(&Domain::reason_of_sends), |domain| {
            domain.lane.is_drained().then_some(())
        });
    }

    /// Takes leave of the peers after [`Process::rest`], without waiting for anything: the program is about to end.
    pub fn take_leave(&self) {
        if let Ok(mut domain) = self.domain.try_enter() {
            domain.lane.end();
            // Everything is acknowledged, so nobody misses anything if a goodbye does not arrive.
            let _ = domain.lane.fabric_mut().leave();
        }
    }
}
