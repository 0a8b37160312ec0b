//! Communicators from groups alone (MPI-5.0 sections 7.4.2 and 7.6.2).
//!
//! Members of one job exchange the name over an internal communicator of all processes of the job.
//! Members of several jobs use a communicator for this one call. Its name is the hash of the string
//! tag, the group, and the number of earlier equal calls. Two string tags can have the same hash;
//! that matters only for simultaneous calls of the same processes.

use super::{Communicator, Heritage, Peer};
use crate::Process;
use crate::handler::ErrorHandler;
use oxmpi_abi::constants as abi;
use oxmpi_engine::RankMap;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_tuned::Component;
use oxmpi_wire::ContextId;

fn tag_of(string: &[u8], processes: impl Iterator<Item = u32>) -> i32 {
    (hash_of(string, processes.map(u64::from)) & 0x7fff_ffff) as i32
}

pub(crate) fn hash_of(string: &[u8], words: impl Iterator<Item = u64>) -> u32 {
    let words = words.flat_map(u64::to_le_bytes);
    let bytes = string.iter().copied().chain(words);
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The name of a communicator for one call with a string. A member is the universe of its launcher
/// and its number there. `turn` counts the calls with the same hash.
fn name_of_meeting(
    string: &[u8],
    members: &[(u64, u32)],
    turn: impl FnOnce(u32) -> u32,
) -> ContextId {
    let hash = hash_of(
        string,
        members.iter().flat_map(|(universe, number)| [*universe, u64::from(*number)]),
    );
    let name = hash_of(&turn(hash).to_le_bytes(), [u64::from(hash)].into_iter()) % NAMES + 1;
    ContextId::new(NOBODY, name)
}

/// The creator in the names of communicators for one call, since no process has this number.
const NOBODY: u32 = u32::MAX;
const NAMES: u32 = (1 << 30) - 1;

impl<F: Fabric> Process<F> {
    /// A communicator of the members of `group`, which all call (MPI_Comm_create_from_group);
    /// `None` for an empty group. It has the session of the group, and only one component if one is
    /// named. Errors: MPI_ERR_GROUP if this process is no member; MPI_ERR_INFO_VALUE if a component
    /// is named for processes of several jobs.
    pub fn create_from_group(
        &self,
        group: &Group,
        string_tag: &[u8],
        (errhandler, component): (ErrorHandler, Option<Component>),
    ) -> Result<Option<Communicator>> {
        if group.size() == 0 {
            return Ok(None);
        }
        if group.rank_of(self.rank).is_none() {
            let text = "the calling process is no member of the group";
            return Err(MpiError::new(abi::MPI_ERR_GROUP, text));
        }
        let heritage = Heritage { errhandler, origin: group.origin(), component };
        let processes: Vec<u32> = group.processes().collect();
        self.follow_component(component, !self.is_mixed(&processes))?;
        if !self.is_mixed(&processes) {
            return self.create_group_as(
                &self.meeting,
                group,
                tag_of(string_tag, group.processes()),
                heritage,
            );
        }
        let meeting = self.meeting_of(processes, string_tag)?;
        let made = self.create_group_as(&meeting, group, 0, heritage);
        self.forget(&meeting);
        made
    }

    fn is_mixed(&self, processes: &[u32]) -> bool {
        processes.iter().any(|process| self.meeting.team.map.rank(*process).is_none())
    }

    fn meeting_of(&self, processes: Vec<u32>, string_tag: &[u8]) -> Result<Communicator> {
        let members = self.identities(&processes)?;
        let map = RankMap::new(processes);
        let rank = map.rank(self.rank).ok_or_else(|| {
            MpiError::new(abi::MPI_ERR_INTERN, "the calling process is no member of the group")
        })?;
        let mut domain = self.domain.lock();
        let name = name_of_meeting(string_tag, &members, |hash| domain.foreign.next_meeting(hash));
        let team = domain.lane.open_team(map, rank, name, false);
        Ok(Communicator::new(team, self.meeting.heritage(), None))
    }

    /// An intercommunicator of two groups, whose members all call
    /// (MPI_Intercomm_create_from_groups). The leaders are ranks in their groups. If a component is
    /// named, only this one serves its collectives. Errors: MPI_ERR_GROUP if this process is no
    /// member of the local group, or if the groups overlap or come from different sessions;
    /// MPI_ERR_RANK if there is no such leader; MPI_ERR_INFO_VALUE if a component is named for
    /// processes of several jobs.
    pub fn intercomm_create_from_groups(
        &self,
        (local, local_leader): (&Group, i32),
        (remote, remote_leader): (&Group, i32),
        string_tag: &[u8],
        (errhandler, component): (ErrorHandler, Option<Component>),
    ) -> Result<Communicator> {
        local.check_origin(remote, "remote_group")?;
        if local.intersection(remote).size() > 0 {
            return Err(MpiError::new(abi::MPI_ERR_GROUP, "the two groups have members in common"));
        }
        let process = |rank: i32, group: &Group, name: &str| {
            usize::try_from(rank).ok().and_then(|rank| group.process(rank)).ok_or_else(|| {
                let text = format!("{name} is {rank}, in a group of {} processes", group.size());
                MpiError::new(abi::MPI_ERR_RANK, text)
            })
        };
        let leader = process(remote_leader, remote, "remote_leader")?;
        let own_leader = process(local_leader, local, "local_leader")?;
        let both: Vec<u32> = local.processes().chain(remote.processes()).collect();
        self.follow_component(component, !self.is_mixed(&both))?;
        let Some(own) = self.create_from_group(local, string_tag, (errhandler, None))? else {
            return Err(MpiError::new(abi::MPI_ERR_GROUP, "the local group is empty"));
        };
        self.name_component(&own, component)?;
        let tag = tag_of(string_tag, std::iter::empty());
        let leaders = [own_leader, leader];
        let meeting = match own_leader == self.rank && self.is_mixed(&leaders) {
            true => {
                let mut leaders: Vec<((u64, u32), u32)> =
                    self.identities(&leaders)?.into_iter().zip(leaders).collect();
                leaders.sort_unstable();
                Some(self.meeting_of(
                    leaders.into_iter().map(|(_, leader)| leader).collect(),
                    string_tag,
                )?)
            }
            false => None,
        };
        let comm = meeting.as_ref().unwrap_or(&self.meeting);
        let leader = comm.team.map.rank(leader).unwrap_or(0) as i32;
        let made = self.intercomm_create(&own, local_leader, Ok(Some(Peer { comm, leader, tag })));
        meeting.iter().for_each(|meeting| self.forget(meeting));
        self.close(&own);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::{name_of_meeting, tag_of};
    use std::collections::HashMap;

    #[test]
    fn a_string_has_a_tag() {
        let tag =
            |string: &str, processes: &[u32]| tag_of(string.as_bytes(), processes.iter().copied());
        assert!(
            ["", "a", "b", "org.example.solver"].iter().all(|string| tag(string, &[0, 1]) >= 0)
        );
        assert_ne!(tag("a", &[0, 1]), tag("b", &[0, 1]));
        assert_ne!(tag("a", &[0, 1]), tag("a", &[0, 2]));
        assert_eq!(tag("a", &[3, 0]), tag("a", &[3, 0]));
    }

    /// A server meets processes of one launcher, then processes of another launcher that have the
    /// same numbers and perhaps the same address. The calls of the first must not count for the
    /// second.
    #[test]
    fn processes_of_a_later_launcher_take_the_first_turn() {
        type Turns = HashMap<u32, u32>;
        let name = |turns: &mut Turns, members: &[(u64, u32)]| {
            name_of_meeting(b"all of us", members, |call| {
                let turn = turns.entry(call).or_default();
                *turn += 1;
                *turn
            })
        };
        let mut server = Turns::new();
        let mut names = Vec::new();
        for client in 8..10 {
            let members = [(7, 0), (client, 0), (client, 1)];
            let mut own = Turns::new();
            for _ in 0..3 {
                let here = name(&mut server, &members);
                assert_eq!(here, name(&mut own, &members));
                assert!(!names.contains(&here), "each call has a name of its own");
                names.push(here);
            }
        }
    }
}
