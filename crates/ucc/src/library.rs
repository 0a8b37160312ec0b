//! The library, and what a process has of it once.

use crate::declarations::{
    ContextParams, LibParams, OobColl, Status, Symbols, UCC_LIB_ATTR_FIELD_COLL_TYPES,
    UCC_LIB_PARAM_FIELD_THREAD_MODE, UCC_THREAD_MULTIPLE, UCC_THREAD_SINGLE,
};
use libc::c_void;
use oxmpi_sys::foreign::{ForeignLibrary, keep_signals, text};
use std::ffi::{CStr, CString};
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// UCC, loaded into this program. It stays loaded: its components start threads of their own.
pub struct Library {
    pub(crate) symbols: Symbols,
    name: String,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, release) = self.version();
        write!(f, "UCC {major}.{minor}.{release} ({})", self.name)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({self})")
    }
}

/// Why UCC cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It is not there.
    #[error(
        "UCC cannot be loaded as '{library}' ({why}): install it (Debian: libucc-dev, which has the names by which it finds its modules), or name its file by the parameter coll_ucc_library"
    )]
    Missing {
        /// The name that was tried.
        library: String,
        /// What the loader said.
        why: String,
    },
    /// Its modules are not there.
    #[error(
        "UCC ('{library}') finds none of its modules: install the package that has their names (Debian: libucc-dev, beside libucc1)"
    )]
    Modules {
        /// The file.
        library: String,
    },
    /// It is something else.
    #[error("'{library}' has no function {symbol}: it is no UCC of version 1")]
    Symbol {
        /// The file.
        library: String,
        /// What it lacks.
        symbol: &'static str,
    },
    /// It has another interface.
    #[error("'{library}' is UCC {major}.{minor}: a version 1 is needed")]
    Version {
        /// The file.
        library: String,
        /// Its version.
        major: u32,
        /// Its version.
        minor: u32,
    },
    /// It has refused a call.
    #[error("UCC's {call} says: {why}")]
    Call {
        /// The call.
        call: &'static str,
        /// What it said.
        why: String,
    },
}

/// UCC_ERR_NOT_FOUND.
const NOT_FOUND: Status = -7;

impl Library {
    /// Loads the library `name`: a file name as the loader takes it.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub fn open(name: &str) -> Result<Arc<Library>, LibraryError> {
        let missing = |why: String| LibraryError::Missing { library: name.to_string(), why };
        let opened = ForeignLibrary::open(name).map_err(missing)?;
        let symbol = |symbol: &'static CStr| {
            let missing = || LibraryError::Symbol {
                library: name.to_string(),
                symbol: symbol.to_str().unwrap_or_default(),
            };
            opened.symbol(symbol).ok_or_else(missing)
        };
        macro_rules! function {
            ($name:literal) => {{
                let found: *mut c_void = symbol($name)?;
                // SAFETY: the field that this initialises has the type of UCC's function of this name.
                unsafe { std::mem::transmute_copy::<*mut c_void, _>(&found) }
            }};
        }
        let symbols = Symbols {
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
        let library = Library { symbols, name: name.to_string() };
        match library.version() {
            (1, ..) => Ok(Arc::new(library)),
            (major, minor, _) => Err(LibraryError::Version { library: name.to_string(), major, minor }),
        }
    }

    /// Its version: major, minor, release.
    pub fn version(&self) -> (u32, u32, u32) {
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: it writes three numbers.
        unsafe { (self.symbols.get_version)(&mut major, &mut minor, &mut release) };
        (major, minor, release)
    }

    /// Whether it finds its modules, without which it can do nothing.
    ///
    /// # Errors
    /// What it lacks.
    pub fn find_modules(&self) -> Result<(), LibraryError> {
        let config = self.read_config()?;
        // SAFETY: it was made above, and is released once.
        unsafe { (self.symbols.lib_config_release)(config) };
        Ok(())
    }

    /// UCC's settings, for the caller to release.
    fn read_config(&self) -> Result<*mut c_void, LibraryError> {
        let mut config = null_mut();
        // SAFETY: neither prefix nor file is given; the place is one for a pointer.
        let status = keep_signals(|| unsafe { (self.symbols.lib_config_read)(null(), null(), &mut config) });
        if status == NOT_FOUND {
            return Err(LibraryError::Modules { library: self.name.clone() });
        }
        self.check("ucc_lib_config_read", status).map(|()| config)
    }

    /// What a call has answered, as a result. Numbers above 0 say that something goes on, and are no errors.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<(), LibraryError> {
        if status >= 0 {
            return Ok(());
        }
        // SAFETY: it gives a constant string.
        let why = unsafe { text((self.symbols.status_string)(status)) };
        Err(LibraryError::Call { call, why: format!("{why} ({status})") })
    }
}

