//! Parts that the libraries on top of `libmpi_abi.so.1` share: that of Fortran, and those for
//! programs of other ABIs. All of them pass handles of other types than the standard ABI.
//!
//! A handle of the standard ABI is a `usize` here.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The start value of a handle that a function may store. No handle has this value.
pub const UNSET: usize = usize::MAX;

/// The integers that count something.
pub trait Whole: Copy {
    /// The same number.
    fn whole(self) -> i64;
}

impl Whole for c_int {
    fn whole(self) -> i64 {
        self.into()
    }
}

impl Whole for i64 {
    fn whole(self) -> i64 {
        self
    }
}

impl Whole for isize {
    fn whole(self) -> i64 {
        self as i64
    }
}

/// A guard in the frame of every function that a program calls. Its drop runs only while the
/// function unwinds: an exception of the program passes, but a panic of a library of ours must not
/// reach the program, which might catch it.
#[derive(Debug)]
pub struct EndsPanics;

impl Drop for EndsPanics {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The panic hook has printed the message.
            std::process::abort();
        }
    }
}

/// Moves the state of a callback to the heap. [`free`] frees it.
pub fn boxed<T>(state: T) -> *mut c_void {
    Box::into_raw(Box::new(state)).cast()
}

/// The destructor of a state.
/// # Safety
/// [`boxed`] has returned the address for a state of this type, and nobody uses it any more.
pub unsafe extern "C-unwind" fn free<T>(state: *mut c_void) {
    // SAFETY: by the contract of this function.
    drop(unsafe { Box::from_raw(state.cast::<T>()) });
}

/// Room for a C string that a function stores.
#[derive(Debug)]
pub struct Room(Vec<u8>);

impl Room {
    /// Zero bytes, at least one.
    pub fn new(bytes: usize) -> Room {
        Room(vec![0; bytes.max(1)])
    }

    /// The address of the first byte.
    pub fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    fn text(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&[])
    }

    /// Whether the string is this one.
    pub fn is(&self, text: &str) -> bool {
        self.text() == text.as_bytes()
    }

    /// Copies the string to a CHARACTER variable of Fortran, and fills it with blanks.
    /// # Safety
    /// `to` must have room for `len` bytes.
    pub unsafe fn give(&self, to: *mut c_char, len: usize) {
        let copied = self.text().len().min(len);
        // SAFETY: by the contract of this function.
        unsafe {
            ptr::copy_nonoverlapping(self.text().as_ptr(), to.cast(), copied);
            ptr::write_bytes(to.add(copied), b' ', len - copied);
        }
    }

    /// Copies the string with its closing zero to a variable of C, as much as it takes.
    /// # Safety
    /// `to` must have room for `size` bytes, at least one.
    pub unsafe fn give_closed(&self, to: *mut c_char, size: usize) {
        let copied = self.text().len().min(size - 1);
        // SAFETY: by the contract of this function.
        unsafe {
            ptr::copy_nonoverlapping(self.text().as_ptr(), to.cast(), copied);
            *to.add(copied) = 0;
        }
    }
}

/// An array of handles, which needs no allocation if it is short.
#[derive(Debug)]
pub struct Handles {
    short: [usize; SHORT],
    long: Vec<usize>,
    len: usize,
}

const SHORT: usize = 32;

impl Handles {
    /// `count` handles, of which the function gives each. A negative count is none.
    pub fn new(count: impl Whole, handle: impl Fn(usize) -> usize) -> Handles {
        let len = usize::try_from(count.whole()).unwrap_or(0);
        let mut handles = Handles { short: [0; SHORT], long: Vec::new(), len };
        if len > SHORT {
            handles.long.extend((0..len).map(handle));
        } else {
            handles.short.iter_mut().take(len).enumerate().for_each(|(at, to)| *to = handle(at));
        }
        handles
    }

