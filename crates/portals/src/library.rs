//! The library, and the limits of its interface.

use crate::declarations::{
    NiLimits, PTL_IFACE_DEFAULT, PTL_INVALID_HANDLE, PTL_NI_MATCHING, PTL_NI_PHYSICAL, PTL_OK,
    PTL_PID_ANY, PortalsSymbols, RETURN_CODES,
};
use libc::c_int;
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, keep_signals};
use std::fmt;
use std::ptr::null;
use std::sync::Arc;

static PORTALS: LibraryTexts = LibraryTexts {
    name: "Portals 4",
    needed: "library of Portals 4",
    remedy: "install the library of the network's vendor or the reference implementation, \
             or name its file by the parameter mtl_portals4_library",
};

/// A library of Portals 4, loaded into this program for good: it may have threads.
#[derive(Debug)]
pub struct PortalsLibrary {
    pub(crate) symbols: PortalsSymbols,
    library: ForeignLibrary,
}

impl fmt::Display for PortalsLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.library.fmt(f)
    }
}

/// The limits of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceLimits {
    /// The longest message in bytes.
    pub message: u64,
    pub entries: u64,
    pub unexpected: u64,
}

pub(crate) fn failed(call: &'static str, answer: &str) -> LibraryError {
    PORTALS.call_failed(call, format!("returns {answer}"))
}

pub(crate) fn name_of(answer: c_int) -> String {
    let name = usize::try_from(answer).ok().and_then(|at| RETURN_CODES.get(at));
    name.map_or_else(|| format!("{answer}"), |name| name.to_string())
}

impl PortalsLibrary {
    /// Loads the library `name`: a file name as the loader takes it.
    pub fn open(name: &str) -> Result<Arc<PortalsLibrary>, LibraryError> {
        let library = ForeignLibrary::open(&PORTALS, name)?;
        Ok(Arc::new(PortalsLibrary { symbols: PortalsSymbols::of(&library)?, library }))
    }

    pub(crate) fn check(&self, call: &'static str, answer: c_int) -> Result<(), LibraryError> {
        if answer == PTL_OK {
            return Ok(());
        }
        Err(failed(call, &format!("{} ('{}')", name_of(answer), self.library.file())))
    }

    /// Initializes the library and its default interface. [`PortalsLibrary::close_interface`]
    /// undoes each success.
    pub(crate) fn open_interface(&self) -> Result<(u32, InterfaceLimits), LibraryError> {
        keep_signals(|| self.start_interface())
    }

    fn start_interface(&self) -> Result<(u32, InterfaceLimits), LibraryError> {
        // SAFETY: it may be called any number of times.
        self.check("PtlInit", unsafe { (self.symbols.PtlInit)() })?;
        // A library with longer handles than the reference implementation writes more than one
        // element here.
        let (mut limits, mut handle) = (NiLimits::default(), [PTL_INVALID_HANDLE; 8]);
        let options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
        // SAFETY: the library is initialized; it writes `limits` and `handle`.
        let answer = unsafe {
            (self.symbols.PtlNIInit)(
                PTL_IFACE_DEFAULT,
                options,
                PTL_PID_ANY,
                null(),
                &mut limits,
                handle.as_mut_ptr(),
            )
        };
        if let Err(error) = self.check("PtlNIInit", answer) {
            // SAFETY: undoes PtlInit above.
            unsafe { (self.symbols.PtlFini)() };
            return Err(error);
        }
        let [handle, rest @ ..] = handle;
        if rest.iter().any(|word| *word != PTL_INVALID_HANDLE) {
            return Err(self.library.unfit(
                "has longer handles than the reference implementation of Portals 4, \
                 as BXI's library has: OxMPI cannot use it",
            ));
        }
        let count = |number: c_int| u64::try_from(number).unwrap_or(0);
        let limits = InterfaceLimits {
            message: limits.max_msg_size,
            entries: count(limits.max_entries),
            unexpected: count(limits.max_unexpected_headers),
        };
        Ok((handle, limits))
    }

    /// Undoes [`PortalsLibrary::open_interface`].
    pub(crate) fn close_interface(&self, handle: u32) {
        // SAFETY: the interface is open, and nothing of it is used any more.
        unsafe {
            (self.symbols.PtlNIFini)(handle);
            (self.symbols.PtlFini)();
        }
    }

    /// The limits of this machine's default interface.
    pub fn limits(&self) -> Result<InterfaceLimits, LibraryError> {
        let (handle, limits) = self.open_interface()?;
        self.close_interface(handle);
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_the_remedy() {
        let error = PortalsLibrary::open("/nonexistent/libportals.so.4").unwrap_err().to_string();
        for text in
            ["'/nonexistent/libportals.so.4'", "No such file", "install", "mtl_portals4_library"]
        {
            assert!(error.contains(text), "{error}");
        }
    }
}
