//! Persistent collectives whose ranks give blocks of different lengths; see `persistent`.

use super::reductions::Reducing;
use super::vector::{
    NamedBlocks, Numbers, Side, Types, allgatherv, alltoallv, gatherv, reduce_scatter, scatterv,
};
use super::{End, Named};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype, Info, Op, Request};
use std::ffi::{c_int, c_void};

mpi! {
    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Gatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(displs), types: Types::One(recvtype) };
        gatherv(FuncId::MPI_Gatherv_init, send, receive, root, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Gatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(displs), types: Types::One(recvtype) };
        gatherv(FuncId::MPI_Gatherv_init_c, send, receive, root, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Scatterv_init(sendbuf: *const c_void, sendcounts: *const c_int, displs: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Int(displs), types: Types::One(sendtype) };
        let receive = Named { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        scatterv(FuncId::MPI_Scatterv_init, send, receive, root, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Scatterv_init_c(sendbuf: *const c_void, sendcounts: *const Count, displs: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(displs), types: Types::One(sendtype) };
        let receive = Named { address: recvbuf, count: recvcount, datatype: recvtype };
        scatterv(FuncId::MPI_Scatterv_init_c, send, receive, root, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Allgatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(displs), types: Types::One(recvtype) };
        allgatherv(FuncId::MPI_Allgatherv_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Allgatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = Named { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(displs), types: Types::One(recvtype) };
        allgatherv(FuncId::MPI_Allgatherv_init_c, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Alltoallv_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Int(sdispls), types: Types::One(sendtype) };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(rdispls), types: Types::One(recvtype) };
        alltoallv(FuncId::MPI_Alltoallv_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Alltoallv_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::One(sendtype) };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::One(recvtype) };
        alltoallv(FuncId::MPI_Alltoallv_init_c, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Alltoallw_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Int(sendcounts), displacements: Numbers::Int(sdispls), types: Types::Each(sendtypes) };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Int(recvcounts), displacements: Numbers::Int(rdispls), types: Types::Each(recvtypes) };
        alltoallv(FuncId::MPI_Alltoallw_init, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Alltoallw_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = NamedBlocks { side: Side::Send, address: sendbuf, counts: Numbers::Count(sendcounts), displacements: Numbers::Aint(sdispls), types: Types::Each(sendtypes) };
        let receive = NamedBlocks { side: Side::Receive, address: recvbuf, counts: Numbers::Count(recvcounts), displacements: Numbers::Aint(rdispls), types: Types::Each(recvtypes) };
        alltoallv(FuncId::MPI_Alltoallw_init_c, send, receive, comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Reduce_scatter_init(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: *const c_int, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = Reducing { send: sendbuf, receive: recvbuf, count: 0, datatype, op };
        reduce_scatter(FuncId::MPI_Reduce_scatter_init, r, Numbers::Int(recvcounts), comm, End::Init(info, request))
    }

    /// MPI-5.0, "Persistent Collective Operations".
    fn MPI_Reduce_scatter_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: *const Count, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = Reducing { send: sendbuf, receive: recvbuf, count: 0, datatype, op };
        reduce_scatter(FuncId::MPI_Reduce_scatter_init_c, r, Numbers::Count(recvcounts), comm, End::Init(info, request))
    }
}
