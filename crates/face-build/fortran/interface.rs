//! Whether a process has the C functions of the same ABI.

use crate::C_LIBRARY;
use std::ffi::c_void;
use std::path::Path;

/// Whether the function PMPI_Init that programs find, in `file`, is that of the library for C
/// programs of this ABI.
pub(crate) fn is_own_interface(_init: *const c_void, file: &str) -> bool {
    // A link may have another name.
    let file = Path::new(file).canonicalize().unwrap_or_else(|_| file.into());
    file.file_name().is_some_and(|name| name == C_LIBRARY)
}
