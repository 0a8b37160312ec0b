//! Queries of requests that stay (MPI-5.0 section 3.7.6).
//!
//! The call that later completes the request reports the same result, and only that call raises the
//! error of a failed operation. A query only writes it to the status. An error of a generalized
//! request's query function is an error of the query itself.

use crate::grequests;
use crate::library::{null, put};
use crate::requests::{self, handles, on_requests, status_at};
use crate::statuses::{put_empty, put_status};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Request, Status};
use oxmpi_engine::Completion;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

/// Writes the status of a complete request that stays.
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
unsafe fn write_status(request: Request, status: *mut Status, done: &Completion) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        if done.generalized {
            return grequests::query(request, status);
        }
        put_status(status, done);
    }
    Ok(())
}

/// Writes one status of an array, with MPI_ERROR.
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
unsafe fn write_status_of_many(
    request: Request,
    status: *mut Status,
    done: &Completion,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        let written = write_status(request, status, done);
        if !status.is_null() {
            let error = written.as_ref().err().map(MpiError::class);
            let error = error.or_else(|| requests::error_of(done).map(|error| error.class()));
            (*status).error = error.unwrap_or(abi::MPI_SUCCESS);
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

mpi! {
    /// Test of this module: tests/c/request_get_status.c.
    fn MPI_Request_get_status(request: Request, flag: *mut c_int, status: *mut Status) -> c_int {
        on_requests(FuncId::MPI_Request_get_status, |library, _| {
            if flag.is_null() {
                return Err(null("flag"));
            }
            let done = library.process.peek_raw(request as u64)?;
            // SAFETY: the C program passes an integer, and a status or MPI_STATUS_IGNORE.
            unsafe {
                put(flag, c_int::from(done.is_some()), "flag")?;
                done.map_or(Ok(()), |done| write_status(request, status, &done))
            }
        })
    }

    fn MPI_Request_get_status_any(
        count: c_int,
        requests: *const Request,
        index: *mut c_int,
        flag: *mut c_int,
        status: *mut Status,
    ) -> c_int {
        on_requests(FuncId::MPI_Request_get_status_any, |library, _| {
            if index.is_null() || flag.is_null() {
                return Err(null("index or flag"));
            }
            // SAFETY: the C program passes `count` handles, two integers, and a status or
            // MPI_STATUS_IGNORE.
            unsafe {
                let all = handles(count, requests)?;
                let (at, done) = match library.process.peek_any(&all)? {
                    None => {
                        put(index, abi::MPI_UNDEFINED, "index")?;
                        put(flag, 1, "flag")?;
                        put_empty(status);
                        return Ok(());
                    }
                    Some(None) => (abi::MPI_UNDEFINED, None),
                    Some(Some((at, done))) => (at as c_int, Some((all[at] as Request, done))),
                };
                put(index, at, "index")?;
                put(flag, c_int::from(done.is_some()), "flag")?;
                done.map_or(Ok(()), |(request, done)| write_status(request, status, &done))
            }
        })
    }

    fn MPI_Request_get_status_all(
        count: c_int,
        requests: *const Request,
        flag: *mut c_int,
        statuses: *mut Status,
    ) -> c_int {
        on_requests(FuncId::MPI_Request_get_status_all, |library, _| {
            if flag.is_null() {
                return Err(null("flag"));
            }
            // SAFETY: the C program passes `count` handles, an integer, and `count` statuses or
            // MPI_STATUSES_IGNORE.
            unsafe {
                let all = handles(count, requests)?;
                let done = library.process.peek_all(&all)?;
                put(flag, c_int::from(done.is_some()), "flag")?;
                let done = done.unwrap_or_default();
                first(done.iter().zip(&all).enumerate().map(|(at, (done, request))| {
                    write_status_of_many(*request as Request, status_at(statuses, at), done)
                }))
            }
        })
    }

    fn MPI_Request_get_status_some(
        incount: c_int,
        requests: *const Request,
        outcount: *mut c_int,
        indices: *mut c_int,
        statuses: *mut Status,
    ) -> c_int {
        on_requests(FuncId::MPI_Request_get_status_some, |library, _| {
            if outcount.is_null() || (indices.is_null() && incount > 0) {
                return Err(null("outcount or array_of_indices"));
            }
            // SAFETY: the C program passes `incount` handles, room for results, and an integer.
            unsafe {
                let all = handles(incount, requests)?;
                let Some(done) = library.process.peek_some(&all)? else {
                    return put(outcount, abi::MPI_UNDEFINED, "outcount");
                };
                put(outcount, done.len() as c_int, "outcount")?;
                first(done.iter().enumerate().map(|(n, (at, done))| {
                    indices.add(n).write(*at as c_int);
                    write_status_of_many(all[*at] as Request, status_at(statuses, n), done)
                }))
            }
        })
    }
}
