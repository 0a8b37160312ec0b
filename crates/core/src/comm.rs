//! Communicators (MPI-5.0 chapter 7).
//!
//! The first rank of a new communicator draws its name and broadcasts it (`name`). The team of an
//! intercommunicator (`inter`) has the map of the *remote* group and the rank of this process in
//! the *local* group. So its messages take the same route as those of an intracommunicator.
//!
//! Messages of the library outside collectives have negative tags, which no wildcard matches. The
//! messages of leaders are in the point-to-point context of their peer communicator, those of
//! MPI_Comm_create_group in the collective context.

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

pub use compare::CommComparison;
pub use create_group::CreateGroup;
pub use dup::Dup;
pub use inter::Inter;
pub use intercomm::{IntercommCreate, Peer};
pub use merge::Merge;
pub use split::{ProcessSet, SHARED_MEMORY, Split};

use crate::choice::{ReportedChoices, Servers};
use crate::handler::{ErrorHandler, HandlerCell};
use crate::shmem::Control;
use crate::wait_reason::SharedName;
pub(crate) use inter::{CommShape, InterShape};
pub(crate) use name::Name;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{NOTICE_TAG, Team};
use oxmpi_mem::memory::{Owned, Plain};
use oxmpi_objects::attribute::Attributes;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::hints::CommHints;
use oxmpi_objects::origin::Origin;
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_objects::topology::Topology;
use oxmpi_tuned::Component;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

const IMMEDIATE: u32 = 1 << 30;

/// The bit that separates tags of persistent collectives from other tags with [`IMMEDIATE`].
const PERSISTENT: u32 = 1 << 29;

/// A communicator (MPI_Comm).
#[derive(Debug)]
pub struct Communicator {
    /// Its processes and contexts. In an intercommunicator the map is that of the remote group.
    pub team: Arc<Team>,
    inter: Option<Inter>,
    errhandler: Arc<HandlerCell>,
    origin: Origin,
    pub attributes: Attributes,
    hints: AtomicU8,
    /// As bytes, since C defines no encoding.
    name: SharedName,
    pub(crate) collectives: AtomicU32,
    pub(crate) immediates: AtomicU32,
    pub(crate) persistents: AtomicU64,
    pub(crate) persistent_starts: Arc<AtomicU64>,
    pub(crate) blocking: Option<Arc<Control>>,
    pub(crate) nonblocking: Option<Arc<Control>>,
    pub(crate) servers: Servers,
    pub(crate) reported: ReportedChoices,
    pub(crate) topology: Option<Arc<Topology>>,
}

/// The properties that a new communicator takes over from its parent.
#[derive(Clone, Debug)]
pub struct Heritage {
    pub errhandler: ErrorHandler,
    pub origin: Origin,
    pub component: Option<Component>,
}

