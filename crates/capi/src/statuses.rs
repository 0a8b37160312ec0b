//! Statuses (MPI-5.0 section 3.2.5). Of a status's five internal integers, the first two have the
//! number of bytes (64 bits), and the third says whether the operation was cancelled.

use crate::errors::{on_none, outcome};
use crate::library::{self, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, Datatype, Status};
use oxmpi_engine::{Completion, Received};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

/// Writes the result of one operation, but not MPI_ERROR (MPI-5.0 section 3.2.5).
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
#[inline]
pub(crate) unsafe fn put_status(status: *mut Status, completion: &Completion) {
    // MPI_STATUS_IGNORE is a null pointer in this ABI.
    if status.is_null() {
        return;
    }
    let bytes = completion.bytes;
    // SAFETY: valid by the contract of this function.
    unsafe {
        (*status).source = completion.source;
        (*status).tag = completion.tag;
        (*status).internal =
            [bytes as c_int, (bytes >> 32) as c_int, c_int::from(completion.cancelled), 0, 0];
    }
}

/// Writes the result of a successful operation, but not MPI_ERROR.
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
#[inline(always)]
pub(crate) unsafe fn put_received(status: *mut Status, received: Received) {
    if status.is_null() {
        return;
    }
    let Received { source, tag, bytes } = received;
    // SAFETY: valid by the contract of this function.
    unsafe {
        (*status).source = source;
        (*status).tag = tag;
        (*status).internal = [bytes as c_int, (bytes >> 32) as c_int, 0, 0, 0];
    }
}

/// Writes an empty status (MPI-5.0 section 3.7.3), with MPI_SUCCESS in MPI_ERROR.
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
pub(crate) unsafe fn put_empty(status: *mut Status) {
    if !status.is_null() {
        // SAFETY: by the contract of this function.
        unsafe {
            put_status(status, &Completion::EMPTY);
            (*status).error = abi::MPI_SUCCESS;
        }
    }
}

fn bytes_of(status: &Status) -> u64 {
    u64::from(status.internal[0] as u32) | (u64::from(status.internal[1] as u32) << 32)
}

/// The elements of a received message; `None` if it ends within an element.
/// # Safety
/// `status` must be null or a status that a call of this library has written.
unsafe fn count(status: *const Status, datatype: Datatype) -> Result<Option<i64>> {
    // SAFETY: the C program passes a status.
    let status = unsafe { library::fetch(status, "status") }?;
    let datatype = library::library()?.datatype(datatype)?;
    let (bytes, size) = (bytes_of(&status), datatype.size() as u64);
    if size == 0 {
        return Ok((bytes == 0).then_some(0));
    }
    Ok(bytes.is_multiple_of(size).then(|| (bytes / size) as i64))
}

/// The basic elements of a received message; `None` if it ends within one.
/// # Safety
/// `status` must be null or a status that a call of this library has written.
unsafe fn elements(status: *const Status, datatype: Datatype) -> Result<Option<i64>> {
    // SAFETY: the C program passes a status.
    let status = unsafe { library::fetch(status, "status") }?;
    let datatype = library::library()?.datatype(datatype)?;
    let elements =
        usize::try_from(bytes_of(&status)).ok().and_then(|n| datatype.signature().elements_in(n));
    Ok(elements.map(|n| n as i64))
}

/// # Safety
/// `status` must be null or point to a status.
unsafe fn set_elements(status: *mut Status, datatype: Datatype, count: i64) -> Result<()> {
    if status.is_null() {
        return Err(library::null("status"));
    }
    let datatype = library::library()?.datatype(datatype)?;
    let bytes = datatype.signature().bytes_of(library::check_count(count)?).ok_or_else(|| {
        let text = format!("count is {count}: {} does not have {count} basic elements", **datatype);
        MpiError::new(abi::MPI_ERR_COUNT, text)
    })?;
    // SAFETY: by the contract of this function; the other fields stay.
    unsafe {
        (*status).internal[0] = bytes as c_int;
        (*status).internal[1] = (bytes as u64 >> 32) as c_int;
    }
    Ok(())
}

