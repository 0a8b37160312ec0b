//! Loading, initialisation and progress of the library.

use crate::call::{HcollElement, HcollFunction, HcollOperation};
use crate::callbacks;
use crate::declarations::{
    Collectives, DataRepresentation, DteOp, HCOLL_SUCCESS, HcollSymbols, InitOpts,
};
use crate::runtime::{HcollGroup, HcollMembers, MAX_TAG, runtime};
use crate::turn::HcollTurn;
use libc::{c_int, c_void};
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, keep_signals, text};
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

static HCOLL: LibraryTexts = LibraryTexts {
    name: "HCOLL",
    needed: "HCOLL of version 4",
    remedy: "it comes with NVIDIA's HPC-X; name its file by the parameter coll_hcoll_library",
};

/// HCOLL, loaded into this program. It stays loaded: it may start threads of its own.
pub struct Hcoll {
    pub(crate) symbols: HcollSymbols,
    /// Indexed by [`HcollElement`].
    pub(crate) elements: [*const DataRepresentation; HcollElement::SYMBOLS.len()],
    /// Indexed by [`HcollOperation`].
    pub(crate) operations: [*mut DteOp; HcollOperation::SYMBOLS.len()],
    library: ForeignLibrary,
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
        write!(f, "HCOLL {} ({})", self.version(), self.library.file())
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
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(
        "HCOLL requires notification of unmapped memory (mem_hook_needed), which OxMPI does not have: memory that is mapped \
         again at the same address would be sent from the old pages"
    )]
    MemoryHooks,
    #[error(
        "HCOLL is used by another rank of this program, and has one state for the whole program"
    )]
    Claimed,
    #[error("{bytes} bytes are more than HCOLL counts at once (2147483647)")]
    TooLong { bytes: usize },
    #[error("HCOLL has no function {0:?}")]
    NoFunction(HcollFunction),
    #[error("a buffer is not contiguous")]
    InPieces,
    #[error("the thread that creates a context of HCOLL failed: {0}")]
    Thread(String),
}

pub(crate) fn failed(call: &'static str, status: c_int) -> HcollError {
    HCOLL.call_failed(call, format!("has failed ({status})")).into()
}

impl Hcoll {
    /// Loads the library `name`: a file name for the dynamic loader.
    pub fn open(name: &str) -> Result<Arc<Hcoll>, HcollError> {
        let library = ForeignLibrary::open(&HCOLL, name)?;
        let symbols = HcollSymbols::of(&library)?;
        let mut elements = [null(); HcollElement::SYMBOLS.len()];
        for (element, symbol) in elements.iter_mut().zip(HcollElement::SYMBOLS) {
            *element = library.variable::<DataRepresentation>(symbol)?;
        }
        let mut operations = [null_mut(); HcollOperation::SYMBOLS.len()];
        for (operation, symbol) in operations.iter_mut().zip(HcollOperation::SYMBOLS) {
            *operation = library.variable(symbol)?;
        }
        let (initialised, unneeded) = (OnceLock::new(), Mutex::default());
        Ok(Arc::new(Hcoll { symbols, elements, operations, library, initialised, unneeded }))
    }

    /// The library's version text.
    pub fn version(&self) -> String {
        // SAFETY: the function returns a constant string.
        unsafe { text((self.symbols.hcoll_get_version)()) }
    }

    /// Claims the library for one process, with `world` as the group of its job `job`. The
    /// [initialisation](Hcoll::initialise) is later.
    pub fn claim(&self, world: HcollMembers, job: u32) -> Result<HcollGroup, HcollError> {
        let group = runtime().claim(world, job)?;
        // SAFETY: the library is never unloaded, and no process has claimed it before this one.
        unsafe { callbacks::fill(self.symbols.hcoll_rte_functions) };
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
            status => Err(failed(call, status)),
        };
        let mut opts: *mut InitOpts = null_mut();
        // SAFETY: `opts` is writable.
        check("hcoll_read_init_opts", unsafe { (symbols.hcoll_read_init_opts)(&mut opts) })?;
        if opts.is_null() {
            return Err(failed("hcoll_read_init_opts", HCOLL_SUCCESS));
        }
        // SAFETY: the options come from the library, and are freed once. Contexts are created by
        // another thread than collectives, so the library needs thread support.
        unsafe {
            (*opts).base_tag = 0;
            (*opts).max_tag = MAX_TAG;
            (*opts).enable_thread_support = 1;
            let status = (symbols.hcoll_init_with_opts)(&mut opts);
            let needs_hooks = !opts.is_null() && (*opts).mem_hook_needed != 0;
            if !opts.is_null() {
                (symbols.hcoll_free_init_opts)(opts);
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
        if let Some(progress) = unsafe { *self.symbols.hcoll_progress_fn } {
            // SAFETY: the library is initialised, and this thread has the turn. A failure is
            // recorded in the group.
            unsafe { progress() };
        }
        let unneeded =
            std::mem::take(&mut *self.unneeded.lock().unwrap_or_else(PoisonError::into_inner));
        for (Freeable(context), group) in unneeded {
            let group_handle = std::ptr::without_provenance_mut(group.number());
            // SAFETY: the context has no collectives in progress, and is not used any more. Its
            // status is of no use.
            unsafe { (self.symbols.hcoll_context_free)(context, group_handle) };
        }
    }

    /// Ends the use of the library in this process.
    pub fn finalize(&self, turn: HcollTurn) {
        if self.is_ready() {
            self.progress(&turn);
            // SAFETY: the library is initialised, and is not used any more: the turn is never
            // released.
            unsafe { (self.symbols.hcoll_finalize)() };
        }
        std::mem::forget(turn);
    }

    /// The library's collective functions, which it sets during its initialisation.
    pub(crate) fn collectives(&self) -> Collectives {
        // SAFETY: the library changes the variable only during its initialisation.
        unsafe { *self.symbols.hcoll_collectives }
    }
}
