//! One rank as a value.

use crate::awaited::{Awaited, Reason, SharedName, Telling};
use crate::buffered::AttachedBuffers;
use crate::choice::{Choice, nodes_of};
use crate::comm::{Communicator, Heritage};
use crate::dynamic::{Bonds, Foreign};
use crate::failure::{Failures, check_alive};
use crate::handler::{ErrorHandler, HandlerCell};
use crate::kept::Shelf;
use crate::partitioned::Contexts;
use crate::shmem::{Control, Later};
use crate::spare::{Single, Spares};
use crate::task::{Stand, Task, advance_run};
use crate::tool::{Calls, Notes, Peaks, Seen, Tool};
use crate::window::Service;
use oxmpi_abi::constants as abi;
use oxmpi_coll::UserReduction;
use oxmpi_engine::{Completion, Fault, Lane, NO_CONTEXT, RankMap, RequestId, Rest, StartFault, Team};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::origin::Origin;
use oxmpi_os::door::{Door, Next};
use oxmpi_os::heap::Heap;
use oxmpi_os::lock::{LaneLock, LockError};
use oxmpi_plan::Collective;
use oxmpi_wire::ContextId;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A user's reduction function, bound to its datatype: called without any lock held.
pub type UserCall = Arc<dyn Fn(&UserReduction) + Send + Sync>;

/// What follows from a collective when it is over, for better or for worse. It runs inside progress with the lane locked,
/// just before the request is complete: it must not wait, and runs nothing of the user's.
pub(crate) type Then<F> = Box<dyn FnOnce(&mut Domain<F>, std::result::Result<(), Fault>) + Send>;

/// What is due after a collective and takes longer than progress may: it runs with no lock held, on whatever thread has
/// looked. It must not wait for other ranks.
pub(crate) type Work<F> = Box<dyn FnOnce(&Process<F>) + Send>;

/// How long a process sleeps at most while messages wait for room at peers that cannot wake it.
const SHORT_SLEEP: Duration = Duration::from_millis(1);
/// How long a thread waits at most for another one to let it in ([`Process::let_others_in`]).
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One rank: everything that a process of an MPI job is and has.
pub struct Process<F> {
    pub(crate) rank: u32,
    /// Ranks of the world that are processes of the same numbers: all, or, in a job that was spawned, none.
    pub(crate) home: u32,
    /// One more than the sources of the world (MPI_ANY_SOURCE among them) at which a probe may look shortly; 0 if a probe
    /// in vain leaves the processor to others.
    pub(crate) probed: u32,
    /// There are more ranks than processors: a question in vain leaves the processor to others.
    pub(crate) is_crowded: bool,
    /// Whether that is so for all of the job: they are on one host.
    pub(crate) is_alike: bool,
    pub(crate) domain: LaneLock<Domain<F>>,
    /// Where its threads sleep; none in the virtual world, where nobody waits.
    pub(crate) door: Option<Door>,
    threaded: AtomicBool,
    /// Whether arrays of requests are checked as a whole before the first of them is used.
    pub(crate) checks: bool,
    next_context: AtomicU32,
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
    /// What components and algorithms of collectives are chosen by.
    pub(crate) choice: Arc<Choice>,
    /// Whether calls must look for what serves them.
    pub(crate) is_choosy: AtomicBool,
}

impl<F> std::fmt::Debug for Process<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("rank", &self.rank)
            .field("world", &self.world.team.map)
            .finish_non_exhaustive()
    }
}

