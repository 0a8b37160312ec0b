//! Initialisation, finalisation and inquiry (MPI-5.0 chapters 9 and 11).

use crate::checkpoints;
use crate::errors::{end_job, on_none, outcome, put_string};
use crate::info;
use crate::library::{self, Running, WorldModel, put, running_unless_closed};
use crate::life;
use crate::objects::objects;
use crate::tool;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Info as InfoHandle};
use oxmpi_core::handler::ErrorHandler;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use oxmpi_param::{SelectError, ThreadLevel};
use std::ffi::{c_char, c_int};

/// In the order of [`ThreadLevel::ALL`].
const LEVELS: [c_int; 4] = [
    abi::MPI_THREAD_SINGLE,
    abi::MPI_THREAD_FUNNELED,
    abi::MPI_THREAD_SERIALIZED,
    abi::MPI_THREAD_MULTIPLE,
];

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

/// The thread level of MPI_Init; `None` if the environment names an invalid level.
pub(crate) fn level_before_init() -> Option<c_int> {
    let said = ThreadLevel::from_env().ok()?;
    Some(said.map_or(abi::MPI_THREAD_SINGLE, |(level, _)| LEVELS[level as usize]))
}

/// The error of MPI_Finalize without the World Model; sessions are finalised by
/// MPI_Session_finalize.
fn not_finalizable() -> MpiError {
    match library::library() {
        Ok(_) => {
            let text = "the World Model is not initialised, or was finalised before; sessions end by MPI_Session_finalize";
            MpiError::new(abi::MPI_ERR_OTHER, text)
        }
        Err(error) => error,
    }
}

mpi! {
    fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
        outcome(FuncId::MPI_Init, None, initialize(abi::MPI_THREAD_SINGLE).map(drop))
    }

    fn MPI_Init_thread(
        _argc: *mut c_int,
        _argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        let result = initialize(required).and_then(|level| unsafe { put(provided, level, "provided") });
        outcome(FuncId::MPI_Init_thread, None, result)
    }

    fn MPI_Initialized(flag: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        let result = unsafe { put(flag, c_int::from(library::is_initialized()), "flag") };
        outcome(FuncId::MPI_Initialized, None, result)
    }

    fn MPI_Finalized(flag: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        let result = unsafe { put(flag, c_int::from(library::is_finalized()), "flag") };
        outcome(FuncId::MPI_Finalized, None, result)
    }

    fn MPI_Finalize() -> c_int {
        let result = running_unless_closed().ok_or_else(not_finalizable).and_then(Running::end_world);
        outcome(FuncId::MPI_Finalize, None, result)
    }

    /// Without the World Model, the level of the process. Sessions may have lower levels
    /// (MPI_Session_get_info).
    fn MPI_Query_thread(provided: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Query_thread, |library| {
            let level = library.world.get().map_or_else(|| library.level(), |world| world.level);
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(provided, level, "provided") }
        })
    }

    /// Without the World Model, the thread of the first MPI_Session_init is the main thread.
    fn MPI_Is_thread_main(flag: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Is_thread_main, |library| {
            let known = library.world.get().map_or(library.first_thread, |world| world.main_thread);
            let main = std::thread::current().id() == known;
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(flag, c_int::from(main), "flag") }
        })
    }

    /// Ends the whole job and does not return.
    fn MPI_Abort(_comm: Comm, errorcode: c_int) -> c_int {
        if library::library().is_err() {
            let text = format!("MPI_Abort was called with code {errorcode} while MPI was not initialised");
            end_job(errorcode, &text);
        }
        end_job(errorcode, "")
    }

    /// MPI-5.0 section 9.1.2: the kinds of hardware resources, each with whether the calling thread
    /// is restricted to one of the kind. Test: tests/c/hw_resources.c.
    fn MPI_Get_hw_resource_info(hw_info: *mut InfoHandle) -> c_int {
        let mut info = Info::new();
        for part in oxmpi_sys::hardware::parts() {
            let value: &[u8] = if part.is_single { b"true" } else { b"false" };
            // The kernel's names fit in an info.
            let _ = info.set(format!("linux://{}", part.kind).as_bytes(), value);
        }
        outcome(FuncId::MPI_Get_hw_resource_info, None, info::give(info, hw_info, "hw_info"))
    }

    fn MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Get_processor_name, None, {
            // SAFETY: the C program passes room for MPI_MAX_PROCESSOR_NAME characters.
            unsafe { put_string(&oxmpi_sys::host::name(), abi::MPI_MAX_PROCESSOR_NAME, name, resultlen) }
        })
    }
}
