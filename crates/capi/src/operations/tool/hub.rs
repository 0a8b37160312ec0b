//! The queue from the process to the callbacks. Events are delivered one after another, without
//! locks.
//!
//! Only one thread delivers at a time, so the events of a source stay in order. A callback that
//! calls MPI may cause events; these are delivered after its return. Events are dropped while the
//! queue is full, and their number goes to the handlers for dropped events.

use super::registered::{Registration, registered};
use crate::state::library::{Running, latest, running_unless_closed};
use crate::state::locked;
use oxmpi_core::tool::{Event, EventKind, ObservedEvents};
use oxmpi_objects::error::MpiError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const MOST: usize = 4096;

static WAITING: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());
static IS_DELIVERING: AtomicBool = AtomicBool::new(false);

/// Observes events, if MPI is initialised.
pub(super) fn observe() -> Result<(), MpiError> {
    running_unless_closed().map_or(Ok(()), observe_all)
}

/// Observes events, if there are registrations.
pub(super) fn observe_if_wanted(library: &'static Running) -> Result<(), MpiError> {
    if registered().is_empty() { Ok(()) } else { observe_all(library) }
}

/// Observing requires thread support of the lane, and so of the tables of objects.
fn observe_all(library: &'static Running) -> Result<(), MpiError> {
    library.set_threaded()?;
    library.process.observe(Box::new(receive))
}

pub(super) fn unobserve() {
    if let Some(library) = latest() {
        // On an error the process continues to observe, and no registration gets the events.
        let _ = library.process.unobserve();
    }
    locked(&WAITING).clear();
}

/// Takes observed events from the process. Returns whether events wait for delivery.
fn receive(seen: ObservedEvents) -> bool {
    let all = registered();
    for (kind, count) in seen.dropped {
        drop_of(&all, kind, None, count);
    }
    let mut waiting = locked(&WAITING);
    for event in seen.events {
        if waiting.len() < MOST {
            waiting.push_back(event);
        } else {
            drop_of(&all, event.kind, Some(event.context), 1);
        }
    }
    drop(waiting);
    deliver()
}

/// Counts dropped events of a kind. Without a context, the registrations of all contexts count
/// them.
fn drop_of(all: &[Arc<Registration>], kind: EventKind, context: Option<Option<u32>>, count: u64) {
    let concerned = |one: &&Arc<Registration>| {
        one.kind() == kind && context.is_none_or(|context| one.receives(context))
    };
    all.iter().filter(concerned).for_each(|one| one.note_dropped(count));
}

/// Delivers waiting events, unless another thread or a caller of this function delivers. Delivers a
/// limited number; events that callbacks cause may wait for the next call. Returns whether events
/// wait that no other thread delivers.
fn deliver() -> bool {
    let mut left = MOST;
    loop {
        if IS_DELIVERING.swap(true, Ordering::Acquire) {
            return false;
        }
        while left > 0
            && let Some(event) = next()
        {
            left -= 1;
            for registration in registered() {
                registration.deliver(&event);
            }
        }
        IS_DELIVERING.store(false, Ordering::Release);
        // Another thread may have added events, relying on this thread.
        let is_over = locked(&WAITING).is_empty();
        if left == 0 || is_over {
            return !is_over;
        }
    }
}

fn next() -> Option<Event> {
    locked(&WAITING).pop_front()
}
