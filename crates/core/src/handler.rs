//! The error handler that an object has (MPI-5.0 section 9.3).
//!
//! What a handler does is decided by the C interface. Here it is a number, and something that keeps what the number names
//! alive for as long as an object has it.

use oxmpi_abi::constants as abi;
use std::any::Any;
use std::collections::VecDeque;
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
    notes: Mutex<Notes>,
}

/// What is known of the last failed operations of an object whose requests have no place for it.
#[derive(Debug)]
struct Notes {
    texts: VecDeque<String>,
    /// The number of the first of them.
    first: u32,
}

/// So many are kept; of older ones only the class is told.
const NOTES: usize = 64;

impl HandlerCell {
    /// A place for the handler of an object that has no handle yet.
    pub const fn new(handler: ErrorHandler) -> HandlerCell {
        let notes = Mutex::new(Notes { texts: VecDeque::new(), first: 0 });
        HandlerCell { current: Mutex::new(handler), object: AtomicUsize::new(abi::MPI_COMM_NULL), notes }
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

    /// Notes what is known of a failed operation. Returns the number by which it can be asked for; equal texts that follow each
    /// other have one.
    pub fn note(&self, text: &str) -> u32 {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.texts.back().is_none_or(|last| last != text) {
            if notes.texts.len() == NOTES {
                notes.texts.pop_front();
                notes.first = notes.first.wrapping_add(1);
            }
            notes.texts.push_back(text.to_owned());
        }
        notes.first.wrapping_add(notes.texts.len() as u32 - 1)
    }

    /// What was noted under a number, if it is kept still.
    pub fn noted(&self, number: u32) -> Option<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.texts.get(number.wrapping_sub(notes.first) as usize).cloned()
    }

    /// Says which handle the object has.
    pub fn set_object(&self, handle: usize) {
        self.object.store(handle, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_notes_are_kept() {
        let cell = HandlerCell::new(ErrorHandler::predefined(abi::MPI_ERRORS_RETURN));
        let first = cell.note("first");
        assert_eq!((cell.note("first"), cell.noted(first).as_deref()), (first, Some("first")));
        let numbers: Vec<u32> = (0..NOTES).map(|n| cell.note(&n.to_string())).collect();
        assert_eq!(cell.noted(first), None);
        for (n, number) in numbers.into_iter().enumerate() {
            assert_eq!(cell.noted(number), Some(n.to_string()));
        }
        assert_eq!(cell.noted(first + 2 * NOTES as u32), None);
    }
}
