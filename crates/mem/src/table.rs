//! User handles and their objects.
//!
//! A [`Handle`] is 64 bits: the generation of a slot (32) and its index plus 4096 (32), so no
//! handle equals one of the small constants of the ABI for predefined objects. `MPI_*_toint`
//! converts it to an [`Int`], and [`Table::from_int`] converts back. The highest bits of a
//! generation are the kind of the table's objects ([`Table::of_kind`]), so a handle names no object
//! of another kind.
//!
//! # The protocol of a slot
//!
//! Each slot has one atomic word: generation (32 bits), *user_freed* (1) and a reference count
//! (31).
//!
//! 1. Count 0 means vacant. Then only the thread that has taken the index off the free list may
//!    touch the value.
//! 2. [`insert`](Table::insert) writes the value, then stores the word with count 1 (the user's own
//!    reference) with Release.
//! 3. A reference is taken by one compare-exchange (Acquire) from a word with the generation of the
//!    handle and a count above 0. Acquire makes the value of rule 2 visible. The new count prevents
//!    rule 5.
//! 4. [`free`](Table::free) sets *user_freed* and drops the user's reference, by one
//!    compare-exchange (AcqRel, for rule 5). Other references and the handle still reach the
//!    object, as an operation in flight may need its datatype.
//! 5. The thread that takes the count to 0 (AcqRel, so it sees all changes of other threads) owns
//!    the slot. It drops the value, without a lock, stores the next generation with count 0, and
//!    puts the index on the free list.
//!
//! Slots are in chunks that double in size and never move; a look-up takes no lock. No reference
//! outlives its value: a value is dropped only at count 0, at which no reference can be taken.

mod glance;
mod int;

pub use glance::Glance;
pub use int::Int;

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A user's name for an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u64);

/// The reason why a handle names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHandle {
    #[error("the handle is null")]
    Null,
    /// No object has ever had this handle.
    #[error("it was never the handle of such an object")]
    Unknown,
    #[error("it is the handle of an object that has been freed")]
    Freed,
}

/// Lower indices are the predefined handles of the ABI.
pub const FIRST_INDEX: u32 = 4096;

impl Handle {
    /// The handle with this value.
    #[inline]
    pub const fn from_raw(raw: u64) -> Handle {
        Handle(raw)
    }

    /// The 64 bits of the handle.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    #[inline]
    const fn index(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    const fn slot(self) -> Option<u32> {
        self.index().checked_sub(FIRST_INDEX)
    }

    const fn new(slot: u32, generation: u32) -> Handle {
        Handle((generation as u64) << 32 | (slot + FIRST_INDEX) as u64)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({self})")
    }
}

/// The promise that a process uses its tables from one thread. References are then counted without
/// atomic read-modify-write. A new table is safe for threads.
#[derive(Clone, Copy, Debug)]
pub struct SingleThread(());

impl SingleThread {
    /// Makes the promise.
    ///
    /// # Safety
    /// A table with this value, and its `Ref`s and `HeldObject`s, are used by one thread at a time
    /// until its [`set_threaded`](Table::set_threaded) has returned, and each change of thread is a
    /// synchronisation.
    pub const unsafe fn promise() -> SingleThread {
        SingleThread(())
    }
}

/// The objects of one kind and their handles.
pub struct Table<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    /// The generation of a slot that was never used.
    first_generation: u32,
    threaded: AtomicBool,
    used: AtomicU32,
    chunks: [AtomicPtr<TableSlot<T>>; CHUNKS],
    vacant: Vacant,
}

/// The free list. Its lock is not taken without threads ([`SingleThread`]).
struct Vacant {
    lock: Mutex<()>,
    slots: UnsafeCell<Vec<u32>>,
}

struct TableSlot<T> {
    word: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the protocol above guards the slots: shared access while counted, which T: Sync allows;
// moving in and dropping on any thread, which T: Send allows.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

/// Slots of the first chunk. Each further chunk has as many as all earlier ones.
const FIRST_CHUNK: u32 = 32;
/// For 2^30 slots.
const CHUNKS: usize = 25;

/// Bits of a generation below the kind.
const KIND_SHIFT: u32 = 28;

const COUNT: u64 = (1 << 31) - 1;
const USER_FREED: u64 = 1 << 31;

#[inline]
const fn generation_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// After the last generation of a kind comes its first one again.
const fn next_generation(generation: u32) -> u32 {
    let next = generation.wrapping_add(1) & ((1 << KIND_SHIFT) - 1);
    generation >> KIND_SHIFT << KIND_SHIFT | if next == 0 { 1 } else { next }
}

#[inline]
const fn place(slot: u32) -> (usize, usize) {
    let n = slot + FIRST_CHUNK;
    let chunk = n.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (n - (FIRST_CHUNK << chunk)) as usize)
}