/// What the lane lock protects.
#[derive(Debug)]
pub(crate) struct Domain<F> {
    pub(crate) lane: Lane<F>,
    /// Collectives in execution.
    runs: Vec<Active<F>>,
    /// One of them in shared memory has gone on since this process last told others that it is about to sleep.
    moved: bool,
    /// What persistent requests keep between their starts.
    pub(crate) kept: Shelf,
    /// Where partitioned messages go.
    pub(crate) partitioned: Contexts,
    /// Collectives that may be called again.
    pub(crate) spares: Spares,
    /// Freed communicators in which something may still be under way.
    pub(crate) closing: Vec<Arc<Team>>,
    /// The error handler of each context's communicator, by the context's index. It stays when the communicator is
    /// freed: a request that failed may be asked for later.
    handlers: Vec<Option<(Arc<HandlerCell>, Origin)>>,
    /// The name of each context's communicator, likewise.
    pub(crate) names: Vec<Option<SharedName>>,
    /// Whether one of them is of a session.
    pub(crate) has_sessions: bool,
    /// The buffers for buffered sends.
    pub(crate) attached: AttachedBuffers,
    /// What follows from processes that fail.
    pub(crate) failures: Failures<F>,
    /// How many collectives were started, by algorithm.
    calls: Arc<Calls>,
    /// Collectives of which a tool shall hear.
    pub(crate) notes: Notes,
    /// High-water marks of tools.
    pub(crate) peaks: Peaks,
    /// What is due after collectives that have ended.
    works: Works<F>,
    /// The processes of other jobs.
    pub(crate) foreign: Box<Foreign>,
    /// The parts of windows that talk.
    pub(crate) windows: Vec<Service>,
    /// Whether one of them may have something to do though nothing has come.
    pub(crate) serving: bool,
    /// What collectives are chosen by, of which new communicators may tell.
    pub(crate) choice: Arc<Choice>,
}

/// Works to be carried out, in this order.
struct Works<F>(Vec<Work<F>>);

impl<F> std::fmt::Debug for Works<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Works").field(&self.0.len()).finish()
    }
}

struct Active<F> {
    request: RequestId,
    task: Task,
    call: Option<UserCall>,
    then: Option<Then<F>>,
    /// Its user's function is being called.
    in_call: bool,
    /// Why it cannot come to its end.
    doom: Option<Fault>,
}

impl<F> std::fmt::Debug for Active<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Active").field("request", &self.request).finish_non_exhaustive()
    }
}

/// What is due for a collective, with no lock held.
enum Due<F> {
    /// A user's function.
    Call { request: RequestId, call: UserCall, reduction: UserReduction },
    /// What follows from some that are over.
    Works(Vec<Work<F>>),
}

/// What came of a look.
enum Looked<F, R, Q> {
    Answered(R),
    /// Something must be done first; the question is not asked yet.
    Due(Due<F>, Q),
}

impl<F: Fabric> Domain<F> {
    /// Adds a collective.
    pub(crate) fn start(
        &mut self,
        single: Box<Single>,
        call: Option<UserCall>,
        then: Option<Then<F>>,
    ) -> RequestId {
        let request = self.lane.open_external();
        self.calls.count(&single.run);
        self.notes.collective(&single.run);
        self.runs.push(Active { request, task: Task::Once(single), call, then, in_call: false, doom: None });
        request
    }

    /// Adds a collective from which nothing follows, and does of it what can be done at once. Most short ones are over then, and
    /// have no request of their own.
    pub(crate) fn start_at_once(&mut self, mut single: Box<Single>, call: Option<UserCall>) -> RequestId {
        self.calls.count(&single.run);
        self.notes.collective(&single.run);
        if call.is_none() {
            match advance_run(&mut single.run, &mut self.lane) {
                Stand::Done(Completion { fault: None, .. }) => {
                    self.spares.give(single);
                    return RequestId::COMPLETE;
                }
                Stand::Done(failed) => {
                    let request = self.lane.open_external();
                    self.lane.complete_external(request, failed);
                    return request;
                }
                Stand::Waiting | Stand::Moved => {}
                Stand::NeedCallback(_) => single.run.callback_done(),
            }
        }
        let request = self.lane.open_external();
        let task = Task::Once(single);
        self.runs.push(Active { request, task, call, then: None, in_call: false, doom: None });
        request
    }

    /// Adds a collective in shared memory, and does of it what can be done at once.
    pub(crate) fn start_later(&mut self, mut later: Later, collective: Collective) -> RequestId {
        self.calls.count_small(collective, true);
        if let Stand::Done(_) = later.advance(&mut self.lane) {
            return RequestId::COMPLETE;
        }
        self.moved = true;
        // Another thread of the process may be about to sleep, and has not told anybody that it waits for this one, too.
        self.lane.note_news();
        let request = self.lane.open_external();
        let task = Task::Later(Box::new(later));
        self.runs.push(Active { request, task, call: None, then: None, in_call: false, doom: None });
        request
    }

