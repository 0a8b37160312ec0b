//! Where the code that runs here was loaded from.

use std::ffi::{CStr, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The file that this code lies in: a shared library, or the program itself. `None` if the loader does not know.
pub fn file() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked for; the loader fills `info` if it answers with anything but 0.
    let name = unsafe {
        if libc::dladdr((file as fn() -> Option<PathBuf>) as *const libc::c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init().dli_fname
    };
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the name, which ends with a zero, as long as the file is loaded; we run in it.
    let name = unsafe { CStr::from_ptr(name) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

/// The file of the running program, with links followed; also where there is no /proc.
///
/// # Errors
/// What std says; without /proc the kernel's name of the program may lead nowhere.
pub fn program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        // SAFETY: getauxval(3) reads what the kernel has put behind the arguments.
        let name = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
        if name.is_null() {
            return Err(error);
        }
        // SAFETY: the kernel has put a text there, which ends with a zero and stays.
        let name = unsafe { CStr::from_ptr(name) };
        std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).map_err(|_| error)
    })
}

/// The directory that was installed to, if this code lies in its `lib` or `bin`.
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
