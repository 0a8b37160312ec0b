//! Matched probes and receives (MPI-5.0 sections 3.8.2 and 3.8.3).

use crate::errors::{on_comm, outcome};
use crate::library::{Running, fetch, library, null, put};
use crate::on::On;
use crate::p2p::received;
use crate::statuses::put_status;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Count, Datatype, Message, Request, Status};
use oxmpi_core::matched::MatchedMessage;
use oxmpi_engine::Completion;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};

fn give(
    message: *mut Message,
    status: *mut Status,
    (found, completion): MatchedMessage,
) -> Result<()> {
    // SAFETY: the C program passes a place for a handle, and a status or MPI_STATUS_IGNORE.
    unsafe {
        put_status(status, &completion);
        put(message, found as Message, "message")
    }
}

struct MatchedReceiveArgs {
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
}

/// The message and the memory of a call. After an error the message can still be received.
fn named(
    library: &Running,
    room: MatchedReceiveArgs,
    message: *mut Message,
) -> Result<(u64, UserBuf)> {
    // SAFETY: the C program passes a place with a handle.
    let handle = unsafe { fetch(message, "message") }?;
    Ok((handle as u64, library.buffer(room.buf, room.count, room.datatype)?))
}

fn taken(message: *mut Message) -> Result<()> {
    // SAFETY: the C program passes a place with a handle.
    unsafe { put(message, abi::MPI_MESSAGE_NULL, "message") }
}

/// The context of a message's communicator, on which errors are raised.
fn communicator_of(message: *mut Message) -> Option<u32> {
    // SAFETY: the C program passes a place with a handle.
    let handle = unsafe { fetch(message, "message") }.ok()?;
    library().ok()?.process.context_of(handle as u64)
}

fn raised_on(context: Option<u32>, result: &Result<()>) -> Option<On> {
    let error = result.as_ref().err()?;
    Some(On::Failed(Completion { context: context?, ..Completion::EMPTY }, error.class()))
}

fn mrecv(
    function: FuncId,
    room: MatchedReceiveArgs,
    message: *mut Message,
    status: *mut Status,
) -> c_int {
    let context = communicator_of(message);
    let result = library().and_then(|library| {
        let (handle, buffer) = named(library, room, message)?;
        let completion = library.process.mrecv(handle, buffer)?;
        taken(message)?;
        received(status, completion)
    });
    outcome(function, raised_on(context, &result), result)
}

fn imrecv(
    function: FuncId,
    room: MatchedReceiveArgs,
    message: *mut Message,
    request: *mut Request,
) -> c_int {
    let context = communicator_of(message);
    let result = library().and_then(|library| {
        if request.is_null() {
            return Err(null("request"));
        }
        let (handle, buffer) = named(library, room, message)?;
        let started = library.process.imrecv(handle, buffer)?;
        taken(message)?;
        // SAFETY: the C program passes a place for a handle.
        unsafe { put(request, started.raw() as Request, "request") }
    });
    outcome(function, raised_on(context, &result), result)
}

mpi! {
    fn MPI_Mprobe(source: c_int, tag: c_int, comm: Comm, message: *mut Message, status: *mut Status) -> c_int {
        on_comm(FuncId::MPI_Mprobe, comm, |library, communicator| {
            if message.is_null() {
                return Err(null("message"));
            }
            give(message, status, library.process.mprobe(communicator, source, tag)?)
        })
    }

    fn MPI_Improbe(source: c_int, tag: c_int, comm: Comm, flag: *mut c_int, message: *mut Message, status: *mut Status) -> c_int {
        on_comm(FuncId::MPI_Improbe, comm, |library, communicator| {
            if message.is_null() || flag.is_null() {
                return Err(null("flag or message"));
            }
            let found = library.process.improbe(communicator, source, tag)?;
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(flag, c_int::from(found.is_some()), "flag") }?;
            match found {
                Some(found) => give(message, status, found),
                None => Ok(()),
            }
        })
    }

    fn MPI_Mrecv(buf: *mut c_void, count: c_int, datatype: Datatype, message: *mut Message, status: *mut Status) -> c_int {
        mrecv(FuncId::MPI_Mrecv, MatchedReceiveArgs { buf, count: i64::from(count), datatype }, message, status)
    }

    fn MPI_Mrecv_c(buf: *mut c_void, count: Count, datatype: Datatype, message: *mut Message, status: *mut Status) -> c_int {
        mrecv(FuncId::MPI_Mrecv_c, MatchedReceiveArgs { buf, count, datatype }, message, status)
    }

    fn MPI_Imrecv(buf: *mut c_void, count: c_int, datatype: Datatype, message: *mut Message, request: *mut Request) -> c_int {
        imrecv(FuncId::MPI_Imrecv, MatchedReceiveArgs { buf, count: i64::from(count), datatype }, message, request)
    }

    fn MPI_Imrecv_c(buf: *mut c_void, count: Count, datatype: Datatype, message: *mut Message, request: *mut Request) -> c_int {
        imrecv(FuncId::MPI_Imrecv_c, MatchedReceiveArgs { buf, count, datatype }, message, request)
    }
}
