//! Collectives (MPI-5.0 chapter 6; nonblocking forms are in section 6.14).
//!
//! Each collective is one function that makes a [`Call`] and its buffers from the arguments. The
//! blocking, nonblocking, persistent and `_c` forms call it. Arguments that are significant only at
//! the root are not read at other ranks.
//!
//! This module has collectives that move data. Reductions are in `reductions`, blocks of different
//! lengths in `vector`, and intercommunicators in `inter`.

use crate::errors::{on_comm, outcome};
use crate::info;
use crate::library::{Running, check_count, null, put};
use crate::on::On;
use crate::operations::Combining;
use inter::{IntercommCall, RemoteBlocks};
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

#[derive(Clone, Copy)]
pub(crate) enum CallForm {
    Blocking,
    Nonblocking(*mut Request),
    Persistent(Info, *mut Request),
}

#[derive(Clone, Copy)]
pub(crate) struct BufferArgs {
    pub(crate) address: *const c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype,
}

impl BufferArgs {
    pub(crate) fn is_in_place(&self) -> bool {
        self.address as usize == abi::MPI_IN_PLACE
    }

    pub(crate) fn buffer(&self, library: &Running) -> Result<UserBuf> {
        library.buffer(self.address, self.count, self.datatype)
    }

    /// The memory of `blocks` consecutive buffers like this one.
    pub(crate) fn blocks(&self, library: &Running, blocks: i32) -> Result<UserBuf> {
        check_count(self.count)?;
        let Some(count) = self.count.checked_mul(i64::from(blocks)) else {
            let text = format!(
                "count is {}: {blocks} blocks of this count have too many elements",
                self.count
            );
            return Err(MpiError::new(abi::MPI_ERR_COUNT, text));
        };
        BufferArgs { count, ..*self }.buffer(library)
    }
}

/// The packed bytes of each of `blocks` blocks.
fn block_of(all: &UserBuf, blocks: i32) -> usize {
    all.packed_len() / blocks.max(1) as usize
}

/// Fails unless a sent block has the length of its receive block.
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

/// Fails unless this rank's own block has the same length in both buffers. In a shared-memory
/// collective the other ranks wait for this rank. So before such a failure the rank takes part by
/// `call` on `buffers`, and all ranks agree on the next collective.
fn check_own_block(
    library: &Running,
    comm: &Communicator,
    (collective, form): (Collective, &CallForm),
    (sent, received): (usize, usize),
    call: Call,
    buffers: impl FnOnce() -> Result<(UserBuf, UserBuf)>,
) -> Result<()> {
    let checked = check_blocks(sent, received);
    let is_served = |bytes| library.process.serves_in_memory(comm, collective, bytes);
    if checked.is_err()
        && matches!(form, CallForm::Blocking)
        && is_served(sent)
        && is_served(received)
    {
        // The caller gets the error about the lengths.
        let _ = buffers()
            .and_then(|buffers| movement(library, comm, call, buffers, CallForm::Blocking));
    }
    checked
}

fn scratch(bytes: usize) -> Result<UserBuf> {
    let room = Scratch::bytes(bytes)
        .map_err(|error| MpiError::new(abi::MPI_ERR_NO_MEM, error.to_string()))?;
    Ok(room.buf().clone())
}

fn movement(
    library: &Running,
    comm: &Communicator,
    call: Call,
    (input, output): (UserBuf, UserBuf),
    form: CallForm,
) -> Result<()> {
    let buffers = Buffers { input, output, element: None };
    let moving = Combining { combine: Combine::Nothing, call: None, commutative: true };
    run(library, comm, call, buffers, moving, form)
}

fn run(
    library: &Running,
    comm: &Communicator,
    call: Call,
    buffers: Buffers,
    how: Combining,
    form: CallForm,
) -> Result<()> {
    match form {
        CallForm::Blocking if buffers.input.is_on_device() || buffers.output.is_on_device() => {
            library.process.execute_staged(buffers.into(), |memory| {
                match (memory.input, memory.output) {
                    (Area::Whole(input), Area::Whole(output)) => run(
                        library,
                        comm,
                        call,
                        Buffers { input, output, element: memory.element },
                        how,
                        form,
                    ),
                    // Staging keeps the shape of each area.
                    _ => Ok(()),
                }
            })
        }
        CallForm::Blocking => library.process.execute(comm, call, buffers, how.combine, how.call),
        CallForm::Nonblocking(_) | CallForm::Persistent(..) => {
            run_plan(library, comm, call, buffers.into(), how, form)
        }
    }
}