impl<T> TableSlot<T> {
    /// Takes a reference by rule 3 if the word has `generation`. The error is the word.
    #[inline]
    fn acquire(&self, generation: u32, threaded: bool) -> Result<(), u64> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if generation_of(word) != generation || word & COUNT == 0 {
                return Err(word);
            }
            if word & COUNT == COUNT {
                // 2^31 references can only be a leak; a wrapped count would free too early.
                std::process::abort();
            }
            if !threaded {
                self.word.store(word + 1, Ordering::Relaxed);
                return Ok(());
            }
            match self.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Drops the user's reference by rule 4; returns whether it was the last one.
    #[inline]
    fn give_up(&self, handle: Handle, threaded: bool) -> Result<bool, BadHandle> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if generation_of(word) != handle.generation() || word & COUNT == 0 {
                return Err(no_longer(handle, word));
            }
            if word & USER_FREED != 0 {
                return Err(BadHandle::Freed);
            }
            let freed = (word | USER_FREED) - 1;
            let last = freed & COUNT == 0;
            if !threaded {
                self.word.store(freed, Ordering::Release);
                return Ok(last);
            }
            match self.word.compare_exchange_weak(word, freed, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(last),
                Err(now) => word = now,
            }
        }
    }

    /// Drops a reference by rule 5; returns whether it was the last one.
    #[inline]
    fn release(&self, threaded: bool) -> bool {
        let before = if threaded {
            self.word.fetch_sub(1, Ordering::AcqRel)
        } else {
            let word = self.word.load(Ordering::Relaxed);
            self.word.store(word - 1, Ordering::Release);
            word
        };
        before & COUNT == 1
    }
}

impl<T> Shared<T> {
    #[inline]
    fn threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    /// Calls `act` with the free list; `act` must not call this function.
    #[inline]
    fn with_vacant<R>(&self, act: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        let lock = || self.vacant.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _guard = self.threaded().then(lock);
        // SAFETY: this thread has the list alone, by the lock or by the promise of a single thread,
        // which holds until all threads see that there are several; `act` does not call this
        // function.
        act(unsafe { &mut *self.vacant.slots.get() })
    }

    #[inline]
    fn slot(&self, slot: u32) -> Option<&TableSlot<T>> {
        if slot >= self.used.load(Ordering::Acquire) {
            return None;
        }
        let (chunk, at) = place(slot);
        let chunk = self.chunks[chunk].load(Ordering::Acquire);
        // SAFETY: the slot was used, so its chunk was published before `used` grew; `at` lies in it
        // by `place`; chunks live as long as `self`.
        Some(unsafe { &*chunk.add(at) })
    }

    #[inline]
    fn find(&self, handle: Handle) -> Result<(u32, &TableSlot<T>), BadHandle> {
        let slot = handle.slot().and_then(|slot| Some((slot, self.slot(slot)?)));
        slot.ok_or(if handle.raw() == 0 { BadHandle::Null } else { BadHandle::Unknown })
    }

    #[inline]
    fn acquire(&self, handle: Handle) -> Result<(u32, &TableSlot<T>), BadHandle> {
        let (index, slot) = self.find(handle)?;
        match slot.acquire(handle.generation(), self.threaded()) {
            Ok(()) => Ok((index, slot)),
            Err(word) => Err(no_longer(handle, word)),
        }
    }

    #[inline]
    fn release(&self, index: u32, slot: &TableSlot<T>) {
        if slot.release(self.threaded()) {
            self.vacate(index, slot);
        }
    }

