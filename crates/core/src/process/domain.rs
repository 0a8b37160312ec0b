//! What the lane lock protects, and collectives in execution.

use super::{Then, UserCall, Work};
use crate::awaited::SharedName;
use crate::buffered::AttachedBuffers;
use crate::choice::Choice;
use crate::comm::Communicator;
use crate::dynamic::Foreign;
use crate::failure::{Failures, check_alive};
use crate::handed::{CollLibrary, Handed, HandedLibraries, HandedOver, HandedSettings};
use crate::handler::HandlerCell;
use crate::kept::Shelf;
use crate::partitioned::Contexts;
use crate::shmem::Later;
use crate::spare::{Single, Spares};
use crate::task::{Stand, Task, advance_run};
use crate::tool::{Calls, Notes, Peaks};
use crate::window::Service;
use oxmpi_coll::UserReduction;
use oxmpi_engine::{Completion, Fault, Lane, NO_CONTEXT, RequestId, StartFault, Team};
use oxmpi_fabric::Fabric;
use oxmpi_objects::origin::Origin;
use oxmpi_plan::Collective;
use std::sync::Arc;

/// What the lane lock protects.
#[derive(Debug)]
pub(crate) struct Domain<F> {
    pub(crate) lane: Lane<F>,
    /// There are more ranks on this node than processors.
    pub(crate) is_crowded: bool,
    /// Collectives in execution.
    pub(super) runs: Vec<Active<F>>,
    /// One of them in shared memory has gone on since this process last told others that it is about to sleep.
    pub(super) moved: bool,
    /// What persistent requests keep between their starts.
    pub(crate) kept: Shelf,
    /// What this process has of the libraries to which collectives are handed.
    pub(crate) handed: HandedLibraries,
    /// Where partitioned messages go.
    pub(crate) partitioned: Contexts,
    /// Collectives that may be called again.
    pub(crate) spares: Spares,
    /// Freed communicators in which something may still be under way.
    pub(crate) closing: Vec<Arc<Team>>,
    /// The error handler of each context's communicator, by the context's index. It stays when the communicator is
    /// freed: a request that failed may be asked for later.
    pub(super) handlers: Vec<Option<(Arc<HandlerCell>, Origin)>>,
    /// The name of each context's communicator, likewise.
    pub(crate) names: Vec<Option<SharedName>>,
    /// Whether one of them is of a session.
    pub(crate) has_sessions: bool,
    /// The buffers for buffered sends.
    pub(crate) attached: AttachedBuffers,
    /// What follows from processes that fail.
    pub(crate) failures: Failures<F>,
    /// How many collectives were started, by algorithm.
    pub(super) calls: Arc<Calls>,
    /// Collectives of which a tool shall hear.
    pub(crate) notes: Notes,
    /// High-water marks of tools.
    pub(crate) peaks: Peaks,
    /// What is due after collectives that have ended.
    pub(super) works: Works<F>,
    /// The processes of other jobs.
    pub(crate) foreign: Box<Foreign>,
    /// The parts of windows that talk.
    pub(crate) windows: Vec<Service>,
    /// Whether one of them may have something to do though nothing has come.
    pub(crate) serving: bool,
    /// What collectives are chosen by, of which new communicators may tell.
    pub(crate) choice: Arc<Choice>,
}

/// A number that no request has.
const NO_REQUEST: RequestId = RequestId::from_raw(u64::MAX);

/// Works to be carried out, in this order.
pub(super) struct Works<F>(pub(super) Vec<Work<F>>);

impl<F> std::fmt::Debug for Works<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Works").field(&self.0.len()).finish()
    }
}

pub(super) struct Active<F> {
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
pub(super) enum Due<F> {
    /// A user's function.
    Call { request: RequestId, call: UserCall, reduction: UserReduction },
    /// What follows from some that are over.
    Works(Vec<Work<F>>),
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
        match later.advance(&mut self.lane) {
            Stand::Done(Completion { fault: None, .. }) => return RequestId::COMPLETE,
            Stand::Done(completion) => {
                let request = self.lane.open_external();
                self.lane.complete_external(request, completion);
                return request;
            }
            _ => {}
        }
        self.moved = true;
        // Another thread of the process may be about to sleep, and has not told anybody that it waits for this one, too.
        self.lane.note_news();
        let request = self.lane.open_external();
        let task = Task::Later(Box::new(later));
        self.runs.push(Active { request, task, call: None, then: None, in_call: false, doom: None });
        request
    }

    /// What this process has of a library, which is made when it is first needed. It then goes on with the collectives, of which it is the
    /// first, so that progress of processes without such a library does not test for it. `world` is the team of the job's processes.
    pub(crate) fn handed_or_new(
        &mut self,
        library: CollLibrary,
        settings: &HandedSettings,
        (world, is_threaded): (&Arc<Team>, bool),
    ) -> &mut Handed {
        let (runs, lane) = (&mut self.runs, &mut self.lane);
        self.handed.of(library).get_or_insert_with(|| {
            let handed = Box::new(Handed::new(library, settings, (world, is_threaded), lane));
            if handed.is_usable() {
                let (request, task) = (NO_REQUEST, Task::Library(library));
                runs.insert(0, Active { request, task, call: None, then: None, in_call: false, doom: None });
            }
            handed
        })
    }

