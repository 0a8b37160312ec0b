//! One rank as a value.

mod domain;
mod waiting;

pub(crate) use self::domain::Domain;
use self::domain::Works;

use crate::awaited::Awaited;
use crate::buffered::AttachedBuffers;
use crate::choice::{Choice, nodes_of};
use crate::comm::{Communicator, Heritage};
use crate::dynamic::{Bonds, Foreign};
use crate::failure::Failures;
use crate::handed::HandedLibraries;
use crate::handler::{ErrorHandler, HandlerCell};
use crate::kept::Shelf;
use crate::partitioned::Contexts;
use crate::shmem::Control;
use crate::spare::Spares;
use crate::tool::{Calls, Notes, Peaks, Tool};
use crate::window::Service;
use oxmpi_abi::constants as abi;
use oxmpi_coll::UserReduction;
use oxmpi_engine::{Completion, Fault, Lane, RankMap};
use oxmpi_fabric::Fabric;
use oxmpi_mem::exposed::Exposed;
use oxmpi_mem::layout::Layout;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::origin::Origin;
use oxmpi_shm::door::Door;
use oxmpi_shm::heap::Heap;
use oxmpi_sys::lock::LaneLock;
use oxmpi_sys::memory::Memory;
use oxmpi_wire::ContextId;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A user's reduction function, bound to its datatype: called without any lock held.
pub type UserCall = Arc<dyn Fn(&UserReduction) + Send + Sync>;

/// What follows from a collective when it is over, for better or for worse. It runs inside progress with the lane locked,
/// just before the request is complete: it must not wait, and runs nothing of the user's.
pub(crate) type Then<F> = Box<dyn FnOnce(&mut Domain<F>, std::result::Result<(), Fault>) + Send>;

/// What is due after a collective and takes longer than progress may: it runs with no lock held, on whatever thread has
/// looked. It must not wait for other ranks.
pub(crate) type Work<F> = Box<dyn FnOnce(&Process<F>) + Send>;

/// One rank: everything that a process of an MPI job is and has.
pub struct Process<F> {
    pub(crate) rank: u32,
    /// The largest tag, as what carries the messages has room for.
    pub(crate) last_tag: i32,
    /// There were more ranks than processors where the process started: what the ranks of a collective do alike depends on it. How
    /// the process waits, its door knows, also after a restart on another host.
    pub(crate) is_crowded: bool,
    /// Whether that is so for all of the job: they are on one host.
    pub(crate) is_alike: bool,
    pub(crate) domain: LaneLock<Domain<F>>,
    /// Where its threads sleep; none in the virtual world, where nobody waits.
    pub(crate) door: Option<Door>,
    threaded: AtomicBool,
    /// Whether arrays of requests are checked as a whole before the first of them is used.
    pub(crate) checks: bool,
    pub(crate) next_context: AtomicU32,
    world: Arc<Communicator>,
    own: Arc<Communicator>,
    /// All processes of the job, for calls that name no communicator ([`Process::create_from_group`]).
    pub(crate) meeting: Communicator,
    /// Who is told of communicators with processes of other jobs, and knows what those are called.
    pub(crate) bonds: Option<Arc<dyn Bonds>>,
    /// Memory that peers can read, for the program; none in the virtual world.
    heap: Option<Arc<Heap>>,
    /// What a tool has to do with it.
    pub(crate) tool: Tool,
    /// The node it runs on: processes with the same number can share memory.
    pub(crate) node: u64,
    /// Whether it is imaged by itself, so that it can have nothing in common with others but messages.
    pub(crate) is_imaged_alone: bool,
    /// What components and algorithms of collectives are chosen by.
    pub(crate) choice: Arc<Choice>,
    /// Whether calls must look for what serves them.
    pub(crate) is_choosy: AtomicBool,
    /// Whether a transport keeps memory registered that this process says of that it lasts.
    keeps_memory: bool,
}

impl<F> std::fmt::Debug for Process<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("rank", &self.rank)
            .field("world", &self.world.team.map)
            .finish_non_exhaustive()
    }
}

impl<F: Fabric> Process<F> {
    /// Process `rank` of a job of `size`, over `fabric`, with the predefined communicators.
    pub fn new(rank: u32, size: u32, fabric: F, door: Option<Door>) -> Process<F> {
        Process::of_job(rank, 0..size, fabric, door)
    }

