//! Buffers for buffered sends (MPI-5.0 section 3.6).
//!
//! The process, each session and each communicator may have a buffer.

use crate::errors::{on_comm, on_none};
use crate::library::{Running, check_count, null, put};
use crate::sessions::on_session;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Count, Request, Session};
use oxmpi_core::buffered::{Attached, BufferOf};
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};

fn attach(library: &Running, of: BufferOf<'_>, buffer: *mut c_void, size: i64) -> Result<()> {
    // The library provides space for every buffer, so MPI_BUFFER_AUTOMATIC has no limit.
    let automatic = buffer as usize == abi::MPI_BUFFER_AUTOMATIC;
    let bytes = if automatic { usize::MAX } else { check_count(size)? };
    library.process.attach(of, Attached { address: buffer as usize, bytes })
}

/// Waits for the buffered messages, and returns the buffer.
/// # Safety
/// `buffer_addr` must be null or the address of a pointer, `size` null or a place for a number.
unsafe fn detach<T>(
    library: &Running,
    of: BufferOf<'_>,
    buffer_addr: *mut c_void,
    size: *mut T,
    number: impl FnOnce(usize) -> T,
) -> Result<()> {
    if buffer_addr.is_null() || size.is_null() {
        return Err(null("buffer_addr or size"));
    }
    let Attached { address, bytes } = library.process.detach(of)?;
    // SAFETY: by the contract of this function.
    unsafe {
        put(buffer_addr.cast::<*mut c_void>(), address as *mut c_void, "buffer_addr")?;
        put(size, number(bytes), "size")
    }
}

fn int(bytes: usize) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

fn count(bytes: usize) -> Count {
    Count::try_from(bytes).unwrap_or(Count::MAX)
}

fn iflush(library: &Running, of: BufferOf<'_>, request: *mut Request) -> Result<()> {
    if request.is_null() {
        return Err(null("request"));
    }
    let flush = library.process.iflush(of)?;
    // SAFETY: not null; the C program passes a place for a handle.
    unsafe { put(request, flush.raw() as Request, "request") }
}

mpi! {
    fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) -> c_int {
        on_none(FuncId::MPI_Buffer_attach, |library| attach(library, BufferOf::Process, buffer, i64::from(size)))
    }

    fn MPI_Buffer_attach_c(buffer: *mut c_void, size: Count) -> c_int {
        on_none(FuncId::MPI_Buffer_attach_c, |library| attach(library, BufferOf::Process, buffer, size))
    }

    fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut c_int) -> c_int {
        // SAFETY: the C program passes the address of a pointer and a place for a number.
        on_none(FuncId::MPI_Buffer_detach, |library| unsafe { detach(library, BufferOf::Process, buffer_addr, size, int) })
    }

    fn MPI_Buffer_detach_c(buffer_addr: *mut c_void, size: *mut Count) -> c_int {
        // SAFETY: the C program passes the address of a pointer and a place for a number.
        on_none(FuncId::MPI_Buffer_detach_c, |library| unsafe { detach(library, BufferOf::Process, buffer_addr, size, count) })
    }

    fn MPI_Buffer_flush() -> c_int {
        on_none(FuncId::MPI_Buffer_flush, |library| library.process.flush(BufferOf::Process))
    }

    fn MPI_Buffer_iflush(request: *mut Request) -> c_int {
        on_none(FuncId::MPI_Buffer_iflush, |library| iflush(library, BufferOf::Process, request))
    }

    fn MPI_Comm_attach_buffer(comm: Comm, buffer: *mut c_void, size: c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_attach_buffer, comm, |library, comm| attach(library, BufferOf::Communicator(comm), buffer, i64::from(size)))
    }

    fn MPI_Comm_attach_buffer_c(comm: Comm, buffer: *mut c_void, size: Count) -> c_int {
        on_comm(FuncId::MPI_Comm_attach_buffer_c, comm, |library, comm| attach(library, BufferOf::Communicator(comm), buffer, size))
    }

    fn MPI_Comm_detach_buffer(comm: Comm, buffer_addr: *mut c_void, size: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_detach_buffer, comm, |library, comm| {
            // SAFETY: the C program passes the address of a pointer and a place for a number.
            unsafe { detach(library, BufferOf::Communicator(comm), buffer_addr, size, int) }
        })
    }

    fn MPI_Comm_detach_buffer_c(comm: Comm, buffer_addr: *mut c_void, size: *mut Count) -> c_int {
        on_comm(FuncId::MPI_Comm_detach_buffer_c, comm, |library, comm| {
            // SAFETY: the C program passes the address of a pointer and a place for a number.
            unsafe { detach(library, BufferOf::Communicator(comm), buffer_addr, size, count) }
        })
    }

    fn MPI_Comm_flush_buffer(comm: Comm) -> c_int {
        on_comm(FuncId::MPI_Comm_flush_buffer, comm, |library, comm| library.process.flush(BufferOf::Communicator(comm)))
    }

    fn MPI_Comm_iflush_buffer(comm: Comm, request: *mut Request) -> c_int {
        on_comm(FuncId::MPI_Comm_iflush_buffer, comm, |library, comm| iflush(library, BufferOf::Communicator(comm), request))
    }

    /// Test for sessions: tests/c/session_buffers.c.
    fn MPI_Session_attach_buffer(session: Session, buffer: *mut c_void, size: c_int) -> c_int {
        on_session(FuncId::MPI_Session_attach_buffer, session, |library, session| {
            attach(library, BufferOf::Session(session.origin), buffer, i64::from(size))
        })
    }

    fn MPI_Session_attach_buffer_c(session: Session, buffer: *mut c_void, size: Count) -> c_int {
        on_session(FuncId::MPI_Session_attach_buffer_c, session, |library, session| {
            attach(library, BufferOf::Session(session.origin), buffer, size)
        })
    }

    fn MPI_Session_detach_buffer(session: Session, buffer_addr: *mut c_void, size: *mut c_int) -> c_int {
        on_session(FuncId::MPI_Session_detach_buffer, session, |library, session| {
            // SAFETY: the C program passes the address of a pointer and a place for a number.
            unsafe { detach(library, BufferOf::Session(session.origin), buffer_addr, size, int) }
        })
    }

    fn MPI_Session_detach_buffer_c(session: Session, buffer_addr: *mut c_void, size: *mut Count) -> c_int {
        on_session(FuncId::MPI_Session_detach_buffer_c, session, |library, session| {
            // SAFETY: the C program passes the address of a pointer and a place for a number.
            unsafe { detach(library, BufferOf::Session(session.origin), buffer_addr, size, count) }
        })
    }

    fn MPI_Session_flush_buffer(session: Session) -> c_int {
        on_session(FuncId::MPI_Session_flush_buffer, session, |library, session| {
            library.process.flush(BufferOf::Session(session.origin))
        })
    }

    fn MPI_Session_iflush_buffer(session: Session, request: *mut Request) -> c_int {
        on_session(FuncId::MPI_Session_iflush_buffer, session, |library, session| {
            iflush(library, BufferOf::Session(session.origin), request)
        })
    }
}
