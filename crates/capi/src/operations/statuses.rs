//! Statuses (MPI-5.0 section 3.2.5). Of a status's five internal integers, the first two have the
//! number of bytes (64 bits), and the third says whether the operation was cancelled.

use crate::state::library::{Running, check_count};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Status;
use oxmpi_objects::datatype::Datatype;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

fn bytes_of(status: &Status) -> u64 {
    u64::from(status.internal[0] as u32) | (u64::from(status.internal[1] as u32) << 32)
}

const UNDEFINED: i64 = abi::MPI_UNDEFINED as i64;

/// MPI_UNDEFINED for a part of an element.
#[inline]
pub(crate) fn get_count(_: &Running, status: &Status, datatype: &Datatype) -> Result<i64> {
    let (bytes, size) = (bytes_of(status), datatype.size() as u64);
    Ok(match size {
        0 if bytes == 0 => 0,
        size if size > 0 && bytes.is_multiple_of(size) => (bytes / size) as i64,
        _ => UNDEFINED,
    })
}

/// MPI_UNDEFINED for a part of a basic element.
pub(crate) fn get_elements(_: &Running, status: &Status, datatype: &Datatype) -> Result<i64> {
    let bytes = usize::try_from(bytes_of(status)).ok();
    let elements = bytes.and_then(|bytes| datatype.signature().elements_in(bytes));
    Ok(elements.map_or(UNDEFINED, |elements| elements as i64))
}

/// The other fields stay.
pub(crate) fn status_set_elements(
    _: &Running,
    status: &mut Status,
    datatype: &Datatype,
    count: i64,
) -> Result<()> {
    let bytes = datatype.signature().bytes_of(check_count(count)?).ok_or_else(|| {
        let text = format!("count is {count}: {datatype} does not have {count} basic elements");
        MpiError::new(abi::MPI_ERR_COUNT, text)
    })?;
    status.internal[0] = bytes as c_int;
    status.internal[1] = (bytes as u64 >> 32) as c_int;
    Ok(())
}

pub(crate) fn test_cancelled(status: &Status) -> Result<bool> {
    Ok(status.internal[2] != 0)
}

pub(crate) fn status_set_cancelled(status: &mut Status, flag: bool) -> Result<()> {
    status.internal[2] = c_int::from(flag);
    Ok(())
}
