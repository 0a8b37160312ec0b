//! Enumerations (MPI-5.0 section 15.3.5).

use super::outputs::{put_string, put_wanted};
use super::{Result, at, call};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::TEnum;
use oxmpi_core::tool::enums::{Enumeration, all};
use std::ffi::{c_char, c_int};

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

mpi! {
    fn MPI_T_enum_get_info(
        enumtype: TEnum,
        num: *mut c_int,
        name: *mut c_char,
        name_len: *mut c_int,
    ) -> c_int {
        call(|| {
            let one = enumeration(enumtype)?;
            // SAFETY: the C program passes a place for each result that it wants, else null.
            unsafe {
                put_wanted(num, one.items.len() as c_int);
                put_string(&one.name, name, name_len);
            }
            Ok(())
        })
    }

    fn MPI_T_enum_get_item(
        enumtype: TEnum,
        indx: c_int,
        value: *mut c_int,
        name: *mut c_char,
        name_len: *mut c_int,
    ) -> c_int {
        call(|| {
            let (number, text) = at(&enumeration(enumtype)?.items, indx)?;
            // SAFETY: the C program passes a place for each result that it wants, else null.
            unsafe {
                put_wanted(value, *number);
                put_string(text, name, name_len);
            }
            Ok(())
        })
    }
}