impl Communicator {
    pub(crate) fn new(
        team: Arc<Team>,
        heritage: Heritage,
        sections: Option<[Control; 2]>,
    ) -> Communicator {
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
            reported: ReportedChoices::default(),
            topology: None,
        }
    }

    fn new_inter(team: Arc<Team>, inter: Inter, heritage: Heritage) -> Communicator {
        Communicator { inter: Some(inter), ..Communicator::new(team, heritage, None) }
    }

    pub(crate) fn teams(&self) -> impl Iterator<Item = &Arc<Team>> {
        [Some(&self.team), self.inter.as_ref().map(|inter| &inter.local)].into_iter().flatten()
    }

    pub(crate) fn contexts(&self) -> impl Iterator<Item = u32> {
        self.teams().flat_map(|team| [team.point_to_point, team.collective])
    }

    /// The rank of this process in its group (MPI_Comm_rank).
    #[inline]
    pub fn rank(&self) -> i32 {
        self.team.rank as i32
    }

    /// The size of this process's group (MPI_Comm_size).
    #[inline]
    pub fn size(&self) -> i32 {
        match &self.inter {
            None => self.team.size() as i32,
            Some(inter) => inter.local.size() as i32,
        }
    }

    /// The error handler.
    pub fn errhandler(&self) -> ErrorHandler {
        self.errhandler.get()
    }

    /// The session, or the World Model.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    pub(crate) fn heritage(&self) -> Heritage {
        self.heritage_with(None)
    }

    pub(crate) fn heritage_with(&self, component: Option<Component>) -> Heritage {
        let component = component.or_else(|| self.component_of_heirs());
        Heritage { errhandler: self.errhandler(), origin: self.origin, component }
    }

    /// Checks that another communicator of a call comes from the same session. `what` is the name
    /// of its argument. Errors: MPI_ERR_COMM.
    pub fn check_origin(&self, other: &Communicator, what: &str) -> Result<()> {
        self.origin.check_same(other.origin, abi::MPI_ERR_COMM, what)
    }

    /// The cell of the error handler, for errors that occur after the communicator is freed.
    pub fn errhandler_cell(&self) -> &Arc<HandlerCell> {
        &self.errhandler
    }

    pub(crate) fn with_errhandler_cell(self, errhandler: Arc<HandlerCell>) -> Communicator {
        Communicator { errhandler, ..self }
    }

    /// The promises of the program about the communicator (MPI_Comm_get_info).
    pub fn hints(&self) -> CommHints {
        CommHints::from_bits(self.hints.load(Ordering::Relaxed))
    }

    /// MPI_Comm_set_info.
    pub fn set_hints(&self, hints: CommHints) {
        self.hints.store(hints.bits(), Ordering::Relaxed);
    }

    /// The name; empty if it has none (MPI_Comm_get_name).
    pub fn name(&self) -> Box<[u8]> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn shared_name(&self) -> &SharedName {
        &self.name
    }

    /// MPI_Comm_set_name.
    pub fn set_name(&self, name: &[u8]) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    /// The tag of the next blocking collective. All ranks call the collectives of a communicator in
    /// the same order (MPI-5.0 section 6.1), so all draw the same tag. Tags wrap after 2^30 calls.
    pub(crate) fn next_tag(&self) -> i32 {
        (self.collectives.fetch_add(1, Ordering::Relaxed) & (IMMEDIATE - 1)) as i32
    }

    /// The tag of the next nonblocking collective. Its own counter allows programs, against the
    /// standard, to start it before the same blocking collective at one rank and after it at
    /// another.
    pub(crate) fn next_immediate_tag(&self) -> i32 {
        (IMMEDIATE | (self.immediates.fetch_add(1, Ordering::Relaxed) & (PERSISTENT - 1))) as i32
    }

    /// The tag of the next persistent collective, and whether these tags have wrapped. After that a
    /// live request may have the tag. A request keeps its tag, so the ranks may start their
    /// requests in different orders (MPI-5.0, "Persistent Collective Operations").
    pub(crate) fn next_persistent_tag(&self) -> (i32, bool) {
        let drawn = self.persistents.fetch_add(1, Ordering::Relaxed);
        // The greatest tag is for failure notices.
        const { assert!(NOTICE_TAG as u32 == IMMEDIATE | PERSISTENT | (PERSISTENT - 1)) };
        let tag = IMMEDIATE | PERSISTENT | (drawn % u64::from(PERSISTENT - 1)) as u32;
        (tag as i32, drawn >= u64::from(PERSISTENT - 1))
    }

    pub(crate) fn collectives_started(&self) -> u64 {
        let tags = [&self.collectives, &self.immediates]
            .map(|tags| u64::from(tags.load(Ordering::Relaxed)));
        let sections = self.blocking.iter().chain(&self.nonblocking);
        let persistent = self.persistent_starts.load(Ordering::Relaxed);
        tags[0] + tags[1] + persistent + sections.map(|control| control.operations()).sum::<u64>()
    }

    /// The process with this rank, as the peer of a message. `what` is the name of the argument.
    /// Errors: MPI_ERR_RANK.
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
        let rank = shown::number(ValueKind::Rank, rank);
        let whose =
            if self.is_inter() { "remote group of the intercommunicator" } else { "communicator" };
        MpiError::new(
            abi::MPI_ERR_RANK,
            format!("{what} is {rank}; the {whose} has the ranks 0 to {last}"),
        )
    }

    /// Checks the root of a collective. Errors: MPI_ERR_ROOT.
    pub fn root(&self, root: i32) -> Result<u32> {
        match u32::try_from(root) {
            Ok(r) if r < self.team.size() => Ok(r),
            _ => Err(MpiError::new(
                abi::MPI_ERR_ROOT,
                format!(
                    "root is {}; the communicator has the ranks 0 to {}",
                    shown::number(ValueKind::Rank, root),
                    self.size() - 1
                ),
            )),
        }
    }
}

pub(crate) fn taken<T: Plain>(owned: Owned<T>) -> Result<Vec<T>> {
    owned.into_vec().map_err(|_| {
        MpiError::new(abi::MPI_ERR_INTERN, "a finished operation still has its buffer")
    })
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}
