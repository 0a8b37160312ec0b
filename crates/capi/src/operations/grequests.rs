//! Generalized requests (MPI-5.0 section 13.2): the program carries out an operation and reports
//! its completion.
//!
//! The engine has the request, and this module has the program's functions, which are called
//! without locks. The thread that completes the request or reads its status calls the query
//! function. The free function is called once, afterwards. A request that the program frees early
//! keeps its functions until the operation is complete.

use crate::arguments::{null, put_status};
use crate::errors::{class_of, on_none};
use crate::state::grequests::{GeneralizedRequest, GrequestFunctions};
use crate::state::library::Running;
use crate::state::locked;
use crate::state::objects::objects;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    GrequestCancelFunction, GrequestFreeFunction, GrequestQueryFunction, Request, Status,
};
use oxmpi_engine::RequestId;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind, bad_handle};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

impl GrequestFunctions {
    fn extra_state(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.extra_state)
    }

    /// Calls the query function, which writes the status. For MPI_STATUS_IGNORE the status is
    /// temporary.
    /// # Safety
    /// `status` must be MPI_STATUS_IGNORE or valid for writing.
    unsafe fn query(&self, status: *mut Status) -> Result<()> {
        let mut unseen = Status::default();
        let place = if status.is_null() { &raw mut unseen } else { status };
        // SAFETY: MPI_STATUS_IGNORE is null, so the place is valid. The function is the argument of
        // MPI_Grequest_start, and gets the arguments of the standard.
        let code = unsafe {
            put_status(place, &oxmpi_engine::Completion::EMPTY);
            (self.query)(self.extra_state(), place)
        };
        returned("query", code)
    }

    fn free(&self) -> Result<()> {
        // SAFETY: the function is the argument of MPI_Grequest_start.
        returned("free", unsafe { (self.free)(self.extra_state()) })
    }

    fn cancel(&self, is_complete: bool) -> Result<()> {
        // SAFETY: the function is the argument of MPI_Grequest_start.
        returned("cancel", unsafe { (self.cancel)(self.extra_state(), c_int::from(is_complete)) })
    }
}

fn returned(what: &str, code: c_int) -> Result<()> {
    if code == abi::MPI_SUCCESS {
        return Ok(());
    }
    let text = format!(
        "the {what} function of a generalized request returned error code {}",
        shown::number(ValueKind::Code, code)
    );
    // A value that is no error code must not become the code of the call.
    Err(MpiError::new(if class_of(code).is_ok() { code } else { abi::MPI_ERR_OTHER }, text))
}

fn no_request(request: Request) -> MpiError {
    let why = "it is no generalized request, or its operation is over";
    bad_handle(ValueKind::Request, request as u64, why)
}

/// `None` if the program has never made a generalized request.
fn requests() -> Option<MutexGuard<'static, HashMap<u64, GeneralizedRequest>>> {
    let requests = &objects().generalized;
    // Relaxed is enough: a thread gets a handle from the thread that made the request, after the
    // increment.
    (requests.made.load(Ordering::Relaxed) > 0).then(|| locked(&requests.all))
}

fn find(request: Request) -> Option<GeneralizedRequest> {
    requests()?.get(&(request as u64)).copied()
}

/// Ends a generalized request that a call has completed. The program sets the status. Returns the
/// error of the free function, which is called last, otherwise that of the query function (MPI-5.0
/// section 13.2).
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
pub(crate) unsafe fn conclude(request: Request, status: *mut Status) -> Result<()> {
    let found = requests().and_then(|mut all| all.remove(&(request as u64)));
    // Only one thread completes a request.
    let Some(GeneralizedRequest { calls, .. }) = found else { return Err(no_request(request)) };
    // SAFETY: by the contract of this function.
    let queried = unsafe { calls.query(status) };
    let freed = calls.free();
    freed.and(queried)
}

/// Writes the status of a complete generalized request, which stays (MPI_Request_get_status).
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
pub(crate) unsafe fn query(request: Request, status: *mut Status) -> Result<()> {
    let Some(GeneralizedRequest { calls, .. }) = find(request) else {
        return Err(no_request(request));
    };
    // SAFETY: by the contract of this function.
    unsafe { calls.query(status) }
}

/// `None` for other requests.
pub(crate) fn cancel_generalized(request: Request) -> Option<Result<()>> {
    find(request).map(|found| found.calls.cancel(found.is_complete))
}

/// Frees a generalized request. Its free function is called once the operation is complete. `None`
/// for other requests.
pub(crate) fn free(library: &Running, request: Request) -> Option<Result<()>> {
    let found = {
        let mut all = requests()?;
        let found = all.get_mut(&(request as u64)).filter(|found| !found.is_freed)?;
        found.is_freed = true;
        let found = *found;
        if found.is_complete {
            all.remove(&(request as u64));
        }
        found
    };
    let freed = library.process.free_generalized(request as u64);
    Some(freed.and_then(|()| if found.is_complete { found.calls.free() } else { Ok(()) }))
}

/// Test: tests/c/grequest_basic.c.
pub(crate) fn grequest_start(
    library: &Running,
    query_fn: Option<GrequestQueryFunction>,
    free_fn: Option<GrequestFreeFunction>,
    cancel_fn: Option<GrequestCancelFunction>,
    extra_state: *mut c_void,
) -> Result<RequestId> {
    let query = query_fn.ok_or_else(|| null("query_fn"))?;
    let free = free_fn.ok_or_else(|| null("free_fn"))?;
    let cancel = cancel_fn.ok_or_else(|| null("cancel_fn"))?;
    let extra_state = extra_state.expose_provenance();
    let calls = GrequestFunctions { query, free, cancel, extra_state };
    let made = library.process.start_generalized();
    let entry = GeneralizedRequest { calls, is_complete: false, is_freed: false };
    objects().generalized.made.fetch_add(1, Ordering::Relaxed);
    locked(&objects().generalized.all).insert(made, entry);
    Ok(RequestId::from_raw(made))
}

/// Wakes waiting threads. A request that is not generalized is no object for the error. Test:
/// tests/c/grequest_thread.c.
pub(crate) fn grequest_complete(function: FuncId, request: Request) -> c_int {
    on_none(function, |library| {
        let found = {
            let mut all = requests().ok_or_else(|| no_request(request))?;
            let found = all.get_mut(&(request as u64)).filter(|found| !found.is_complete);
            let found = found.ok_or_else(|| no_request(request))?;
            found.is_complete = true;
            let found = *found;
            if found.is_freed {
                all.remove(&(request as u64));
            }
            found
        };
        library.process.complete_generalized(request as u64)?;
        if found.is_freed { found.calls.free() } else { Ok(()) }
    })
}