    /// Nothing of this team can be handed over at this rank any more, because of a call that the other ranks have begun.
    #[cold]
    pub(crate) fn fail_handed(&mut self, library: CollLibrary, team: &Team, why: &str) {
        if let Some(handed) = self.handed.of(library) {
            handed.fail_team(team.collective, why, &mut self.lane);
        }
    }

    /// Adds a collective that is handed to a library. It counts as a call of the algorithm that stands in for that.
    pub(crate) fn start_handed(&mut self, call: HandedOver) -> RequestId {
        if let Some(run) = call.stand_in() {
            self.calls.count(run);
            self.notes.collective(run);
        }
        let request = self.lane.open_external();
        let task = Task::Handed(Box::new(call));
        self.runs.push(Active { request, task, call: None, then: None, in_call: false, doom: None });
        self.lane.note_news();
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
        if let Some(run) = self.kept.run(key) {
            self.calls.count(run);
            self.notes.collective(run);
        }
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
    pub(super) fn advance(&mut self) -> Option<Due<F>> {
        let mut at = 0;
        while let Some(active) = self.runs.get_mut(at) {
            if active.doom.is_some() && !active.in_call {
                self.end_doomed(at);
                continue;
            }
            let handed = (&mut self.handed, &*self.choice);
            match active.task.advance(&mut self.lane, &mut self.kept, handed) {
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
                        Task::Handed(call) if completion.fault.is_none() => {
                            if let Some(plan) = call.into_plan() {
                                self.spares.give(plan);
                            }
                            // One before it in this list may have its turn now.
                            at = 0;
                        }
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
        task.abandon(&mut self.lane, &mut self.kept, &mut self.handed);
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
    pub(super) fn announce_sleep_above(&mut self) {
        self.moved = false;
        for active in &self.runs {
            if let Task::Later(later) = &active.task {
                later.announce_sleep();
            }
        }
    }

    /// Whether something goes on above the lane: a collective, or what is asked of a window.
    #[inline(always)]
    pub(crate) fn goes_on_above(&self) -> bool {
        // One comparison for both.
        self.runs.len() | usize::from(self.serving) != 0
    }

    /// As [`Domain::goes_on_above`], but for looking into mailboxes of windows.
    #[inline]
    pub(crate) fn awaits_above(&self) -> bool {
        self.goes_on_above() && (!self.runs.is_empty() || self.windows.iter().any(Service::awaits_messages))
    }

    /// Advances all windows. Whether there were requests in mailboxes.
    #[inline(never)]
    pub(crate) fn serve(&mut self) -> bool {
        self.serving = false;
        let mut found = false;
        for window in &mut self.windows {
            found |= window.advance(&mut self.lane);
            self.serving |= window.is_busy();
        }
        found
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

    pub(super) fn callback_done(&mut self, request: RequestId) {
        if let Some(active) = self.runs.iter_mut().find(|a| a.request == request) {
            active.in_call = false;
            active.task.callback_done(&mut self.kept);
        }
    }

    /// The user's function was left by an exception: the collective cannot come to its end.
    #[cold]
    pub(super) fn callback_left(&mut self, request: RequestId) {
        if let Some(active) = self.runs.iter_mut().find(|a| a.request == request) {
            active.in_call = false;
            active.doom = active.doom.or(Some(Fault::Operation));
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
            self.runs.swap_remove(at).task.abandon(&mut self.lane, &mut self.kept, &mut self.handed);
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
        let (failures, handed) = (&mut self.failures, &mut self.handed);
        self.closing.retain(|team| {
            let busy = is_busy(lane, runs, team)
                || lane.is_used(team)
                || partitioned.is_busy(lane, team)
                || failures.is_agreeing(team.collective)
                || handed.is_busy(team.collective);
            if !busy {
                partitioned.close(lane, team);
                if self.attached.forget(team.point_to_point) {
                    lane.set_own_buffer(team.point_to_point, None);
                }
                self.peaks.forget(team.id);
                self.spares.forget(team);
                failures.forget(team);
                handed.forget(team.collective, lane);
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
        is_busy(&self.lane, &self.runs, team) || self.failures.is_agreeing(team.collective)
    }
}

/// A collective may have no message under way at the moment and still have some to send. It is the context that counts:
/// some collectives are of a part of a communicator only, or of both groups of one.
fn is_busy<F: Fabric>(lane: &Lane<F>, runs: &[Active<F>], team: &Team) -> bool {
    lane.is_busy(team) || runs.iter().any(|active| active.task.context() == Some(team.collective))
}
