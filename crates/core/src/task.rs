//! Operations above the lane, executed in steps until their request is complete.

use crate::choice::Choice;
use crate::errors;
use crate::handed::{CollLibrary, HandedLibraries, HandedOver};
use crate::kept::Shelf;
use crate::shmem::Later;
use crate::spare::Single;
use oxmpi_coll::{Progress, Run, UserReduction};
use oxmpi_engine::{Completion, Lane, NO_CONTEXT, Team};
use oxmpi_fabric::Fabric;

/// The operation of a request above the lane.
pub(crate) enum Task {
    Once(Box<Single>),
    /// The persistent request with this key.
    Kept(usize),
    Later(Box<Later>),
    /// A collective of UCC or hcoll, or the plan instead of it.
    Handed(Box<HandedOver>),
    /// The progress of UCC or hcoll as long as the process lives. It has no request.
    Library(CollLibrary),
}

pub(crate) enum Stand {
    /// It waits for messages, or for data in shared memory.
    Waiting,
    /// [`Stand::Waiting`] after an advance.
    Moved,
    /// A user's function is due; the task does not advance before [`Task::callback_done`].
    NeedCallback(UserReduction),
    Done(Completion),
}

impl Task {
    #[inline]
    pub(crate) fn advance<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        shelf: &mut Shelf,
        (handed, choice): (&mut HandedLibraries, &Choice),
    ) -> Stand {
        match self {
            Task::Once(single) => advance_run(&mut single.run, lane),
            Task::Kept(key) => shelf.advance(*key, lane),
            Task::Later(later) => later.advance(lane),
            Task::Handed(call) => call.advance(lane, handed, choice.say()),
            Task::Library(library) => {
                if let Some(handed) = handed.of(*library) {
                    handed.progress(lane);
                }
                Stand::Waiting
            }
        }
    }

    pub(crate) fn callback_done(&mut self, shelf: &mut Shelf) {
        match self {
            Task::Once(single) => single.run.callback_done(),
            Task::Kept(key) => shelf.callback_done(*key),
            Task::Later(_) | Task::Handed(_) | Task::Library(_) => {}
        }
    }

    /// Ends the operation at once; the library does not use the program's memory any more.
    pub(crate) fn abandon<F: Fabric>(
        self,
        lane: &mut Lane<F>,
        shelf: &mut Shelf,
        handed: &mut HandedLibraries,
    ) {
        match self {
            Task::Once(mut single) => single.run.abandon(lane),
            Task::Kept(key) => shelf.abandon(key, lane),
            Task::Later(later) => later.abandon(lane),
            Task::Handed(call) => call.abandon(lane, handed),
            Task::Library(_) => {}
        }
    }

    pub(crate) fn team<'a>(&'a self, shelf: &'a Shelf) -> Option<&'a Team> {
        match self {
            Task::Once(single) => Some(single.run.team()),
            Task::Kept(key) => shelf.team(*key),
            Task::Later(later) => Some(later.team()),
            Task::Handed(call) => Some(call.team()),
            Task::Library(_) => None,
        }
    }

    /// The context of the operation, unless a request of the lane has it, as persistent requests
    /// do.
    pub(crate) fn context(&self) -> Option<u32> {
        match self {
            Task::Once(single) => Some(single.run.team().collective),
            Task::Kept(_) | Task::Library(_) => None,
            Task::Later(later) => Some(later.team().collective),
            Task::Handed(call) => Some(call.team().collective),
        }
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
