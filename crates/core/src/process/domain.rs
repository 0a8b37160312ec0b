//! The state under the lane lock, and the execution of collectives.

use super::{Then, UserCall, Work};
use crate::buffered::AttachedBuffers;
use crate::choice::Choice;
use crate::comm::Communicator;
use crate::dynamic::Foreign;
use crate::failure::{Failures, check_alive};
use crate::handed::{CollLibrary, Handed, HandedLibraries, HandedOver, HandedSettings};
use crate::handler::HandlerCell;
use crate::partitioned::Contexts;
use crate::persistent_state::PersistentOps;
use crate::run_cache::{RunCache, Single};
use crate::shmem::Later;
use crate::task::{RequestTask, Stand, advance_run};
use crate::tool::{Calls, CollectiveEvents, Peaks};
use crate::wait_reason::SharedName;
use crate::window::Service;
use oxmpi_coll::UserReduction;
use oxmpi_engine::{Completion, Fault, Lane, NO_CONTEXT, RequestId, StartFault, Team};
use oxmpi_fabric::Fabric;
use oxmpi_objects::origin::Origin;
use oxmpi_plan::Collective;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Domain<F> {
    pub(crate) lane: Lane<F>,
    pub(crate) is_oversubscribed: bool,
    pub(super) runs: Vec<Active<F>>,
    /// Whether a collective in shared memory has advanced since the last announced sleep.
    pub(super) moved: bool,
    pub(crate) persistent: PersistentOps,
    pub(crate) handed: HandedLibraries,
    pub(crate) partitioned: Contexts,
    pub(crate) run_cache: RunCache,
    pub(crate) closing: Vec<Arc<Team>>,
    /// The error handler of each context's communicator, by the context's index. The entry stays
    /// after the communicator is freed, because a failed request may be completed later.
    pub(super) handlers: Vec<Option<(Arc<HandlerCell>, Origin)>>,
    /// The name of each context's communicator, by the context's index. It stays likewise.
    pub(crate) names: Vec<Option<SharedName>>,
    pub(crate) has_sessions: bool,
    pub(crate) attached: AttachedBuffers,
    pub(crate) failures: Failures<F>,
    pub(super) calls: Arc<Calls>,
    pub(crate) notes: CollectiveEvents,
    pub(crate) peaks: Peaks,
    pub(super) works: Works<F>,
    pub(crate) foreign: Box<Foreign>,
    pub(crate) windows: Vec<Service>,
    /// Whether a window may have work although no new frame has come.
    pub(crate) serving: bool,
    pub(crate) choice: Arc<Choice>,
}

const NO_REQUEST: RequestId = RequestId::from_raw(u64::MAX);

pub(super) struct Works<F>(pub(super) Vec<Work<F>>);

impl<F> std::fmt::Debug for Works<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Works").field(&self.0.len()).finish()
    }
}

pub(super) struct Active<F> {
    request: RequestId,
    task: RequestTask,
    call: Option<UserCall>,
    then: Option<Then<F>>,
    in_call: bool,
    fault: Option<Fault>,
}

impl<F> std::fmt::Debug for Active<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Active").field("request", &self.request).finish_non_exhaustive()
    }
}

pub(super) enum DueWork<F> {
    Call { request: RequestId, call: UserCall, reduction: UserReduction },
    Works(Vec<Work<F>>),
}

impl<F: Fabric> Domain<F> {
    pub(crate) fn start(
        &mut self,
        single: Box<Single>,
        call: Option<UserCall>,
        then: Option<Then<F>>,
    ) -> RequestId {
        let request = self.lane.open_external();
        self.calls.count(&single.run);
        self.notes.collective(&single.run);
        self.add(request, RequestTask::Once(single), call, then);
        request
    }

    fn add(
        &mut self,
        request: RequestId,
        task: RequestTask,
        call: Option<UserCall>,
        then: Option<Then<F>>,
    ) {
        self.runs.push(Active { request, task, call, then, in_call: false, fault: None });
    }

    pub(crate) fn completed(&mut self, completion: Completion) -> RequestId {
        let request = self.lane.open_external();
        self.lane.complete_external(request, completion);
        request
    }

    /// Adds a collective and advances it. Most short collectives then need no request.
    pub(crate) fn start_at_once(
        &mut self,
        mut single: Box<Single>,
        call: Option<UserCall>,
    ) -> RequestId {
        self.calls.count(&single.run);
        self.notes.collective(&single.run);
        if call.is_none() {
            match advance_run(&mut single.run, &mut self.lane) {
                Stand::Done(Completion { fault: None, .. }) => {
                    self.run_cache.give(single);
                    return RequestId::COMPLETE;
                }
                Stand::Done(failed) => return self.completed(failed),
                Stand::Waiting | Stand::Moved => {}
                Stand::NeedCallback(_) => single.run.callback_done(),
            }
        }
        let request = self.lane.open_external();
        self.add(request, RequestTask::Once(single), call, None);
        request
    }

