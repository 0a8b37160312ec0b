//! UCC and UCX for the tests of collectives that they serve: of Debian's newest suite,
//! unpacked apart from the system.
//!
//! They need a newer C library than that of the system. The tests run their programs by the loader
//! that came with them.

use std::path::PathBuf;

use crate::install::target_directory;
use crate::packages;
use crate::run::Failure;

const SUITE: &str = "sid";

/// The packages with the oldest versions that work: those of Debian 13.
const PACKAGES: [(&str, &str); 2] = [("libucc-dev", "1.3"), ("libucx-dev", "1.18")];

/// A module of UCC by the name under which it is searched for, which only the package for
/// developers has.
const MODULE: &str = "ucc/libucc_cl_basic.so";

/// The directory with the libraries, or why there are none.
pub(crate) fn find_or_unpack() -> Result<PathBuf, Failure> {
    let directory = target_directory().join("ucc");
    let libraries = packages::libraries(&directory);
    packages::provide(&directory, SUITE, &PACKAGES)?;
    match libraries.join(MODULE).exists() {
        true => Ok(libraries),
        false => Err(Failure::new(format!(
            "the package libucc-dev has no {MODULE} for {}",
            libraries.display()
        ))),
    }
}