    /// The handles.
    pub fn all(&self) -> &[usize] {
        if self.len > SHORT { &self.long } else { self.short.get(..self.len).unwrap_or(&[]) }
    }

    /// The address for a function that reads the handles.
    pub fn as_ptr(&self) -> *const usize {
        self.all().as_ptr()
    }

    /// The address for a function that changes the handles.
    pub fn as_mut_ptr(&mut self) -> *mut usize {
        if self.len > SHORT { self.long.as_mut_ptr() } else { self.short.as_mut_ptr() }
    }
}

/// Handles that the library stores when an operation completes (MPI_Comm_idup). The library gets
/// the address of a cell, and the handle is converted to the place of the program after the call
/// that completes the operation.
///
/// `T` is the type of a handle of the program.
#[derive(Debug)]
pub struct PendingHandles<T> {
    pending: Mutex<Vec<PendingHandle>>,
    count: AtomicUsize,
    of: PhantomData<fn(T)>,
}

#[derive(Debug)]
struct PendingHandle {
    cell: Box<AtomicUsize>,
    place: usize,
}

impl<T> PendingHandles<T> {
    /// No handles.
    pub const fn new() -> PendingHandles<T> {
        let count = AtomicUsize::new(0);
        PendingHandles { pending: Mutex::new(Vec::new()), count, of: PhantomData }
    }

    fn locked(&self) -> MutexGuard<'_, Vec<PendingHandle>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a new cell for the place of the program.
    pub fn cell(&self, place: *mut T) -> *mut usize {
        let cell = Box::new(AtomicUsize::new(UNSET));
        let address = cell.as_ptr();
        let mut pending = self.locked();
        pending.push(PendingHandle { cell, place: place.expose_provenance() });
        self.count.store(pending.len(), Ordering::Relaxed);
        address
    }

    /// Removes a cell after the call that got its address has failed.
    pub fn remove(&self, cell: *const usize) {
        let mut pending = self.locked();
        pending.retain(|one| !ptr::eq(one.cell.as_ptr(), cell));
        self.count.store(pending.len(), Ordering::Relaxed);
    }

    /// Calls the function with the place and the handle of each cell that the library has stored.
    #[inline(always)]
    pub fn settle(&self, store: impl Fn(*mut T, usize)) {
        if self.count.load(Ordering::Relaxed) != 0 {
            self.settle_some(store);
        }
    }

    #[cold]
    fn settle_some(&self, store: impl Fn(*mut T, usize)) {
        let mut pending = self.locked();
        pending.retain(|one| match one.cell.load(Ordering::Acquire) {
            UNSET => true,
            handle => {
                store(ptr::with_exposed_provenance_mut(one.place), handle);
                false
            }
        });
        self.count.store(pending.len(), Ordering::Relaxed);
    }
}

impl<T> Default for PendingHandles<T> {
    fn default() -> PendingHandles<T> {
        PendingHandles::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_stored_once_it_is_there() {
        let pending = PendingHandles::new();
        let (mut one, mut other) = (-1, -1);
        let first = pending.cell(&mut one);
        let second = pending.cell(&mut other);
        let stored = Mutex::new(Vec::new());
        let settle =
            || pending.settle(|place, handle| stored.lock().unwrap().push((place, handle)));
        settle();
        assert!(stored.lock().unwrap().is_empty());
        pending.remove(first);
        pending.locked()[0].cell.store(77, Ordering::Release);
        settle();
        settle();
        assert_eq!(*stored.lock().unwrap(), [(&raw mut other, 77)]);
        assert!(!second.is_null() && pending.locked().is_empty());
    }

    #[test]
    fn short_and_long_arrays_have_their_handles() {
        for count in [-1, 0, 3, 32, 33, 100] {
            let handles = Handles::new(count, |at| at + 5);
            let expected: Vec<usize> = (5..5 + count.max(0) as usize).collect();
            assert_eq!(handles.all(), expected);
        }
    }
}
