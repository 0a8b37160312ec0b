//! Groups: ordered sets of processes, from which communicators are made (MPI-5.0 section 7.3).

use crate::communicator::{Communicator, Rank};
use crate::error::Result;
use crate::universe::Level;
use oxmpi_objects::error::MpiError;
use oxmpi_objects::group::{Group as Processes, GroupRelation};
use std::fmt;
use std::ops::RangeBounds;

/// An ordered set of processes of the job, each with a rank in the group. Groups are local values;
/// [`Communicator::create`] makes a communicator of a group.
///
/// ```
/// oxmpi::threads(4, |world| {
///     let all = world.group();
///     let odd = all.include(&[3, 1]);
///     let ranks = [None, Some(1), None, Some(0)];
///     assert_eq!((odd.size(), odd.rank()), (2, ranks[world.rank() as usize]));
///     let even = all.difference(&odd);
///     assert_eq!(even.translate(&all), [Some(0), Some(2)]);
///     assert_eq!(even.union(&odd).translate(&all), [Some(0), Some(2), Some(3), Some(1)]);
///     assert!(even.intersection(&odd).is_empty());
/// });
/// ```
#[derive(Clone)]
pub struct Group {
    processes: Processes,
    own: u32,
}

/// The relation of two groups or communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// The same processes in the same order; for communicators, the same communicator.
    Identical,
    /// Two communicators of the same processes in the same order.
    Congruent,
    /// The same processes in different orders.
    Similar,
    /// Different processes.
    Unequal,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Group")?;
        f.debug_list().entries(self.processes.processes()).finish()
    }
}

/// Panics on an error, which only the program can have caused.
#[track_caller]
fn valid(operation: &str, made: Result<Processes, MpiError>) -> Processes {
    match made {
        Ok(processes) => processes,
        Err(error) => panic!("{operation}: {error}"),
    }
}

impl Group {
    fn with(&self, processes: Processes) -> Group {
        Group { processes, own: self.own }
    }

    /// The number of processes (MPI_Group_size).
    pub fn size(&self) -> Rank {
        self.processes.size() as Rank
    }

    /// Whether the group has no processes.
    pub fn is_empty(&self) -> bool {
        self.processes.size() == 0
    }

    /// The rank of this process in the group, if it is a member (MPI_Group_rank).
    pub fn rank(&self) -> Option<Rank> {
        self.processes.rank_of(self.own).map(|rank| rank as Rank)
    }

    /// The members with these ranks, in this order (MPI_Group_incl).
    ///
    /// # Panics
    /// If a rank is not in the group, or appears twice.
    #[track_caller]
    pub fn include(&self, ranks: &[Rank]) -> Group {
        self.with(valid("include", self.processes.include(ranks)))
    }

    /// All members except those with these ranks (MPI_Group_excl).
    ///
    /// ```
    /// oxmpi::threads(3, |world| assert_eq!(world.group().exclude(&[1]).size(), 2));
    /// ```
    #[track_caller]
    pub fn exclude(&self, ranks: &[Rank]) -> Group {
        self.with(valid("exclude", self.processes.exclude(ranks)))
    }

    /// The members whose ranks are in a range (MPI_Group_range_incl). For a stride use
    /// [`include`](Group::include): `include(&(0..size).step_by(2).collect::<Vec<_>>())`.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     assert_eq!(world.group().range(1..).translate(&world.group()), [Some(1), Some(2)]);
    /// });
    /// ```
    pub fn range(&self, ranks: impl RangeBounds<Rank>) -> Group {
        let ranks: Vec<Rank> = (0..self.size()).filter(|rank| ranks.contains(rank)).collect();
        self.with(valid("range", self.processes.include(&ranks)))
    }

    /// The members of this group, then the members of `other` that are not in this group
    /// (MPI_Group_union).
    pub fn union(&self, other: &Group) -> Group {
        self.with(self.processes.union(&other.processes))
    }

    /// The members that are also in `other`, in the order of this group (MPI_Group_intersection).
    pub fn intersection(&self, other: &Group) -> Group {
        self.with(self.processes.intersection(&other.processes))
    }

    /// The members that are not in `other`, in the order of this group (MPI_Group_difference).
    pub fn difference(&self, other: &Group) -> Group {
        self.with(self.processes.difference(&other.processes))
    }