mpi! {
    /// MPI_UNDEFINED for a part of an element, and for a number that does not fit in an int.
    fn MPI_Get_count(status: *const Status, datatype: Datatype, count_out: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Get_count, |_| {
            // SAFETY: the C program passes a status and a place for an integer.
            unsafe {
                let elements = count(status, datatype)?.and_then(|n| c_int::try_from(n).ok());
                put(count_out, elements.unwrap_or(abi::MPI_UNDEFINED), "count")
            }
        })
    }

    fn MPI_Get_count_c(status: *const Status, datatype: Datatype, count_out: *mut Count) -> c_int {
        on_none(FuncId::MPI_Get_count_c, |_| {
            // SAFETY: the C program passes a status and a place for a count.
            unsafe {
                let elements = count(status, datatype)?;
                put(count_out, elements.unwrap_or(i64::from(abi::MPI_UNDEFINED)), "count")
            }
        })
    }

    /// MPI-5.0 section 5.1.11. MPI_UNDEFINED for a part of a basic element, and for a number that
    /// does not fit in an int.
    fn MPI_Get_elements(status: *const Status, datatype: Datatype, count_out: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Get_elements, |_| {
            // SAFETY: the C program passes a status and a place for an integer.
            unsafe {
                let elements = elements(status, datatype)?.and_then(|n| c_int::try_from(n).ok());
                put(count_out, elements.unwrap_or(abi::MPI_UNDEFINED), "count")
            }
        })
    }

    fn MPI_Get_elements_c(status: *const Status, datatype: Datatype, count_out: *mut Count) -> c_int {
        on_none(FuncId::MPI_Get_elements_c, |_| {
            // SAFETY: the C program passes a status and a place for a count.
            unsafe { put(count_out, elements(status, datatype)?.unwrap_or(abi::MPI_UNDEFINED.into()), "count") }
        })
    }

    fn MPI_Get_elements_x(status: *const Status, datatype: Datatype, count_out: *mut Count) -> c_int {
        on_none(FuncId::MPI_Get_elements_x, |_| {
            // SAFETY: the C program passes a status and a place for a count.
            unsafe { put(count_out, elements(status, datatype)?.unwrap_or(abi::MPI_UNDEFINED.into()), "count") }
        })
    }

    /// MPI-5.0 section 13.3.
    fn MPI_Status_set_elements(status: *mut Status, datatype: Datatype, count_in: c_int) -> c_int {
        // SAFETY: the C program passes a status.
        on_none(FuncId::MPI_Status_set_elements, |_| unsafe { set_elements(status, datatype, count_in.into()) })
    }

    fn MPI_Status_set_elements_c(status: *mut Status, datatype: Datatype, count_in: Count) -> c_int {
        // SAFETY: the C program passes a status.
        on_none(FuncId::MPI_Status_set_elements_c, |_| unsafe { set_elements(status, datatype, count_in) })
    }

    fn MPI_Status_set_elements_x(status: *mut Status, datatype: Datatype, count_in: Count) -> c_int {
        // SAFETY: the C program passes a status.
        on_none(FuncId::MPI_Status_set_elements_x, |_| unsafe { set_elements(status, datatype, count_in) })
    }

    /// MPI-5.0 section 3.8.4.
    fn MPI_Test_cancelled(status: *const Status, flag: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Test_cancelled, None, (|| {
            // SAFETY: the C program passes a status and a place for an integer.
            unsafe {
                let status = library::fetch(status, "status")?;
                put(flag, c_int::from(status.internal[2] != 0), "flag")
            }
        })())
    }

    /// MPI-5.0 section 3.8.4.
    fn MPI_Status_set_cancelled(status: *mut Status, flag: c_int) -> c_int {
        outcome(FuncId::MPI_Status_set_cancelled, None, (|| {
            if status.is_null() {
                return Err(MpiError::new(abi::MPI_ERR_ARG, "status is a null pointer"));
            }
            // SAFETY: the C program passes a status.
            unsafe { (*status).internal[2] = c_int::from(flag != 0) };
            Ok(())
        })())
    }
}
