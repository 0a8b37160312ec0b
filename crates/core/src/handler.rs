//! The error handler that an object has (MPI-5.0 section 9.3).
//!
//! What a handler does is decided by the C interface. Here it is a number, and something that keeps what the number names
//! alive for as long as an object has it.

use oxmpi_abi::constants as abi;
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An error handler.
#[derive(Clone, Debug)]
pub struct ErrorHandler {
    /// Its handle, as the C interface knows it.
    pub handle: usize,
    /// Given up when no object has the handler any more.
    #[expect(dead_code, reason = "what counts is that it is dropped")]
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl ErrorHandler {
    /// One of the standard's, which stays.
    pub const fn predefined(handle: usize) -> ErrorHandler {
        ErrorHandler { handle, keep: None }
    }

    /// One of the program's, which `keep` keeps.
    pub fn made(handle: usize, keep: Arc<dyn Any + Send + Sync>) -> ErrorHandler {
        ErrorHandler { handle, keep: Some(keep) }
    }
}

/// The place of an object's error handler. Requests of a communicator lead here also when the communicator is gone.
#[derive(Debug)]
pub struct HandlerCell {
    current: Mutex<ErrorHandler>,
    /// The handle of the object, MPI_COMM_NULL if it has none.
    object: AtomicUsize,
}

impl HandlerCell {
    /// A place for the handler of an object that has no handle yet.
    pub const fn new(handler: ErrorHandler) -> HandlerCell {
        HandlerCell { current: Mutex::new(handler), object: AtomicUsize::new(abi::MPI_COMM_NULL) }
    }

    /// The handler.
    pub fn get(&self) -> ErrorHandler {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another handler into the place. What kept the one before is given up with nothing locked.
    pub fn set(&self, handler: ErrorHandler) {
        let before = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, handler)
        };
        drop(before);
    }

    /// The handle of the object that has the handler; MPI_COMM_NULL if it has none.
    pub fn object(&self) -> usize {
        self.object.load(Ordering::Relaxed)
    }

    /// Says which handle the object has.
    pub fn set_object(&self, handle: usize) {
        self.object.store(handle, Ordering::Relaxed);
    }
}
