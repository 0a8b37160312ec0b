//! Initialisation, finalisation and inquiry (MPI-5.0 chapters 9 and 11).

use crate::arguments::present;
use crate::arguments::put;
use crate::errors::{end_job, outcome};
use crate::operations::checkpoints;
use crate::operations::info;
use crate::operations::levels::LEVELS;
use crate::operations::life;
use crate::operations::tool;
use crate::state::library::{self, Running, WorldModel, running_unless_closed};
use crate::state::objects::objects;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Info as InfoHandle};
use oxmpi_core::handler::ErrorHandler;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use oxmpi_param::{SelectError, ThreadLevel};
use std::ffi::{c_char, c_int};

/// Initialises MPI and returns the granted thread level, which the environment and the modules can
/// change.
fn initialize(wanted: c_int) -> Result<c_int> {
    // A level between two levels of the standard counts as the lower one.
    let known = LEVELS.iter().rposition(|level| *level <= wanted).unwrap_or(0);
    if !library::claim_initialization() {
        return Err(MpiError::new(
            abi::MPI_ERR_OTHER,
            "MPI was initialised before; it can be only once",
        ));
    }
    let refused = |error: SelectError| MpiError::new(abi::MPI_ERR_OTHER, error.to_string());
    let said = ThreadLevel::from_env().map_err(|error| refused(error.into()))?;
    let requested = said.map_or(ThreadLevel::ALL[known], |(level, _)| level);
    let library = life::enter(requested >= ThreadLevel::Serialized)?;
    library.process.check_world_is_served()?;
    let granted = library.modules.settle(requested).map_err(refused)?.level;
    if granted >= ThreadLevel::Serialized {
        library.set_threaded()?;
    }
    let level = LEVELS[granted as usize];
    let initial = ErrorHandler::predefined(objects().initial_handler);
    library.process.world().errhandler_cell().set(initial.clone());
    library.process.own().errhandler_cell().set(initial);
    let wanted_level = said.map_or(wanted, |(level, _)| LEVELS[level as usize]);
    info::settle_environment(library.process.size(), wanted_level);
    let main_thread = std::thread::current().id();
    library::begin_world(library, WorldModel { level, wanted_level, main_thread });
    tool::mpi_initialized(library)?;
    checkpoints::begin(library);
    Ok(level)
}

pub(crate) fn init(function: FuncId, _: *mut c_int, _: *mut *mut *mut c_char) -> c_int {
    outcome(function, None, initialize(abi::MPI_THREAD_SINGLE).map(drop))
}

/// # Safety
/// `provided` must be null or writable.
pub(crate) unsafe fn init_thread(
    function: FuncId,
    _: *mut c_int,
    _: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: by the contract of this function.
    let store = |level| unsafe { put(provided, level, "provided") };
    let result = present(provided, "provided").and_then(|()| initialize(required)).and_then(store);
    outcome(function, None, result)
}

pub(crate) fn initialized() -> Result<bool> {
    Ok(library::is_initialized())
}

pub(crate) fn finalized() -> Result<bool> {
    Ok(library::is_finalized())
}

/// Without the World Model the call is an error: sessions are finalised by MPI_Session_finalize.
pub(crate) fn finalize(_: &Running) -> Result<()> {
    let Some(library) = running_unless_closed() else {
        let text = "the World Model is not initialised, or was finalised before; sessions end by MPI_Session_finalize";
        return Err(MpiError::new(abi::MPI_ERR_OTHER, text));
    };
    library.end_world()
}

/// Without the World Model, the level of the process. Sessions may have lower levels
/// (MPI_Session_get_info).
pub(crate) fn query_thread(library: &Running) -> Result<c_int> {
    Ok(library.world.get().map_or_else(|| library.level(), |world| world.level))
}

/// Without the World Model, the thread of the first MPI_Session_init is the main thread.
pub(crate) fn is_thread_main(library: &Running) -> Result<bool> {
    let main = library.world.get().map_or(library.first_thread, |world| world.main_thread);
    Ok(std::thread::current().id() == main)
}

/// Ends the whole job and does not return.
pub(crate) fn abort(_: FuncId, _: Comm, errorcode: c_int) -> ! {
    if library::library().is_err() {
        let text =
            format!("MPI_Abort was called with code {errorcode} while MPI was not initialised");
        end_job(errorcode, &text);
    }
    end_job(errorcode, "")
}

/// MPI-5.0 section 9.1.2: the kinds of hardware resources, each with whether the calling thread is
/// restricted to one of the kind. Test: tests/c/hw_resources.c.
pub(crate) fn get_hw_resource_info() -> Result<InfoHandle> {
    let mut info = Info::new();
    for part in oxmpi_sys::hardware::parts() {
        let value: &[u8] = if part.is_single { b"true" } else { b"false" };
        // The kernel's names fit in an info.
        let _ = info.set(format!("linux://{}", part.kind).as_bytes(), value);
    }
    Ok(info::enlist(info))
}

pub(crate) fn get_processor_name() -> Result<String> {
    Ok(oxmpi_sys::host::name())
}
