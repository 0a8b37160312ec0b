//! Functions of Open MPI beyond the standard: conversions for Fortran, predefined functions, and
//! which accelerators' memory the library takes.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::handles::*;
use crate::objects;
use crate::{aliases, core};
use oxmpi_foreign::EndsPanics;
use std::ffi::{c_char, c_int, c_void};

macro_rules! integers {
    ($($word:ident $kind:literal $c2f:literal $to:ident $f2c:literal $from:ident;)*) => { $(
        const _: () = {
            #[unsafe(export_name = $c2f)]
            unsafe extern "C-unwind" fn c2f(foreign: $word::Foreign) -> c_int {
                let ends = EndsPanics;
                let handle = $word::input(foreign);
                let integer = objects::fortran_of(handle)
                    .unwrap_or_else(|| unsafe { core!($to)(handle) });
                std::mem::forget(ends);
                integer
            }

            #[unsafe(export_name = $f2c)]
            unsafe extern "C-unwind" fn f2c(integer: c_int) -> $word::Foreign {
                let ends = EndsPanics;
                let foreign = objects::of_fortran($kind, integer)
                    .unwrap_or_else(|| $word::foreign(unsafe { core!($from)(integer) }));
                std::mem::forget(ends);
                foreign
            }
        };
    )* };
}

// The second word is the place in the list of types of handles (crate `oxmpi-face-build`).
integers! {
    comm 0 "PMPI_Comm_c2f" MPI_Comm_toint "PMPI_Comm_f2c" MPI_Comm_fromint;
    datatype 1 "PMPI_Type_c2f" MPI_Type_toint "PMPI_Type_f2c" MPI_Type_fromint;
    errhandler 2 "PMPI_Errhandler_c2f" MPI_Errhandler_toint
        "PMPI_Errhandler_f2c" MPI_Errhandler_fromint;
    file 3 "PMPI_File_c2f" MPI_File_toint "PMPI_File_f2c" MPI_File_fromint;
    group 4 "PMPI_Group_c2f" MPI_Group_toint "PMPI_Group_f2c" MPI_Group_fromint;
    info 5 "PMPI_Info_c2f" MPI_Info_toint "PMPI_Info_f2c" MPI_Info_fromint;
    message 6 "PMPI_Message_c2f" MPI_Message_toint "PMPI_Message_f2c" MPI_Message_fromint;
    op 7 "PMPI_Op_c2f" MPI_Op_toint "PMPI_Op_f2c" MPI_Op_fromint;
    request 8 "PMPI_Request_c2f" MPI_Request_toint "PMPI_Request_f2c" MPI_Request_fromint;
    session 9 "PMPI_Session_c2f" MPI_Session_toint "PMPI_Session_f2c" MPI_Session_fromint;
    win 10 "PMPI_Win_c2f" MPI_Win_toint "PMPI_Win_f2c" MPI_Win_fromint;
}

/// MPI_NULL_COPY_FN and its like: the attribute is not copied.
#[unsafe(no_mangle)]
unsafe extern "C" fn OMPI_C_MPI_NULL_COPY_FN(
    _: usize,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { *flag = 0 };
    0
}

/// MPI_DUP_FN and its like: the copy has the same value.
#[unsafe(no_mangle)]
unsafe extern "C" fn OMPI_C_MPI_DUP_FN(
    _: usize,
    _: c_int,
    _: *mut c_void,
    from: *mut c_void,
    to: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { (*to, *flag) = (from, 1) };
    0
}

/// MPI_NULL_DELETE_FN and its like.
#[unsafe(no_mangle)]
extern "C" fn OMPI_C_MPI_NULL_DELETE_FN(
    _: usize,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    0
}

/// MPI_Init_thread. NEURON and other programs know Open MPI by this symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ompi_mpi_init(
    _: c_int,
    _: *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
    _: bool,
) -> c_int {
    let ends = EndsPanics;
    let mut granted = NOT_STORED;
    let (required, no) = (required_in(required), std::ptr::null_mut());
    let place = number_place(provided, &mut granted);
    let code = unsafe { core!(MPI_Init_thread)(no, no.cast(), required, place) };
    unsafe { number_out(provided, granted, provided_out) };
    std::mem::forget(ends);
    code_out(code)
}

/// The memory of AMD's accelerators is no buffer.
#[unsafe(export_name = "PMPIX_Query_rocm_support")]
extern "C" fn MPIX_Query_rocm_support() -> c_int {
    0
}

aliases! {
    "MPIX_Query_rocm_support" => "PMPIX_Query_rocm_support";
    "MPI_Comm_c2f" => "PMPI_Comm_c2f";
    "MPI_Comm_f2c" => "PMPI_Comm_f2c";
    "MPI_Type_c2f" => "PMPI_Type_c2f";
    "MPI_Type_f2c" => "PMPI_Type_f2c";
    "MPI_Errhandler_c2f" => "PMPI_Errhandler_c2f";
    "MPI_Errhandler_f2c" => "PMPI_Errhandler_f2c";
    "MPI_File_c2f" => "PMPI_File_c2f";
    "MPI_File_f2c" => "PMPI_File_f2c";
    "MPI_Group_c2f" => "PMPI_Group_c2f";
    "MPI_Group_f2c" => "PMPI_Group_f2c";
    "MPI_Info_c2f" => "PMPI_Info_c2f";
    "MPI_Info_f2c" => "PMPI_Info_f2c";
    "MPI_Message_c2f" => "PMPI_Message_c2f";
    "MPI_Message_f2c" => "PMPI_Message_f2c";
    "MPI_Op_c2f" => "PMPI_Op_c2f";
    "MPI_Op_f2c" => "PMPI_Op_f2c";
    "MPI_Request_c2f" => "PMPI_Request_c2f";
    "MPI_Request_f2c" => "PMPI_Request_f2c";
    "MPI_Session_c2f" => "PMPI_Session_c2f";
    "MPI_Session_f2c" => "PMPI_Session_f2c";
    "MPI_Win_c2f" => "PMPI_Win_c2f";
    "MPI_Win_f2c" => "PMPI_Win_f2c";
    "OMPI_C_MPI_COMM_NULL_COPY_FN" => "OMPI_C_MPI_NULL_COPY_FN";
    "OMPI_C_MPI_TYPE_NULL_COPY_FN" => "OMPI_C_MPI_NULL_COPY_FN";
    "OMPI_C_MPI_WIN_NULL_COPY_FN" => "OMPI_C_MPI_NULL_COPY_FN";
    "OMPI_C_MPI_COMM_DUP_FN" => "OMPI_C_MPI_DUP_FN";
    "OMPI_C_MPI_TYPE_DUP_FN" => "OMPI_C_MPI_DUP_FN";
    "OMPI_C_MPI_WIN_DUP_FN" => "OMPI_C_MPI_DUP_FN";
    "OMPI_C_MPI_COMM_NULL_DELETE_FN" => "OMPI_C_MPI_NULL_DELETE_FN";
    "OMPI_C_MPI_TYPE_NULL_DELETE_FN" => "OMPI_C_MPI_NULL_DELETE_FN";
    "OMPI_C_MPI_WIN_NULL_DELETE_FN" => "OMPI_C_MPI_NULL_DELETE_FN";
}
