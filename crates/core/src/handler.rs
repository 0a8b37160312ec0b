//! Error handlers of objects (MPI-5.0 section 9.3), as handles that the C interface carries out.

use oxmpi_abi::constants as abi;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An error handler (MPI_Errhandler).
#[derive(Clone, Debug)]
pub struct ErrorHandler {
    pub handle: usize,
    /// Frees the handler when its last copy is dropped.
    #[expect(dead_code, reason = "only its drop has an effect")]
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl ErrorHandler {
    /// A predefined handler.
    pub const fn predefined(handle: usize) -> ErrorHandler {
        ErrorHandler { handle, keep: None }
    }

    /// A handler of the program, which is valid while `keep` lives.
    pub fn made(handle: usize, keep: Arc<dyn Any + Send + Sync>) -> ErrorHandler {
        ErrorHandler { handle, keep: Some(keep) }
    }
}

/// The current error handler of an object. Requests of a communicator keep the cell after the
/// communicator is freed.
#[derive(Debug)]
pub struct HandlerCell {
    current: Mutex<ErrorHandler>,
    object: AtomicUsize,
    notes: Mutex<ErrorTexts>,
}

/// The texts of the last failed operations of an object. Its requests have no room for texts.
#[derive(Debug)]
struct ErrorTexts {
    texts: VecDeque<String>,
    first: u32,
}

/// The number of kept texts. Older operations report only their error class.
const NOTES: usize = 64;

impl HandlerCell {
    /// A cell with `handler`; the object has no handle yet.
    pub const fn new(handler: ErrorHandler) -> HandlerCell {
        let notes = Mutex::new(ErrorTexts { texts: VecDeque::new(), first: 0 });
        HandlerCell {
            current: Mutex::new(handler),
            object: AtomicUsize::new(abi::MPI_COMM_NULL),
            notes,
        }
    }

    /// The current handler.
    pub fn get(&self) -> ErrorHandler {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the handler. The old handler is dropped after the lock is released, since its drop
    /// may call into the program.
    pub fn set(&self, handler: ErrorHandler) {
        let before = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, handler)
        };
        drop(before);
    }

    /// The handle of the object, or MPI_COMM_NULL.
    pub fn object(&self) -> usize {
        self.object.load(Ordering::Relaxed)
    }

    /// Stores the text of a failed operation, and returns the number of the text. A text that
    /// equals the last one is not stored again.
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

    /// The text with this number, unless newer texts have replaced it.
    pub fn noted(&self, number: u32) -> Option<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.texts.get(number.wrapping_sub(notes.first) as usize).cloned()
    }

    /// Sets the handle of the object.
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