    /// A collective that cannot be run because of `fault`: its request says so.
    #[cold]
    pub(crate) fn start_failed(&mut self, fault: Fault, team: &Team, then: Option<Then<F>>) -> RequestId {
        if let Some(then) = then {
            then(self, Err(fault));
        }
        let request = self.lane.open_external();
        let failed = Completion { context: team.collective, ..Completion::failed(fault) };
        self.lane.complete_external(request, failed);
        request
    }

    /// Starts the persistent request of what is kept under a key.
    pub(crate) fn start_kept(&mut self, persistent: RequestId, key: usize) -> Result<(), StartFault> {
        let request = self.lane.start_external(persistent)?;
        let call = self.kept.begin(key);
        let team = self.kept.team(key);
        let doom = team.and_then(|team| check_alive(&self.lane, team).err());
        self.runs.push(Active { request, task: Task::Kept(key), call, then: None, in_call: false, doom });
        Ok(())
    }

    /// Leaves something to be done with no lock held, before anybody's next question is answered. Only for [`Then`].
    pub(crate) fn leave(&mut self, work: Work<F>) {
        self.works.0.push(work);
    }

    /// Lets all collectives go on, until one needs its user's function.
    fn advance(&mut self) -> Option<Due<F>> {
        let mut at = 0;
        while let Some(active) = self.runs.get_mut(at) {
            if active.doom.is_some() && !active.in_call {
                self.end_doomed(at);
                continue;
            }
            match active.task.advance(&mut self.lane, &mut self.kept) {
                Stand::Waiting => at += 1,
                Stand::Moved => {
                    self.moved = true;
                    at += 1;
                }
                Stand::Done(completion) => {
                    let Active { request, task, then, .. } = self.runs.swap_remove(at);
                    if let Some(then) = then {
                        then(self, completion.fault.map_or(Ok(()), Err));
                    }
                    self.lane.complete_external(request, completion);
                    match task {
                        Task::Once(single) if completion.fault.is_none() => self.spares.give(single),
                        // One before it in this list may have its turn now.
                        Task::Later(_) => (self.moved, at) = (true, 0),
                        _ => {}
                    }
                }
                Stand::NeedCallback(reduction) => match &active.call {
                    Some(call) => {
                        active.in_call = true;
                        return Some(Due::Call { request: active.request, call: call.clone(), reduction });
                    }
                    None => active.task.callback_done(&mut self.kept),
                },
            }
        }
        let works = std::mem::take(&mut self.works.0);
        if works.is_empty() { None } else { Some(Due::Works(works)) }
    }

    /// Collectives of these teams cannot come to their end.
    pub(crate) fn doom_collectives(&mut self, why: impl Fn(&Team) -> Option<Fault>) {
        for active in &mut self.runs {
            if let Some(team) = active.task.team(&self.kept) {
                active.doom = active.doom.or_else(|| why(team));
            }
        }
    }

    #[cold]
    fn end_doomed(&mut self, at: usize) {
        let Active { request, task, then, doom: Some(fault), .. } = self.runs.swap_remove(at) else {
            return;
        };
        let context = task.team(&self.kept).map_or(NO_CONTEXT, |team| team.collective);
        task.abandon(&mut self.lane, &mut self.kept);
        if let Some(then) = then {
            then(self, Err(fault));
        }
        self.lane.complete_external(request, Completion { context, ..Completion::failed(fault) });
    }

    /// Completes the round of what is kept under a key, if it is over.
    pub(crate) fn finish_kept(&mut self, key: usize) {
        let is_it = |active: &Active<F>| matches!(active.task, Task::Kept(other) if other == key);
        if let Some(at) = self.runs.iter().position(is_it)
            && let Stand::Done(completion) = self.kept.advance(key, &mut self.lane)
        {
            let Active { request, .. } = self.runs.swap_remove(at);
            self.lane.complete_external(request, completion);
        }
    }