    #[cold]
    fn vacate(&self, index: u32, slot: &TableSlot<T>) {
        /// Makes the slot vacant even if the value's drop panics.
        struct Vacate<'a, T>(&'a Shared<T>, u32, &'a TableSlot<T>);
        impl<T> Drop for Vacate<'_, T> {
            fn drop(&mut self) {
                let generation = generation_of(self.2.word.load(Ordering::Relaxed));
                let next = next_generation(generation);
                self.2.word.store(u64::from(next) << 32, Ordering::Release);
                self.0.with_vacant(|slots| slots.push(self.1));
            }
        }
        let _vacate = Vacate(self, index, slot);
        // SAFETY: this thread has just taken the count to 0 (rule 5), so only it reaches the value.
        unsafe { (*slot.value.get()).assume_init_drop() }
    }

    #[inline]
    fn take_vacant(&self) -> (u32, &TableSlot<T>) {
        let index = self.with_vacant(|slots| slots.pop().unwrap_or_else(|| self.add_slot()));
        match self.slot(index) {
            Some(slot) => (index, slot),
            None => unreachable!("vacant slot {index} was never used"),
        }
    }

    /// A new slot. The caller owns the free list.
    #[cold]
    fn add_slot(&self) -> u32 {
        let index = self.used.load(Ordering::Relaxed);
        let (chunk, _) = place(index);
        assert!(chunk < CHUNKS, "more than {index} objects of one kind");
        if self.chunks[chunk].load(Ordering::Relaxed).is_null() {
            let slots: Box<[TableSlot<T>]> = (0..FIRST_CHUNK << chunk)
                .map(|_| TableSlot {
                    word: AtomicU64::new(u64::from(self.first_generation) << 32),
                    value: UnsafeCell::new(MaybeUninit::uninit()),
                })
                .collect();
            self.chunks[chunk].store(Box::into_raw(slots).cast(), Ordering::Release);
        }
        self.used.store(index + 1, Ordering::Release);
        index
    }
}

/// The error of a slot with this word, from which no reference could be taken.
#[cold]
fn no_longer(handle: Handle, word: u64) -> BadHandle {
    let current = generation_of(word);
    let was = handle.generation();
    // The word of a vacant slot has the next generation.
    let is_of_kind = was >> KIND_SHIFT == current >> KIND_SHIFT;
    if is_of_kind && was != 0 && was < current { BadHandle::Freed } else { BadHandle::Unknown }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for (chunk, start) in self.chunks.iter_mut().enumerate() {
            let start = *start.get_mut();
            if start.is_null() {
                continue;
            }
            let len = (FIRST_CHUNK << chunk) as usize;
            // SAFETY: this chunk came from a boxed slice of this length, and has no references.
            let mut slots =
                unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, len)) };
            for slot in &mut slots {
                if *slot.word.get_mut() & COUNT != 0 {
                    // SAFETY: the count is not 0, so the value exists (rule 2).
                    unsafe { slot.value.get_mut().assume_init_drop() }
                }
            }
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table::new()
    }
}

impl<T> Table<T> {
    /// An empty table, safe for threads.
    pub fn new() -> Table<T> {
        Table::of_kind(0)
    }

    /// An empty table for objects of a kind, from 0 to 15. No handle of the table is one of a table
    /// of another kind. The kind is also in the low bits of the first generations, since an [`Int`]
    /// has only these: it can name an object of another kind only after many uses of a slot.
    pub fn of_kind(kind: u8) -> Table<T> {
        let kind = u32::from(kind & 15);
        Table {
            shared: Arc::new(Shared {
                first_generation: kind << KIND_SHIFT | kind << 8 | 1,
                threaded: AtomicBool::new(true),
                used: AtomicU32::new(0),
                chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
                vacant: Vacant { lock: Mutex::new(()), slots: UnsafeCell::new(Vec::new()) },
            }),
        }
    }

    /// Counts references without atomic read-modify-writes from now on.
    pub fn set_single_threaded(&self, _promise: SingleThread) {
        self.shared.threaded.store(false, Ordering::Relaxed);
    }

    /// Counts references atomically from now on.
    pub fn set_threaded(&self) {
        self.shared.threaded.store(true, Ordering::Relaxed);
    }

    /// Adds an object and returns its handle. Panics if there are 2^30 objects already.
    pub fn insert(&self, value: T) -> Handle {
        let (index, slot) = self.shared.take_vacant();
        let generation = generation_of(slot.word.load(Ordering::Relaxed));
        // SAFETY: the slot is vacant and owned by this thread (rule 1).
        unsafe { (*slot.value.get()).write(value) };
        slot.word.store(u64::from(generation) << 32 | 1, Ordering::Release);
        Handle::new(index, generation)
    }

