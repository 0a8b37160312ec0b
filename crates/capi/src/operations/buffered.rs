//! Buffers for buffered sends (MPI-5.0 section 3.6).
//!
//! The process, each session and each communicator may have a buffer. Test for sessions:
//! tests/c/session_buffers.c.

use crate::arguments::length;
use crate::state::library::Running;
use crate::state::named::CommArgument;
use crate::state::sessions::Session;
use oxmpi_abi::constants as abi;
use oxmpi_core::buffered::{Attached, BufferOf};
use oxmpi_engine::RequestId;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_void;

fn attach(library: &Running, of: BufferOf<'_>, buffer: *mut c_void, size: i64) -> Result<()> {
    // The library provides space for every buffer, so MPI_BUFFER_AUTOMATIC has no limit.
    let automatic = buffer as usize == abi::MPI_BUFFER_AUTOMATIC;
    let bytes = if automatic { usize::MAX } else { length(size, "size", abi::MPI_ERR_COUNT)? };
    if buffer.is_null() && bytes > 0 {
        return Err(MpiError::new(abi::MPI_ERR_BUFFER, "buffer is a null pointer"));
    }
    library.process.attach(of, Attached { address: buffer as usize, bytes })
}

/// Waits for the buffered messages, and returns the buffer and its size.
fn detach(library: &Running, of: BufferOf<'_>) -> Result<(*mut c_void, i64)> {
    let Attached { address, bytes } = library.process.detach(of)?;
    Ok((address as *mut c_void, i64::try_from(bytes).unwrap_or(i64::MAX)))
}

pub(crate) fn buffer_attach(library: &Running, buffer: *mut c_void, size: i64) -> Result<()> {
    attach(library, BufferOf::Process, buffer, size)
}

pub(crate) fn buffer_detach(library: &Running) -> Result<(*mut c_void, i64)> {
    detach(library, BufferOf::Process)
}

pub(crate) fn buffer_flush(library: &Running) -> Result<()> {
    library.process.flush(BufferOf::Process)
}

pub(crate) fn buffer_iflush(library: &Running) -> Result<RequestId> {
    library.process.iflush(BufferOf::Process)
}

pub(crate) fn comm_attach_buffer(
    library: &Running,
    comm: &CommArgument,
    buffer: *mut c_void,
    size: i64,
) -> Result<()> {
    attach(library, BufferOf::Communicator(comm), buffer, size)
}

pub(crate) fn comm_detach_buffer(
    library: &Running,
    comm: &CommArgument,
) -> Result<(*mut c_void, i64)> {
    detach(library, BufferOf::Communicator(comm))
}

pub(crate) fn comm_flush_buffer(library: &Running, comm: &CommArgument) -> Result<()> {
    library.process.flush(BufferOf::Communicator(comm))
}

pub(crate) fn comm_iflush_buffer(library: &Running, comm: &CommArgument) -> Result<RequestId> {
    library.process.iflush(BufferOf::Communicator(comm))
}

pub(crate) fn session_attach_buffer(
    library: &Running,
    session: &Session,
    buffer: *mut c_void,
    size: i64,
) -> Result<()> {
    attach(library, BufferOf::Session(session.origin), buffer, size)
}

pub(crate) fn session_detach_buffer(
    library: &Running,
    session: &Session,
) -> Result<(*mut c_void, i64)> {
    detach(library, BufferOf::Session(session.origin))
}

pub(crate) fn session_flush_buffer(library: &Running, session: &Session) -> Result<()> {
    library.process.flush(BufferOf::Session(session.origin))
}

pub(crate) fn session_iflush_buffer(library: &Running, session: &Session) -> Result<RequestId> {
    library.process.iflush(BufferOf::Session(session.origin))
}
