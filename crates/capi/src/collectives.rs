//! Collectives (MPI-5.0 chapter 6).
//!
//! Each collective is one function that turns the arguments into a [`Call`] and its buffers; the blocking and the nonblocking,
//! the plain and the `_c` forms are one line over it. Arguments that matter at the root only are not looked at elsewhere. Here
//! are those that move data; those that reduce them are in `reductions`, those whose ranks give blocks of different lengths in
//! `vector`, all of them for intercommunicators in `inter`, the persistent ones in `persistent` and its like.

use crate::errors::{on_comm, outcome};
use crate::info;
use crate::library::{Running, check_count, null, put};
use crate::on::On;
use crate::operations::Combining;
use inter::{Across, Remote};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Count, Datatype, Info, Request};
use oxmpi_coll::{Area, Buffers, Combine, Memory};
use oxmpi_core::Communicator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Collective, Shared};
use std::ffi::{c_int, c_void};

mod inter;
mod persistent;
mod persistent_neighbor;
mod persistent_vector;
mod reductions;
mod short;
pub(crate) mod vector;

/// How a collective ends: waited for here, by the request that is put there, or again and again as that is started.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Here,
    Later(*mut Request),
    Init(Info, *mut Request),
}

/// Memory that a call names.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    pub(crate) address: *const c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype,
}

impl Named {
    pub(crate) fn is_in_place(&self) -> bool {
        self.address as usize == abi::MPI_IN_PLACE
    }

    pub(crate) fn buffer(&self, library: &Running) -> Result<UserBuf> {
        library.buffer(self.address, self.count, self.datatype)
    }

    /// As many blocks of this, one after the other.
    pub(crate) fn blocks(&self, library: &Running, blocks: i32) -> Result<UserBuf> {
        check_count(self.count)?;
        let Some(count) = self.count.checked_mul(i64::from(blocks)) else {
            let text = format!("count is {}: so many elements from {blocks} ranks are too many", self.count);
            return Err(MpiError::new(abi::MPI_ERR_COUNT, text));
        };
        Named { count, ..*self }.buffer(library)
    }
}

/// One block's packed bytes, out of a buffer of `blocks` of them.
fn block_of(all: &UserBuf, blocks: i32) -> usize {
    all.packed_len() / blocks.max(1) as usize
}

/// A block that is sent must be as long as the place that is left for it.
pub(crate) fn check_blocks(sent: usize, received: usize) -> Result<()> {
    if sent == received {
        return Ok(());
    }
    let class = if sent > received { abi::MPI_ERR_TRUNCATE } else { abi::MPI_ERR_COUNT };
    Err(MpiError::new(
        class,
        format!(
            "the send arguments name {sent} bytes, the receive arguments {received} bytes for each block"
        ),
    ))
}

/// As [`check_blocks`], of a rank's own block in a collective that others wait for. If its ranks have shared memory for either
/// length the rank takes part by `run` all the same, so that all go on with the next collective.
fn check_own_block(
    library: &Running,
    comm: &Communicator,
    (collective, end): (Collective, &End),
    (sent, received): (usize, usize),
    run: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let checked = check_blocks(sent, received);
    let is_served = |bytes| library.process.serves_in_memory(comm, collective, bytes);
    if checked.is_err() && matches!(end, End::Here) && is_served(sent) && is_served(received) {
        // The error of its own arguments counts.
        let _ = run();
    }
    checked
}

/// Temporary space of this length.
fn scratch(bytes: usize) -> Result<UserBuf> {
    let room =
        Scratch::bytes(bytes).map_err(|error| MpiError::new(abi::MPI_ERR_NO_MEM, error.to_string()))?;
    Ok(room.buf().clone())
}

/// A collective that moves data.
fn movement(
    library: &Running,
    comm: &Communicator,
    call: Call,
    (input, output): (UserBuf, UserBuf),
    end: End,
) -> Result<()> {
    let buffers = Buffers { input, output, element: None };
    let moving = Combining { combine: Combine::Nothing, call: None, commutative: true };
    run(library, comm, call, buffers, moving, end)
}

fn run(
    library: &Running,
    comm: &Communicator,
    call: Call,
    buffers: Buffers,
    how: Combining,
    end: End,
) -> Result<()> {
    match end {
        End::Here if buffers.input.is_on_device() || buffers.output.is_on_device() => {
            library.process.execute_staged(buffers.into(), |memory| match (memory.input, memory.output) {
                (Area::Whole(input), Area::Whole(output)) => {
                    run(library, comm, call, Buffers { input, output, element: memory.element }, how, end)
                }
                // What was whole stays so.
                _ => Ok(()),
            })
        }
        End::Here => library.process.execute(comm, call, buffers, how.combine, how.call),
        End::Later(_) | End::Init(..) => run_plan(library, comm, call, buffers.into(), how, end),
    }
}

