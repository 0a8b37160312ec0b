//! UCC and UCX for the tests of collectives that are handed to them: of Debian's newest suite, unpacked apart from the system.
//!
//! They want a newer C library than that of the system. The tests run their programs by the loader that came with them.

use std::path::PathBuf;

use crate::install::target_directory;
use crate::packages;
use crate::run::Failure;

/// The suite that has them.
const SUITE: &str = "sid";

/// The directory with the libraries, or why there are none, in which case the tests are skipped.
pub(crate) fn find_or_unpack() -> Result<PathBuf, Failure> {
    let directory = target_directory().join("ucc");
    let libraries = packages::libraries(&directory);
    if !libraries.join("libucc.so.1").exists() {
        packages::unpack(&directory, SUITE, &["libucc1", "libucx0"])?;
    }
    match libraries.join("libucc.so.1").exists() {
        true => Ok(libraries),
        false => {
            Err(Failure::new(format!("the package libucc1 has no libucc.so.1 for {}", libraries.display())))
        }
    }
}