    /// Process `number` of a job that has the processes `job`, among others of its launcher.
    pub fn of_job(number: u32, job: Range<u32>, fabric: F, door: Option<Door>) -> Process<F> {
        let (rank, base) = (number, job.start);
        let is_crowded = door.as_ref().is_some_and(Door::is_oversubscribed);
        let mut lane = Lane::new(rank, fabric);
        let keeps_memory = lane.fabric_mut().lasting_memory().is_some();
        let last_tag = lane.fabric_mut().matching().map_or(i32::MAX, |network| network.last_tag());
        // In this order, so that all processes know them by the same indices.
        let map = RankMap::new(job.clone().collect());
        let world = lane.open_team(map.clone(), rank - base, ContextId::new(base, 0), true);
        let own = lane.open_team(RankMap::new(vec![rank]), 0, ContextId::new(rank, 1), true);
        let meeting = lane.open_team(map, rank - base, ContextId::new(base, 2), true);
        let errhandler = ErrorHandler::predefined(abi::MPI_ERRORS_ARE_FATAL);
        let heritage = Heritage { errhandler, origin: Origin::WORLD, component: None };
        let may_share = lane.fabric_mut().may_share_section(job.end - job.start, job.clone());
        let control = may_share.then(|| Control::pair(base, 0, 0, is_crowded));
        let nodes = nodes_of(lane.fabric_mut(), &world.map, &job);
        let mut world = Communicator::new(world, heritage.clone(), control);
        world.set_nodes(nodes);
        let own = Communicator::new(own, heritage.clone(), None);
        let meeting = Communicator::new(meeting, heritage, None);
        for (comm, handle, name) in
            [(&world, abi::MPI_COMM_WORLD, "MPI_COMM_WORLD"), (&own, abi::MPI_COMM_SELF, "MPI_COMM_SELF")]
        {
            comm.errhandler_cell().set_object(handle);
            comm.set_name(name.as_bytes());
        }
        // The component smp serves by default what is on several nodes.
        let is_choosy = world.is_hierarchy();
        let (world, own) = (Arc::new(world), Arc::new(own));
        let calls = Arc::<Calls>::default();
        let choice = Arc::new(Choice::silent(job.clone()));
        let mut domain = Domain {
            is_crowded,
            lane,
            runs: Vec::new(),
            moved: false,
            kept: Shelf::default(),
            handed: HandedLibraries::default(),
            spares: Spares::default(),
            partitioned: Contexts::default(),
            closing: Vec::new(),
            handlers: Vec::new(),
            names: Vec::new(),
            has_sessions: false,
            attached: AttachedBuffers::default(),
            failures: Failures::default(),
            calls: calls.clone(),
            notes: Notes::default(),
            peaks: Peaks::default(),
            works: Works(Vec::new()),
            foreign: Box::new(Foreign::new(job.clone())),
            windows: Vec::new(),
            serving: false,
            choice: choice.clone(),
        };
        domain.note_handler(&world);
        domain.note_handler(&own);
        domain.note_handler(&meeting);
        Process {
            rank,
            last_tag,
            is_crowded,
            is_alike: true,
            domain: LaneLock::new(domain),
            door,
            threaded: AtomicBool::new(false),
            checks: true,
            // 0, 1 and 2 name world, self and the meeting.
            next_context: AtomicU32::new(3),
            world,
            own,
            meeting,
            bonds: None,
            heap: None,
            tool: Tool::new(calls),
            node: 0,
            is_imaged_alone: false,
            choice,
            is_choosy: AtomicBool::new(is_choosy),
            keeps_memory,
        }
    }

    /// The process with this heap, which peers can read over its fabric.
    pub fn with_heap(self, heap: Heap) -> Process<F> {
        Process { heap: Some(Arc::new(heap)), ..self }
    }

    /// The process on this node: those on nodes of the same number can share memory.
    pub fn on_node(self, node: u64) -> Process<F> {
        Process { node, ..self }
    }

    /// The process of a job of which each rank is imaged by itself: it has nothing in common with others but messages.
    #[must_use]
    pub(crate) fn imaged_alone(self, is_so: bool) -> Process<F> {
        Process { is_imaged_alone: is_so, ..self }
    }

    /// The same, whose job is on several hosts: on some of them ranks may have to share processors, and on others not.
    #[must_use]
    pub(crate) fn on_several_hosts(self) -> Process<F> {
        Process { is_alike: false, ..self }
    }

