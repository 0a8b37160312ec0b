//! The MPI errors for errors of the lower layers.

use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::{MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED};
use oxmpi_coll::CollError;
use oxmpi_engine::Fault;
use oxmpi_mem::buffer::StagingError;
use oxmpi_objects::error::MpiError;
use oxmpi_plan::PlanError;

pub(crate) fn of_fault(fault: Fault) -> MpiError {
    let class = match fault {
        Fault::Truncated { .. } => abi::MPI_ERR_TRUNCATE,
        Fault::Short { .. } => abi::MPI_ERR_COUNT,
        Fault::Lost { .. } => MPIX_ERR_PROC_FAILED,
        Fault::Pending { .. } => MPIX_ERR_PROC_FAILED_PENDING,
        Fault::Revoked => MPIX_ERR_REVOKED,
        Fault::Closed => abi::MPI_ERR_COMM,
        Fault::NoMemory => abi::MPI_ERR_NO_MEM,
        Fault::Operation => abi::MPI_ERR_OP,
        Fault::File { class, .. } => class,
        Fault::Handed => abi::MPI_ERR_OTHER,
        Fault::Outside => abi::MPI_ERR_RMA_RANGE,
        Fault::Device { address, code } => return of_device(address, code),
    };
    MpiError::new(class, fault.to_string())
}

/// The version and file of the CUDA driver that `library` names (`accelerator_cuda_library`).
pub fn find_cuda(library: &str) -> Result<String, String> {
    oxmpi_cuda::Driver::open(library)
        .map(|driver| driver.to_string())
        .map_err(|error| error.to_string())
}

/// Whether the kernel has a driver for CUDA devices.
pub fn has_device() -> bool {
    oxmpi_cuda::has_device()
}

/// The error of a failed copy of device memory.
pub fn staging_error(error: StagingError) -> MpiError {
    of_fault(error.into())
}

fn of_device(address: u64, code: i32) -> MpiError {
    let name = oxmpi_cuda::error_name(code);
    let text = format!(
        "the CUDA driver could not copy the buffer at {address:#x}, which is in the memory of a device: {name} ({code}). Either work \
        that the program gave to the device earlier has failed, or the buffer ends before its count says; compute-sanitizer finds both"
    );
    MpiError::new(abi::MPI_ERR_BUFFER, text)
}

pub(crate) fn fault_of(error: CollError) -> Fault {
    match error {
        CollError::Fault(fault) => fault,
        CollError::Scratch(_) => Fault::NoMemory,
        CollError::Reduce(_) => Fault::Operation,
    }
}

pub(crate) fn of_plan(error: PlanError) -> MpiError {
    let class = match error {
        PlanError::NoSuchRank { .. } => abi::MPI_ERR_ROOT,
        PlanError::TooLong { .. } => abi::MPI_ERR_COUNT,
        PlanError::TooManyRanks { .. } => abi::MPI_ERR_COMM,
        PlanError::OwnBlock { sent, received } if sent > received => abi::MPI_ERR_TRUNCATE,
        PlanError::OwnBlock { .. } => abi::MPI_ERR_COUNT,
        PlanError::WrongBlocks { .. } => abi::MPI_ERR_ARG,
        PlanError::Restricted { .. }
        | PlanError::WrongCollective { .. }
        | PlanError::WrongNodes { .. } => abi::MPI_ERR_INTERN,
    };
    MpiError::new(class, error.to_string())
}
