//! Opening, closing, settings and pointers of files (MPI-5.0, "File Manipulation", "File
//! Consistency", "Data Access"). Tests: tests/c/file_basic.c, tests/c/file_errors.c,
//! tests/c/file_seek.c.

use crate::arguments::{fetch, put};
use crate::errors::outcome;
use crate::operations::info;
use crate::state::library::{CommRef, Running, library};
use crate::state::named::OfArgument;
use crate::state::objects::objects;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{File as FileHandle, Info as InfoHandle, Offset};
use oxmpi_core::file::{File, OpenArguments, delete_file};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::info::Info;
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::ffi::c_int;
use std::sync::Arc;

fn not_empty(name: &[u8]) -> Result<&[u8]> {
    match name {
        [] => Err(MpiError::new(abi::MPI_ERR_BAD_FILE, "filename is empty")),
        name => Ok(name),
    }
}

pub(crate) fn file_open(
    library: &Running,
    comm: Result<CommRef<'_>>,
    filename: Result<&[u8]>,
    amode: c_int,
    info: InfoHandle,
    places: Result<()>,
) -> Result<Arc<File>> {
    let open = OpenArguments {
        name: places.and(filename).and_then(not_empty),
        amode,
        info: info::given(info),
        errhandler: objects().file_handler.get(),
        byte: Arc::clone(&*library.datatype(abi::MPI_BYTE)?),
    };
    library.process.open_file(&*comm?, open)
}

pub(crate) fn file_close(function: FuncId, fh: *mut FileHandle) -> c_int {
    // SAFETY: the C program passes a place with a handle.
    let handle = match unsafe { fetch(fh, "fh") } {
        Ok(handle) => handle,
        Err(error) => return outcome(function, None, Err(error)),
    };
    // A successful close removes the file's handler, so later errors are raised on MPI_FILE_NULL.
    let mut on = On::File(handle);
    let result = library().and_then(|library| {
        let file = library.file(handle).of("fh")?;
        let closed = library.process.close_file(&file)?;
        let freed = library.files.free(Handle::from_raw(handle as u64));
        freed.map_err(|bad| bad_handle(ValueKind::File, handle as u64, bad))?;
        on = On::File(abi::MPI_FILE_NULL);
        // SAFETY: `fh` is not null, as `fetch` has checked, and holds a handle.
        unsafe { put(fh, abi::MPI_FILE_NULL, "fh") }?;
        closed
    });
    outcome(function, Some(on), result)
}

pub(crate) fn file_delete(_: &Running, filename: &[u8], info: InfoHandle) -> Result<()> {
    info::given(info)?;
    delete_file(not_empty(filename)?)
}

pub(crate) fn file_set_size(library: &Running, file: &File, size: Offset) -> Result<()> {
    library.process.set_file_size(file, size)
}

pub(crate) fn file_preallocate(library: &Running, file: &File, size: Offset) -> Result<()> {
    library.process.preallocate_file(file, size)
}

pub(crate) fn file_get_size(_: &Running, file: &File) -> Result<u64> {
    file.size()
}

pub(crate) fn file_get_group(_: &Running, file: &File) -> Result<Group> {
    file.group()
}

pub(crate) fn file_get_amode(_: &Running, file: &File) -> Result<c_int> {
    Ok(file.amode())
}

/// Unknown hints are ignored; the values of the first rank count.
pub(crate) fn file_set_info(library: &Running, file: &File, info: InfoHandle) -> Result<()> {
    library.process.set_file_info(file, info::given(info))
}

/// All known hints with their current values.
pub(crate) fn file_get_info(_: &Running, file: &File) -> Result<Info> {
    Ok(file.hints().info())
}

pub(crate) fn file_set_atomicity(library: &Running, file: &File, flag: bool) -> Result<()> {
    library.process.set_atomicity(file, flag)
}

pub(crate) fn file_get_atomicity(_: &Running, file: &File) -> Result<bool> {
    Ok(file.is_atomic())
}

pub(crate) fn file_sync(library: &Running, file: &File) -> Result<()> {
    library.process.sync_file(file)
}

pub(crate) fn file_seek(_: &Running, file: &File, offset: Offset, whence: c_int) -> Result<()> {
    file.seek(offset, whence)
}

pub(crate) fn file_seek_shared(
    library: &Running,
    file: &File,
    offset: Offset,
    whence: c_int,
) -> Result<()> {
    library.process.seek_shared(file, offset, whence)
}

pub(crate) fn file_get_position(_: &Running, file: &File) -> Result<u64> {
    file.position()
}

pub(crate) fn file_get_position_shared(library: &Running, file: &File) -> Result<u64> {
    library.process.shared_position(file)
}

pub(crate) fn file_get_byte_offset(_: &Running, file: &File, offset: Offset) -> Result<u64> {
    file.byte_offset(offset)
}
