//! The conversions of requests, and the requests of operations that work on copies of array
//! sections.
//!
//! Such a request has a number of this library's own, between the predefined handles and the
//! numbers of the C library. The C library refuses the number, so only the completion functions of
//! this library can complete the request: they return the copies to their sections.

use super::{Handles, put, request_numbers};
use crate::by_hand::refuse;
use crate::c;
use crate::sections::SectionCopy;
use oxmpi_abi::constants as abi;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use super::request_numbers::output;

/// The first number of this library's own. The ABI's predefined handles are below 1024.
const FIRST: usize = 2048;

/// The number behind the last one.
const END: usize = super::PREDEFINED;

/// A request whose operation works on copies.
struct KeptRequest {
    request: usize,
    copies: Vec<SectionCopy>,
    /// Whether the copies must be returned when the operation completes.
    is_active: bool,
}

/// The requests, at the places that their numbers say.
static KEPT: Mutex<Vec<Option<KeptRequest>>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Option<KeptRequest>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a request of this library's own.
#[inline(always)]
fn slot(number: c_int) -> Option<usize> {
    let number = usize::try_from(number).ok()?;
    (FIRST..END).contains(&number).then(|| number - FIRST)
}

#[inline(always)]
pub(crate) unsafe fn input(place: *const c_int) -> usize {
    unsafe { of(*place) }
}

#[inline(always)]
unsafe fn of(number: c_int) -> usize {
    match slot(number) {
        Some(slot) => of_kept(slot, number),
        None => unsafe { request_numbers::of(number) },
    }
}

#[cold]
fn of_kept(slot: usize, number: c_int) -> usize {
    match kept().get(slot) {
        Some(Some(kept)) => kept.request,
        // The C function reports it.
        _ => number as usize,
    }
}

pub(crate) unsafe fn read(numbers: *const c_int, count: c_int) -> Handles {
    Handles::new(count, |at| unsafe { of(*numbers.add(at)) })
}

/// Stores the request of an operation on copies, or that of an operation without copies.
pub(crate) unsafe fn keep(
    place: *mut c_int,
    request: usize,
    copies: Vec<SectionCopy>,
    is_persistent: bool,
    procedure: &str,
) -> c_int {
    if request == super::UNSET || copies.is_empty() {
        unsafe { output(place, request) };
        return 0;
    }
    let entry = KeptRequest { request, copies, is_active: !is_persistent };
    let mut all = kept();
    let slot = all.iter().position(Option::is_none).unwrap_or(all.len());
    if slot >= END - FIRST {
        drop(all);
        // The operation has begun and needs the copies.
        std::mem::forget(entry);
        let reason = "too many operations on copies of array sections are open";
        return refuse(&procedure.to_uppercase(), abi::MPI_ERR_NO_MEM, reason);
    }
    if slot == all.len() {
        all.push(None);
    }
    all[slot] = Some(entry);
    unsafe { put(place, (FIRST + slot) as c_int) };
    0
}

/// Reads the sections again before a persistent operation starts.
pub(crate) unsafe fn starts(place: *const c_int) {
    let Some(slot) = slot(unsafe { *place }) else { return };
    if let Some(Some(kept)) = kept().get_mut(slot) {
        kept.copies.iter_mut().for_each(|copy| unsafe { copy.read() });
        kept.is_active = true;
    }
}

pub(crate) unsafe fn all_start(places: *const c_int, count: c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        unsafe { starts(places.add(at)) };
    }
}

/// Stores a handle that a completion function has changed or left.
#[inline(always)]
pub(crate) unsafe fn update(place: *mut c_int, request: usize) {
    unsafe {
        match slot(*place) {
            Some(slot) => update_kept(slot, place, request),
            None => output(place, request),
        }
    }
}

/// Stores handles that a completion function has changed or left.
pub(crate) unsafe fn give(places: *mut c_int, requests: &Handles) {
    for (at, request) in requests.all().iter().enumerate() {
        unsafe { update(places.add(at), *request) };
    }
}

/// Returns the copies of an operation if it is complete.
#[inline(always)]
pub(crate) unsafe fn look(place: *const c_int) {
    if let Some(slot) = slot(unsafe { *place }) {
        unsafe { look_at_kept(slot) };
    }
}

pub(crate) unsafe fn look_at_all(places: *const c_int, count: c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        unsafe { look(places.add(at)) };
    }
}

#[cold]
unsafe fn update_kept(slot: usize, place: *mut c_int, request: usize) {
    if request != abi::MPI_REQUEST_NULL {
        unsafe { look_at_kept(slot) };
        return;
    }
    let entry = kept().get_mut(slot).and_then(Option::take);
    unsafe {
        if let Some(entry) = entry.filter(|entry| entry.is_active) {
            entry.copies.iter().for_each(|copy| copy.give());
        }
        put(place, abi::MPI_REQUEST_NULL as c_int);
    }
}

#[cold]
unsafe fn look_at_kept(slot: usize) {
    let open = match kept().get(slot) {
        Some(Some(kept)) if kept.is_active => kept.request,
        _ => return,
    };
    let mut is_complete = 0;
    // The lock is not held, because the call may run functions of the program.
    let code = unsafe { c::PMPI_Request_get_status(open, &mut is_complete, std::ptr::null_mut()) };
    if code == 0
        && is_complete != 0
        && let Some(Some(kept)) = kept().get_mut(slot)
    {
        kept.is_active = false;
        kept.copies.iter().for_each(|copy| unsafe { copy.give() });
    }
}

/// Stores the null request after MPI_Request_free. An operation that is not complete still needs
/// its copies.
pub(crate) unsafe fn freed(place: *mut c_int, request: usize) {
    unsafe {
        let Some(slot) = slot(*place) else {
            output(place, request);
            return;
        };
        if request == abi::MPI_REQUEST_NULL {
            let entry = kept().get_mut(slot).and_then(Option::take);
            if entry.as_ref().is_some_and(|entry| entry.is_active) {
                std::mem::forget(entry);
            }
            put(place, abi::MPI_REQUEST_NULL as c_int);
        }
    }
}
