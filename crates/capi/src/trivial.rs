//! Functions without state: versions, clocks, address arithmetic, the fields of a status, handles
//! as integers. They work before `MPI_Init` and after `MPI_Finalize`, in any thread.

use std::ffi::{c_char, c_int};

use oxmpi_abi::FuncId;
use oxmpi_abi::constants::{
    MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_MAX_LIBRARY_VERSION_STRING, MPI_SUBVERSION,
    MPI_VERSION,
};
use oxmpi_abi::types::*;
use oxmpi_mem::table::{FIRST_INDEX, Handle};
use oxmpi_objects::error::Result;

use crate::errors::{outcome, put_string};
use crate::library::{Running, library, null, put};
use crate::{errhandlers, info, sessions};

/// Must be shorter than `MPI_MAX_LIBRARY_VERSION_STRING`.
const LIBRARY_VERSION: &str =
    concat!("OxMPI ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, MPI ABI 1.0, libmpi_abi.so.1)");

mpi! {
    fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
        // SAFETY: the C program passes places for two integers.
        let result = unsafe {
            put(version, MPI_VERSION, "version").and_then(|()| put(subversion, MPI_SUBVERSION, "subversion"))
        };
        outcome(FuncId::MPI_Get_version, None, result)
    }

    fn MPI_Abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
        // SAFETY: the C program passes places for two integers.
        let result = unsafe {
            put(abi_major, MPI_ABI_VERSION, "abi_major").and_then(|()| put(abi_minor, MPI_ABI_SUBVERSION, "abi_minor"))
        };
        outcome(FuncId::MPI_Abi_get_version, None, result)
    }

    /// The length does not count the closing zero.
    fn MPI_Get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int {
        // SAFETY: the C program passes MPI_MAX_LIBRARY_VERSION_STRING characters and an integer.
        let result = unsafe { put_string(LIBRARY_VERSION, MPI_MAX_LIBRARY_VERSION_STRING, version, resultlen) };
        outcome(FuncId::MPI_Get_library_version, None, result)
    }
}

mpi! {
    /// Seconds since a fixed moment in the past, the same on all ranks of a node.
    fn MPI_Wtime() -> f64 {
        oxmpi_sys::clock::node_seconds()
    }

    /// In seconds: the monotonic clock counts nanoseconds.
    fn MPI_Wtick() -> f64 {
        1e-9
    }

    fn MPI_Aint_add(base: Aint, disp: Aint) -> Aint {
        base.wrapping_add(disp)
    }

    fn MPI_Aint_diff(addr1: Aint, addr2: Aint) -> Aint {
        addr1.wrapping_sub(addr2)
    }
}

/// MPI_STATUS_IGNORE is not allowed.
fn given(status: *const Status) -> Result<()> {
    if status.is_null() { Err(null("status")) } else { Ok(()) }
}

mpi! {
    fn MPI_Status_get_source(status: *const Status, source: *mut c_int) -> c_int {
        // SAFETY: the C program passes a status with this field set, and a place for an integer.
        let result = given(status).and_then(|()| unsafe { put(source, (&raw const (*status).source).read(), "source") });
        outcome(FuncId::MPI_Status_get_source, None, result)
    }

    fn MPI_Status_get_tag(status: *const Status, tag: *mut c_int) -> c_int {
        // SAFETY: the C program passes a status with this field set, and a place for an integer.
        let result = given(status).and_then(|()| unsafe { put(tag, (&raw const (*status).tag).read(), "tag") });
        outcome(FuncId::MPI_Status_get_tag, None, result)
    }

    fn MPI_Status_get_error(status: *const Status, error: *mut c_int) -> c_int {
        // SAFETY: the C program passes a status with this field set, and a place for an integer.
        let result = given(status).and_then(|()| unsafe { put(error, (&raw const (*status).error).read(), "error") });
        outcome(FuncId::MPI_Status_get_error, None, result)
    }

    fn MPI_Status_set_source(status: *mut Status, source: c_int) -> c_int {
        // SAFETY: the C program passes a status, of which other fields may be uninitialised.
        let result = given(status).and_then(|()| unsafe { put(&raw mut (*status).source, source, "source") });
        outcome(FuncId::MPI_Status_set_source, None, result)
    }

    fn MPI_Status_set_tag(status: *mut Status, tag: c_int) -> c_int {
        // SAFETY: the C program passes a status, of which other fields may be uninitialised.
        let result = given(status).and_then(|()| unsafe { put(&raw mut (*status).tag, tag, "tag") });
        outcome(FuncId::MPI_Status_set_tag, None, result)
    }

    fn MPI_Status_set_error(status: *mut Status, error: c_int) -> c_int {
        // SAFETY: the C program passes a status, of which other fields may be uninitialised.
        let result = given(status).and_then(|()| unsafe { put(&raw mut (*status).error, error, "error") });
        outcome(FuncId::MPI_Status_set_error, None, result)
    }
}

/// A handle as a Fortran integer (`oxmpi_mem::table::Int`).
fn to_int(handle: usize) -> c_int {
    Handle::from_raw(handle as u64).to_int().cast_signed()
}

