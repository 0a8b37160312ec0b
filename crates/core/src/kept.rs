//! The state of persistent requests above the lane: collectives with their plans and temporaries,
//! and partitioned messages.

use crate::partitioned::{Receiving, Sending};
use crate::process::UserCall;
use crate::task::{Stand, advance_run};
use oxmpi_coll::Run;
use oxmpi_engine::{Completion, Lane, Team};
use oxmpi_fabric::Fabric;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of one persistent request.
pub(crate) enum Kept {
    Collective(Box<Collective>),
    Send(Box<Sending>),
    Receive(Box<Receiving>),
}

/// A persistent collective. Everything independent of the data is made once.
pub(crate) struct Collective {
    run: Run,
    call: Option<UserCall>,
    /// The starts of all persistent collectives of the communicator.
    starts: Arc<AtomicU64>,
}

impl Collective {
    /// `call` is the user's function of the reduction; `starts` is the communicator's counter.
    pub(crate) fn new(run: Run, call: Option<UserCall>, starts: Arc<AtomicU64>) -> Collective {
        Collective { run, call, starts }
    }
}

/// The persistent requests by key.
#[derive(Default)]
pub(crate) struct Shelf {
    places: Vec<Option<Kept>>,
    vacant: Vec<usize>,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kept = self.places.len() - self.vacant.len();
        f.debug_struct("Shelf").field("kept", &kept).finish_non_exhaustive()
    }
}

impl Shelf {
    pub(crate) fn keep(&mut self, kept: Kept) -> usize {
        match self.vacant.pop() {
            Some(key) => {
                self.places[key] = Some(kept);
                key
            }
            None => {
                self.places.push(Some(kept));
                self.places.len() - 1
            }
        }
    }

    pub(crate) fn get(&self, key: usize) -> Option<&Kept> {
        self.places.get(key)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: usize) -> Option<&mut Kept> {
        self.places.get_mut(key)?.as_mut()
    }

    /// Begins a round. Returns the user's function.
    pub(crate) fn begin(&mut self, key: usize) -> Option<UserCall> {
        match self.get_mut(key)? {
            Kept::Collective(collective) => {
                collective.starts.fetch_add(1, Ordering::Relaxed);
                collective.run.restart();
                collective.call.clone()
            }
            Kept::Send(sending) => {
                sending.begin();
                None
            }
            Kept::Receive(receiving) => {
                receiving.begin();
                None
            }
        }
    }

    pub(crate) fn advance<F: Fabric>(&mut self, key: usize, lane: &mut Lane<F>) -> Stand {
        match self.get_mut(key) {
            Some(Kept::Collective(collective)) => advance_run(&mut collective.run, lane),
            Some(Kept::Send(sending)) => sending.advance(lane),
            Some(Kept::Receive(receiving)) => receiving.advance(lane),
            None => Stand::Done(Completion::EMPTY),
        }
    }

    pub(crate) fn callback_done(&mut self, key: usize) {
        if let Some(Kept::Collective(collective)) = self.get_mut(key) {
            collective.run.callback_done();
        }
    }

    /// Ends a round at once; the library does not use the program's memory any more.
    pub(crate) fn abandon<F: Fabric>(&mut self, key: usize, lane: &mut Lane<F>) {
        match self.get_mut(key) {
            Some(Kept::Collective(collective)) => collective.run.abandon(lane),
            Some(Kept::Send(sending)) => sending.abandon(lane),
            Some(Kept::Receive(receiving)) => receiving.abandon(lane),
            None => {}
        }
    }

    pub(crate) fn remove<F: Fabric>(&mut self, key: usize, lane: &mut Lane<F>) {
        let Some(kept) = self.places.get_mut(key).and_then(Option::take) else { return };
        if let Kept::Receive(mut receiving) = kept {
            receiving.release(lane);
        }
        self.vacant.push(key);
    }

    pub(crate) fn run(&self, key: usize) -> Option<&Run> {
        match self.get(key)? {
            Kept::Collective(collective) => Some(&collective.run),
            Kept::Send(_) | Kept::Receive(_) => None,
        }
    }

    pub(crate) fn team(&self, key: usize) -> Option<&Team> {
        match self.get(key)? {
            Kept::Collective(collective) => Some(collective.run.team()),
            Kept::Send(_) | Kept::Receive(_) => None,
        }
    }

    pub(crate) fn has_tag(&self, context: u32, tag: i32) -> bool {
        self.places.iter().flatten().any(|kept| match kept {
            Kept::Collective(collective) => {
                collective.run.team().collective == context && collective.run.tag() == tag
            }
            Kept::Send(_) | Kept::Receive(_) => false,
        })
    }

    /// Whether a partitioned send in this context uses one of these channel numbers.
    pub(crate) fn uses_channels(&self, context: u32, numbers: &Range<u32>) -> bool {
        self.places.iter().flatten().any(|kept| match kept {
            Kept::Send(sending) => sending.uses_channels(context, numbers),
            Kept::Collective(_) | Kept::Receive(_) => false,
        })
    }
}
