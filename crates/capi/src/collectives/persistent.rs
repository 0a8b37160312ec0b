//! Persistent collectives (MPI-5.0, "Persistent Collective Operations").
//!
//! Each function is the collective with another form: the request keeps the call with its data.
//! Arrays of counts, displacements and datatypes are read in this call only. No key of the info is
//! known. Tests: tests/c/persistent_*.c.

use super::reductions::{ReductionArgs, allreduce, exscan, reduce, reduce_scatter_block, scan};
use super::{BufferArgs, CallForm, allgather, alltoall, barrier, bcast, gather, scatter};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Comm, Count, Datatype, Info, Op, Request};
use std::ffi::{c_int, c_void};

mpi! {
    fn MPI_Barrier_init(comm: Comm, info: Info, request: *mut Request) -> c_int {
        barrier(FuncId::MPI_Barrier_init, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Bcast_init(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let data = BufferArgs { address: buffer, count: i64::from(count), datatype };
        bcast(FuncId::MPI_Bcast_init, data, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Gather_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        gather(FuncId::MPI_Gather_init, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Scatter_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        scatter(FuncId::MPI_Scatter_init, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Allgather_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        allgather(FuncId::MPI_Allgather_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Alltoall_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: i64::from(sendcount), datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: i64::from(recvcount), datatype: recvtype };
        alltoall(FuncId::MPI_Alltoall_init, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Reduce_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype, op: Op, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: i64::from(count), datatype, op };
        reduce(FuncId::MPI_Reduce_init, r, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Allreduce_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: i64::from(count), datatype, op };
        allreduce(FuncId::MPI_Allreduce_init, r, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Scan_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: i64::from(count), datatype, op };
        scan(FuncId::MPI_Scan_init, r, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Exscan_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: i64::from(count), datatype, op };
        exscan(FuncId::MPI_Exscan_init, r, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Reduce_scatter_block_init(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: c_int, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: i64::from(recvcount), datatype, op };
        reduce_scatter_block(FuncId::MPI_Reduce_scatter_block_init, r, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Bcast_init_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let data = BufferArgs { address: buffer, count, datatype };
        bcast(FuncId::MPI_Bcast_init_c, data, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Gather_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        gather(FuncId::MPI_Gather_init_c, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Scatter_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        scatter(FuncId::MPI_Scatter_init_c, send, receive, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Allgather_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        allgather(FuncId::MPI_Allgather_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Alltoall_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let send = BufferArgs { address: sendbuf, count: sendcount, datatype: sendtype };
        let receive = BufferArgs { address: recvbuf, count: recvcount, datatype: recvtype };
        alltoall(FuncId::MPI_Alltoall_init_c, send, receive, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Reduce_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype, op: Op, root: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count, datatype, op };
        reduce(FuncId::MPI_Reduce_init_c, r, root, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Allreduce_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count, datatype, op };
        allreduce(FuncId::MPI_Allreduce_init_c, r, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Scan_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count, datatype, op };
        scan(FuncId::MPI_Scan_init_c, r, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Exscan_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count, datatype, op };
        exscan(FuncId::MPI_Exscan_init_c, r, comm, CallForm::Persistent(info, request))
    }

    fn MPI_Reduce_scatter_block_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: Count, datatype: Datatype, op: Op, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let r = ReductionArgs { send: sendbuf, receive: recvbuf, count: recvcount, datatype, op };
        reduce_scatter_block(FuncId::MPI_Reduce_scatter_block_init_c, r, comm, CallForm::Persistent(info, request))
    }
}