    /// Lets a collective in shared memory go on, if nothing else goes on above the lane: whether it is over. It is much less
    /// than a look.
    #[inline]
    pub(crate) fn advance_sole(&mut self) -> Option<bool> {
        let [Active { task: Task::Later(later), request, doom: None, .. }] = &mut self.runs[..] else {
            return None;
        };
        let Stand::Done(completion) = later.advance(&mut self.lane) else { return Some(false) };
        self.lane.complete_external(*request, completion);
        self.runs.clear();
        self.moved = true;
        Some(true)
    }

    /// The process is about to sleep: those for whom collectives in shared memory wait shall wake it.
    fn announce_sleep_above(&mut self) {
        self.moved = false;
        for active in &self.runs {
            if let Task::Later(later) = &active.task {
                later.announce_sleep();
            }
        }
    }

    /// Who is late for the collectives in shared memory of a team.
    pub(crate) fn reason_of_open(&self, team: &Team) -> Reason {
        let reasons = self.runs.iter().filter_map(|active| match &active.task {
            Task::Later(later) if later.team().collective == team.collective => Some(later.reason(self)),
            _ => None,
        });
        Reason::join(reasons.collect(), false)
    }

    /// Whether something goes on above the lane: a collective, or what is asked of a window.
    #[inline(always)]
    pub(crate) fn goes_on_above(&self) -> bool {
        // One comparison for both.
        self.runs.len() | usize::from(self.serving) != 0
    }

    /// Lets all windows go on.
    #[inline(never)]
    pub(crate) fn serve(&mut self) {
        self.serving = false;
        for window in &mut self.windows {
            window.advance(&mut self.lane);
            self.serving |= window.is_busy();
        }
    }

    /// Notes whom the requests of a new communicator tell of errors.
    pub(crate) fn note_handler(&mut self, comm: &Communicator) {
        for context in comm.contexts().map(|context| context as usize) {
            if self.handlers.len() <= context {
                self.handlers.resize(context + 1, None);
                self.names.resize(context + 1, None);
            }
            self.names[context] = Some(comm.shared_name().clone());
            self.handlers[context] = Some((comm.errhandler_cell().clone(), comm.origin()));
        }
        self.has_sessions |= !comm.origin().is_world();
    }

    /// What a request above the lane does, while it goes on.
    pub(crate) fn task_of(&self, request: RequestId) -> Option<&Task> {
        self.runs.iter().find(|active| active.request == request).map(|active| &active.task)
    }

    /// Where the communicator of a context comes from.
    pub(crate) fn origin_of(&self, context: u32) -> Option<Origin> {
        self.handlers.get(context as usize)?.as_ref().map(|(_, origin)| *origin)
    }

    fn callback_done(&mut self, request: RequestId) {
        if let Some(active) = self.runs.iter_mut().find(|a| a.request == request) {
            active.in_call = false;
            active.task.callback_done(&mut self.kept);
        }
    }

    /// Ends a request whatever its state. `false`: it is a collective whose user's function is being called, so its
    /// buffers are in use; try again.
    pub(crate) fn abandon(&mut self, request: RequestId) -> bool {
        let part = self.lane.active_part(request).unwrap_or(request);
        if let Some(at) = self.runs.iter().position(|a| a.request == part) {
            if self.runs[at].in_call {
                return false;
            }
            self.runs.swap_remove(at).task.abandon(&mut self.lane, &mut self.kept);
        }
        if let Some(key) = self.lane.external_key(request) {
            self.kept.remove(key, &mut self.lane);
        }
        self.lane.abandon(request);
        true
    }

    /// Closes freed communicators in which nothing is under way any more.
    pub(crate) fn reap(&mut self) {
        let (lane, runs, partitioned) = (&mut self.lane, &self.runs, &mut self.partitioned);
        self.closing.retain(|team| {
            let busy = is_busy(lane, runs, team) || lane.is_used(team) || partitioned.is_busy(lane, team);
            if !busy {
                partitioned.close(lane, team);
                if self.attached.forget(team.point_to_point) {
                    lane.set_own_buffer(team.point_to_point, None);
                }
                self.peaks.forget(team.id);
                self.spares.forget(team);
                lane.close_team(team);
            }
            busy
        });
    }

