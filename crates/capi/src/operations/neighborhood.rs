//! Neighbourhood collectives (MPI-5.0 section 8.6; nonblocking forms in section 8.7).
//!
//! Each sends one message per edge of a topology. The functions differ in the layout of their
//! buffers. Blocks of MPI_PROC_NULL neighbours are not read or written.

use crate::arguments::{BufferArgs, CallForm};
use crate::errors::on_comm;
use crate::operations::collectives::arguments::{BlockArgs, lengths};
use crate::operations::collectives::run::movement_of;
use crate::state::library::Running;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::Comm;
use oxmpi_coll::Area;
use oxmpi_core::topology::Neighborhood;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Call, Paired};
use std::ffi::c_int;

/// A buffer, and a function from a block's number to its start and length in bytes.
type PlacedBuffer = (Area, Box<dyn Fn(usize) -> (usize, usize)>);

#[derive(Clone, Copy)]
enum Buffer {
    /// The same block for all neighbours.
    ForAll(BufferArgs),
    /// Consecutive blocks of one length.
    Even(BufferArgs),
    Uneven(BlockArgs),
}

impl Buffer {
    /// The memory of `used.len()` blocks. Blocks that are not used are empty.
    fn place(&self, library: &Running, used: &[bool]) -> Result<PlacedBuffer> {
        Ok(match self {
            Buffer::ForAll(one) => {
                let buffer = one.buffer(library)?;
                let len = buffer.packed_len();
                (buffer.into(), Box::new(move |_| (0, len)))
            }
            Buffer::Even(named) => {
                let buffer = named.blocks(library, used.len() as i32)?;
                let len = buffer.packed_len() / used.len().max(1);
                (buffer.into(), Box::new(move |block| (block * len, len)))
            }
            Buffer::Uneven(named) => {
                let list = named.list(library, used.len(), |block| used[block])?;
                let blocks = lengths(&list, named.names)?;
                (
                    Area::Blocks(list),
                    Box::new(move |block| (blocks.start(block), blocks.length(block))),
                )
            }
        })
    }
}

fn neighbor(function: FuncId, send: Buffer, receive: Buffer, comm: Comm, form: CallForm) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let around: Neighborhood<'_> = communicator.neighborhood()?;
        let (input, sent) = send.place(library, &around.sent())?;
        let (output, received) = receive.place(library, &around.received())?;
        let call = Call::Neighbor { edges: Paired(around.edges(sent, received)) };
        movement_of(library, communicator, call, (input, output), form)
    })
}

pub(crate) fn neighbor_allgather(
    function: FuncId,
    send: BufferArgs,
    receive: BufferArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    neighbor(function, Buffer::ForAll(send), Buffer::Even(receive), comm, form)
}

pub(crate) fn neighbor_allgatherv(
    function: FuncId,
    send: BufferArgs,
    receive: BlockArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    neighbor(function, Buffer::ForAll(send), Buffer::Uneven(receive), comm, form)
}

pub(crate) fn neighbor_alltoall(
    function: FuncId,
    send: BufferArgs,
    receive: BufferArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    neighbor(function, Buffer::Even(send), Buffer::Even(receive), comm, form)
}

/// MPI_Neighbor_alltoallw too.
pub(crate) fn neighbor_alltoallv(
    function: FuncId,
    send: BlockArgs,
    receive: BlockArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    neighbor(function, Buffer::Uneven(send), Buffer::Uneven(receive), comm, form)
}
