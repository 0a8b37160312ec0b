//! One rank as a value.

mod domain;
mod waiting;

pub(crate) use self::domain::Domain;
use self::domain::Works;

use crate::buffered::AttachedBuffers;
use crate::choice::{Choice, nodes_of};
use crate::comm::{Communicator, Heritage};
use crate::dynamic::{Bonds, Foreign};
use crate::failure::Failures;
use crate::handed::HandedLibraries;
use crate::handler::{ErrorHandler, HandlerCell};
use crate::partitioned::Contexts;
use crate::persistent_state::PersistentOps;
use crate::run_cache::RunCache;
use crate::shmem::Control;
use crate::tool::{Calls, CollectiveEvents, Peaks, Tool};
use crate::wait_reason::Awaited;
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

/// A user's reduction function, bound to its datatype; called without a lock.
pub type UserCall = Arc<dyn Fn(&UserReduction) + Send + Sync>;

/// The continuation of a collective, after success or failure. Progress calls it with the lane
/// locked, just before the request is complete. It must not wait or call the program's functions.
pub(crate) type Then<F> = Box<dyn FnOnce(&mut Domain<F>, std::result::Result<(), Fault>) + Send>;

/// A continuation that would take too long for progress. The thread that made progress calls it
/// without a lock. It must not wait for other ranks.
pub(crate) type Work<F> = Box<dyn FnOnce(&Process<F>) + Send>;

/// One rank: the whole state of a process of an MPI job.
pub struct Process<F> {
    pub(crate) rank: u32,
    pub(crate) last_tag: i32,
    /// Whether the node was oversubscribed at the start of the process. All ranks of a collective
    /// decide by this value. The waits of the process follow its door instead, which is right even
    /// after a restart on another host.
    pub(crate) is_oversubscribed: bool,
    /// Whether all ranks of the job have the same `is_oversubscribed`, as on one host.
    pub(crate) is_alike: bool,
    pub(crate) domain: LaneLock<Domain<F>>,
    /// The door for this process's sleeping threads; `None` in the virtual world.
    pub(crate) door: Option<Door>,
    threaded: AtomicBool,
    /// Whether a call checks its whole array of requests before it uses the first.
    pub(crate) checks: bool,
    pub(crate) next_context: AtomicU32,
    world: Arc<Communicator>,
    own: Arc<Communicator>,
    /// All processes of the job, for calls without a communicator ([`Process::create_from_group`]).
    pub(crate) meeting: Communicator,
    pub(crate) bonds: Option<Arc<dyn Bonds>>,
    /// Memory for the program that peers can read; `None` in the virtual world.
    heap: Option<Arc<Heap>>,
    pub(crate) tool: Tool,
    /// Processes with the same number can share memory.
    pub(crate) node: u64,
    /// Whether ranks must share nothing but messages, since each has its own checkpoint image.
    pub(crate) is_imaged_alone: bool,
    pub(crate) choice: Arc<Choice>,
    pub(crate) needs_selection: AtomicBool,
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
    /// Process `rank` of a job of `size` processes, with the predefined communicators.
    pub fn new(rank: u32, size: u32, fabric: F, door: Option<Door>) -> Process<F> {
        Process::of_job(rank, 0..size, fabric, door)
    }

    /// Process `number` of the job with the processes `job`. Its launcher may have more jobs.
    pub fn of_job(number: u32, job: Range<u32>, fabric: F, door: Option<Door>) -> Process<F> {
        let (rank, base) = (number, job.start);
        let is_oversubscribed = door.as_ref().is_some_and(Door::is_oversubscribed);
        let mut lane = Lane::new(rank, fabric);
        let keeps_memory = lane.fabric_mut().lasting_memory().is_some();
        let last_tag = lane.fabric_mut().matching().map_or(i32::MAX, |network| network.last_tag());
        // All processes open the three in this order, so that the contexts have the same indices.
        let map = RankMap::new(job.clone().collect());
        let world = lane.open_team(map.clone(), rank - base, ContextId::new(base, 0), true);
        let own = lane.open_team(RankMap::new(vec![rank]), 0, ContextId::new(rank, 1), true);
        let meeting = lane.open_team(map, rank - base, ContextId::new(base, 2), true);
        let errhandler = ErrorHandler::predefined(abi::MPI_ERRORS_ARE_FATAL);
        let heritage = Heritage { errhandler, origin: Origin::WORLD, component: None };
        let may_share = lane.fabric_mut().may_share_section(job.end - job.start, job.clone());
        let control = may_share.then(|| Control::pair(base, 0, 0, is_oversubscribed));
        let nodes = nodes_of(lane.fabric_mut(), &world.map, &job);
        let mut world = Communicator::new(world, heritage.clone(), control);
        world.set_nodes(nodes);
        let own = Communicator::new(own, heritage.clone(), None);
        let meeting = Communicator::new(meeting, heritage, None);
        for (comm, handle, name) in [
            (&world, abi::MPI_COMM_WORLD, "MPI_COMM_WORLD"),
            (&own, abi::MPI_COMM_SELF, "MPI_COMM_SELF"),
        ] {
            comm.errhandler_cell().set_object(handle);
            comm.set_name(name.as_bytes());
        }
        // By default the component smp serves ranks on several nodes.
        let needs_selection = world.is_hierarchy();
        let (world, own) = (Arc::new(world), Arc::new(own));
        let calls = Arc::<Calls>::default();
        let choice = Arc::new(Choice::silent(job.clone()));
        let mut domain = Domain {
            is_oversubscribed,
            lane,
            runs: Vec::new(),
            moved: false,
            persistent: PersistentOps::default(),
            handed: HandedLibraries::default(),
            run_cache: RunCache::default(),
            partitioned: Contexts::default(),
            closing: Vec::new(),
            handlers: Vec::new(),
            names: Vec::new(),
            has_sessions: false,
            attached: AttachedBuffers::default(),
            failures: Failures::default(),
            calls: calls.clone(),
            notes: CollectiveEvents::default(),
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
            is_oversubscribed,
            is_alike: true,
            domain: LaneLock::new(domain),
            door,
            threaded: AtomicBool::new(false),
            checks: true,
            // 0, 1 and 2 are the names of world, self and the meeting.
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
            needs_selection: AtomicBool::new(needs_selection),
            keeps_memory,
        }
    }

