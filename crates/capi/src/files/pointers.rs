//! File pointers (MPI-5.0, "Data Access"): seek and position.

use super::on_file;
use crate::library::put;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{File, Offset};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

/// # Safety
/// `place` must be null or writable.
unsafe fn put_offset(place: *mut Offset, value: u64) -> Result<()> {
    let too_large = |_| {
        let text = format!("the offset {value} does not fit into MPI_Offset");
        MpiError::new(oxmpi_abi::constants::MPI_ERR_VALUE_TOO_LARGE, text)
    };
    // SAFETY: by the contract of this function.
    unsafe { put(place, Offset::try_from(value).map_err(too_large)?, "offset") }
}

mpi! {
    /// Test: tests/c/file_seek.c.
    fn MPI_File_seek(fh: File, offset: Offset, whence: c_int) -> c_int {
        on_file(FuncId::MPI_File_seek, fh, |_, file| file.seek(offset, whence))
    }

    fn MPI_File_get_position(fh: File, offset: *mut Offset) -> c_int {
        on_file(FuncId::MPI_File_get_position, fh, |_, file| {
            // SAFETY: the C program passes a place for a number.
            unsafe { put_offset(offset, file.position()?) }
        })
    }

    fn MPI_File_get_byte_offset(fh: File, offset: Offset, disp: *mut Offset) -> c_int {
        on_file(FuncId::MPI_File_get_byte_offset, fh, |_, file| {
            // SAFETY: the C program passes a place for a number.
            unsafe { put_offset(disp, file.byte_offset(offset)?) }
        })
    }

    fn MPI_File_seek_shared(fh: File, offset: Offset, whence: c_int) -> c_int {
        on_file(FuncId::MPI_File_seek_shared, fh, |library, file| library.process.seek_shared(file, offset, whence))
    }

    fn MPI_File_get_position_shared(fh: File, offset: *mut Offset) -> c_int {
        on_file(FuncId::MPI_File_get_position_shared, fh, |library, file| {
            // SAFETY: the C program passes a place for a number.
            unsafe { put_offset(offset, library.process.shared_position(file)?) }
        })
    }
}
