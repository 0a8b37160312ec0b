//! Error handlers (MPI-5.0 section 9.3): what happens when a call fails.
//!
//! A function computes a `Result`; only when all Rust values of the call are gone does [`raise`] look for the handler
//! and act. It is the last thing a function does: a handler may leave by longjmp or a C++ exception. The handlers themselves
//! are objects of module `errhandlers`.

use crate::errhandlers::{self, Kind};
use crate::files;
use crate::library::{self, put, running};
use crate::objects::{locked, objects};
use crate::on::On;
use crate::sessions;
use crate::strings::put_named;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::errors::{error_class_name, error_class_text};
use oxmpi_abi::types::{Comm, CommErrhandlerFunction, Errhandler};
use oxmpi_core::Communicator;
use oxmpi_core::handler::HandlerCell;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt::client::Client;
use oxmpi_shm::segment::RankState;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The connection to the launcher, from MPI_Init on; it stays after MPI_Finalize, because a job can still fail then.
static LAUNCHER: OnceLock<Arc<Client>> = OnceLock::new();

thread_local! {
    /// The last error that was returned to this thread: its code, and what the code alone does not say.
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// From now on the job is ended through this connection.
pub(crate) fn end_jobs_through(client: Arc<Client>) {
    // There is one MPI_Init, so there is one client.
    let _ = LAUNCHER.set(client);
}

/// Ends a call: success, or its error on the object that it was called on.
#[inline(always)]
pub(crate) fn outcome(function: FuncId, on: Option<On>, result: Result<()>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(error) => raise(function, on, error),
    }
}