    /// The object, borrowed from the table.
    #[inline]
    pub fn get(&self, handle: Handle) -> Result<Ref<'_, T>, BadHandle> {
        let (index, slot) = self.shared.acquire(handle)?;
        Ok(Ref { shared: &self.shared, slot, index })
    }

    /// The object, for any length of time.
    pub fn hold(&self, handle: Handle) -> Result<HeldObject<T>, BadHandle> {
        let (index, slot) = self.shared.acquire(handle)?;
        Ok(HeldObject { slot: NonNull::from(slot), index, shared: Arc::clone(&self.shared) })
    }

    /// Drops the user's reference. The object is dropped with its last reference; until then its
    /// handle is valid. Fails if the handle names no object or is freed already.
    pub fn free(&self, handle: Handle) -> Result<(), BadHandle> {
        let (index, slot) = self.shared.find(handle)?;
        if slot.give_up(handle, self.shared.threaded())? {
            self.shared.vacate(index, slot);
        }
        Ok(())
    }

    /// Whether the user has freed the object while other references exist.
    pub fn is_user_freed(&self, handle: Handle) -> Result<bool, BadHandle> {
        Ok(self.get(handle)?.slot.word.load(Ordering::Relaxed) & USER_FREED != 0)
    }

    /// The handle of an integer from [`Handle::to_int`], whose object may have been dropped.
    pub fn from_int(&self, int: u32) -> Handle {
        let int = Int::new(int);
        let slot = int.index.checked_sub(FIRST_INDEX).and_then(|slot| self.shared.slot(slot));
        int.handle(slot.map_or(0, |slot| generation_of(slot.word.load(Ordering::Acquire))))
    }

    /// The handles of all objects that exist and are not freed, in the order of their slots.
    pub fn handles(&self) -> Vec<Handle> {
        let used = self.shared.used.load(Ordering::Acquire);
        let live = |index| {
            let word = self.shared.slot(index)?.word.load(Ordering::Acquire);
            let live = word & COUNT != 0 && word & USER_FREED == 0;
            live.then(|| Handle::new(index, generation_of(word)))
        };
        (0..used).filter_map(live).collect()
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handles()).finish()
    }
}

/// A short reference to an object; borrows the table.
pub struct Ref<'a, T> {
    shared: &'a Shared<T>,
    slot: &'a TableSlot<T>,
    index: u32,
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this Ref's count keeps the value in its slot (rules 3 and 5).
        unsafe { (*self.slot.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for Ref<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.shared.release(self.index, self.slot);
    }
}

/// A reference to an object that may outlive the table.
pub struct HeldObject<T> {
    slot: NonNull<TableSlot<T>>,
    index: u32,
    shared: Arc<Shared<T>>,
}

// SAFETY: a counted reference to a T and to the table; both may be shared and sent if T may.
unsafe impl<T: Send + Sync> Send for HeldObject<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send + Sync> Sync for HeldObject<T> {}

impl<T> HeldObject<T> {
    #[inline]
    fn slot(&self) -> &TableSlot<T> {
        // SAFETY: chunks live as long as `shared`, which this value keeps.
        unsafe { self.slot.as_ref() }
    }

    /// The handle of the object.
    pub fn handle(&self) -> Handle {
        Handle::new(self.index, generation_of(self.slot().word.load(Ordering::Relaxed)))
    }

    /// Whether the user has freed the object.
    pub fn is_user_freed(&self) -> bool {
        self.slot().word.load(Ordering::Relaxed) & USER_FREED != 0
    }
}

impl<T> Clone for HeldObject<T> {
    fn clone(&self) -> Self {
        let generation = self.handle().generation();
        if self.slot().acquire(generation, self.shared.threaded()).is_err() {
            unreachable!("the slot of a held object is vacant");
        }
        HeldObject { slot: self.slot, index: self.index, shared: Arc::clone(&self.shared) }
    }
}

impl<T> Deref for HeldObject<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this value's count keeps the object in its slot (rules 3 and 5).
        unsafe { (*self.slot().value.get()).assume_init_ref() }
    }
}

impl<T> Drop for HeldObject<T> {
    fn drop(&mut self) {
        self.shared.release(self.index, self.slot());
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for HeldObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests;
