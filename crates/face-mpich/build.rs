//! Writes the functions of the library from the table of functions.

use oxmpi_face_build::Face;

const BY_HAND: &[&str] = &[
    "MPI_Add_error_class",
    "MPI_Add_error_code",
    "MPI_Attr_get",
    "MPI_Comm_create_errhandler",
    "MPI_Comm_create_keyval",
    "MPI_Comm_get_attr",
    "MPI_File_create_errhandler",
    "MPI_File_fromint",
    "MPI_File_toint",
    "MPI_Get_version",
    "MPI_Grequest_start",
    "MPI_Keyval_create",
    "MPI_Op_create",
    "MPI_Op_create_c",
    "MPI_Register_datarep",
    "MPI_Register_datarep_c",
    "MPI_Session_create_errhandler",
    "MPI_T_cvar_handle_alloc",
    "MPI_T_event_handle_alloc",
    "MPI_T_pvar_handle_alloc",
    "MPI_Type_create_keyval",
    "MPI_Type_get_attr",
    "MPI_Type_get_contents",
    "MPI_Type_get_contents_c",
    "MPI_Win_create_errhandler",
    "MPI_Win_create_keyval",
    "MPI_Win_get_attr",
];

/// The other ABI has no such functions: programs see by them which ABI they have.
const MISSING: &[&str] = &[
    "MPI_Abi_get_fortran_booleans",
    "MPI_Abi_get_fortran_info",
    "MPI_Abi_get_info",
    "MPI_Abi_get_version",
    "MPI_Abi_set_fortran_booleans",
    "MPI_Abi_set_fortran_info",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    oxmpi_face_build::write(&Face {
        constants: oxmpi_abi::foreign::MPICH,
        soname: "libmpi.so.12",
        has_int_handles: true,
        by_hand: BY_HAND,
        missing: MISSING,
    })
}
