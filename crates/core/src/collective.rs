//! Collectives (MPI-5.0 chapter 6): a call is described, an algorithm chosen, its plan run.
//!
//! There is one form. A blocking collective starts a run and waits for its request; a nonblocking one hands the
//! request to the user. Only blocking ones of a few bytes go past the plans, to the control section of their
//! communicator (`control.rs`).

use crate::comm::Communicator;
use crate::control::Small;
use crate::errors::{self, of_plan};
use crate::process::{Process, Then, UserCall};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine, Run};
use oxmpi_engine::{RequestId, Team};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Member, Parameters, Shared, choose, make};
use std::sync::Arc;

impl<F: Fabric> Process<F> {
    /// Starts a collective. `call` names it with its counts; `buffers` are its memory. With [`Combine::User`], `user`
    /// is the function that combines.
    ///
    /// # Errors
    /// If no plan can be made of it, or there is no temporary space.
    pub fn start(
        &self,
        comm: &Communicator,
        call: Call,
        buffers: Buffers,
        combine: Combine,
        user: Option<UserCall>,
    ) -> Result<RequestId> {
        if comm.is_inter() {
            let text = "there are no collectives of intercommunicators yet but those that make communicators";
            return Err(MpiError::new(abi::MPI_ERR_UNSUPPORTED_OPERATION, text));
        }
        self.start_in((&comm.team, comm.next_tag()), call, buffers, combine, user, None)
    }

    /// Starts a collective of a team, told from others there by its tag. `then` is what follows from it, when it is over
    /// and its request is not complete yet.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub(crate) fn start_in(
        &self,
        (team, tag): (&Arc<Team>, i32),
        call: Call,
        buffers: Buffers,
        combine: Combine,
        user: Option<UserCall>,
        then: Option<Then<F>>,
    ) -> Result<RequestId> {
        let me = Member { rank: team.rank, size: team.size() };
        // What the selection looks at is the same on all ranks: counts by the standard, the element's size too.
        let unit = buffers.element.as_ref().map_or(1, |element| element.size());
        let bytes = call.count().map(|count| count.saturating_mul(unit));
        let algorithm = choose(call.collective(), me.size, Shared(bytes.0), call.commutative());
        let plan = make(algorithm, me, &call, &Parameters::default()).map_err(of_plan)?;
        let run = Run::new(plan, team.clone(), tag, buffers, combine)
            .map_err(|e| errors::of_fault(errors::fault_of(e)))?;
        let mut domain = self.domain.lock();
        let request = domain.start(run, user, then);
        drop(domain);
        // Its first messages leave now.
        self.look(|_| ());
        Ok(request)
    }

    /// Runs a collective to its end; arguments as in [`Process::start`].
    ///
    /// # Errors
    /// As [`Process::start`]; a process has failed.
    pub fn execute(
        &self,
        comm: &Communicator,
        call: Call,
        buffers: Buffers,
        combine: Combine,
        user: Option<UserCall>,
    ) -> Result<()> {
        if let Some(small) = Small::of(comm, &call, &buffers, &combine)
            && self.execute_small(comm, &small)?
        {
            return Ok(());
        }
        let request = self.start(comm, call, buffers, combine, user)?;
        self.wait(request).map(drop)
    }

    /// Runs a collective that combines nothing by a user's function, to its end.
    ///
    /// # Errors
    /// As [`Process::execute`].
    pub fn run(&self, comm: &Communicator, call: Call, buffers: Buffers, combine: Combine) -> Result<()> {
        self.execute(comm, call, buffers, combine, None)
    }
}
