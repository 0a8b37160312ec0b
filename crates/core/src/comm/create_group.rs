//! Communicators that only their members make (MPI-5.0 section 7.4.2).

use super::name::Naming;
use super::{Communicator, Heritage, Shape};
use crate::Process;
use oxmpi_engine::{RankMap, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_objects::group::Group;
use std::sync::Arc;

/// A communicator that the members of a group are making.
#[derive(Debug)]
pub struct CreateGroup {
    /// Complete when all members know its name.
    pub request: RequestId,
    naming: Naming,
    shape: Shape,
}

impl<F: Fabric> Process<F> {
    /// A communicator of the members of `group`, which alone call (MPI_Comm_create_group). `None` for who is no member.
    /// Calls at the same time are told apart by their tags.
    ///
    /// # Errors
    /// MPI_ERR_COMM of an intercommunicator; MPI_ERR_TAG; MPI_ERR_GROUP if a member is not in the communicator; a
    /// process has failed.
    pub fn create_group(&self, comm: &Communicator, group: &Group, tag: i32) -> Result<Option<Communicator>> {
        self.create_group_as(comm, group, tag, comm.heritage())
    }

    /// As [`Process::create_group`]; the communicator takes over `heritage`.
    pub(super) fn create_group_as(
        &self,
        comm: &Communicator,
        group: &Group,
        tag: i32,
        heritage: Heritage,
    ) -> Result<Option<Communicator>> {
        let Some(made) = self.start_create_group(comm, group, tag)? else { return Ok(None) };
        self.wait_for_name(&made.naming, made.shape, heritage).map(Some)
    }

    /// Begins [`Process::create_group`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub fn start_create_group(
        &self,
        comm: &Communicator,
        group: &Group,
        tag: i32,
    ) -> Result<Option<CreateGroup>> {
        comm.check_intra()?;
        self.check_tag(tag)?;
        comm.check_members(group)?;
        let Some(rank) = group.rank_of(self.rank) else { return Ok(None) };
        let (map, rank) = (RankMap::new(group.processes().collect()), rank as u32);
        // A team for the time of the naming, in the collective context of the communicator. Its tags are negative:
        // those of the collectives are not.
        let members = Arc::new(comm.team.part(map.clone(), rank));
        let naming = self.start_naming((&members, !tag), false)?;
        Ok(Some(CreateGroup { request: naming.request, naming, shape: Shape::Intra { map, rank } }))
    }

    /// Ends [`Process::start_create_group`], whose request is complete without an error.
    pub fn finish_create_group(&self, comm: &Communicator, made: CreateGroup) -> Communicator {
        self.finish_naming(&made.naming, made.shape, comm.heritage())
    }
}
