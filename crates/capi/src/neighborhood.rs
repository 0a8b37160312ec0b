//! Neighbourhood collectives (MPI-5.0 section 8.6; nonblocking forms in section 8.7).
//!
//! Each sends one message per edge of a topology. The functions differ in the layout of their
//! buffers. Blocks of MPI_PROC_NULL neighbours are not read or written.

use crate::collectives::vector::{BlockArgs, BlockTypes, BufferSide, NumberArray, lengths};
use crate::collectives::{BufferArgs, CallForm, movement_of};
use crate::errors::on_comm;
use crate::library::Running;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype, Request};
use oxmpi_coll::Area;
use oxmpi_core::topology::Neighborhood;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Call, Paired};
use std::ffi::{c_int, c_void};

/// A buffer, and a function from a block's number to its start and length in bytes.
type PlacedBuffer = (Area, Box<dyn Fn(usize) -> (usize, usize)>);

#[derive(Clone, Copy)]
pub(crate) enum Buffer {
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
                let blocks = lengths(&list, named.side)?;
                (
                    Area::Blocks(list),
                    Box::new(move |block| (blocks.start(block), blocks.length(block))),
                )
            }
        })
    }
}

pub(crate) fn neighbor(
    function: FuncId,
    send: Buffer,
    receive: Buffer,
    comm: Comm,
    form: CallForm,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let around: Neighborhood<'_> = communicator.neighborhood()?;
        let (input, sent) = send.place(library, &around.sent())?;
        let (output, received) = receive.place(library, &around.received())?;
        let call = Call::Neighbor { edges: Paired(around.edges(sent, received)) };
        movement_of(library, communicator, call, (input, output), form)
    })
}

mpi! {
    fn MPI_Neighbor_allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_allgather, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather_c, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_allgather_c, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_allgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(displs), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_allgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(displs), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_allgatherv, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_allgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(displs), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv_c, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_allgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(displs), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_allgatherv_c, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Even(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Even(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_alltoall, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Even(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall_c, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Even(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_alltoall_c, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_alltoallv(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Int(sdispls), types: BlockTypes::One(sendtype) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(rdispls), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_alltoallv(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Int(sdispls), types: BlockTypes::One(sendtype) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(rdispls), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_alltoallv, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_alltoallv_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::One(sendtype) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv_c, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_alltoallv_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::One(sendtype) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_alltoallv_c, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_alltoallw(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::Each(sendtypes) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_alltoallw(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::Each(sendtypes) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::Each(recvtypes) });
        neighbor(FuncId::MPI_Ineighbor_alltoallw, send, receive, comm, CallForm::Nonblocking(request))
    }

    fn MPI_Neighbor_alltoallw_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::Each(sendtypes) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw_c, send, receive, comm, CallForm::Blocking)
    }

    fn MPI_Ineighbor_alltoallw_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::Each(sendtypes) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::Each(recvtypes) });
        neighbor(FuncId::MPI_Ineighbor_alltoallw_c, send, receive, comm, CallForm::Nonblocking(request))
    }
}