/// What a process has of UCC once: its own resources, by which it is a member of any number of teams. It lasts as long as the process, as
/// others may still speak to it when this one has no use for it.
pub struct Context {
    pub(crate) library: Arc<Library>,
    pub(crate) handle: *mut c_void,
    coll_types: u64,
}

// SAFETY: UCC binds a context to no thread, and only one thread at a time has this value.
unsafe impl Send for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.library)
    }
}

impl Context {
    /// Makes the context of this process, without a word to any other. `cls` names the collective layers that UCC may use, with commas between
    /// them; empty: as UCC is configured.
    ///
    /// # Errors
    /// What UCC says.
    pub fn new(library: &Arc<Library>, is_threaded: bool, cls: &str) -> Result<Context, LibraryError> {
        // UCC opens its components and UCX only here.
        keep_signals(|| Context::start(library, is_threaded, cls))
    }

    fn start(library: &Arc<Library>, is_threaded: bool, cls: &str) -> Result<Context, LibraryError> {
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
        // SAFETY: the configuration was made above and is released once; strings end with a zero.
        unsafe {
            let named = match cls.is_empty() {
                true => Ok(()),
                false => {
                    let status = (symbols.lib_config_modify)(config, c"CLS".as_ptr(), layers.as_ptr());
                    library.check("ucc_lib_config_modify (coll_ucc_cls)", status)
                }
            };
            let made = named.and_then(|()| {
                // Structures announce what they have by masks, so the oldest version of the interface will do.
                let status = (symbols.init_version)(1, 0, &params, config, &mut lib);
                library.check("ucc_init", status)
            });
            (symbols.lib_config_release)(config);
            made?;
        }
        let made = Context::of_lib(library, lib);
        if made.is_err() {
            // SAFETY: it was made above, and nothing uses it.
            unsafe { (symbols.finalize)(lib) };
        }
        made
    }

    fn of_lib(library: &Arc<Library>, lib: *mut c_void) -> Result<Context, LibraryError> {
        let symbols = &library.symbols;
        let mut attr = LibParams {
            mask: UCC_LIB_ATTR_FIELD_COLL_TYPES,
            thread_mode: 0,
            coll_types: 0,
            reduction_types: 0,
            sync_type: 0,
        };
        // SAFETY: the library lives; it writes the fields of the mask.
        library.check("ucc_lib_get_attr", unsafe { (symbols.lib_get_attr)(lib, &mut attr) })?;
        let mut config = null_mut();
        // SAFETY: the library lives; no file is given.
        let status = unsafe { (symbols.context_config_read)(lib, null(), &mut config) };
        library.check("ucc_context_config_read", status)?;
        // Without an exchange of all processes here each team makes its own, so this call concerns this process alone.
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
        // SAFETY: all of them live until the call returns; the configuration is released once.
        let status = unsafe {
            let status = (symbols.context_create)(lib, &params, config, &mut handle);
            (symbols.context_config_release)(config);
            status
        };
        library.check("ucc_context_create", status)?;
        Ok(Context { library: library.clone(), handle, coll_types: attr.coll_types })
    }

    /// Lets everything under way in it go on, without waiting.
    pub fn progress(&self) {
        // SAFETY: it lives as long as the process. Errors are those of a request, which says so itself.
        unsafe { (self.library.symbols.context_progress)(self.handle) };
    }

    /// Whether UCC has collectives of this kind at all, with the layers that it uses.
    pub fn has(&self, kind: crate::Kind) -> bool {
        self.coll_types & u64::from(kind.bit()) != 0
    }

    /// The library that it is of.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }
}