    /// The process without the checks that go over whole arrays of requests before the first is used. A bad handle is
    /// an error all the same, but requests before it may be gone by then.
    pub fn without_checks(self) -> Process<F> {
        Process { checks: false, ..self }
    }

    /// The process whose buffered sends are charged MPI_BSEND_OVERHEAD each, as the standard counts.
    #[must_use]
    pub(crate) fn with_whole_overhead(self) -> Process<F> {
        self.domain.lock().attached.is_strict = true;
        self
    }

    /// Memory from which peers copy messages by themselves, if this process has such.
    pub fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
    }

    /// Whether a transport keeps memory registered that lasts ([`Process::keep_memory`]).
    pub fn keeps_memory(&self) -> bool {
        self.keeps_memory
    }

    /// This memory stays where it is until [`Process::forget_memory`]: a transport that needs memory registered may keep the registration.
    pub fn keep_memory(&self, memory: &Memory) {
        if self.keeps_memory
            && let Some(lasting) = self.domain.lock().lane.fabric_mut().lasting_memory()
        {
            let memory = Exposed::from(memory.clone());
            let bytes = memory.elements(0, memory.len(), &Arc::new(Layout::basic(1, 1)));
            bytes.iter().for_each(|bytes| lasting.keep_memory(bytes));
        }
    }

    /// The memory that begins at this address goes: no transport has anything of it any more.
    pub fn forget_memory(&self, start: usize) {
        if self.keeps_memory
            && let Some(lasting) = self.domain.lock().lane.fabric_mut().lasting_memory()
        {
            lasting.forget_memory(start);
        }
    }

    /// The communicator of all processes of the job (MPI_COMM_WORLD).
    #[inline]
    pub fn world(&self) -> &Arc<Communicator> {
        &self.world
    }

    /// The communicator of this process alone (MPI_COMM_SELF).
    #[inline]
    pub fn own(&self) -> &Arc<Communicator> {
        &self.own
    }

    /// Number of this process among all of its launcher; in the first job it is the rank in the world.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes of the job.
    pub fn size(&self) -> u32 {
        self.world.team.size()
    }

    /// From now on several threads may call (MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE). Call it before they do.
    ///
    /// # Errors
    /// If another thread was the first to call.
    pub fn set_threaded(&self) -> Result<()> {
        self.domain.set_threaded().map_err(|e| MpiError::new(abi::MPI_ERR_OTHER, e.to_string()))?;
        let mut domain = self.domain.lock();
        domain.lane.fabric_mut().share_among_threads();
        domain.windows.iter_mut().for_each(Service::share_among_threads);
        drop(domain);
        self.threaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A name for a new pair of contexts, unique among all processes that have to do with each other; the `pairs - 1` later ones are this
    /// caller's too.
    pub(crate) fn new_context_ids(&self, pairs: u32) -> Result<ContextId> {
        // The counter in a name has so many values.
        const MOST: u32 = 1 << 30;
        let next = |before: u32| before.checked_add(pairs).filter(|after| *after <= MOST);
        let taken = self.next_context.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let Ok(counter) = taken else {
            return Err(MpiError::new(
                abi::MPI_ERR_OTHER,
                "this process has named as many pairs of contexts for communicators as it can, 2^29 at least",
            ));
        };
        Ok(ContextId::new(self.creator(), counter))
    }

    /// Whether several threads may be in.
    #[inline]
    pub(crate) fn is_threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// The place of the error handler that counts for a failed operation: that of its communicator.
    pub fn errhandler_of(&self, failed: &Completion) -> Option<Arc<HandlerCell>> {
        let domain = self.domain.lock();
        let (cell, _) = domain.handlers.get(failed.context as usize)?.as_ref()?;
        Some(cell.clone())
    }

    /// Waits until everything this process has sent is with its receiver, or will get there without it, and until receives are
    /// over whose requests were freed (the part of MPI_Finalize that concerns messages, MPI-5.0 section 11.2.2). Then it takes
    /// leave of the peers.
    pub fn drain(&self) {
        self.domain.lock().leave_agreements();
        self.wait_for(&Awaited::Said(&Domain::reason_of_end), |domain| {
            let lane = &mut domain.lane;
            (lane.is_drained() && lane.are_receives_over() && lane.fabric_mut().leave()).then_some(())
        });
        let mut domain = self.domain.lock();
        // Until now others may have needed this process's part of a library.
        domain.handed.leave();
        domain.reap();
    }
}
