//! UCC and UCX for the tests of collectives that are handed to them: of Debian's newest suite, unpacked beside the system.
//!
//! They want a newer C library than that of the system. The tests run their programs by the loader that came with them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::install::target_directory;
use crate::packages;
use crate::run::Failure;

/// The suite that has them.
const SUITE: &str = "sid";

/// Removes a directory, if it is there.
fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The directory with the libraries, or why there are none, in which case the tests are skipped.
pub(crate) fn find_or_unpack() -> Result<PathBuf, Failure> {
    let directory = target_directory().join("ucc");
    let libraries = packages::libraries(&directory);
    if !libraries.join("libucc.so.1").exists() {
        println!("UCC of Debian's {SUITE} is unpacked into {}", directory.display());
        // Under another name until all of it is there, so that an interrupted one does not count.
        let part = target_directory().join("ucc.part");
        let failed = |place: &Path| Failure::io(format!("cannot replace {}", place.display()));
        remove(&part).map_err(failed(&part))?;
        packages::unpack(&part, SUITE, &["libucc1", "libucx0"])?;
        remove(&directory).map_err(failed(&directory))?;
        fs::rename(&part, &directory).map_err(failed(&directory))?;
    }
    match libraries.join("libucc.so.1").exists() {
        true => Ok(libraries),
        false => {
            Err(Failure::new(format!("the package libucc1 has no libucc.so.1 for {}", libraries.display())))
        }
    }
}
