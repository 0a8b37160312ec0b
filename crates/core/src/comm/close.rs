//! The end of a communicator (MPI-5.0 sections 7.4.3 and 11.10.4).

use super::Communicator;
use crate::Process;
use oxmpi_fabric::Fabric;

impl<F: Fabric> Process<F> {
    /// Frees a communicator; what is under way in it goes on (MPI_Comm_free).
    pub fn close(&self, comm: &Communicator) {
        if let Some(control) = &comm.control {
            self.leave(comm, control);
        }
        let mut domain = self.domain.lock();
        domain.forget_agreements(comm.union());
        domain.closing.extend(comm.teams().cloned());
        domain.reap();
    }

    /// Waits until nothing is under way in the communicator, then frees it (MPI_Comm_disconnect). Collective, but
    /// nobody waits for the others: only for their part in what this process has begun.
    pub fn disconnect(&self, comm: &Communicator) {
        self.wait_for(|domain| (!comm.teams().any(|team| domain.is_busy(team))).then_some(()));
        self.close(comm);
    }
}
