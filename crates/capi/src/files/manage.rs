//! Opening, closing and settings of files (MPI-5.0, "File Manipulation", "File Consistency").

use super::on_file;
use crate::errors::outcome;
use crate::arguments::NewObject;
use crate::info;
use crate::library::{fetch, library, null, put};
use crate::objects::objects;
use crate::on::On;
use crate::strings::text;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, File, Group, Info, Offset};
use oxmpi_core::file::{OpenArguments, delete_file};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// # Safety
/// `filename` must be null or a string that lives as long as the result.
unsafe fn name<'a>(filename: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: by the contract of this function.
    match unsafe { text(filename, "filename") }? {
        [] => Err(MpiError::new(abi::MPI_ERR_BAD_FILE, "filename is empty")),
        name => Ok(name),
    }
}

fn open(
    comm: Comm,
    filename: *const c_char,
    amode: c_int,
    info: Info,
    fh: *mut File,
) -> Result<()> {
    let library = library()?;
    let communicator = Arc::clone(&*library.communicator(comm)?);
    // SAFETY: the C program passes a string.
    let name = unsafe { name(filename) };
    let name = if fh.is_null() { Err(null("fh")) } else { name };
    let byte = Arc::clone(&*library.datatype(abi::MPI_BYTE)?);
    let open = OpenArguments {
        name,
        amode,
        info: info::given(info),
        errhandler: objects().file_handler.get(),
        byte,
    };
    let file = library.process.open_file(&communicator, open)?;
    let handle = library.files.insert(Arc::clone(&file)).raw() as File;
    file.errhandler_cell().set_object(handle);
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(fh, handle, "fh") }
}

mpi! {
    /// Errors are raised on MPI_FILE_NULL. Tests: tests/c/file_basic.c, tests/c/file_errors.c.
    fn MPI_File_open(comm: Comm, filename: *const c_char, amode: c_int, info: Info, fh: *mut File) -> c_int {
        let result = open(comm, filename, amode, info, fh);
        outcome(FuncId::MPI_File_open, Some(On::File(abi::MPI_FILE_NULL)), result)
    }

    fn MPI_File_close(fh: *mut File) -> c_int {
        // SAFETY: the C program passes a place with a handle.
        let handle = match unsafe { fetch(fh, "fh") } {
            Ok(handle) => handle,
            Err(error) => return outcome(FuncId::MPI_File_close, None, Err(error)),
        };
        // A successful close removes the file's handler, so later errors are raised on
        // MPI_FILE_NULL.
        let mut on = On::File(handle);
        let result = (|| {
            let library = library()?;
            let file = super::file(library, handle)?;
            let closed = library.process.close_file(&file)?;
            let freed = library.files.free(Handle::from_raw(handle as u64));
            freed.map_err(|bad| MpiError::new(abi::MPI_ERR_FILE, bad.to_string()))?;
            on = On::File(abi::MPI_FILE_NULL);
            // SAFETY: `fh` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(fh, abi::MPI_FILE_NULL, "fh") }?;
            closed
        })();
        outcome(FuncId::MPI_File_close, Some(on), result)
    }

    /// Errors are raised on MPI_FILE_NULL.
    fn MPI_File_delete(filename: *const c_char, info: Info) -> c_int {
        let result = (|| {
            library()?;
            info::given(info)?;
            // SAFETY: the C program passes a string.
            delete_file(unsafe { name(filename) }?)
        })();
        outcome(FuncId::MPI_File_delete, Some(On::File(abi::MPI_FILE_NULL)), result)
    }

    fn MPI_File_set_size(fh: File, size: Offset) -> c_int {
        on_file(FuncId::MPI_File_set_size, fh, |library, file| library.process.set_file_size(file, size))
    }

    fn MPI_File_preallocate(fh: File, size: Offset) -> c_int {
        on_file(FuncId::MPI_File_preallocate, fh, |library, file| library.process.preallocate_file(file, size))
    }

    fn MPI_File_get_size(fh: File, size: *mut Offset) -> c_int {
        on_file(FuncId::MPI_File_get_size, fh, |_, file| {
            // SAFETY: the C program passes a place for a number.
            unsafe { put(size, file.size()? as Offset, "size") }
        })
    }

    fn MPI_File_get_group(fh: File, group: *mut Group) -> c_int {
        on_file(FuncId::MPI_File_get_group, fh, |library, file| {
            unsafe { (file.group()?).give(library, group, "group") }
        })
    }

    fn MPI_File_get_amode(fh: File, amode: *mut c_int) -> c_int {
        on_file(FuncId::MPI_File_get_amode, fh, |_, file| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(amode, file.amode(), "amode") }
        })
    }

    /// Unknown hints are ignored; the values of the first rank count.
    fn MPI_File_set_info(fh: File, info: Info) -> c_int {
        on_file(FuncId::MPI_File_set_info, fh, |library, file| {
            library.process.set_file_info(file, info::given(info))
        })
    }

    /// Returns all known hints with their current values.
    fn MPI_File_get_info(fh: File, info_used: *mut Info) -> c_int {
        on_file(FuncId::MPI_File_get_info, fh, |_, file| info::give(file.hints().info(), info_used, "info_used"))
    }

    fn MPI_File_set_atomicity(fh: File, flag: c_int) -> c_int {
        on_file(FuncId::MPI_File_set_atomicity, fh, |library, file| library.process.set_atomicity(file, flag != 0))
    }

    fn MPI_File_get_atomicity(fh: File, flag: *mut c_int) -> c_int {
        on_file(FuncId::MPI_File_get_atomicity, fh, |_, file| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(flag, c_int::from(file.is_atomic()), "flag") }
        })
    }

    fn MPI_File_sync(fh: File) -> c_int {
        on_file(FuncId::MPI_File_sync, fh, |library, file| library.process.sync_file(file))
    }
}
