//! The library, and the context of a process.

use crate::declarations::{
    ContextParams, LibParams, OobColl, Status, UCC_LIB_ATTR_FIELD_COLL_TYPES,
    UCC_LIB_PARAM_FIELD_THREAD_MODE, UCC_THREAD_MULTIPLE, UCC_THREAD_SINGLE, UccSymbols,
};
use libc::c_void;
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, keep_signals, text};
use std::ffi::CString;
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::Arc;

pub(crate) static UCC: LibraryTexts = LibraryTexts {
    name: "UCC",
    needed: "UCC of version 1",
    remedy: "install it (Debian: libucc-dev, which has the file names of its modules), \
             or name its file by the parameter coll_ucc_library",
};

/// UCC, loaded into this program. It stays loaded: its components start threads of their own.
#[derive(Debug)]
pub struct UccLibrary {
    pub(crate) symbols: UccSymbols,
    library: ForeignLibrary,
}

impl fmt::Display for UccLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, release) = self.version();
        write!(f, "UCC {major}.{minor}.{release} ({})", self.library.file())
    }
}

/// `UCC_ERR_NOT_FOUND`.
const NOT_FOUND: Status = -7;

impl UccLibrary {
    /// Loads the library `name`: a file name for the dynamic loader.
    pub fn open(name: &str) -> Result<Arc<UccLibrary>, LibraryError> {
        let library = ForeignLibrary::open(&UCC, name)?;
        let opened = UccLibrary { symbols: UccSymbols::of(&library)?, library };
        match opened.version() {
            (1, ..) => Ok(Arc::new(opened)),
            (major, minor, _) => {
                Err(opened.library.unfit(format!("is UCC {major}.{minor}: a version 1 is needed")))
            }
        }
    }

    /// Major, minor, release.
    pub fn version(&self) -> (u32, u32, u32) {
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: the function writes three numbers.
        unsafe { (self.symbols.ucc_get_version)(&mut major, &mut minor, &mut release) };
        (major, minor, release)
    }

    /// Checks that UCC finds its modules, without which it has no collectives.
    pub fn find_modules(&self) -> Result<(), LibraryError> {
        let config = self.read_config()?;
        // SAFETY: the configuration was read above, and is released once.
        unsafe { (self.symbols.ucc_lib_config_release)(config) };
        Ok(())
    }

    /// UCC's settings, for the caller to release.
    fn read_config(&self) -> Result<*mut c_void, LibraryError> {
        let mut config = null_mut();
        // SAFETY: prefix and file are null, which UCC allows; `config` is writable.
        let status = keep_signals(|| unsafe {
            (self.symbols.ucc_lib_config_read)(null(), null(), &mut config)
        });
        if status == NOT_FOUND {
            return Err(self.library.unfit(
                "finds none of its modules: install the package with their file names (Debian: \
                 libucc-dev, beside libucc1)",
            ));
        }
        self.check("ucc_lib_config_read", status).map(|()| config)
    }

    /// The status of a call as a result. Positive numbers stand for operations in progress, and are
    /// no errors.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<(), LibraryError> {
        if status >= 0 {
            return Ok(());
        }
        // SAFETY: the function returns a constant string.
        let why = unsafe { text((self.symbols.ucc_status_string)(status)) };
        Err(UCC.call_failed(call, format!("fails: {why} ({status})")))
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
    pub fn new(
        library: &Arc<UccLibrary>,
        is_threaded: bool,
        cls: &str,
    ) -> Result<UccContext, LibraryError> {
        // UCC opens its components and UCX only here.
        keep_signals(|| UccContext::start(library, is_threaded, cls))
    }

    fn start(
        library: &Arc<UccLibrary>,
        is_threaded: bool,
        cls: &str,
    ) -> Result<UccContext, LibraryError> {
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
                    let status =
                        (symbols.ucc_lib_config_modify)(config, c"CLS".as_ptr(), layers.as_ptr());
                    library.check("ucc_lib_config_modify (coll_ucc_cls)", status)
                }
            };
            let made = named.and_then(|()| {
                // The fields of structures are announced by masks, so the oldest version of the
                // interface is enough.
                let status = (symbols.ucc_init_version)(1, 0, &params, config, &mut lib);
                library.check("ucc_init", status)
            });
            (symbols.ucc_lib_config_release)(config);
            made?;
        }
        let made = UccContext::of_lib(library, lib);
        if made.is_err() {
            // SAFETY: the library handle was made above, and is not used any more.
            unsafe { (symbols.ucc_finalize)(lib) };
        }
        made
    }

    fn of_lib(library: &Arc<UccLibrary>, lib: *mut c_void) -> Result<UccContext, LibraryError> {
        let symbols = &library.symbols;
        let mut attr = LibParams {
            mask: UCC_LIB_ATTR_FIELD_COLL_TYPES,
            thread_mode: 0,
            coll_types: 0,
            reduction_types: 0,
            sync_type: 0,
        };
        // SAFETY: the library handle lives; the call writes the fields of the mask.
        library.check("ucc_lib_get_attr", unsafe { (symbols.ucc_lib_get_attr)(lib, &mut attr) })?;
        let mut config = null_mut();
        // SAFETY: the library handle lives; no file is given.
        let status = unsafe { (symbols.ucc_context_config_read)(lib, null(), &mut config) };
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
        let params =
            ContextParams { mask: 0, kind: 0, sync_type: 0, oob, ctx_id: 0, mem_params: [0; 2] };
        let mut handle = null_mut();
        // SAFETY: the arguments live until the call returns; the configuration is released once.
        let status = unsafe {
            let status = (symbols.ucc_context_create)(lib, &params, config, &mut handle);
            (symbols.ucc_context_config_release)(config);
            status
        };
        library.check("ucc_context_create", status)?;
        Ok(UccContext { library: library.clone(), handle, coll_types: attr.coll_types })
    }

    /// Advances all requests and teams without waiting.
    pub fn progress(&self) {
        // SAFETY: the context lives as long as the process. Errors are read from the request that
        // has failed.
        unsafe { (self.library.symbols.ucc_context_progress)(self.handle) };
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
