//! Memory from the library (MPI-5.0 section 9.2).
//!
//! The memory comes from the heap in this process's segment, from which receivers copy long
//! messages directly. If the heap is full, the memory is ordinary, which is only slower.

use crate::operations::info;
use crate::state::library::Running;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Info};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_sys::memory::Memory;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// The alignment in bytes that an info requests (mpi_minimum_memory_alignment, MPI-5.0 section
/// 9.2).
fn alignment(info: Info) -> Result<usize> {
    let info = info::given(info)?;
    let Some(wanted) = info.hint("mpi_minimum_memory_alignment") else { return Ok(1) };
    wanted.trim().parse::<usize>().ok().filter(|align| align.is_power_of_two()).ok_or_else(|| {
        let text = format!("mpi_minimum_memory_alignment is {wanted}; it must be a power of two");
        MpiError::new(abi::MPI_ERR_INFO_VALUE, text)
    })
}

/// Memory of size 0 has its own address, and must be freed. Test: tests/c/alloc_mem.c.
pub(crate) fn alloc_mem(library: &Running, size: Aint, info: Info) -> Result<*mut c_void> {
    let bytes = usize::try_from(size).map_err(|_| {
        MpiError::new(abi::MPI_ERR_ARG, format!("size is {size}; it must not be negative"))
    })?;
    let align = alignment(info)?;
    let from_heap = library.process.heap().and_then(|heap| heap.allocate(bytes, align));
    let address = from_heap
        .map(|at| at.as_ptr().expose_provenance())
        .or_else(|| library.ordinary_memory.allocate(bytes, align))
        .ok_or_else(|| {
            MpiError::new(
                abi::MPI_ERR_NO_MEM,
                format!("there is no memory for {bytes} bytes aligned to {align}"),
            )
        })?;
    if library.process.keeps_memory()
        && let Some(at) = NonNull::new(std::ptr::with_exposed_provenance_mut(address))
    {
        // SAFETY: the bytes are mapped for reading and writing until MPI_Free_mem. That function
        // first calls `forget_memory`, which ends all uses of this value.
        library.process.keep_memory(&unsafe { Memory::from_raw(at, bytes, Arc::new(())) });
    }
    Ok(std::ptr::with_exposed_provenance_mut(address))
}

/// A null pointer is ignored, as by free(3): programs rely on it.
pub(crate) fn free_mem(library: &Running, base: *mut c_void) -> Result<()> {
    if base.is_null() {
        return Ok(());
    }
    let address = base.addr();
    library.process.forget_memory(address);
    // SAFETY: the C program does not use the memory any more.
    let freed = unsafe {
        library.process.heap().is_some_and(|heap| heap.free(address))
            || library.ordinary_memory.free(address)
    };
    if freed {
        return Ok(());
    }
    let text =
        format!("base is {base:p}, which MPI_Alloc_mem did not return, or which was freed before");
    Err(MpiError::new(abi::MPI_ERR_BASE, text))
}
