//! Loading, initialisation and progress of the library.

use crate::call::{HcollElement, HcollFunction, HcollOperation};
use crate::callbacks;
use crate::declarations::{Collectives, HCOLL_SUCCESS, HcollSymbols, InitOpts};
use crate::runtime::{HcollGroup, HcollMembers, MAX_TAG, runtime};
use crate::turn::HcollTurn;
use libc::{c_int, c_void};
use oxmpi_sys::foreign::{ForeignLibrary, keep_signals, text};
use std::ffi::CStr;
use std::fmt;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// HCOLL, loaded into this program. It stays loaded: it may start threads of its own.
pub struct Hcoll {
    pub(crate) symbols: HcollSymbols,
    name: String,
    /// The result of the initialisation, once it was tried.
    initialised: OnceLock<Result<(), HcollError>>,
    /// Contexts to be freed by the next thread with the turn, with the groups that they need until
    /// then.
    pub(crate) unneeded: Mutex<Vec<(Freeable, HcollGroup)>>,
}

/// A context without collectives in progress.
pub(crate) struct Freeable(pub(crate) *mut c_void);

// SAFETY: HCOLL binds a context to no thread, and only the thread with the turn hands it to HCOLL.
unsafe impl Send for Freeable {}
// SAFETY: the addresses are those of functions and variables of a library that is never unloaded.
// Only the thread with the turn calls the functions and uses the variables.
unsafe impl Send for Hcoll {}
// SAFETY: as for Send.
unsafe impl Sync for Hcoll {}

impl fmt::Display for Hcoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HCOLL {} ({})", self.version(), self.name)
    }
}

impl fmt::Debug for Hcoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hcoll({self})")
    }
}

/// Why HCOLL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HcollError {
    /// The library cannot be loaded.
    #[error(
        "HCOLL cannot be loaded as '{library}' ({why}): it comes with NVIDIA's HPC-X; name its file by the parameter coll_hcoll_library"
    )]
    Missing {
        /// The name that was tried.
        library: String,
        /// The message of the loader.
        why: String,
    },
    /// The library is not HCOLL 4.
    #[error("'{library}' has no {symbol}: it is no HCOLL of version 4")]
    Symbol {
        library: String,
        /// The missing symbol.
        symbol: &'static str,
    },
    /// A call failed.
    #[error("HCOLL's {call} has failed ({status})")]
    Call {
        call: &'static str,
        /// The return value.
        status: i32,
    },
    /// HCOLL requires memory hooks, which OxMPI does not have.
    #[error(
        "HCOLL requires notification of unmapped memory (mem_hook_needed), which OxMPI does not have: memory that is mapped \
         again at the same address would be sent from the old pages"
    )]
    MemoryHooks,
    /// Another rank of this program uses the library.
    #[error("HCOLL is used by another rank of this program, and has one state for the whole program")]
    Claimed,
    /// A length exceeds HCOLL's counts.
    #[error("{bytes} bytes are more than HCOLL counts at once (2147483647)")]
    TooLong { bytes: usize },
    /// HCOLL has no such function.
    #[error("HCOLL has no function {0:?}")]
    NoFunction(HcollFunction),
    /// A buffer is not contiguous.
    #[error("a buffer is not contiguous")]
    InPieces,
    /// No thread can be started.
    #[error("the thread that creates a context of HCOLL failed: {0}")]
    Thread(String),
}

