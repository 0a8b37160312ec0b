//! Functions of Open MPI beyond the standard: conversions for Fortran, predefined functions, and
//! older names.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::handles::*;
use crate::objects;
use crate::statuses::*;
use crate::{aliases, core};
use oxmpi_abi::constants as abi;
use oxmpi_foreign::EndsPanics;
use std::ffi::{c_int, c_void};

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

/// The statuses of Fortran have the bytes of those of C.
#[unsafe(export_name = "PMPI_Status_c2f")]
unsafe extern "C" fn status_c2f(from: *const ForeignStatus, to: *mut ForeignStatus) -> c_int {
    if from.is_null() || to.is_null() {
        return code_out(abi::MPI_ERR_ARG);
    }
    unsafe { *to = *from };
    0
}

/// A pointer variable of the program's header.
#[repr(transparent)]
struct SentinelVariable(*const [c_int; 6]);

// SAFETY: the variable never changes.
unsafe impl Sync for SentinelVariable {}

static FORTRAN_STATUS: [c_int; 6] = [0; 6];

#[unsafe(no_mangle)]
static MPI_F_STATUS_IGNORE: SentinelVariable = SentinelVariable(&raw const FORTRAN_STATUS);
#[unsafe(no_mangle)]
static MPI_F_STATUSES_IGNORE: SentinelVariable = SentinelVariable(&raw const FORTRAN_STATUS);
#[unsafe(no_mangle)]
static MPI_F08_STATUS_IGNORE: SentinelVariable = SentinelVariable(&raw const FORTRAN_STATUS);
#[unsafe(no_mangle)]
static MPI_F08_STATUSES_IGNORE: SentinelVariable = SentinelVariable(&raw const FORTRAN_STATUS);

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

aliases! {
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
    "MPI_Status_c2f" => "PMPI_Status_c2f";
    "MPI_Status_f2c" => "PMPI_Status_c2f";
    "PMPI_Status_f2c" => "PMPI_Status_c2f";
    "MPI_Status_c2f08" => "PMPI_Status_c2f";
    "PMPI_Status_c2f08" => "PMPI_Status_c2f";
    "MPI_Status_f082c" => "PMPI_Status_c2f";
    "PMPI_Status_f082c" => "PMPI_Status_c2f";
    "MPI_Status_f082f" => "PMPI_Status_c2f";
    "PMPI_Status_f082f" => "PMPI_Status_c2f";
    "MPI_Status_f2f08" => "PMPI_Status_c2f";
    "PMPI_Status_f2f08" => "PMPI_Status_c2f";
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

/// The names of persistent collectives in Open MPI 4, before they were in the standard.
macro_rules! older_names {
    ($($name:literal)*) => {
        aliases! { $(
            concat!("MPIX_", $name) => concat!("PMPI_", $name);
            concat!("PMPIX_", $name) => concat!("PMPI_", $name);
        )* }
    };
}

older_names! {
    "Allgather_init" "Allgatherv_init" "Allreduce_init" "Alltoall_init" "Alltoallv_init"
    "Alltoallw_init" "Barrier_init" "Bcast_init" "Exscan_init" "Gather_init" "Gatherv_init"
    "Neighbor_allgather_init" "Neighbor_allgatherv_init" "Neighbor_alltoall_init"
    "Neighbor_alltoallv_init" "Neighbor_alltoallw_init" "Reduce_init" "Reduce_scatter_block_init"
    "Reduce_scatter_init" "Scan_init" "Scatter_init" "Scatterv_init"
}
