//! The event of a callback (MPI-5.0 section 15.3.8). The callback's thread can read it while the
//! callback runs.

use super::outputs::put;
use super::sources::timestamp;
use super::{Result, call};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, TEventInstance};
use oxmpi_core::tool::Event;
use oxmpi_core::tool::events::{self, ElementType};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// The event that this thread delivers. Callbacks are never nested.
    static CURRENT_EVENT: Cell<Option<(TEventInstance, Event)>> = const { Cell::new(None) };
}

/// Runs a callback. `tell` gets the handle of the event, which is valid until `tell` returns.
pub(super) fn during(event: Event, tell: impl FnOnce(TEventInstance)) {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let instance = NEXT.fetch_add(1, Ordering::Relaxed);
    // A thread whose variables are gone calls no function of the program.
    let _ = CURRENT_EVENT.try_with(|current| {
        current.set(Some((instance, event)));
        tell(instance);
        current.set(None);
    });
}

fn current_event(instance: TEventInstance) -> Result<Event> {
    match CURRENT_EVENT.try_with(Cell::get) {
        Ok(Some((current, event))) if current == instance => Ok(event),
        _ => Err(abi::MPI_T_ERR_INVALID_HANDLE),
    }
}

/// # Safety
/// `place` must be null or have room for the element, at any alignment.
unsafe fn put_element(place: *mut c_void, kind: ElementType, value: i64) -> Result<()> {
    if place.is_null() {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe {
        match kind {
            ElementType::Int => place.cast::<c_int>().write_unaligned(value as c_int),
            ElementType::Unsigned64 => place.cast::<u64>().write_unaligned(value as u64),
        }
    }
    Ok(())
}

mpi! {
    fn MPI_T_event_read(
        event_instance: TEventInstance,
        element_index: c_int,
        buffer: *mut c_void,
    ) -> c_int {
        call(|| {
            let event = current_event(event_instance)?;
            let element = super::at(events::of(event.kind).elements, element_index)?;
            // SAFETY: the C program passes room for the element.
            unsafe { put_element(buffer, element.kind, event.elements[element_index as usize]) }
        })
    }

    /// The displacements are those of MPI_T_event_get_info.
    fn MPI_T_event_copy(event_instance: TEventInstance, buffer: *mut c_void) -> c_int {
        call(|| {
            let event = current_event(event_instance)?;
            if buffer.is_null() {
                return Err(abi::MPI_T_ERR_INVALID);
            }
            let kind = events::of(event.kind);
            for ((element, place), value) in kind.elements.iter().zip(kind.layout().0).zip(event.elements) {
                // SAFETY: the C program passes room for all elements.
                unsafe { put_element(buffer.byte_add(place), element.kind, value) }?;
            }
            Ok(())
        })
    }

    fn MPI_T_event_get_timestamp(event_instance: TEventInstance, event_timestamp: *mut Count) -> c_int {
        call(|| {
            let event = current_event(event_instance)?;
            // SAFETY: the C program passes a place for a count.
            unsafe { put(event_timestamp, timestamp(event.time_ns)) }
        })
    }

    fn MPI_T_event_get_source(event_instance: TEventInstance, source_index: *mut c_int) -> c_int {
        call(|| {
            let event = current_event(event_instance)?;
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(source_index, events::of(event.kind).source as c_int) }
        })
    }
}