/// The handle for a Fortran integer. Predefined handles have their own values, and `find` finds the
/// others. An invalid result is reported when the program uses it.
fn from_int(value: c_int, find: impl FnOnce(&'static Running, u32) -> u64) -> usize {
    from_int_at_any_time(value, |int| match library() {
        Ok(library) => find(library, int),
        // Without a library there are no objects.
        Err(_) => u64::from(int),
    })
}

/// [`from_int`] for objects that exist without MPI_Init.
fn from_int_at_any_time(value: c_int, find: impl FnOnce(u32) -> u64) -> usize {
    let int = value.cast_unsigned();
    (if int < FIRST_INDEX { u64::from(int) } else { find(int) }) as usize
}

mpi! {
    fn MPI_Comm_toint(comm: Comm) -> c_int {
        to_int(comm)
    }

    fn MPI_Comm_fromint(comm: c_int) -> Comm {
        from_int(comm, |library, int| library.communicators.from_int(int).raw())
    }

    fn MPI_Errhandler_toint(errhandler: Errhandler) -> c_int {
        to_int(errhandler)
    }

    fn MPI_Errhandler_fromint(errhandler: c_int) -> Errhandler {
        from_int_at_any_time(errhandler, errhandlers::of_int)
    }

    fn MPI_File_toint(file: File) -> c_int {
        to_int(file)
    }

    fn MPI_File_fromint(file: c_int) -> File {
        from_int(file, |library, int| library.files.from_int(int).raw())
    }

    fn MPI_Group_toint(group: Group) -> c_int {
        to_int(group)
    }

    fn MPI_Group_fromint(group: c_int) -> Group {
        from_int(group, |library, int| library.groups.from_int(int).raw())
    }

    fn MPI_Info_toint(info: Info) -> c_int {
        to_int(info)
    }

    fn MPI_Info_fromint(info: c_int) -> Info {
        from_int_at_any_time(info, info::of_int)
    }

    fn MPI_Message_toint(message: Message) -> c_int {
        to_int(message)
    }

    fn MPI_Message_fromint(message: c_int) -> Message {
        from_int(message, |library, int| library.process.request_of_int(int))
    }

    fn MPI_Op_toint(op: Op) -> c_int {
        to_int(op)
    }

    fn MPI_Op_fromint(op: c_int) -> Op {
        from_int(op, |library, int| library.operations.from_int(int).raw())
    }

    fn MPI_Request_toint(request: Request) -> c_int {
        to_int(request)
    }

    fn MPI_Request_fromint(request: c_int) -> Request {
        from_int(request, |library, int| library.process.request_of_int(int))
    }

    fn MPI_Session_toint(session: Session) -> c_int {
        to_int(session)
    }

    fn MPI_Session_fromint(session: c_int) -> Session {
        from_int_at_any_time(session, sessions::of_int)
    }

    fn MPI_Type_toint(datatype: Datatype) -> c_int {
        to_int(datatype)
    }

    fn MPI_Type_fromint(datatype: c_int) -> Datatype {
        from_int(datatype, |library, int| library.datatypes.from_int(int).raw())
    }

    fn MPI_Win_toint(win: Win) -> c_int {
        to_int(win)
    }

    fn MPI_Win_fromint(win: c_int) -> Win {
        from_int(win, |library, int| library.windows.from_int(int).raw())
    }
}

/// The names of the Fortran conversions before MPI-5.0, for the same functions. `mpi.h` has inline
/// functions of these names, but build systems still search the library for them with their own
/// declarations (AC_CHECK_FUNCS). A Fortran library that defines the names takes precedence.
macro_rules! fortran_names {
    ($($kind:literal)*) => { $(
        std::arch::global_asm!(
            concat!(".weak MPI_", $kind, "_c2f"),
            concat!(".set MPI_", $kind, "_c2f, PMPI_", $kind, "_toint"),
            concat!(".weak PMPI_", $kind, "_c2f"),
            concat!(".set PMPI_", $kind, "_c2f, PMPI_", $kind, "_toint"),
            concat!(".weak MPI_", $kind, "_f2c"),
            concat!(".set MPI_", $kind, "_f2c, PMPI_", $kind, "_fromint"),
            concat!(".weak PMPI_", $kind, "_f2c"),
            concat!(".set PMPI_", $kind, "_f2c, PMPI_", $kind, "_fromint"),
        );
    )* };
}

fortran_names! { "Comm" "Errhandler" "File" "Group" "Info" "Message" "Op" "Request" "Session" "Type" "Win" }

/// Copies a status in either direction: a Fortran status is the same eight integers.
/// # Safety
/// `from` must point to a status, `to` must have room for one.
// SAFETY: the standard reserves the symbol for MPI libraries.
#[unsafe(export_name = "PMPI_Status_c2f")]
unsafe extern "C" fn copy_status(from: *const Status, to: *mut Status) -> c_int {
    // SAFETY: by the contract of this function.
    unsafe { to.copy_from(from, 1) };
    oxmpi_abi::constants::MPI_SUCCESS
}

std::arch::global_asm!(
    ".weak MPI_Status_c2f",
    ".set MPI_Status_c2f, PMPI_Status_c2f",
    ".weak MPI_Status_f2c",
    ".set MPI_Status_f2c, PMPI_Status_c2f",
    ".weak PMPI_Status_f2c",
    ".set PMPI_Status_f2c, PMPI_Status_c2f",
);
