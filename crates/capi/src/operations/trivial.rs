//! Functions without state: versions, clocks, address arithmetic, the fields of a status, handles
//! as integers. They work before `MPI_Init` and after `MPI_Finalize`, in any thread.

use std::ffi::c_int;
use std::sync::LazyLock;

use oxmpi_abi::constants as abi;
use oxmpi_abi::types::*;
use oxmpi_mem::table::{FIRST_INDEX, Handle};
use oxmpi_objects::error::Result;
use oxmpi_param::Params;

use crate::arguments::present;
use crate::operations::errhandlers;
use crate::operations::info;
use crate::operations::sessions;
use crate::state::library::{Running, library};

/// Must be shorter than `MPI_MAX_LIBRARY_VERSION_STRING`.
const LIBRARY_VERSION: &str =
    concat!("OxMPI ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, MPI ABI 1.0, libmpi_abi.so.1)");

pub(crate) fn get_version() -> Result<(c_int, c_int)> {
    Ok((abi::MPI_VERSION, abi::MPI_SUBVERSION))
}

pub(crate) fn abi_get_version() -> Result<(c_int, c_int)> {
    Ok((abi::MPI_ABI_VERSION, abi::MPI_ABI_SUBVERSION))
}

/// The text of the user's parameter, or that of this library. MPI_Init reports a wrong parameter.
pub(crate) fn get_library_version() -> Result<&'static str> {
    static SHOWN: LazyLock<String> = LazyLock::new(|| {
        let params = Params::from_env(oxmpi_sys::library::prefix().as_deref()).unwrap_or_default();
        match params.mpi_library_version() {
            "" => LIBRARY_VERSION.to_owned(),
            text => text.to_owned(),
        }
    });
    Ok(&SHOWN)
}

/// Seconds since a fixed moment in the past, the same on all ranks of a node.
#[inline(always)]
pub(crate) fn wtime() -> f64 {
    oxmpi_sys::clock::node_seconds()
}

/// In seconds: the monotonic clock counts nanoseconds.
pub(crate) fn wtick() -> f64 {
    1e-9
}

pub(crate) fn aint_add(base: Aint, disp: Aint) -> Aint {
    base.wrapping_add(disp)
}

pub(crate) fn aint_diff(addr1: Aint, addr2: Aint) -> Aint {
    addr1.wrapping_sub(addr2)
}

pub(crate) fn status_get_source(status: *const Status) -> Result<c_int> {
    present(status, "status")?;
    // SAFETY: the C program passes a status with this field set; others may be uninitialised.
    Ok(unsafe { (&raw const (*status).source).read() })
}

pub(crate) fn status_get_tag(status: *const Status) -> Result<c_int> {
    present(status, "status")?;
    // SAFETY: the C program passes a status with this field set; others may be uninitialised.
    Ok(unsafe { (&raw const (*status).tag).read() })
}

pub(crate) fn status_get_error(status: *const Status) -> Result<c_int> {
    present(status, "status")?;
    // SAFETY: the C program passes a status with this field set; others may be uninitialised.
    Ok(unsafe { (&raw const (*status).error).read() })
}

pub(crate) fn status_set_source(status: *mut Status, source: c_int) -> Result<()> {
    present(status, "status")?;
    // SAFETY: the C program passes a status, of which other fields may be uninitialised.
    unsafe { (&raw mut (*status).source).write(source) };
    Ok(())
}

pub(crate) fn status_set_tag(status: *mut Status, tag: c_int) -> Result<()> {
    present(status, "status")?;
    // SAFETY: the C program passes a status, of which other fields may be uninitialised.
    unsafe { (&raw mut (*status).tag).write(tag) };
    Ok(())
}

pub(crate) fn status_set_error(status: *mut Status, err: c_int) -> Result<()> {
    present(status, "status")?;
    // SAFETY: the C program passes a status, of which other fields may be uninitialised.
    unsafe { (&raw mut (*status).error).write(err) };
    Ok(())
}

/// A handle as a Fortran integer (`oxmpi_mem::table::Int`).
pub(crate) fn to_int(handle: usize) -> c_int {
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

pub(crate) fn comm_fromint(comm: c_int) -> Comm {
    from_int(comm, |library, int| library.communicators.from_int(int).raw())
}

pub(crate) fn errhandler_fromint(errhandler: c_int) -> Errhandler {
    from_int_at_any_time(errhandler, errhandlers::of_int)
}

pub(crate) fn file_fromint(file: c_int) -> File {
    from_int(file, |library, int| library.files.from_int(int).raw())
}

pub(crate) fn group_fromint(group: c_int) -> Group {
    from_int(group, |library, int| library.groups.from_int(int).raw())
}

pub(crate) fn info_fromint(info: c_int) -> Info {
    from_int_at_any_time(info, info::of_int)
}

pub(crate) fn message_fromint(message: c_int) -> Message {
    from_int(message, |library, int| library.process.request_of_int(int))
}

pub(crate) fn op_fromint(op: c_int) -> Op {
    from_int(op, |library, int| library.operations.from_int(int).raw())
}

pub(crate) fn request_fromint(request: c_int) -> Request {
    from_int(request, |library, int| library.process.request_of_int(int))
}

pub(crate) fn session_fromint(session: c_int) -> Session {
    from_int_at_any_time(session, sessions::of_int)
}

pub(crate) fn type_fromint(datatype: c_int) -> Datatype {
    from_int(datatype, |library, int| library.datatypes.from_int(int).raw())
}

pub(crate) fn win_fromint(win: c_int) -> Win {
    from_int(win, |library, int| library.windows.from_int(int).raw())
}

/// Copies a status in either direction: a Fortran status is the same eight integers.
/// # Safety
/// `from` must be null or point to a status, `to` must be null or have room for one.
// SAFETY: the standard reserves the symbol for MPI libraries.
#[unsafe(export_name = "PMPI_Status_c2f")]
unsafe extern "C" fn copy_status(from: *const Status, to: *mut Status) -> c_int {
    if from.is_null() || to.is_null() {
        return oxmpi_abi::constants::MPI_ERR_ARG;
    }
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
