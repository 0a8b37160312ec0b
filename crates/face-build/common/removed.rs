//! Functions that MPI-3.0 removed, for programs that were built with them.
#![allow(non_snake_case)]

use crate::aliases;
use crate::convert::*;
use crate::core;
use crate::handles::*;
use oxmpi_abi::types::Aint;
use std::ffi::{c_int, c_void};

#[unsafe(export_name = "PMPI_Address")]
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
        #[unsafe(export_name = concat!("P", stringify!($name)))]
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
    fn PMPI_Comm_create_errhandler(
        function: *const c_void,
        to: *mut errhandler::Foreign,
    ) -> c_int;
    fn PMPI_Comm_get_errhandler(comm: comm::Foreign, to: *mut errhandler::Foreign) -> c_int;
    fn PMPI_Comm_set_errhandler(comm: comm::Foreign, errhandler: errhandler::Foreign) -> c_int;
    fn PMPI_Type_create_hindexed(
        count: c_int,
        lengths: *const c_int,
        displacements: *const Aint,
        old: datatype::Foreign,
        new: *mut datatype::Foreign,
    ) -> c_int;
    fn PMPI_Type_create_hvector(
        count: c_int,
        length: c_int,
        stride: Aint,
        old: datatype::Foreign,
        new: *mut datatype::Foreign,
    ) -> c_int;
    fn PMPI_Type_create_struct(
        count: c_int,
        lengths: *const c_int,
        displacements: *const Aint,
        types: *const datatype::Foreign,
        new: *mut datatype::Foreign,
    ) -> c_int;
}

macro_rules! renamed {
    ($($name:ident $of:ident ($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            unsafe { $of($($arg),*) }
        }
    )* };
}

renamed! {
    MPI_Errhandler_create PMPI_Comm_create_errhandler(
        function: *const c_void, to: *mut errhandler::Foreign
    );
    MPI_Errhandler_get PMPI_Comm_get_errhandler(
        comm: comm::Foreign, to: *mut errhandler::Foreign
    );
    MPI_Errhandler_set PMPI_Comm_set_errhandler(
        comm: comm::Foreign, errhandler: errhandler::Foreign
    );
    MPI_Type_hindexed PMPI_Type_create_hindexed(
        count: c_int, lengths: *const c_int, displacements: *const Aint, old: datatype::Foreign,
        new: *mut datatype::Foreign
    );
    MPI_Type_hvector PMPI_Type_create_hvector(
        count: c_int, length: c_int, stride: Aint, old: datatype::Foreign, new: *mut datatype::Foreign
    );
    MPI_Type_struct PMPI_Type_create_struct(
        count: c_int, lengths: *const c_int, displacements: *const Aint, types: *const datatype::Foreign,
        new: *mut datatype::Foreign
    );
}

aliases! {
    "MPI_Address" => "PMPI_Address";
    "MPI_Errhandler_create" => "PMPI_Errhandler_create";
    "MPI_Errhandler_get" => "PMPI_Errhandler_get";
    "MPI_Errhandler_set" => "PMPI_Errhandler_set";
    "MPI_Type_extent" => "PMPI_Type_extent";
    "MPI_Type_hindexed" => "PMPI_Type_hindexed";
    "MPI_Type_hvector" => "PMPI_Type_hvector";
    "MPI_Type_lb" => "PMPI_Type_lb";
    "MPI_Type_struct" => "PMPI_Type_struct";
    "MPI_Type_ub" => "PMPI_Type_ub";
}
