//! The files that the running code was loaded from.

use std::ffi::{CStr, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The file of this code: a shared library, or the program; `None` if unknown.
pub fn file() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr(3) takes any address; it fills `info` if its result is not 0.
    let name = unsafe {
        if libc::dladdr((file as fn() -> Option<PathBuf>) as *const libc::c_void, info.as_mut_ptr())
            == 0
        {
            return None;
        }
        info.assume_init().dli_fname
    };
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the name, which ends with a zero, as long as the file is loaded, and
    // this code runs in it.
    let name = unsafe { CStr::from_ptr(name) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

/// The file of the running program, links resolved. Works without /proc.
pub fn program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        // SAFETY: getauxval(3) reads the values that the kernel has put behind the arguments.
        let name = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
        if name.is_null() {
            return Err(error);
        }
        // SAFETY: AT_EXECFN is the address of a string that ends with a zero and is never freed.
        let name = unsafe { CStr::from_ptr(name) };
        std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).map_err(|_| error)
    })
}

/// The prefix of the installation, if this code lies in its `lib` or `bin`.
pub fn prefix() -> Option<PathBuf> {
    let file = file()?;
    let directory = file.parent()?;
    let name = directory.file_name()?;
    (name == "lib" || name == "bin").then(|| directory.parent().map(PathBuf::from))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_its_own_file() {
        assert_eq!(file(), std::env::current_exe().unwrap().canonicalize().ok());
        assert_eq!(prefix(), None, "target/debug/deps is no installation");
    }
}
