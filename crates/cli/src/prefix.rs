//! Where this installation is: `PREFIX/bin` has the running program, so everything else is beside it. It may be moved.

use std::path::PathBuf;

/// The prefix, if the running program lies in a directory named `bin`.
pub(crate) fn find() -> Option<PathBuf> {
    // Links are followed: bin/mpirun -> bin/oxmpi.
    let exe = oxmpi_sys::library::program().ok()?;
    let bin = exe.parent()?;
    (bin.file_name()? == "bin").then(|| bin.parent().map(PathBuf::from))?
}

/// The directory with the library, if it is there.
pub(crate) fn library_directory() -> Option<PathBuf> {
    find().map(|prefix| prefix.join("lib")).filter(|lib| lib.join("libmpi_abi.so.1").exists())
}
