//! Files (MPI-5.0, chapter "I/O").
//!
//! A collective call with wrong arguments takes part as far as it can, so that other ranks do not
//! wait for it. `oxmpi_core` gets the error in place of the argument and decides how.

mod datareps;
mod explicit;
mod individual;
mod manage;
mod pointers;
mod shared;
mod split;
mod views;

pub(crate) use datareps::RegisteredDatareps;

use crate::errors::outcome;
use crate::library::{Running, library, null, put};
use crate::on::On;
use crate::statuses::put_status;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Datatype as TypeHandle, File as FileHandle, Request, Status};
use oxmpi_core::file::{Direction, File, FileElements, FilePosition as At, SplitKind};
use oxmpi_core::handler::HandlerCell;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

type FileBuffer = (*const c_void, i64, TypeHandle);

type AccessTarget = (Direction, At);

pub(crate) fn file(library: &Running, handle: FileHandle) -> Result<Arc<File>> {
    if handle == abi::MPI_FILE_NULL {
        return Err(MpiError::new(abi::MPI_ERR_FILE, "the file is MPI_FILE_NULL"));
    }
    match library.files.get(Handle::from_raw(handle as u64)) {
        Ok(file) => Ok(Arc::clone(&*file)),
        Err(bad) => Err(MpiError::new(abi::MPI_ERR_FILE, format!("the file {handle:#x}: {bad}"))),
    }
}

pub(crate) fn handler_of(library: &Running, handle: FileHandle) -> Option<Arc<HandlerCell>> {
    library
        .files
        .get(Handle::from_raw(handle as u64))
        .ok()
        .map(|file| Arc::clone(file.errhandler_cell()))
}

pub(crate) fn on_file(
    function: FuncId,
    handle: FileHandle,
    call: impl FnOnce(&'static Running, &Arc<File>) -> Result<()>,
) -> c_int {
    let result = library().and_then(|library| call(library, &file(library, handle)?));
    outcome(function, Some(On::File(handle)), result)
}

const NO_FILE: &str =
    "files are read to and written from memory of the host alone: copy the data there";

fn elements(library: &Running, (address, count, datatype): FileBuffer) -> Result<FileElements> {
    let buffer = library.buffer(address, count, datatype)?;
    let buffer = library.on_host(buffer, NO_FILE)?;
    Ok(FileElements { buffer, datatype: Arc::clone(&*library.datatype(datatype)?) })
}

fn access(
    function: FuncId,
    fh: FileHandle,
    (direction, at): AccessTarget,
    named: FileBuffer,
    status: *mut Status,
) -> c_int {
    on_file(function, fh, |library, file| {
        let done = file.access(&library.process, direction, at, elements(library, named)?)?;
        library.process.look_if_due();
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_status(status, &done) };
        Ok(())
    })
}

fn start(
    function: FuncId,
    fh: FileHandle,
    (direction, at): AccessTarget,
    named: FileBuffer,
    request: *mut Request,
) -> c_int {
    on_file(function, fh, |library, file| {
        if request.is_null() {
            return Err(null("request"));
        }
        let elements = elements(library, named)?;
        let started = library.process.start_file_access(file, direction, at, elements)?;
        library.process.look_if_due();
        // SAFETY: the C program passes a place for a handle.
        unsafe { put(request, started.raw() as Request, "request") }
    })
}

fn collective(
    function: FuncId,
    fh: FileHandle,
    (direction, at): AccessTarget,
    named: FileBuffer,
    status: *mut Status,
) -> c_int {
    on_file(function, fh, |library, file| {
        let done =
            library.process.file_collective(file, direction, at, elements(library, named))?;
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_status(status, &done) };
        Ok(())
    })
}

fn start_collective(
    function: FuncId,
    fh: FileHandle,
    (direction, at): AccessTarget,
    named: FileBuffer,
    request: *mut Request,
) -> c_int {
    on_file(function, fh, |library, file| {
        let elements =
            if request.is_null() { Err(null("request")) } else { elements(library, named) };
        let started = library.process.start_file_collective(file, direction, at, elements)?;
        // SAFETY: the C program passes a place for a handle.
        unsafe { put(request, started.raw() as Request, "request") }
    })
}

const fn kind(direction: Direction, name: &'static str) -> SplitKind {
    SplitKind { direction, name }
}

fn begin(function: FuncId, fh: FileHandle, kind: SplitKind, at: At, named: FileBuffer) -> c_int {
    on_file(function, fh, |library, file| {
        library.process.begin_split(file, kind, at, elements(library, named))
    })
}

fn end(
    function: FuncId,
    fh: FileHandle,
    kind: SplitKind,
    (buffer, status): (*const c_void, *mut Status),
) -> c_int {
    on_file(function, fh, |library, file| {
        let done = library.process.end_split(file, kind, buffer as usize)?;
        // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
        unsafe { put_status(status, &done) };
        Ok(())
    })
}
