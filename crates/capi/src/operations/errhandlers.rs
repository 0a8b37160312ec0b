//! Error handlers as objects (MPI-5.0 section 9.3). Module `state::handlers` has their table.

use crate::arguments::null;
use crate::errors;
use crate::state::extra_state::ExtraState;
use crate::state::handlers::HandlerKind;
use crate::state::library::{Running, library};
use crate::state::named::CommArgument;
use crate::state::named::OfArgument;
use crate::state::objects::objects;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    CommErrhandlerFunction, CommErrhandlerFunctionX, DestructorFunction, Errhandler, File,
};
use oxmpi_core::handler::HandlerCell;
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

pub(crate) fn of_int(int: u32) -> u64 {
    objects().errhandlers.0.from_int(int).raw()
}

/// Runs a call on the error handler cell of a file. For MPI_FILE_NULL, even before MPI_Init, this
/// is the default for new files.
fn of_file<R>(file: File, query: impl FnOnce(&HandlerCell) -> Result<R>) -> Result<R> {
    match file {
        abi::MPI_FILE_NULL => query(&objects().file_handler),
        _ => query(library()?.file(file)?.errhandler_cell()),
    }
}

/// Test of this module: tests/c/errhandler_user.c. The functions for all kinds of objects have the
/// same type, since all handles are addresses.
pub(crate) fn create_errhandler(
    kind: HandlerKind,
    function: Option<CommErrhandlerFunction>,
) -> Result<Errhandler> {
    let function = function.ok_or_else(|| null(kind.argument()))? as usize;
    Ok(objects().errhandlers.create(kind, function, None))
}

/// Test: tests/c/extra_state.c.
pub(crate) fn create_errhandler_with(
    kind: HandlerKind,
    function: Option<CommErrhandlerFunctionX>,
    destructor: Option<DestructorFunction>,
    extra_state: *mut c_void,
) -> Result<Errhandler> {
    let name = || null(&format!("{}_x", kind.argument()));
    let function = function.ok_or_else(name)? as usize;
    let state = ExtraState::new(extra_state, destructor);
    Ok(objects().errhandlers.create(kind, function, Some(state)))
}

/// Test: tests/c/errhandler_inherit.c.
pub(crate) fn comm_set_errhandler(
    library: &Running,
    comm: &CommArgument,
    errhandler: Errhandler,
) -> Result<()> {
    comm.errhandler_cell().set(objects().errhandlers.attach(errhandler, HandlerKind::Comm)?);
    if comm.handle == abi::MPI_COMM_SELF {
        library.own_handler_is_set.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// The program must free the new reference.
pub(crate) fn comm_get_errhandler(_: &Running, comm: &CommArgument) -> Result<Errhandler> {
    Ok(objects().errhandlers.refer(comm.errhandler_cell()))
}

pub(crate) fn file_set_errhandler(file: File, errhandler: Errhandler) -> Result<()> {
    of_file(file, |cell| {
        cell.set(objects().errhandlers.attach(errhandler, HandlerKind::File)?);
        Ok(())
    })
}

/// The program must free the new reference.
pub(crate) fn file_get_errhandler(file: File) -> Result<Errhandler> {
    of_file(file, |cell| Ok(objects().errhandlers.refer(cell)))
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
        On::Session(session) => objects().session(session).map(drop).of("session"),
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
    objects().errhandlers.free(errhandler)?;
    Ok(abi::MPI_ERRHANDLER_NULL)
}
