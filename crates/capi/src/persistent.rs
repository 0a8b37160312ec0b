//! Persistent requests (MPI-5.0 section 3.9).

use crate::arguments::{BufferArgs, CommArgument};
use crate::library::{Running, array, check_count, fetch, put};
use crate::on::On;
use crate::requests::on_requests;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Request;
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

pub(crate) fn give(place: *mut Request, request: RequestId) -> Result<()> {
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, request.raw() as Request, "request") }
}

pub(crate) fn send_init(
    mode: Mode,
    library: &Running,
    data: BufferArgs,
    dest: c_int,
    tag: c_int,
    comm: &CommArgument,
) -> Result<RequestId> {
    library.process.send_init(comm, mode, data.buffer(library)?, dest, tag)
}

pub(crate) fn recv_init(
    library: &Running,
    data: BufferArgs,
    source: c_int,
    tag: c_int,
    comm: &CommArgument,
) -> Result<RequestId> {
    let buffer = data.buffer(library)?.writes_behind();
    library.process.recv_init(comm, buffer, source, tag)
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
fn null_request(what: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_REQUEST, format!("{what} is MPI_REQUEST_NULL"))
}

mpi! {
    fn MPI_Start(request: *mut Request) -> c_int {
        on_requests(FuncId::MPI_Start, |library, failed| {
            // SAFETY: the C program passes a place with a handle.
            let handle = unsafe { fetch(request, "request") }?;
            check_not_null(handle, "request")?;
            let started = library.process.start_request(handle as u64);
            raised_on(library, handle, &started, failed);
            started
        })
    }

    /// If one request cannot be started, none is. Errors of an operation itself (a full buffer) are
    /// reported after all earlier operations were started.
    fn MPI_Startall(count: c_int, array_of_requests: *mut Request) -> c_int {
        on_requests(FuncId::MPI_Startall, |library, failed| {
            let count = check_count(i64::from(count))?;
            // SAFETY: the C program passes an array of `count` handles.
            let all = unsafe { array(array_of_requests, count, "array_of_requests") }?;
            if let Some(at) = all.iter().position(|request| *request == abi::MPI_REQUEST_NULL) {
                return Err(null_request(&format!("array_of_requests[{at}]")));
            }
            library.process.check_startable(all.iter().map(|request| *request as u64))?;
            all.iter().try_for_each(|request| {
                let started = library.process.start_request(*request as u64);
                raised_on(library, *request, &started, failed);
                started
            })
        })
    }
}
