//! The integers of files, which Fortran has.
#![allow(non_snake_case)]

use crate::core;
use crate::handles::file;
use std::ffi::c_int;

/// The null file is 0 as an integer too.
pub(crate) unsafe fn MPI_File_toint(file: file::Foreign) -> c_int {
    if file == 0 { 0 } else { unsafe { core!(MPI_File_toint)(file::input(file)) } }
}

/// See [`MPI_File_toint`].
pub(crate) unsafe fn MPI_File_fromint(file: c_int) -> file::Foreign {
    if file == 0 { 0 } else { file::foreign(unsafe { core!(MPI_File_fromint)(file) }) }
}
