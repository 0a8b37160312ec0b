//! The end of a session, or of the World Model while a session is open (MPI-5.0, "The Sessions
//! Model"); and the state of a process that has neither.

use crate::buffered::BufferOf;
use crate::comm::Communicator;
use crate::process::Domain;
use crate::process::Process;
use crate::wait_reason::Awaited;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::origin::Origin;
use std::sync::Arc;

impl<F: Fabric> Process<F> {
    /// Ends a session: frees its communicators `comms` as disconnects would, and detaches its
    /// buffer. If the session is the last user of the process, all sent messages are delivered
    /// first. Errors: MPI_ERR_PENDING if the program has requests of open operations; the errors of
    /// [`Process::deliver_all`]. After an error nothing is freed.
    pub fn end_session(
        &self,
        origin: Origin,
        comms: &[Arc<Communicator>],
        is_last: bool,
    ) -> Result<()> {
        let held = self.look(|domain| {
            let of = |comm: &Arc<Communicator>| -> usize {
                let teams = comm
                    .teams()
                    .map(|team| domain.lane.held_in(team) + domain.collectives_in(team).0);
                teams.sum()
            };
            comms.iter().map(of).sum::<usize>()
        });
        if held > 0 {
            let text = format!(
                "{held} operations on communicators of the session are not complete: complete them first (MPI_Wait, MPI_Waitall)"
            );
            return Err(MpiError::new(abi::MPI_ERR_PENDING, text));
        }
        self.await_quiet(comms);
        if is_last {
            self.deliver_all()?;
        }
        // An error means that the session has no buffer.
        let _ = self.detach(BufferOf::Session(origin));
        self.close_all(comms);
        Ok(())
    }

    /// Waits until each message sent in these communicators has arrived or will arrive without this
    /// process, and until the detached collectives are complete. Then frees the communicators,
    /// except predefined ones. A receive with a freed request keeps its context until its message
    /// arrives.
    pub fn end_communicators(&self, comms: &[Arc<Communicator>]) {
        self.await_quiet(comms);
        self.close_all(comms);
    }

    fn await_quiet(&self, comms: &[Arc<Communicator>]) {
        self.wait_for(&Awaited::Described(&Domain::reason_of_sends), |domain| {
            let is_quiet = |comm: &Arc<Communicator>| {
                comm.teams().all(|team| {
                    !domain.lane.is_sending_in(team) && domain.collectives_in(team).1 == 0
                })
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

    /// Waits until each sent message has arrived or will arrive without this process, and until
    /// receives with freed requests are complete. Unlike after [`Process::drain`], messages are
    /// possible again later ([`Process::resume`]).
    pub fn rest(&self) {
        // Other ranks may still wait for an agreement whose coordinator has failed.
        self.domain.lock().leave_agreements();
        self.wait_for(&Awaited::Described(&Domain::reason_of_end), |domain| {
            let lane = &mut domain.lane;
            (lane.is_drained() && lane.are_receives_over() && lane.fabric_mut().rest())
                .then_some(())
        });
        self.domain.lock().reap();
    }

    /// [`Process::rest`], then [`Process::check_delivered`].
    pub fn deliver_all(&self) -> Result<()> {
        self.rest();
        self.check_delivered().inspect_err(|_| self.resume())
    }

    /// Checks after [`Process::rest`] or [`Process::drain`] that the sent messages have arrived.
    /// Errors: MPI_ERR_OTHER if the transport has given up a receiver that runs but could not be
    /// reached.
    pub fn check_delivered(&self) -> Result<()> {
        match self.domain.lock().lane.fabric_mut().lost_messages() {
            Some(why) => {
                Err(MpiError::new(abi::MPI_ERR_OTHER, format!("messages are lost: {why}")))
            }
            None => Ok(()),
        }
    }

    /// Allows sends after [`Process::rest`]. Does nothing on a thread that may not call MPI.
    pub fn resume(&self) {
        if let Ok(mut domain) = self.domain.try_enter() {
            domain.lane.resume();
        }
    }

    /// Serves requests that peers sent before they could see that this process has left MPI. The
    /// peers may wait for answers, and this process makes no progress later.
    pub fn answer_last(&self) {
        self.domain.lock().lane.look_last();
        self.wait_for(&Awaited::Described(&Domain::reason_of_sends), |domain| {
            domain.lane.is_drained().then_some(())
        });
    }

    /// Closes the connections after [`Process::rest`] without a wait, as the program is about to
    /// end.
    pub fn take_leave(&self) {
        if let Ok(mut domain) = self.domain.try_enter() {
            domain.lane.end();
            // All messages are acknowledged, so a lost goodbye does no harm.
            let _ = domain.lane.fabric_mut().leave();
        }
    }
}
