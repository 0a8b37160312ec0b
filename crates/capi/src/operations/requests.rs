//! The wait and test families (MPI-5.0 sections 3.7.3 to 3.7.5).
//!
//! The handle of a complete request becomes MPI_REQUEST_NULL. A call for one operation returns the
//! operation's error and does not write MPI_ERROR. A call for several operations returns
//! MPI_ERR_IN_STATUS and writes MPI_ERROR.

use crate::arguments::length;
use crate::arguments::{
    array, error_of, fetch, null, present, put, put_empty, put_received, put_status,
};
use crate::errors::{on_none, outcome};
use crate::operations::grequests;
use crate::state::library::{Running, check_count, library, running};
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Request, Status};
use oxmpi_core::completion::Indexed;
use oxmpi_engine::{Completion, Received, RequestId};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

/// The handles of an array of requests as numbers.
/// # Safety
/// `requests` must be null or point to `count` handles.
unsafe fn handles(count: i64, requests: *const Request) -> Result<Vec<u64>> {
    let count = check_count(count)?;
    // SAFETY: by the contract of this function.
    let all = unsafe { array(requests, count, "array_of_requests") }?;
    Ok(all.iter().map(|r| *r as u64).collect())
}

/// The address of status `at`; null for MPI_STATUSES_IGNORE.
fn status_at(statuses: *mut Status, at: usize) -> *mut Status {
    if statuses.is_null() { statuses } else { statuses.wrapping_add(at) }
}

/// Ends one complete request of an array: invalidates its handle unless it is persistent, and
/// writes its status. Returns the error of the operation.
/// # Safety
/// `requests` must have an element `at`, `status` must be null or writable.
unsafe fn finish(
    requests: *mut Request,
    at: usize,
    status: *mut Status,
    done: &Completion,
) -> Option<MpiError> {
    // SAFETY: by the contract of this function.
    unsafe {
        if done.stays {
            put_status(status, done);
            return error_of(done);
        }
        let request = requests.add(at).replace(abi::MPI_REQUEST_NULL);
        if done.generalized {
            return grequests::conclude(request, status).err();
        }
        put_status(status, done);
    }
    error_of(done)
}

/// Ends one complete request of an array, with MPI_ERROR in the status. Adds a failure to
/// `failures`.
/// # Safety
/// `requests` must have an element `at`, `status` must be null or writable.
unsafe fn finish_of_many(
    requests: *mut Request,
    at: usize,
    status: *mut Status,
    done: &Completion,
    failures: &mut Vec<FailedOperation>,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        let error = finish(requests, at, status, done);
        if !status.is_null() {
            (*status).error = error.as_ref().map_or(abi::MPI_SUCCESS, MpiError::class);
        }
        failures.extend(error.map(|error| FailedOperation { at, completion: *done, error }));
    }
}

struct FailedOperation {
    at: usize,
    completion: Completion,
    error: MpiError,
}

/// The error of a call for several operations, raised on the communicator of the first failed one.
fn in_status(failures: &[FailedOperation], failed: &mut Option<On>) -> Result<()> {
    let Some(FailedOperation { at, completion, error }) = failures.first() else { return Ok(()) };
    *failed = Some(On::Failed(*completion, error.class()));
    Err(MpiError::new(
        abi::MPI_ERR_IN_STATUS,
        format!(
            "{} of the operations failed, the first of them request {at}: {error}",
            failures.len()
        ),
    ))
}