    /// Collectives in the contexts of a team, told by whether somebody may still ask for them: (those, the others).
    pub(crate) fn collectives_in(&self, team: &Team) -> (usize, usize) {
        let ours = self.runs.iter().filter(|active| active.task.context() == Some(team.collective));
        let (detached, held): (Vec<_>, Vec<_>) =
            ours.partition(|active| self.lane.is_detached(active.request));
        (held.len(), detached.len())
    }

    /// Whether something is under way in the contexts of a team.
    pub(crate) fn is_busy(&self, team: &Team) -> bool {
        is_busy(&self.lane, &self.runs, team)
    }
}

/// A collective may have no message under way at the moment and still have some to send. It is the context that counts:
/// some collectives are of a part of a communicator only, or of both groups of one.
fn is_busy<F: Fabric>(lane: &Lane<F>, runs: &[Active<F>], team: &Team) -> bool {
    lane.is_busy(team) || runs.iter().any(|active| active.task.context() == Some(team.collective))
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
        // In this order, so that all processes know them by the same indices.
        let map = RankMap::new(job.clone().collect());
        let world = lane.open_team(map.clone(), rank - base, ContextId::new(base, 0), true);
        let own = lane.open_team(RankMap::new(vec![rank]), 0, ContextId::new(rank, 1), true);
        let meeting = lane.open_team(map, rank - base, ContextId::new(base, 2), true);
        let errhandler = ErrorHandler::predefined(abi::MPI_ERRORS_ARE_FATAL);
        let heritage = Heritage { errhandler, origin: Origin::WORLD, component: None };
        let may_share = lane.fabric_mut().may_share_section(job.end - job.start, job.clone());
        let control = may_share.then(|| Control::new(base, 0, 0));
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
            lane,
            runs: Vec::new(),
            moved: false,
            kept: Shelf::default(),
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
            home: if base == 0 { job.end } else { 0 },
            probed: if base == 0 && !is_crowded { job.end.saturating_add(1) } else { 0 },
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
            choice,
            is_choosy: AtomicBool::new(is_choosy),
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

    /// Memory from which peers copy messages by themselves, if this process has such.
    pub fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
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
    /// If another thread has called already.
    pub fn set_threaded(&self) -> Result<()> {
        self.domain.set_threaded().map_err(|e| MpiError::new(abi::MPI_ERR_OTHER, e.to_string()))?;
        self.domain.lock().lane.fabric_mut().share_among_threads();
        self.threaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// As [`Process::set_threaded`], for any thread: if another one has called so far, this one waits until that is known to be outside
    /// of the library, or comes in again. What the caller has stored before, that one then sees.
    ///
    /// # Errors
    /// If that is not known after [`PATIENCE`].
    pub fn let_others_in(&self) -> Result<()> {
        // Before the lock, so that the thread that has called so far sees it.
        self.threaded.store(true, Ordering::Relaxed);
        self.domain.let_others_in(PATIENCE).map_err(|e| {
            let text = match e {
                LockError::OtherThread => format!(
                    "the thread that MPI was initialised for has computed for {} s without a call of MPI or a system call, so that no other \
                     one can be let in: ask for MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE with MPI_Init_thread",
                    PATIENCE.as_secs()
                ),
                LockError::Reentered => e.to_string(),
            };
            MpiError::new(abi::MPI_ERR_OTHER, text)
        })?;
        self.domain.lock().lane.fabric_mut().share_among_threads();
        Ok(())
    }

    /// A name for a new pair of contexts, unique among all processes of the launcher; the `pairs - 1` later ones are this caller's too.
    pub(crate) fn new_context_ids(&self, pairs: u32) -> Result<ContextId> {
        const MOST: u32 = 1 << 30;
        let next = |before: u32| before.checked_add(pairs).filter(|after| *after <= MOST);
        let taken = self.next_context.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let Ok(counter) = taken else {
            return Err(MpiError::new(
                abi::MPI_ERR_OTHER,
                "this process has named 2^30 pairs of contexts for communicators, which is the limit",
            ));
        };
        Ok(ContextId::new(self.creator(), counter))
    }

    /// Lets things go on without waiting, then asks `question`. User functions that are due are called here, with no
    /// lock held.
    #[inline]
    pub(crate) fn look<R>(&self, question: impl FnOnce(&mut Domain<F>) -> R) -> R {
        self.look_all(|domain, _| question(domain))
    }

    /// As [`Process::look`] for a question that the program asks again and again as long as the answer is `in_vain`. With more
    /// ranks than processors it asks for something that another one must do, perhaps on this very processor.
    #[inline]
    pub(crate) fn look_again<R>(
        &self,
        question: impl FnOnce(&mut Domain<F>) -> R,
        in_vain: impl FnOnce(&R) -> bool,
    ) -> R {
        let answer = self.look(question);
        if self.is_crowded && in_vain(&answer) {
            std::thread::yield_now();
        }
        answer
    }

    /// As [`Process::look`]; the question is also told whether anything came, so that more may lie there.
    #[inline]
    fn look_all<R>(&self, question: impl FnOnce(&mut Domain<F>, bool) -> R) -> R {
        let mut question = question;
        loop {
            match self.look_once(question) {
                Looked::Answered(answer) => return answer,
                Looked::Due(due, unasked) => {
                    self.carry_out(due);
                    question = unasked;
                }
            }
        }
    }

    /// Looks until a user's function is due, or until the end; only then the question is asked.
    #[inline]
    fn look_once<R, Q: FnOnce(&mut Domain<F>, bool) -> R>(&self, question: Q) -> Looked<F, R, Q> {
        let (looked, seen) = self.look_once_untold(question);
        if let Some(seen) = seen {
            self.tool.tell(seen);
        }
        looked
    }

    /// As [`Process::look_once`]; a tool is to be told of what was seen, when the caller holds nothing that others need.
    #[inline]
    fn look_once_untold<R, Q: FnOnce(&mut Domain<F>, bool) -> R>(
        &self,
        question: Q,
    ) -> (Looked<F, R, Q>, Option<Seen>) {
        self.enter_untold(|domain| {
            let came = domain.lane.progress();
            if domain.lane.take_alarm() {
                domain.attend();
            }
            if came || domain.serving {
                domain.serve();
            }
            let idle = domain.runs.is_empty() && domain.works.0.is_empty();
            match if idle { None } else { domain.advance() } {
                Some(due) => Looked::Due(due, question),
                None => Looked::Answered(question(domain, came)),
            }
        })
    }

    /// Does what is due. No lock is held, and this thread has announced nothing.
    fn carry_out(&self, due: Due<F>) {
        match due {
            Due::Call { request, call, reduction } => {
                call(&reduction);
                self.domain.lock().callback_done(request);
            }
            Due::Works(works) => works.into_iter().for_each(|work| work(self)),
        }
    }

    /// Does something with the lane lock held. If anything has happened for which a thread of this process may sleep,
    /// they are woken.
    #[inline]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> R {
        let (result, seen) = self.enter_untold(f);
        if let Some(seen) = seen {
            self.tool.tell(seen);
        }
        result
    }

    /// As [`Process::enter`]; a tool is to be told of what was seen, when the caller holds nothing that others need.
    #[inline]
    fn enter_untold<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> (R, Option<Seen>) {
        let mut domain = self.domain.lock();
        let result = f(&mut domain);
        // A process that is observed has threads (`observe`), so that the others ask one question only.
        if !self.threaded.load(Ordering::Relaxed) {
            return (result, None);
        }
        let wake = domain.lane.take_news();
        let seen = self.tool.collect(&mut domain);
        drop(domain);
        if wake && let Some(door) = &self.door {
            door.ring_own();
        }
        (result, seen)
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

    /// Waits until `question` has an answer, letting things go on meanwhile; `awaited` says what it is about.
    pub(crate) fn wait_for<R>(
        &self,
        awaited: &Awaited<'_, F>,
        question: impl FnMut(&mut Domain<F>) -> Option<R>,
    ) -> R {
        self.wait_for_announced(awaited, question, || ())
    }

    /// As [`Process::wait_for`], for an answer that does not come by the fabric: `announce` tells whoever makes it that
    /// this process is about to sleep, after which the question is asked once more.
    pub(crate) fn wait_for_announced<R>(
        &self,
        awaited: &Awaited<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
        mut announce: impl FnMut(),
    ) -> R {
        if let Some(answer) = self.look(&mut question) {
            return answer;
        }
        let mut telling = self.telling(awaited);
        loop {
            if let Some(answer) = self.wait_at_most(None, &mut telling, &mut question, &mut announce) {
                return answer;
            }
        }
    }

    /// As [`Process::wait_for`], but not much longer than `limit`; `None`: there was no answer.
    pub(crate) fn wait_until<R>(
        &self,
        limit: Instant,
        telling: &mut Telling<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
    ) -> Option<R> {
        match self.look(&mut question) {
            None => self.wait_at_most(Some(limit), telling, question, || ()),
            answer => answer,
        }
    }

    /// Waits after a look in vain.
    fn wait_at_most<R>(
        &self,
        limit: Option<Instant>,
        telling: &mut Telling<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
        mut announce: impl FnMut(),
    ) -> Option<R> {
        let Some(door) = &self.door else {
            // The virtual world never waits: its scripts ask again when something has come.
            panic!("a process without a door waits");
        };
        if door.has_semaphores() {
            door.will_await(telling.awaits());
        }
        let mut wait = door.begin();
        let mut at_once = false;
        loop {
            let (mut came, mut came_late) = (false, false);
            // A tool's function may call MPI and wait: another thread shall look at the sockets meanwhile.
            if self.tool.is_observed() {
                wait.end_turn();
            }
            let mut heard = None;
            let due = match if at_once { Next::Look } else { wait.next() } {
                Next::Look => {
                    let answer = self.look_all(|domain, something| {
                        came = something;
                        question(domain)
                    });
                    if let Some(answer) = answer {
                        return Some(answer);
                    }
                    None
                }
                Next::Sleep(sleepy) => {
                    announce();
                    self.domain.lock().announce_sleep_above();
                    let (last, seen) = self.look_once_untold(|domain, something| {
                        came_late = something;
                        question(domain).ok_or_else(|| {
                            if something || domain.moved { Rest::Not } else { domain.lane.announce_sleep() }
                        })
                    });
                    match last {
                        last if seen.is_some() => {
                            sleepy.cancel();
                            let (answer, due) = match last {
                                Looked::Answered(answer) => (answer.ok(), None),
                                Looked::Due(due, _) => (None, Some(due)),
                            };
                            heard = seen.map(|seen| (seen, answer));
                            due
                        }
                        Looked::Answered(Ok(answer)) => {
                            sleepy.cancel();
                            return Some(answer);
                        }
                        Looked::Answered(Err(rest)) => {
                            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
                            match rest {
                                _ if left.is_some_and(|left| left.is_zero()) => return None,
                                Rest::Not => sleepy.cancel(),
                                Rest::Short => {
                                    telling.before_sleep();
                                    sleepy.sleep(Some(SHORT_SLEEP));
                                }
                                Rest::Long => {
                                    let most = telling.before_sleep();
                                    sleepy.sleep(most.into_iter().chain(left).min());
                                }
                            }
                            None
                        }
                        Looked::Due(due, _) => {
                            sleepy.cancel();
                            Some(due)
                        }
                    }
                }
            };
            if let Some((seen, answer)) = heard {
                wait.end_turn();
                self.tool.tell(seen);
                if answer.is_some() {
                    return answer;
                }
            }
            if let Some(due) = due {
                // It may take long: another thread shall look at the sockets meanwhile.
                wait.end_turn();
                self.carry_out(due);
            }
            if came | came_late {
                telling.note_news();
            }
            at_once = came && wait.renew();
        }
    }

    /// Waits until everything this process has sent is with its receiver, or will get there without it (the part of
    /// MPI_Finalize that concerns messages, MPI-5.0 section 11.2.2), and takes leave of the peers.
    pub fn drain(&self) {
        self.domain.lock().leave_agreements();
        self.wait_for(&Awaited::Said(&Domain::reason_of_sends), |domain| {
            (domain.lane.is_drained() && domain.lane.fabric_mut().leave()).then_some(())
        });
        self.domain.lock().reap();
    }
}