    pub(crate) fn start_later(&mut self, mut later: Later, collective: Collective) -> RequestId {
        self.calls.count_small(collective, true);
        match later.advance(&mut self.lane) {
            Stand::Done(Completion { fault: None, .. }) => return RequestId::COMPLETE,
            Stand::Done(completion) => return self.completed(completion),
            _ => {}
        }
        self.moved = true;
        // Another thread may be about to sleep, and may not have announced its sleep to the peers
        // of this collective.
        self.lane.note_news();
        let request = self.lane.open_external();
        self.add(request, RequestTask::Later(Box::new(later)), None, None);
        request
    }

    /// The state of a library, made at its first use, at the first place among the collectives: so
    /// progress without such a library needs no test. `world` is the team of the job's processes.
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
                let (request, task) = (NO_REQUEST, RequestTask::Library(library));
                runs.insert(
                    0,
                    Active { request, task, call: None, then: None, in_call: false, fault: None },
                );
            }
            handed
        })
    }

    /// Makes all later calls of this team by this library fail at this rank, since the other ranks
    /// have begun a call that failed here.
    #[cold]
    pub(crate) fn fail_handed(&mut self, library: CollLibrary, team: &Team, why: &str) {
        if let Some(handed) = self.handed.of(library) {
            handed.fail_team(team.collective, why, &mut self.lane);
        }
    }

    /// Adds a collective of UCC or hcoll, which counts as a call of the algorithm that stands in.
    pub(crate) fn start_handed(&mut self, call: HandedOver) -> RequestId {
        if let Some(run) = call.stand_in() {
            self.calls.count(run);
            self.notes.collective(run);
        }
        let request = self.lane.open_external();
        self.add(request, RequestTask::Handed(Box::new(call)), None, None);
        self.lane.note_news();
        request
    }

    #[cold]
    pub(crate) fn start_failed(
        &mut self,
        fault: Fault,
        team: &Team,
        then: Option<Then<F>>,
    ) -> RequestId {
        if let Some(then) = then {
            then(self, Err(fault));
        }
        self.completed(Completion { context: team.collective, ..Completion::failed(fault) })
    }

    pub(crate) fn start_persistent(
        &mut self,
        persistent: RequestId,
        key: usize,
    ) -> Result<(), StartFault> {
        let request = self.lane.start_external(persistent)?;
        let call = self.persistent.begin(key);
        if let Some(run) = self.persistent.run(key) {
            self.calls.count(run);
            self.notes.collective(run);
        }
        let team = self.persistent.team(key);
        let fault = team.and_then(|team| check_alive(&self.lane, team).err());
        self.runs.push(Active {
            request,
            task: RequestTask::Persistent(key),
            call,
            then: None,
            in_call: false,
            fault,
        });
        Ok(())
    }

    /// Adds work of a [`Then`] that runs without the lock, before this call of the library returns.
    pub(crate) fn leave(&mut self, work: Work<F>) {
        self.works.0.push(work);
    }

    /// Advances all collectives, until one has work that must run without the lock.
    pub(super) fn advance(&mut self) -> Option<DueWork<F>> {
        let mut at = 0;
        while let Some(active) = self.runs.get_mut(at) {
            if active.fault.is_some() && !active.in_call {
                self.end_failed(at);
                continue;
            }
            let handed = (&mut self.handed, &*self.choice);
            match active.task.advance(&mut self.lane, &mut self.persistent, handed) {
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
                        RequestTask::Once(single) if completion.fault.is_none() => {
                            self.run_cache.give(single)
                        }
                        RequestTask::Handed(call) if completion.fault.is_none() => {
                            if let Some(plan) = call.into_plan() {
                                self.run_cache.give(plan);
                            }
                            // An earlier collective in this list may have waited for this
                            // completion.
                            at = 0;
                        }
                        RequestTask::Later(_) => (self.moved, at) = (true, 0),
                        _ => {}
                    }
                }
                Stand::NeedCallback(reduction) => match &active.call {
                    Some(call) => {
                        active.in_call = true;
                        return Some(DueWork::Call {
                            request: active.request,
                            call: call.clone(),
                            reduction,
                        });
                    }
                    None => active.task.callback_done(&mut self.persistent),
                },
            }
        }
        let works = std::mem::take(&mut self.works.0);
        if works.is_empty() { None } else { Some(DueWork::Works(works)) }
    }

    pub(crate) fn fail_collectives(&mut self, why: impl Fn(&Team) -> Option<Fault>) {
        for active in &mut self.runs {
            if let Some(team) = active.task.team(&self.persistent) {
                active.fault = active.fault.or_else(|| why(team));
            }
        }
    }

    #[cold]
    fn end_failed(&mut self, at: usize) {
        let Active { request, task, then, fault: Some(fault), .. } = self.runs.swap_remove(at)
        else {
            return;
        };
        let context = task.team(&self.persistent).map_or(NO_CONTEXT, |team| team.collective);
        task.abandon(&mut self.lane, &mut self.persistent, &mut self.handed);
        if let Some(then) = then {
            then(self, Err(fault));
        }
        self.lane.complete_external(request, Completion { context, ..Completion::failed(fault) });
    }

    pub(crate) fn finish_persistent(&mut self, key: usize) {
        let is_it = |active: &Active<F>| matches!(active.task, RequestTask::Persistent(other) if other == key);
        if let Some(at) = self.runs.iter().position(is_it)
            && let Stand::Done(completion) = self.persistent.advance(key, &mut self.lane)
        {
            let Active { request, .. } = self.runs.swap_remove(at);
            self.lane.complete_external(request, completion);
        }
    }

    /// Advances a collective in shared memory if it is the only operation above the lane, which is
    /// much cheaper than progress. Returns whether the collective is complete.
    #[inline]
    pub(crate) fn advance_sole(&mut self) -> Option<bool> {
        let [Active { task: RequestTask::Later(later), request, fault: None, .. }] =
            &mut self.runs[..]
        else {
            return None;
        };
        let Stand::Done(completion) = later.advance(&mut self.lane) else { return Some(false) };
        self.lane.complete_external(*request, completion);
        self.runs.clear();
        self.moved = true;
        Some(true)
    }

    /// Before a sleep of this process: makes the peers of its collectives in shared memory wake it.
    pub(super) fn announce_sleep_above(&mut self) {
        self.moved = false;
        for active in &self.runs {
            if let RequestTask::Later(later) = &active.task {
                later.announce_sleep();
            }
        }
    }

    #[inline(always)]
    pub(crate) fn goes_on_above(&self) -> bool {
        // One comparison for two conditions.
        self.runs.len() | usize::from(self.serving) != 0
    }

    /// [`Domain::goes_on_above`], where windows count only if they wait for messages.
    #[inline]
    pub(crate) fn awaits_above(&self) -> bool {
        self.goes_on_above()
            && (!self.runs.is_empty() || self.windows.iter().any(Service::awaits_messages))
    }

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

    pub(crate) fn task_of(&self, request: RequestId) -> Option<&RequestTask> {
        self.runs.iter().find(|active| active.request == request).map(|active| &active.task)
    }

    pub(crate) fn origin_of(&self, context: u32) -> Option<Origin> {
        self.handlers.get(context as usize)?.as_ref().map(|(_, origin)| *origin)
    }

    pub(super) fn callback_done(&mut self, request: RequestId) {
        if let Some(active) = self.runs.iter_mut().find(|a| a.request == request) {
            active.in_call = false;
            active.task.callback_done(&mut self.persistent);
        }
    }

    /// After an exception has left the user's function: its collective fails.
    #[cold]
    pub(super) fn callback_left(&mut self, request: RequestId) {
        if let Some(active) = self.runs.iter_mut().find(|a| a.request == request) {
            active.in_call = false;
            active.fault = active.fault.or(Some(Fault::Operation));
        }
    }

    /// Ends a request at once. `false` while a thread is in its user's function; try again.
    pub(crate) fn abandon(&mut self, request: RequestId) -> bool {
        let part = self.lane.active_part(request).unwrap_or(request);
        if let Some(at) = self.runs.iter().position(|a| a.request == part) {
            if self.runs[at].in_call {
                return false;
            }
            self.runs.swap_remove(at).task.abandon(
                &mut self.lane,
                &mut self.persistent,
                &mut self.handed,
            );
        }
        if let Some(key) = self.lane.external_key(request) {
            self.persistent.remove(key, &mut self.lane);
        }
        self.lane.abandon(request);
        true
    }

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
                self.run_cache.forget(team);
                failures.forget(team);
                handed.forget(team.collective, lane);
                lane.close_team(team);
            }
            busy
        });
    }

    /// The numbers of open collectives of a team: with a request of the program, and detached.
    pub(crate) fn collectives_in(&self, team: &Team) -> (usize, usize) {
        let ours = self.runs.iter().filter(|active| active.task.context() == Some(team.collective));
        let (detached, held): (Vec<_>, Vec<_>) =
            ours.partition(|active| self.lane.is_detached(active.request));
        (held.len(), detached.len())
    }

    pub(crate) fn is_busy(&self, team: &Team) -> bool {
        is_busy(&self.lane, &self.runs, team) || self.failures.is_agreeing(team.collective)
    }
}

/// A collective can have more to send although no message is under way. A collective belongs to the
/// team by its context, since some collectives use a part of a communicator, or both its groups.
fn is_busy<F: Fabric>(lane: &Lane<F>, runs: &[Active<F>], team: &Team) -> bool {
    lane.is_busy(team) || runs.iter().any(|active| active.task.context() == Some(team.collective))
}
