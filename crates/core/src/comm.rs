//! Communicators (MPI-5.0 chapter 7): a team with an error handler, attributes, hints, a name and a count of its
//! collectives.

use crate::Process;
use crate::control::Control;
use crate::handler::{ErrorHandler, HandlerCell};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::{RankMap, RequestId, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::{Owned, Plain};
use oxmpi_objects::attribute::Attributes;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::hints::CommHints;
use oxmpi_plan::{Call, Shared};
use oxmpi_wire::ContextId;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A communicator.
#[derive(Debug)]
pub struct Communicator {
    /// Its processes and contexts.
    pub team: Arc<Team>,
    /// Its error handler.
    errhandler: Arc<HandlerCell>,
    /// What the program has attached to it.
    pub attributes: Attributes,
    /// The bits of its [`CommHints`].
    hints: AtomicU8,
    /// Its name: bytes, as C has them.
    name: Mutex<Box<[u8]>>,
    /// Collectives called on it so far: their tags.
    collectives: AtomicU32,
    /// Where its collectives of a few bytes take place.
    pub(crate) control: Option<Control>,
}

impl Communicator {
    pub(crate) fn new(team: Arc<Team>, errhandler: ErrorHandler, control: Option<Control>) -> Communicator {
        Communicator {
            team,
            errhandler: Arc::new(HandlerCell::new(errhandler)),
            attributes: Attributes::default(),
            hints: AtomicU8::new(CommHints::default().bits()),
            name: Mutex::default(),
            collectives: AtomicU32::new(0),
            control,
        }
    }

    /// Rank of this process (MPI_Comm_rank).
    #[inline]
    pub fn rank(&self) -> i32 {
        self.team.rank as i32
    }

    /// Number of ranks (MPI_Comm_size).
    #[inline]
    pub fn size(&self) -> i32 {
        self.team.size() as i32
    }

    /// Its error handler.
    pub fn errhandler(&self) -> ErrorHandler {
        self.errhandler.get()
    }

    /// The place of its error handler, for those who need it when the communicator may be gone.
    pub fn errhandler_cell(&self) -> &Arc<HandlerCell> {
        &self.errhandler
    }

    /// What the program promises about it (MPI_Comm_get_info).
    pub fn hints(&self) -> CommHints {
        CommHints::from_bits(self.hints.load(Ordering::Relaxed))
    }

    /// Sets what the program promises about it (MPI_Comm_set_info).
    pub fn set_hints(&self, hints: CommHints) {
        self.hints.store(hints.bits(), Ordering::Relaxed);
    }

    /// Its name; empty if it has none (MPI_Comm_get_name).
    pub fn name(&self) -> Box<[u8]> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Names it (MPI_Comm_set_name).
    pub fn set_name(&self, name: &[u8]) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    /// The tag of the next collective. All ranks call collectives of a communicator in the same order (MPI-5.0
    /// section 6.1), so they agree; it wraps after 2^31 calls, long after the first has been forgotten.
    pub(crate) fn next_tag(&self) -> i32 {
        (self.collectives.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff) as i32
    }

    /// The process that has this rank.
    ///
    /// # Errors
    /// MPI_ERR_RANK if there is no such rank.
    #[inline]
    pub fn process(&self, rank: i32, what: &str) -> Result<u32> {
        match u32::try_from(rank).ok().and_then(|r| self.team.map.process(r)) {
            Some(process) => Ok(process),
            None => Err(self.no_rank(rank, what)),
        }
    }

    #[cold]
    fn no_rank(&self, rank: i32, what: &str) -> MpiError {
        let last = self.size() - 1;
        MpiError::new(
            abi::MPI_ERR_RANK,
            format!("{what} is {rank}; the communicator has the ranks 0 to {last}"),
        )
    }

    /// Checks the root of a collective.
    ///
    /// # Errors
    /// MPI_ERR_ROOT if there is no such rank.
    pub fn root(&self, root: i32) -> Result<u32> {
        match u32::try_from(root) {
            Ok(r) if r < self.team.size() => Ok(r),
            _ => Err(MpiError::new(
                abi::MPI_ERR_ROOT,
                format!("root is {root}; the communicator has the ranks 0 to {}", self.size() - 1),
            )),
        }
    }
}

/// A communicator that is being split.
pub struct Split {
    /// Complete when all know what all have said.
    pub request: RequestId,
    color: i32,
    mine: Name,
    entries: Owned<u8>,
}

/// What a new communicator is called: its context, and the control section of its lowest rank.
#[derive(Clone, Copy, Debug)]
struct Name {
    id: ContextId,
    section: Option<(u32, u64)>,
}

impl Name {
    const BYTES: usize = 24;
    const NO_SECTION: u64 = u64::MAX;

    fn encode(&self) -> [u8; Name::BYTES] {
        let (index, generation) = self.section.map_or((Name::NO_SECTION, 0), |(i, g)| (u64::from(i), g));
        let mut bytes = [0; Name::BYTES];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([self.id.0, index, generation]) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// The name that begins with the `n`th 8 bytes.
    fn decode(bytes: &[u8], n: usize) -> Name {
        let section = u32::try_from(word(bytes, n + 1)).ok().map(|index| (index, word(bytes, n + 2)));
        Name { id: ContextId(word(bytes, n)), section }
    }
}

/// Bytes of what one rank says in a split: colour, key, and a name for its part.
const ENTRY: usize = 8 + Name::BYTES;

fn is_color(color: i32) -> bool {
    color >= 0 || color == abi::MPI_UNDEFINED
}

impl std::fmt::Debug for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Split")
            .field("request", &self.request)
            .field("color", &self.color)
            .finish_non_exhaustive()
    }
}

