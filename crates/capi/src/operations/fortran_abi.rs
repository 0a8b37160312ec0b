//! Facts of the Fortran compiler that a C library cannot know (MPI-5.0 section 20.3). The Fortran
//! layer sets them, and other callers read them.
//!
//! The library's Fortran datatypes have the default sizes of compilers: 4 bytes for LOGICAL,
//! INTEGER and REAL, 8 for DOUBLE PRECISION. Other sizes are refused.

use crate::arguments::null;
use crate::arguments::present;
use crate::operations::info;
use crate::state::fortran::FortranBooleans;
use crate::state::locked;
use crate::state::objects::objects;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Info as InfoHandle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use std::ffi::c_void;

/// The keys of an info, with the sizes of the library's datatypes in bytes.
const SIZES: [(&str, usize); 4] = [
    ("mpi_logical_size", 4),
    ("mpi_integer_size", 4),
    ("mpi_real_size", 4),
    ("mpi_double_precision_size", 8),
];

fn disagrees(text: String) -> MpiError {
    MpiError::new(abi::MPI_ERR_ABI, text)
}

fn check_sizes(info: &Info) -> Result<()> {
    for (key, own) in SIZES {
        if let Some(said) = info.hint(key)
            && said.parse() != Ok(own)
        {
            return Err(disagrees(format!(
                "{key} is {said}; the library's datatype has {own} bytes"
            )));
        }
    }
    Ok(())
}

fn check_logical(bytes: usize) -> Result<()> {
    if matches!(bytes, 1 | 2 | 4 | 8 | 16) {
        return Ok(());
    }
    let text = format!("logical_size is {bytes}; a LOGICAL has 1, 2, 4, 8 or 16 bytes");
    Err(MpiError::new(abi::MPI_ERR_ARG, text))
}

/// The bytes at an address of the program.
/// # Safety
/// `place` must be null or point to `len` readable bytes.
unsafe fn bytes(place: *const c_void, len: usize, what: &str) -> Result<Vec<u8>> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the contract of this function.
    Ok(unsafe { std::slice::from_raw_parts(place.cast::<u8>(), len) }.to_vec())
}

/// Copies bytes to an address of the program.
/// # Safety
/// `place` must be null or have room for the bytes.
unsafe fn put_bytes(place: *mut c_void, value: &[u8], what: &str) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the contract of this function.
    unsafe { place.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
    Ok(())
}

/// Test of this module: tests/c/fortran_abi.c.
pub(crate) fn abi_set_fortran_info(info: InfoHandle) -> Result<()> {
    let info = info::given(info)?;
    check_sizes(&info)?;
    let mut known = locked(&objects().fortran);
    match &known.info {
        Some(before) if !before.iter().eq(info.iter()) => {
            return Err(disagrees("other Fortran information was set before".into()));
        }
        _ => known.info = Some(info),
    }
    Ok(())
}

/// MPI_INFO_NULL if nothing was set.
pub(crate) fn abi_get_fortran_info() -> Result<InfoHandle> {
    let known = locked(&objects().fortran).info.clone();
    Ok(known.map_or(abi::MPI_INFO_NULL, |known| {
        objects().infos.insert(known.into()).raw() as InfoHandle
    }))
}

pub(crate) fn abi_set_fortran_booleans(
    logical_size: usize,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> Result<()> {
    check_logical(logical_size)?;
    // SAFETY: the C program passes two values of that size.
    let said = unsafe {
        let yes = bytes(logical_true, logical_size, "logical_true")?;
        FortranBooleans { yes, no: bytes(logical_false, logical_size, "logical_false")? }
    };
    let mut known = locked(&objects().fortran);
    match known.booleans.iter().find(|known| known.yes.len() == logical_size) {
        Some(before) if *before != said => {
            let text = format!("other values of a LOGICAL of {logical_size} bytes were set before");
            return Err(disagrees(text));
        }
        Some(_) => {}
        None => known.booleans.push(said),
    }
    Ok(())
}

pub(crate) fn abi_get_fortran_booleans(
    logical_size: usize,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> Result<bool> {
    check_logical(logical_size)?;
    present(logical_true, "logical_true")?;
    present(logical_false, "logical_false")?;
    let known = locked(&objects().fortran);
    let found = known.booleans.iter().find(|known| known.yes.len() == logical_size);
    let Some(FortranBooleans { yes, no }) = found else { return Ok(false) };
    // SAFETY: the C program passes places for two values of that size.
    unsafe {
        put_bytes(logical_true, yes, "logical_true")?;
        put_bytes(logical_false, no, "logical_false")?;
    }
    Ok(true)
}
