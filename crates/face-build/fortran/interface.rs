//! Whether a process has the C functions of the same ABI.

use crate::C_LIBRARIES;
use std::ffi::c_void;
use std::path::Path;

/// Whether the function PMPI_Init that programs find, in `file`, is that of the library for C
/// programs of this ABI.
pub(crate) fn is_own_interface(_init: *const c_void, file: &str) -> bool {
    let name = Path::new(file).file_name();
    name.is_some_and(|name| C_LIBRARIES.iter().any(|library| name == *library))
}
