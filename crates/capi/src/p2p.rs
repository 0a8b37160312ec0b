//! Point-to-point communication (MPI-5.0 chapter 3).
//!
//! The plain forms count in `int`, the `_c` forms in `MPI_Count`. A short blocking send of
//! contiguous bytes first tries the low-latency path. All other calls, wrong calls included, take
//! the full path.

use crate::errors::{on_comm, outcome};
use crate::library::{Running, at_hand, null, put};
use crate::on::On;
use crate::requests;
use crate::statuses::{put_received, put_status};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Count, Datatype, Request, Status};
use oxmpi_core::Communicator;
use oxmpi_core::p2p::{SendrecvReceive, SendrecvSend};
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::plain_size;
use oxmpi_shm::ring::INLINE_MAX;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ffi::{c_int, c_void};

#[derive(Clone, Copy)]
struct SendArgs {
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    tag: c_int,
}

#[derive(Clone, Copy)]
struct ReceiveArgs {
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
}

/// The contiguous memory of a predefined datatype without gaps; `None` for other datatypes and for
/// wrong arguments.
#[inline(always)]
pub(crate) fn plain(buf: *const c_void, count: i64, datatype: Datatype) -> Option<PlainBuf> {
    let size = plain_size(datatype as u64)?;
    let count = usize::try_from(count).ok()?;
    // A null pointer is valid for 0 elements.
    if buf as usize <= abi::MPI_IN_PLACE && (count > 0 || !buf.is_null()) || count > MOST_ELEMENTS {
        return None;
    }
    // SAFETY: the program does not access its memory until the operation is complete, as the
    // standard requires (MPI-5.0 sections 3.2.1 and 3.7.2).
    Some(unsafe { PlainBuf::new(buf.cast_mut().cast(), count * size) })
}

// So one comparison covers null and MPI_IN_PLACE.
const _: () = assert!(abi::MPI_IN_PLACE == 1);

/// This number of elements of any predefined datatype fits in the address space.
const MOST_ELEMENTS: usize = isize::MAX as usize / 32;

/// Whether a message may take the low-latency path. A buffered send of a few bytes needs no buffer
/// there. A longer buffered send must fail if its buffer has no room.
#[inline(always)]
fn may_leave_at_once(mode: Mode, len: usize) -> bool {
    match mode {
        Mode::Standard | Mode::Ready => true,
        Mode::Buffered => len <= INLINE_MAX,
        Mode::Synchronous => false,
    }
}

/// Sends on the low-latency path, if possible. With `MAY_WAIT` the call may wait until the message
/// has left.
#[inline(always)]
fn sent_now<const MAY_WAIT: bool>(mode: Mode, s: SendArgs, comm: Comm) -> bool {
    // The compiler does not inline closures here.
    if mode != Mode::Synchronous
        && let Some((library, context)) = at_hand(comm)
        && let Some(buf) = plain(s.buf, s.count, s.datatype)
        && may_leave_at_once(mode, buf.len())
    {
        return library.process.try_send::<MAY_WAIT>(context, buf.bytes(), s.dest, s.tag);
    }
    false
}

#[inline(always)]
fn send(function: FuncId, mode: Mode, s: SendArgs, comm: Comm) -> c_int {
    let is_sent = match mode {
        Mode::Buffered => sent_now::<false>(mode, s, comm),
        _ => sent_now::<true>(mode, s, comm),
    };
    if is_sent {
        return abi::MPI_SUCCESS;
    }
    send_fully(s.buf, s.count, s.datatype, s.dest, s.tag, comm, function, mode)
}

/// The full path of a send. The arguments are in the order of the C call, so that the low-latency
/// path need not move them to other registers.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn send_fully(
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    tag: c_int,
    comm: Comm,
    function: FuncId,
    mode: Mode,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        library.noted(comm, communicator);
        match left_to_send(library, communicator, buf, count, datatype, dest, tag, mode)? {
            Some(buffer) => library.process.send(communicator, mode, buffer, dest, tag),
            None => Ok(()),
        }
    })
}

