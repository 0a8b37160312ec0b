//! The event of a callback (MPI-5.0 section 15.3.8). The callback's thread can read it while the
//! callback runs.

use super::checks::{Result, at};
use super::sources::timestamp;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, TEventInstance};
use oxmpi_core::tool::Event;
use oxmpi_core::tool::events::{self, ElementType};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// The event that this thread delivers. Callbacks are never nested.
    static CURRENT_EVENT: Cell<Option<(TEventInstance, Event)>> = const { Cell::new(None) };
}

/// Runs a callback. It gets the handle of the event, which is valid until it returns.
pub(super) fn during(event: Event, run: impl FnOnce(TEventInstance)) {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let instance = NEXT.fetch_add(1, Ordering::Relaxed);
    // A thread whose variables are gone calls no function of the program.
    let _ = CURRENT_EVENT.try_with(|current| {
        current.set(Some((instance, event)));
        run(instance);
        current.set(None);
    });
}

fn current_event(instance: TEventInstance) -> Result<Event> {
    match CURRENT_EVENT.try_with(Cell::get) {
        Ok(Some((current, event))) if current == instance => Ok(event),
        _ => Err(abi::MPI_T_ERR_INVALID_HANDLE),
    }
}

fn bytes_of(kind: ElementType, value: i64) -> Vec<u8> {
    match kind {
        ElementType::Int => (value as c_int).to_ne_bytes().into(),
        ElementType::Unsigned64 => value.to_ne_bytes().into(),
    }
}

pub(crate) fn t_event_read(instance: TEventInstance, element_index: c_int) -> Result<Vec<u8>> {
    let event = current_event(instance)?;
    let element = at(events::of(event.kind).elements, element_index)?;
    Ok(bytes_of(element.kind, event.elements[element_index as usize]))
}

/// The displacements are those of MPI_T_event_get_info.
pub(crate) fn t_event_copy(instance: TEventInstance) -> Result<Vec<u8>> {
    let event = current_event(instance)?;
    let kind = events::of(event.kind);
    let (places, size) = kind.layout();
    let mut bytes = vec![0; size];
    for ((element, place), value) in kind.elements.iter().zip(places).zip(event.elements) {
        let value = bytes_of(element.kind, value);
        bytes[place..][..value.len()].copy_from_slice(&value);
    }
    Ok(bytes)
}

pub(crate) fn t_event_get_timestamp(instance: TEventInstance) -> Result<Count> {
    Ok(timestamp(current_event(instance)?.time_ns))
}

pub(crate) fn t_event_get_source(instance: TEventInstance) -> Result<c_int> {
    Ok(events::of(current_event(instance)?.kind).source as c_int)
}
