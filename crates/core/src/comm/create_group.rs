//! MPI_Comm_create_group, which only the members of the group call (MPI-5.0 section 7.4.2).

use super::name::Naming;
use super::{CommShape, Communicator, Heritage};
use crate::Process;
use oxmpi_engine::{RankMap, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_objects::group::Group;
use std::sync::Arc;

/// A communicator that the members of a group are making.
#[derive(Debug)]
pub struct CreateGroup {
    pub request: RequestId,
    naming: Naming,
    shape: CommShape,
}

impl<F: Fabric> Process<F> {
    /// A communicator of the members of `group` (MPI_Comm_create_group). Only these members call;
    /// any other caller gets `None`. Different tags separate simultaneous calls.
    pub fn create_group(
        &self,
        comm: &Communicator,
        group: &Group,
        tag: i32,
    ) -> Result<Option<Communicator>> {
        self.create_group_as(comm, group, tag, comm.heritage())
    }

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

    /// Starts [`Process::create_group`].
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
        // A temporary team in the collective context of the communicator. Its tags are negative;
        // those of collectives are not.
        let members = Arc::new(comm.team.part(map.clone(), rank));
        let naming = self.start_naming((&members, !tag), false)?;
        Ok(Some(CreateGroup {
            request: naming.request,
            naming,
            shape: CommShape::Intra { map, rank },
        }))
    }

    /// Completes [`Process::start_create_group`] after its request succeeded.
    pub fn finish_create_group(&self, comm: &Communicator, made: CreateGroup) -> Communicator {
        self.finish_naming(&made.naming, made.shape, comm.heritage())
    }
}
