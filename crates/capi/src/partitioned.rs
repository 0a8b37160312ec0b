//! Partitioned point-to-point communication (MPI-5.0 chapter 4). Tests: tests/c/partitioned_*.c.

use crate::errors::on_comm;
use crate::info;
use crate::library::{Running, array, check_count, null, put};
use crate::persistent::{check_not_null, give, raised_on};
use crate::requests::on_requests;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Count, Datatype, Info, Request};
use oxmpi_core::partitioned::{PartitionedBuffer, Ready};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{c_int, c_void};

#[derive(Clone, Copy)]
struct PartitionedArgs {
    buf: *const c_void,
    partitions: c_int,
    count: i64,
    datatype: Datatype,
    peer: c_int,
    tag: c_int,
    info: Info,
}

impl PartitionedArgs {
    fn parts(&self, library: &Running, request: *mut Request) -> Result<PartitionedBuffer> {
        if request.is_null() {
            return Err(null("request"));
        }
        // No key is known, but the handle must be valid.
        info::given(self.info)?;
        let Ok(partitions) = usize::try_from(self.partitions) else {
            let text = format!("partitions is {}; it must not be negative", self.partitions);
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        };
        check_count(self.count)?;
        let too_many = || {
            let PartitionedArgs { partitions, count, .. } = self;
            let text = format!(
                "{partitions} partitions of {count} elements do not fit the address space: make count or partitions smaller"
            );
            MpiError::new(abi::MPI_ERR_COUNT, text)
        };
        let all = self.count.checked_mul(i64::from(self.partitions)).ok_or_else(too_many)?;
        // The program has given the count of one partition, so the error names both factors.
        let buffer = library.buffer(self.buf, all, self.datatype).map_err(|error| {
            if error.class() == abi::MPI_ERR_COUNT { too_many() } else { error }
        })?;
        Ok(PartitionedBuffer { buffer, partitions })
    }
}

fn psend_init(function: FuncId, args: PartitionedArgs, comm: Comm, request: *mut Request) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let parts = args.parts(library, request)?;
        give(request, library.process.psend_init(communicator, parts, args.peer, args.tag)?)
    })
}

fn precv_init(function: FuncId, args: PartitionedArgs, comm: Comm, request: *mut Request) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let parts = args.parts(library, request)?;
        give(request, library.process.precv_init(communicator, parts, args.peer, args.tag)?)
    })
}

/// Runs a call on an existing request, on whose communicator errors are raised.
fn on_request(
    function: FuncId,
    request: Request,
    call: impl FnOnce(&Running, u64) -> Result<()>,
) -> c_int {
    on_requests(function, |library, failed| {
        check_not_null(request, "request")?;
        let done = call(library, request as u64);
        raised_on(library, request, &done, failed);
        done
    })
}

mpi! {
    fn MPI_Psend_init(buf: *const c_void, partitions: c_int, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let args = PartitionedArgs { buf, partitions, count, datatype, peer: dest, tag, info };
        psend_init(FuncId::MPI_Psend_init, args, comm, request)
    }

    fn MPI_Psend_init_c(buf: *const c_void, partitions: c_int, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let args = PartitionedArgs { buf, partitions, count, datatype, peer: dest, tag, info };
        psend_init(FuncId::MPI_Psend_init_c, args, comm, request)
    }

    fn MPI_Precv_init(buf: *mut c_void, partitions: c_int, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let args = PartitionedArgs { buf, partitions, count, datatype, peer: dest, tag, info };
        precv_init(FuncId::MPI_Precv_init, args, comm, request)
    }

    fn MPI_Precv_init_c(buf: *mut c_void, partitions: c_int, count: Count, datatype: Datatype, dest: c_int, tag: c_int, comm: Comm, info: Info, request: *mut Request) -> c_int {
        let args = PartitionedArgs { buf, partitions, count, datatype, peer: dest, tag, info };
        precv_init(FuncId::MPI_Precv_init_c, args, comm, request)
    }

    fn MPI_Pready(partition: c_int, request: Request) -> c_int {
        let ready = Ready::Range { low: partition, high: partition };
        on_request(FuncId::MPI_Pready, request, |library, request| library.process.pready(request, ready))
    }

    fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: Request) -> c_int {
        let ready = Ready::Range { low: partition_low, high: partition_high };
        on_request(FuncId::MPI_Pready_range, request, |library, request| library.process.pready(request, ready))
    }

    fn MPI_Pready_list(length: c_int, array_of_partitions: *const c_int, request: Request) -> c_int {
        on_request(FuncId::MPI_Pready_list, request, |library, request| {
            let Ok(length) = usize::try_from(length) else {
                let text = format!("length is {length}; it must not be negative");
                return Err(MpiError::new(abi::MPI_ERR_ARG, text));
            };
            // SAFETY: the C program passes an array of `length` integers.
            let list = unsafe { array(array_of_partitions, length, "array_of_partitions") }?;
            library.process.pready(request, Ready::List(list))
        })
    }

    fn MPI_Parrived(request: Request, partition: c_int, flag: *mut c_int) -> c_int {
        let arrived = |has_arrived: bool| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(flag, c_int::from(has_arrived), "flag") }
        };
        if request == abi::MPI_REQUEST_NULL {
            // MPI_REQUEST_NULL counts as arrived, like an inactive request.
            return on_requests(FuncId::MPI_Parrived, |_, _| arrived(true));
        }
        on_request(FuncId::MPI_Parrived, request, |library, request| {
            if flag.is_null() {
                return Err(null("flag"));
            }
            arrived(library.process.parrived(request, partition)?)
        })
    }
}
