//! Error handlers as objects (MPI-5.0 section 9.3).
//!
//! A handler of the program has two counts: the program's references (one from `create`, one from
//! each `get`), and the objects with the handler. The handler is removed when both are zero, so the
//! program may free it while an object has it.

use crate::arguments::{CommArgument, OfArgument};
use crate::errors;
use crate::files;
use crate::library::{Running, library, null};
use crate::objects::{locked, objects};
use crate::on::On;
use crate::sessions;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{CommErrhandlerFunction, Errhandler, File};
use oxmpi_core::handler::{ErrorHandler, HandlerCell};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerKind {
    Comm,
    Win,
    File,
    Session,
}

impl HandlerKind {
    const fn name(self) -> &'static str {
        match self {
            HandlerKind::Comm => "communicators",
            HandlerKind::Win => "windows",
            HandlerKind::File => "files",
            HandlerKind::Session => "sessions",
        }
    }

    const fn argument(self) -> &'static str {
        match self {
            HandlerKind::Comm => "comm_errhandler_fn",
            HandlerKind::Win => "win_errhandler_fn",
            HandlerKind::File => "file_errhandler_fn",
            HandlerKind::Session => "session_errhandler_fn",
        }
    }
}

#[derive(Debug)]
pub(crate) struct UserHandler {
    pub(crate) kind: HandlerKind,
    pub(crate) function: usize,
    counts: Mutex<HandlerCounts>,
}

#[derive(Debug)]
struct HandlerCounts {
    held: usize,
    attached: usize,
}

impl HandlerCounts {
    const fn are_zero(&self) -> bool {
        self.held == 0 && self.attached == 0
    }
}

/// An object's reference to a handler.
struct AttachedHandler(Handle);

impl Drop for AttachedHandler {
    fn drop(&mut self) {
        let errhandlers = &objects().errhandlers;
        let over = errhandlers.get(self.0).is_ok_and(|handler| {
            let mut counts = locked(&handler.counts);
            counts.attached = counts.attached.saturating_sub(1);
            counts.are_zero()
        });
        if over {
            // Without references, no other thread frees the handler.
            let _ = errhandlers.free(self.0);
        }
    }
}

fn no_handler(handle: Errhandler, why: impl std::fmt::Display) -> MpiError {
    MpiError::new(abi::MPI_ERR_ERRHANDLER, format!("errhandler {handle:#x}: {why}"))
}

fn is_predefined(handle: Errhandler) -> Result<bool> {
    match handle {
        abi::MPI_ERRORS_ARE_FATAL | abi::MPI_ERRORS_ABORT | abi::MPI_ERRORS_RETURN => Ok(true),
        abi::MPI_ERRHANDLER_NULL => {
            Err(MpiError::new(abi::MPI_ERR_ERRHANDLER, "errhandler is MPI_ERRHANDLER_NULL"))
        }
        _ => Ok(false),
    }
}

/// Changes the counts of a handler that the program may use.
fn counted<R>(
    handle: Errhandler,
    change: impl FnOnce(&UserHandler, &mut HandlerCounts) -> Result<R>,
) -> Result<R> {
    let found = objects().errhandlers.get(Handle::from_raw(handle as u64));
    let handler = found.map_err(|bad| no_handler(handle, bad))?;
    let mut counts = locked(&handler.counts);
    if counts.held == 0 {
        return Err(no_handler(handle, "it has been freed"));
    }
    change(&handler, &mut counts)
}

pub(crate) fn attach(handle: Errhandler, kind: HandlerKind) -> Result<ErrorHandler> {
    if is_predefined(handle)? {
        return Ok(ErrorHandler::predefined(handle));
    }
    counted(handle, |handler, counts| {
        if handler.kind != kind {
            let why = format!("it is for {}, not for {}", handler.kind.name(), kind.name());
            return Err(no_handler(handle, why));
        }
        counts.attached += 1;
        Ok(())
    })?;
    Ok(ErrorHandler::made(handle, Arc::new(AttachedHandler(Handle::from_raw(handle as u64)))))
}

pub(crate) fn is_for(handle: Errhandler, kind: HandlerKind) -> bool {
    is_predefined(handle).unwrap_or(false)
        || counted(handle, |handler, _| Ok(handler.kind == kind)).unwrap_or(false)
}