/// As [`movement`], for calls whose buffers may be lists of blocks.
pub(crate) fn movement_of(
    library: &Running,
    comm: &Communicator,
    call: Call,
    (input, output): (Area, Area),
    end: End,
) -> Result<()> {
    let moving = Combining { combine: Combine::Nothing, call: None, commutative: true };
    run_plan(library, comm, call, Memory { input, output, element: None }, moving, end)
}

/// As [`run`], for calls that always take the way of the plans.
fn run_plan(
    library: &Running,
    comm: &Communicator,
    call: Call,
    memory: Memory,
    how: Combining,
    end: End,
) -> Result<()> {
    match end {
        End::Here if memory.input.is_on_device() || memory.output.is_on_device() => {
            return library
                .process
                .execute_staged(memory, |memory| run_plan(library, comm, call, memory, how, end));
        }
        End::Later(_) | End::Init(..) => library.process.check_devices(&memory)?,
        End::Here => {}
    }
    match end {
        End::Here => library.process.execute_plan(comm, call, memory, how.combine, how.call),
        End::Later(place) | End::Init(_, place) if place.is_null() => Err(null("request")),
        End::Later(place) => {
            let request = library.process.start(comm, call, memory, how.combine, how.call)?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(place, request.raw() as Request, "request") }
        }
        End::Init(info, place) => {
            // No key is known, but it must be an info.
            info::given(info)?;
            let request = library.process.collective_init(comm, call, memory, how.combine, how.call)?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(place, request.raw() as Request, "request") }
        }
    }
}

/// The call, if it is one between two groups.
fn across<'a>(library: &'static Running, comm: &'a Communicator, end: End) -> Option<Across<'a>> {
    comm.groups().map(|groups| Across { library, comm, groups, end })
}

fn barrier(function: FuncId, comm: Comm, end: End) -> c_int {
    if matches!(end, End::Here)
        && let Some(done) = short::barrier(comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        movement(library, communicator, Call::Barrier, (UserBuf::empty(), UserBuf::empty()), end)
    })
}

fn bcast(function: FuncId, data: Named, root: c_int, comm: Comm, end: End) -> c_int {
    if matches!(end, End::Here)
        && let Some(done) = short::bcast(data, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, end) {
            return across.bcast(data, root);
        }
        let output = data.buffer(library)?;
        let call = Call::Bcast { root: communicator.root(root)?, bytes: Shared(output.packed_len()) };
        movement(library, communicator, call, (UserBuf::empty(), output), end)
    })
}

fn gather(function: FuncId, send: Named, receive: Named, root: c_int, comm: Comm, end: End) -> c_int {
    if matches!(end, End::Here)
        && let Some(done) = short::gather(send, receive, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, end) {
            return across.gather(send, &Remote::Even(receive), root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && send.is_in_place();
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        let (output, block) = if at_root {
            let output = receive.blocks(library, communicator.size())?;
            let block = block_of(&output, communicator.size());
            if !in_place {
                let lengths = (input.packed_len(), block);
                check_own_block(library, communicator, (Collective::Gather, &end), lengths, || {
                    let call = Call::Gather { root, block: Shared(block), in_place: true };
                    movement(library, communicator, call, (UserBuf::empty(), output.clone()), End::Here)
                })?;
            }
            (output, block)
        } else {
            (UserBuf::empty(), input.packed_len())
        };
        let call = Call::Gather { root, block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), end)
    })
}

fn scatter(function: FuncId, send: Named, receive: Named, root: c_int, comm: Comm, end: End) -> c_int {
    if matches!(end, End::Here)
        && let Some(done) = short::scatter(send, receive, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, end) {
            return across.scatter(&Remote::Even(send), receive, root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && receive.is_in_place();
        let output = if in_place { UserBuf::empty() } else { receive.buffer(library)? };
        let (input, block) = if at_root {
            let input = send.blocks(library, communicator.size())?;
            let block = block_of(&input, communicator.size());
            if !in_place {
                let lengths = (block, output.packed_len());
                check_own_block(library, communicator, (Collective::Scatter, &end), lengths, || {
                    let call = Call::Scatter { root, block: Shared(block), in_place: true };
                    movement(library, communicator, call, (input.clone(), UserBuf::empty()), End::Here)
                })?;
            }
            (input, block)
        } else {
            (UserBuf::empty(), output.packed_len())
        };
        let call = Call::Scatter { root, block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), end)
    })
}

