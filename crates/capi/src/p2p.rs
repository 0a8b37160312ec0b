//! Point-to-point communication (MPI-5.0 chapter 3).
//!
//! The plain forms count in `int`, the `_c` forms in `MPI_Count`; both are one line over the same function. A short blocking send
//! of contiguous bytes tries the low-latency path first; whatever that does not take, wrong arguments included,
//! goes the full way.

use crate::errors::{on_comm, on_none};
use crate::library::{Running, check_count, null, put};
use crate::statuses::put_status;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Count, Datatype, Request, Status};
use oxmpi_core::Communicator;
use oxmpi_core::completion::error_of;
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_os::bytes::{Bytes, BytesMut};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// What every send is given.
#[derive(Clone, Copy)]
struct Sending {
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    tag: c_int,
}

/// What every receive is given.
#[derive(Clone, Copy)]
struct Receiving {
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
}

/// The length of a buffer of a predefined datatype without gaps; `None` for all others, and for arguments that are wrong.
#[inline(always)]
fn plain_bytes(library: &Running, buf: *const c_void, count: i64, datatype: Datatype) -> Option<usize> {
    let datatype = library.predefined.get(datatype as u64)?;
    let count = usize::try_from(count).ok()?;
    if (buf.is_null() && count > 0) || buf as usize == abi::MPI_IN_PLACE || !datatype.layout().is_contiguous()
    {
        return None;
    }
    count.checked_mul(datatype.size())
}

/// Sends on the low-latency path if that takes it. Synchronous and buffered sends have more to do.
#[inline(always)]
fn sent_now(library: &Running, comm: &Communicator, mode: Mode, s: Sending) -> bool {
    matches!(mode, Mode::Standard | Mode::Ready)
        && plain_bytes(library, s.buf, s.count, s.datatype).is_some_and(|len| {
            // SAFETY: the program names this memory and leaves it alone during the call.
            let bytes = unsafe { Bytes::from_raw(s.buf.cast(), len) };
            library.process.send_now(comm, bytes, s.dest, s.tag)
        })
}

/// A blocking send.
#[inline(always)]
fn send(function: FuncId, mode: Mode, s: Sending, comm: Comm) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if sent_now(library, communicator, mode, s) {
            return Ok(());
        }
        send_fully(library, communicator, mode, s)
    })
}

#[inline(never)]
fn send_fully(library: &Running, comm: &Communicator, mode: Mode, s: Sending) -> Result<()> {
    let buffer = library.buffer(s.buf, s.count, s.datatype)?;
    library.process.send(comm, mode, buffer, s.dest, s.tag)
}

#[inline(always)]
fn isend(function: FuncId, mode: Mode, s: Sending, comm: Comm, request: *mut Request) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if request.is_null() {
            return Err(null("request"));
        }
        if sent_now(library, communicator, mode, s) {
            // Complete already, so it needs no request of its own.
            return give(request, RequestId::COMPLETE);
        }
        let buffer = library.buffer(s.buf, s.count, s.datatype)?;
        give(request, library.process.isend(communicator, mode, buffer, s.dest, s.tag)?)
    })
}

#[inline(always)]
fn recv(function: FuncId, r: Receiving, comm: Comm, status: *mut Status) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if let Some(len) = plain_bytes(library, r.buf, r.count, r.datatype) {
            // SAFETY: the program names this memory and leaves it alone during the call.
            let into = unsafe { BytesMut::from_raw(r.buf.cast(), len) };
            if let Some(completion) = library.process.recv_now(communicator, into, r.source, r.tag) {
                // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
                unsafe { put_status(status, &completion) };
                return Ok(());
            }
        }
        let buffer = library.buffer(r.buf, r.count, r.datatype)?;
        received(status, library.process.recv_whatever(communicator, buffer, r.source, r.tag)?)
    })
}

/// Tells of a received message, also of one that failed: its status says where it came from.
fn received(status: *mut Status, completion: Completion) -> Result<()> {
    // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
    unsafe { put_status(status, &completion) };
    error_of(&completion).map_or(Ok(()), Err)
}

fn irecv(function: FuncId, r: Receiving, comm: Comm, request: *mut Request) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if request.is_null() {
            return Err(null("request"));
        }
        let buffer = library.buffer(r.buf, r.count, r.datatype)?;
        give(request, library.process.irecv(communicator, buffer, r.source, r.tag)?)
    })
}