    /// The ranks of all members in `other`. Panics if `other` lacks a member.
    #[track_caller]
    fn ranks_in(&self, operation: &str, other: &Group) -> Vec<Rank> {
        let ranks = self.translate(other);
        if let Some(outsider) = ranks.iter().position(Option::is_none) {
            panic!("{operation}: rank {outsider} of the group is no process of this communicator");
        }
        ranks.into_iter().flatten().collect()
    }

    /// The rank in `other` of each member, by the member's rank in this group; `None` for members
    /// that are not in `other` (MPI_Group_translate_ranks).
    pub fn translate(&self, other: &Group) -> Vec<Option<Rank>> {
        let rank = |process| other.processes.rank_of(process).map(|rank| rank as Rank);
        self.processes.processes().map(rank).collect()
    }

    /// Compares two groups; never returns [`Comparison::Congruent`] (MPI_Group_compare).
    ///
    /// ```
    /// use oxmpi::Comparison;
    /// oxmpi::threads(2, |world| {
    ///     let all = world.group();
    ///     assert_eq!(all.compare(&all.include(&[0, 1])), Comparison::Identical);
    ///     assert_eq!(all.compare(&all.include(&[1, 0])), Comparison::Similar);
    ///     assert_eq!(all.compare(&all.include(&[1])), Comparison::Unequal);
    /// });
    /// ```
    pub fn compare(&self, other: &Group) -> Comparison {
        match self.processes.compare(&other.processes) {
            GroupRelation::Identical => Comparison::Identical,
            GroupRelation::Similar => Comparison::Similar,
            GroupRelation::Unequal => Comparison::Unequal,
        }
    }
}

impl<'u, L: Level> Communicator<'u, L> {
    /// The processes of this communicator, in the order of their ranks (MPI_Comm_group).
    pub fn group(&self) -> Group {
        let team = &self.core.team;
        let processes: Vec<u32> =
            (0..team.size()).filter_map(|rank| team.map.process(rank)).collect();
        Group { processes: valid("group", Processes::new(&processes)), own: self.process.rank() }
    }

    /// Compares two communicators (MPI_Comm_compare).
    ///
    /// ```
    /// use oxmpi::Comparison;
    /// oxmpi::threads(2, |world| {
    ///     assert_eq!(world.compare(world), Comparison::Identical);
    ///     assert_eq!(world.compare(&world.dup().unwrap()), Comparison::Congruent);
    ///     let turned = world.split(Some(0), -world.rank()).unwrap().unwrap();
    ///     assert_eq!(world.compare(&turned), Comparison::Similar);
    /// });
    /// ```
    pub fn compare(&self, other: &Communicator<'u, L>) -> Comparison {
        match self.group().compare(&other.group()) {
            Comparison::Identical if self.core.team.id != other.core.team.id => {
                Comparison::Congruent
            }
            relation => relation,
        }
    }

    /// A communicator of the processes of `group`, with their ranks in the group (MPI_Comm_create,
    /// MPI-5.0 section 7.4.2). Returns `None` for processes that are not in the group. All ranks of
    /// this communicator must call this function. They give the same group, or disjoint groups,
    /// each of which gets a communicator.
    ///
    /// ```
    /// oxmpi::threads(4, |world| {
    ///     let turned = world.group().include(&[3, 2, 1]);
    ///     let few = world.create(&turned).unwrap();
    ///     let ranks = [None, Some(2), Some(1), Some(0)];
    ///     assert_eq!(few.as_ref().map(|few| few.rank()), ranks[world.rank() as usize]);
    ///     if let Some(few) = few {
    ///         assert_eq!(few.all_gather(&[world.rank()]).unwrap(), [3, 2, 1]);
    ///     }
    /// });
    /// ```
    ///
    /// # Panics
    /// If a member of the group is not in this communicator.
    #[track_caller]
    pub fn create(&self, group: &Group) -> Result<Option<Communicator<'u, L>>> {
        // Disjoint groups have different first members.
        let first = group.ranks_in("create", &self.group()).first().copied();
        let (color, key) = (group.rank().and(first), group.rank().unwrap_or(0));
        self.split_as("create", color, key)
    }
}