/// Sends eagerly without a request, if possible. Otherwise returns the buffer for the full path.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn left_to_send(
    library: &Running,
    comm: &Communicator,
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<Option<UserBuf>> {
    let plain = plain(buf, count, datatype).filter(|buf| may_leave_at_once(mode, buf.len()));
    if let Some(buf) = plain
        && library.process.send_now(comm, buf.bytes(), dest, tag)
    {
        return Ok(None);
    }
    let buffer = library.buffer(buf, count, datatype)?;
    let gone = plain.is_none()
        && may_leave_at_once(mode, buffer.packed_len())
        && sent_at_once(library, comm, &buffer, dest, tag);
    Ok((!gone).then_some(buffer))
}

/// The longest message with gaps, in bytes, that is packed for the low-latency path. Up to this
/// length the additional copy costs less than a request.
const PACKED_MAX: usize = 1 << 10;

/// Sends a derived datatype eagerly without a request, if it is contiguous or short.
fn sent_at_once(
    library: &Running,
    comm: &Communicator,
    buffer: &UserBuf,
    dest: c_int,
    tag: c_int,
) -> bool {
    if let Some(bytes) = buffer.as_contiguous() {
        return library.process.send_now(comm, bytes, dest, tag);
    }
    let len = buffer.packed_len();
    if len > PACKED_MAX || buffer.is_on_device() {
        return false;
    }
    let mut room = [0; PACKED_MAX];
    buffer.pack(0, BytesMut::from(&mut room[..len]));
    library.process.send_now(comm, Bytes::from(&room[..len]), dest, tag)
}

/// Receives from a rank whose route is known, without a request. `None` if that is impossible;
/// nothing has then happened.
fn received_at_once(
    library: &Running,
    context: u32,
    buffer: &UserBuf,
    source: c_int,
    tag: c_int,
) -> Result<Option<Completion>> {
    if let Some(into) = buffer.as_plain() {
        return library.process.receive_soon(context, &into, source, tag);
    }
    let len = buffer.packed_len();
    if len > PACKED_MAX || buffer.is_on_device() {
        return Ok(None);
    }
    let mut room = [0; PACKED_MAX];
    // SAFETY: `room` outlives the call, which returns after the receive is complete.
    let into = unsafe { PlainBuf::new(room.as_mut_ptr(), len) };
    let done = library.process.receive_soon(context, &into, source, tag)?;
    if let Some(done) = &done {
        let came = usize::try_from(done.bytes).map_or(len, |bytes| bytes.min(len));
        buffer.unpack(0, into.bytes().slice(0, came));
    }
    Ok(done)
}

#[inline(always)]
fn isend(function: FuncId, mode: Mode, s: SendArgs, comm: Comm, request: *mut Request) -> c_int {
    if !request.is_null() && sent_now::<false>(mode, s, comm) {
        // SAFETY: not null; the C program passes a place for a handle.
        unsafe { request.write(RequestId::COMPLETE.raw() as Request) };
        return abi::MPI_SUCCESS;
    }
    isend_fully(s.buf, s.count, s.datatype, s.dest, s.tag, comm, request, function, mode)
}

/// The full path of a nonblocking send; see [`send_fully`].
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn isend_fully(
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    tag: c_int,
    comm: Comm,
    request: *mut Request,
    function: FuncId,
    mode: Mode,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if request.is_null() {
            return Err(null("request"));
        }
        library.noted(comm, communicator);
        let started =
            match left_to_send(library, communicator, buf, count, datatype, dest, tag, mode)? {
                Some(buffer) => library.process.isend(communicator, mode, buffer, dest, tag)?,
                None => RequestId::COMPLETE,
            };
        give(request, started)
    })
}

#[inline(always)]
fn recv(function: FuncId, r: ReceiveArgs, comm: Comm, status: *mut Status) -> c_int {
    if let Some((library, context)) = at_hand(comm)
        && let Some(into) = plain(r.buf, r.count, r.datatype)
        && let Some(done) = library.process.try_receive(context, into.bytes_mut(), r.source, r.tag)
    {
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_received(status, done) };
        return abi::MPI_SUCCESS;
    }
    recv_fully(r.buf, r.count, r.datatype, r.source, r.tag, comm, status, function)
}

