//! MPI_Comm_split, MPI_Comm_split_type and MPI_Comm_create (MPI-5.0 section 7.4.2).
//!
//! All three are an allgather. Each rank sends its colour, its key, and a word that all ranks of
//! its part must have in common. If the words differ, each rank of the part returns an error.

use super::name::Name;
use super::{CommShape, Communicator, InterShape, taken};
use crate::Process;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::{RankMap, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_plan::{Call, Shared};
use oxmpi_tuned::Component;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// A communicator that is being split.
#[derive(Debug)]
pub struct Split {
    pub request: RequestId,
    arguments: SplitArguments,
    mine: Name,
    entries: Owned<u64>,
    component: Option<Component>,
}

/// The named process sets (MPI-5.0 section 11.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSet {
    World,
    Own,
}

impl ProcessSet {
    /// All sets, in the order of MPI_Session_get_nth_pset.
    pub const ALL: [ProcessSet; 2] = [ProcessSet::World, ProcessSet::Own];

    /// The URI of the set.
    pub const fn name(self) -> &'static str {
        match self {
            ProcessSet::World => "mpi://WORLD",
            ProcessSet::Own => "mpi://SELF",
        }
    }

    /// The set with this URI. Upper and lower case are equal in URIs of this form (RFC 3986).
    pub fn named(name: &str) -> Option<ProcessSet> {
        ProcessSet::ALL.into_iter().find(|set| set.name().eq_ignore_ascii_case(name))
    }
}

#[derive(Debug)]
struct SplitArguments {
    /// Ranks with the same colour are in one part; a rank with `None` is in no part.
    color: Option<u64>,
    key: i32,
    common: Common,
    /// The error of this rank, which takes part without a colour, so that no rank waits for ever.
    wrong: Option<MpiError>,
}

#[derive(Debug)]
enum Common {
    Nothing,
    /// The type of a split by type, which all ranks with a colour must pass. With the flag, a part
    /// must be smaller than the whole.
    Type(i32, bool),
    Group(Vec<u32>),
}

