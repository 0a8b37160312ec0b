//! Persistent neighbourhood collectives (MPI-5.0, "Persistent Neighborhood Communication").

use super::vector::{BlockArgs, BlockTypes, BufferSide, NumberArray};
use super::{BufferArgs, CallForm};
use crate::neighborhood::{Buffer, neighbor};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype, Info, Request};
use std::ffi::{c_int, c_void};

mpi! {
    fn MPI_Neighbor_allgather_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_allgather_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_allgatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(displs), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_allgatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(displs), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_alltoall_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Even(BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_alltoall_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Even(BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_alltoallv_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Int(sdispls), types: BlockTypes::One(sendtype) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(rdispls), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_alltoallv_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::One(sendtype) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_alltoallw_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::Each(sendtypes) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Neighbor_alltoallw_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::Each(sendtypes) });
        let receive = Buffer::Uneven(BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }
}
