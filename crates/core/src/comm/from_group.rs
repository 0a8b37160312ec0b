//! Communicators from groups alone (MPI-5.0 sections 7.4.2 and 7.6.2): no communicator is named whose messages could carry the
//! exchange.
//!
//! Those of a communicator that no program sees do: it has all processes of the job, and is there also without the World
//! Model. A call is told from others at the same time by its string tag and its group, of which a number is made; that of two different
//! strings can be the same, but then it takes calls of the same processes at the same time to notice.

use super::{Communicator, Heritage, Peer};
use crate::Process;
use crate::handler::ErrorHandler;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;

/// A tag that stands for a string and processes (FNV-1a, 31 bits of it).
fn tag_of(string: &[u8], processes: impl Iterator<Item = u32>) -> i32 {
    let processes = processes.flat_map(u32::to_le_bytes);
    let hash = string
        .iter()
        .copied()
        .chain(processes)
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash & 0x7fff_ffff) as i32
}

impl<F: Fabric> Process<F> {
    /// A communicator of the members of `group`, all of which call (MPI_Comm_create_from_group). `None` if there are none.
    /// It gets this error handler, and comes from where the group does.
    ///
    /// # Errors
    /// MPI_ERR_GROUP if this process is no member; a process has failed.
    pub fn create_from_group(
        &self,
        group: &Group,
        string_tag: &[u8],
        errhandler: ErrorHandler,
    ) -> Result<Option<Communicator>> {
        if group.size() == 0 {
            return Ok(None);
        }
        if group.rank_of(self.rank).is_none() {
            let text = "the calling process is no member of the group";
            return Err(MpiError::new(abi::MPI_ERR_GROUP, text));
        }
        let heritage = Heritage { errhandler, origin: group.origin(), component: None };
        self.create_group_as(&self.meeting, group, tag_of(string_tag, group.processes()), heritage)
    }

    /// An intercommunicator of two groups, all members of which call (MPI_Intercomm_create_from_groups). The leaders are
    /// ranks in their groups.
    ///
    /// # Errors
    /// MPI_ERR_GROUP if this process is no member of the local group, the groups have members in common, or come from
    /// different sessions; MPI_ERR_RANK if there is no such leader; a process has failed.
    pub fn intercomm_create_from_groups(
        &self,
        (local, local_leader): (&Group, i32),
        (remote, remote_leader): (&Group, i32),
        string_tag: &[u8],
        errhandler: ErrorHandler,
    ) -> Result<Communicator> {
        local.check_origin(remote, "remote_group")?;
        if local.intersection(remote).size() > 0 {
            return Err(MpiError::new(abi::MPI_ERR_GROUP, "the two groups have members in common"));
        }
        let leader = usize::try_from(remote_leader).ok().and_then(|rank| remote.process(rank));
        let Some(leader) = leader else {
            let text = format!("remote_leader is {remote_leader}, in a group of {} processes", remote.size());
            return Err(MpiError::new(abi::MPI_ERR_RANK, text));
        };
        let Some(own) = self.create_from_group(local, string_tag, errhandler)? else {
            return Err(MpiError::new(abi::MPI_ERR_GROUP, "the local group is empty"));
        };
        let peer =
            Peer { comm: &self.meeting, leader: leader as i32, tag: tag_of(string_tag, std::iter::empty()) };
        let made = self.intercomm_create(&own, local_leader, Ok(Some(peer)));
        self.close(&own);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::tag_of;

    #[test]
    fn a_string_has_a_tag() {
        let tag = |string: &str, processes: &[u32]| tag_of(string.as_bytes(), processes.iter().copied());
        assert!(["", "a", "b", "org.example.solver"].iter().all(|string| tag(string, &[0, 1]) >= 0));
        assert_ne!(tag("a", &[0, 1]), tag("b", &[0, 1]));
        assert_ne!(tag("a", &[0, 1]), tag("a", &[0, 2]));
        assert_eq!(tag("a", &[3, 0]), tag("a", &[3, 0]));
    }
}
