//! The two groups of an intercommunicator (MPI-5.0 section 7.6).

use super::Communicator;
use oxmpi_engine::{Lane, RankMap, Team};
use oxmpi_fabric::Fabric;
use oxmpi_wire::ContextId;
use std::sync::Arc;

/// The parts of an intercommunicator other than its team. An intercommunicator has three pairs of
/// contexts: one for both groups together, and one for each group.
#[derive(Debug)]
pub struct Inter {
    pub local: Arc<Team>,
    /// Both groups, the first one first, in the collective context of the communicator.
    pub union: Arc<Team>,
    pub is_first: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum CommShape {
    Intra { map: RankMap, rank: u32 },
    Inter(InterShape),
}

#[derive(Debug, Clone)]
pub(crate) struct InterShape {
    pub(crate) local: RankMap,
    pub(crate) remote: RankMap,
    pub(crate) rank: u32,
    pub(crate) is_first: bool,
}

impl CommShape {
    /// The shape with only the processes for which `stays` is true, in the same order. `None` if
    /// this process does not stay.
    pub(crate) fn without(self, stays: impl Fn(u32) -> bool) -> Option<CommShape> {
        let reduced = |map: &RankMap| {
            RankMap::new(map.processes().into_iter().filter(|p| stays(*p)).collect())
        };
        let rank_in = |before: &RankMap, after: &RankMap, rank| after.rank(before.process(rank)?);
        match self {
            CommShape::Intra { map, rank } => {
                let after = reduced(&map);
                Some(CommShape::Intra { rank: rank_in(&map, &after, rank)?, map: after })
            }
            CommShape::Inter(InterShape { local, remote, rank, is_first }) => {
                let after = reduced(&local);
                let rank = rank_in(&local, &after, rank)?;
                Some(CommShape::Inter(InterShape {
                    local: after,
                    remote: reduced(&remote),
                    rank,
                    is_first,
                }))
            }
        }
    }

    pub(super) fn is_inter(&self) -> bool {
        matches!(self, CommShape::Inter(_))
    }
}

impl InterShape {
    /// Opens the contexts. Their names are `id` for both groups, then one for each group.
    pub(super) fn open<F: Fabric>(self, lane: &mut Lane<F>, id: ContextId) -> (Arc<Team>, Inter) {
        let InterShape { local, remote, rank, is_first } = self;
        let (first, second) = if is_first { (&local, &remote) } else { (&remote, &local) };
        let union = RankMap::new(first.processes().into_iter().chain(second.processes()).collect());
        let union_rank = if is_first { rank } else { remote.size() + rank };
        let own = id.later(if is_first { 1 } else { 2 });
        let (team, union) = lane.open_inter_team((remote, rank), (union, union_rank), id);
        let local = lane.open_team(local, rank, own, false);
        (team, Inter { local, union, is_first })
    }
}

impl Communicator {
    /// Whether this is an intercommunicator (MPI_Comm_test_inter, MPI-5.0 section 7.6.1).
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.inter.is_some()
    }

    /// The parts that only an intercommunicator has.
    pub fn inter(&self) -> Option<&Inter> {
        self.inter.as_ref()
    }

    /// The processes of the local group.
    pub fn local_map(&self) -> &RankMap {
        match &self.inter {
            None => &self.team.map,
            Some(inter) => &inter.local.map,
        }
    }

    /// The processes of the remote group; in an intracommunicator, all processes.
    pub fn remote_map(&self) -> &RankMap {
        &self.team.map
    }

    /// The number of ranks to which messages can be sent (MPI_Comm_remote_size).
    pub fn remote_size(&self) -> i32 {
        self.team.size() as i32
    }

    /// The team of the collectives: all processes, in an order in which both groups agree. Both
    /// groups draw the same tags for this team.
    pub fn union(&self) -> &Arc<Team> {
        match &self.inter {
            None => &self.team,
            Some(inter) => &inter.union,
        }
    }

    /// The ranks of [`Communicator::union`] in the local group, and in the remote group.
    pub fn sides(&self) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
        let all = self.union().size();
        let first = match &self.inter {
            None => return (0..all, all..all),
            Some(Inter { local, is_first: true, .. }) => local.size(),
            Some(Inter { is_first: false, .. }) => self.team.size(),
        };
        match self.inter {
            Some(Inter { is_first: false, .. }) => (first..all, 0..first),
            _ => (0..first, first..all),
        }
    }

    pub(crate) fn shape(&self) -> CommShape {
        let (map, rank) = (self.team.map.clone(), self.team.rank);
        match &self.inter {
            None => CommShape::Intra { map, rank },
            Some(inter) => CommShape::Inter(InterShape {
                local: inter.local.map.clone(),
                remote: map,
                rank,
                is_first: inter.is_first,
            }),
        }
    }
}
