//! Whether a process has the C functions of this library.

use std::ffi::c_void;
use std::ptr;

unsafe extern "C" {
    fn PMPI_Init();
}

/// Whether the function PMPI_Init that programs find is that of this library. `_file` has it.
pub(crate) fn is_own_interface(init: *const c_void, _file: &str) -> bool {
    ptr::eq(init, PMPI_Init as *const c_void)
}
