//! A look-up for one call that frees nothing: in a process with a single thread it counts no reference.

use super::{BadHandle, COUNT, Handle, Shared, Slot, Table, generation_of, no_longer};
use std::ops::Deref;

/// An object looked up for a call that frees nothing; borrows the table.
pub struct Glance<'a, T> {
    slot: &'a Slot<T>,
    /// Where the reference must be given up, if there are threads.
    counted: Option<(&'a Shared<T>, u32)>,
}

impl<T> Table<T> {
    /// The object, for a call that frees nothing.
    ///
    /// # Errors
    /// If the handle names none.
    ///
    /// # Safety
    /// Until the result is dropped this thread frees no object of the table, gives up no other reference to one, and calls no
    /// function of the program, which might.
    #[inline(always)]
    pub unsafe fn glance(&self, handle: Handle) -> Result<Glance<'_, T>, BadHandle> {
        let shared = &*self.shared;
        if shared.threaded() {
            let (index, slot) = shared.acquire(handle)?;
            return Ok(Glance { slot, counted: Some((shared, index)) });
        }
        let (_, slot) = shared.find(handle)?;
        // No other thread changes the word (the promise), and this one does not while the result lives.
        let word = slot.word.load(std::sync::atomic::Ordering::Relaxed);
        if generation_of(word) != handle.generation() || word & COUNT == 0 {
            return Err(no_longer(handle, word));
        }
        Ok(Glance { slot, counted: None })
    }
}

impl<T> Deref for Glance<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a count keeps the value in its slot, this look-up's own or that which its caller leaves alone.
        unsafe { (*self.slot.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for Glance<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((shared, index)) = self.counted {
            shared.release(index, self.slot);
        }
    }
}
