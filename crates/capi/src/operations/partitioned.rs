//! Partitioned point-to-point communication (MPI-5.0 chapter 4). Tests: tests/c/partitioned_*.c.

use crate::arguments::BufferArgs;
use crate::operations::info;
use crate::state::library::{Running, check_count};
use crate::state::named::CommArgument;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Info, Request};
use oxmpi_core::partitioned::{PartitionedBuffer, Ready};
use oxmpi_engine::RequestId;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

fn parts(
    library: &Running,
    part: BufferArgs,
    partitions: usize,
    info: Info,
) -> Result<PartitionedBuffer> {
    // No key is known, but the handle must be valid.
    info::given(info)?;
    check_count(part.count)?;
    let too_many = || {
        let text = format!(
            "{partitions} partitions of {} elements do not fit the address space: make count or partitions smaller",
            part.count
        );
        MpiError::new(abi::MPI_ERR_COUNT, text)
    };
    let count = part.count.checked_mul(partitions as i64).ok_or_else(too_many)?;
    // The program has given the count of one partition, so the error names both factors.
    let buffer = BufferArgs { count, ..part }
        .buffer(library)
        .map_err(|error| if error.class() == abi::MPI_ERR_COUNT { too_many() } else { error })?;
    Ok(PartitionedBuffer { buffer, partitions })
}

pub(crate) fn psend_init(
    library: &Running,
    part: BufferArgs,
    partitions: usize,
    dest: c_int,
    tag: c_int,
    comm: &CommArgument,
    info: Info,
) -> Result<RequestId> {
    library.process.psend_init(comm, parts(library, part, partitions, info)?, dest, tag)
}

pub(crate) fn precv_init(
    library: &Running,
    part: BufferArgs,
    partitions: usize,
    source: c_int,
    tag: c_int,
    comm: &CommArgument,
    info: Info,
) -> Result<RequestId> {
    library.process.precv_init(comm, parts(library, part, partitions, info)?, source, tag)
}

pub(crate) fn pready(library: &Running, partition: c_int, request: Request) -> Result<()> {
    pready_range(library, partition, partition, request)
}

pub(crate) fn pready_range(
    library: &Running,
    low: c_int,
    high: c_int,
    request: Request,
) -> Result<()> {
    library.process.pready(request as u64, Ready::Range { low, high })
}

pub(crate) fn pready_list(library: &Running, list: &[c_int], request: Request) -> Result<()> {
    library.process.pready(request as u64, Ready::List(list))
}

/// MPI_REQUEST_NULL counts as arrived, like an inactive request.
pub(crate) fn parrived(library: &Running, request: Request, partition: c_int) -> Result<bool> {
    Ok(request == abi::MPI_REQUEST_NULL || library.process.parrived(request as u64, partition)?)
}
