//! Error handlers as objects (MPI-5.0 section 9.3).
//!
//! A handler of the program has two counts: the program's references (one from `create`, one from
//! each `get`), and the objects with the handler. The handler is removed when both are zero, so the
//! program may free it while an object has it.

use crate::errors::{self, on_comm, outcome};
use crate::files;
use crate::library::{fetch, library, null, put};
use crate::objects::{locked, objects};
use crate::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Comm, CommErrhandlerFunction, Errhandler, File, FileErrhandlerFunction,
    SessionErrhandlerFunction, WinErrhandlerFunction,
};
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
    MpiError::new(abi::MPI_ERR_ERRHANDLER, format!("the error handler {handle:#x}: {why}"))
}

fn is_predefined(handle: Errhandler) -> Result<bool> {
    match handle {
        abi::MPI_ERRORS_ARE_FATAL | abi::MPI_ERRORS_ABORT | abi::MPI_ERRORS_RETURN => Ok(true),
        abi::MPI_ERRHANDLER_NULL => {
            Err(MpiError::new(abi::MPI_ERR_ERRHANDLER, "the error handler is MPI_ERRHANDLER_NULL"))
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

fn create(
    kind: HandlerKind,
    function: Option<usize>,
    what: &str,
    place: *mut Errhandler,
) -> Result<()> {
    let function = function.ok_or_else(|| null(what))?;
    if place.is_null() {
        return Err(null("errhandler"));
    }
    let counts = HandlerCounts { held: 1, attached: 0 };
    let handle =
        objects().errhandlers.insert(UserHandler { kind, function, counts: Mutex::new(counts) });
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, handle.raw() as Errhandler, "errhandler") }
}

/// Frees one reference of the program.
fn free(handle: Errhandler) -> Result<()> {
    if is_predefined(handle)? {
        return Ok(());
    }
    let over = counted(handle, |_, counts| {
        counts.held -= 1;
        Ok(counts.are_zero())
    })?;
    if over {
        let freed = objects().errhandlers.free(Handle::from_raw(handle as u64));
        freed.map_err(|bad| no_handler(handle, bad))?;
    }
    Ok(())
}

/// Runs a call on the error handler cell of a file. For MPI_FILE_NULL this is the default for new
/// files.
fn of_file<R>(file: File, query: impl FnOnce(&HandlerCell) -> Result<R>) -> Result<R> {
    match file {
        abi::MPI_FILE_NULL => query(&objects().file_handler),
        _ => query(files::file(library()?, file)?.errhandler_cell()),
    }
}

mpi! {
    /// Test of this module: tests/c/errhandler_user.c.
    fn MPI_Comm_create_errhandler(comm_errhandler_fn: Option<CommErrhandlerFunction>, errhandler: *mut Errhandler) -> c_int {
        let function = comm_errhandler_fn.map(|f| f as usize);
        outcome(FuncId::MPI_Comm_create_errhandler, None, create(HandlerKind::Comm, function, "comm_errhandler_fn", errhandler))
    }

    fn MPI_Win_create_errhandler(win_errhandler_fn: Option<WinErrhandlerFunction>, errhandler: *mut Errhandler) -> c_int {
        let function = win_errhandler_fn.map(|f| f as usize);
        outcome(FuncId::MPI_Win_create_errhandler, None, create(HandlerKind::Win, function, "win_errhandler_fn", errhandler))
    }

    fn MPI_File_create_errhandler(file_errhandler_fn: Option<FileErrhandlerFunction>, errhandler: *mut Errhandler) -> c_int {
        let function = file_errhandler_fn.map(|f| f as usize);
        outcome(FuncId::MPI_File_create_errhandler, None, create(HandlerKind::File, function, "file_errhandler_fn", errhandler))
    }

    fn MPI_Session_create_errhandler(session_errhandler_fn: Option<SessionErrhandlerFunction>, errhandler: *mut Errhandler) -> c_int {
        let function = session_errhandler_fn.map(|f| f as usize);
        outcome(FuncId::MPI_Session_create_errhandler, None, create(HandlerKind::Session, function, "session_errhandler_fn", errhandler))
    }

    /// Test: tests/c/errhandler_inherit.c.
    fn MPI_Comm_set_errhandler(comm: Comm, errhandler: Errhandler) -> c_int {
        on_comm(FuncId::MPI_Comm_set_errhandler, comm, |library, communicator| {
            communicator.errhandler_cell().set(attach(errhandler, HandlerKind::Comm)?);
            if comm == abi::MPI_COMM_SELF {
                library.own_handler_is_set.store(true, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    /// The program must free the new reference.
    fn MPI_Comm_get_errhandler(comm: Comm, errhandler: *mut Errhandler) -> c_int {
        on_comm(FuncId::MPI_Comm_get_errhandler, comm, |_, communicator| {
            if errhandler.is_null() {
                return Err(null("errhandler"));
            }
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(errhandler, refer(communicator.errhandler_cell()), "errhandler") }
        })
    }

    /// MPI-5.0 section 9.5.
    fn MPI_Comm_call_errhandler(comm: Comm, errorcode: c_int) -> c_int {
        let checked = library().and_then(|library| {
            library.communicator(comm)?;
            errors::check_code(errorcode)
        });
        match checked {
            Ok(()) => errors::call_handler(FuncId::MPI_Comm_call_errhandler, On::Comm(comm), errorcode),
            Err(error) => errors::raise(FuncId::MPI_Comm_call_errhandler, Some(On::Comm(comm)), error),
        }
    }

    fn MPI_File_set_errhandler(file: File, errhandler: Errhandler) -> c_int {
        let set = of_file(file, |cell| {
            cell.set(attach(errhandler, HandlerKind::File)?);
            Ok(())
        });
        outcome(FuncId::MPI_File_set_errhandler, Some(On::File(file)), set)
    }

    /// The program must free the new reference.
    fn MPI_File_get_errhandler(file: File, errhandler: *mut Errhandler) -> c_int {
        let got = of_file(file, |cell| {
            if errhandler.is_null() {
                return Err(null("errhandler"));
            }
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(errhandler, refer(cell), "errhandler") }
        });
        outcome(FuncId::MPI_File_get_errhandler, Some(On::File(file)), got)
    }

    /// MPI-5.0 section 9.5.
    fn MPI_File_call_errhandler(fh: File, errorcode: c_int) -> c_int {
        match of_file(fh, |_| errors::check_code(errorcode)) {
            Ok(()) => errors::call_handler(FuncId::MPI_File_call_errhandler, On::File(fh), errorcode),
            Err(error) => errors::raise(FuncId::MPI_File_call_errhandler, Some(On::File(fh)), error),
        }
    }

    /// Predefined handlers stay valid.
    fn MPI_Errhandler_free(errhandler: *mut Errhandler) -> c_int {
        outcome(FuncId::MPI_Errhandler_free, None, (|| {
            // SAFETY: the C program passes a place with a handle.
            let handle = unsafe { fetch(errhandler, "errhandler") }?;
            free(handle)?;
            // SAFETY: `errhandler` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(errhandler, abi::MPI_ERRHANDLER_NULL, "errhandler") }
        })())
    }
}
