//! Files (MPI-5.0, chapter "I/O"): lookup and access. Tests: tests/c/file_basic.c,
//! tests/c/file_shared.c, tests/c/file_split.c.
//!
//! A collective call with wrong arguments takes part as far as it can, so that other ranks do not
//! wait for it. `oxmpi_core` gets the error in place of the argument and decides how.

pub(crate) mod datareps;
pub(crate) mod manage;
pub(crate) mod views;

use crate::arguments::{BufferArgs, NewObject, put};
use crate::errors::outcome;
use crate::state::library::{Running, library};
use crate::state::named::OfArgument;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::File as FileHandle;
pub(crate) use oxmpi_core::file::{Direction, FilePosition as At};
use oxmpi_core::file::{File, FileElements, SplitKind};
use oxmpi_engine::{Completion, RequestId};
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

pub(crate) fn on_file(
    function: FuncId,
    handle: FileHandle,
    argument: &'static str,
    call: impl FnOnce(&'static Running, &Arc<File>) -> Result<()>,
) -> c_int {
    let result = library().and_then(|library| call(library, &library.file(handle).of(argument)?));
    outcome(function, Some(On::File(handle)), result)
}

impl NewObject for Arc<File> {
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()> {
        let handle = library.files.insert(Arc::clone(&self)).raw() as FileHandle;
        self.errhandler_cell().set_object(handle);
        // SAFETY: by the contract of this function.
        unsafe { put(place, handle, argument) }
    }
}

const NO_FILE: &str =
    "files are read to and written from memory of the host alone: copy the data there";

fn elements(library: &Running, data: BufferArgs) -> Result<FileElements> {
    let buffer = library.on_host(data.buffer(library)?, NO_FILE)?;
    Ok(FileElements { buffer, datatype: Arc::clone(&*library.datatype(data.datatype)?) })
}

pub(crate) fn file_access(
    direction: Direction,
    at: At,
    library: &Running,
    file: &File,
    data: BufferArgs,
) -> Result<Completion> {
    let done = file.access(&library.process, direction, at, elements(library, data)?)?;
    library.process.look_if_due();
    Ok(done)
}

pub(crate) fn file_iaccess(
    direction: Direction,
    at: At,
    library: &Running,
    file: &File,
    data: BufferArgs,
) -> Result<RequestId> {
    let elements = elements(library, data)?;
    let started = library.process.start_file_access(file, direction, at, elements)?;
    library.process.look_if_due();
    Ok(started)
}

pub(crate) fn file_collective(
    direction: Direction,
    at: At,
    library: &Running,
    file: &Arc<File>,
    data: BufferArgs,
) -> Result<Completion> {
    library.process.file_collective(file, direction, at, elements(library, data))
}

pub(crate) fn file_icollective(
    direction: Direction,
    at: At,
    library: &Running,
    file: &Arc<File>,
    data: BufferArgs,
    places: Result<()>,
) -> Result<RequestId> {
    let elements = places.and_then(|()| elements(library, data));
    library.process.start_file_collective(file, direction, at, elements)
}

const fn split(direction: Direction, name: &'static str) -> SplitKind {
    SplitKind { direction, name }
}

pub(crate) const READ_ALL: SplitKind = split(Direction::Read, "MPI_File_read_all");
pub(crate) const READ_AT_ALL: SplitKind = split(Direction::Read, "MPI_File_read_at_all");
pub(crate) const READ_ORDERED: SplitKind = split(Direction::Read, "MPI_File_read_ordered");
pub(crate) const WRITE_ALL: SplitKind = split(Direction::Write, "MPI_File_write_all");
pub(crate) const WRITE_AT_ALL: SplitKind = split(Direction::Write, "MPI_File_write_at_all");
pub(crate) const WRITE_ORDERED: SplitKind = split(Direction::Write, "MPI_File_write_ordered");

pub(crate) fn file_begin(
    kind: SplitKind,
    at: At,
    library: &Running,
    file: &Arc<File>,
    data: BufferArgs,
) -> Result<()> {
    library.process.begin_split(file, kind, at, elements(library, data))
}

pub(crate) fn file_end(
    kind: SplitKind,
    library: &Running,
    file: &File,
    buffer: *const c_void,
) -> Result<Completion> {
    library.process.end_split(file, kind, buffer as usize)
}