/// A communicator that is being duplicated.
pub struct Dup {
    /// Complete when all know its name.
    pub request: RequestId,
    name: Owned<u8>,
}

impl std::fmt::Debug for Dup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dup").field("request", &self.request).finish_non_exhaustive()
    }
}

impl<F: Fabric> Process<F> {
    /// A communicator with the same processes and contexts of its own (MPI_Comm_dup, MPI-5.0 section 7.4.2).
    /// Collective.
    ///
    /// # Errors
    /// If a process has failed.
    pub fn dup(&self, comm: &Communicator) -> Result<Communicator> {
        let dup = self.start_dup(comm)?;
        self.wait(dup.request)?;
        self.finish_dup(comm, dup)
    }

    /// Begins [`Process::dup`] without waiting.
    ///
    /// # Errors
    /// If a process has failed.
    pub fn start_dup(&self, comm: &Communicator) -> Result<Dup> {
        // The lowest rank names it, the others are told.
        let mine = if comm.team.rank == 0 { Some(self.new_name(comm.team.size())?) } else { None };
        let name = Owned::new(mine.map_or([0; Name::BYTES], |name| name.encode()).to_vec());
        let buffers = Buffers { input: UserBuf::empty(), output: name.buf(), element: None };
        let call = Call::Bcast { root: 0, bytes: Shared(Name::BYTES) };
        let request = self.start(comm, call, buffers, Combine::Nothing, None)?;
        Ok(Dup { request, name })
    }

    /// Ends [`Process::start_dup`], whose request is complete without an error.
    ///
    /// # Errors
    /// MPI_ERR_INTERN if it is not.
    pub fn finish_dup(&self, comm: &Communicator, dup: Dup) -> Result<Communicator> {
        let name = Name::decode(&taken(dup.name)?, 0);
        Ok(self.open(comm.team.map.clone(), comm.team.rank, name, comm.errhandler()))
    }

    /// Communicators of those who give the same colour, ordered by key, then by old rank (MPI_Comm_split). `None`
    /// for those who give MPI_UNDEFINED. Collective.
    ///
    /// # Errors
    /// MPI_ERR_ARG if the colour is negative; or a process has failed.
    pub fn split(&self, comm: &Communicator, color: i32, key: i32) -> Result<Option<Communicator>> {
        let split = self.start_split(comm, color, key)?;
        self.wait(split.request)?;
        self.finish_split(comm, split)
    }

    /// Begins [`Process::split`] without waiting.
    ///
    /// # Errors
    /// If a process has failed.
    pub fn start_split(&self, comm: &Communicator, color: i32, key: i32) -> Result<Split> {
        let mine = self.new_name(comm.team.size())?;
        // A wrong colour takes part all the same: the others must not wait for ever.
        let said = if is_color(color) { color } else { abi::MPI_UNDEFINED };
        let mut entry = Vec::with_capacity(ENTRY);
        entry.extend_from_slice(&said.to_le_bytes());
        entry.extend_from_slice(&key.to_le_bytes());
        entry.extend_from_slice(&mine.encode());
        let input = Owned::new(entry);
        let entries = Owned::new(vec![0u8; ENTRY * comm.team.size() as usize]);
        let buffers = Buffers { input: input.buf(), output: entries.buf(), element: None };
        let call = Call::Allgather { block: Shared(ENTRY), in_place: false };
        let request = self.start(comm, call, buffers, Combine::Nothing, None)?;
        Ok(Split { request, color, mine, entries })
    }

