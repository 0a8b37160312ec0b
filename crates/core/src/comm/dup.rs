//! Duplicates of communicators (MPI-5.0 section 7.4.2).

use super::Communicator;
use super::name::Naming;
use crate::Process;
use crate::process::Domain;
use oxmpi_engine::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_tuned::Component;

/// A communicator that is being duplicated.
#[derive(Debug)]
pub struct Dup {
    pub request: RequestId,
    naming: Naming,
}

impl<F: Fabric> Process<F> {
    /// A communicator with the same groups and new contexts (MPI_Comm_dup). Collective.
    pub fn dup(&self, comm: &Communicator) -> Result<Communicator> {
        self.dup_served_by(comm, None)
    }

    /// [`Process::dup`] with this component as the only one for the collectives of the duplicate,
    /// if it is `Some`. All ranks must name the same. Errors: MPI_ERR_INFO_VALUE if a component is
    /// named and the ranks belong to several jobs.
    pub fn dup_served_by(
        &self,
        comm: &Communicator,
        component: Option<Component>,
    ) -> Result<Communicator> {
        self.follow_component(component, self.is_of_this_job(comm))?;
        let dup = self.start_dup(comm)?;
        let made = self.wait_for_name(&dup.naming, comm.shape(), comm.heritage_with(component))?;
        Ok(Communicator { topology: comm.topology.clone(), ..made })
    }

    /// Starts [`Process::dup`].
    pub fn start_dup(&self, comm: &Communicator) -> Result<Dup> {
        let naming = self.start_naming((comm.union(), comm.next_tag()), comm.is_inter())?;
        Ok(Dup { request: naming.request, naming })
    }

    /// Completes [`Process::start_dup`] after its request succeeded.
    pub fn finish_dup(&self, comm: &Communicator, dup: &Dup) -> Communicator {
        let made = self.finish_naming(&dup.naming, comm.shape(), comm.heritage());
        Communicator { topology: comm.topology.clone(), ..made }
    }

    /// Nonblocking [`Process::dup_served_by`] (MPI_Comm_idup). Progress passes the communicator to
    /// `deliver` just before the request is complete, with the lane locked, so `deliver` must not
    /// wait or call the process. If a process fails after the start, the request reports the
    /// failure and `deliver` is not called.
    pub fn idup(
        &self,
        comm: &Communicator,
        component: Option<Component>,
        deliver: impl FnOnce(Communicator) + Send + 'static,
    ) -> Result<RequestId> {
        self.follow_component(component, self.is_of_this_job(comm))?;
        let heir = (comm.shape(), comm.heritage_with(component));
        let topology = comm.topology.clone();
        let deliver = move |_: &mut _, made| deliver(Communicator { topology, ..made });
        self.start_naming_then((comm.union(), comm.next_immediate_tag()), heir, deliver)
    }

    /// Takes part in [`Process::idup`] at a rank with an error, so that the other ranks need not
    /// wait.
    pub fn idup_for_others(&self, comm: &Communicator) -> Result<()> {
        let heir = (comm.shape(), comm.heritage());
        let close = |domain: &mut Domain<F>, made: Communicator| {
            domain.closing.extend(made.teams().cloned());
            domain.foreign.released(&made);
        };
        let at = (comm.union(), comm.next_immediate_tag());
        let request = self.start_naming_then(at, heir, close)?;
        self.domain.lock().lane.detach(request);
        Ok(())
    }
}
