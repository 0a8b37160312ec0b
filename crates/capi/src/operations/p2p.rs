//! Point-to-point communication (MPI-5.0 chapter 3).
//!
//! The plain forms count in `int`, the `_c` forms in `MPI_Count`. A short blocking send of
//! contiguous bytes first tries the low-latency path. All other calls, wrong calls included, take
//! the full path.

use crate::arguments::{
    self, BufferArgs, BufferNames, null, plain, put, put_received, put_status, received,
};
use crate::errors::{on_comm, outcome};
use crate::state::library::{Running, at_hand};
use crate::state::named::CommArgument;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Datatype, Request, Status};
use oxmpi_core::Communicator;
use oxmpi_core::p2p::{SendrecvReceive, SendrecvSend};
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_shm::ring::INLINE_MAX;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ffi::{c_int, c_void};

/// The sent half of an exchange.
#[derive(Clone, Copy)]
struct SendHalf {
    data: BufferArgs,
    dest: c_int,
    tag: c_int,
}

/// The received half of an exchange.
#[derive(Clone, Copy)]
struct ReceiveHalf {
    data: BufferArgs,
    source: c_int,
    tag: c_int,
}

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
fn sent_now<const MAY_WAIT: bool>(
    mode: Mode,
    data: BufferArgs,
    (dest, tag): (c_int, c_int),
    comm: Comm,
) -> bool {
    // The compiler does not inline closures here.
    if mode != Mode::Synchronous
        && let Some((library, context)) = at_hand(comm)
        && let Some(buf) = data.plain()
        && may_leave_at_once(mode, buf.len())
    {
        return library.process.try_send::<MAY_WAIT>(context, buf.bytes(), dest, tag);
    }
    false
}

#[inline(always)]
pub(crate) fn send(
    function: FuncId,
    mode: Mode,
    data: BufferArgs,
    dest: c_int,
    tag: c_int,
    comm: Comm,
) -> c_int {
    let is_sent = match mode {
        Mode::Buffered => sent_now::<false>(mode, data, (dest, tag), comm),
        _ => sent_now::<true>(mode, data, (dest, tag), comm),
    };
    if is_sent {
        return abi::MPI_SUCCESS;
    }
    send_fully(data.address, data.count, data.datatype, dest, tag, comm, function, mode)
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

/// The buffer of a function with one.
#[inline(always)]
fn data(address: *const c_void, count: i64, datatype: Datatype) -> BufferArgs {
    let names = &BufferNames { address: "buf", count: "count", datatype: "datatype" };
    BufferArgs { address, count, datatype, names }
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
    let buffer = data(buf, count, datatype).buffer(library)?;
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
pub(crate) fn isend(
    function: FuncId,
    mode: Mode,
    data: BufferArgs,
    dest: c_int,
    tag: c_int,
    comm: Comm,
    request: *mut Request,
) -> c_int {
    if !request.is_null() && sent_now::<false>(mode, data, (dest, tag), comm) {
        // SAFETY: not null; the C program passes a place for a handle.
        unsafe { request.write(RequestId::COMPLETE.raw() as Request) };
        return abi::MPI_SUCCESS;
    }
    isend_fully(data.address, data.count, data.datatype, dest, tag, comm, request, function, mode)
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
pub(crate) fn recv(
    function: FuncId,
    data: BufferArgs,
    source: c_int,
    tag: c_int,
    comm: Comm,
    status: *mut Status,
) -> c_int {
    if let Some((library, context)) = at_hand(comm)
        && let Some(into) = data.plain()
        && let Some(done) = library.process.try_receive(context, into.bytes_mut(), source, tag)
    {
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_received(status, done) };
        return abi::MPI_SUCCESS;
    }
    recv_fully(data.address, data.count, data.datatype, source, tag, comm, status, function)
}

/// The full path of a receive; see [`send_fully`]. A contiguous message is received before the
/// lookup of the communicator, which would delay its delivery.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn recv_fully(
    buf: *const c_void,
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
        let buffer = data(buf, count, datatype).buffer(library)?;
        if plain.is_none()
            && let Some(done) = received_at_once(library, context, &buffer, source, tag)?
        {
            return received(status, done);
        }
        let buffer = buffer.writes_behind();
        received(status, library.process.recv_whatever(communicator, buffer, source, tag)?)
    })
}

#[inline(always)]
pub(crate) fn irecv(
    function: FuncId,
    data: BufferArgs,
    source: c_int,
    tag: c_int,
    comm: Comm,
    request: *mut Request,
) -> c_int {
    if !request.is_null()
        && let Some((library, context)) = at_hand(comm)
        && let Some(into) = data.plain()
        && let Some(posted) = library.process.try_irecv(context, into, source, tag)
    {
        // SAFETY: not null; the C program passes a place for a handle.
        unsafe { request.write(posted.raw() as Request) };
        return abi::MPI_SUCCESS;
    }
    irecv_fully(data.address, data.count, data.datatype, source, tag, comm, request, function)
}