    /// Sets the heap, which peers can read over the fabric.
    pub fn with_heap(self, heap: Heap) -> Process<F> {
        Process { heap: Some(Arc::new(heap)), ..self }
    }

    /// Sets the number of the node: processes with equal numbers can share memory.
    pub fn on_node(self, node: u64) -> Process<F> {
        Process { node, ..self }
    }

    #[must_use]
    pub(crate) fn imaged_alone(self, is_so: bool) -> Process<F> {
        Process { is_imaged_alone: is_so, ..self }
    }

    /// For a job on several hosts, of which only some may be oversubscribed.
    #[must_use]
    pub(crate) fn on_several_hosts(self) -> Process<F> {
        Process { is_alike: false, ..self }
    }

    /// Drops the checks of whole arrays of requests. A bad handle is still an error, but by then
    /// the requests before it in the array may be freed.
    pub fn without_checks(self) -> Process<F> {
        Process { checks: false, ..self }
    }

    /// Charges MPI_BSEND_OVERHEAD for each buffered send, as the standard defines it.
    #[must_use]
    pub(crate) fn with_whole_overhead(self) -> Process<F> {
        self.domain.lock().attached.is_strict = true;
        self
    }

    /// Memory from which peers copy messages by themselves.
    pub fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
    }

    /// Whether a transport keeps the registration of lasting memory ([`Process::keep_memory`]).
    pub fn keeps_memory(&self) -> bool {
        self.keeps_memory
    }

    /// Lets transports keep this memory registered until [`Process::forget_memory`].
    pub fn keep_memory(&self, memory: &Memory) {
        if self.keeps_memory
            && let Some(lasting) = self.domain.lock().lane.fabric_mut().lasting_memory()
        {
            let memory = Exposed::from(memory.clone());
            let bytes = memory.elements(0, memory.len(), &Arc::new(Layout::basic(1, 1)));
            bytes.iter().for_each(|bytes| lasting.keep_memory(bytes));
        }
    }

    /// Drops all registrations of the memory that begins at address `start`.
    pub fn forget_memory(&self, start: usize) {
        if self.keeps_memory
            && let Some(lasting) = self.domain.lock().lane.fabric_mut().lasting_memory()
        {
            lasting.forget_memory(start);
        }
    }

    /// MPI_COMM_WORLD.
    #[inline]
    pub fn world(&self) -> &Arc<Communicator> {
        &self.world
    }

    /// MPI_COMM_SELF.
    #[inline]
    pub fn own(&self) -> &Arc<Communicator> {
        &self.own
    }

    /// The number of this process at its launcher; in the first job, its rank in MPI_COMM_WORLD.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of processes of the job.
    pub fn size(&self) -> u32 {
        self.world.team.size()
    }

    /// Lets several threads call the library (MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE). Errors:
    /// the calling thread is not the home thread.
    pub fn set_threaded(&self) -> Result<()> {
        self.domain.set_threaded().map_err(|e| MpiError::new(abi::MPI_ERR_OTHER, e.to_string()))?;
        let mut domain = self.domain.lock();
        domain.lane.fabric_mut().share_among_threads();
        domain.windows.iter_mut().for_each(Service::share_among_threads);
        drop(domain);
        self.threaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// `pairs` consecutive names for new pairs of contexts, unique among all connected processes.
    /// Returns the first name.
    pub(crate) fn new_context_ids(&self, pairs: u32) -> Result<ContextId> {
        const MOST: u32 = 1 << 30;
        let next = |before: u32| before.checked_add(pairs).filter(|after| *after <= MOST);
        let taken = self.next_context.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let Ok(counter) = taken else {
            return Err(MpiError::new(
                abi::MPI_ERR_OTHER,
                "this process has created too many communicators: it has used all its 2^30 names for pairs of contexts",
            ));
        };
        Ok(ContextId::new(self.creator(), counter))
    }

    #[inline]
    pub(crate) fn is_threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// The error handler of the communicator of a failed operation.
    pub fn errhandler_of(&self, failed: &Completion) -> Option<Arc<HandlerCell>> {
        let domain = self.domain.lock();
        let (cell, _) = domain.handlers.get(failed.context as usize)?.as_ref()?;
        Some(cell.clone())
    }

    /// Waits until each sent message has arrived or will arrive without this process, and until
    /// receives with freed requests are complete (the part of MPI_Finalize for messages, MPI-5.0
    /// section 11.2.2). Then closes the connections.
    pub fn drain(&self) {
        self.domain.lock().leave_agreements();
        self.wait_for(&Awaited::Described(&Domain::reason_of_end), |domain| {
            let lane = &mut domain.lane;
            (lane.is_drained() && lane.are_receives_over() && lane.fabric_mut().leave())
                .then_some(())
        });
        let mut domain = self.domain.lock();
        // Until now other ranks may have needed this process in operations of UCC or hcoll.
        domain.handed.leave();
        domain.reap();
    }
}
