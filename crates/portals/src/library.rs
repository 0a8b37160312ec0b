//! The library, and the limits of its interface.

use crate::declarations::{
    NiLimits, PTL_IFACE_DEFAULT, PTL_INVALID_HANDLE, PTL_NI_MATCHING, PTL_NI_PHYSICAL, PTL_OK, PTL_PID_ANY,
    PortalsFunctions, RETURN_CODES,
};
use libc::{c_int, c_void};
use oxmpi_sys::foreign::{ForeignLibrary, keep_signals};
use std::fmt;
use std::ptr::null;
use std::sync::Arc;

/// A library of Portals 4, loaded into this program for good: it may have threads.
pub struct PortalsLibrary {
    pub(crate) symbols: PortalsFunctions,
    name: String,
}

impl fmt::Display for PortalsLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Portals 4 ({})", self.name)
    }
}

impl fmt::Debug for PortalsLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortalsLibrary({})", self.name)
    }
}

/// The reason why Portals cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortalsLibraryError {
    #[error(
        "Portals 4 cannot be loaded as '{library}' ({why}): install the library of the network's vendor or the reference implementation, \
         or name its file by the parameter mtl_portals4_library"
    )]
    Missing { library: String, why: String },
    #[error("'{library}' has no function {symbol}: it is no library of Portals 4")]
    Symbol { library: String, symbol: &'static str },
    #[error(
        "'{library}' has longer handles than the reference implementation of Portals 4, as BXI's library has: OxMPI cannot use it"
    )]
    Handles { library: String },
    #[error("{library}: {call} returns {why}")]
    Call { library: String, call: &'static str, why: String },
}

/// The limits of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceLimits {
    /// The longest message in bytes.
    pub message: u64,
    /// Match list entries.
    pub entries: u64,
    /// Unexpected messages.
    pub unexpected: u64,
}

/// The name of a return code.
pub(crate) fn name_of(answer: c_int) -> String {
    let name = usize::try_from(answer).ok().and_then(|at| RETURN_CODES.get(at));
    name.map_or_else(|| format!("{answer}"), |name| name.to_string())
}

impl PortalsLibrary {
    /// Loads the library `name`: a file name as the loader takes it.
    #[allow(clippy::missing_transmute_annotations)] // the type of each symbol is that of the field that it is for
    pub fn open(name: &str) -> Result<Arc<PortalsLibrary>, PortalsLibraryError> {
        let absent = |why: String| PortalsLibraryError::Missing { library: name.to_string(), why };
        let opened = ForeignLibrary::open(name).map_err(absent)?;
        // The initialised field decides the type of the function.
        macro_rules! symbol {
            ($name:literal) => {{
                let Some(found) = opened.symbol($name) else {
                    let symbol = $name.to_str().unwrap_or_default();
                    return Err(PortalsLibraryError::Symbol { library: name.to_string(), symbol });
                };
                // SAFETY: a function of this name has this type in every library of Portals 4.
                unsafe { std::mem::transmute::<*mut c_void, _>(found) }
            }};
        }
        let symbols = PortalsFunctions {
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
        Ok(Arc::new(PortalsLibrary { symbols, name: name.to_string() }))
    }

    pub(crate) fn check(&self, call: &'static str, answer: c_int) -> Result<(), PortalsLibraryError> {
        if answer == PTL_OK {
            return Ok(());
        }
        Err(PortalsLibraryError::Call { library: self.name.clone(), call, why: name_of(answer) })
    }

    /// Initializes the library and its default interface. [`PortalsLibrary::close_interface`]
    /// undoes each success.
    pub(crate) fn open_interface(&self) -> Result<(u32, InterfaceLimits), PortalsLibraryError> {
        keep_signals(|| self.start_interface())
    }

    fn start_interface(&self) -> Result<(u32, InterfaceLimits), PortalsLibraryError> {
        // SAFETY: it may be called any number of times.
        self.check("PtlInit", unsafe { (self.symbols.init)() })?;
        // A library with longer handles than the reference implementation writes more than one
        // element here.
        let (mut limits, mut handle) = (NiLimits::default(), [PTL_INVALID_HANDLE; 8]);
        let options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
        // SAFETY: the library is initialized; it writes `limits` and `handle`.
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
            // SAFETY: undoes PtlInit above.
            unsafe { (self.symbols.fini)() };
            return Err(error);
        }
        let [handle, rest @ ..] = handle;
        if rest.iter().any(|word| *word != PTL_INVALID_HANDLE) {
            return Err(PortalsLibraryError::Handles { library: self.name.clone() });
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
            (self.symbols.ni_fini)(handle);
            (self.symbols.fini)();
        }
    }

    /// The limits of this machine's default interface.
    pub fn limits(&self) -> Result<InterfaceLimits, PortalsLibraryError> {
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
        for text in ["'/nonexistent/libportals.so.4'", "No such file", "install", "mtl_portals4_library"] {
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn another_library_is_refused_by_the_function_that_it_lacks() {
        let symbol = "PtlInit";
        let error = PortalsLibraryError::Symbol { library: "libc.so.6".into(), symbol };
        assert_eq!(PortalsLibrary::open("libc.so.6").unwrap_err(), error);
    }
}
