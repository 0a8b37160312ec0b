//! The MPI tool information interface (MPI-5.0 section 15.3), `MPI_T_*`.
//!
//! The interface works before MPI_Init and after MPI_Finalize, in any thread. Its functions return
//! error codes and never call an error handler. `oxmpi_core::tool` and `oxmpi_param` define
//! variables and events. These modules have handles, arguments, and calls of the program's
//! functions.

mod categories;
mod checks;
mod cvars;
mod enums;
mod events;
mod handles;
mod hub;
mod instances;
mod outputs;
mod pvars;
mod registered;
mod registrations;
mod sources;

pub(crate) use cvars::changes;
pub(crate) use outputs::*;

/// See `operations::bodies`.
pub(crate) mod bodies {
    pub(crate) use super::categories::*;
    pub(crate) use super::cvars::*;
    pub(crate) use super::enums::*;
    pub(crate) use super::events::*;
    pub(crate) use super::instances::*;
    pub(crate) use super::pvars::*;
    pub(crate) use super::sources::*;
    pub(crate) use super::{t_finalize, t_init_thread};
}

use crate::state::library::{self, Running};
use crate::state::locked;
use checks::Result;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_objects::error::MpiError;
use std::ffi::c_int;
use std::sync::Mutex;

/// Calls of MPI_T_init_thread without MPI_T_finalize.
static INITIALIZED: Mutex<u32> = Mutex::new(0);

/// Runs a call of the program.
pub(crate) fn call(body: impl FnOnce() -> Result<()>) -> c_int {
    if *locked(&INITIALIZED) == 0 {
        return abi::MPI_T_ERR_NOT_INITIALIZED;
    }
    body().err().unwrap_or(abi::MPI_SUCCESS)
}

/// Connects event handles that were registered before MPI was initialised.
pub(crate) fn mpi_initialized(library: &'static Running) -> std::result::Result<(), MpiError> {
    hub::observe_if_wanted(library)
}

/// Test: tests/c/mpit_init.c.
/// # Safety
/// `provided` must be null or writable.
pub(crate) unsafe fn t_init_thread(_: FuncId, required: c_int, provided: *mut c_int) -> c_int {
    let levels = [abi::MPI_THREAD_SINGLE, abi::MPI_THREAD_FUNNELED, abi::MPI_THREAD_SERIALIZED];
    // A level between two levels of the standard counts as the lower one.
    let level = if required >= abi::MPI_THREAD_MULTIPLE {
        abi::MPI_THREAD_MULTIPLE
    } else {
        levels.into_iter().rfind(|level| *level <= required).unwrap_or(abi::MPI_THREAD_SINGLE)
    };
    if library::is_forked() {
        return abi::MPI_T_ERR_CANNOT_INIT;
    }
    if provided.is_null() {
        return abi::MPI_T_ERR_INVALID;
    }
    // SAFETY: not null, and writable by the contract of this function.
    unsafe { provided.write(level) };
    *locked(&INITIALIZED) += 1;
    abi::MPI_SUCCESS
}

/// The last call frees all sessions and handles.
pub(crate) fn t_finalize(_: FuncId) -> c_int {
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
