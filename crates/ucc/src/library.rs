//! The library, and the context of a process.

use crate::declarations::{
    ContextParams, LibParams, OobColl, Status, UCC_LIB_ATTR_FIELD_COLL_TYPES,
    UCC_LIB_PARAM_FIELD_THREAD_MODE, UCC_THREAD_MULTIPLE, UCC_THREAD_SINGLE, UccSymbols,
};
use libc::c_void;
use oxmpi_sys::foreign::{ForeignLibrary, keep_signals, text};
use std::ffi::{CStr, CString};
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// UCC, loaded into this program. It stays loaded: its components start threads of their own.
pub struct UccLibrary {
    pub(crate) symbols: UccSymbols,
    name: String,
}

impl fmt::Display for UccLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, release) = self.version();
        write!(f, "UCC {major}.{minor}.{release} ({})", self.name)
    }
}

impl fmt::Debug for UccLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UccLibrary({self})")
    }
}

/// Why UCC cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UccError {
    /// The library cannot be loaded.
    #[error(
        "UCC cannot be loaded as '{library}' ({why}): install it (Debian: libucc-dev, which has the file names of its modules), or name its file by the parameter coll_ucc_library"
    )]
    Missing {
        /// The name that was tried.
        library: String,
        /// The message of the loader.
        why: String,
    },
    /// The library finds no modules.
    #[error(
        "UCC ('{library}') finds none of its modules: install the package with their file names (Debian: libucc-dev, beside libucc1)"
    )]
    Modules { library: String },
    /// The library is not UCC 1.
    #[error("'{library}' has no function {symbol}: it is no UCC of version 1")]
    Symbol {
        library: String,
        /// The missing function.
        symbol: &'static str,
    },
    /// The library has another major version.
    #[error("'{library}' is UCC {major}.{minor}: a version 1 is needed")]
    Version { library: String, major: u32, minor: u32 },
    /// A call failed.
    #[error("UCC's {call} fails: {why}")]
    Call {
        call: &'static str,
        /// The library's text for the status.
        why: String,
    },
}

/// `UCC_ERR_NOT_FOUND`.
const NOT_FOUND: Status = -7;

impl UccLibrary {
    /// Loads the library `name`: a file name for the dynamic loader.
    ///
    /// # Errors
    /// The library cannot be loaded, or is not UCC 1.
    pub fn open(name: &str) -> Result<Arc<UccLibrary>, UccError> {
        let missing = |why: String| UccError::Missing { library: name.to_string(), why };
        let opened = ForeignLibrary::open(name).map_err(missing)?;
        let symbol = |symbol: &'static CStr| {
            let missing = || UccError::Symbol {
                library: name.to_string(),
                symbol: symbol.to_str().unwrap_or_default(),
            };
            opened.symbol(symbol).ok_or_else(missing)
        };
        macro_rules! function {
            ($name:literal) => {{
                let found: *mut c_void = symbol($name)?;
                // SAFETY: the field that this initialises has the type of UCC's function of this
                // name.
                unsafe { std::mem::transmute_copy::<*mut c_void, _>(&found) }
            }};
        }
        let symbols = UccSymbols {
            get_version: function!(c"ucc_get_version"),
            status_string: function!(c"ucc_status_string"),
            lib_config_read: function!(c"ucc_lib_config_read"),
            lib_config_modify: function!(c"ucc_lib_config_modify"),
            lib_config_release: function!(c"ucc_lib_config_release"),
            init_version: function!(c"ucc_init_version"),
            lib_get_attr: function!(c"ucc_lib_get_attr"),
            finalize: function!(c"ucc_finalize"),
            context_config_read: function!(c"ucc_context_config_read"),
            context_config_release: function!(c"ucc_context_config_release"),
            context_create: function!(c"ucc_context_create"),
            context_progress: function!(c"ucc_context_progress"),
            team_create_post: function!(c"ucc_team_create_post"),
            team_create_test: function!(c"ucc_team_create_test"),
            team_destroy: function!(c"ucc_team_destroy"),
            collective_init: function!(c"ucc_collective_init"),
            collective_post: function!(c"ucc_collective_post"),
            collective_finalize: function!(c"ucc_collective_finalize"),
        };
        let library = UccLibrary { symbols, name: name.to_string() };
        match library.version() {
            (1, ..) => Ok(Arc::new(library)),
            (major, minor, _) => Err(UccError::Version { library: name.to_string(), major, minor }),
        }
    }

    /// Major, minor, release.
    pub fn version(&self) -> (u32, u32, u32) {
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: the function writes three numbers.
        unsafe { (self.symbols.get_version)(&mut major, &mut minor, &mut release) };
        (major, minor, release)
    }

    /// Checks that UCC finds its modules, without which it has no collectives.
    ///
    /// # Errors
    /// [`UccError::Modules`], or the error of the call.
    pub fn find_modules(&self) -> Result<(), UccError> {
        let config = self.read_config()?;
        // SAFETY: the configuration was read above, and is released once.
        unsafe { (self.symbols.lib_config_release)(config) };
        Ok(())
    }

    /// UCC's settings, for the caller to release.
    fn read_config(&self) -> Result<*mut c_void, UccError> {
        let mut config = null_mut();
        // SAFETY: prefix and file are null, which UCC allows; `config` is writable.
        let status = keep_signals(|| unsafe { (self.symbols.lib_config_read)(null(), null(), &mut config) });
        if status == NOT_FOUND {
            return Err(UccError::Modules { library: self.name.clone() });
        }
        self.check("ucc_lib_config_read", status).map(|()| config)
    }

    /// The status of a call as a result. Positive numbers stand for operations in progress, and are
    /// no errors.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<(), UccError> {
        if status >= 0 {
            return Ok(());
        }
        // SAFETY: the function returns a constant string.
        let why = unsafe { text((self.symbols.status_string)(status)) };
        Err(UccError::Call { call, why: format!("{why} ({status})") })
    }
}

