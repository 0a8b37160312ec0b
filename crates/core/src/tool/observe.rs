//! Events for a tool: collected with the lane locked, reported without a lock.

use super::events::{Event, EventKind};
use super::measure::Calls;
use crate::process::{Domain, Process};
use oxmpi_abi::constants as abi;
use oxmpi_coll::Run;
use oxmpi_engine::{Lane, Note};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_sys::clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The events since the last report.
#[derive(Debug, Default)]
pub struct ObservedEvents {
    pub events: Vec<Event>,
    pub dropped: Vec<(EventKind, u64)>,
}

/// The receiver of events. The thread that has found the events calls it without a lock. It returns
/// whether it must be called again soon, since it has not finished.
pub type Observer = Box<dyn Fn(ObservedEvents) -> bool + Send + Sync>;

#[derive(Default)]
pub(crate) struct Tool {
    pub(crate) calls: Arc<Calls>,
    observer: OnceLock<Observer>,
    is_observed: AtomicBool,
    is_due: AtomicBool,
}

const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct CollectiveEvents {
    is_wanted: bool,
    waiting: Vec<Event>,
    dropped: u64,
}

impl CollectiveEvents {
    pub(crate) fn collective(&mut self, run: &Run) {
        let (true, Some((id, count))) = (self.is_wanted, run.algorithm()) else { return };
        if self.waiting.len() == MOST {
            self.dropped += 1;
            return;
        }
        let row = id.algorithm();
        let (collective, number) = (row.collective as i64, i64::from(row.number));
        self.waiting.push(Event {
            kind: EventKind::Collective,
            time_ns: clock::now_ns(),
            context: Some(run.team().collective),
            elements: [collective, number, i64::from(run.team().size()), count as i64],
        });
    }
}

impl Tool {
    pub(crate) fn new(calls: Arc<Calls>) -> Tool {
        Tool { calls, ..Tool::default() }
    }

    #[inline]
    pub(crate) fn collect<F: Fabric>(&self, domain: &mut Domain<F>) -> Option<ObservedEvents> {
        if !self.is_observed.load(Ordering::Relaxed) {
            return None;
        }
        collect(domain)
            .or_else(|| self.is_due.load(Ordering::Relaxed).then(ObservedEvents::default))
    }

    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.is_observed.load(Ordering::Relaxed)
    }

    /// Reports the events. The caller must hold no lock.
    #[cold]
    pub(crate) fn report(&self, seen: ObservedEvents) {
        if let Some(observer) = self.observer.get() {
            let is_due = observer(seen);
            self.is_due.store(is_due, Ordering::Relaxed);
        }
    }
}

#[cold]
fn collect<F: Fabric>(domain: &mut Domain<F>) -> Option<ObservedEvents> {
    let mut seen = ObservedEvents::default();
    let time_ns = clock::now_ns();
    if domain.lane.has_notes() {
        let (notes, dropped) = domain.lane.take_notes();
        for note in notes {
            add(&mut seen.events, note, &domain.lane, time_ns);
        }
        for (kind, count) in dropped.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            seen.dropped.extend(kinds(kind).iter().map(|kind| (*kind, count)));
        }
    }
    let (connections, dropped) = domain.lane.fabric_mut().take_connections();
    for one in connections {
        let (rank, before) = (i64::from(one.peer), i64::from(one.before));
        let kind = if before == 0 { EventKind::Connected } else { EventKind::Reconnected };
        seen.events.push(Event { kind, time_ns, context: None, elements: [rank, before, 0, 0] });
    }
    if dropped > 0 {
        // It is not known which of the two kinds the lost events had.
        seen.dropped.extend([(EventKind::Connected, dropped), (EventKind::Reconnected, dropped)]);
    }
    seen.events.append(&mut domain.notes.waiting);
    let dropped = std::mem::take(&mut domain.notes.dropped);
    if dropped > 0 {
        seen.dropped.push((EventKind::Collective, dropped));
    }
    (!seen.events.is_empty() || !seen.dropped.is_empty()).then_some(seen)
}

const fn kinds(note: usize) -> &'static [EventKind] {
    match note {
        0 => &[EventKind::UnexpectedMatched, EventKind::CommUnexpectedMatched],
        1 => &[EventKind::RendezvousSent],
        2 => &[EventKind::RendezvousReceived],
        _ => &[EventKind::PeerLost],
    }
}

fn add<F>(events: &mut Vec<Event>, note: Note, lane: &Lane<F>, time_ns: u64) {
    let mut add = |kind, context, elements| events.push(Event { kind, time_ns, context, elements });
    match note {
        Note::UnexpectedMatched { context, from, tag, bytes } => {
            let of = |rank: i64| [rank, i64::from(tag), bytes as i64, 0];
            add(EventKind::UnexpectedMatched, Some(context), of(i64::from(from)));
            if let Some(rank) = lane.rank_in(context, from) {
                add(EventKind::CommUnexpectedMatched, Some(context), of(i64::from(rank)));
            }
        }
        Note::RendezvousSent { context, to: peer, tag, bytes }
        | Note::RendezvousReceived { context, from: peer, tag, bytes } => {
            let kind = match note {
                Note::RendezvousSent { .. } => EventKind::RendezvousSent,
                _ => EventKind::RendezvousReceived,
            };
            add(kind, Some(context), [i64::from(peer), i64::from(tag), bytes as i64, 0]);
        }
        Note::PeerLost { process } => add(EventKind::PeerLost, None, [i64::from(process), 0, 0, 0]),
    }
}

impl<F: Fabric> Process<F> {
    /// Reports events to `observer` from now on. A second observer is ignored; the first one
    /// becomes active again. Messages take the paths of a process with threads, which record
    /// events. Errors: the calling thread is not the home thread, or is inside the lane.
    pub fn observe(&self, observer: Observer) -> Result<()> {
        self.set_threaded()?;
        self.tool.observer.get_or_init(|| observer);
        self.watch(true)
    }

    /// Ends the reports.
    pub fn unobserve(&self) -> Result<()> {
        if self.tool.is_observed.load(Ordering::Relaxed) { self.watch(false) } else { Ok(()) }
    }

    fn watch(&self, watch: bool) -> Result<()> {
        let mut domain = self
            .domain
            .try_enter()
            .map_err(|e| MpiError::new(abi::MPI_ERR_OTHER, e.to_string()))?;
        if self.tool.is_observed.swap(watch, Ordering::Relaxed) != watch {
            domain.lane.want_notes(watch);
            domain.lane.fabric_mut().watch_connections(watch);
            domain.notes = CollectiveEvents { is_wanted: watch, ..CollectiveEvents::default() };
        }
        Ok(())
    }
}