/// Runs a collective that moves data between buffers or lists of blocks.
pub(crate) fn movement_of(
    library: &Running,
    comm: &Communicator,
    call: Call,
    (input, output): (Area, Area),
    form: CallForm,
) -> Result<()> {
    let moving = Combining { combine: Combine::Nothing, call: None, commutative: true };
    run_plan(library, comm, call, Memory { input, output, element: None }, moving, form)
}

fn run_plan(
    library: &Running,
    comm: &Communicator,
    call: Call,
    memory: Memory,
    how: Combining,
    form: CallForm,
) -> Result<()> {
    match form {
        CallForm::Blocking if memory.input.is_on_device() || memory.output.is_on_device() => {
            return library
                .process
                .execute_staged(memory, |memory| run_plan(library, comm, call, memory, how, form));
        }
        CallForm::Nonblocking(_) | CallForm::Persistent(..) => {
            library.process.check_devices(&memory)?
        }
        CallForm::Blocking => {}
    }
    match form {
        CallForm::Blocking => {
            library.process.execute_plan(comm, call, memory, how.combine, how.call)
        }
        CallForm::Nonblocking(place) | CallForm::Persistent(_, place) if place.is_null() => {
            Err(null("request"))
        }
        CallForm::Nonblocking(place) => {
            let request = library.process.start(comm, call, memory, how.combine, how.call)?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(place, request.raw() as Request, "request") }
        }
        CallForm::Persistent(info, place) => {
            // No key is known, but the handle must be valid.
            info::given(info)?;
            let request =
                library.process.collective_init(comm, call, memory, how.combine, how.call)?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(place, request.raw() as Request, "request") }
        }
    }
}

/// The description of a call on an intercommunicator; `None` for an intracommunicator.
fn across<'a>(
    library: &'static Running,
    comm: &'a Communicator,
    form: CallForm,
) -> Option<IntercommCall<'a>> {
    comm.groups().map(|groups| IntercommCall { library, comm, groups, form })
}

fn barrier(function: FuncId, comm: Comm, form: CallForm) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::barrier(comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        movement(library, communicator, Call::Barrier, (UserBuf::empty(), UserBuf::empty()), form)
    })
}

fn bcast(function: FuncId, data: BufferArgs, root: c_int, comm: Comm, form: CallForm) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::bcast(data, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.bcast(data, root);
        }
        let output = data.buffer(library)?;
        let call =
            Call::Bcast { root: communicator.root(root)?, bytes: Shared(output.packed_len()) };
        movement(library, communicator, call, (UserBuf::empty(), output), form)
    })
}

fn gather(
    function: FuncId,
    send: BufferArgs,
    receive: BufferArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::gather(send, receive, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.gather(send, &RemoteBlocks::Even(receive), root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && send.is_in_place();
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        let (output, block) = if at_root {
            let output = receive.blocks(library, communicator.size())?;
            let block = block_of(&output, communicator.size());
            if !in_place {
                check_own_block(
                    library,
                    communicator,
                    (Collective::Gather, &form),
                    (input.packed_len(), block),
                    Call::Gather { root, block: Shared(block), in_place: true },
                    || Ok((UserBuf::empty(), output.clone())),
                )?;
            }
            (output, block)
        } else {
            (UserBuf::empty(), input.packed_len())
        };
        let call = Call::Gather { root, block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), form)
    })
}

fn scatter(
    function: FuncId,
    send: BufferArgs,
    receive: BufferArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::scatter(send, receive, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.scatter(&RemoteBlocks::Even(send), receive, root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && receive.is_in_place();
        let output = if in_place { UserBuf::empty() } else { receive.buffer(library)? };
        let (input, block) = if at_root {
            let input = send.blocks(library, communicator.size())?;
            let block = block_of(&input, communicator.size());
            if !in_place {
                check_own_block(
                    library,
                    communicator,
                    (Collective::Scatter, &form),
                    (block, output.packed_len()),
                    Call::Scatter { root, block: Shared(block), in_place: true },
                    || Ok((input.clone(), UserBuf::empty())),
                )?;
            }
            (input, block)
        } else {
            (UserBuf::empty(), output.packed_len())
        };
        let call = Call::Scatter { root, block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), form)
    })
}

