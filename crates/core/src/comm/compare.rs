//! Groups of communicators, and comparisons of communicators (MPI-5.0 sections 7.3.2 and 7.4.1).

use super::Communicator;
use oxmpi_abi::constants as abi;
use oxmpi_engine::RankMap;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::{self, Group};

/// The result of MPI_Comm_compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommComparison {
    Identical,
    /// The same processes in the same order, with other contexts.
    Congruent,
    /// The same processes in another order.
    Similar,
    Unequal,
}

fn group_of(map: &RankMap) -> Result<Group> {
    match map {
        RankMap::Identity(len) => Group::contiguous(0, *len),
        RankMap::Table { processes, .. } => Group::new(processes),
    }
}

impl Communicator {
    /// The local group (MPI_Comm_group).
    pub fn group(&self) -> Result<Group> {
        Ok(group_of(self.local_map())?.from_origin(self.origin()))
    }

    /// The remote group (MPI_Comm_remote_group).
    pub fn remote_group(&self) -> Result<Group> {
        self.check_inter()?;
        Ok(group_of(self.remote_map())?.from_origin(self.origin()))
    }

    /// Errors: MPI_ERR_COMM if this is no intercommunicator.
    pub fn check_inter(&self) -> Result<()> {
        if self.is_inter() {
            return Ok(());
        }
        let text = "the communicator is an intracommunicator; this call is for intercommunicators";
        Err(MpiError::new(abi::MPI_ERR_COMM, text))
    }

    /// Errors: MPI_ERR_COMM if this is no intracommunicator.
    pub fn check_intra(&self) -> Result<()> {
        if !self.is_inter() {
            return Ok(());
        }
        let text = "the communicator is an intercommunicator; this call is for intracommunicators";
        Err(MpiError::new(abi::MPI_ERR_COMM, text))
    }

    /// MPI_Comm_compare. For intercommunicators both groups count. Errors: MPI_ERR_COMM if the two
    /// come from different sessions.
    pub fn compare(&self, other: &Communicator) -> Result<CommComparison> {
        self.check_origin(other, "comm2")?;
        if self.team.id == other.team.id {
            return Ok(CommComparison::Identical);
        }
        if self.is_inter() != other.is_inter() {
            return Ok(CommComparison::Unequal);
        }
        let mut groups = vec![self.group()?.compare(&other.group()?)];
        if self.is_inter() {
            groups.push(self.remote_group()?.compare(&other.remote_group()?));
        }
        Ok(if groups.contains(&group::GroupRelation::Unequal) {
            CommComparison::Unequal
        } else if groups.contains(&group::GroupRelation::Similar) {
            CommComparison::Similar
        } else {
            CommComparison::Congruent
        })
    }

    pub(super) fn check_members(&self, group: &Group) -> Result<()> {
        let outsider =
            group.processes().position(|process| self.local_map().rank(process).is_none());
        match outsider {
            None => Ok(()),
            Some(rank) => Err(MpiError::new(
                abi::MPI_ERR_GROUP,
                format!(
                    "the process with rank {rank} in the group is not in the communicator's group"
                ),
            )),
        }
    }
}
