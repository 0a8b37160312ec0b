//! The integers that stand for handles: those of C programs, and integers for files too.

#[path = "../../face-mpich/src/handles.rs"]
mod c_handles;

use std::ffi::c_int;

macro_rules! integers {
    ($($word:ident)*) => { $(
        pub(crate) mod $word {
            use super::*;

            #[inline(always)]
            pub(crate) unsafe fn of(number: c_int) -> usize {
                c_handles::$word::input(number)
            }

            #[inline(always)]
            pub(crate) unsafe fn number(handle: usize) -> c_int {
                c_handles::$word::foreign(handle)
            }
        }
    )* };
}

integers! { comm datatype errhandler group info message op request session win }

pub(crate) mod file {
    use crate::core;
    use oxmpi_abi::constants as abi;
    use std::ffi::c_int;

    /// The null file is 0.
    pub(crate) unsafe fn of(number: c_int) -> usize {
        match number {
            0 => abi::MPI_FILE_NULL,
            _ => unsafe { core!(MPI_File_fromint)(number) },
        }
    }

    /// See [`of`].
    pub(crate) unsafe fn number(handle: usize) -> c_int {
        if handle == abi::MPI_FILE_NULL { 0 } else { unsafe { core!(MPI_File_toint)(handle) } }
    }
}
