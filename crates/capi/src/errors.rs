//! Error handlers (MPI-5.0 section 9.3): the actions when a call fails.
//!
//! A function computes a `Result`. When all Rust values of the call are dropped, [`raise`] finds
//! the handler and calls it. This is the last action of a function, since a handler may leave by
//! longjmp or a C++ exception. The module `state::handlers` has the handlers.

mod output;

use crate::state::call_note;
use crate::state::handlers::{HandlerFunction, HandlerKind};
use crate::state::library::{self, running};
use crate::state::locked;
use crate::state::named::{CommArgument, Named, OfArgument};
use crate::state::objects::objects;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::errors::{error_class_name, error_class_text};
use oxmpi_abi::types::{Comm, Errhandler};
use oxmpi_core::handler::HandlerCell;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_rt_client::client::{Client, abort_unjoined};
use oxmpi_shm::segment::RankState;
use oxmpi_sys::lock::LockError;
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The connection to the launcher, from MPI_Init on. It stays after MPI_Finalize, when the job can
/// still fail.
static LAUNCHER: OnceLock<Arc<Client>> = OnceLock::new();

thread_local! {
    /// The code and the full text of the last error that a call of this thread returned.
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

pub(crate) fn end_jobs_through(client: Arc<Client>) {
    // MPI_Init succeeds once, so the cell is set once.
    let _ = LAUNCHER.set(client);
}

/// Returns the code of a call, after a failure that of the error handler of `on`.
#[inline(always)]
pub(crate) fn outcome(function: FuncId, on: Option<On>, result: Result<()>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(error) => raise(function, on, error),
    }
}

