//! The integers that stand for handles.

use crate::arguments::PREDEFINED;
use crate::c;
use std::ffi::c_int;

macro_rules! integers {
    ($($word:ident $from:ident $to:ident;)*) => { $(
        pub(crate) mod $word {
            //! One kind of handle. The ABI gives predefined handles the same number in Fortran and
            //! in C.
            use super::*;

            #[inline(always)]
            pub(crate) unsafe fn of(number: c_int) -> usize {
                match usize::try_from(number) {
                    Ok(handle) if handle < PREDEFINED => handle,
                    // SAFETY: the function takes any number.
                    _ => unsafe { c::$from(number) },
                }
            }

            #[inline(always)]
            pub(crate) unsafe fn number(handle: usize) -> c_int {
                // SAFETY: the function takes any handle.
                if handle < PREDEFINED { handle as c_int } else { unsafe { c::$to(handle) } }
            }
        }
    )* };
}

// The conversions of C handles have no effect that a tool could count, so their names are those
// that tools do not intercept.
integers! {
    comm PMPI_Comm_fromint PMPI_Comm_toint;
    datatype PMPI_Type_fromint PMPI_Type_toint;
    errhandler PMPI_Errhandler_fromint PMPI_Errhandler_toint;
    file PMPI_File_fromint PMPI_File_toint;
    group PMPI_Group_fromint PMPI_Group_toint;
    info PMPI_Info_fromint PMPI_Info_toint;
    message PMPI_Message_fromint PMPI_Message_toint;
    op PMPI_Op_fromint PMPI_Op_toint;
    request PMPI_Request_fromint PMPI_Request_toint;
    session PMPI_Session_fromint PMPI_Session_toint;
    win PMPI_Win_fromint PMPI_Win_toint;
}
