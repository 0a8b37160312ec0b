//! Error handlers of the program (MPI-5.0 section 9.3).
//!
//! A handler of the program has two counts: the program's references (one from `create`, one from
//! each `get`), and the objects with the handler. The handler is removed when both are zero, so the
//! program may free it while an object has it.

use crate::state::extra_state::ExtraState;
use crate::state::locked;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{CommErrhandlerFunction, CommErrhandlerFunctionX, Errhandler};
use oxmpi_core::handler::{ErrorHandler, HandlerCell};
use oxmpi_mem::table::{Handle, Table};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerKind {
    Comm,
    Win,
    File,
    Session,
}

impl HandlerKind {
    const fn name(self) -> &'static str {
        match self {
            HandlerKind::Comm => "communicators",
            HandlerKind::Win => "windows",
            HandlerKind::File => "files",
            HandlerKind::Session => "sessions",
        }
    }

    pub(crate) const fn argument(self) -> &'static str {
        match self {
            HandlerKind::Comm => "comm_errhandler_fn",
            HandlerKind::Win => "win_errhandler_fn",
            HandlerKind::File => "file_errhandler_fn",
            HandlerKind::Session => "session_errhandler_fn",
        }
    }
}

#[derive(Debug)]
pub(crate) struct UserHandler {
    kind: HandlerKind,
    function: usize,
    /// The extra argument of the function, which then has another type.
    state: Option<Arc<ExtraState>>,
    counts: Mutex<HandlerCounts>,
}

/// The function of a handler, as a value without a destructor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandlerFunction {
    address: usize,
    state: Option<*mut c_void>,
}

impl HandlerFunction {
    /// Calls the function, which may never return. Returns the code that it leaves.
    /// # Safety
    /// The object must be of the kind of the handler.
    pub(crate) unsafe fn call(self, object: usize, code: c_int) -> c_int {
        if let Some(state) = self.state {
            // SAFETY: the address is an argument of MPIX_Comm_create_errhandler_x or its like,
            // whose functions have the same type, since all handles are addresses.
            let function =
                unsafe { std::mem::transmute::<usize, CommErrhandlerFunctionX>(self.address) };
            // SAFETY: by the contract of this function; the state belongs to the function.
            unsafe { function(object, code, state) };
            return code;
        }
        // SAFETY: the address is the argument of MPI_Comm_create_errhandler or its like. The
        // functions for windows, files and sessions have the same type.
        let function =
            unsafe { std::mem::transmute::<usize, CommErrhandlerFunction>(self.address) };
        let (mut object, mut code) = (object, code);
        // SAFETY: both places live until the function returns.
        unsafe { function(&mut object, &mut code) };
        code
    }
}

#[derive(Debug)]
struct HandlerCounts {
    held: usize,
    attached: usize,
}

impl HandlerCounts {
    const fn are_zero(&self) -> bool {
        self.held == 0 && self.attached == 0
    }
}

/// The error handlers that the program has made.
pub(crate) struct Handlers(pub(crate) Table<UserHandler>);

impl Handlers {
    pub(crate) fn create(
        &self,
        kind: HandlerKind,
        function: usize,
        state: Option<Arc<ExtraState>>,
    ) -> Errhandler {
        let counts = Mutex::new(HandlerCounts { held: 1, attached: 0 });
        self.0.insert(UserHandler { kind, function, state, counts }).raw() as Errhandler
    }

    /// Changes the counts of a handler that the program may use.
    fn counted<R>(
        &self,
        handle: Errhandler,
        change: impl FnOnce(&UserHandler, &mut HandlerCounts) -> Result<R>,
    ) -> Result<R> {
        let found = self.0.get(Handle::from_raw(handle as u64));
        let handler = found.map_err(|bad| no_handler(handle, bad))?;
        let mut counts = locked(&handler.counts);
        if counts.held == 0 {
            return Err(no_handler(handle, "it has been freed"));
        }
        change(&handler, &mut counts)
    }

    /// Counts an object with the handler.
    pub(crate) fn attach(
        &'static self,
        handle: Errhandler,
        kind: HandlerKind,
    ) -> Result<ErrorHandler> {
        if is_predefined(handle)? {
            return Ok(ErrorHandler::predefined(handle));
        }
        self.counted(handle, |handler, counts| {
            if handler.kind != kind {
                let why = format!("it is for {}, not for {}", handler.kind.name(), kind.name());
                return Err(no_handler(handle, why));
            }
            counts.attached += 1;
            Ok(())
        })?;
        Ok(ErrorHandler::made(
            handle,
            Arc::new(AttachedHandler(self, Handle::from_raw(handle as u64))),
        ))
    }

    pub(crate) fn is_for(&self, handle: Errhandler, kind: HandlerKind) -> bool {
        is_predefined(handle).unwrap_or(false)
            || self.counted(handle, |handler, _| Ok(handler.kind == kind)).unwrap_or(false)
    }

    /// The handle of an object's handler, with a new reference for the program.
    pub(crate) fn refer(&self, cell: &HandlerCell) -> Errhandler {
        let handler = cell.get();
        // The object keeps the handler in the table.
        if let Ok(made) = self.0.get(Handle::from_raw(handler.handle as u64)) {
            locked(&made.counts).held += 1;
        }
        handler.handle
    }

    /// The function of a program's handler for objects of this kind.
    pub(crate) fn function_of(
        &self,
        handle: Errhandler,
        kind: HandlerKind,
    ) -> Option<HandlerFunction> {
        let handler = self.0.get(Handle::from_raw(handle as u64)).ok()?;
        let state = handler.state.as_ref().map(|state| state.pointer());
        (handler.kind == kind).then_some(HandlerFunction { address: handler.function, state })
    }

    /// Frees one reference of the program. Predefined handlers stay valid.
    pub(crate) fn free(&self, errhandler: Errhandler) -> Result<()> {
        if is_predefined(errhandler)? {
            return Ok(());
        }
        let over = self.counted(errhandler, |_, counts| {
            counts.held -= 1;
            Ok(counts.are_zero())
        })?;
        if over {
            let freed = self.0.free(Handle::from_raw(errhandler as u64));
            freed.map_err(|bad| no_handler(errhandler, bad))?;
        }
        Ok(())
    }
}

/// An object's reference to a handler.
struct AttachedHandler(&'static Handlers, Handle);

impl Drop for AttachedHandler {
    fn drop(&mut self) {
        let Handlers(errhandlers) = self.0;
        let over = errhandlers.get(self.1).is_ok_and(|handler| {
            let mut counts = locked(&handler.counts);
            counts.attached = counts.attached.saturating_sub(1);
            counts.are_zero()
        });
        if over {
            // Without references, no other thread frees the handler.
            let _ = errhandlers.free(self.1);
        }
    }
}

fn no_handler(handle: Errhandler, why: impl std::fmt::Display) -> MpiError {
    bad_handle(ValueKind::Errhandler, handle as u64, why)
}

fn is_predefined(handle: Errhandler) -> Result<bool> {
    match handle {
        abi::MPI_ERRORS_ARE_FATAL | abi::MPI_ERRORS_ABORT | abi::MPI_ERRORS_RETURN => Ok(true),
        abi::MPI_ERRHANDLER_NULL => {
            Err(MpiError::new(abi::MPI_ERR_ERRHANDLER, "errhandler is MPI_ERRHANDLER_NULL"))
        }
        _ => Ok(false),
    }
}
