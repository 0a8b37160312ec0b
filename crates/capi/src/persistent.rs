//! Persistent requests (MPI-5.0 section 3.9).

use crate::errors::on_comm;
use crate::library::{Running, array, check_count, fetch, null, put};
use crate::on::On;
use crate::requests::on_requests;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Count, Datatype, Request};
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{c_int, c_void};

struct PersistentSendArgs {
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    tag: c_int,
}

pub(crate) fn give(place: *mut Request, request: RequestId) -> Result<()> {
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, request.raw() as Request, "request") }
}

fn send_init(
    function: FuncId,
    mode: Mode,
    s: PersistentSendArgs,
    comm: Comm,
    request: *mut Request,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if request.is_null() {
            return Err(null("request"));
        }
        let buffer = library.buffer(s.buf, s.count, s.datatype)?;
        give(request, library.process.send_init(communicator, mode, buffer, s.dest, s.tag)?)
    })
}

struct PersistentReceiveArgs {
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
}

fn recv_init(
    function: FuncId,
    r: PersistentReceiveArgs,
    comm: Comm,
    request: *mut Request,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if request.is_null() {
            return Err(null("request"));
        }
        let buffer = library.buffer(r.buf, r.count, r.datatype)?;
        let buffer = buffer.writes_behind();
        give(request, library.process.recv_init(communicator, buffer, r.source, r.tag)?)
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

    fn MPI_Send_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Send_init, Mode::Standard, PersistentSendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Bsend_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Bsend_init, Mode::Buffered, PersistentSendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Ssend_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Ssend_init, Mode::Synchronous, PersistentSendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Rsend_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Rsend_init, Mode::Ready, PersistentSendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Recv_init(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        recv_init(FuncId::MPI_Recv_init, PersistentReceiveArgs { buf, count: i64::from(count), datatype, source, tag }, comm, request)
    }

    fn MPI_Send_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Send_init_c, Mode::Standard, PersistentSendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Bsend_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Bsend_init_c, Mode::Buffered, PersistentSendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Ssend_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Ssend_init_c, Mode::Synchronous, PersistentSendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Rsend_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        send_init(FuncId::MPI_Rsend_init_c, Mode::Ready, PersistentSendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Recv_init_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        recv_init(FuncId::MPI_Recv_init_c, PersistentReceiveArgs { buf, count, datatype, source, tag }, comm, request)
    }
}
