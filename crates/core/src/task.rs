//! What goes on above the lane, step by step, until a request is complete.

use crate::choice::Choice;
use crate::errors;
use crate::handed::{CollLibrary, HandedLibraries, HandedOver};
use crate::kept::Shelf;
use crate::shmem::Later;
use crate::spare::Single;
use oxmpi_coll::{Progress, Run, UserReduction};
use oxmpi_engine::{Completion, Lane, NO_CONTEXT, Team};
use oxmpi_fabric::Fabric;

/// What a request above the lane does.
pub(crate) enum Task {
    /// A collective that is called once.
    Once(Box<Single>),
    /// What a persistent request keeps under this key of the [`Shelf`].
    Kept(usize),
    /// A collective in shared memory.
    Later(Box<Later>),
    /// A collective that another library serves, or else a plan.
    Handed(Box<HandedOver>),
    /// What that library does for this process and others, as long as the process lives. No request belongs to it.
    Library(CollLibrary),
}

/// How a task stands.
pub(crate) enum Stand {
    /// It waits for messages, or for what others write.
    Waiting,
    /// As [`Stand::Waiting`], but it has gone on, and waits for something else than before.
    Moved,
    /// A user's function is due; nothing goes on before [`Task::callback_done`].
    NeedCallback(UserReduction),
    /// It is over; this is what it says.
    Done(Completion),
}

impl Task {
    /// Goes on as far as it can without waiting.
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

    /// The function that [`Stand::NeedCallback`] asked for has returned.
    pub(crate) fn callback_done(&mut self, shelf: &mut Shelf) {
        match self {
            Task::Once(single) => single.run.callback_done(),
            Task::Kept(key) => shelf.callback_done(*key),
            Task::Later(_) | Task::Handed(_) | Task::Library(_) => {}
        }
    }

    /// Gives up: nothing of the user's memory is used any more.
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

    /// The processes of a collective.
    pub(crate) fn team<'a>(&'a self, shelf: &'a Shelf) -> Option<&'a Team> {
        match self {
            Task::Once(single) => Some(single.run.team()),
            Task::Kept(key) => shelf.team(*key),
            Task::Later(later) => Some(later.team()),
            Task::Handed(call) => Some(call.team()),
            Task::Library(_) => None,
        }
    }

    /// The context that it uses, if no request of the lane says so all the time. (A persistent request does.)
    pub(crate) fn context(&self) -> Option<u32> {
        match self {
            Task::Once(single) => Some(single.run.team().collective),
            Task::Kept(_) | Task::Library(_) => None,
            Task::Later(later) => Some(later.team().collective),
            Task::Handed(call) => Some(call.team().collective),
        }
    }
}

/// Lets a collective go on.
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
