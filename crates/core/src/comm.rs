//! Communicators (MPI-5.0 chapter 7): a team with an error handler, attributes, hints, a name and a count of its
//! collectives.
//!
//! A new communicator needs a name that is the same at all its members and nowhere used twice: its first rank draws one and
//! tells it (`name`). All ways to make one (`dup`, `split`, `create_group`, `intercomm`, `merge`) differ only in how it
//! is found out who the members are.
//!
//! An intercommunicator (`inter`) has two groups. Its team is where messages go to and come from: the map is the *remote*
//! group's, the rank this process's rank in the *local* one. So a message takes the same way in both kinds.
//!
//! Messages that are neither the program's nor of a collective of all have negative tags, which no wildcard takes: those of
//! leaders in the point-to-point context of their peer communicator, those of MPI_Comm_create_group in the collective
//! context.

mod close;
mod compare;
mod create_group;
mod dup;
pub(crate) mod from_group;
mod inter;
mod intercomm;
mod merge;
mod name;
mod split;

pub use compare::Comparison;
pub use create_group::CreateGroup;
pub use dup::Dup;
pub use inter::Inter;
pub use intercomm::{IntercommCreate, Peer};
pub use merge::Merge;
pub use split::{ProcessSet, Split};

use crate::awaited::SharedName;
use crate::choice::{Servers, Told};
use crate::handler::{ErrorHandler, HandlerCell};
use crate::shmem::Control;
pub(crate) use inter::{InterShape, Shape};
pub(crate) use name::Name;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{NOTICE_TAG, Team};
use oxmpi_mem::memory::{Owned, Plain};
use oxmpi_objects::attribute::Attributes;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::hints::CommHints;
use oxmpi_objects::origin::Origin;
use oxmpi_objects::topology::Topology;
use oxmpi_tuned::Component;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

/// The bit that tells the tags of nonblocking and persistent collectives from those of blocking ones.
const IMMEDIATE: u32 = 1 << 30;

/// The bit that tells the tags of persistent ones from those of nonblocking ones.
const PERSISTENT: u32 = 1 << 29;

/// A communicator.
#[derive(Debug)]
pub struct Communicator {
    /// Its processes and contexts; of an intercommunicator, those to which messages go and from which they come.
    pub team: Arc<Team>,
    /// The two groups of an intercommunicator.
    inter: Option<Inter>,
    /// Its error handler.
    errhandler: Arc<HandlerCell>,
    /// The session that it comes from.
    origin: Origin,
    /// What the program has attached to it.
    pub attributes: Attributes,
    /// The bits of its [`CommHints`].
    hints: AtomicU8,
    /// Its name: bytes, as C has them.
    name: SharedName,
    /// Blocking collectives called on it so far: their tags.
    pub(crate) collectives: AtomicU32,
    /// The nonblocking ones.
    pub(crate) immediates: AtomicU32,
    /// The persistent ones.
    pub(crate) persistents: AtomicU64,
    /// How often persistent collectives of it were started.
    pub(crate) persistent_starts: Arc<AtomicU64>,
    /// Where its blocking collectives in shared memory take place.
    pub(crate) blocking: Option<Arc<Control>>,
    /// Where its nonblocking ones do.
    pub(crate) nonblocking: Option<Arc<Control>>,
    /// The components that serve its collectives.
    pub(crate) servers: Servers,
    /// What it has said about its collectives.
    pub(crate) told: Told,
    /// Its virtual topology, if it has one (MPI-5.0 chapter 8).
    pub(crate) topology: Option<Arc<Topology>>,
}

/// What a new communicator takes over from what it is made of.
#[derive(Clone, Debug)]
pub struct Heritage {
    /// Its error handler.
    pub errhandler: ErrorHandler,
    /// The session that it comes from.
    pub origin: Origin,
    /// The only component that serves its collectives, if one is named.
    pub component: Option<Component>,
}

impl Communicator {
    pub(crate) fn new(team: Arc<Team>, heritage: Heritage, sections: Option<[Control; 2]>) -> Communicator {
        let [blocking, nonblocking] = match sections {
            Some(sections) => sections.map(|control| Some(Arc::new(control))),
            None => [None, None],
        };
        Communicator {
            team,
            inter: None,
            errhandler: Arc::new(HandlerCell::new(heritage.errhandler)),
            origin: heritage.origin,
            attributes: Attributes::default(),
            hints: AtomicU8::new(CommHints::default().bits()),
            name: SharedName::default(),
            collectives: AtomicU32::new(0),
            immediates: AtomicU32::new(0),
            persistents: AtomicU64::new(0),
            persistent_starts: Arc::default(),
            blocking,
            nonblocking,
            servers: Servers::new(heritage.component),
            told: Told::default(),
            topology: None,
        }
    }

    fn new_inter(team: Arc<Team>, inter: Inter, heritage: Heritage) -> Communicator {
        Communicator { inter: Some(inter), ..Communicator::new(team, heritage, None) }
    }

