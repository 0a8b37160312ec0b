//! Duplicates (MPI-5.0 section 7.4.2).

use super::Communicator;
use super::name::Naming;
use crate::Process;
use oxmpi_engine::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_tuned::Component;

/// A communicator that is being duplicated.
#[derive(Debug)]
pub struct Dup {
    /// Complete when all know its name.
    pub request: RequestId,
    naming: Naming,
}

impl<F: Fabric> Process<F> {
    /// A communicator with the same groups and contexts of its own (MPI_Comm_dup). Collective.
    ///
    /// # Errors
    /// If a process has failed.
    pub fn dup(&self, comm: &Communicator) -> Result<Communicator> {
        self.dup_served_by(comm, None)
    }

    /// As [`Process::dup`]; if a component is named it alone serves the duplicate's collectives. All ranks name the same.
    ///
    /// # Errors
    /// As [`Process::dup`]; MPI_ERR_INFO_VALUE if one is named and there are ranks of several jobs.
    pub fn dup_served_by(&self, comm: &Communicator, component: Option<Component>) -> Result<Communicator> {
        self.heed(component, self.is_of_this_job(comm))?;
        let dup = self.start_dup(comm)?;
        let made = self.wait_for_name(&dup.naming, comm.shape(), comm.heritage_with(component))?;
        Ok(Communicator { topology: comm.topology.clone(), ..made })
    }

    /// Begins [`Process::dup`] without waiting.
    ///
    /// # Errors
    /// If a process has failed.
    pub fn start_dup(&self, comm: &Communicator) -> Result<Dup> {
        let naming = self.start_naming((comm.union(), comm.next_tag()), comm.is_inter())?;
        Ok(Dup { request: naming.request, naming })
    }

    /// Ends [`Process::start_dup`], whose request is complete without an error.
    pub fn finish_dup(&self, comm: &Communicator, dup: &Dup) -> Communicator {
        let made = self.finish_naming(&dup.naming, comm.shape(), comm.heritage());
        Communicator { topology: comm.topology.clone(), ..made }
    }

    /// As [`Process::dup_served_by`], but returns at once (MPI_Comm_idup). What the duplicate inherits is what `comm` has now.
    /// `deliver` gets the communicator just before the request is complete; it is called by whoever makes progress,
    /// with the lane locked: it must not wait or call the process.
    ///
    /// # Errors
    /// If it could not be started. If a process fails later the request says so, and nothing is delivered.
    pub fn idup(
        &self,
        comm: &Communicator,
        component: Option<Component>,
        deliver: impl FnOnce(Communicator) + Send + 'static,
    ) -> Result<RequestId> {
        self.heed(component, self.is_of_this_job(comm))?;
        let heir = (comm.shape(), comm.heritage_with(component));
        let topology = comm.topology.clone();
        let deliver = move |made| deliver(Communicator { topology, ..made });
        self.start_naming_then((comm.union(), comm.next_immediate_tag()), heir, deliver)
    }

    /// Takes part in a duplication ([`Process::idup`]) of which this process has no use: something is wrong here, and the
    /// others must not wait.
    ///
    /// # Errors
    /// As [`Process::idup`].
    pub fn idup_for_others(&self, comm: &Communicator) -> Result<()> {
        let heir = (comm.shape(), comm.heritage());
        let request = self.start_naming_for_others((comm.union(), comm.next_immediate_tag()), heir)?;
        self.domain.lock().lane.detach(request);
        Ok(())
    }
}
