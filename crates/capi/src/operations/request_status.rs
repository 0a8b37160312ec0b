//! Queries of requests that stay (MPI-5.0 section 3.7.6). Test: tests/c/request_get_status.c.
//!
//! The call that later completes the request reports the same result, and only that call raises the
//! error of a failed operation. A query only writes it to the status. An error of a generalized
//! request's query function is an error of the query itself.

use crate::arguments::{Places, StatusResult, error_of, put_empty, put_status};
use crate::operations::grequests;
use crate::state::library::Running;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Request, Status};
use oxmpi_engine::Completion;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

/// The result of a query of one request.
pub(crate) enum Queried {
    /// No request is active.
    Empty,
    Complete(Request, Completion),
}

impl StatusResult for Queried {
    unsafe fn write(self, status: *mut Status) -> Result<()> {
        // SAFETY: by the contract of this function.
        unsafe {
            match self {
                Queried::Empty => put_empty(status),
                Queried::Complete(request, done) if done.generalized => {
                    return grequests::query(request, status);
                }
                Queried::Complete(_, done) => put_status(status, &done),
            }
        }
        Ok(())
    }
}

/// Writes one status of an array, with MPI_ERROR.
fn write_status_of_many(request: Request, status: *mut Status, done: Completion) -> Result<()> {
    // SAFETY: null for MPI_STATUSES_IGNORE, otherwise a place of the array.
    unsafe {
        let written = Queried::Complete(request, done).write(status);
        if let Some(status) = status.as_mut() {
            let error = written.as_ref().err().map(MpiError::class);
            let error = error.or_else(|| error_of(&done).map(|error| error.class()));
            status.error = error.unwrap_or(abi::MPI_SUCCESS);
        }
        written
    }
}

/// The first error. All results are consumed, so that all statuses are written.
fn first(results: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut result = Ok(());
    for error in results {
        result = result.and(error);
    }
    result
}

fn raw(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| *request as u64).collect()
}

pub(crate) fn request_get_status(
    library: &Running,
    request: Request,
) -> Result<(bool, Option<Queried>)> {
    let done = library.process.peek_raw(request as u64)?;
    Ok((done.is_some(), done.map(|done| Queried::Complete(request, done))))
}

pub(crate) fn request_get_status_any(
    library: &Running,
    requests: &[Request],
) -> Result<(c_int, bool, Option<Queried>)> {
    Ok(match library.process.peek_any(&raw(requests))? {
        None => (abi::MPI_UNDEFINED, true, Some(Queried::Empty)),
        Some(None) => (abi::MPI_UNDEFINED, false, None),
        Some(Some((at, done))) => (at as c_int, true, Some(Queried::Complete(requests[at], done))),
    })
}

pub(crate) fn request_get_status_all(
    library: &Running,
    requests: &[Request],
    statuses: Places<Status>,
) -> Result<bool> {
    let Some(done) = library.process.peek_all(&raw(requests))? else { return Ok(false) };
    let written = done.iter().zip(requests).enumerate();
    first(
        written.map(|(at, (done, request))| write_status_of_many(*request, statuses.at(at), *done)),
    )?;
    Ok(true)
}

pub(crate) fn request_get_status_some(
    library: &Running,
    requests: &[Request],
    indices: Places<c_int>,
    statuses: Places<Status>,
) -> Result<c_int> {
    let Some(done) = library.process.peek_some(&raw(requests))? else {
        return Ok(abi::MPI_UNDEFINED);
    };
    indices.put(done.iter().map(|(at, _)| *at as c_int));
    first(
        done.iter()
            .enumerate()
            .map(|(n, (at, done))| write_status_of_many(requests[*at], statuses.at(n), *done)),
    )?;
    Ok(done.len() as c_int)
}