/// The full path of a receive; see [`send_fully`]. A contiguous message is received before the
/// lookup of the communicator, which would delay its delivery.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn recv_fully(
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
    comm: Comm,
    status: *mut Status,
    function: FuncId,
) -> c_int {
    let plain = plain(buf, count, datatype);
    let soon = match (at_hand(comm), plain) {
        (Some((library, context)), Some(into)) => {
            library.process.receive_soon(context, &into, source, tag)
        }
        _ => Ok(None),
    };
    if let Ok(Some(done)) = &soon
        && done.fault.is_none()
    {
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_status(status, done) };
        return abi::MPI_SUCCESS;
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(done) = soon? {
            return received(status, done);
        }
        let context = library.noted(comm, communicator);
        let is_new = library.process.note_source(communicator, source);
        if let Some(into) = plain.filter(|_| is_new)
            && let Some(done) = library.process.receive_soon(context, &into, source, tag)?
        {
            return received(status, done);
        }
        let buffer = library.buffer(buf, count, datatype)?;
        if plain.is_none()
            && let Some(done) = received_at_once(library, context, &buffer, source, tag)?
        {
            return received(status, done);
        }
        let buffer = buffer.writes_behind();
        received(status, library.process.recv_whatever(communicator, buffer, source, tag)?)
    })
}

/// Writes the status even of a failed receive, since its source is known.
pub(crate) fn received(status: *mut Status, completion: Completion) -> Result<()> {
    // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
    unsafe { put_status(status, &completion) };
    requests::error_of(&completion).map_or(Ok(()), Err)
}

#[inline(always)]
fn irecv(function: FuncId, r: ReceiveArgs, comm: Comm, request: *mut Request) -> c_int {
    if !request.is_null()
        && let Some((library, context)) = at_hand(comm)
        && let Some(into) = plain(r.buf, r.count, r.datatype)
        && let Some(posted) = library.process.try_irecv(context, into, r.source, r.tag)
    {
        // SAFETY: not null; the C program passes a place for a handle.
        unsafe { request.write(posted.raw() as Request) };
        return abi::MPI_SUCCESS;
    }
    irecv_fully(r.buf, r.count, r.datatype, r.source, r.tag, comm, request, function)
}

/// The full path of a nonblocking receive; see [`send_fully`].
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn irecv_fully(
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
    comm: Comm,
    request: *mut Request,
    function: FuncId,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if request.is_null() {
            return Err(null("request"));
        }
        let context = library.noted(comm, communicator);
        library.process.note_source(communicator, source);
        let buffer = library.buffer(buf, count, datatype)?;
        if let Some(into) = buffer.as_plain()
            && let Some(posted) = library.process.try_irecv(context, into, source, tag)
        {
            return give(request, posted);
        }
        give(request, library.process.irecv(communicator, buffer.writes_behind(), source, tag)?)
    })
}

fn give(place: *mut Request, request: RequestId) -> Result<()> {
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, request.raw() as Request, "request") }
}

/// The send and the receive of one call. With `replaced` they share a buffer, whose data are copied
/// first. The copy is made only for right arguments and a destination that is a rank.
fn halves(
    library: &Running,
    communicator: &Communicator,
    s: SendArgs,
    r: ReceiveArgs,
    replaced: bool,
) -> Result<(SendrecvSend, SendrecvReceive)> {
    let receive = library.buffer(r.buf, r.count, r.datatype)?;
    let send = if replaced {
        library.process.check_exchange(communicator, (s.dest, s.tag), (r.source, r.tag))?;
        let len = if s.dest == abi::MPI_PROC_NULL { 0 } else { receive.packed_len() };
        let no_memory = |e| MpiError::new(abi::MPI_ERR_NO_MEM, format!("sendrecv_replace: {e}"));
        let copy = Scratch::bytes(len).map_err(no_memory)?.buf().clone();
        copy.copy_from(0, &receive, 0, len);
        receive.settle().map_err(|fault| oxmpi_core::staging_error(fault.into()))?;
        copy
    } else {
        library.buffer(s.buf, s.count, s.datatype)?
    };
    let send = SendrecvSend { buffer: send, dest: s.dest, tag: s.tag };
    Ok((send, SendrecvReceive { buffer: receive.writes_behind(), source: r.source, tag: r.tag }))
}

/// Exchanges on the low-latency path, if both messages can take it: sends at once, then waits for
/// the received message.
#[inline(always)]
fn exchanged_now(
    s: SendArgs,
    r: ReceiveArgs,
    comm: Comm,
    status: *mut Status,
) -> Option<Result<()>> {
    let (library, context) = at_hand(comm)?;
    let (out, into) = (plain(s.buf, s.count, s.datatype)?, plain(r.buf, r.count, r.datatype)?);
    let process = &library.process;
    // The arguments of the receive must be right before anything is sent.
    if !process.may_receive(context, r.source, r.tag)
        || !process.try_send::<false>(context, out.bytes(), s.dest, s.tag)
    {
        return None;
    }
    if let Some(done) = process.try_receive(context, into.bytes_mut(), r.source, r.tag) {
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_received(status, done) };
        return Some(Ok(()));
    }
    Some(received_later(library, context, into, r, status))
}

