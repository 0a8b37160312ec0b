//! The library.

use crate::call::{HcollElement, HcollFunction, HcollOperation};
use crate::callbacks;
use crate::declarations::{Collectives, HCOLL_SUCCESS, InitOpts, Symbols};
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
    pub(crate) symbols: Symbols,
    name: String,
    /// Whether it was initialised, and how that went.
    initialised: OnceLock<Result<(), HcollError>>,
    /// Contexts that are to be freed when it is somebody's turn, with the groups that they need until then.
    pub(crate) unneeded: Mutex<Vec<(Freeable, HcollGroup)>>,
}

/// A context of which nothing is under way.
pub(crate) struct Freeable(pub(crate) *mut c_void);

// SAFETY: HCOLL binds a context to no thread, and only who has the turn hands it to HCOLL.
unsafe impl Send for Freeable {}
// SAFETY: the addresses are those of functions and variables of a library that is never unloaded. Functions are called, and variables used,
// by the thread alone that has the turn.
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
    /// It is not there.
    #[error(
        "HCOLL cannot be loaded as '{library}' ({why}): it comes with NVIDIA's HPC-X; name its file by the parameter coll_hcoll_library"
    )]
    Missing {
        /// The name that was tried.
        library: String,
        /// What the loader said.
        why: String,
    },
    /// It is something else.
    #[error("'{library}' has no {symbol}: it is no HCOLL of version 4")]
    Symbol {
        /// The file.
        library: String,
        /// What it lacks.
        symbol: &'static str,
    },
    /// It has refused a call.
    #[error("HCOLL's {call} has failed ({status})")]
    Call {
        /// The call.
        call: &'static str,
        /// What it returned.
        status: i32,
    },
    /// It needs what is not here.
    #[error(
        "HCOLL wants to be told of memory that the program unmaps (mem_hook_needed), which OxMPI does not do: memory that is mapped \
         again at the same address would be sent from where it was"
    )]
    MemoryHooks,
    /// It is another rank's.
    #[error("HCOLL is used by another rank of this program, and has one state for all of it")]
    Claimed,
    /// A length that its counts cannot say.
    #[error("{bytes} bytes are more than HCOLL counts at once (2147483647)")]
    TooLong {
        /// The length.
        bytes: usize,
    },
    /// There is no such function in it.
    #[error("it has no {0:?}")]
    NoFunction(HcollFunction),
    /// A buffer in several pieces.
    #[error("a buffer does not lie in one piece")]
    InPieces,
    /// No thread could be started.
    #[error("no thread can be started that makes a context of HCOLL: {0}")]
    Thread(String),
}

impl Hcoll {
    /// Loads the library `name`: a file name as the loader takes it. Nothing of it is used yet.
    ///
    /// # Errors
    /// See [`HcollError`].
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
                // SAFETY: the field that this initialises has the type of HCOLL's function of this name.
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
        let symbols = Symbols {
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

    /// Its version, as it says it.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: it gives a constant string.
        unsafe { text((self.symbols.get_version)()) }
    }

    /// Makes it that of one process, of which `world` is the group of its job `job`. It is [initialised](Hcoll::initialise) later.
    ///
    /// # Errors
    /// Another process of this program has it.
    pub fn claim(&self, world: HcollMembers, job: u32) -> Result<HcollGroup, HcollError> {
        let group = runtime().claim(world, job)?;
        // SAFETY: the library is never unloaded, and no process has claimed it before this one.
        unsafe { callbacks::fill(self.symbols.rte_functions) };
        Ok(group)
    }

    /// Initialises it, the first time: it is called by the thread that makes a context, as it may wait.
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
        // SAFETY: the place is one for a pointer.
        check("hcoll_read_init_opts", unsafe { (symbols.read_init_opts)(&mut opts) })?;
        if opts.is_null() {
            return Err(HcollError::Call { call: "hcoll_read_init_opts", status: HCOLL_SUCCESS });
        }
        // SAFETY: the library has given the options, which are freed once. Contexts are made by other threads than collectives, so it must
        // know of threads.
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

    /// Lets everything under way in it go on, without waiting, and frees contexts that are not needed any more.
    pub fn progress(&self, _turn: &HcollTurn) {
        if !self.is_ready() {
            return;
        }
        // SAFETY: the variable is the library's, which may set it in the initialisation alone.
        if let Some(progress) = unsafe { *self.symbols.progress_fn } {
            // SAFETY: it is initialised, and this thread has the turn. What has failed is not complete, which its group knows.
            unsafe { progress() };
        }
        let unneeded = std::mem::take(&mut *self.unneeded.lock().unwrap_or_else(PoisonError::into_inner));
        for (Freeable(context), group) in unneeded {
            let group_handle = std::ptr::without_provenance_mut(group.number());
            // SAFETY: nothing is under way in the context, which nothing uses behind this. What the library says is of no use to anybody.
            unsafe { (self.symbols.context_free)(context, group_handle) };
        }
    }

    /// Ends its use in this process, for good.
    pub fn finalize(&self, turn: HcollTurn) {
        if self.is_ready() {
            self.progress(&turn);
            // SAFETY: it is initialised, and nothing of it is used behind this: the turn never comes back.
            unsafe { (self.symbols.finalize)() };
        }
        std::mem::forget(turn);
    }

    /// Its functions for collectives, which it fills in when it is initialised.
    pub(crate) fn collectives(&self) -> Collectives {
        // SAFETY: the variable is the library's, which changes it in the initialisation alone.
        unsafe { *self.symbols.collectives }
    }
}
