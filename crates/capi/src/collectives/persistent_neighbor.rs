//! Persistent neighbourhood collectives (MPI-5.0, "Persistent Neighborhood Communication"); see `persistent`.

use super::vector::{NamedBlocks, Numbers, Side, Types};
use super::{End, Named};
use crate::neighborhood::{Buffer, neighbor};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype, Info, Request};
use std::ffi::{c_int, c_void};

mpi! {
    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_allgather_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_allgather_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_allgather_init_c, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_allgatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(displs), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_allgatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::ForAll(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(displs), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_allgatherv_init_c, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_alltoall_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Even(Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_alltoall_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Even(Named { address: sendbuf, count: sendcount, datatype: sendtype });
        let receive = Buffer::Even(Named { address: recvbuf, count: recvcount, datatype: recvtype });
        neighbor(FuncId::MPI_Neighbor_alltoall_init_c, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_alltoallv_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Int(sdispls), types: Types::One(sendtype) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(rdispls), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_alltoallv_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::One(sendtype) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::One(recvtype) });
        neighbor(FuncId::MPI_Neighbor_alltoallv_init_c, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_alltoallw_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::Each(sendtypes) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Neighborhood Communication".
    fn MPI_Neighbor_alltoallw_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Buffer::Uneven(NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::Each(sendtypes) });
        let receive = Buffer::Uneven(NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::Each(recvtypes) });
        neighbor(FuncId::MPI_Neighbor_alltoallw_init_c, send, receive, comm, End::Init(info, request))
    }
}
