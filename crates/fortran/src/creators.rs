//! The functions beyond the standard that make operations and error handlers with a state.

use crate::cells::cells;

cells! {
    op_create_x = ".weak" "MPIX_Op_create_x";
    comm_errhandler_x = ".weak" "MPIX_Comm_create_errhandler_x";
    file_errhandler_x = ".weak" "MPIX_File_create_errhandler_x";
    session_errhandler_x = ".weak" "MPIX_Session_create_errhandler_x";
    win_errhandler_x = ".weak" "MPIX_Win_create_errhandler_x";
}
