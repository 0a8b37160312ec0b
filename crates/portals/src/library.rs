//! The library, and what an interface of it says of itself.

use crate::declarations::{
    NiLimits, PTL_IFACE_DEFAULT, PTL_INVALID_HANDLE, PTL_NI_MATCHING, PTL_NI_PHYSICAL, PTL_OK, PTL_PID_ANY,
    RETURN_CODES, Symbols,
};
use libc::{c_int, c_void};
use oxmpi_sys::foreign::{ForeignLibrary, keep_signals};
use std::fmt;
use std::ptr::null;
use std::sync::Arc;

/// A library of Portals 4, loaded into this program. It stays loaded: it may have threads of its own.
pub struct Library {
    pub(crate) symbols: Symbols,
    name: String,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Portals 4 ({})", self.name)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({})", self.name)
    }
}

/// Why Portals cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The library is not there.
    #[error(
        "Portals 4 cannot be loaded as '{library}' ({why}): install the library of the network's vendor or the reference implementation, \
         or name its file by the parameter mtl_portals4_library"
    )]
    Missing {
        /// The name that was tried.
        library: String,
        /// What the loader says.
        why: String,
    },
    /// It is something else.
    #[error("'{library}' has no function {symbol}: it is no library of Portals 4")]
    Symbol {
        /// The file.
        library: String,
        /// What it lacks.
        symbol: &'static str,
    },
    /// It has another binary form.
    #[error(
        "'{library}' has longer handles than the reference implementation of Portals 4, as BXI's library has: OxMPI cannot use it"
    )]
    Handles {
        /// The file.
        library: String,
    },
    /// It has refused a call.
    #[error("{library}: {call} returns {why}")]
    Call {
        /// The file.
        library: String,
        /// The call.
        call: &'static str,
        /// What it returns, by name.
        why: String,
    },
}

/// What an interface can do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceLimits {
    /// The longest message, bytes.
    pub message: u64,
    /// Match list entries that can be there at a time.
    pub entries: u64,
    /// Unexpected messages that can be kept.
    pub unexpected: u64,
}

/// The name of a number that a call has returned.
pub(crate) fn name_of(answer: c_int) -> String {
    let name = usize::try_from(answer).ok().and_then(|at| RETURN_CODES.get(at));
    name.map_or_else(|| format!("{answer}"), |name| name.to_string())
}

impl Library {
    /// Loads the library `name`: a file name as the loader takes it.
    ///
    /// # Errors
    /// See [`LibraryError`].
    #[allow(clippy::missing_transmute_annotations)] // the type of each symbol is that of the field that it is for
    pub fn open(name: &str) -> Result<Arc<Library>, LibraryError> {
        let absent = |why: String| LibraryError::Missing { library: name.to_string(), why };
        let opened = ForeignLibrary::open(name).map_err(absent)?;
        // The type of the function is that of the field of [`Symbols`] that it is for.
        macro_rules! symbol {
            ($name:literal) => {{
                let Some(found) = opened.symbol($name) else {
                    let symbol = $name.to_str().unwrap_or_default();
                    return Err(LibraryError::Symbol { library: name.to_string(), symbol });
                };
                // SAFETY: a function of this name has this type in every library of Portals 4.
                unsafe { std::mem::transmute::<*mut c_void, _>(found) }
            }};
        }
        let symbols = Symbols {
            init: symbol!(c"PtlInit"),
            fini: symbol!(c"PtlFini"),
            ni_init: symbol!(c"PtlNIInit"),
            ni_fini: symbol!(c"PtlNIFini"),
            get_uid: symbol!(c"PtlGetUid"),
            get_phys_id: symbol!(c"PtlGetPhysId"),
            eq_alloc: symbol!(c"PtlEQAlloc"),
            eq_free: symbol!(c"PtlEQFree"),
            eq_get: symbol!(c"PtlEQGet"),
            pt_alloc: symbol!(c"PtlPTAlloc"),
            pt_free: symbol!(c"PtlPTFree"),
            pt_enable: symbol!(c"PtlPTEnable"),
            md_bind: symbol!(c"PtlMDBind"),
            md_release: symbol!(c"PtlMDRelease"),
            me_append: symbol!(c"PtlMEAppend"),
            me_unlink: symbol!(c"PtlMEUnlink"),
            me_search: symbol!(c"PtlMESearch"),
            put: symbol!(c"PtlPut"),
            get: symbol!(c"PtlGet"),
        };
        Ok(Arc::new(Library { symbols, name: name.to_string() }))
    }

    /// What a call has returned, as a result.
    pub(crate) fn check(&self, call: &'static str, answer: c_int) -> Result<(), LibraryError> {
        if answer == PTL_OK {
            return Ok(());
        }
        Err(LibraryError::Call { library: self.name.clone(), call, why: name_of(answer) })
    }

    /// Initializes the library, and its default interface. Each success is undone by [`Library::close_interface`].
    pub(crate) fn open_interface(&self) -> Result<(u32, InterfaceLimits), LibraryError> {
        keep_signals(|| self.start_interface())
    }

    fn start_interface(&self) -> Result<(u32, InterfaceLimits), LibraryError> {
        // SAFETY: it may be called any number of times.
        self.check("PtlInit", unsafe { (self.symbols.init)() })?;
        // A library whose handles are longer than those of the reference implementation shows it here, where there is room for them.
        let (mut limits, mut handle) = (NiLimits::default(), [PTL_INVALID_HANDLE; 8]);
        let options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
        // SAFETY: the library is initialized; it writes the two.
        let answer = unsafe {
            (self.symbols.ni_init)(
                PTL_IFACE_DEFAULT,
                options,
                PTL_PID_ANY,
                null(),
                &mut limits,
                handle.as_mut_ptr(),
            )
        };
        if let Err(error) = self.check("PtlNIInit", answer) {
            // SAFETY: it undoes the call above.
            unsafe { (self.symbols.fini)() };
            return Err(error);
        }
        let [handle, rest @ ..] = handle;
        if rest.iter().any(|word| *word != PTL_INVALID_HANDLE) {
            return Err(LibraryError::Handles { library: self.name.clone() });
        }
        let count = |number: c_int| u64::try_from(number).unwrap_or(0);
        let limits = InterfaceLimits {
            message: limits.max_msg_size,
            entries: count(limits.max_entries),
            unexpected: count(limits.max_unexpected_headers),
        };
        Ok((handle, limits))
    }

    /// Undoes [`Library::open_interface`].
    pub(crate) fn close_interface(&self, handle: u32) {
        // SAFETY: the interface is open, and nothing of it is used any more.
        unsafe {
            (self.symbols.ni_fini)(handle);
            (self.symbols.fini)();
        }
    }

    /// What the default interface of this machine can do at most.
    ///
    /// # Errors
    /// If there is no such interface.
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
        let error = Library::open("/nonexistent/libportals.so.4").unwrap_err().to_string();
        for text in ["'/nonexistent/libportals.so.4'", "No such file", "install", "mtl_portals4_library"] {
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn another_library_is_refused_by_the_function_that_it_lacks() {
        let symbol = "PtlInit";
        let error = LibraryError::Symbol { library: "libc.so.6".into(), symbol };
        assert_eq!(Library::open("libc.so.6").unwrap_err(), error);
    }
}
