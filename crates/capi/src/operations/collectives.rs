//! Collectives (MPI-5.0 chapter 6; nonblocking forms are in section 6.14).
//!
//! Each collective is one function that makes a [`Call`] and its buffers from the arguments. The
//! blocking, nonblocking, persistent and `_c` forms call it. Arguments that are significant only at
//! the root are not read at other ranks.
//!
//! This module has collectives that move data. Reductions are in `reductions`, blocks of different
//! lengths in `vector`, and intercommunicators in `inter`. Module `run` starts a call in any form.

use crate::arguments::{BufferArgs, CallForm};
use crate::errors::{on_comm, outcome};
use crate::state::library::Running;
use crate::state::on::On;
use arguments::check_blocks;
use inter::{RemoteBlocks, across};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Comm;
use oxmpi_core::Communicator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Collective, Shared};
use run::movement;
use std::ffi::c_int;

pub(crate) mod arguments;
mod inter;
pub(crate) mod reductions;
pub(crate) mod run;
mod short;
pub(crate) mod vector;

/// The packed bytes of each of `blocks` blocks.
fn block_of(all: &UserBuf, blocks: i32) -> usize {
    all.packed_len() / blocks.max(1) as usize
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

pub(crate) fn barrier(function: FuncId, comm: Comm, form: CallForm) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::barrier(comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        movement(library, communicator, Call::Barrier, (UserBuf::empty(), UserBuf::empty()), form)
    })
}

pub(crate) fn bcast(
    function: FuncId,
    data: BufferArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
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

pub(crate) fn gather(
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

pub(crate) fn scatter(
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

pub(crate) fn allgather(
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

pub(crate) fn alltoall(
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