/// Runs a call on requests. The error of an operation is raised on its communicator.
pub(crate) fn on_requests(
    function: FuncId,
    call: impl FnOnce(&'static Running, &mut Option<On>) -> Result<()>,
) -> c_int {
    let mut failed = None;
    let result = library().and_then(|library| call(library, &mut failed));
    outcome(function, failed, result)
}

/// Runs a call on one request, on whose communicator errors are raised.
pub(crate) fn on_request(
    function: FuncId,
    request: Request,
    call: impl FnOnce(&'static Running, Request) -> Result<()>,
) -> c_int {
    on_requests(function, |library, failed| {
        let result = call(library, request);
        raised_on(library, request, &result, failed);
        result
    })
}

/// Makes a request's communicator the object for errors.
pub(crate) fn raised_on<R>(
    library: &Running,
    request: Request,
    result: &Result<R>,
    failed: &mut Option<On>,
) {
    if let Err(error) = result
        && let Some(context) = library.process.context_of(request as u64)
    {
        *failed = Some(On::Failed(Completion { context, ..Completion::EMPTY }, error.class()));
    }
}

pub(crate) fn check_not_null(request: Request, what: &str) -> Result<()> {
    if request == abi::MPI_REQUEST_NULL { Err(null_request(what)) } else { Ok(()) }
}

#[cold]
pub(crate) fn null_request(what: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_REQUEST, format!("{what} is MPI_REQUEST_NULL"))
}

/// The result of a request that is complete without a fault; otherwise `None`, and nothing has
/// happened.
#[inline(always)]
fn good(library: &Running, request: Request) -> Option<Received> {
    if request == abi::MPI_REQUEST_NULL || request == COMPLETE {
        return Some(Received::NOTHING);
    }
    library.process.home_take_good(request as u64)
}

/// The handle of a request that was complete from the start.
const COMPLETE: Request = RequestId::COMPLETE.raw() as Request;

/// Waits for the request `handle`, which is the value at `request`.
/// # Safety
/// `request` must point to a handle, `status` be null or writable.
#[inline(never)]
unsafe fn wait_here(
    library: &Running,
    handle: Request,
    request: *mut Request,
    status: *mut Status,
) -> c_int {
    match library.process.home_take_good(handle as u64) {
        // SAFETY: by the contract of this function.
        Some(done) => unsafe { end_received(request, status, done) },
        // SAFETY: by the contract of this function.
        None => unsafe { wait_fully(request, status) },
    }
}

/// # Safety
/// `request` must be null or point to a handle, `status` be null or writable.
#[inline(never)]
unsafe fn wait_fully(request: *mut Request, status: *mut Status) -> c_int {
    on_requests(FuncId::MPI_Wait, |library, failed| {
        // SAFETY: by the contract of this function.
        unsafe {
            let done = library.process.wait_raw(fetch(request, "request")? as u64)?;
            single(done, finish(request, 0, status, &done), failed)
        }
    })
}

/// # Safety
/// `request` must point to a handle, `status` be null or writable.
#[inline(always)]
unsafe fn end_received(request: *mut Request, status: *mut Status, done: Received) -> c_int {
    // SAFETY: by the contract of this function.
    unsafe {
        request.write(abi::MPI_REQUEST_NULL);
        put_received(status, done);
    }
    abi::MPI_SUCCESS
}

/// Ends a call for one request if the request is complete without a fault.
/// # Safety
/// `request` must be null or point to a handle, `status` be null or writable.
#[inline(always)]
unsafe fn finished_now(request: *mut Request, status: *mut Status) -> bool {
    if let Some(library) = running()
        && !request.is_null()
        // SAFETY: not null, so a handle by the contract of this function.
        && let Some(done) = good(library, unsafe { request.read() })
    {
        // SAFETY: by the contract of this function.
        unsafe { end_received(request, status, done) };
        return true;
    }
    false
}

/// Ends the leading requests of an array that are complete without a fault; returns their number.
/// # Safety
/// `requests` must point to `count` handles, `statuses` be null or have room for as many.
#[inline(always)]
unsafe fn finish_good(
    library: &Running,
    requests: *mut Request,
    count: usize,
    statuses: *mut Status,
) -> usize {
    // SAFETY: by the contract of this function; a handle is read before it is written.
    let all = (0..count).map(|at| unsafe { requests.add(at).read() } as u64);
    library.process.take_good_ones(all, |at, done, stays| {
        // SAFETY: `at < count`.
        unsafe {
            if !stays {
                requests.add(at).write(abi::MPI_REQUEST_NULL);
            }
            if !statuses.is_null() {
                put_received(statuses.add(at), done);
                (*statuses.add(at)).error = abi::MPI_SUCCESS;
            }
        }
    })
}

/// The result of a call for one operation, which returns the operation's error.
fn single(done: Completion, error: Option<MpiError>, failed: &mut Option<On>) -> Result<()> {
    match error {
        None => Ok(()),
        Some(error) => {
            *failed = Some(On::Failed(done, error.class()));
            Err(error)
        }
    }
}

struct SomeOutputs {
    requests: *mut Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
}

/// Completes the requests that `select` chooses, and writes their results.
fn some(
    function: FuncId,
    incount: i64,
    outputs: SomeOutputs,
    select: impl FnOnce(&Running, &[u64]) -> Result<Option<Vec<Indexed>>>,
) -> c_int {
    let SomeOutputs { requests, outcount, indices, statuses } = outputs;
    on_requests(function, |library, failed| {
        present(outcount, "outcount")?;
        if length(incount, "incount", abi::MPI_ERR_COUNT)? > 0 {
            present(indices, "array_of_indices")?;
        }
        // SAFETY: the C program passes an array of `incount` handles.
        let all = unsafe { handles(incount, requests) }?;
        let Some(done) = select(library, &all)? else {
            // SAFETY: the C program passes a place for an integer.
            return unsafe { put(outcount, abi::MPI_UNDEFINED, "outcount") };
        };
        let mut failures = Vec::new();
        for (n, (at, completion)) in done.iter().enumerate() {
            // SAFETY: the program's arrays have an element for each request.
            unsafe {
                indices.add(n).write(*at as c_int);
                finish_of_many(requests, *at, status_at(statuses, n), completion, &mut failures);
            }
        }
        // SAFETY: the C program passes a place for an integer.
        unsafe { put(outcount, done.len() as c_int, "outcount") }?;
        in_status(&failures, failed)
    })
}

#[inline(always)]
pub(crate) fn wait(_: FuncId, request: *mut Request, status: *mut Status) -> c_int {
    let library = running().filter(|_| !request.is_null());
    let Some(library) = library else {
        // SAFETY: the C program passes a handle, and a status or MPI_STATUS_IGNORE.
        return unsafe { wait_fully(request, status) };
    };
    // SAFETY: the C program passes a place with a handle.
    let handle = unsafe { request.read() };
    if handle != COMPLETE {
        // SAFETY: not null, and the C program passes a status or MPI_STATUS_IGNORE.
        return unsafe { wait_here(library, handle, request, status) };
    }
    // SAFETY: not null, and the C program passes a status or MPI_STATUS_IGNORE. Without a
    // function call this path stays short.
    unsafe { end_received(request, status, Received::NOTHING) }
}

#[inline(always)]
pub(crate) fn test(
    function: FuncId,
    request: *mut Request,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    if let Some(library) = running()
        && !request.is_null()
        // SAFETY: not null; the C program passes a place with a handle.
        && matches!(unsafe { request.read() }, abi::MPI_REQUEST_NULL | COMPLETE)
    {
        library.process.look_if_due();
    }
    // SAFETY: the C program passes a handle, and a status or MPI_STATUS_IGNORE.
    if !flag.is_null() && unsafe { finished_now(request, status) } {
        // SAFETY: not null; the C program passes a place for an integer.
        unsafe { flag.write(1) };
        return abi::MPI_SUCCESS;
    }
    on_requests(function, |library, failed| {
        // SAFETY: the C program passes a handle, an integer, and a status or MPI_STATUS_IGNORE.
        unsafe {
            present(flag, "flag")?;
            let done = library.process.test_raw(fetch(request, "request")? as u64)?;
            put(flag, c_int::from(done.is_some()), "flag")?;
            let Some(done) = done else { return Ok(()) };
            single(done, finish(request, 0, status, &done), failed)
        }
    })
}

#[inline(always)]
pub(crate) fn waitall(
    function: FuncId,
    count: i64,
    requests: *mut Request,
    statuses: *mut Status,
) -> c_int {
    on_requests(function, |library, failed| {
        let count = check_count(count)?;
        if count > 0 && requests.is_null() {
            return Err(null("array_of_requests"));
        }
        let mut failures = Vec::new();
        let mut at = 0;
        let mut polled = None;
        let mut is_checked = false;
        while at < count {
            // SAFETY: the C program passes `count` handles, and as many statuses or
            // MPI_STATUSES_IGNORE.
            unsafe {
                at += finish_good(library, requests.add(at), count - at, status_at(statuses, at));
                if at == count {
                    break;
                }
                if polled != Some(at) {
                    // Wait only after a poll that did not complete the next request.
                    polled = Some(at);
                    if !library.process.poll_for(requests.add(at).read() as u64) {
                        library.process.look_now_and_then();
                    }
                    continue;
                }
                if !is_checked {
                    // All requests are checked before the first wait, since a wrong call must
                    // not wait.
                    let left = std::slice::from_raw_parts(requests.add(at), count - at);
                    library.process.check_requests(left.iter().map(|request| *request as u64))?;
                    is_checked = true;
                }
                let done = library.process.wait_raw(requests.add(at).read() as u64)?;
                finish_of_many(requests, at, status_at(statuses, at), &done, &mut failures);
                at += 1;
            }
        }
        in_status(&failures, failed)
    })
}

#[inline(always)]
pub(crate) fn testall(
    function: FuncId,
    count: i64,
    requests: *mut Request,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    on_requests(function, |library, failed| {
        let mut failures = Vec::new();
        let mut generalized = Vec::new();
        // SAFETY: the C program passes `count` handles, statuses or MPI_STATUSES_IGNORE, and an
        // integer.
        unsafe {
            present(flag, "flag")?;
            let all = library.process.test_all(&handles(count, requests)?, |at, done| {
                if done.generalized {
                    // The program's functions are called when no lock is held.
                    generalized.push((at, done));
                } else {
                    finish_of_many(requests, at, status_at(statuses, at), &done, &mut failures);
                }
            })?;
            for (at, done) in generalized {
                finish_of_many(requests, at, status_at(statuses, at), &done, &mut failures);
            }
            put(flag, c_int::from(all), "flag")?;
        }
        in_status(&failures, failed)
    })
}

#[inline(always)]
pub(crate) fn waitany(
    function: FuncId,
    count: i64,
    requests: *mut Request,
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_requests(function, |library, failed| {
        // SAFETY: the C program passes `count` handles, an integer, and a status or
        // MPI_STATUS_IGNORE.
        unsafe {
            present(index, "index")?;
            match library.process.wait_any(&handles(count, requests)?)? {
                None => {
                    put_empty(status);
                    put(index, abi::MPI_UNDEFINED, "index")
                }
                Some((at, done)) => {
                    put(index, at as c_int, "index")?;
                    single(done, finish(requests, at, status, &done), failed)
                }
            }
        }
    })
}

#[inline(always)]
pub(crate) fn testany(
    function: FuncId,
    count: i64,
    requests: *mut Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_requests(function, |library, failed| {
        // SAFETY: the C program passes `count` handles, two integers, and a status or
        // MPI_STATUS_IGNORE.
        unsafe {
            present(index, "index")?;
            present(flag, "flag")?;
            match library.process.test_any(&handles(count, requests)?)? {
                None => {
                    put_empty(status);
                    put(flag, 1, "flag")?;
                    put(index, abi::MPI_UNDEFINED, "index")
                }
                Some(None) => {
                    put(flag, 0, "flag")?;
                    put(index, abi::MPI_UNDEFINED, "index")
                }
                Some(Some((at, done))) => {
                    put(flag, 1, "flag")?;
                    put(index, at as c_int, "index")?;
                    single(done, finish(requests, at, status, &done), failed)
                }
            }
        }
    })
}

pub(crate) fn waitsome(
    function: FuncId,
    incount: i64,
    requests: *mut Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    let outputs = SomeOutputs { requests, outcount, indices, statuses };
    some(function, incount, outputs, |library, all| library.process.wait_some(all))
}

pub(crate) fn testsome(
    function: FuncId,
    incount: i64,
    requests: *mut Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    let outputs = SomeOutputs { requests, outcount, indices, statuses };
    some(function, incount, outputs, |library, all| library.process.test_some(all))
}

pub(crate) fn request_free(function: FuncId, request: *mut Request) -> c_int {
    on_none(function, |library| {
        // SAFETY: the C program passes a place with a handle.
        let handle = unsafe { fetch(request, "request") }?;
        check_not_null(handle, "request")?;
        // SAFETY: `request` is not null, as `fetch` has checked, and holds a handle.
        let gone = || unsafe { put(request, abi::MPI_REQUEST_NULL, "request") };
        if let Some(freed) = grequests::free(library, handle) {
            gone()?;
            return freed;
        }
        library.process.free_request(handle as u64)?;
        gone()
    })
}

/// Cancels an operation that is not matched yet (MPI-5.0 section 3.8.4). Local; the request must
/// still be completed.
pub(crate) fn cancel(library: &Running, request: Request) -> Result<()> {
    grequests::cancel_generalized(request).unwrap_or_else(|| library.process.cancel(request as u64))
}
