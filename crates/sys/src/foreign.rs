//! Foreign shared libraries that are opened at run time (dlopen(3)), so that a program without them
//! starts.
//!
//! The crate with the declarations of such a library knows the types of its functions; this module
//! does not.
//!
//! Code of the library runs when it is opened (its constructors) and when it is started: it may
//! then open plugins, whose constructors run as well. Some of this code installs signal handlers
//! for its own reports: libinfinipath, which Debian's libfabric loads, takes SIGSEGV, SIGBUS,
//! SIGABRT, SIGILL, SIGINT and SIGTERM. These signals belong to the program, so each call that
//! opens or starts a library is wrapped in [`keep_signals`].

mod environment;
mod signals;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use self::environment::EnvironmentRequests;
use self::signals::{Dispositions, ThreadSignals};

/// A library that is loaded into this program. It is never unloaded, as such libraries start
/// threads and register handlers.
#[derive(Debug)]
pub struct ForeignLibrary {
    handle: *mut c_void,
}

impl ForeignLibrary {
    /// Loads the library `name`: a file name as the loader takes it. The program's signals stay as
    /// they are ([`keep_signals`]).
    ///
    /// # Errors
    /// The loader's message.
    pub fn open(name: &str) -> Result<ForeignLibrary, String> {
        keep_signals(|| ForeignLibrary::load(name, libc::RTLD_NOW | libc::RTLD_LOCAL))
    }

    /// The library with this name or file that the program itself has loaded; `None` if it has
    /// loaded none. Nothing is loaded, so no code of the library runs. The library is never
    /// unloaded from then on.
    pub fn of_program(name: &str) -> Option<ForeignLibrary> {
        ForeignLibrary::load(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE).ok()
    }

    fn load(name: &str, flags: c_int) -> Result<ForeignLibrary, String> {
        let file = CString::new(name).map_err(|_| "that is no file name".to_string())?;
        // SAFETY: the name ends with a zero. The constructors that run are the library's
        // responsibility.
        let handle = unsafe { libc::dlopen(file.as_ptr(), flags) };
        if handle.is_null() {
            // SAFETY: dlerror(3) returns a string of this thread, or null.
            return Err(unsafe { text(libc::dlerror()) });
        }
        Ok(ForeignLibrary { handle })
    }

    /// The address of a function or variable; `None` if the library has none of this name.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, the name ends with a zero.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// Runs `start`, which opens or starts a foreign library, and restores the state that such a
/// library takes over: the dispositions of all signals, and the signal mask and the alternate
/// signal stack of this thread. `errno` stays as `start` has left it. While `start` runs,
/// environment variables request that libraries leave signals alone ([`REQUESTS`]), unless the
/// program has set these variables itself.
///
/// Variables that the library itself sets stay, as the library may read them later. Its threads and
/// descriptors stay, too.
///
/// Other threads of the program continue meanwhile. A handler that one of them installs while
/// `start` runs is lost: it cannot be distinguished from a handler of the library. A signal that
/// comes while `start` runs may reach the library's handler.
pub fn keep_signals<R>(start: impl FnOnce() -> R) -> R {
    let _saved = SavedSignals::new();
    start()
}

/// Variables that request a library to leave signals alone, with the value that does so: of
/// libinfinipath (PSM), of libpsm2 (older versions; newer ones have HFI_BACKTRACE), and of UCX,
/// which catches the listed signals.
pub const REQUESTS: [(&CStr, &CStr); 3] =
    [(c"IPATH_NO_BACKTRACE", c"1"), (c"HFI_NO_BACKTRACE", c"1"), (c"UCX_ERROR_SIGNALS", c"")];

/// Restores the signals of this thread, and with the last instance those of the process, on drop.
struct SavedSignals {
    thread: ThreadSignals,
}

/// The state that all threads inside [`keep_signals`] share.
struct SharedState {
    /// The number of threads inside.
    inside: usize,
    /// The process's state when the first of these threads entered.
    process: Option<(Dispositions, EnvironmentRequests)>,
}

static SHARED: Mutex<SharedState> = Mutex::new(SharedState { inside: 0, process: None });

impl SavedSignals {
    fn new() -> SavedSignals {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        // A second thread would take the library's handlers of the first thread for the program's.
        shared.process.get_or_insert_with(|| (Dispositions::read(), EnvironmentRequests::set(&REQUESTS)));
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

    #[test]
    fn a_library_has_its_symbols_and_no_others() {
        let c = ForeignLibrary::open("libc.so.6").unwrap();
        assert!(c.symbol(c"getpid").is_some() && c.symbol(c"no_such_function").is_none());
    }

    #[test]
    fn a_library_that_cannot_be_opened_is_an_error() {
        assert_eq!(ForeignLibrary::open("a\0b").unwrap_err(), "that is no file name");
        assert!(ForeignLibrary::open("/nonexistent/lib.so").unwrap_err().contains("No such file"));
    }

    #[test]
    fn only_libraries_of_the_program_are_found() {
        assert!(ForeignLibrary::of_program("libc.so.6").is_some());
        assert!(ForeignLibrary::of_program("/nonexistent/lib.so").is_none());
    }
}
