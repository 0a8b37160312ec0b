//! The processes of a communicator, and the contexts that separate its messages from all others.

use oxmpi_wire::ContextId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ranks to process indices and back.
#[derive(Debug, Clone)]
pub enum RankMap {
    /// Rank r is process r, for this number of ranks.
    Identity(u32),
    Table {
        processes: Box<[u32]>,
        ranks: HashMap<u32, u32>,
    },
}

impl RankMap {
    /// Rank r is `processes[r]`.
    pub fn new(processes: Vec<u32>) -> RankMap {
        if processes.iter().enumerate().all(|(r, p)| r as u32 == *p) {
            return RankMap::Identity(processes.len() as u32);
        }
        let ranks = processes.iter().enumerate().map(|(r, p)| (*p, r as u32)).collect();
        RankMap::Table { processes: processes.into(), ranks }
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        match self {
            RankMap::Identity(n) => *n,
            RankMap::Table { processes, .. } => processes.len() as u32,
        }
    }

    /// The process index of each rank, in the order of the ranks.
    pub fn processes(&self) -> Vec<u32> {
        match self {
            RankMap::Identity(n) => (0..*n).collect(),
            RankMap::Table { processes, .. } => processes.to_vec(),
        }
    }

    /// Process index of a rank; `None` if there is no such rank.
    #[inline(always)]
    pub fn process(&self, rank: u32) -> Option<u32> {
        match self {
            RankMap::Identity(n) if rank < *n => Some(rank),
            RankMap::Identity(_) => None,
            RankMap::Table { processes, .. } => processes.get(rank as usize).copied(),
        }
    }

    /// Rank of a process; `None` if the map does not contain the process.
    #[inline(always)]
    pub fn rank(&self, process: u32) -> Option<u32> {
        match self {
            RankMap::Identity(n) if process < *n => Some(process),
            RankMap::Identity(_) => None,
            RankMap::Table { ranks, .. } => ranks.get(&process).copied(),
        }
    }

    /// Whether this map contains all processes of the other map.
    pub fn contains_all(&self, other: &RankMap) -> bool {
        match (self, other) {
            (RankMap::Identity(here), RankMap::Identity(there)) => there <= here,
            (_, RankMap::Identity(there)) => {
                (0..*there).all(|process| self.rank(process).is_some())
            }
            (_, RankMap::Table { processes, .. }) => {
                processes.iter().all(|process| self.rank(*process).is_some())
            }
        }
    }
}

/// A group of processes with a pair of contexts.
#[derive(Debug)]
pub struct Team {
    pub map: RankMap,
    pub rank: u32,
    /// The global name of the point-to-point context; `id.collective()` is that of the collective
    /// one.
    pub id: ContextId,
    /// This process's index of the point-to-point context.
    pub point_to_point: u32,
    /// This process's index of the collective context.
    pub collective: u32,
    revoked: AtomicBool,
}

impl Team {
    /// A team with the context pair `id`, whose indices in this process are given.
    pub(crate) fn new(
        map: RankMap,
        rank: u32,
        id: ContextId,
        [point_to_point, collective]: [u32; 2],
    ) -> Team {
        Team { map, rank, id, point_to_point, collective, revoked: AtomicBool::new(false) }
    }

    /// Whether this process knows that the communicator was revoked.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    /// A subset of the processes, with the same contexts.
    #[must_use]
    pub fn part(&self, map: RankMap, rank: u32) -> Team {
        let part = Team::new(map, rank, self.id, [self.point_to_point, self.collective]);
        part.revoked.store(self.is_revoked(), Ordering::Relaxed);
        part
    }

    pub(crate) fn set_revoked(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        self.map.size()
    }
}