/// Runs a call on a communicator.
#[inline(always)]
pub(crate) fn on_comm(
    function: FuncId,
    comm: Comm,
    call: impl FnOnce(&'static library::Running, &Communicator) -> Result<()>,
) -> c_int {
    let result = (|| {
        let library = library::library()?;
        let communicator = library.communicator(comm)?;
        call(library, &communicator)
    })();
    outcome(function, Some(On::Comm(comm)), result)
}

/// Runs a call on no object with an error handler of its own.
#[inline(always)]
pub(crate) fn on_none(function: FuncId, call: impl FnOnce(&'static library::Running) -> Result<()>) -> c_int {
    outcome(function, None, library::library().and_then(call))
}

/// Acts on an error as the handler of the object says, and returns the code for the caller.
#[cold]
#[inline(never)]
pub(crate) fn raise(function: FuncId, on: Option<On>, error: MpiError) -> c_int {
    let code = error.class();
    let counts = counting(on);
    if counts.ends_the_job() {
        end_job(code, &format!("{function}: {}: {error}\n{}", name(code), advice(code, counts.handle)));
    }
    note_last(code, function, error);
    // The handler is told of the operation that failed, the caller where to look (MPI-5.0 section 9.3).
    let told = match on {
        Some(On::Failed(_, of_operation)) => of_operation,
        _ => code,
    };
    // It is passed the code to be returned, by its address: it may make another of it, even MPI_SUCCESS.
    let left = counts.call(told);
    if told == code { left } else { code }
}

/// Notes what an error says, for MPI_Error_string.
fn note_last(code: c_int, function: FuncId, error: MpiError) {
    // A thread that is ending has nobody left to read it.
    let _ = LAST.try_with(|last| last.replace(Some((code, format!("{function}: {error}")))));
}

/// Calls the handler of an object with a code of the program's (`MPI_Comm_call_errhandler` and its like). Returns
/// MPI_SUCCESS, if at all.
pub(crate) fn call_handler(function: FuncId, on: On, code: c_int) -> c_int {
    let counts = counting(Some(on));
    if counts.ends_the_job() {
        let text = format!("{function}: the program reports {}\n{}", name(code), advice(code, counts.handle));
        end_job(code, &text);
    }
    counts.call(code);
    abi::MPI_SUCCESS
}

/// The handler that counts for an error, and the handle of its object.
#[derive(Clone, Copy)]
struct Counting {
    handle: Errhandler,
    /// Where the program's function lies, if the handler is one of the program's.
    function: Option<usize>,
    object: usize,
}

impl Counting {
    const fn predefined(handle: Errhandler) -> Counting {
        Counting { handle, function: None, object: abi::MPI_COMM_NULL }
    }

    fn of(cell: &HandlerCell, object: usize, kind: Kind) -> Counting {
        let handler = cell.get();
        Counting { handle: handler.handle, function: errhandlers::function_of(handler.handle, kind), object }
    }

    /// The handler of an object of which only the place of its handler is known.
    fn of_any(cell: &HandlerCell) -> Counting {
        let handle = cell.get().handle;
        let function = [Kind::Comm, Kind::File, Kind::Win]
            .into_iter()
            .find_map(|kind| errhandlers::function_of(handle, kind));
        Counting { handle, function, object: cell.object() }
    }

    /// Whether it is one of those after which there is nothing. MPI_ERRORS_ABORT ends the job as a whole, too: the launcher
    /// does not end some ranks and let the others go on.
    const fn ends_the_job(&self) -> bool {
        matches!(self.handle, abi::MPI_ERRORS_ARE_FATAL | abi::MPI_ERRORS_ABORT)
    }

    /// Calls the program's function, if there is one, and returns what it has made of the code. Nothing of this library is
    /// locked or borrowed, and no value waits to be dropped: the function may never return.
    fn call(self, code: c_int) -> c_int {
        let Some(function) = self.function else { return code };
        // SAFETY: it is what MPI_Comm_create_errhandler was given, a pointer to such a function. Those of windows, files and
        // sessions have the same type, for all handles are addresses.
        let function = unsafe { std::mem::transmute::<usize, CommErrhandlerFunction>(function) };
        let (mut object, mut code) = (self.object, code);
        // SAFETY: both places live until the function returns.
        unsafe { function(&mut object, &mut code) };
        code
    }
}

/// The handler that counts: that of the object if it has one, or that which a call names for the object that it makes; else
/// that of MPI_COMM_SELF, and the initial one before MPI_Init and after MPI_Finalize (MPI-5.0 section 9.3). Programs of MPI-3, where
/// such errors were those of MPI_COMM_WORLD, set that one's alone: then it counts, unless the parameter mpi_strict is set.
fn counting(on: Option<On>) -> Counting {
    if let Some(On::File(file)) = on {
        let made = running().and_then(|library| files::handler_of(library, file));
        return Counting::of(made.as_deref().unwrap_or(&objects().file_handler), file, Kind::File);
    }
    match on {
        Some(On::Session(session)) => {
            if let Ok(session) = sessions::find(session) {
                return Counting::of(&session.errhandler, session.errhandler.object(), Kind::Session);
            }
        }
        Some(On::Creation(handle)) if errhandlers::is_for(handle, Kind::Comm) => {
            let function = errhandlers::function_of(handle, Kind::Comm);
            return Counting { handle, function, object: abi::MPI_COMM_NULL };
        }
        Some(On::SessionCreation(handle)) if errhandlers::is_for(handle, Kind::Session) => {
            let function = errhandlers::function_of(handle, Kind::Session);
            return Counting { handle, function, object: abi::MPI_SESSION_NULL };
        }
        _ => {}
    }
    let Some(library) = library::library().ok().or_else(library::closed) else {
        return Counting::predefined(objects().initial_handler);
    };
    match on {
        Some(On::Comm(comm)) => {
            if let Ok(communicator) = library.communicator(comm) {
                return Counting::of(communicator.errhandler_cell(), comm, Kind::Comm);
            }
        }
        Some(On::Win(win)) => {
            if let Ok(window) = library.window(win) {
                return Counting::of(window.errhandler_cell(), win, Kind::Win);
            }
        }
        Some(On::Failed(failed, _)) => {
            if let Some(cell) = library.process.errhandler_of(&failed) {
                return Counting::of_any(&cell);
            }
        }
        _ => {}
    }
    match running().or_else(library::closed) {
        Some(library) if library.strict || library.own_handler_is_set.load(Ordering::Relaxed) => {
            Counting::of(library.process.own().errhandler_cell(), abi::MPI_COMM_SELF, Kind::Comm)
        }
        Some(library) => {
            Counting::of(library.process.world().errhandler_cell(), abi::MPI_COMM_WORLD, Kind::Comm)
        }
        None => Counting::predefined(objects().initial_handler),
    }
}

/// What a code is called in reports.
fn name(code: c_int) -> String {
    if let Some(name) = error_class_name(code) {
        return name.to_owned();
    }
    let codes = locked(&objects().codes);
    let said = codes.text(code).unwrap_or_default();
    match codes.class_of(code) {
        Some(_) if !said.is_empty() => format!("error code {code} ({})", String::from_utf8_lossy(said)),
        Some(class) => {
            format!("error code {code} of class {}", error_class_name(class).unwrap_or("of the program"))
        }
        None => format!("an unknown error {code}"),
    }
}

/// Checks an error code that the program passes.
pub(crate) fn check_code(code: c_int) -> Result<()> {
    class_of(code).map(drop)
}

/// The class of an error code.
pub(crate) fn class_of(code: c_int) -> Result<c_int> {
    let class = locked(&objects().codes).class_of(code);
    class.ok_or_else(|| MpiError::new(abi::MPI_ERR_ARG, format!("errorcode {code} is no error code")))
}

fn advice(code: c_int, handler: Errhandler) -> String {
    let name = match handler {
        abi::MPI_ERRORS_ABORT => "MPI_ERRORS_ABORT",
        _ => "MPI_ERRORS_ARE_FATAL",
    };
    match code {
        abi::MPI_ERR_UNSUPPORTED_OPERATION => {
            "This version of OxMPI does not have the function; `oxmpi info --missing` lists all of them."
                .to_owned()
        }
        _ if library::is_forked() => "The forked process ends; the rank and its job go on.".to_owned(),
        _ if library::is_inside() => format!("The error handler is {name}, so the job ends."),
        _ if library::library().is_err() => format!(
            "Before MPI_Init has returned, and after MPI_Finalize, the initial error handler counts, which is {name} \
             (parameter mpi_initial_errhandler): the job ends."
        ),
        _ => format!(
            "The error handler is {name}, so the job ends; with MPI_ERRORS_RETURN the call returns the error."
        ),
    }
}

/// Tells the launcher to end the job, and ends this process.
pub(crate) fn end_job(code: c_int, text: &str) -> ! {
    // What the program has printed so far shall be seen.
    // SAFETY: a null pointer means all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    // An exit code has 8 bits; an error must not look like success. The launcher says the whole code.
    let status = if code & 0xff == 0 { 1 } else { code & 0xff };
    let said =
        || if text.is_empty() { format!("MPI_Abort was called with code {code}") } else { text.into() };
    if library::is_forked() {
        // The rank goes on; this child of it ends alone.
        oxmpi_sys::complain!("{}", said());
        // SAFETY: as below.
        unsafe { libc::_exit(status) }
    }
    // Before MPI_Init the launcher's descriptors still lie where it has put them.
    let launcher = LAUNCHER.get().cloned().or_else(|| Client::inherited().map(Arc::new));
    match launcher {
        Some(client) => {
            client.segment().status().set_state(RankState::Aborting);
            // Without a launcher a text was printed.
            if !client.abort(code, text) && text.is_empty() {
                oxmpi_sys::complain!("{}", said());
            }
        }
        None => oxmpi_sys::complain!("{}", said()),
    }
    // SAFETY: ends the process at once: exit handlers may need what other threads hold.
    unsafe { libc::_exit(status) }
}

mpi! {
    /// MPI-5.0 section 9.4. If the last call of this thread that returned an error returned this one, it is told in full.
    fn MPI_Error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Error_string, None, (|| {
            let (Some(name), Some(text)) = (error_class_name(errorcode), error_class_text(errorcode)) else {
                check_code(errorcode)?;
                let said = locked(&objects().codes).text(errorcode).unwrap_or_default().to_vec();
                // SAFETY: the C program passes room for MPI_MAX_ERROR_STRING characters.
                return unsafe { put_named(&said, abi::MPI_MAX_ERROR_STRING, string, "string", resultlen) };
            };
            let last = LAST.try_with(|last| match &*last.borrow() {
                Some((code, detail)) if *code == errorcode => format!("; the last one was {detail}"),
                _ => String::new(),
            });
            let text = format!("{name}: {text}{}", last.unwrap_or_default());
            // SAFETY: the C program passes room for MPI_MAX_ERROR_STRING characters.
            unsafe { put_string(&text, abi::MPI_MAX_ERROR_STRING, string, resultlen) }
        })())
    }

    /// The class of an error code (MPI-5.0 section 9.4).
    fn MPI_Error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        let result = class_of(errorcode).and_then(|class| unsafe { put(errorclass, class, "errorclass") });
        outcome(FuncId::MPI_Error_class, None, result)
    }
}

/// Writes a string of the library's with its closing zero, and its length without.
///
/// # Safety
/// `room` must be null or have place for `max` characters, `length` be null or writable.
pub(crate) unsafe fn put_string(text: &str, max: c_int, room: *mut c_char, length: *mut c_int) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe { put_named(text.as_bytes(), max, room, "the string", length) }
}