/// The handle of an object's handler, with a new reference for the program.
pub(crate) fn refer(cell: &HandlerCell) -> Errhandler {
    let handler = cell.get();
    // The object keeps the handler in the table.
    if let Ok(made) = objects().errhandlers.get(Handle::from_raw(handler.handle as u64)) {
        locked(&made.counts).held += 1;
    }
    handler.handle
}

/// The function of a program's handler for objects of this kind.
pub(crate) fn function_of(handle: Errhandler, kind: HandlerKind) -> Option<usize> {
    let handler = objects().errhandlers.get(Handle::from_raw(handle as u64)).ok()?;
    (handler.kind == kind).then_some(handler.function)
}

pub(crate) fn of_int(int: u32) -> u64 {
    objects().errhandlers.from_int(int).raw()
}

/// Runs a call on the error handler cell of a file. For MPI_FILE_NULL, even before MPI_Init, this is
/// the default for new files.
fn of_file<R>(file: File, query: impl FnOnce(&HandlerCell) -> Result<R>) -> Result<R> {
    match file {
        abi::MPI_FILE_NULL => query(&objects().file_handler),
        _ => query(files::file(library()?, file)?.errhandler_cell()),
    }
}

/// Test of this module: tests/c/errhandler_user.c. The functions for all kinds of objects have the
/// same type, since all handles are addresses.
pub(crate) fn create_errhandler(
    kind: HandlerKind,
    function: Option<CommErrhandlerFunction>,
) -> Result<Errhandler> {
    let function = function.ok_or_else(|| null(kind.argument()))? as usize;
    let counts = Mutex::new(HandlerCounts { held: 1, attached: 0 });
    let handle = objects().errhandlers.insert(UserHandler { kind, function, counts });
    Ok(handle.raw() as Errhandler)
}

/// Test: tests/c/errhandler_inherit.c.
pub(crate) fn comm_set_errhandler(
    library: &Running,
    comm: &CommArgument,
    errhandler: Errhandler,
) -> Result<()> {
    comm.errhandler_cell().set(attach(errhandler, HandlerKind::Comm)?);
    if comm.handle == abi::MPI_COMM_SELF {
        library.own_handler_is_set.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// The program must free the new reference.
pub(crate) fn comm_get_errhandler(_: &Running, comm: &CommArgument) -> Result<Errhandler> {
    Ok(refer(comm.errhandler_cell()))
}

pub(crate) fn file_set_errhandler(file: File, errhandler: Errhandler) -> Result<()> {
    of_file(file, |cell| {
        cell.set(attach(errhandler, HandlerKind::File)?);
        Ok(())
    })
}

/// The program must free the new reference.
pub(crate) fn file_get_errhandler(file: File) -> Result<Errhandler> {
    of_file(file, |cell| Ok(refer(cell)))
}

/// MPI-5.0 section 9.5.
pub(crate) fn call_errhandler(
    function: FuncId,
    on: impl FnOnce(usize) -> On,
    handle: usize,
    errorcode: c_int,
) -> c_int {
    let on = on(handle);
    let found = match on {
        On::File(file) => of_file(file, |_| Ok(())).of("fh"),
        On::Session(session) => sessions::find(session).map(drop).of("session"),
        On::Win(win) => library().and_then(|library| library.window(win).map(drop)).of("win"),
        _ => library().and_then(|library| library.communicator(handle).map(drop)).of("comm"),
    };
    match found.and_then(|()| errors::check_code(errorcode)) {
        Ok(()) => errors::call_handler(function, on, errorcode),
        Err(error) => errors::raise(function, Some(on), error),
    }
}

/// Frees one reference of the program. Predefined handlers stay valid.
pub(crate) fn errhandler_free(errhandler: Errhandler) -> Result<Errhandler> {
    if is_predefined(errhandler)? {
        return Ok(abi::MPI_ERRHANDLER_NULL);
    }
    let over = counted(errhandler, |_, counts| {
        counts.held -= 1;
        Ok(counts.are_zero())
    })?;
    if over {
        let freed = objects().errhandlers.free(Handle::from_raw(errhandler as u64));
        freed.map_err(|bad| no_handler(errhandler, bad))?;
    }
    Ok(abi::MPI_ERRHANDLER_NULL)
}
