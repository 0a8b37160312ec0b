//! The place of this installation: the running program is in `PREFIX/bin`, and all other files are
//! below PREFIX. The installation may be moved.

use std::path::PathBuf;

/// The prefix, if the running program lies in a directory named `bin`.
pub(crate) fn find() -> Option<PathBuf> {
    // The path is the program's real one: bin/mpirun is a link to bin/oxmpi.
    let exe = oxmpi_sys::library::program().ok()?;
    let bin = exe.parent()?;
    (bin.file_name()? == "bin").then(|| bin.parent().map(PathBuf::from))?
}

pub(crate) fn library_directory() -> Option<PathBuf> {
    find().map(|prefix| prefix.join("lib")).filter(|lib| lib.join("libmpi_abi.so.1").exists())
}