/// [`exchanged_now`] for a message that has not arrived yet.
#[inline(never)]
fn received_later(
    library: &Running,
    context: u32,
    into: PlainBuf,
    r: ReceiveArgs,
    status: *mut Status,
) -> Result<()> {
    let soon = library.process.receive_soon(context, &into, r.source, r.tag)?;
    let done = match soon {
        Some(done) => done,
        None => library.process.receive_from(context, into, r.source, r.tag)?,
    };
    received(status, done)
}

fn sendrecv(
    function: FuncId,
    s: SendArgs,
    r: ReceiveArgs,
    replaced: bool,
    comm: Comm,
    status: *mut Status,
) -> c_int {
    if !replaced && let Some(done) = exchanged_now(s, r, comm, status) {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        library.noted(comm, communicator);
        library.process.note_source(communicator, r.source);
        let (send, receive) = halves(library, communicator, s, r, replaced)?;
        received(status, library.process.sendrecv(communicator, send, receive)?)
    })
}

fn isendrecv(
    function: FuncId,
    s: SendArgs,
    r: ReceiveArgs,
    replaced: bool,
    comm: Comm,
    request: *mut Request,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if request.is_null() {
            return Err(null("request"));
        }
        let (send, receive) = halves(library, communicator, s, r, replaced)?;
        give(request, library.process.isendrecv(communicator, send, receive)?)
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

/// A separate function, to keep the path of an unsuccessful probe short.
#[inline(never)]
fn iprobe_fully(
    source: c_int,
    tag: c_int,
    comm: Comm,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    on_comm(FuncId::MPI_Iprobe, comm, |library, communicator| {
        library.noted(comm, communicator);
        library.process.note_source(communicator, source);
        give_probed(flag, status, library.process.iprobe(communicator, source, tag)?)
    })
}

mpi! {
    fn MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Send, Mode::Standard, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    fn MPI_Isend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Isend, Mode::Standard, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Bsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Bsend, Mode::Buffered, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    fn MPI_Ibsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Ibsend, Mode::Buffered, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Ssend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Ssend, Mode::Synchronous, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    fn MPI_Issend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Issend, Mode::Synchronous, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Rsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Rsend, Mode::Ready, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm)
    }

    fn MPI_Irsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Irsend, Mode::Ready, SendArgs { buf, count: i64::from(count), datatype, dest, tag }, comm, request)
    }

    fn MPI_Recv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, status: *mut Status) -> c_int {
        recv(FuncId::MPI_Recv, ReceiveArgs { buf, count: i64::from(count), datatype, source, tag }, comm, status)
    }

    fn MPI_Irecv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        irecv(FuncId::MPI_Irecv, ReceiveArgs { buf, count: i64::from(count), datatype, source, tag }, comm, request)
    }

    fn MPI_Sendrecv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let s = SendArgs { buf: sendbuf, count: i64::from(sendcount), datatype: sendtype, dest, tag: sendtag };
        let r = ReceiveArgs { buf: recvbuf, count: i64::from(recvcount), datatype: recvtype, source, tag: recvtag };
        sendrecv(FuncId::MPI_Sendrecv, s, r, false, comm, status)
    }

    fn MPI_Sendrecv_replace(buf: *mut c_void, count: c_int, datatype: Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let count = i64::from(count);
        let s = SendArgs { buf, count, datatype, dest, tag: sendtag };
        let r = ReceiveArgs { buf, count, datatype, source, tag: recvtag };
        sendrecv(FuncId::MPI_Sendrecv_replace, s, r, true, comm, status)
    }

    fn MPI_Isendrecv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm, request: *mut Request) -> c_int {
        let s = SendArgs { buf: sendbuf, count: i64::from(sendcount), datatype: sendtype, dest, tag: sendtag };
        let r = ReceiveArgs { buf: recvbuf, count: i64::from(recvcount), datatype: recvtype, source, tag: recvtag };
        isendrecv(FuncId::MPI_Isendrecv, s, r, false, comm, request)
    }

    fn MPI_Isendrecv_replace(buf: *mut c_void, count: c_int, datatype: Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm, request: *mut Request) -> c_int {
        let count = i64::from(count);
        let s = SendArgs { buf, count, datatype, dest, tag: sendtag };
        let r = ReceiveArgs { buf, count, datatype, source, tag: recvtag };
        isendrecv(FuncId::MPI_Isendrecv_replace, s, r, true, comm, request)
    }

    fn MPI_Send_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Send_c, Mode::Standard, SendArgs { buf, count, datatype, dest, tag }, comm)
    }

    fn MPI_Isend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Isend_c, Mode::Standard, SendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Bsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Bsend_c, Mode::Buffered, SendArgs { buf, count, datatype, dest, tag }, comm)
    }

    fn MPI_Ibsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Ibsend_c, Mode::Buffered, SendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Ssend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Ssend_c, Mode::Synchronous, SendArgs { buf, count, datatype, dest, tag }, comm)
    }

    fn MPI_Issend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Issend_c, Mode::Synchronous, SendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Rsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm) -> c_int {
        send(FuncId::MPI_Rsend_c, Mode::Ready, SendArgs { buf, count, datatype, dest, tag }, comm)
    }

    fn MPI_Irsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        isend(FuncId::MPI_Irsend_c, Mode::Ready, SendArgs { buf, count, datatype, dest, tag }, comm, request)
    }

    fn MPI_Recv_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, status: *mut Status) -> c_int {
        recv(FuncId::MPI_Recv_c, ReceiveArgs { buf, count, datatype, source, tag }, comm, status)
    }

    fn MPI_Irecv_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int, tag: c_int, comm: Comm, request: *mut Request) -> c_int {
        irecv(FuncId::MPI_Irecv_c, ReceiveArgs { buf, count, datatype, source, tag }, comm, request)
    }

    fn MPI_Sendrecv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let s = SendArgs { buf: sendbuf, count: sendcount, datatype: sendtype, dest, tag: sendtag };
        let r = ReceiveArgs { buf: recvbuf, count: recvcount, datatype: recvtype, source, tag: recvtag };
        sendrecv(FuncId::MPI_Sendrecv_c, s, r, false, comm, status)
    }

    fn MPI_Sendrecv_replace_c(buf: *mut c_void, count: Count, datatype: Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm, status: *mut Status) -> c_int {
        let s = SendArgs { buf, count, datatype, dest, tag: sendtag };
        let r = ReceiveArgs { buf, count, datatype, source, tag: recvtag };
        sendrecv(FuncId::MPI_Sendrecv_replace_c, s, r, true, comm, status)
    }

    fn MPI_Isendrecv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm, request: *mut Request) -> c_int {
        let s = SendArgs { buf: sendbuf, count: sendcount, datatype: sendtype, dest, tag: sendtag };
        let r = ReceiveArgs { buf: recvbuf, count: recvcount, datatype: recvtype, source, tag: recvtag };
        isendrecv(FuncId::MPI_Isendrecv_c, s, r, false, comm, request)
    }

    fn MPI_Isendrecv_replace_c(buf: *mut c_void, count: Count, datatype: Datatype, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm, request: *mut Request) -> c_int {
        let s = SendArgs { buf, count, datatype, dest, tag: sendtag };
        let r = ReceiveArgs { buf, count, datatype, source, tag: recvtag };
        isendrecv(FuncId::MPI_Isendrecv_replace_c, s, r, true, comm, request)
    }

    fn MPI_Probe(source: c_int, tag: c_int, comm: Comm, status: *mut Status) -> c_int {
        on_comm(FuncId::MPI_Probe, comm, |library, communicator| {
            let completion = library.process.probe(communicator, source, tag)?;
            // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
            unsafe { put_status(status, &completion) };
            Ok(())
        })
    }

    fn MPI_Iprobe(source: c_int, tag: c_int, comm: Comm, flag: *mut c_int, status: *mut Status) -> c_int {
        if let Some((library, context)) = at_hand(comm)
            && !flag.is_null()
            && library.process.has_none(context, source, tag)
        {
            // SAFETY: not null; the C program passes a place for an integer.
            unsafe { flag.write(0) };
            return abi::MPI_SUCCESS;
        }
        iprobe_fully(source, tag, comm, flag, status)
    }

}
