//! Generalized requests: the procedures of a program that the library calls for one.

use super::callbacks::{Procedure, boxed, free};
use super::*;
use crate::types::{Aint, Status};
use std::mem::transmute;
use std::os::fd::AsRawFd as _;

/// The procedures of a request and its extra state.
struct RequestState {
    query: Procedure,
    free: Procedure,
    cancel: Procedure,
    extra: ExtraState,
}

/// The extra state belongs to the request (MPI-5.0 section 13.2): a procedure that changes it
/// changes it for the procedures that follow.
///
/// MPICH and Open MPI pass the program's variable to the procedures, and programs look there for
/// the result. But the standard's argument is an input: it may be a constant, may have ceased to
/// exist or may serve another request. So it is never read for the value of the request, and it
/// gets a change only if it can be written and has the value that the request had before.
struct ExtraState {
    value: Aint,
    variable: *mut Aint,
}

impl ExtraState {
    /// Calls a procedure with the address of the value.
    unsafe fn pass(state: *mut ExtraState, procedure: impl FnOnce(*mut Aint)) {
        unsafe {
            let before = (*state).value;
            procedure(&raw mut (*state).value);
            let now = (*state).value;
            if now != before {
                // The request has the value in any case.
                let _ = replace((*state).variable, before, now);
            }
        }
    }
}

unsafe extern "C" {
    fn read(file: c_int, to: *mut c_void, bytes: usize) -> isize;
    fn write(file: c_int, from: *const c_void, bytes: usize) -> isize;
}

/// Changes a variable from one value to another. The system copies the bytes through a pipe,
/// because it returns an error for memory that cannot be read or written, where an access would end
/// the program. `None` if the variable stays as it is.
unsafe fn replace(variable: *mut Aint, before: Aint, now: Aint) -> Option<()> {
    const BYTES: usize = size_of::<Aint>();
    let (reader, writer) = std::io::pipe().ok()?;
    let is_all = |copied: isize| (copied == BYTES.cast_signed()).then_some(());
    let mut found: Aint = 0;
    unsafe {
        is_all(write(writer.as_raw_fd(), variable.cast(), BYTES))?;
        is_all(read(reader.as_raw_fd(), (&raw mut found).cast(), BYTES))?;
        if found != before {
            return None;
        }
        is_all(write(writer.as_raw_fd(), (&raw const now).cast(), BYTES))?;
        is_all(read(reader.as_raw_fd(), variable.cast(), BYTES))
    }
}

unsafe extern "C-unwind" fn query(state: *mut c_void, status: *mut Status) -> c_int {
    type Query = unsafe extern "C-unwind" fn(*mut Aint, *mut Status, *mut c_int);
    let mut code = 0;
    unsafe {
        let state = state.cast::<RequestState>();
        let procedure: Query = transmute((*state).query);
        ExtraState::pass(&raw mut (*state).extra, |extra| procedure(extra, status, &mut code));
    }
    code
}

unsafe extern "C-unwind" fn free_request(state: *mut c_void) -> c_int {
    type Free = unsafe extern "C-unwind" fn(*mut Aint, *mut c_int);
    let mut code = 0;
    unsafe {
        let mut state = Box::from_raw(state.cast::<RequestState>());
        let procedure: Free = transmute(state.free);
        ExtraState::pass(&mut state.extra, |extra| procedure(extra, &mut code));
    }
    code
}

unsafe extern "C-unwind" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    type Cancel = unsafe extern "C-unwind" fn(*mut Aint, *mut c_int, *mut c_int);
    let (mut complete, mut code) = (complete, 0);
    unsafe {
        let state = state.cast::<RequestState>();
        let procedure: Cancel = transmute((*state).cancel);
        let call = |extra| procedure(extra, &mut complete, &mut code);
        ExtraState::pass(&raw mut (*state).extra, call);
    }
    code
}

pub(crate) unsafe fn grequest_start(
    call: c::GrequestStartFn,
    query_fn: Procedure,
    free_fn: Procedure,
    cancel_fn: Procedure,
    extra: *mut Aint,
    request: *mut c_int,
) -> c_int {
    let mut made = UNSET;
    unsafe {
        let extra = ExtraState { value: *extra, variable: extra };
        let state = RequestState { query: query_fn, free: free_fn, cancel: cancel_fn, extra };
        let state = boxed(state);
        let code = call(Some(query), Some(free_request), Some(cancel), state, &mut made);
        if code != 0 {
            free::<RequestState>(state);
        }
        request::output(request, made);
        code
    }
}
