use crate::declarations::{GM_SUCCESS, GmSymbols};
use libc::c_int;
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, text};
use std::fmt;
use std::sync::Arc;

/// GM's file name for the loader.
pub const LIBRARY: &str = "libgm.so";

static GM: LibraryTexts = LibraryTexts {
    name: "GM",
    needed: "GM of version 2",
    remedy: "install Myricom's GM 2 with its driver, or name the file by the parameter rpi_gm_library",
};

/// The reason why GM cannot be used, with a text for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GmError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error("port {port} of GM has no more {what}")]
    Exhausted { port: u32, what: &'static str },
}

/// The library GM, loaded until the program ends.
#[derive(Debug)]
pub struct GmLibrary {
    pub(crate) symbols: GmSymbols,
    library: ForeignLibrary,
}

impl fmt::Display for GmLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.library.fmt(f)
    }
}

impl GmLibrary {
    /// Loads the library; `name` is a path or a file name for dlopen(3).
    pub fn open(name: &str) -> Result<Arc<GmLibrary>, LibraryError> {
        let library = ForeignLibrary::open(&GM, name)?;
        Ok(Arc::new(GmLibrary { symbols: GmSymbols::of(&library)?, library }))
    }

    pub(crate) fn text_of(&self, status: c_int) -> String {
        // SAFETY: it returns a constant string.
        unsafe { text((self.symbols.gm_strerror)(status)) }
    }

    pub(crate) fn check(&self, call: &'static str, status: c_int) -> Result<(), GmError> {
        if status == GM_SUCCESS { Ok(()) } else { Err(self.error(call, status)) }
    }

    pub(crate) fn error(&self, call: &'static str, status: c_int) -> GmError {
        GM.call_failed(call, format!("says: {} (status {status})", self.text_of(status))).into()
    }
}