    /// Ends [`Process::start_split`], whose request is complete without an error.
    ///
    /// # Errors
    /// As [`Process::split`].
    pub fn finish_split(&self, comm: &Communicator, split: Split) -> Result<Option<Communicator>> {
        let Split { color, mine, entries: output, .. } = split;
        let made = self.part_of_split(comm, color, output);
        let named_by_me = matches!(&made, Ok(Some(part)) if part.team.id == mine.id);
        if !named_by_me && let Some((index, _)) = mine.section {
            self.domain.lock().lane.fabric_mut().release_control_section(index, None);
        }
        made
    }

    fn part_of_split(
        &self,
        comm: &Communicator,
        color: i32,
        output: Owned<u8>,
    ) -> Result<Option<Communicator>> {
        let size = comm.team.size();
        if !is_color(color) {
            return Err(MpiError::new(
                abi::MPI_ERR_ARG,
                format!("color is {color}; it must be at least 0, or MPI_UNDEFINED"),
            ));
        }
        if color == abi::MPI_UNDEFINED {
            return Ok(None);
        }
        let all = taken(output)?;
        let mut members: Vec<(i32, u32)> = (0..size)
            .filter(|r| half(&all, *r as usize * (ENTRY / 4)) == color)
            .map(|r| (half(&all, r as usize * (ENTRY / 4) + 1), r))
            .collect();
        members.sort_unstable();
        let Some(rank) = members.iter().position(|(_, r)| *r == comm.team.rank) else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "this rank is missing in its own split"));
        };
        // The first member names it.
        let leader = members[0].1 as usize;
        let name = Name::decode(&all, leader * (ENTRY / 8) + 1);
        let processes = members.iter().map(|(_, r)| comm.team.map.process(*r)).collect::<Option<Vec<u32>>>();
        let Some(processes) = processes else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "a rank of a split has no process"));
        };
        Ok(Some(self.open(RankMap::new(processes), rank as u32, name, comm.errhandler())))
    }

    /// A name for a communicator of at most `ranks` ranks, of which this process is the lowest.
    fn new_name(&self, ranks: u32) -> Result<Name> {
        let id = self.new_context_id()?;
        Ok(Name { id, section: self.domain.lock().lane.fabric_mut().reserve_control_section(ranks) })
    }

    fn open(&self, map: RankMap, rank: u32, name: Name, errhandler: ErrorHandler) -> Communicator {
        let control = match (map.process(0), name.section) {
            (Some(leader), Some((index, generation))) => Some(Control::new(leader, index, generation)),
            _ => None,
        };
        let mut domain = self.domain.lock();
        domain.reap();
        let team = domain.lane.open_team(map, rank, name.id, false);
        let communicator = Communicator::new(team, errhandler, control);
        domain.note_handler(&communicator);
        communicator
    }

    /// Frees a communicator; what is under way in it goes on (MPI_Comm_free).
    pub fn close(&self, comm: &Communicator) {
        if let Some(control) = &comm.control {
            self.leave(comm, control);
        }
        let mut domain = self.domain.lock();
        domain.closing.push(comm.team.clone());
        domain.reap();
    }
}

/// The vector of an operation that is over.
pub(crate) fn taken<T: Plain>(owned: Owned<T>) -> Result<Vec<T>> {
    owned
        .into_vec()
        .map_err(|_| MpiError::new(abi::MPI_ERR_INTERN, "a finished operation still has its buffer"))
}

/// The `n`th 8 bytes.
fn word(bytes: &[u8], n: usize) -> u64 {
    bytes.as_chunks::<8>().0.get(n).map_or(0, |w| u64::from_le_bytes(*w))
}

/// The `n`th 4 bytes.
fn half(bytes: &[u8], n: usize) -> i32 {
    bytes.as_chunks::<4>().0.get(n).map_or(0, |w| i32::from_le_bytes(*w))
}