#[inline(always)]
pub(crate) fn on_comm(
    function: FuncId,
    comm: Comm,
    call: impl FnOnce(&'static library::Running, &CommArgument) -> Result<()>,
) -> c_int {
    on_comm_named(function, comm, "comm", call)
}

/// [`on_comm`] for an argument of another name.
#[inline(always)]
pub(crate) fn on_comm_named(
    function: FuncId,
    comm: Comm,
    argument: &'static str,
    call: impl FnOnce(&'static library::Running, &CommArgument) -> Result<()>,
) -> c_int {
    let result = (|| {
        let library = library::library()?;
        call(library, &Named { handle: comm, object: library.communicator(comm).of(argument)? })
    })();
    outcome(function, Some(On::Comm(comm)), result)
}

/// Runs a call without an object that has an error handler.
#[inline(always)]
pub(crate) fn on_none(
    function: FuncId,
    call: impl FnOnce(&'static library::Running) -> Result<()>,
) -> c_int {
    outcome(function, None, library::library().and_then(call))
}

#[cold]
#[inline(never)]
pub(crate) fn raise(function: FuncId, on: Option<On>, error: MpiError) -> c_int {
    let code = error.class();
    let handler = active_handler(on);
    if handler.ends_the_job() {
        end_job(code, &format!("{function}: {}: {error}\n{}", name(code), advice(handler.handle)));
    }
    note_last(code, function, error);
    // The handler gets the class of the failed operation; the caller gets MPI_ERR_IN_STATUS or its
    // like (MPI-5.0 section 9.3).
    let passed = match on {
        Some(On::Failed(_, of_operation)) => of_operation,
        _ => code,
    };
    // The handler may change the code, even to MPI_SUCCESS.
    let left = handler.call(passed);
    if passed == code { left } else { code }
}

fn note_last(code: c_int, function: FuncId, error: MpiError) {
    // During the end of a thread there is no storage, and no later call that reads the text.
    let _ = LAST.try_with(|last| last.replace(Some((code, format!("{function}: {error}")))));
}

/// Calls the handler of an object with a code of the program (`MPI_Comm_call_errhandler` and its
/// like). Returns MPI_SUCCESS if the handler returns.
pub(crate) fn call_handler(function: FuncId, on: On, code: c_int) -> c_int {
    let handler = active_handler(Some(on));
    if handler.ends_the_job() {
        let text =
            format!("{function}: the program reports {}\n{}", name(code), advice(handler.handle));
        end_job(code, &text);
    }
    handler.call(code);
    abi::MPI_SUCCESS
}

#[derive(Clone, Copy)]
struct ActiveHandler {
    handle: Errhandler,
    /// The function of a handler that the program has made.
    function: Option<HandlerFunction>,
    object: usize,
}

impl ActiveHandler {
    const fn predefined(handle: Errhandler) -> ActiveHandler {
        ActiveHandler { handle, function: None, object: abi::MPI_COMM_NULL }
    }

    fn of(cell: &HandlerCell, object: usize, kind: HandlerKind) -> ActiveHandler {
        let handler = cell.get();
        ActiveHandler {
            handle: handler.handle,
            function: objects().errhandlers.function_of(handler.handle, kind),
            object,
        }
    }

    /// The handler of an object of unknown kind.
    fn of_any(cell: &HandlerCell) -> ActiveHandler {
        let handle = cell.get().handle;
        let function = [HandlerKind::Comm, HandlerKind::File, HandlerKind::Win]
            .into_iter()
            .find_map(|kind| objects().errhandlers.function_of(handle, kind));
        ActiveHandler { handle, function, object: cell.object() }
    }

    /// MPI_ERRORS_ABORT ends the whole job as well: the launcher cannot end only some ranks.
    const fn ends_the_job(&self) -> bool {
        matches!(self.handle, abi::MPI_ERRORS_ARE_FATAL | abi::MPI_ERRORS_ABORT)
    }

    /// Calls the program's function, if any, and returns the code that it leaves. The function may
    /// never return, so the caller holds no lock, borrow or value with a destructor.
    fn call(self, code: c_int) -> c_int {
        let Some(function) = self.function else { return code };
        // SAFETY: the function was found by the kind of the object.
        unsafe { function.call(self.object, code) }
    }
}

/// The handler for an error (MPI-5.0 section 9.3): that of the object, or the one that a call names
/// for the object that it makes. For other errors it is MPI_COMM_SELF's, and the initial handler
/// before MPI_Init and after MPI_Finalize.
///
/// In MPI-3 these other errors went to MPI_COMM_WORLD's handler. A program that sets only that
/// handler still gets them there, unless the parameter mpi_strict is set.
fn active_handler(on: Option<On>) -> ActiveHandler {
    if let Some(On::File(file)) = on {
        let made = running().and_then(|library| library.file_handler(file));
        return ActiveHandler::of(
            made.as_deref().unwrap_or(&objects().file_handler),
            file,
            HandlerKind::File,
        );
    }
    match on {
        Some(On::Session(session)) => {
            if let Ok(session) = objects().session(session) {
                return ActiveHandler::of(
                    &session.errhandler,
                    session.errhandler.object(),
                    HandlerKind::Session,
                );
            }
        }
        Some(On::Creation(handle)) if objects().errhandlers.is_for(handle, HandlerKind::Comm) => {
            let function = objects().errhandlers.function_of(handle, HandlerKind::Comm);
            return ActiveHandler { handle, function, object: abi::MPI_COMM_NULL };
        }
        Some(On::SessionCreation(handle))
            if objects().errhandlers.is_for(handle, HandlerKind::Session) =>
        {
            let function = objects().errhandlers.function_of(handle, HandlerKind::Session);
            return ActiveHandler { handle, function, object: abi::MPI_SESSION_NULL };
        }
        _ => {}
    }
    let Some(library) = library::library().ok().or_else(library::closed) else {
        return ActiveHandler::predefined(objects().initial_handler);
    };
    match on {
        Some(On::Comm(comm)) => {
            if let Ok(communicator) = library.communicator(comm) {
                return ActiveHandler::of(communicator.errhandler_cell(), comm, HandlerKind::Comm);
            }
        }
        Some(On::Win(win)) => {
            if let Ok(window) = library.window(win) {
                return ActiveHandler::of(window.errhandler_cell(), win, HandlerKind::Win);
            }
        }
        Some(On::Failed(failed, _)) => {
            if let Some(cell) = library.process.errhandler_of(&failed) {
                return ActiveHandler::of_any(&cell);
            }
        }
        _ => {}
    }
    match running().or_else(library::closed) {
        Some(library) if library.strict || library.own_handler_is_set.load(Ordering::Relaxed) => {
            ActiveHandler::of(
                library.process.own().errhandler_cell(),
                abi::MPI_COMM_SELF,
                HandlerKind::Comm,
            )
        }
        Some(library) => ActiveHandler::of(
            library.process.world().errhandler_cell(),
            abi::MPI_COMM_WORLD,
            HandlerKind::Comm,
        ),
        None => ActiveHandler::predefined(objects().initial_handler),
    }
}

fn name(code: c_int) -> String {
    if let Some(name) = error_class_name(code) {
        return name.to_owned();
    }
    let codes = locked(&objects().codes);
    let said = codes.text(code).unwrap_or_default();
    let shown = shown::number(ValueKind::Code, code);
    match codes.class_of(code) {
        Some(_) if !said.is_empty() => {
            format!("error code {shown} ({})", String::from_utf8_lossy(said))
        }
        Some(class) => {
            format!(
                "error code {shown} of class {}",
                error_class_name(class).unwrap_or("of the program")
            )
        }
        None => format!("an unknown error {shown}"),
    }
}

pub(crate) fn check_code(code: c_int) -> Result<()> {
    class_of(code).map(drop)
}

pub(crate) fn class_of(code: c_int) -> Result<c_int> {
    let class = locked(&objects().codes).class_of(code);
    class.ok_or_else(|| {
        MpiError::new(
            abi::MPI_ERR_ARG,
            format!("errorcode {} is no error code", shown::number(ValueKind::Code, code)),
        )
    })
}

fn advice(handler: Errhandler) -> String {
    let name = match handler {
        abi::MPI_ERRORS_ABORT => "MPI_ERRORS_ABORT",
        _ => "MPI_ERRORS_ARE_FATAL",
    };
    match () {
        () if library::is_forked() => {
            "The forked process ends; the rank and its job go on.".to_owned()
        }
        () if library::is_inside() => format!("The error handler is {name}, so the job ends."),
        () if library::library().is_err() => format!(
            "Before MPI_Init has returned, and after MPI_Finalize, the initial error handler counts, which is {name} \
             (parameter mpi_initial_errhandler): the job ends."
        ),
        () => format!(
            "The error handler is {name}, so the job ends; with MPI_ERRORS_RETURN the call returns the error."
        ),
    }
}

/// Requests from the launcher that it ends the job, and ends this process.
pub(crate) fn end_job(code: c_int, text: &str) -> ! {
    output::flush();
    // An exit code has 8 bits, and 0 would mean success. The launcher prints the whole code.
    let status = if code & 0xff == 0 { 1 } else { code & 0xff };
    let said = || {
        if text.is_empty() { format!("MPI_Abort was called with code {code}") } else { text.into() }
    };
    if library::is_forked() {
        // Only the forked child ends; the rank continues.
        oxmpi_sys::complain!("{}", said());
        // SAFETY: ends the process at once, without exit handlers.
        unsafe { libc::_exit(status) }
    }
    // Before MPI_Init the launcher's descriptors have their inherited numbers.
    let launcher = LAUNCHER.get().cloned().or_else(|| Client::inherited().map(Arc::new));
    match launcher {
        Some(client) => {
            client.segment().status().set_state(RankState::Aborting);
            // Without a launcher, `abort` prints a nonempty text itself.
            if !client.abort(code, text) && text.is_empty() {
                oxmpi_sys::complain!("{}", said());
            }
        }
        None => {
            let said = said();
            oxmpi_sys::complain!("{said}");
            abort_unjoined(code, &said);
        }
    }
    // SAFETY: ends the process at once. Exit handlers might wait for locks of other threads.
    unsafe { libc::_exit(status) }
}

/// MPI-5.0 section 9.4. If the last failed call of this thread returned this code, the text has the
/// details of that error.
pub(crate) fn error_string(errorcode: c_int) -> Result<Vec<u8>> {
    let (Some(name), Some(text)) = (error_class_name(errorcode), error_class_text(errorcode))
    else {
        check_code(errorcode)?;
        return Ok(locked(&objects().codes).text(errorcode).unwrap_or_default().to_vec());
    };
    let last = LAST.try_with(|last| match &*last.borrow() {
        Some((code, detail)) if *code == errorcode => format!("; the last one was {detail}"),
        _ => String::new(),
    });
    Ok(format!("{name}: {text}{}", last.unwrap_or_default()).into())
}

pub(crate) fn error_class(errorcode: c_int) -> Result<c_int> {
    class_of(errorcode)
}

/// Makes a panic that the program has caused (a wrong thread) an error of the job.
pub(crate) fn report_misuse() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let misuse = panic
            .payload_as_str()
            .filter(|text| LockError::ALL.iter().any(|e| e.to_string() == *text));
        let Some(text) = misuse else { return before(panic) };
        let call = FuncId::all().nth(usize::from(call_note::last_call()).wrapping_sub(1));
        end_job(1, &call.map_or_else(|| text.to_owned(), |call| format!("{call}: {text}")));
    }));
}