fn give(place: *mut Request, request: RequestId) -> Result<()> {
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, request.raw() as Request, "request") }
}

fn sendrecv(function: FuncId, s: Sending, r: Receiving, comm: Comm, status: *mut Status) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let send = library.buffer(s.buf, s.count, s.datatype)?;
        let receive = library.buffer(r.buf, r.count, r.datatype)?;
        let completion =
            library.process.sendrecv(communicator, send, s.dest, s.tag, receive, r.source, r.tag)?;
        received(status, completion)
    })
}

/// One buffer for both: what is sent is packed away first.
fn sendrecv_replace(function: FuncId, s: Sending, r: Receiving, comm: Comm, status: *mut Status) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let buffer = library.buffer(r.buf, r.count, r.datatype)?;
        let no_memory = |e| MpiError::new(abi::MPI_ERR_NO_MEM, format!("sendrecv_replace: {e}"));
        let copy = Scratch::bytes(buffer.packed_len()).map_err(no_memory)?.buf().clone();
        copy.copy_from(0, &buffer, 0, buffer.packed_len());
        let completion =
            library.process.sendrecv(communicator, copy, s.dest, s.tag, buffer, r.source, r.tag)?;
        received(status, completion)
    })
}

fn give_probed(flag: *mut c_int, status: *mut Status, found: Option<Completion>) -> Result<()> {
    if let Some(completion) = &found {
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_status(status, completion) };
    }
    // SAFETY: the C program passes a place for an integer.
    unsafe { put(flag, c_int::from(found.is_some()), "flag") }
}

fn attach(library: &Running, buffer: *mut c_void, size: i64) -> Result<()> {
    // With MPI_BUFFER_AUTOMATIC the library finds the space, which it does in any case.
    let automatic = buffer as usize == abi::MPI_BUFFER_AUTOMATIC;
    let size = if automatic { usize::MAX } else { check_count(size)? };
    library.process.attach(size)?;
    library.attached.store(buffer as usize, Ordering::Relaxed);
    Ok(())
}

/// Waits for the buffered messages; then the program has its buffer again. Returns its address and size.
fn detach(library: &Running) -> Result<(usize, usize)> {
    let size = library.process.detach()?;
    Ok((library.attached.swap(0, Ordering::Relaxed), size))
}

