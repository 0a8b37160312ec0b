//! Objects that exist before MPI_Init and after MPI_Finalize: infos, error handlers, attribute
//! keys, added error codes (MPI-5.0 section 11.4.1 lists the calls that are allowed at any time).

use crate::state::extra_state::ExtraStates;
use crate::state::fortran::FortranAbi;
use crate::state::grequests::GeneralizedRequests;
use crate::state::handlers::Handlers;
use crate::state::sessions::Session;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Errhandler;
use oxmpi_abi::types::Session as SessionHandle;
use oxmpi_core::handler::{ErrorHandler, HandlerCell};
use oxmpi_mem::table::{Handle, Table};
use oxmpi_objects::attribute::Keyvals;
use oxmpi_objects::error::Result;
use oxmpi_objects::errorcode::ErrorCodes;
use oxmpi_objects::info::Info;
use oxmpi_objects::shown::{ValueKind, bad_handle};
use oxmpi_param::{InitialErrhandler, Params};
use std::sync::{Arc, LazyLock, Mutex};

/// The kinds of objects with handles, for [`Table::of_kind`]. Requests and messages have none.
pub(crate) enum ObjectKind {
    Comm = 1,
    Group,
    Datatype,
    Op,
    Win,
    File,
    Info,
    Errhandler,
    Session,
    ControlVariable,
    PerformanceVariable,
    PerformanceSession,
    Registration,
}

/// A table for objects of this kind.
pub(crate) fn table<T>(kind: ObjectKind) -> Table<T> {
    Table::of_kind(kind as u8)
}

pub(crate) struct Objects {
    pub(crate) infos: Table<Mutex<Info>>,
    pub(crate) errhandlers: Handlers,
    pub(crate) keyvals: Keyvals,
    pub(crate) operation_states: ExtraStates,
    pub(crate) codes: Mutex<ErrorCodes>,
    pub(crate) generalized: GeneralizedRequests,
    pub(crate) sessions: Table<Arc<Session>>,
    pub(crate) fortran: Mutex<FortranAbi>,
    /// The handler of MPI_FILE_NULL, which new files get (MPI-5.0 section 14.7).
    pub(crate) file_handler: HandlerCell,
    /// The handler of errors before there is a communicator (MPI-5.0 section 9.3).
    pub(crate) initial_handler: Errhandler,
}

static OBJECTS: LazyLock<Objects> = LazyLock::new(|| Objects {
    infos: table(ObjectKind::Info),
    errhandlers: Handlers(table(ObjectKind::Errhandler)),
    keyvals: Keyvals::default(),
    operation_states: ExtraStates::default(),
    codes: Mutex::new(ErrorCodes::new()),
    generalized: GeneralizedRequests::default(),
    sessions: table(ObjectKind::Session),
    fortran: Mutex::default(),
    file_handler: HandlerCell::new(ErrorHandler::predefined(abi::MPI_ERRORS_RETURN)),
    initial_handler: initial_handler(),
});

impl Objects {
    pub(crate) fn session(&self, handle: SessionHandle) -> Result<Arc<Session>> {
        match self.sessions.get(Handle::from_raw(handle as u64)) {
            Ok(session) => Ok(Arc::clone(&session)),
            Err(bad) => Err(bad_handle(ValueKind::Session, handle as u64, bad)),
        }
    }
}

pub(crate) fn objects() -> &'static Objects {
    &OBJECTS
}

/// The handler that the user's parameter names. With a wrong parameter, which MPI_Init reports,
/// errors are fatal.
fn initial_handler() -> Errhandler {
    match Params::from_env(oxmpi_sys::library::prefix().as_deref())
        .unwrap_or_default()
        .initial_errhandler()
    {
        InitialErrhandler::Fatal => abi::MPI_ERRORS_ARE_FATAL,
        InitialErrhandler::Abort => abi::MPI_ERRORS_ABORT,
        InitialErrhandler::Return => abi::MPI_ERRORS_RETURN,
    }
}
