//! Facts of the Fortran compiler that a C library cannot know (MPI-5.0 section 20.3). The Fortran
//! layer sets them, and other callers read them.
//!
//! The library's Fortran datatypes have the default sizes of compilers: 4 bytes for LOGICAL,
//! INTEGER and REAL, 8 for DOUBLE PRECISION. Other sizes are refused.

use crate::errors::outcome;
use crate::info;
use crate::library::{null, put};
use crate::objects::{locked, objects};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Info as InfoHandle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use std::ffi::{c_int, c_void};

#[derive(Debug, Default)]
pub(crate) struct FortranAbi {
    info: Option<Info>,
    /// The bytes of .TRUE. and .FALSE., by the size of the LOGICAL.
    booleans: Vec<FortranBooleans>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FortranBooleans {
    yes: Vec<u8>,
    no: Vec<u8>,
}

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

fn check_logical(bytes: c_int) -> Result<usize> {
    match bytes {
        1 | 2 | 4 | 8 | 16 => Ok(bytes as usize),
        other => {
            let text = format!("logical_size is {other}; a LOGICAL has 1, 2, 4, 8 or 16 bytes");
            Err(MpiError::new(abi::MPI_ERR_ARG, text))
        }
    }
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

mpi! {
    /// Test of this module: tests/c/fortran_abi.c.
    fn MPI_Abi_set_fortran_info(info: InfoHandle) -> c_int {
        let result = info::given(info).and_then(|info| {
            check_sizes(&info)?;
            let mut known = locked(&objects().fortran);
            match &known.info {
                Some(before) if !before.iter().eq(info.iter()) => {
                    Err(disagrees("other Fortran information was set before".into()))
                }
                _ => {
                    known.info = Some(info);
                    Ok(())
                }
            }
        });
        outcome(FuncId::MPI_Abi_set_fortran_info, None, result)
    }

    /// MPI_INFO_NULL if nothing was set.
    fn MPI_Abi_get_fortran_info(info: *mut InfoHandle) -> c_int {
        let known = locked(&objects().fortran).info.clone();
        let result = match known {
            Some(known) => info::give(known, info, "info"),
            // SAFETY: the C program passes a place for a handle.
            None => unsafe { put(info, abi::MPI_INFO_NULL, "info") },
        };
        outcome(FuncId::MPI_Abi_get_fortran_info, None, result)
    }

    fn MPI_Abi_set_fortran_booleans(logical_size: c_int, logical_true: *mut c_void, logical_false: *mut c_void) -> c_int {
        let result = check_logical(logical_size).and_then(|len| {
            // SAFETY: the C program passes two values of that size.
            let said = unsafe { FortranBooleans { yes: bytes(logical_true, len, "logical_true")?, no: bytes(logical_false, len, "logical_false")? } };
            let mut known = locked(&objects().fortran);
            match known.booleans.iter().find(|known| known.yes.len() == len) {
                Some(before) if *before != said => {
                    Err(disagrees(format!("other values of a LOGICAL of {len} bytes were set before")))
                }
                Some(_) => Ok(()),
                None => {
                    known.booleans.push(said);
                    Ok(())
                }
            }
        });
        outcome(FuncId::MPI_Abi_set_fortran_booleans, None, result)
    }

    fn MPI_Abi_get_fortran_booleans(logical_size: c_int, logical_true: *mut c_void, logical_false: *mut c_void, is_set: *mut c_int) -> c_int {
        let result = check_logical(logical_size).and_then(|len| {
            let known = locked(&objects().fortran);
            let found = known.booleans.iter().find(|known| known.yes.len() == len);
            // SAFETY: the C program passes places for two values of that size, and for an integer.
            unsafe {
                if let Some(FortranBooleans { yes, no }) = found {
                    put_bytes(logical_true, yes, "logical_true")?;
                    put_bytes(logical_false, no, "logical_false")?;
                }
                put(is_set, c_int::from(found.is_some()), "is_set")
            }
        });
        outcome(FuncId::MPI_Abi_get_fortran_booleans, None, result)
    }
}