/// UCC's resources of a process, by which it is a member of any number of teams. The context exists
/// as long as the process, as other processes may still send to it after its last use here.
pub struct UccContext {
    pub(crate) library: Arc<UccLibrary>,
    pub(crate) handle: *mut c_void,
    coll_types: u64,
}

// SAFETY: UCC binds a context to no thread, and only one thread at a time has this value.
unsafe impl Send for UccContext {}

impl fmt::Debug for UccContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UccContext({})", self.library)
    }
}

impl UccContext {
    /// Makes the context of this process, without communication. `cls`: the collective layers that
    /// UCC may use, separated by commas; empty: UCC's configuration.
    ///
    /// # Errors
    /// UCC's error.
    /// What UCC says.
    pub fn new(library: &Arc<UccLibrary>, is_threaded: bool, cls: &str) -> Result<UccContext, UccError> {
        // UCC opens its components and UCX only here.
        keep_signals(|| UccContext::start(library, is_threaded, cls))
    }

    fn start(library: &Arc<UccLibrary>, is_threaded: bool, cls: &str) -> Result<UccContext, UccError> {
        let symbols = &library.symbols;
        let config = library.read_config()?;
        let params = LibParams {
            mask: UCC_LIB_PARAM_FIELD_THREAD_MODE,
            thread_mode: if is_threaded { UCC_THREAD_MULTIPLE } else { UCC_THREAD_SINGLE },
            coll_types: 0,
            reduction_types: 0,
            sync_type: 0,
        };
        let mut lib = null_mut();
        let layers = CString::new(cls).unwrap_or_default();
        // SAFETY: the configuration was read above and is released once; strings end with a zero.
        unsafe {
            let named = match cls.is_empty() {
                true => Ok(()),
                false => {
                    let status = (symbols.lib_config_modify)(config, c"CLS".as_ptr(), layers.as_ptr());
                    library.check("ucc_lib_config_modify (coll_ucc_cls)", status)
                }
            };
            let made = named.and_then(|()| {
                // The fields of structures are announced by masks, so the oldest version of the
                // interface is enough.
                let status = (symbols.init_version)(1, 0, &params, config, &mut lib);
                library.check("ucc_init", status)
            });
            (symbols.lib_config_release)(config);
            made?;
        }
        let made = UccContext::of_lib(library, lib);
        if made.is_err() {
            // SAFETY: the library handle was made above, and is not used any more.
            unsafe { (symbols.finalize)(lib) };
        }
        made
    }

    fn of_lib(library: &Arc<UccLibrary>, lib: *mut c_void) -> Result<UccContext, UccError> {
        let symbols = &library.symbols;
        let mut attr = LibParams {
            mask: UCC_LIB_ATTR_FIELD_COLL_TYPES,
            thread_mode: 0,
            coll_types: 0,
            reduction_types: 0,
            sync_type: 0,
        };
        // SAFETY: the library handle lives; the call writes the fields of the mask.
        library.check("ucc_lib_get_attr", unsafe { (symbols.lib_get_attr)(lib, &mut attr) })?;
        let mut config = null_mut();
        // SAFETY: the library handle lives; no file is given.
        let status = unsafe { (symbols.context_config_read)(lib, null(), &mut config) };
        library.check("ucc_context_config_read", status)?;
        // Without an exchange here, the call is local, and each team makes its own exchange.
        let oob = OobColl {
            allgather: None,
            req_test: None,
            req_free: None,
            coll_info: null_mut(),
            n_oob_eps: 0,
            oob_ep: 0,
        };
        let params = ContextParams { mask: 0, kind: 0, sync_type: 0, oob, ctx_id: 0, mem_params: [0; 2] };
        let mut handle = null_mut();
        // SAFETY: the arguments live until the call returns; the configuration is released once.
        let status = unsafe {
            let status = (symbols.context_create)(lib, &params, config, &mut handle);
            (symbols.context_config_release)(config);
            status
        };
        library.check("ucc_context_create", status)?;
        Ok(UccContext { library: library.clone(), handle, coll_types: attr.coll_types })
    }

    /// Advances all requests and teams without waiting.
    pub fn progress(&self) {
        // SAFETY: the context lives as long as the process. Errors are read from the request that
        // has failed.
        unsafe { (self.library.symbols.context_progress)(self.handle) };
    }

    /// Whether UCC has this collective in the layers that it uses.
    pub fn has(&self, kind: crate::UccCollective) -> bool {
        self.coll_types & u64::from(kind.bit()) != 0
    }

    /// The library of the context.
    pub fn library(&self) -> &Arc<UccLibrary> {
        &self.library
    }
}