fn allgather(
    function: FuncId,
    send: BufferArgs,
    receive: BufferArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::allgather(send, receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.allgather(send, &RemoteBlocks::Even(receive));
        }
        let in_place = send.is_in_place();
        let output = receive.blocks(library, communicator.size())?;
        let block = block_of(&output, communicator.size());
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        if !in_place {
            let sent = input.packed_len();
            check_own_block(
                library,
                communicator,
                (Collective::Allgather, &form),
                (sent, block),
                Call::Allgather { block: Shared(sent), in_place },
                || Ok((input.clone(), scratch(sent * communicator.size() as usize)?)),
            )?;
        }
        let call = Call::Allgather { block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), form)
    })
}

fn alltoall(
    function: FuncId,
    send: BufferArgs,
    receive: BufferArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::alltoall(send, receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.alltoall(&RemoteBlocks::Even(send), &RemoteBlocks::Even(receive));
        }
        let in_place = send.is_in_place();
        let output = receive.blocks(library, communicator.size())?;
        let block = block_of(&output, communicator.size());
        let input =
            if in_place { UserBuf::empty() } else { send.blocks(library, communicator.size())? };
        if !in_place {
            let sent = block_of(&input, communicator.size());
            check_own_block(
                library,
                communicator,
                (Collective::Alltoall, &form),
                (sent, block),
                Call::Alltoall { block: Shared(sent), in_place },
                || Ok((input.clone(), scratch(sent * communicator.size() as usize)?)),
            )?;
        }
        let call = Call::Alltoall { block: Shared(block), in_place };
        movement(library, communicator, call, (input, output), form)
    })
}

mpi! {
    fn MPI_Barrier(comm: Comm) -> c_int {
        barrier(FuncId::MPI_Barrier, comm, CallForm::Blocking)
    }

    fn MPI_Ibarrier(comm: Comm, request: *mut Request) -> c_int {
        barrier(FuncId::MPI_Ibarrier, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Bcast(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm) -> c_int {
        let data = BufferArgs { address: buffer, count: i64::from(count), datatype };
        bcast(FuncId::MPI_Bcast, data, root, comm, CallForm::Blocking)
    }

    fn MPI_Ibcast(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let data = BufferArgs { address: buffer, count: i64::from(count), datatype };
        bcast(FuncId::MPI_Ibcast, data, root, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Gather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        gather(FuncId::MPI_Gather, send, receive, root, comm, CallForm::Blocking)
    }

    fn MPI_Igather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        gather(FuncId::MPI_Igather, send, receive, root, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Scatter(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        scatter(FuncId::MPI_Scatter, send, receive, root, comm, CallForm::Blocking)
    }

    fn MPI_Iscatter(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        scatter(FuncId::MPI_Iscatter, send, receive, root, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        allgather(FuncId::MPI_Allgather, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Iallgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        allgather(FuncId::MPI_Iallgather, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        alltoall(FuncId::MPI_Alltoall, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ialltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        alltoall(FuncId::MPI_Ialltoall, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Bcast_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm) -> c_int {
        let data = BufferArgs { address: buffer, count, datatype };
        bcast(FuncId::MPI_Bcast_c, data, root, comm, CallForm::Blocking)
    }

    fn MPI_Ibcast_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let data = BufferArgs { address: buffer, count, datatype };
        bcast(FuncId::MPI_Ibcast_c, data, root, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Gather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        gather(FuncId::MPI_Gather_c, send, receive, root, comm, CallForm::Blocking)
    }

    fn MPI_Igather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        gather(FuncId::MPI_Igather_c, send, receive, root, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Scatter_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        scatter(FuncId::MPI_Scatter_c, send, receive, root, comm, CallForm::Blocking)
    }

    fn MPI_Iscatter_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        scatter(FuncId::MPI_Iscatter_c, send, receive, root, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        allgather(FuncId::MPI_Allgather_c, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Iallgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        allgather(FuncId::MPI_Iallgather_c, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        alltoall(FuncId::MPI_Alltoall_c, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ialltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        alltoall(FuncId::MPI_Ialltoall_c, send, receive, comm, CallForm::Nonblocking(request))
    }

}
