//! A look-up that counts no reference in a single-threaded process, for a call that frees nothing.

use super::{BadHandle, COUNT, Handle, Shared, Table, TableSlot, generation_of, no_longer};
use std::ops::Deref;

/// A reference to an object for such a call; borrows the table.
pub struct Glance<'a, T> {
    slot: &'a TableSlot<T>,
    /// The table and the index of the reference, which is counted if there are threads.
    counted: Option<(&'a Shared<T>, u32)>,
}

impl<T> Table<T> {
    /// The object, for a call that frees nothing.
    ///
    /// # Safety
    /// Until the result is dropped this thread frees no object of the table, drops no other
    /// reference to one, and calls no function of the program, which could do so.
    #[inline(always)]
    pub unsafe fn glance(&self, handle: Handle) -> Result<Glance<'_, T>, BadHandle> {
        let shared = &*self.shared;
        if shared.threaded() {
            let (index, slot) = shared.acquire(handle)?;
            return Ok(Glance { slot, counted: Some((shared, index)) });
        }
        let (_, slot) = shared.find(handle)?;
        // This thread alone changes the word, and does not meanwhile.
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
        // SAFETY: a count keeps the value: of this look-up, or one that the caller keeps.
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