    /// The teams that have contexts of their own.
    pub(crate) fn teams(&self) -> impl Iterator<Item = &Arc<Team>> {
        [Some(&self.team), self.inter.as_ref().map(|inter| &inter.local)].into_iter().flatten()
    }

    /// The indices of all its contexts.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = u32> {
        self.teams().flat_map(|team| [team.point_to_point, team.collective])
    }

    /// Rank of this process in its group (MPI_Comm_rank).
    #[inline]
    pub fn rank(&self) -> i32 {
        self.team.rank as i32
    }

    /// Number of ranks in this process's group (MPI_Comm_size).
    #[inline]
    pub fn size(&self) -> i32 {
        match &self.inter {
            None => self.team.size() as i32,
            Some(inter) => inter.local.size() as i32,
        }
    }

    /// Its error handler.
    pub fn errhandler(&self) -> ErrorHandler {
        self.errhandler.get()
    }

    /// The session that it comes from, or the World Model.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// What communicators made of it take over.
    pub(crate) fn heritage(&self) -> Heritage {
        self.heritage_with(None)
    }

    /// The same for one that is served by this component alone, if one is named.
    pub(crate) fn heritage_with(&self, component: Option<Component>) -> Heritage {
        let component = component.or_else(|| self.component_of_heirs());
        Heritage { errhandler: self.errhandler(), origin: self.origin, component }
    }

    /// Checks that another communicator of a call comes from the same session; `what` is its name in the call.
    ///
    /// # Errors
    /// MPI_ERR_COMM if it does not.
    pub fn check_origin(&self, other: &Communicator, what: &str) -> Result<()> {
        self.origin.check_same(other.origin, abi::MPI_ERR_COMM, what)
    }

    /// The place of its error handler, for those who need it when the communicator may be gone.
    pub fn errhandler_cell(&self) -> &Arc<HandlerCell> {
        &self.errhandler
    }

    /// The same communicator with another place for its error handler: it is part of an object that has its own.
    pub(crate) fn with_errhandler_cell(self, errhandler: Arc<HandlerCell>) -> Communicator {
        Communicator { errhandler, ..self }
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

    /// The place of its name, for those who explain what goes on in it.
    pub(crate) fn shared_name(&self) -> &SharedName {
        &self.name
    }

    /// Names it (MPI_Comm_set_name).
    pub fn set_name(&self, name: &[u8]) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    /// The tag of the next blocking collective. All ranks call collectives of a communicator in the same order (MPI-5.0
    /// section 6.1), so they agree; it wraps after 2^30 calls, long after the first has been forgotten.
    pub(crate) fn next_tag(&self) -> i32 {
        (self.collectives.fetch_add(1, Ordering::Relaxed) & (IMMEDIATE - 1)) as i32
    }

    /// As [`Communicator::next_tag`] for nonblocking ones, which are counted for themselves: so a program that calls a
    /// blocking one before them here and behind them there, which the standard forbids, is right all the same.
    pub(crate) fn next_immediate_tag(&self) -> i32 {
        (IMMEDIATE | (self.immediates.fetch_add(1, Ordering::Relaxed) & (PERSISTENT - 1))) as i32
    }

    /// The tag of the next persistent collective, and whether such tags have gone round, so that it may be another's. It
    /// is the request's as long as that lives: so a start finds its like on the other ranks in whatever order they
    /// start (MPI-5.0, "Persistent Collective Operations").
    pub(crate) fn next_persistent_tag(&self) -> (i32, bool) {
        let drawn = self.persistents.fetch_add(1, Ordering::Relaxed);
        // The greatest tag of all is that of notices.
        const { assert!(NOTICE_TAG as u32 == IMMEDIATE | PERSISTENT | (PERSISTENT - 1)) };
        let tag = IMMEDIATE | PERSISTENT | (drawn % u64::from(PERSISTENT - 1)) as u32;
        (tag as i32, drawn >= u64::from(PERSISTENT - 1))
    }

    /// Collectives started on it so far.
    pub(crate) fn collectives_started(&self) -> u64 {
        let tags = [&self.collectives, &self.immediates].map(|tags| u64::from(tags.load(Ordering::Relaxed)));
        let sections = self.blocking.iter().chain(&self.nonblocking);
        let persistent = self.persistent_starts.load(Ordering::Relaxed);
        tags[0] + tags[1] + persistent + sections.map(|control| control.operations()).sum::<u64>()
    }

    /// The process that has this rank, as the other side of a message.
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
        let last = self.remote_size() - 1;
        let whose = if self.is_inter() { "remote group of the intercommunicator" } else { "communicator" };
        MpiError::new(abi::MPI_ERR_RANK, format!("{what} is {rank}; the {whose} has the ranks 0 to {last}"))
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

/// The vector of an operation that is over.
pub(crate) fn taken<T: Plain>(owned: Owned<T>) -> Result<Vec<T>> {
    owned
        .into_vec()
        .map_err(|_| MpiError::new(abi::MPI_ERR_INTERN, "a finished operation still has its buffer"))
}

/// Bytes as words.
fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}
