//! Operations above the lane, which advance in steps until their request is complete.

use crate::choice::Choice;
use crate::errors;
use crate::handed::{CollLibrary, HandedLibraries, HandedOver};
use crate::persistent_state::PersistentOps;
use crate::run_cache::Single;
use crate::shmem::Later;
use oxmpi_coll::{Progress, Run, UserReduction};
use oxmpi_engine::{Completion, Lane, NO_CONTEXT, Team};
use oxmpi_fabric::Fabric;

pub(crate) enum RequestTask {
    Once(Box<Single>),
    Persistent(usize),
    Later(Box<Later>),
    Handed(Box<HandedOver>),
    /// The progress of UCC or hcoll while the process lives. It has no request.
    Library(CollLibrary),
}

pub(crate) enum Stand {
    Waiting,
    /// The task waits, but has advanced in this call, so the process must not sleep yet.
    Moved,
    /// A user's function is due. The task advances only after [`RequestTask::callback_done`].
    NeedCallback(UserReduction),
    Done(Completion),
}

impl RequestTask {
    #[inline]
    pub(crate) fn advance<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        persistent: &mut PersistentOps,
        (handed, choice): (&mut HandedLibraries, &Choice),
    ) -> Stand {
        match self {
            RequestTask::Once(single) => advance_run(&mut single.run, lane),
            RequestTask::Persistent(key) => persistent.advance(*key, lane),
            RequestTask::Later(later) => later.advance(lane),
            RequestTask::Handed(call) => call.advance(lane, handed, choice.say()),
            RequestTask::Library(library) => {
                if let Some(handed) = handed.of(*library) {
                    handed.progress(lane);
                }
                Stand::Waiting
            }
        }
    }

    pub(crate) fn callback_done(&mut self, persistent: &mut PersistentOps) {
        match self {
            RequestTask::Once(single) => single.run.callback_done(),
            RequestTask::Persistent(key) => persistent.callback_done(*key),
            RequestTask::Later(_) | RequestTask::Handed(_) | RequestTask::Library(_) => {}
        }
    }

    /// Ends the operation at once. After this the library does not use the program's memory.
    pub(crate) fn abandon<F: Fabric>(
        self,
        lane: &mut Lane<F>,
        persistent: &mut PersistentOps,
        handed: &mut HandedLibraries,
    ) {
        match self {
            RequestTask::Once(mut single) => single.run.abandon(lane),
            RequestTask::Persistent(key) => persistent.abandon(key, lane),
            RequestTask::Later(later) => later.abandon(lane),
            RequestTask::Handed(call) => call.abandon(lane, handed),
            RequestTask::Library(_) => {}
        }
    }

    pub(crate) fn team<'a>(&'a self, persistent: &'a PersistentOps) -> Option<&'a Team> {
        match self {
            RequestTask::Persistent(key) => persistent.team(*key),
            _ => self.own_team(),
        }
    }

    /// [`RequestTask::team`], but `None` for a persistent request.
    fn own_team(&self) -> Option<&Team> {
        match self {
            RequestTask::Once(single) => Some(single.run.team()),
            RequestTask::Later(later) => Some(later.team()),
            RequestTask::Handed(call) => Some(call.team()),
            RequestTask::Persistent(_) | RequestTask::Library(_) => None,
        }
    }

    /// The context of the operation. `None` for a persistent request, whose context the lane has.
    pub(crate) fn context(&self) -> Option<u32> {
        self.own_team().map(|team| team.collective)
    }
}

pub(crate) fn advance_run<F: Fabric>(run: &mut Run, lane: &mut Lane<F>) -> Stand {
    match run.advance(lane) {
        Progress::Waiting => Stand::Waiting,
        Progress::NeedCallback(reduction) => Stand::NeedCallback(reduction),
        Progress::Done(result) => {
            let fault = result.err().map(errors::fault_of);
            let context = if fault.is_some() { run.team().collective } else { NO_CONTEXT };
            Stand::Done(Completion { fault, context, ..Completion::EMPTY })
        }
    }
}