fn allgather(function: FuncId, send: Named, receive: Named, comm: Comm, end: End) -> c_int {
    if matches!(end, End::Here)
        && let Some(done) = short::allgather(send, receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, end) {
            return across.allgather(send, &Remote::Even(receive));
        }
        let in_place = send.is_in_place();
        let output = receive.blocks(library, communicator.size())?;
        let block = block_of(&output, communicator.size());
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        if !in_place {
            let sent = input.packed_len();
            check_own_block(library, communicator, (Collective::Allgather, &end), (sent, block), || {
                let call = Call::Allgather { block: Shared(sent), in_place };
                let output = scratch(sent * communicator.size() as usize)?;
                movement(library, communicator, call, (input.clone(), output), End::Here)
            })?;
        }
        let call = Call::Allgather { block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), end)
    })
}

fn alltoall(function: FuncId, send: Named, receive: Named, comm: Comm, end: End) -> c_int {
    if matches!(end, End::Here)
        && let Some(done) = short::alltoall(send, receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, end) {
            return across.alltoall(&Remote::Even(send), &Remote::Even(receive));
        }
        let in_place = send.is_in_place();
        let output = receive.blocks(library, communicator.size())?;
        let block = block_of(&output, communicator.size());
        let input = if in_place { UserBuf::empty() } else { send.blocks(library, communicator.size())? };
        if !in_place {
            let sent = block_of(&input, communicator.size());
            check_own_block(library, communicator, (Collective::Alltoall, &end), (sent, block), || {
                let call = Call::Alltoall { block: Shared(sent), in_place };
                let output = scratch(sent * communicator.size() as usize)?;
                movement(library, communicator, call, (input.clone(), output), End::Here)
            })?;
        }
        let call = Call::Alltoall { block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), end)
    })
}

mpi! {
    /// MPI-5.0 section 6.3.
    fn MPI_Barrier(comm: Comm) -> c_int {
        barrier(FuncId::MPI_Barrier, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Ibarrier(comm: Comm, request: *mut Request) -> c_int {
        barrier(FuncId::MPI_Ibarrier, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.4.
    fn MPI_Bcast(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm) -> c_int {
        let data = Named { address: buffer, count: i64::from(count), datatype };
        bcast(FuncId::MPI_Bcast, data, root, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Ibcast(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let data = Named { address: buffer, count: i64::from(count), datatype };
        bcast(FuncId::MPI_Ibcast, data, root, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.5.
    fn MPI_Gather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        gather(FuncId::MPI_Gather, send, receive, root, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Igather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        gather(FuncId::MPI_Igather, send, receive, root, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.6.
    fn MPI_Scatter(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        scatter(FuncId::MPI_Scatter, send, receive, root, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Iscatter(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        scatter(FuncId::MPI_Iscatter, send, receive, root, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.7.
    fn MPI_Allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        allgather(FuncId::MPI_Allgather, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Iallgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        allgather(FuncId::MPI_Iallgather, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.8.
    fn MPI_Alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        alltoall(FuncId::MPI_Alltoall, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Ialltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        alltoall(FuncId::MPI_Ialltoall, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.4.
    fn MPI_Bcast_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm) -> c_int {
        let data = Named { address: buffer, count, datatype };
        bcast(FuncId::MPI_Bcast_c, data, root, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Ibcast_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let data = Named { address: buffer, count, datatype };
        bcast(FuncId::MPI_Ibcast_c, data, root, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.5.
    fn MPI_Gather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        gather(FuncId::MPI_Gather_c, send, receive, root, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Igather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        gather(FuncId::MPI_Igather_c, send, receive, root, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.6.
    fn MPI_Scatter_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        scatter(FuncId::MPI_Scatter_c, send, receive, root, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Iscatter_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        scatter(FuncId::MPI_Iscatter_c, send, receive, root, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.7.
    fn MPI_Allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        allgather(FuncId::MPI_Allgather_c, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Iallgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        allgather(FuncId::MPI_Iallgather_c, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 6.8.
    fn MPI_Alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        alltoall(FuncId::MPI_Alltoall_c, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 6.14.
    fn MPI_Ialltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        alltoall(FuncId::MPI_Ialltoall_c, send, receive, comm, End::Later(request))
    }

}
