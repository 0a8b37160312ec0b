//! From the process to the callbacks: events wait in one queue and are told one after the other, with nothing locked.
//!
//! One thread tells at a time, so that those of a source are told in their order. A callback that calls MPI may make new
//! events; they are told when it has returned. What finds the queue full is dropped, and the dropped handlers are told how
//! much that was.

use super::registrations::{Registration, registered};
use crate::library::{Running, latest, running_unless_closed};
use crate::objects::locked;
use oxmpi_core::tool::{Event, EventKind, Seen};
use oxmpi_objects::error::MpiError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The most events that wait at a time.
const MOST: usize = 4096;

static WAITING: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());
/// A thread tells.
static IS_TELLING: AtomicBool = AtomicBool::new(false);

/// Hears of events from now on, if MPI is initialised.
pub(super) fn observe() -> Result<(), MpiError> {
    running_unless_closed().map_or(Ok(()), observe_all)
}

/// Hears of events from now on, if anybody has registered for some.
pub(super) fn observe_if_wanted(library: &'static Running) -> Result<(), MpiError> {
    if registered().is_empty() { Ok(()) } else { observe_all(library) }
}

/// An observed process is one with threads: its lane, and so the tables of objects, too.
fn observe_all(library: &'static Running) -> Result<(), MpiError> {
    library.set_threaded()?;
    library.process.observe(Box::new(hear))
}

/// Nobody has registered for any event any more.
pub(super) fn unobserve() {
    if let Some(library) = latest() {
        // If that is not possible now, what comes is heard and told to nobody.
        let _ = library.process.unobserve();
    }
    locked(&WAITING).clear();
}

/// The process tells what it has seen. Whether something still waits.
fn hear(seen: Seen) -> bool {
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
    tell()
}

/// Some events of a kind were dropped, of a context if that is known; whose they were otherwise, nobody can say.
fn drop_of(all: &[Arc<Registration>], kind: EventKind, context: Option<Option<u32>>, count: u64) {
    let concerned =
        |one: &&Arc<Registration>| one.kind() == kind && context.is_none_or(|context| one.hears_of(context));
    all.iter().filter(concerned).for_each(|one| one.note_dropped(count));
}

/// Tells what waits, unless another thread does already, or this one further up. At most so many: what callbacks cause is
/// for the next time. Whether something still waits that no other thread tells.
fn tell() -> bool {
    let mut left = MOST;
    loop {
        if IS_TELLING.swap(true, Ordering::Acquire) {
            return false;
        }
        while left > 0
            && let Some(event) = next()
        {
            left -= 1;
            for registration in registered() {
                registration.tell(&event);
            }
        }
        IS_TELLING.store(false, Ordering::Release);
        // Who has brought something meanwhile has relied on this thread.
        let is_over = locked(&WAITING).is_empty();
        if left == 0 || is_over {
            return !is_over;
        }
    }
}

fn next() -> Option<Event> {
    locked(&WAITING).pop_front()
}
