//! Functions and variables of the other ABI beyond the standard: conversions for Fortran, the
//! functions that MPI-3.0 removed, and predefined functions.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::handles::*;
use crate::statuses::*;
use crate::{by_hand, core};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Aint;
use std::ffi::{c_int, c_void};

/// MPI_DUP_FN and its like for the three kinds of attributes.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPIR_Dup_fn(
    _: c_int,
    _: c_int,
    _: *mut c_void,
    from: *mut c_void,
    to: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { (*to, *flag) = (from, 1) };
    0
}

macro_rules! aliases {
    ($($symbol:literal = $of:literal;)*) => {
        ::std::arch::global_asm!($(
            concat!(".weak ", $symbol),
            concat!(".set ", $symbol, ", ", $of),
        )*);
    };
}

/// A file in Fortran is an integer of the library.
#[unsafe(export_name = "PMPI_File_c2f")]
unsafe extern "C" fn file_c2f(file: file::Foreign) -> c_int {
    unsafe { by_hand::MPI_File_toint(file) }
}

#[unsafe(export_name = "PMPI_File_f2c")]
unsafe extern "C" fn file_f2c(file: c_int) -> file::Foreign {
    unsafe { by_hand::MPI_File_fromint(file) }
}

/// The status of Fortran has the five integers of C.
#[unsafe(export_name = "PMPI_Status_c2f")]
unsafe extern "C" fn status_c2f(from: *const ForeignStatus, to: *mut ForeignStatus) -> c_int {
    if from.is_null() || to.is_null() {
        return code_out(abi::MPI_ERR_ARG);
    }
    unsafe { *to = *from };
    0
}

aliases! {
    "MPI_File_c2f" = "PMPI_File_c2f";
    "MPI_File_f2c" = "PMPI_File_f2c";
    "MPI_Status_c2f" = "PMPI_Status_c2f";
    "MPI_Status_f2c" = "PMPI_Status_c2f";
    "PMPI_Status_f2c" = "PMPI_Status_c2f";
}

// Functions that MPI-3.0 removed.

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn MPI_Address(location: *const c_void, address: *mut Aint) -> c_int {
    code_out(unsafe { core!(MPI_Get_address)(location, address) })
}

unsafe fn extent(datatype: datatype::Foreign) -> (c_int, Aint, Aint) {
    let (mut lower, mut extent) = (0, 0);
    let of = datatype::input(datatype);
    let code = unsafe { core!(MPI_Type_get_extent)(of, &mut lower, &mut extent) };
    (code_out(code), lower, extent)
}

macro_rules! extents {
    ($($name:ident $value:expr;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(of: datatype::Foreign, to: *mut Aint) -> c_int {
            let (code, lower, extent) = unsafe { extent(of) };
            if code == 0 {
                let value: fn(Aint, Aint) -> Aint = $value;
                unsafe { *to = value(lower, extent) };
            }
            code
        }
    )* };
}

extents! {
    MPI_Type_extent |_, extent| extent;
    MPI_Type_lb |lower, _| lower;
    MPI_Type_ub |lower, extent| lower + extent;
}

unsafe extern "C-unwind" {
    fn PMPI_Comm_create_errhandler(function: *const c_void, to: *mut c_int) -> c_int;
    fn PMPI_Comm_get_errhandler(comm: c_int, to: *mut c_int) -> c_int;
    fn PMPI_Comm_set_errhandler(comm: c_int, errhandler: c_int) -> c_int;
    fn PMPI_Type_create_hindexed(
        count: c_int,
        lengths: *const c_int,
        displacements: *const Aint,
        old: c_int,
        new: *mut c_int,
    ) -> c_int;
    fn PMPI_Type_create_hvector(
        count: c_int,
        length: c_int,
        stride: Aint,
        old: c_int,
        new: *mut c_int,
    ) -> c_int;
    fn PMPI_Type_create_struct(
        count: c_int,
        lengths: *const c_int,
        displacements: *const Aint,
        types: *const c_int,
        new: *mut c_int,
    ) -> c_int;
}

macro_rules! renamed {
    ($($name:ident $of:ident ($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            unsafe { $of($($arg),*) }
        }
    )* };
}

renamed! {
    MPI_Errhandler_create PMPI_Comm_create_errhandler(function: *const c_void, to: *mut c_int);
    MPI_Errhandler_get PMPI_Comm_get_errhandler(comm: c_int, to: *mut c_int);
    MPI_Errhandler_set PMPI_Comm_set_errhandler(comm: c_int, errhandler: c_int);
    MPI_Type_hindexed PMPI_Type_create_hindexed(
        count: c_int, lengths: *const c_int, displacements: *const Aint, old: c_int,
        new: *mut c_int
    );
    MPI_Type_hvector PMPI_Type_create_hvector(
        count: c_int, length: c_int, stride: Aint, old: c_int, new: *mut c_int
    );
    MPI_Type_struct PMPI_Type_create_struct(
        count: c_int, lengths: *const c_int, displacements: *const Aint, types: *const c_int,
        new: *mut c_int
    );
}
