//! Files to link with an older glibc than that of this machine, so that the wheel runs on older
//! systems.
//!
//! The package `ziglang` of PyPI can make them for each version: libraries that have the names of
//! the functions without their code, and the start of programs. The compiler and the linker of the
//! toolchain use them in place of the files of this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::install::target_directory;
use crate::pypi;
use crate::run::{Failure, Run};

/// That of Red Hat Enterprise Linux 8 and its kin.
const VERSION: &str = "2.28";

/// The libraries of glibc with their numbers, which older versions have apart.
const LIBRARIES: [&str; 7] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libld.so.2",
];
/// Functions that older programs had in themselves.
const NONSHARED: &str = "libc_nonshared.a";
/// The start of a program; `Scrt1.o` is its name for programs that can be loaded anywhere.
const START: &str = "crt1.o";
const START_ANYWHERE: &str = "Scrt1.o";

/// A linker script in place of the name for `-lc`.
const LIBC: &str = "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )\n";

/// The directory of the files, which are made if they are not there.
pub(super) fn directory() -> Result<PathBuf, Failure> {
    let directory = target_directory().join(format!("glibc-{VERSION}"));
    if directory.join(START_ANYWHERE).is_file() {
        return Ok(directory);
    }
    let cache = target_directory().join("ziglang-cache");
    make_in(&cache)?;
    fs::create_dir_all(&directory).map_err(Failure::io(directory.display()))?;
    for name in LIBRARIES.into_iter().chain([NONSHARED, START]) {
        let made = find(&cache, name)?
            .ok_or_else(|| Failure::new(format!("ziglang has made no {name}")))?;
        super::copy(&made, &directory.join(name))?;
    }
    for library in LIBRARIES {
        let plain = library.split_once(".so").map_or(library, |(plain, _)| plain);
        let link = directory.join(format!("{plain}.so"));
        let _ = fs::remove_file(&link);
        symlink(library, &link).map_err(Failure::io(link.display()))?;
    }
    let libc = directory.join("libc.so");
    fs::remove_file(&libc).map_err(Failure::io(libc.display()))?;
    super::write(&libc, LIBC)?;
    // The last file: with it all are there.
    super::copy(&directory.join(START), &directory.join(START_ANYWHERE))?;
    Ok(directory)
}

/// Lets ziglang compile a program, for which it makes the files in its cache.
fn make_in(cache: &Path) -> Result<(), Failure> {
    let zig = pypi::ZIGLANG.find_or_install()?;
    let source = cache.join("main.c");
    super::write(&source, "int main(void) { return 0; }\n")?;
    let target = format!("{}-linux-gnu.{VERSION}", std::env::consts::ARCH);
    Run::new(zig.with_file_name("python"))
        .args(["-m", "ziglang", "cc", "-target", &target])
        .arg(&source)
        .arg("-o")
        .arg(cache.join("main"))
        .env("ZIG_GLOBAL_CACHE_DIR", cache)
        .env("ZIG_LOCAL_CACHE_DIR", cache)
        .show()
}

/// A file with this name below a directory.
fn find(directory: &Path, name: &str) -> Result<Option<PathBuf>, Failure> {
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let entries = fs::read_dir(&directory).map_err(Failure::io(directory.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if entry.file_name() == name {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}
