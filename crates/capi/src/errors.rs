//! Error handlers (MPI-5.0 section 9.3): what happens when a call fails.
//!
//! A function computes a `Result`; only when all Rust values of the call are gone does [`raise`] look for the handler
//! and act. It is the last thing a function does: a handler may leave by longjmp or a C++ exception.

use crate::library::{self, put, running};
use crate::unsupported::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::errors::{error_class_name, error_class_text};
use oxmpi_abi::types::{Comm, Errhandler};
use oxmpi_core::Communicator;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_os::segment::RankState;
use oxmpi_rt::client::Client;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
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
    if handler(on) == abi::MPI_ERRORS_RETURN {
        // A thread that is ending has nobody left to read it.
        let _ = LAST.try_with(|last| last.replace(Some((code, format!("{function}: {error}")))));
        return code;
    }
    let class = error_class_name(code).unwrap_or("an unknown error");
    let text = format!("{function}: {class}: {error}\n{}", advice(code));
    drop(error);
    end_job(code, &text)
}

/// The handler that counts: that of the communicator if there is one, else that of MPI_COMM_SELF (MPI-5.0 section
/// 9.3), and before MPI_Init the initial one, which is fatal.
fn handler(on: Option<On>) -> Errhandler {
    let Some(library) = running() else { return abi::MPI_ERRORS_ARE_FATAL };
    match on {
        Some(On::Handler(handler)) => return handler,
        Some(On::Comm(comm)) => {
            if let Ok(communicator) = library.communicator(comm) {
                return communicator.errhandler();
            }
        }
        _ => {}
    }
    library.process.own().errhandler()
}

fn advice(code: c_int) -> &'static str {
    match code {
        abi::MPI_ERR_UNSUPPORTED_OPERATION => {
            "This version of OxMPI does not have the function; `oxmpi info --missing` lists all of them."
        }
        _ if library::is_forked() => "The forked process ends; the rank and its job go on.",
        _ if running().is_none() => {
            "Before MPI_Init has returned, and after MPI_Finalize, every error ends the job."
        }
        _ => {
            "The error handler is MPI_ERRORS_ARE_FATAL, so the job ends; with MPI_ERRORS_RETURN the call returns the error."
        }
    }
}

/// Tells the launcher to end the job, and ends this process.
pub(crate) fn end_job(code: c_int, text: &str) -> ! {
    // What the program has printed so far shall be seen.
    // SAFETY: a null pointer means all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    // An exit code has 8 bits; an error must not look like success.
    let status = if code & 0xff == 0 { 1 } else { code & 0xff };
    if library::is_forked() {
        // The rank goes on; this child of it ends alone.
        eprintln!("{text}");
        // SAFETY: as below.
        unsafe { libc::_exit(status) }
    }
    // Before MPI_Init the launcher's descriptors still lie where it has put them.
    let launcher = LAUNCHER.get().cloned().or_else(|| Client::from_env().ok().flatten().map(Arc::new));
    match launcher {
        Some(client) => {
            client.segment().status().set_state(RankState::Aborting);
            client.abort(status, text);
        }
        None => eprintln!("{text}"),
    }
    // SAFETY: ends the process at once: exit handlers may need what other threads hold.
    unsafe { libc::_exit(status) }
}

fn check_handler(handler: Errhandler) -> Result<()> {
    match handler {
        abi::MPI_ERRORS_ARE_FATAL | abi::MPI_ERRORS_ABORT | abi::MPI_ERRORS_RETURN => Ok(()),
        abi::MPI_ERRHANDLER_NULL => {
            Err(MpiError::new(abi::MPI_ERR_ERRHANDLER, "the error handler is MPI_ERRHANDLER_NULL"))
        }
        other => Err(MpiError::new(abi::MPI_ERR_ERRHANDLER, format!("{other:#x} is no error handler"))),
    }
}

mpi! {
    /// MPI-5.0 section 9.3.1.
    fn MPI_Comm_set_errhandler(comm: Comm, errhandler: Errhandler) -> c_int {
        on_comm(FuncId::MPI_Comm_set_errhandler, comm, |_, communicator| {
            check_handler(errhandler)?;
            communicator.set_errhandler(errhandler);
            Ok(())
        })
    }

    /// MPI-5.0 section 9.3.1.
    fn MPI_Comm_get_errhandler(comm: Comm, errhandler: *mut Errhandler) -> c_int {
        on_comm(FuncId::MPI_Comm_get_errhandler, comm, |_, communicator| {
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(errhandler, communicator.errhandler(), "errhandler") }
        })
    }

    /// MPI-5.0 section 9.3.4. The predefined handlers stay; the place gets MPI_ERRHANDLER_NULL.
    fn MPI_Errhandler_free(errhandler: *mut Errhandler) -> c_int {
        outcome(FuncId::MPI_Errhandler_free, None, (|| {
            // SAFETY: the C program passes a place with a handle.
            let handler = unsafe { library::fetch(errhandler, "errhandler") }?;
            check_handler(handler)?;
            // SAFETY: as above.
            unsafe { put(errhandler, abi::MPI_ERRHANDLER_NULL, "errhandler") }
        })())
    }

    /// MPI-5.0 section 9.4. If the last call of this thread that returned an error returned this one, it is told in full.
    fn MPI_Error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Error_string, None, (|| {
            let (Some(name), Some(text)) = (error_class_name(errorcode), error_class_text(errorcode)) else {
                return Err(MpiError::new(abi::MPI_ERR_ARG, format!("errorcode {errorcode} is no error code")));
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
}

/// Writes a string with its closing zero, and its length without.
///
/// # Safety
/// `room` must be null or have place for `max` characters.
pub(crate) unsafe fn put_string(text: &str, max: c_int, room: *mut c_char, length: *mut c_int) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe { put_bytes(text.as_bytes(), max, room, length) }
}

/// As [`put_string`], for what a program gave: C says nothing of its encoding.
///
/// # Safety
/// As [`put_string`].
pub(crate) unsafe fn put_bytes(text: &[u8], max: c_int, room: *mut c_char, length: *mut c_int) -> Result<()> {
    if room.is_null() {
        return Err(library::null("the string"));
    }
    let len = text.len().min(max as usize - 1);
    // SAFETY: `len + 1 <= max` characters fit by the contract of this function.
    unsafe {
        room.copy_from_nonoverlapping(text.as_ptr().cast(), len);
        room.add(len).write(0);
        put(length, len as c_int, "resultlen")
    }
}