/// The full path of a nonblocking receive; see [`send_fully`].
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn irecv_fully(
    buf: *const c_void,
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
        let buffer = data(buf, count, datatype).buffer(library)?;
        if let Some(into) = buffer.as_plain()
            && let Some(posted) = library.process.try_irecv(context, into, source, tag)
        {
            return give(request, posted);
        }
        give(request, library.process.irecv(communicator, buffer.writes_behind(), source, tag)?)
    })
}

pub(crate) fn give(place: *mut Request, request: RequestId) -> Result<()> {
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, request.raw() as Request, "request") }
}

/// The send and the receive of one call. With `replaced` they share a buffer, whose data are copied
/// first. The copy is made only for right arguments and a destination that is a rank.
fn halves(
    library: &Running,
    communicator: &Communicator,
    s: SendHalf,
    r: ReceiveHalf,
    replaced: bool,
) -> Result<(SendrecvSend, SendrecvReceive)> {
    let receive = r.data.buffer(library)?;
    let send = if replaced {
        library.process.check_exchange(communicator, (s.dest, s.tag), (r.source, r.tag))?;
        let len = if s.dest == abi::MPI_PROC_NULL { 0 } else { receive.packed_len() };
        let no_memory = |e| MpiError::new(abi::MPI_ERR_NO_MEM, format!("sendrecv_replace: {e}"));
        let copy = Scratch::bytes(len).map_err(no_memory)?.buf().clone();
        copy.copy_from(0, &receive, 0, len);
        receive.settle().map_err(|fault| oxmpi_core::staging_error(fault.into()))?;
        copy
    } else {
        s.data.buffer(library)?
    };
    let send = SendrecvSend { buffer: send, dest: s.dest, tag: s.tag };
    Ok((send, SendrecvReceive { buffer: receive.writes_behind(), source: r.source, tag: r.tag }))
}

/// Exchanges on the low-latency path, if both messages can take it: sends at once, then waits for
/// the received message.
#[inline(always)]
fn exchanged_now(
    s: SendHalf,
    r: ReceiveHalf,
    comm: Comm,
    status: *mut Status,
) -> Option<Result<()>> {
    let (library, context) = at_hand(comm)?;
    let (out, into) = (s.data.plain()?, r.data.plain()?);
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
    r: ReceiveHalf,
    status: *mut Status,
) -> Result<()> {
    let soon = library.process.receive_soon(context, &into, r.source, r.tag)?;
    let done = match soon {
        Some(done) => done,
        None => library.process.receive_from(context, into, r.source, r.tag)?,
    };
    received(status, done)
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn sendrecv(
    function: FuncId,
    sent: BufferArgs,
    dest: c_int,
    sendtag: c_int,
    received: BufferArgs,
    source: c_int,
    recvtag: c_int,
    comm: Comm,
    status: *mut Status,
) -> c_int {
    let s = SendHalf { data: sent, dest, tag: sendtag };
    let r = ReceiveHalf { data: received, source, tag: recvtag };
    if let Some(done) = exchanged_now(s, r, comm, status) {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, comm| {
        arguments::received(status, exchange(library, comm, s, r, false)?)
    })
}

fn exchange(
    library: &Running,
    comm: &CommArgument,
    s: SendHalf,
    r: ReceiveHalf,
    replaced: bool,
) -> Result<Completion> {
    library.noted(comm.handle, comm);
    library.process.note_source(comm, r.source);
    let (send, receive) = halves(library, comm, s, r, replaced)?;
    library.process.sendrecv(comm, send, receive)
}

pub(crate) fn sendrecv_replace(
    library: &Running,
    data: BufferArgs,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: &CommArgument,
) -> Result<Completion> {
    let s = SendHalf { data, dest, tag: sendtag };
    exchange(library, comm, s, ReceiveHalf { data, source, tag: recvtag }, true)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn isendrecv(
    library: &Running,
    sent: BufferArgs,
    dest: c_int,
    sendtag: c_int,
    received: BufferArgs,
    source: c_int,
    recvtag: c_int,
    comm: &CommArgument,
) -> Result<RequestId> {
    let s = SendHalf { data: sent, dest, tag: sendtag };
    let r = ReceiveHalf { data: received, source, tag: recvtag };
    let (send, receive) = halves(library, comm, s, r, false)?;
    library.process.isendrecv(comm, send, receive)
}

pub(crate) fn isendrecv_replace(
    library: &Running,
    data: BufferArgs,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: &CommArgument,
) -> Result<RequestId> {
    let s = SendHalf { data, dest, tag: sendtag };
    let r = ReceiveHalf { data, source, tag: recvtag };
    let (send, receive) = halves(library, comm, s, r, true)?;
    library.process.isendrecv(comm, send, receive)
}

pub(crate) fn probe(
    library: &Running,
    source: c_int,
    tag: c_int,
    comm: &CommArgument,
) -> Result<Completion> {
    library.process.probe(comm, source, tag)
}

#[inline(always)]
pub(crate) fn iprobe(
    _: FuncId,
    source: c_int,
    tag: c_int,
    comm: Comm,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
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
