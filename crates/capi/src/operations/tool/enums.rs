//! Enumerations (MPI-5.0 section 15.3.5).

use super::checks::{Result, at};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::TEnum;
use oxmpi_core::tool::enums::{Enumeration, all};
use std::ffi::c_int;

/// The first handle, which differs from null and from all indices.
const FIRST: usize = 4096;

/// The handle of the enumeration with this index; MPI_T_ENUM_NULL for `None`.
pub(super) fn handle(place: Option<usize>) -> TEnum {
    place.map_or(abi::MPI_T_ENUM_NULL, |place| FIRST + place)
}

fn enumeration(handle: TEnum) -> Result<&'static Enumeration> {
    handle
        .checked_sub(FIRST)
        .and_then(|place| all().get(place))
        .ok_or(abi::MPI_T_ERR_INVALID_HANDLE)
}

pub(crate) fn t_enum_get_info(enumtype: TEnum) -> Result<(c_int, &'static str)> {
    let one = enumeration(enumtype)?;
    Ok((one.items.len() as c_int, &one.name))
}

pub(crate) fn t_enum_get_item(enumtype: TEnum, index: c_int) -> Result<(c_int, &'static str)> {
    let (number, text) = at(&enumeration(enumtype)?.items, index)?;
    Ok((*number, text))
}
