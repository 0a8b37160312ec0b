//! The MPI tool information interface (MPI-5.0 section 15.3), `MPI_T_*`.
//!
//! It works from the moment the library is loaded, before MPI_Init and after MPI_Finalize, from any thread. Its functions
//! return their error codes and never call an error handler. What can be measured, heard of and changed is defined
//! below (`oxmpi_core::tool`, `oxmpi_param`); here are handles, arguments and the program's functions.

mod categories;
mod cvars;
mod enums;
mod events;
mod handles;
mod hub;
mod instances;
mod outputs;
mod pvars;
mod registrations;
mod sources;

pub(crate) use cvars::changes;

use crate::library::{self, Running, latest};
use crate::objects::locked;
use outputs::put;
use oxmpi_abi::constants as abi;
use oxmpi_objects::error::MpiError;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// What a function of this interface says, as the code of its error.
type Result<T> = std::result::Result<T, c_int>;

/// How often MPI_T_init_thread was called and MPI_T_finalize was not.
static INITIALIZED: Mutex<u32> = Mutex::new(0);

/// Runs a call that needs the interface to be initialised.
fn call(body: impl FnOnce() -> Result<()>) -> c_int {
    if *locked(&INITIALIZED) == 0 {
        return abi::MPI_T_ERR_NOT_INITIALIZED;
    }
    code(body())
}

fn code(result: Result<()>) -> c_int {
    result.err().unwrap_or(abi::MPI_SUCCESS)
}

/// The place of an index in a list.
fn at<T>(all: &[T], index: c_int) -> Result<&T> {
    usize::try_from(index).ok().and_then(|at| all.get(at)).ok_or(abi::MPI_T_ERR_INVALID_INDEX)
}

/// MPI, as long as it is initialised and afterwards; `None` before. What it has counted stays when it is finalised.
///
/// # Errors
/// If the calling thread may not look at it: another one is the only one that calls MPI.
fn measured() -> Result<Option<&'static Running>> {
    let Some(library) = latest() else { return Ok(None) };
    let is_open =
        library.has_threads.load(Ordering::Relaxed) || std::thread::current().id() == library.first_thread;
    if is_open { Ok(Some(library)) } else { Err(abi::MPI_T_ERR_NOT_ACCESSIBLE) }
}

/// MPI was initialised: whoever registered for events before hears of them from now on.
pub(crate) fn mpi_initialized(library: &'static Running) -> std::result::Result<(), MpiError> {
    hub::observe_if_wanted(library)
}

mpi! {
    /// MPI-5.0 section 15.3.4. Test: tests/c/mpit_init.c.
    fn MPI_T_init_thread(required: c_int, provided: *mut c_int) -> c_int {
        let levels = [abi::MPI_THREAD_SINGLE, abi::MPI_THREAD_FUNNELED, abi::MPI_THREAD_SERIALIZED];
        // As MPI_Init_thread does it: what lies between two levels is the lower one.
        let level = if required >= abi::MPI_THREAD_MULTIPLE {
            abi::MPI_THREAD_MULTIPLE
        } else {
            levels.into_iter().rfind(|level| *level <= required).unwrap_or(abi::MPI_THREAD_SINGLE)
        };
        if library::is_forked() {
            return abi::MPI_T_ERR_CANNOT_INIT;
        }
        // SAFETY: the C program passes a place for an integer.
        let told = unsafe { put(provided, level) };
        if told.is_ok() {
            *locked(&INITIALIZED) += 1;
        }
        code(told)
    }

    /// MPI-5.0 section 15.3.4. The last one frees all sessions and handles. Test: tests/c/mpit_init.c.
    fn MPI_T_finalize() -> c_int {
        let mut initialized = locked(&INITIALIZED);
        match *initialized {
            0 => abi::MPI_T_ERR_NOT_INITIALIZED,
            before => {
                *initialized = before - 1;
                drop(initialized);
                if before == 1 {
                    cvars::free_all();
                    pvars::free_all();
                    registrations::free_all();
                }
                abi::MPI_SUCCESS
            }
        }
    }
}
