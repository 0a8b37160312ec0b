//! Persistent collectives with blocks of different lengths (MPI-5.0, "Persistent Collective
//! Operations").

use super::reductions::ReductionArgs;
use super::vector::{
    BlockArgs, BlockTypes, BufferSide, NumberArray, allgatherv, alltoallv, gatherv, reduce_scatter,
    scatterv,
};
use super::{BufferArgs, CallForm};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype, Info, Op, Request};
use std::ffi::{c_int, c_void};

mpi! {
    fn MPI_Gatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(displs), types: BlockTypes::One(recvtype) };
        gatherv(FuncId::MPI_Gatherv_init, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Gatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(displs), types: BlockTypes::One(recvtype) };
        gatherv(FuncId::MPI_Gatherv_init_c, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Scatterv_init(sendbuf: *const c_void, sendcounts: *const c_int, displs: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Int(displs), types: BlockTypes::One(sendtype) };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        scatterv(FuncId::MPI_Scatterv_init, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Scatterv_init_c(sendbuf: *const c_void, sendcounts: *const Count, displs: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(displs), types: BlockTypes::One(sendtype) };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        scatterv(FuncId::MPI_Scatterv_init_c, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Allgatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(displs), types: BlockTypes::One(recvtype) };
        allgatherv(FuncId::MPI_Allgatherv_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Allgatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(displs), types: BlockTypes::One(recvtype) };
        allgatherv(FuncId::MPI_Allgatherv_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Alltoallv_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Int(sdispls), types: BlockTypes::One(sendtype) };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(rdispls), types: BlockTypes::One(recvtype) };
        alltoallv(FuncId::MPI_Alltoallv_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Alltoallv_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtype: Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::One(sendtype) };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::One(recvtype) };
        alltoallv(FuncId::MPI_Alltoallv_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Alltoallw_init(sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Int(sendcounts), displacements: NumberArray::Int(sdispls), types: BlockTypes::Each(sendtypes) };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Int(recvcounts), displacements: NumberArray::Int(rdispls), types: BlockTypes::Each(recvtypes) };
        alltoallv(FuncId::MPI_Alltoallw_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Alltoallw_init_c(sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Aint, sendtypes: *const Datatype, recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Aint, recvtypes: *const Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BlockArgs { side: BufferSide::Send, address: sendbuf, counts: NumberArray::Count(sendcounts), displacements: NumberArray::Aint(sdispls), types: BlockTypes::Each(sendtypes) };
        let receive = BlockArgs { side: BufferSide::Receive, address: recvbuf, counts: NumberArray::Count(recvcounts), displacements: NumberArray::Aint(rdispls), types: BlockTypes::Each(recvtypes) };
        alltoallv(FuncId::MPI_Alltoallw_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Reduce_scatter_init(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: *const c_int, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: 0, datatype, op };
        reduce_scatter(FuncId::MPI_Reduce_scatter_init, r, NumberArray::Int(recvcounts), comm, CallForm::Persistent(info, request))
    }

    fn MPI_Reduce_scatter_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: *const Count, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: 0, datatype, op };
        reduce_scatter(FuncId::MPI_Reduce_scatter_init_c, r, NumberArray::Count(recvcounts), comm, CallForm::Persistent(info, request))
    }
}
