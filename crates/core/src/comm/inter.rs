//! The two groups of an intercommunicator (MPI-5.0 section 7.6).

use super::Communicator;
use oxmpi_engine::{Lane, RankMap, Team};
use oxmpi_fabric::Fabric;
use oxmpi_wire::ContextId;
use std::sync::Arc;

/// What an intercommunicator has beside the team to which its messages go.
///
/// It has three pairs of contexts. Its own one carries the messages between the groups and the collectives of all;
/// each group has another for itself.
#[derive(Debug)]
pub struct Inter {
    /// The local group alone, with contexts of its own. Its ranks are those of the group.
    pub local: Arc<Team>,
    /// Both groups, the first before the second, in the collective context of the communicator.
    pub union: Arc<Team>,
    /// Whether the local group is the first. The two groups see it differently.
    pub is_first: bool,
}

/// Whom a new communicator connects.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// One group.
    Intra {
        /// Its processes.
        map: RankMap,
        /// The rank of this one.
        rank: u32,
    },
    /// Two groups.
    Inter(InterShape),
}

/// The groups of a new intercommunicator.
#[derive(Debug, Clone)]
pub(crate) struct InterShape {
    pub(crate) local: RankMap,
    pub(crate) remote: RankMap,
    /// Rank of this process in the local group.
    pub(crate) rank: u32,
    pub(crate) is_first: bool,
}

impl Shape {
    /// The same without some processes: those that remain keep their order. `None`: this process is not among them.
    pub(crate) fn without(self, stays: impl Fn(u32) -> bool) -> Option<Shape> {
        let reduced =
            |map: &RankMap| RankMap::new(map.processes().into_iter().filter(|p| stays(*p)).collect());
        let rank_in = |before: &RankMap, after: &RankMap, rank| after.rank(before.process(rank)?);
        match self {
            Shape::Intra { map, rank } => {
                let after = reduced(&map);
                Some(Shape::Intra { rank: rank_in(&map, &after, rank)?, map: after })
            }
            Shape::Inter(InterShape { local, remote, rank, is_first }) => {
                let after = reduced(&local);
                let rank = rank_in(&local, &after, rank)?;
                Some(Shape::Inter(InterShape { local: after, remote: reduced(&remote), rank, is_first }))
            }
        }
    }

    pub(super) fn is_inter(&self) -> bool {
        matches!(self, Shape::Inter(_))
    }
}

impl InterShape {
    /// Opens the contexts, which are named from `id` on: for all, for the first group, for the second.
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
    /// Whether it has two groups (MPI_Comm_test_inter, MPI-5.0 section 7.6.1).
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.inter.is_some()
    }

    /// Its two groups, if it has two.
    pub fn inter(&self) -> Option<&Inter> {
        self.inter.as_ref()
    }

    /// The processes of this process's group.
    pub fn local_map(&self) -> &RankMap {
        match &self.inter {
            None => &self.team.map,
            Some(inter) => &inter.local.map,
        }
    }

    /// The processes of the other group of an intercommunicator. Those of an intracommunicator are all in one group.
    pub fn remote_map(&self) -> &RankMap {
        &self.team.map
    }

    /// The number of ranks to which messages can be sent (MPI_Comm_remote_size of an intercommunicator).
    pub fn remote_size(&self) -> i32 {
        self.team.size() as i32
    }

    /// All processes, in an order on which they agree: the team of its collectives.
    ///
    /// Their tags are drawn by all alike, whichever group they are in.
    pub fn union(&self) -> &Arc<Team> {
        match &self.inter {
            None => &self.team,
            Some(inter) => &inter.union,
        }
    }

    /// The ranks in [`Communicator::union`] that are of the local group, and of the remote one.
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

    /// Whom a communicator of the same processes connects.
    pub(crate) fn shape(&self) -> Shape {
        let (map, rank) = (self.team.map.clone(), self.team.rank);
        match &self.inter {
            None => Shape::Intra { map, rank },
            Some(inter) => Shape::Inter(InterShape {
                local: inter.local.map.clone(),
                remote: map,
                rank,
                is_first: inter.is_first,
            }),
        }
    }
}