impl Common {
    /// A word for comparisons. For a group, the upper 32 bits are its number of ranks.
    fn word(&self) -> u64 {
        match self {
            Common::Nothing => 0,
            Common::Type(split_type, _) => u64::from(*split_type as u32),
            Common::Group(ranks) => {
                let mut hasher = DefaultHasher::new();
                ranks.hash(&mut hasher);
                (ranks.len() as u64) << 32 | hasher.finish() >> 32
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    color: Option<u64>,
    common: u64,
    key: i32,
    name: Name,
}

impl Entry {
    const WORDS: usize = 4 + Name::WORDS;
    const BYTES: usize = 8 * Entry::WORDS;

    fn encode(&self) -> Vec<u64> {
        let color = self.color;
        let mut words = vec![u64::from(color.is_some()), color.unwrap_or(0), self.common];
        words.push(u64::from(self.key.cast_unsigned()));
        words.extend(self.name.encode());
        words
    }

    fn decode(words: &[u64]) -> Entry {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        Entry {
            color: (word(0) != 0).then_some(word(1)),
            common: word(2),
            key: (word(3) as u32).cast_signed(),
            name: Name::decode(words, 4),
        }
    }
}

/// The value of the info key "mpi_hw_resource_type" with the meaning of MPI_COMM_TYPE_SHARED.
pub const SHARED_MEMORY: &str = "mpi_shared_memory";

impl<F: Fabric> Process<F> {
    /// Communicators of the ranks with equal colour, ordered by key, then by old rank
    /// (MPI_Comm_split). `None` for MPI_UNDEFINED. Collective. An intercommunicator is split into
    /// intercommunicators, with `None` for a colour that no rank of the remote group has. Errors:
    /// MPI_ERR_ARG if the colour is negative.
    pub fn split(&self, comm: &Communicator, color: i32, key: i32) -> Result<Option<Communicator>> {
        self.wait_for_split(comm, self.start_split(comm, color, key)?)
    }

    /// Starts [`Process::split`].
    pub fn start_split(&self, comm: &Communicator, color: i32, key: i32) -> Result<Split> {
        let wrong = (color < 0 && color != abi::MPI_UNDEFINED).then(|| {
            MpiError::new(
                abi::MPI_ERR_ARG,
                format!("color is {color}; it must be at least 0, or MPI_UNDEFINED"),
            )
        });
        let color = u64::try_from(color).ok();
        self.start_parting(comm, SplitArguments { color, key, common: Common::Nothing, wrong })
    }

    /// Communicators of the ranks with a common resource (MPI_Comm_split_type). `resource` is the
    /// value of the info key: a kind of hardware, or for MPI_COMM_TYPE_RESOURCE_GUIDED the name of
    /// a process set. `None` for MPI_UNDEFINED, and for all ranks if the resource is unknown.
    /// Collective.
    ///
    /// The only known hardware is memory that processes share. So MPI_COMM_TYPE_HW_UNGUIDED gives
    /// the nodes if there are several, since a part must be smaller than the whole. Errors:
    /// MPI_ERR_ARG for an unknown type, or if ranks pass different types.
    pub fn split_type(
        &self,
        comm: &Communicator,
        split_type: i32,
        key: i32,
        resource: Option<&str>,
    ) -> Result<Option<Communicator>> {
        self.split_type_served_by(comm, (split_type, key), resource, None)
    }

    /// [`Process::split_type`] with this component as the only one for the new communicators, if it
    /// is `Some`. All ranks of a part must name the same. Errors: MPI_ERR_INFO_VALUE if a component
    /// is named and `comm` has ranks of several jobs; the errors of [`Process::split_type`].
    pub fn split_type_served_by(
        &self,
        comm: &Communicator,
        (split_type, key): (i32, i32),
        resource: Option<&str>,
        component: Option<Component>,
    ) -> Result<Option<Communicator>> {
        self.follow_component(component, self.is_of_this_job(comm))?;
        let split = self.start_split_type(comm, split_type, key, resource)?;
        self.wait_for_split(comm, Split { component, ..split })
    }

    /// Starts [`Process::split_type`].
    pub fn start_split_type(
        &self,
        comm: &Communicator,
        split_type: i32,
        key: i32,
        resource: Option<&str>,
    ) -> Result<Split> {
        let node = Some(self.node);
        let (color, wrong) = match split_type {
            abi::MPI_COMM_TYPE_SHARED | abi::MPI_COMM_TYPE_HW_UNGUIDED => (node, None),
            abi::MPI_COMM_TYPE_RESOURCE_GUIDED
                if let Some(set) = resource.and_then(ProcessSet::named) =>
            {
                (Some(self.color_of_set(comm, set)), None)
            }
            abi::MPI_COMM_TYPE_HW_GUIDED | abi::MPI_COMM_TYPE_RESOURCE_GUIDED => {
                (node.filter(|_| resource == Some(SHARED_MEMORY)), None)
            }
            abi::MPI_UNDEFINED => (None, None),
            other => {
                let other = shown::number(ValueKind::SplitType, other);
                let text = format!(
                    "split_type is {other}, which is no MPI_COMM_TYPE_ value nor MPI_UNDEFINED"
                );
                (None, Some(MpiError::new(abi::MPI_ERR_ARG, text)))
            }
        };
        let common = Common::Type(split_type, split_type == abi::MPI_COMM_TYPE_HW_UNGUIDED);
        self.start_parting(comm, SplitArguments { color, key, common, wrong })
    }

    fn color_of_set(&self, comm: &Communicator, set: ProcessSet) -> u64 {
        let all = comm.union();
        match set {
            ProcessSet::Own => u64::from(all.rank),
            ProcessSet::World => {
                let job = self.choice.job();
                let first =
                    (0..all.size()).find(|r| all.map.process(*r).is_some_and(|p| job.contains(&p)));
                u64::from(all.size()) + u64::from(first.unwrap_or(all.rank))
            }
        }
    }

    /// A communicator of the members of `group` (MPI_Comm_create); `None` for other ranks.
    /// Collective over `comm`. A member passes its group, another rank any group. For an
    /// intercommunicator the group is of the local side, and all ranks get `None` if one side
    /// passes an empty group. Errors: MPI_ERR_GROUP if a member is not in the local group of
    /// `comm`, or if the members pass different groups.
    pub fn create(&self, comm: &Communicator, group: &Group) -> Result<Option<Communicator>> {
        self.wait_for_split(comm, self.start_create(comm, group)?)
    }

    /// Starts [`Process::create`].
    pub fn start_create(&self, comm: &Communicator, group: &Group) -> Result<Split> {
        let wrong = comm.check_members(group).err();
        let rank = group.rank_of(self.rank).filter(|_| wrong.is_none());
        let ranks: Vec<u32> = group.processes().filter_map(|p| comm.local_map().rank(p)).collect();
        let color = match (rank, comm.is_inter()) {
            (None, _) => None,
            // The ranks may pass several groups. The first member identifies each.
            (Some(_), false) => ranks.first().map(|first| u64::from(*first)),
            (Some(_), true) => Some(0),
        };
        let key = rank.unwrap_or(0) as i32;
        self.start_parting(comm, SplitArguments { color, key, common: Common::Group(ranks), wrong })
    }

    fn start_parting(&self, comm: &Communicator, arguments: SplitArguments) -> Result<Split> {
        let all = comm.union();
        let mine = self.new_name(all, comm.is_inter())?;
        let SplitArguments { color, key, ref common, .. } = arguments;
        let input = Owned::new(Entry { color, common: common.word(), key, name: mine }.encode());
        let entries = Owned::new(vec![0u64; Entry::WORDS * all.size() as usize]);
        let buffers = Buffers { input: input.buf(), output: entries.buf(), element: None };
        let call = Call::Allgather { block: Shared(Entry::BYTES), in_place: false };
        let at = (all, comm.next_tag());
        match self.start_in(at, call, buffers, Combine::Nothing, None, None) {
            Ok(request) => Ok(Split { request, arguments, mine, entries, component: None }),
            Err(error) => {
                self.release_name(mine);
                Err(error)
            }
        }
    }

    fn wait_for_split(&self, comm: &Communicator, split: Split) -> Result<Option<Communicator>> {
        self.wait(split.request)?;
        self.finish_split(comm, split)
    }

    /// Completes [`Process::start_split`], [`Process::start_split_type`] or
    /// [`Process::start_create`] after the request succeeded. Errors: those of the blocking call.
    pub fn finish_split(&self, comm: &Communicator, split: Split) -> Result<Option<Communicator>> {
        let Split { arguments, mine, entries, component, .. } = split;
        let part = match arguments.wrong {
            Some(wrong) => Err(wrong),
            None => taken(entries).and_then(|words| {
                let entries = words.chunks_exact(Entry::WORDS).map(Entry::decode).collect();
                Parting { comm, entries, color: arguments.color, common: arguments.common }.part()
            }),
        };
        if !matches!(&part, Ok(Some((_, name))) if name.id == mine.id) {
            self.release_name(mine);
        }
        Ok(part?.map(|(shape, name)| {
            self.domain.lock().open(shape, name, comm.heritage_with(component))
        }))
    }
}

struct Parting<'a> {
    comm: &'a Communicator,
    entries: Vec<Entry>,
    color: Option<u64>,
    common: Common,
}

impl Parting<'_> {
    fn part(&self) -> Result<Option<(CommShape, Name)>> {
        let Some(color) = self.color else { return Ok(None) };
        let (local, remote) = self.comm.sides();
        let locals = self.members(color, local.clone());
        self.check(&locals, &local)?;
        let missing = || MpiError::new(abi::MPI_ERR_INTERN, "a rank is missing in its own part");
        let me = self.comm.union().rank;
        let rank = locals.iter().position(|member| *member == me).ok_or_else(missing)? as u32;
        let map = self.map(&locals)?;
        let Some(inter) = self.comm.inter() else {
            let whole = locals.len() == self.entries.len();
            if matches!(self.common, Common::Type(_, true)) && whole {
                return Ok(None);
            }
            let name =
                locals.first().and_then(|first| self.entry(*first)).ok_or_else(missing)?.name;
            return Ok(Some((CommShape::Intra { map, rank }, name)));
        };
        let remotes = self.members(color, remote);
        if remotes.is_empty() || self.is_whole(&locals, &remotes) {
            return Ok(None);
        }
        self.check_remote(&remotes)?;
        let first = if inter.is_first { &locals } else { &remotes };
        let name = first.first().and_then(|first| self.entry(*first)).ok_or_else(missing)?.name;
        let shape =
            InterShape { local: map, remote: self.map(&remotes)?, rank, is_first: inter.is_first };
        Ok(Some((CommShape::Inter(shape), name)))
    }

    fn entry(&self, rank: u32) -> Option<&Entry> {
        self.entries.get(rank as usize)
    }

    fn is_whole(&self, locals: &[u32], remotes: &[u32]) -> bool {
        matches!(self.common, Common::Type(_, true))
            && locals.len() + remotes.len() == self.entries.len()
    }

    fn members(&self, color: u64, side: Range<u32>) -> Vec<u32> {
        let key = |rank: &u32| self.entry(*rank).map_or(0, |entry| entry.key);
        let of_color =
            |rank: &u32| self.entry(*rank).is_some_and(|entry| entry.color == Some(color));
        let mut members: Vec<u32> = side.filter(of_color).collect();
        members.sort_by_key(key);
        members
    }

    fn map(&self, members: &[u32]) -> Result<RankMap> {
        let process = |rank: &u32| self.comm.union().map.process(*rank);
        let processes: Option<Vec<u32>> = members.iter().map(process).collect();
        let missing = || MpiError::new(abi::MPI_ERR_INTERN, "a rank of a part has no process");
        processes.map(RankMap::new).ok_or_else(missing)
    }

    fn check(&self, locals: &[u32], side: &Range<u32>) -> Result<()> {
        let mine = self.common.word();
        match &self.common {
            Common::Nothing => Ok(()),
            Common::Type(split_type, _) => {
                let other = |entry: &&Entry| entry.color.is_some() && entry.common != mine;
                match self.entries.iter().find(other) {
                    None => Ok(()),
                    Some(Entry { common, .. }) => {
                        let [own, other] = [*split_type, *common as i32]
                            .map(|value| shown::number(ValueKind::SplitType, value));
                        let text = format!("split_type is {own}; another rank has given {other}");
                        Err(MpiError::new(abi::MPI_ERR_ARG, text))
                    }
                }
            }
            Common::Group(ranks) => {
                let named = ranks.iter().map(|rank| side.start + rank);
                let agree =
                    named.clone().all(|r| self.entry(r).is_some_and(|entry| entry.common == mine));
                if agree && named.eq(locals.iter().copied()) {
                    return Ok(());
                }
                let text = "the members of the group have not all passed the same group";
                Err(MpiError::new(abi::MPI_ERR_GROUP, text))
            }
        }
    }

    /// Checks that all members on the other side have passed the group of exactly these members.
    fn check_remote(&self, remotes: &[u32]) -> Result<()> {
        if !matches!(self.common, Common::Group(_)) {
            return Ok(());
        }
        let common: Vec<u64> =
            remotes.iter().filter_map(|r| self.entry(*r)).map(|e| e.common).collect();
        if common.windows(2).all(|w| w[0] == w[1])
            && common.iter().all(|c| c >> 32 == remotes.len() as u64)
        {
            return Ok(());
        }
        let text = "the members of the remote group have not all passed the same group";
        Err(MpiError::new(abi::MPI_ERR_GROUP, text))
    }
}
