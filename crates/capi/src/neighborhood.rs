//! Neighbourhood collectives (MPI-5.0 section 8.6): messages along the edges of a topology.
//!
//! All are one thing: a message for each edge. They differ in where the blocks of the buffers lie. Blocks of neighbours
//! that are MPI_PROC_NULL are not looked at and not touched.

use crate::collectives::vector::{NamedBlocks, Numbers, Side, Types, lengths};
use crate::collectives::{End, Named, movement_of};
use crate::errors::on_comm;
use crate::library::Running;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype, Request};
use oxmpi_coll::Area;
use oxmpi_core::topology::Neighborhood;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Call, Paired};
use std::ffi::{c_int, c_void};

/// A buffer of a neighbourhood collective, and where each of its blocks begins and how long it is.
type Placed = (Area, Box<dyn Fn(usize) -> (usize, usize)>);

/// One of the two buffers of a call.
#[derive(Clone, Copy)]
pub(crate) enum Buffer {
    /// One block, the same for all neighbours.
    ForAll(Named),
    /// Blocks of one length, one after the other.
    Even(Named),
    /// Blocks anywhere.
    Uneven(NamedBlocks),
}

impl Buffer {
    /// The memory of `used.len()` blocks.
    fn place(&self, library: &Running, used: &[bool]) -> Result<Placed> {
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
                (Area::Blocks(list), Box::new(move |block| (blocks.start(block), blocks.length(block))))
            }
        })
    }
}

pub(crate) fn neighbor(function: FuncId, send: Buffer, receive: Buffer, comm: Comm, end: End) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let around: Neighborhood<'_> = communicator.neighborhood()?;
        let (input, sent) = send.place(library, &around.sent())?;
        let (output, received) = receive.place(library, &around.received())?;
        let call = Call::Neighbor { edges: Paired(around.edges(sent, received)) };
        movement_of(library, communicator, call, (input, output), end)
    })
}

mpi! {
    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_allgather, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather_c, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_allgather_c, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_allgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(displs), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_allgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(displs), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_allgatherv, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_allgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(displs), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv_c, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_allgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(displs), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_allgatherv_c, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Even(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Even(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_alltoall, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Even(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall_c, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Even(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Ineighbor_alltoall_c, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_alltoallv(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Int(sdispls), types: Types::One(sendtype) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(rdispls), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_alltoallv(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Int(sdispls), types: Types::One(sendtype) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(rdispls), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_alltoallv, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_alltoallv_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::One(sendtype) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv_c, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_alltoallv_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::One(sendtype) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Ineighbor_alltoallv_c, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_alltoallw(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::Each(sendtypes) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_alltoallw(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::Each(sendtypes) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::Each(recvtypes) });
        neighbor(FuncId::MPI_Ineighbor_alltoallw, send, receive, comm, End::Later(request))
    }

    /// MPI-5.0 section 8.6.
    fn MPI_Neighbor_alltoallw_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::Each(sendtypes) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw_c, send, receive, comm, End::Here)
    }

    /// MPI-5.0 section 8.7.
    fn MPI_Ineighbor_alltoallw_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::Each(sendtypes) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::Each(recvtypes) });
        neighbor(FuncId::MPI_Ineighbor_alltoallw_c, send, receive, comm, End::Later(request))
    }
}
