//! Shared libraries of others that are opened while a program runs (dlopen(3)), so that nothing
//! needs them which does not use them.
//!
//! The crate that has the declarations of such a library knows the types of its functions; this
//! module does not.
//!
//! The code of such a library runs when it is opened (its constructors), and when it is started:
//! then it may open plugins of its own, whose constructors run as well. Some of that code takes
//! signals over, for reports of its own: libinfinipath, which Debian's libfabric brings, takes
//! SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGINT and SIGTERM. These belong to the program. So everything
//! that opens or starts a library is wrapped in [`keep_signals`].

mod environment;
mod signals;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use self::environment::Requests;
use self::signals::{Dispositions, ThreadSignals};

/// A library that is loaded into this program. It stays loaded, as such libraries start threads and
/// register handlers of their own.
#[derive(Debug)]
pub struct ForeignLibrary {
    handle: *mut c_void,
}

impl ForeignLibrary {
    /// Loads the library `name`: a file name as the loader takes it. The program's signals stay as
    /// they are ([`keep_signals`]).
    ///
    /// # Errors
    /// Why there is none, in the loader's words.
    pub fn open(name: &str) -> Result<ForeignLibrary, String> {
        keep_signals(|| ForeignLibrary::load(name, libc::RTLD_NOW | libc::RTLD_LOCAL))
    }

    /// The library that the program itself has loaded by this name or file; `None`: it has loaded
    /// none. Nothing is loaded here, so no code of the library runs. It is not unloaded any more.
    pub fn of_program(name: &str) -> Option<ForeignLibrary> {
        ForeignLibrary::load(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE).ok()
    }

    fn load(name: &str, flags: c_int) -> Result<ForeignLibrary, String> {
        let file = CString::new(name).map_err(|_| "that is no file name".to_string())?;
        // SAFETY: the name ends with a zero. What runs when the library is loaded is the library's.
        let handle = unsafe { libc::dlopen(file.as_ptr(), flags) };
        if handle.is_null() {
            // SAFETY: dlerror(3) gives a string of this thread's, or null.
            return Err(unsafe { text(libc::dlerror()) });
        }
        Ok(ForeignLibrary { handle })
    }

    /// Where a function or variable of this name lies; `None`: the library has none.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, the name ends with a zero.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// Runs `start`, which opens or starts a library of others, and puts back what such a library takes
/// over of the process: the dispositions of all signals, and of this thread the signal mask and the
/// alternate stack for handlers. `errno` stays as `start` has left it. While `start` runs the
/// environment asks such libraries not to take signals ([`REQUESTS`]), unless the program has set
/// the variable itself; then the environment is what it was.
///
/// A variable that the library itself sets stays: it may read it later. The same is true of its
/// threads and descriptors.
///
/// Other threads of the program go on meanwhile. A handler that one of them sets while `start` runs
/// is lost: nobody can tell it from one that the library has set. A signal that comes while `start`
/// runs may find the library's handler.
pub fn keep_signals<R>(start: impl FnOnce() -> R) -> R {
    let _kept = Kept::new();
    start()
}

/// Variables that ask a library to leave signals alone, with the value that does so: libinfinipath
/// (PSM), libpsm2 before it left that to HFI_BACKTRACE, and UCX, which catches the signals of a
/// list.
pub const REQUESTS: [(&CStr, &CStr); 3] =
    [(c"IPATH_NO_BACKTRACE", c"1"), (c"HFI_NO_BACKTRACE", c"1"), (c"UCX_ERROR_SIGNALS", c"")];

/// What is put back at the end of [`keep_signals`].
struct Kept {
    thread: ThreadSignals,
}

/// What all threads share that are within [`keep_signals`].
struct Shared {
    /// How many there are.
    inside: usize,
    /// How everything was when the first one came.
    process: Option<(Dispositions, Requests)>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { inside: 0, process: None });

impl Kept {
    fn new() -> Kept {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        // A second thread would take the library of the first one for the program.
        shared.process.get_or_insert_with(|| (Dispositions::read(), Requests::set(&REQUESTS)));
        shared.inside += 1;
        Kept { thread: ThreadSignals::read() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the place of this thread's errno, which is there as long as the thread.
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
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }
}

/// The text at `text`, empty if that is null.
///
/// # Safety
/// It is null, or a string that ends with a zero.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
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
    fn what_cannot_be_opened_is_told_why() {
        assert_eq!(ForeignLibrary::open("a\0b").unwrap_err(), "that is no file name");
        assert!(ForeignLibrary::open("/nonexistent/lib.so").unwrap_err().contains("No such file"));
    }

    #[test]
    fn of_the_program_is_only_what_it_has_loaded() {
        assert!(ForeignLibrary::of_program("libc.so.6").is_some());
        assert!(ForeignLibrary::of_program("/nonexistent/lib.so").is_none());
    }
}
