//! Persistent requests (MPI-5.0 section 3.9).

use crate::arguments::{BufferArgs, array};
use crate::operations::requests::{null_request, on_requests, raised_on};
use crate::state::library::{Running, check_count};
use crate::state::named::CommArgument;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Request;
use oxmpi_engine::{Mode, RequestId};
use oxmpi_objects::error::Result;
use std::ffi::c_int;

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

pub(crate) fn start(library: &Running, request: Request) -> Result<Request> {
    library.process.start_request(request as u64)?;
    Ok(request)
}

/// If one request cannot be started, none is. Errors of an operation itself (a full buffer) are
/// reported after all earlier operations were started.
pub(crate) fn startall(function: FuncId, count: i64, array_of_requests: *mut Request) -> c_int {
    on_requests(function, |library, failed| {
        let count = check_count(count)?;
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
