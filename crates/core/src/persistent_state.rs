//! The state of persistent requests above the lane: collectives with their plans and temporaries,
//! and partitioned messages.

use crate::partitioned::{PartitionedReceive, PartitionedSend};
use crate::process::UserCall;
use crate::task::{Stand, advance_run};
use oxmpi_coll::Run;
use oxmpi_engine::{Completion, Lane, Team};
use oxmpi_fabric::Fabric;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) enum PersistentOp {
    Collective(Box<PersistentCollective>),
    Send(Box<PartitionedSend>),
    Receive(Box<PartitionedReceive>),
}

pub(crate) struct PersistentCollective {
    run: Run,
    call: Option<UserCall>,
    starts: Arc<AtomicU64>,
}

impl PersistentCollective {
    /// `call` is the user's function of the reduction; `starts` is the communicator's counter.
    pub(crate) fn new(
        run: Run,
        call: Option<UserCall>,
        starts: Arc<AtomicU64>,
    ) -> PersistentCollective {
        PersistentCollective { run, call, starts }
    }
}

#[derive(Default)]
pub(crate) struct PersistentOps {
    places: Vec<Option<PersistentOp>>,
    vacant: Vec<usize>,
}

impl std::fmt::Debug for PersistentOps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ops = self.places.len() - self.vacant.len();
        f.debug_struct("PersistentOps").field("ops", &ops).finish_non_exhaustive()
    }
}

impl PersistentOps {
    pub(crate) fn keep(&mut self, op: PersistentOp) -> usize {
        match self.vacant.pop() {
            Some(key) => {
                self.places[key] = Some(op);
                key
            }
            None => {
                self.places.push(Some(op));
                self.places.len() - 1
            }
        }
    }

    pub(crate) fn get(&self, key: usize) -> Option<&PersistentOp> {
        self.places.get(key)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: usize) -> Option<&mut PersistentOp> {
        self.places.get_mut(key)?.as_mut()
    }

    pub(crate) fn begin(&mut self, key: usize) -> Option<UserCall> {
        match self.get_mut(key)? {
            PersistentOp::Collective(collective) => {
                collective.starts.fetch_add(1, Ordering::Relaxed);
                collective.run.restart();
                collective.call.clone()
            }
            PersistentOp::Send(sending) => {
                sending.begin();
                None
            }
            PersistentOp::Receive(receiving) => {
                receiving.begin();
                None
            }
        }
    }

    pub(crate) fn advance<F: Fabric>(&mut self, key: usize, lane: &mut Lane<F>) -> Stand {
        match self.get_mut(key) {
            Some(PersistentOp::Collective(collective)) => advance_run(&mut collective.run, lane),
            Some(PersistentOp::Send(sending)) => sending.advance(lane),
            Some(PersistentOp::Receive(receiving)) => receiving.advance(lane),
            None => Stand::Done(Completion::EMPTY),
        }
    }

    pub(crate) fn callback_done(&mut self, key: usize) {
        if let Some(PersistentOp::Collective(collective)) = self.get_mut(key) {
            collective.run.callback_done();
        }
    }

    /// Ends a round at once. After this the library does not use the program's memory.
    pub(crate) fn abandon<F: Fabric>(&mut self, key: usize, lane: &mut Lane<F>) {
        match self.get_mut(key) {
            Some(PersistentOp::Collective(collective)) => collective.run.abandon(lane),
            Some(PersistentOp::Send(sending)) => sending.abandon(lane),
            Some(PersistentOp::Receive(receiving)) => receiving.abandon(lane),
            None => {}
        }
    }

    pub(crate) fn remove<F: Fabric>(&mut self, key: usize, lane: &mut Lane<F>) {
        let Some(op) = self.places.get_mut(key).and_then(Option::take) else { return };
        if let PersistentOp::Receive(mut receiving) = op {
            receiving.release(lane);
        }
        self.vacant.push(key);
    }

    pub(crate) fn run(&self, key: usize) -> Option<&Run> {
        match self.get(key)? {
            PersistentOp::Collective(collective) => Some(&collective.run),
            PersistentOp::Send(_) | PersistentOp::Receive(_) => None,
        }
    }

    pub(crate) fn team(&self, key: usize) -> Option<&Team> {
        self.run(key).map(|run| &**run.team())
    }

    pub(crate) fn has_tag(&self, context: u32, tag: i32) -> bool {
        self.places.iter().flatten().any(|op| match op {
            PersistentOp::Collective(collective) => {
                collective.run.team().collective == context && collective.run.tag() == tag
            }
            PersistentOp::Send(_) | PersistentOp::Receive(_) => false,
        })
    }

    pub(crate) fn uses_channels(&self, context: u32, numbers: &Range<u32>) -> bool {
        self.places.iter().flatten().any(|op| match op {
            PersistentOp::Send(sending) => sending.uses_channels(context, numbers),
            PersistentOp::Collective(_) | PersistentOp::Receive(_) => false,
        })
    }
}
