//! Foreign shared libraries, opened at run time (dlopen(3)): a program starts without them.
//!
//! A crate that uses such a library declares the functions by
//! [`foreign_symbols!`](crate::foreign_symbols), and the texts for users by [`LibraryTexts`].
//! Failures are [`LibraryError`]s.
//!
//! Code of the library runs when it is opened (its constructors) and when it is started: it may
//! then open plugins, whose constructors run as well. Some of this code installs signal handlers
//! for its own reports: libinfinipath, which Debian's libfabric loads, takes SIGSEGV, SIGBUS,
//! SIGABRT, SIGILL, SIGINT and SIGTERM. These signals belong to the program, so [`keep_signals`]
//! wraps each call that opens or starts a library.

mod environment;
mod error;
mod signals;
mod symbols;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use self::environment::EnvironmentRequests;
pub use self::error::{LibraryError, LibraryTexts};
pub(crate) use self::signals::disposition;
use self::signals::{Dispositions, ThreadSignals};

/// A library that is loaded into this program. It is never unloaded, as such libraries start
/// threads and register handlers.
#[derive(Debug)]
pub struct ForeignLibrary {
    handle: *mut c_void,
    texts: &'static LibraryTexts,
    file: String,
}

// SAFETY: the handle is only passed to dlsym(3), which any thread may call at any time.
unsafe impl Send for ForeignLibrary {}
// SAFETY: the handle is only passed to dlsym(3), which any thread may call at any time.
unsafe impl Sync for ForeignLibrary {}

/// The library's name and file: `GM (libgm.so)`.
impl fmt::Display for ForeignLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.texts.name, self.file)
    }
}

impl ForeignLibrary {
    /// Loads the library `file`: a file name as the loader takes it. The program's signals stay as
    /// they are ([`keep_signals`]).
    pub fn open(texts: &'static LibraryTexts, file: &str) -> Result<ForeignLibrary, LibraryError> {
        let loaded = keep_signals(|| load(file, libc::RTLD_NOW | libc::RTLD_LOCAL));
        match loaded {
            Ok(handle) => Ok(ForeignLibrary { handle, texts, file: file.to_string() }),
            Err(why) => Err(texts.missing(file, why)),
        }
    }

    /// The library with this name or file if the program itself has loaded it. Nothing is loaded,
    /// so no code of the library runs. The library is never unloaded from then on.
    pub fn of_program(texts: &'static LibraryTexts, file: &str) -> Option<ForeignLibrary> {
        let handle = load(file, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE).ok()?;
        Some(ForeignLibrary { handle, texts, file: file.to_string() })
    }

    /// The file name by which the library was loaded.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The error of a library that OxMPI cannot use. `why` follows the file name in its text.
    pub fn unfit(&self, why: impl Into<String>) -> LibraryError {
        LibraryError::Unfit { file: self.file.clone(), why: why.into() }
    }
}

fn load(file: &str, flags: c_int) -> Result<*mut c_void, String> {
    let file = CString::new(file).map_err(|_| "that is no file name".to_string())?;
    // SAFETY: the name ends with a zero. The constructors that run are the library's
    // responsibility.
    let handle = unsafe { libc::dlopen(file.as_ptr(), flags) };
    if handle.is_null() {
        // SAFETY: dlerror(3) returns a string of this thread, or null.
        return Err(unsafe { text(libc::dlerror()) });
    }
    Ok(handle)
}

/// Runs `start`, which opens or starts a foreign library, and restores the state that such a
/// library changes: the dispositions of all signals, and the signal mask and the alternate signal
/// stack of this thread. `errno` stays as `start` has left it. While `start` runs, environment
/// variables request from libraries that they leave signals alone ([`REQUESTS`]), unless the
/// program has set these variables itself.
///
/// Variables that the library itself sets stay, as the library may read them later. Its threads and
/// descriptors stay, too.
///
/// Other threads of the program continue meanwhile. A handler that another thread installs while
/// `start` runs is lost: it cannot be distinguished from a handler of the library. A signal that
/// comes while `start` runs may reach the library's handler.
pub fn keep_signals<R>(start: impl FnOnce() -> R) -> R {
    let _saved = SavedSignals::new();
    start()
}

/// Variables that make a library leave signals alone: libinfinipath (PSM), libpsm2 (newer versions
/// have HFI_BACKTRACE), and UCX, which catches the listed signals.
pub const REQUESTS: [(&CStr, &CStr); 3] =
    [(c"IPATH_NO_BACKTRACE", c"1"), (c"HFI_NO_BACKTRACE", c"1"), (c"UCX_ERROR_SIGNALS", c"")];

/// Restores the signals of this thread, and with the last instance those of the process, on drop.
struct SavedSignals {
    thread: ThreadSignals,
}

/// The state that all threads inside [`keep_signals`] share.
struct SharedState {
    inside: usize,
    process: Option<(Dispositions, EnvironmentRequests)>,
}

static SHARED: Mutex<SharedState> = Mutex::new(SharedState { inside: 0, process: None });

impl SavedSignals {
    fn new() -> SavedSignals {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        // The dispositions are read by the first thread only: a second thread would read handlers
        // that the library has installed in the first one.
        shared
            .process
            .get_or_insert_with(|| (Dispositions::read(), EnvironmentRequests::set(&REQUESTS)));
        shared.inside += 1;
        SavedSignals { thread: ThreadSignals::read() }
    }
}

impl Drop for SavedSignals {
    fn drop(&mut self) {
        // SAFETY: the address of this thread's errno is valid as long as the thread.
        let errno = unsafe { *libc::__errno_location() };
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.inside -= 1;
        if let Some((dispositions, _)) = &shared.process {
            dispositions.restore();
        }
        if shared.inside == 0
            && let Some((_, requests)) = shared.process.take()
        {
            requests.withdraw();
        }
        drop(shared);
        self.thread.restore();
        // SAFETY: the address of this thread's errno is valid as long as the thread.
        unsafe { *libc::__errno_location() = errno };
    }
}

/// Copies a C string; empty for null.
///
/// # Safety
/// `text` is null, or a string that ends with a zero.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees a string that ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    static OTHER: LibraryTexts = LibraryTexts { name: "X", needed: "X 2", remedy: "install X" };

    #[test]
    fn a_library_that_cannot_be_opened_is_an_error_with_the_remedy() {
        let error = |file| ForeignLibrary::open(&OTHER, file).unwrap_err().to_string();
        assert_eq!(error("a\0b"), "X cannot be loaded as 'a\0b' (that is no file name): install X");
        let absent = error("/nonexistent/lib.so");
        assert!(absent.starts_with("X cannot be loaded as '/nonexistent/lib.so' ("), "{absent}");
        assert!(absent.contains("No such file") && absent.ends_with("): install X"), "{absent}");
    }

    #[test]
    fn only_libraries_of_the_program_are_found() {
        assert!(ForeignLibrary::of_program(&OTHER, "libc.so.6").is_some());
        assert!(ForeignLibrary::of_program(&OTHER, "/nonexistent/lib.so").is_none());
    }

    #[test]
    fn a_library_is_named_with_its_file() {
        let c = ForeignLibrary::open(&OTHER, "libc.so.6").unwrap();
        assert_eq!(c.to_string(), "X (libc.so.6)");
        assert_eq!(c.unfit("is X 1").to_string(), "'libc.so.6' is X 1");
    }
}
