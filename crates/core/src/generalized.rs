//! Generalized requests (MPI-5.0 section 13.2): requests whose operation the program carries out itself.
//!
//! The engine knows only whether one is complete. What it has to say then comes from the program's functions, which are
//! called by whoever owns the request: its completion is marked so ([`oxmpi_engine::Completion::generalized`]), and it is never
//! among those that went well without a further question ([`Process::take_good`]).

use crate::Process;
use crate::completion::stale;
use oxmpi_engine::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;

impl<F: Fabric> Process<F> {
    /// A request that is complete when [`Process::complete_generalized`] says so (MPI_Grequest_start).
    pub fn start_generalized(&self) -> u64 {
        self.enter(|domain| domain.lane.open_external().raw())
    }

    /// The operation of a generalized request is over (MPI_Grequest_complete). Whoever waits for it is woken.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST if there is no such request.
    pub fn complete_generalized(&self, request: u64) -> Result<()> {
        let id = RequestId::from_raw(request);
        match self.enter(|domain| domain.lane.complete_generalized(id)) {
            true => Ok(()),
            false => Err(stale(request)),
        }
    }

    /// Nobody will ask for a generalized request any more (MPI_Request_free).
    ///
    /// # Errors
    /// MPI_ERR_REQUEST if there is no such request.
    pub fn free_generalized(&self, request: u64) -> Result<()> {
        match self.domain.lock().lane.detach(RequestId::from_raw(request)) {
            true => Ok(()),
            false => Err(stale(request)),
        }
    }
}