mpi! {
    /// MPI-5.0 section 3.2.1.
    fn MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Send, Mode::Standard, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Isend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Isend, Mode::Standard, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.4.
    fn MPI_Bsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Bsend, Mode::Buffered, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Ibsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Ibsend, Mode::Buffered, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.4.
    fn MPI_Ssend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Ssend, Mode::Synchronous, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Issend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Issend, Mode::Synchronous, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.4.
    fn MPI_Rsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Rsend, Mode::Ready, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Irsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Irsend, Mode::Ready, Sending { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.2.4.
    fn MPI_Recv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, status: *mut Status) -> c_int {
        recv(FuncId::MPI_Recv, Receiving { buf, count: i64::from(count), datatype, source, tag }, comm, status)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Irecv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        irecv(FuncId::MPI_Irecv, Receiving { buf, count: i64::from(count), datatype, source, tag }, comm, request)
    }

    /// MPI-5.0 section 3.11.
    fn MPI_Sendrecv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let s = Sending { buf: sendbuf, count: i64::from(sendcount), datatype: sendtype, dest, tag: sendtag };
        let r = Receiving { buf: recvbuf, count: i64::from(recvcount), datatype: recvtype, source, tag: recvtag };
        sendrecv(FuncId::MPI_Sendrecv, s, r, comm, status)
    }

    /// MPI-5.0 section 3.11.
    fn MPI_Sendrecv_replace(buf: *mut c_void, count: c_int, datatype: Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let count = i64::from(count);
        let s = Sending { buf, count, datatype, dest, tag: sendtag };
        let r = Receiving { buf, count, datatype, source, tag: recvtag };
        sendrecv_replace(FuncId::MPI_Sendrecv_replace, s, r, comm, status)
    }

    /// MPI-5.0 section 3.6.
    fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) -> c_int {
        on_none(FuncId::MPI_Buffer_attach, |library| attach(library, buffer, i64::from(size)))
    }

    /// MPI-5.0 section 3.6. `buffer_addr` is the address of a pointer.
    fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Buffer_detach, |library| {
            if buffer_addr.is_null() || size.is_null() {
                return Err(null("buffer_addr or size"));
            }
            let (address, bytes) = detach(library)?;
            // SAFETY: the C program passes the address of a pointer and a place for a number.
            unsafe {
                put(buffer_addr.cast::<*mut c_void>(), address as *mut c_void, "buffer_addr")?;
                put(size, c_int::try_from(bytes).unwrap_or(c_int::MAX), "size")
            }
        })
    }

    /// MPI-5.0 section 3.2.1.
    fn MPI_Send_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Send_c, Mode::Standard, Sending { buf, count, datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Isend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Isend_c, Mode::Standard, Sending { buf, count, datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.4.
    fn MPI_Bsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Bsend_c, Mode::Buffered, Sending { buf, count, datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Ibsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Ibsend_c, Mode::Buffered, Sending { buf, count, datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.4.
    fn MPI_Ssend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Ssend_c, Mode::Synchronous, Sending { buf, count, datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Issend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Issend_c, Mode::Synchronous, Sending { buf, count, datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.4.
    fn MPI_Rsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Rsend_c, Mode::Ready, Sending { buf, count, datatype, dest, tag }, comm)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Irsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Irsend_c, Mode::Ready, Sending { buf, count, datatype, dest, tag }, comm, request)
    }

    /// MPI-5.0 section 3.2.4.
    fn MPI_Recv_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, status: *mut Status) -> c_int {
        recv(FuncId::MPI_Recv_c, Receiving { buf, count, datatype, source, tag }, comm, status)
    }

    /// MPI-5.0 section 3.7.2.
    fn MPI_Irecv_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        irecv(FuncId::MPI_Irecv_c, Receiving { buf, count, datatype, source, tag }, comm, request)
    }

    /// MPI-5.0 section 3.11.
    fn MPI_Sendrecv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let s = Sending { buf: sendbuf, count: sendcount, datatype: sendtype, dest, tag: sendtag };
        let r = Receiving { buf: recvbuf, count: recvcount, datatype: recvtype, source, tag: recvtag };
        sendrecv(FuncId::MPI_Sendrecv_c, s, r, comm, status)
    }

    /// MPI-5.0 section 3.11.
    fn MPI_Sendrecv_replace_c(buf: *mut c_void, count: Count, datatype: Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let s = Sending { buf, count, datatype, dest, tag: sendtag };
        let r = Receiving { buf, count, datatype, source, tag: recvtag };
        sendrecv_replace(FuncId::MPI_Sendrecv_replace_c, s, r, comm, status)
    }

    /// MPI-5.0 section 3.6.
    fn MPI_Buffer_attach_c(buffer: *mut c_void, size: Count) -> c_int {
        on_none(FuncId::MPI_Buffer_attach_c, |library| attach(library, buffer, size))
    }

    /// MPI-5.0 section 3.6. `buffer_addr` is the address of a pointer.
    fn MPI_Buffer_detach_c(buffer_addr: *mut c_void, size: *mut Count) -> c_int {
        on_none(FuncId::MPI_Buffer_detach_c, |library| {
            if buffer_addr.is_null() || size.is_null() {
                return Err(null("buffer_addr or size"));
            }
            let (address, bytes) = detach(library)?;
            // SAFETY: the C program passes the address of a pointer and a place for a number.
            unsafe {
                put(buffer_addr.cast::<*mut c_void>(), address as *mut c_void, "buffer_addr")?;
                put(size, bytes as Count, "size")
            }
        })
    }

    /// MPI-5.0 section 3.8.1.
    fn MPI_Probe(source: c_int, tag: c_int, comm: Comm, status: *mut Status) -> c_int {
        on_comm(FuncId::MPI_Probe, comm, |library, communicator| {
            let completion = library.process.probe(communicator, source, tag)?;
            // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
            unsafe { put_status(status, &completion) };
            Ok(())
        })
    }

    /// MPI-5.0 section 3.8.1.
    fn MPI_Iprobe(source: c_int, tag: c_int, comm: Comm, flag: *mut c_int, status: *mut Status) -> c_int {
        on_comm(FuncId::MPI_Iprobe, comm, |library, communicator| {
            give_probed(flag, status, library.process.iprobe(communicator, source, tag)?)
        })
    }

}
