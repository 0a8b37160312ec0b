//! Shared libraries of others that are opened while a program runs (dlopen(3)), so that nothing needs them which does not use them.
//!
//! What each function of such a library takes is known to the crate that has its declarations, and to no one else.

use std::ffi::{CStr, CString, c_char, c_void};

/// A library that is loaded into this program. It stays loaded, as such libraries start threads and register handlers of their own.
#[derive(Debug)]
pub struct ForeignLibrary {
    handle: *mut c_void,
}

impl ForeignLibrary {
    /// Loads the library `name`: a file name as the loader takes it.
    ///
    /// # Errors
    /// Why there is none, in the loader's words.
    pub fn open(name: &str) -> Result<ForeignLibrary, String> {
        let file = CString::new(name).map_err(|_| "that is no file name".to_string())?;
        // SAFETY: the name ends with a zero. What runs when the library is loaded is the library's.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
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
        assert!(ForeignLibrary::open("/nowhere/lib.so").unwrap_err().contains("No such file"));
    }
}
