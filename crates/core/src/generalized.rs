//! Generalized requests (MPI-5.0 section 13.2), whose operation the program carries out. Their
//! completion is marked ([`oxmpi_engine::Completion::generalized`]): the caller of MPI_Wait or
//! MPI_Test then calls the program's functions for the status.

use crate::Process;
use crate::completion::stale;
use oxmpi_engine::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;

impl<F: Fabric> Process<F> {
    /// Opens a request for [`Process::complete_generalized`] (MPI_Grequest_start).
    pub fn start_generalized(&self) -> u64 {
        self.enter(|domain| domain.lane.open_external().raw())
    }

    /// Completes a generalized request, and wakes threads that wait for it (MPI_Grequest_complete).
    pub fn complete_generalized(&self, request: u64) -> Result<()> {
        let id = RequestId::from_raw(request);
        match self.enter(|domain| domain.lane.complete_generalized(id)) {
            true => Ok(()),
            false => Err(stale(request)),
        }
    }

    /// Frees a generalized request (MPI_Request_free).
    pub fn free_generalized(&self, request: u64) -> Result<()> {
        match self.domain.lock().lane.detach(RequestId::from_raw(request)) {
            true => Ok(()),
            false => Err(stale(request)),
        }
    }
}
