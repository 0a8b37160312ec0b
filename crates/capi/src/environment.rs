//! Starting, ending and asking (MPI-5.0 chapters 9 and 11).

use crate::attributes::delete_attributes;
use crate::errors::{end_job, end_jobs_through, on_none, outcome, put_string};
use crate::export;
use crate::fortran_types::FortranTypes;
use crate::info;
use crate::library::{self, Running, put, running};
use crate::memory::OrdinaryMemory;
use crate::objects::objects;
use crate::predefined::Values;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Info as InfoHandle};
use oxmpi_core::handler::ErrorHandler;
use oxmpi_core::start::{Started, start};
use oxmpi_mem::table::{SingleThread, Table};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use oxmpi_objects::predefined::Predefined;
use oxmpi_os::segment::RankState;
use std::ffi::{c_char, c_int};

/// Starts MPI with at most the wanted thread level; returns the one granted.
fn initialize(wanted: c_int) -> Result<c_int> {
    let levels = [
        abi::MPI_THREAD_SINGLE,
        abi::MPI_THREAD_FUNNELED,
        abi::MPI_THREAD_SERIALIZED,
        abi::MPI_THREAD_MULTIPLE,
    ];
    // A level that the standard does not know is granted as the next lower one.
    let level = levels.into_iter().rfind(|l| *l <= wanted).unwrap_or(abi::MPI_THREAD_SINGLE);
    if !library::claim_initialization() {
        return Err(MpiError::new(abi::MPI_ERR_OTHER, "MPI was initialised before; it can be only once"));
    }
    let Started { process, client } =
        start().map_err(|e| MpiError::new(abi::MPI_ERR_OTHER, e.to_string()))?;
    end_jobs_through(client.clone());
    let initial = ErrorHandler::predefined(objects().initial_handler);
    process.world().errhandler_cell().set(initial.clone());
    process.own().errhandler_cell().set(initial);
    info::settle_environment(process.size(), wanted);
    let attribute_values = Values::new(&client);
    let (communicators, groups) = (Table::new(), Table::new());
    let (datatypes, operations, windows) = (Table::new(), Table::new(), Table::new());
    if level >= abi::MPI_THREAD_SERIALIZED {
        process.set_threaded()?;
    } else {
        // SAFETY: the program has promised that one thread at a time calls MPI, and always the same.
        let promise = unsafe { SingleThread::promise() };
        communicators.set_single_threaded(promise);
        groups.set_single_threaded(promise);
        datatypes.set_single_threaded(promise);
        operations.set_single_threaded(promise);
        windows.set_single_threaded(promise);
    }
    let library = library::begin(Running {
        process,
        client,
        communicators,
        groups,
        datatypes,
        predefined: Predefined::new(),
        fortran_types: FortranTypes::default(),
        operations,
        windows,
        level,
        wanted_level: wanted,
        attribute_values,
        main_thread: std::thread::current().id(),
        ordinary_memory: OrdinaryMemory::default(),
    });
    let status = library.client.segment().status();
    export::note_calls_in(status.last_call_cell());
    status.set_state(RankState::Initialized);
    Ok(level)
}

mpi! {
    /// MPI-5.0 section 11.2.1.
    fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
        outcome(FuncId::MPI_Init, None, initialize(abi::MPI_THREAD_SINGLE).map(drop))
    }

    /// MPI-5.0 section 11.2.1.
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

    /// MPI-5.0 section 11.2.1.
    fn MPI_Initialized(flag: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        let result = unsafe { put(flag, c_int::from(library::is_initialized()), "flag") };
        outcome(FuncId::MPI_Initialized, None, result)
    }

    /// MPI-5.0 section 11.2.3.
    fn MPI_Finalized(flag: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        let result = unsafe { put(flag, c_int::from(library::is_finalized()), "flag") };
        outcome(FuncId::MPI_Finalized, None, result)
    }

    /// MPI-5.0 section 11.2.2.
    fn MPI_Finalize() -> c_int {
        on_none(FuncId::MPI_Finalize, |library| {
            // First of all, while MPI is as usable as ever (MPI-5.0 section 11.2.2).
            delete_attributes(abi::MPI_COMM_SELF, &library.process.own().attributes)?;
            library.process.drain();
            library.client.segment().status().set_state(RankState::Finalized);
            library::end();
            Ok(())
        })
    }

    /// MPI-5.0 section 11.6.2.
    fn MPI_Query_thread(provided: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Query_thread, |library| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(provided, library.level, "provided") }
        })
    }

    /// MPI-5.0 section 11.6.2.
    fn MPI_Is_thread_main(flag: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Is_thread_main, |library| {
            let main = std::thread::current().id() == library.main_thread;
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(flag, c_int::from(main), "flag") }
        })
    }

    /// MPI-5.0 section 9.7. Ends the whole job; does not return.
    fn MPI_Abort(_comm: Comm, errorcode: c_int) -> c_int {
        if running().is_none() {
            end_job(errorcode, "MPI_Abort was called while MPI was not initialised");
        }
        end_job(errorcode, "")
    }

    /// MPI-5.0 section 9.1.2: the kinds of parts of this machine, and whether the calling thread may run on one of each kind
    /// only. Test: tests/c/hw_resources.c.
    fn MPI_Get_hw_resource_info(hw_info: *mut InfoHandle) -> c_int {
        let mut info = Info::new();
        for part in oxmpi_os::hardware::parts() {
            let value: &[u8] = if part.is_single { b"true" } else { b"false" };
            // The kernel's names are short.
            let _ = info.set(format!("linux://{}", part.kind).as_bytes(), value);
        }
        outcome(FuncId::MPI_Get_hw_resource_info, None, info::give(info, hw_info, "hw_info"))
    }

    /// MPI-5.0 section 9.1.2.
    fn MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Get_processor_name, None, {
            // SAFETY: the C program passes room for MPI_MAX_PROCESSOR_NAME characters.
            unsafe { put_string(&oxmpi_os::host::name(), abi::MPI_MAX_PROCESSOR_NAME, name, resultlen) }
        })
    }
}
