//! The conversions of requests, and the requests of operations that work on copies of array
//! sections.
//!
//! Such a request has a number of this library's own, which is negative. The C library refuses the
//! number, so only the completion functions of this library can complete the request: they return
//! the copies to their sections.

use super::{Handles, put, request_numbers};
use crate::by_hand::refuse;
use crate::c;
use crate::sections::SectionCopy;
use crate::abi;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use super::request_numbers::output;

/// The numbers are -1 and below, as many as these. The numbers of C libraries are positive, or far
/// below.
const MOST: usize = 1 << 20;

/// A request whose operation works on copies.
struct KeptRequest {
    request: usize,
    copies: Vec<SectionCopy>,
    /// Whether the copies must be returned when the operation completes.
    is_active: bool,
}

/// The requests, at the places that their numbers say, and the free places.
struct KeptRequests {
    all: Vec<Option<KeptRequest>>,
    free: Vec<usize>,
}

impl KeptRequests {
    fn get(&self, slot: usize) -> Option<&KeptRequest> {
        self.all.get(slot)?.as_ref()
    }

    fn get_mut(&mut self, slot: usize) -> Option<&mut KeptRequest> {
        self.all.get_mut(slot)?.as_mut()
    }

    fn take(&mut self, slot: usize) -> Option<KeptRequest> {
        let entry = self.all.get_mut(slot)?.take();
        if entry.is_some() {
            self.free.push(slot);
        }
        entry
    }
}

static KEPT: Mutex<KeptRequests> = Mutex::new(KeptRequests { all: Vec::new(), free: Vec::new() });

fn kept() -> MutexGuard<'static, KeptRequests> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a request of this library's own.
#[inline(always)]
fn slot(number: c_int) -> Option<usize> {
    if number >= 0 {
        return None;
    }
    let slot = !number as usize;
    (slot < MOST).then_some(slot)
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
        Some(kept) => kept.request,
        // The C function reports it.
        None => unsafe { request_numbers::of(number) },
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
    let slot = all.free.pop().unwrap_or(all.all.len());
    if slot >= MOST {
        drop(all);
        // The operation has begun and needs the copies.
        std::mem::forget(entry);
        let reason = "too many operations on copies of array sections are open";
        return refuse(&procedure.to_uppercase(), abi::MPI_ERR_NO_MEM, reason);
    }
    if slot == all.all.len() {
        all.all.push(None);
    }
    all.all[slot] = Some(entry);
    unsafe { put(place, !(slot as c_int)) };
    0
}

/// Reads the sections again before a persistent operation starts.
pub(crate) unsafe fn starts(place: *const c_int) {
    let Some(slot) = slot(unsafe { *place }) else { return };
    if let Some(kept) = kept().get_mut(slot) {
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
    let entry = kept().take(slot);
    unsafe {
        if let Some(entry) = entry.filter(|entry| entry.is_active) {
            entry.copies.iter().for_each(|copy| copy.give());
        }
        put(place, request_numbers::number(abi::MPI_REQUEST_NULL));
    }
}

#[cold]
unsafe fn look_at_kept(slot: usize) {
    let open = match kept().get(slot) {
        Some(kept) if kept.is_active => kept.request,
        _ => return,
    };
    let mut is_complete = 0;
    // The lock is not held, because the call may run functions of the program.
    let code = unsafe { c::PMPI_Request_get_status(open, &mut is_complete, std::ptr::null_mut()) };
    if code == 0
        && is_complete != 0
        && let Some(kept) = kept().get_mut(slot)
    {
        kept.is_active = false;
        kept.copies.iter().for_each(|copy| unsafe { copy.give() });
    }
}

/// Refuses MPI_Request_free for an operation that still needs its copies: nothing would return
/// them.
pub(crate) unsafe fn refused_free(place: *const c_int) -> Option<c_int> {
    let slot = slot(unsafe { *place })?;
    unsafe { look_at_kept(slot) };
    let is_open = kept().get(slot).is_some_and(|kept| kept.is_active);
    let reason = "the operation works on a copy of an array section: complete it by MPI_WAIT or \
                  another such procedure";
    is_open.then(|| refuse("MPI_REQUEST_FREE", abi::MPI_ERR_REQUEST, reason))
}
