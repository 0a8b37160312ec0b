//! The integers that stand for handles: small numbers for predefined handles, which the build
//! script writes, and the integers of `MPI_*_toint` for others.

use crate::core;
use std::ffi::c_int;

mod predefined {
    #![allow(clippy::all)] // generated
    use std::ffi::c_int;

    include!(concat!(env!("OUT_DIR"), "/integers.rs"));
}

macro_rules! integers {
    ($($word:ident $of:ident $number:ident $from:ident $to:ident;)*) => { $(
        pub(crate) mod $word {
            use super::*;

            #[inline(always)]
            pub(crate) unsafe fn of(number: c_int) -> usize {
                predefined::$of(number).unwrap_or_else(|| unsafe { core!($from)(number) })
            }

            #[inline(always)]
            pub(crate) unsafe fn number(handle: usize) -> c_int {
                predefined::$number(handle).unwrap_or_else(|| unsafe { core!($to)(handle) })
            }
        }
    )* };
}

integers! {
    comm comm_of comm_number MPI_Comm_fromint MPI_Comm_toint;
    datatype datatype_of datatype_number MPI_Type_fromint MPI_Type_toint;
    errhandler errhandler_of errhandler_number MPI_Errhandler_fromint MPI_Errhandler_toint;
    file file_of file_number MPI_File_fromint MPI_File_toint;
    group group_of group_number MPI_Group_fromint MPI_Group_toint;
    info info_of info_number MPI_Info_fromint MPI_Info_toint;
    message message_of message_number MPI_Message_fromint MPI_Message_toint;
    op op_of op_number MPI_Op_fromint MPI_Op_toint;
    request request_of request_number MPI_Request_fromint MPI_Request_toint;
    session session_of session_number MPI_Session_fromint MPI_Session_toint;
    win win_of win_number MPI_Win_fromint MPI_Win_toint;
}
