//! Ordered sets of processes (MPI-5.0 section 7.3).
//!
//! A process has an index among the processes that this process knows. Most groups are a range of
//! indices and are stored as a range: a world of a million ranks needs 16 bytes.

use crate::error::{MpiError, Result};
use crate::origin::Origin;
use crate::shown::{self, ValueKind};
use oxmpi_abi::constants as abi;

/// An ordered set of processes. The rank of a process is its position.
#[derive(Clone, Debug)]
pub struct Group {
    members: Members,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Members {
    /// Processes `first..first + len`.
    Range { first: u32, len: u32 },
    Table {
        by_rank: Box<[u32]>,
        /// (process, rank), sorted by process.
        by_process: Box<[(u32, u32)]>,
    },
}

/// The relation of two groups (`MPI_Group_compare`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRelation {
    Identical,
    Similar,
    Unequal,
}

impl Group {
    /// Processes `first..first + len` in order. Fails with `MPI_ERR_ARG` if the indices overflow.
    pub fn contiguous(first: u32, len: u32) -> Result<Group> {
        if first.checked_add(len).is_none() {
            return Err(MpiError::new(
                abi::MPI_ERR_ARG,
                format!("a group of {len} processes from {first} on"),
            ));
        }
        Ok(Group { members: Members::Range { first, len }, origin: Origin::WORLD })
    }

    /// These processes in this order. Fails with `MPI_ERR_RANK` if a process appears twice.
    pub fn new(processes: &[u32]) -> Result<Group> {
        let first = processes.first().copied().unwrap_or(0);
        let too_many = |_| {
            MpiError::new(abi::MPI_ERR_ARG, format!("a group of {} processes", processes.len()))
        };
        let len = u32::try_from(processes.len()).map_err(too_many)?;
        if processes.iter().zip(0..).all(|(&p, rank)| first.checked_add(rank) == Some(p)) {
            return Ok(Group { members: Members::Range { first, len }, origin: Origin::WORLD });
        }
        let mut by_process: Vec<(u32, u32)> = processes.iter().copied().zip(0..).collect();
        by_process.sort_unstable();
        if let Some(w) = by_process.windows(2).find(|w| w[0].0 == w[1].0) {
            let text = format!("ranks {} and {} are the same process", w[0].1, w[1].1);
            return Err(MpiError::new(abi::MPI_ERR_RANK, text));
        }
        let members = Members::Table { by_rank: processes.into(), by_process: by_process.into() };
        Ok(Group { members, origin: Origin::WORLD })
    }

    /// The group without processes (`MPI_GROUP_EMPTY`).
    pub const EMPTY: Group =
        Group { members: Members::Range { first: 0, len: 0 }, origin: Origin::WORLD };

    /// The same processes, from this origin.
    pub fn from_origin(self, origin: Origin) -> Group {
        Group { origin, ..self }
    }

    /// The origin, which groups made from this one inherit. A group made from two has the origin of
    /// the first that is not empty.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Fails with `MPI_ERR_GROUP` if two groups of a call come from different sessions.
    /// MPI_GROUP_EMPTY fits all. `what` names the other group in the message.
    pub fn check_origin(&self, other: &Group, what: &str) -> Result<()> {
        if self.is_empty() || other.is_empty() {
            return Ok(());
        }
        self.origin.check_same(other.origin, abi::MPI_ERR_GROUP, what)
    }

    /// Whether the group has no processes.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// The number of processes.
    #[inline]
    pub fn size(&self) -> usize {
        match &self.members {
            Members::Range { len, .. } => *len as usize,
            Members::Table { by_rank, .. } => by_rank.len(),
        }
    }

    /// The process with this rank.
    #[inline]
    pub fn process(&self, rank: usize) -> Option<u32> {
        match &self.members {
            Members::Range { first, len } => (rank < *len as usize).then(|| first + rank as u32),
            Members::Table { by_rank, .. } => by_rank.get(rank).copied(),
        }
    }

    /// The rank of this process, if it is a member.
    #[inline]
    pub fn rank_of(&self, process: u32) -> Option<usize> {
        match &self.members {
            Members::Range { first, len } => {
                process.checked_sub(*first).filter(|rank| rank < len).map(|rank| rank as usize)
            }
            Members::Table { by_process, .. } => {
                let at = by_process.binary_search_by_key(&process, |entry| entry.0).ok()?;
                Some(by_process[at].1 as usize)
            }
        }
    }