impl Hcoll {
    /// Loads the library `name`: a file name for the dynamic loader.
    ///
    /// # Errors
    /// [`HcollError::Missing`] or [`HcollError::Symbol`].
    pub fn open(name: &str) -> Result<Arc<Hcoll>, HcollError> {
        let missing = |why: String| HcollError::Missing { library: name.to_string(), why };
        let opened = ForeignLibrary::open(name).map_err(missing)?;
        let symbol = |symbol: &'static CStr| {
            let missing = || HcollError::Symbol {
                library: name.to_string(),
                symbol: symbol.to_str().unwrap_or_default(),
            };
            opened.symbol(symbol).ok_or_else(missing)
        };
        macro_rules! function {
            ($name:literal) => {{
                let found: *mut c_void = symbol($name)?;
                // SAFETY: the field that this initialises has the type of HCOLL's function of this
                // name.
                unsafe { std::mem::transmute_copy::<*mut c_void, _>(&found) }
            }};
        }
        let mut elements = [std::ptr::null(); HcollElement::ALL.len()];
        for element in HcollElement::ALL {
            elements[element as usize] = symbol(element.symbol())?.cast_const().cast();
        }
        let mut operations = [null_mut(); HcollOperation::ALL.len()];
        for operation in HcollOperation::ALL {
            operations[operation as usize] = symbol(operation.symbol())?.cast();
        }
        let symbols = HcollSymbols {
            get_version: function!(c"hcoll_get_version"),
            read_init_opts: function!(c"hcoll_read_init_opts"),
            init_with_opts: function!(c"hcoll_init_with_opts"),
            free_init_opts: function!(c"hcoll_free_init_opts"),
            create_context: function!(c"hcoll_create_context"),
            context_free: function!(c"hcoll_context_free"),
            finalize: function!(c"hcoll_finalize"),
            rte_functions: symbol(c"hcoll_rte_functions")?.cast(),
            collectives: symbol(c"hcoll_collectives")?.cast_const().cast(),
            progress_fn: symbol(c"hcoll_progress_fn")?.cast_const().cast(),
            elements,
            operations,
        };
        let (initialised, unneeded) = (OnceLock::new(), Mutex::default());
        Ok(Arc::new(Hcoll { symbols, name: name.to_string(), initialised, unneeded }))
    }

    /// The library's version text.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: the function returns a constant string.
        unsafe { text((self.symbols.get_version)()) }
    }

    /// Claims the library for one process, with `world` as the group of its job `job`. The
    /// [initialisation](Hcoll::initialise) is later.
    ///
    /// # Errors
    /// Another process of this program has claimed it.
    pub fn claim(&self, world: HcollMembers, job: u32) -> Result<HcollGroup, HcollError> {
        let group = runtime().claim(world, job)?;
        // SAFETY: the library is never unloaded, and no process has claimed it before this one.
        unsafe { callbacks::fill(self.symbols.rte_functions) };
        Ok(group)
    }

    /// Initialises the library at the first call, which is on the thread that creates a context,
    /// since HCOLL may wait.
    pub(crate) fn initialise(&self, _turn: &HcollTurn) -> Result<(), HcollError> {
        self.initialised.get_or_init(|| keep_signals(|| self.initialise_once())).clone()
    }

    fn initialise_once(&self) -> Result<(), HcollError> {
        let symbols = &self.symbols;
        let check = |call, status: c_int| match status {
            HCOLL_SUCCESS => Ok(()),
            status => Err(HcollError::Call { call, status }),
        };
        let mut opts: *mut InitOpts = null_mut();
        // SAFETY: `opts` is writable.
        check("hcoll_read_init_opts", unsafe { (symbols.read_init_opts)(&mut opts) })?;
        if opts.is_null() {
            return Err(HcollError::Call { call: "hcoll_read_init_opts", status: HCOLL_SUCCESS });
        }
        // SAFETY: the options come from the library, and are freed once. Contexts are created by
        // another thread than collectives, so the library needs thread support.
        unsafe {
            (*opts).base_tag = 0;
            (*opts).max_tag = MAX_TAG;
            (*opts).enable_thread_support = 1;
            let status = (symbols.init_with_opts)(&mut opts);
            let needs_hooks = !opts.is_null() && (*opts).mem_hook_needed != 0;
            if !opts.is_null() {
                (symbols.free_init_opts)(opts);
            }
            check("hcoll_init_with_opts", status)?;
            if needs_hooks { Err(HcollError::MemoryHooks) } else { Ok(()) }
        }
    }

    fn is_ready(&self) -> bool {
        self.initialised.get().is_some_and(Result::is_ok)
    }

    /// Advances all collectives without waiting, and frees unneeded contexts.
    pub fn progress(&self, _turn: &HcollTurn) {
        if !self.is_ready() {
            return;
        }
        // SAFETY: the library may set the variable only during its initialisation.
        if let Some(progress) = unsafe { *self.symbols.progress_fn } {
            // SAFETY: the library is initialised, and this thread has the turn. A failure is
            // recorded in the group.
            unsafe { progress() };
        }
        let unneeded = std::mem::take(&mut *self.unneeded.lock().unwrap_or_else(PoisonError::into_inner));
        for (Freeable(context), group) in unneeded {
            let group_handle = std::ptr::without_provenance_mut(group.number());
            // SAFETY: the context has no collectives in progress, and is not used any more. Its
            // status is of no use.
            unsafe { (self.symbols.context_free)(context, group_handle) };
        }
    }

    /// Ends the use of the library in this process.
    pub fn finalize(&self, turn: HcollTurn) {
        if self.is_ready() {
            self.progress(&turn);
            // SAFETY: the library is initialised, and is not used any more: the turn is never
            // released.
            unsafe { (self.symbols.finalize)() };
        }
        std::mem::forget(turn);
    }

    /// The library's collective functions, which it sets during its initialisation.
    pub(crate) fn collectives(&self) -> Collectives {
        // SAFETY: the library changes the variable only during its initialisation.
        unsafe { *self.symbols.collectives }
    }
}