    /// The processes by rank.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).filter_map(|rank| self.process(rank))
    }

    fn member(&self, rank: i32, what: impl FnOnce() -> String) -> Result<u32> {
        usize::try_from(rank).ok().and_then(|r| self.process(r)).ok_or_else(|| {
            let text = format!("{}, in a group of {} processes", what(), self.size());
            MpiError::new(abi::MPI_ERR_RANK, text)
        })
    }

    /// The rank in `other` of each of `ranks` (`MPI_Group_translate_ranks`): MPI_UNDEFINED for a
    /// process that is not in `other`, and MPI_PROC_NULL for MPI_PROC_NULL. Fails with
    /// `MPI_ERR_RANK` for other ranks that are no members.
    pub fn translate(&self, ranks: &[i32], other: &Group) -> Result<Vec<i32>> {
        let translated = ranks.iter().enumerate().map(|(i, &rank)| match rank {
            abi::MPI_PROC_NULL => Ok(abi::MPI_PROC_NULL),
            rank => {
                let process = self.member(rank, || {
                    format!("ranks1[{i}] is {}", shown::number(ValueKind::Rank, rank))
                })?;
                Ok(other.rank_of(process).map_or(abi::MPI_UNDEFINED, |there| there as i32))
            }
        });
        translated.collect()
    }

    /// The members with these ranks, in this order (`MPI_Group_incl`). Fails with `MPI_ERR_RANK` if
    /// a rank is no member or appears twice.
    pub fn include(&self, ranks: &[i32]) -> Result<Group> {
        let chosen: Result<Vec<u32>> = ranks
            .iter()
            .enumerate()
            .map(|(i, &r)| {
                self.member(r, || format!("ranks[{i}] is {}", shown::number(ValueKind::Rank, r)))
            })
            .collect();
        let chosen = chosen?;
        self.check_distinct(ranks)?;
        Ok(Group::new(&chosen)?.from_origin(self.origin))
    }

    /// Fails if a rank appears twice. All ranks are members.
    fn check_distinct(&self, ranks: &[i32]) -> Result<()> {
        let mut seen = vec![None; self.size()];
        for (i, rank) in ranks.iter().enumerate() {
            if let Some(before) = seen[*rank as usize].replace(i) {
                let text = format!("rank {rank} is named twice, as number {before} and number {i}");
                return Err(MpiError::new(abi::MPI_ERR_RANK, text));
            }
        }
        Ok(())
    }

    /// All members but those with these ranks (`MPI_Group_excl`). Fails as
    /// [`include`](Self::include) does.
    pub fn exclude(&self, ranks: &[i32]) -> Result<Group> {
        let out = self.include(ranks)?;
        Ok(self.difference(&out))
    }

    /// The ranks of triplets (first, last, stride) (`MPI_Group_range_incl` and `_excl`). Fails with
    /// `MPI_ERR_ARG` for a stride that does not lead to the last rank. Fails with `MPI_ERR_RANK`
    /// for a first or last rank that is no member, and for a rank that appears twice.
    pub fn expand_ranges(&self, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for (i, &[first, last, stride]) in ranges.iter().enumerate() {
            self.member(first, || format!("the first rank of range {i} is {first}"))?;
            self.member(last, || format!("the last rank of range {i} is {last}"))?;
            if stride == 0 || (stride > 0 && first > last) || (stride < 0 && first < last) {
                let text = format!(
                    "the stride of range {i} is {stride}: it does not lead from {first} to {last}"
                );
                return Err(MpiError::new(abi::MPI_ERR_ARG, text));
            }
            let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
            // Distinct ranks are no more than the members, so a longer list has some rank twice.
            ranks.extend((0..=steps).map(|n| (i64::from(first) + n * i64::from(stride)) as i32));
            if ranks.len() > self.size() {
                break;
            }
        }
        self.check_distinct(&ranks)?;
        Ok(ranks)
    }

    /// The members of this group, then the members of `other` that are not in this group.
    pub fn union(&self, other: &Group) -> Group {
        let all = self.processes().chain(other.processes().filter(|&p| self.rank_of(p).is_none()));
        let origin = if self.is_empty() { other.origin } else { self.origin };
        self.filtered(all).from_origin(origin)
    }

    /// The members that are also in `other`, in the order of this group.
    pub fn intersection(&self, other: &Group) -> Group {
        self.filtered(self.processes().filter(|&p| other.rank_of(p).is_some()))
    }

    /// The members that are not in `other`, in the order of this group.
    pub fn difference(&self, other: &Group) -> Group {
        self.filtered(self.processes().filter(|&p| other.rank_of(p).is_none()))
    }

    fn filtered(&self, processes: impl Iterator<Item = u32>) -> Group {
        let processes: Vec<u32> = processes.collect();
        Group::new(&processes).map_or_else(|_| self.clone(), |group| group.from_origin(self.origin))
    }

    /// The relation to another group.
    pub fn compare(&self, other: &Group) -> GroupRelation {
        if self.size() != other.size() {
            GroupRelation::Unequal
        } else if self.processes().eq(other.processes()) {
            GroupRelation::Identical
        } else if self.processes().all(|p| other.rank_of(p).is_some()) {
            GroupRelation::Similar
        } else {
            GroupRelation::Unequal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(g: &Group) -> Vec<u32> {
        g.processes().collect()
    }

    #[test]
    fn ranks_and_processes_are_inverse() {
        for g in [
            Group::contiguous(5, 4).unwrap(),
            Group::new(&[9, 2, 7]).unwrap(),
            Group::new(&[]).unwrap(),
        ] {
            assert!((0..g.size()).all(|r| g.rank_of(g.process(r).unwrap()) == Some(r)));
            assert_eq!((g.process(g.size()), g.rank_of(4), g.rank_of(100)), (None, None, None));
        }
        assert!(matches!(
            Group::new(&[3, 4, 5]).unwrap().members,
            Members::Range { first: 3, len: 3 }
        ));
        assert!(Group::contiguous(u32::MAX, 2).is_err());
    }

    #[test]
    fn subsets_keep_the_requested_order() {
        let g = Group::contiguous(10, 6).unwrap();
        let odd = g.include(&[5, 3, 1]).unwrap();
        assert_eq!(list(&odd), [15, 13, 11]);
        assert_eq!(list(&g.exclude(&[5, 3, 1]).unwrap()), [10, 12, 14]);
        assert_eq!(list(&odd.union(&g)), [15, 13, 11, 10, 12, 14]);
        assert_eq!(list(&g.intersection(&odd)), [11, 13, 15]);
        assert_eq!(list(&g.difference(&g)), []);
        assert_eq!(g.expand_ranges(&[[0, 3, 2], [5, 2, -4]]).unwrap(), [0, 2, 5]);
        assert_eq!(g.expand_ranges(&[[3, 3, 7], [4, 4, i32::MIN]]).unwrap(), [3, 4]);
        let same = g.include(&[0, 2, 2]).unwrap_err();
        let text = "rank 2 is named twice, as number 1 and number 2";
        assert_eq!((same.class(), same.detail()), (abi::MPI_ERR_RANK, text));
        assert_eq!(g.exclude(&[0, 2, 2]).unwrap_err().class(), abi::MPI_ERR_RANK);
        assert_eq!(
            g.include(&[6]).unwrap_err().detail(),
            "ranks[0] is 6, in a group of 6 processes"
        );
        assert!(g.include(&[-1]).is_err());
        assert!(list(&g.include(&[]).unwrap()).is_empty() && Group::EMPTY.is_empty());
    }

    #[test]
    fn wrong_ranges_have_distinct_errors() {
        let g = Group::contiguous(10, 6).unwrap();
        let class = |ranges: &[[i32; 3]]| g.expand_ranges(ranges).map_err(|e| e.class());
        for stride in [[0, 1, 0], [2, 2, 0], [1, 2, -1], [2, 1, 1], [5, 0, i32::MAX]] {
            assert_eq!(class(&[stride]), Err(abi::MPI_ERR_ARG), "{stride:?}");
        }
        for rank in [[0, 6, 1], [-1, 2, 1], [6, 0, -1], [0, -1, -1]] {
            assert_eq!(class(&[rank]), Err(abi::MPI_ERR_RANK), "{rank:?}");
        }
        assert_eq!(class(&[[0, 4, 2], [5, 1, -3]]), Err(abi::MPI_ERR_RANK));
        assert_eq!(class(&[[0, 5, 1]; 1000]), Err(abi::MPI_ERR_RANK));
        assert_eq!(class(&[]), Ok(vec![]));
    }

    #[test]
    fn ranks_are_translated() {
        let g = Group::contiguous(10, 4).unwrap();
        let other = Group::new(&[13, 11, 99]).unwrap();
        let ranks = [0, 1, abi::MPI_PROC_NULL, 3, 3];
        let there = [abi::MPI_UNDEFINED, 1, abi::MPI_PROC_NULL, 0, 0];
        assert_eq!(g.translate(&ranks, &other).unwrap(), there);
        let error = g.translate(&[0, 4], &other).unwrap_err();
        let text = "ranks1[1] is 4, in a group of 4 processes";
        assert_eq!((error.class(), error.detail()), (abi::MPI_ERR_RANK, text));
        assert!(g.translate(&[abi::MPI_ANY_SOURCE], &other).is_err());
    }

    mod properties {
        use super::*;
        use proptest::prelude::*;
        use std::collections::HashSet;

        fn any_group() -> impl Strategy<Value = Group> {
            proptest::collection::hash_set(0u32..12, 0..12).prop_flat_map(|set| {
                let members: Vec<u32> = set.into_iter().collect();
                Just(members).prop_shuffle().prop_map(|members| Group::new(&members).unwrap())
            })
        }

        proptest! {
            /// The algebra of MPI-5.0 section 7.3.2 is that of ordered sets.
            #[test]
            fn groups_are_ordered_sets(a in any_group(), b in any_group()) {
                let of_b: HashSet<u32> = b.processes().collect();
                let (inside, outside): (Vec<u32>, Vec<u32>) = a.processes().partition(|p| of_b.contains(p));
                prop_assert_eq!(list(&a.intersection(&b)), inside.clone());
                prop_assert_eq!(list(&a.difference(&b)), outside.clone());
                let both = a.union(&b);
                prop_assert_eq!(both.size(), a.size() + b.size() - inside.len());
                prop_assert_eq!(list(&both)[..a.size()].to_vec(), list(&a));
                prop_assert_eq!(list(&both.difference(&a)), list(&b.difference(&a)));
                let kept: Vec<i32> = (0..a.size() as i32).filter(|r| *r % 2 == 0).collect();
                let (incl, excl) = (a.include(&kept).unwrap(), a.exclude(&kept).unwrap());
                prop_assert!(incl.intersection(&excl).is_empty());
                prop_assert_ne!(incl.union(&excl).compare(&a), GroupRelation::Unequal);
                prop_assert_eq!(incl.translate(&[0; 0], &a).unwrap(), Vec::<i32>::new());
                let back: Vec<i32> = (0..incl.size() as i32).collect();
                prop_assert_eq!(incl.translate(&back, &a).unwrap(), kept);
            }
        }
    }

    #[test]
    fn what_is_made_of_a_group_comes_from_where_it_does() {
        let session = Origin::of_session(3);
        let g = Group::contiguous(0, 4).unwrap().from_origin(session);
        let odd = g.include(&[1, 3]).unwrap();
        let made = [
            g.exclude(&[0]).unwrap(),
            g.union(&odd),
            g.difference(&odd),
            Group::EMPTY.union(&g),
            odd,
        ];
        assert!(made.iter().all(|group| group.origin() == session));
        let other = Group::contiguous(0, 4).unwrap();
        assert_eq!(g.check_origin(&other, "group2").unwrap_err().class(), abi::MPI_ERR_GROUP);
        assert!(
            g.check_origin(&Group::EMPTY, "group2").is_ok()
                && Group::EMPTY.check_origin(&g, "g").is_ok()
        );
    }

    #[test]
    fn groups_compare() {
        let g = Group::contiguous(0, 3).unwrap();
        assert_eq!(g.compare(&Group::new(&[0, 1, 2]).unwrap()), GroupRelation::Identical);
        assert_eq!(g.compare(&Group::new(&[2, 1, 0]).unwrap()), GroupRelation::Similar);
        assert_eq!(g.compare(&Group::new(&[2, 1, 3]).unwrap()), GroupRelation::Unequal);
        assert_eq!(g.compare(&Group::contiguous(0, 2).unwrap()), GroupRelation::Unequal);
    }
}
