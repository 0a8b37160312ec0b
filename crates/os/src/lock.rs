//! The lane lock: it costs almost nothing while the process is single-threaded.
//!
//! A program that does not ask for threads shall not pay for them. Until [`LaneLock::set_threaded`] a lock belongs to
//! the thread that takes it first (its *home*), and taking it is a comparison, a predictable branch and a plain
//! store. That this is sound does not hang on promises: another thread is recognised and refused, and so is a thread
//! that has the lock already (a callback that calls back in), with or without threads.
//!
//! Rules
//! 1. `home` is 0, the token of the home thread, or `THREADED`. It goes from 0 to a token once (compare-exchange)
//!    and from a token to `THREADED` once, by the home thread, when nobody holds the lock, or by rule 4.
//! 2. While `home` is a token, `open` is that token if the lock is free and 0 if it is held; only the home thread stores
//!    these. Otherwise it is 0 or `SHUT`. When `home` is `THREADED` the lock is `mutex`, and `holder` is 0 or the token of the
//!    thread that holds it, which alone stores it.
//! 3. A token is the address of a thread's control block: not 0, not `THREADED` or `SHUT`, and no two living threads share one.
//! 4. One other thread at a time, which has `mutex`, may ask the home thread to let others in: it changes `open` from the token
//!    to `SHUT` (compare-exchange). The home thread may have found the token there just before, and then stores over it; the
//!    other asks again. If the home thread finds `SHUT` when it comes for the lock, it stores `THREADED` to `home`. If it does
//!    not come, the other thread stores that, once it knows that the home thread has slept in the kernel since it was asked,
//!    and `open` is `SHUT` still: then the home thread is not inside, and was not about to enter.

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use std::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

/// No token: control blocks are aligned.
const THREADED: usize = 1;
/// No token either.
const SHUT: usize = 2;

/// A mutex around `T` whose locking is skipped in a single-threaded process.
pub struct LaneLock<T> {
    home: AtomicUsize,
    open: AtomicUsize,
    holder: AtomicUsize,
    mutex: Mutex<()>,
    /// The kernel's number of the home thread; 0 is none yet.
    #[cfg(not(loom))]
    home_thread: std::sync::atomic::AtomicU32,
    value: UnsafeCell<T>,
    /// Lets loom see who has the value.
    #[cfg(loom)]
    tracked: crate::sync::UnsafeCell<()>,
}

// SAFETY: the lock gives out the value to one thread at a time (rules 1 and 2), as a mutex does.
unsafe impl<T: Send> Sync for LaneLock<T> {}

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The calling thread holds it.
    #[error(
        "this thread is inside the library already: a handler of a signal that came meanwhile, or a callback, has called a function that it may not call"
    )]
    Reentered,
    /// Another thread has used it, and nobody has asked for threads.
    #[error(
        "a second thread calls the library, which was initialised for one thread: ask for MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED with MPI_Init_thread"
    )]
    OtherThread,
}

impl LockError {
    /// All.
    pub const ALL: [LockError; 2] = [LockError::Reentered, LockError::OtherThread];
}

impl<T> LaneLock<T> {
    /// A lock for one thread: the first that takes it.
    pub fn new(value: T) -> LaneLock<T> {
        LaneLock {
            home: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            holder: AtomicUsize::new(0),
            mutex: Mutex::new(()),
            #[cfg(not(loom))]
            home_thread: std::sync::atomic::AtomicU32::new(0),
            value: UnsafeCell::new(value),
            #[cfg(loom)]
            tracked: crate::sync::UnsafeCell::new(()),
        }
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// With the text of [`LockError`].
    #[inline]
    pub fn lock(&self) -> LaneGuard<'_, T> {
        match self.try_enter() {
            Ok(guard) => guard,
            Err(error) => refuse(error),
        }
    }

    /// Takes the lock; waits for other threads if there are any.
    ///
    /// # Errors
    /// See [`LockError`].
    #[inline]
    pub fn try_enter(&self) -> Result<LaneGuard<'_, T>, LockError> {
        let me = token();
        if self.open.load(Ordering::Relaxed) == me {
            return Ok(self.enter_home(me));
        }
        self.enter_slowly(me)
    }

    /// Takes the lock if that needs no thought: the process is single-threaded, this is its thread, and it does not
    /// have the lock already. Else use [`LaneLock::lock`]. Its guard knows of no mutex.
    #[inline(always)]
    pub fn home(&self) -> Option<HomeGuard<'_, T>> {
        let me = token();
        if self.open.load(Ordering::Relaxed) != me {
            return None;
        }
        self.open.store(0, Ordering::Relaxed);
        Some(HomeGuard { lock: self, me, _here: PhantomData })
    }

    /// From now on any thread may take the lock. Call it before a second thread does.
    ///
    /// # Errors
    /// As for taking the lock.
    pub fn set_threaded(&self) -> Result<(), LockError> {
        let guard = self.try_enter()?;
        if guard.held.is_none() {
            self.touch();
            // It stays shut as a home's (rule 2).
            std::mem::forget(guard);
            // Release: who sees it sees what the home thread did with the value.
            self.home.store(THREADED, Ordering::Release);
        }
        Ok(())
    }

    /// Lets any thread take the lock from now on, whichever thread asks for it: the home thread, or another one, which then
    /// waits until it is known that the home thread is outside (rule 4). What the caller has stored before, the home thread
    /// sees from then on.
    ///
    /// # Errors
    /// As for taking the lock; [`LockError::OtherThread`] if the home thread has neither come for the lock nor slept in the
    /// kernel for `patience`.
    #[cfg(not(loom))]
    pub fn let_others_in(&self, patience: std::time::Duration) -> Result<(), LockError> {
        let begin = std::time::Instant::now();
        let mut pause = std::time::Duration::from_micros(20);
        loop {
            match self.set_threaded() {
                Err(LockError::OtherThread) => (),
                settled => return settled,
            }
            {
                let _only = self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if self.ask() && crate::stillness::was_still(self.home_thread.load(Ordering::Relaxed)) {
                    self.answer_for_home();
                }
            }
            if self.home.load(Ordering::Acquire) == THREADED {
                return Ok(());
            }
            if begin.elapsed() >= patience {
                return Err(LockError::OtherThread);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(std::time::Duration::from_millis(1));
        }
    }

    /// Asks the home thread, or has asked (rule 4). `false`: the lock is held, or is for all threads by now.
    #[cfg(not(loom))]
    fn ask(&self) -> bool {
        let home = self.home.load(Ordering::Acquire);
        let asked = self.open.compare_exchange(home, SHUT, Ordering::AcqRel, Ordering::Acquire);
        home != THREADED && asked.map_or_else(|open| open == SHUT, |_| true)
    }

    /// The home thread is known to have slept since it was asked (rule 4).
    #[cfg(not(loom))]
    fn answer_for_home(&self) {
        if self.open.load(Ordering::Acquire) == SHUT {
            self.home.store(THREADED, Ordering::Release);
        }
    }

    #[inline(always)]
    fn enter_home(&self, me: usize) -> LaneGuard<'_, T> {
        self.open.store(0, Ordering::Relaxed);
        self.touch();
        LaneGuard { lock: self, me, held: None, _here: PhantomData }
    }

    #[cold]
    fn enter_slowly(&self, me: usize) -> Result<LaneGuard<'_, T>, LockError> {
        match self.home.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                #[cfg(not(loom))]
                self.home_thread.store(crate::stillness::own_thread(), Ordering::Relaxed);
                Ok(self.enter_home(me))
            }
            Err(home) if home == me && self.open.load(Ordering::Acquire) == SHUT => {
                // Rule 4: asked, and not inside.
                self.home.store(THREADED, Ordering::Release);
                self.enter_slowly(me)
            }
            Err(THREADED) => {
                // Only this thread stores its own token, so if it is there we have put it there.
                if self.holder.load(Ordering::Relaxed) == me {
                    return Err(LockError::Reentered);
                }
                let held = self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                self.holder.store(me, Ordering::Relaxed);
                self.touch();
                Ok(LaneGuard { lock: self, me, held: Some(held), _here: PhantomData })
            }
            // At home, and not open.
            Err(home) if home == me => Err(LockError::Reentered),
            Err(_) => Err(LockError::OtherThread),
        }
    }

    /// Tells loom that the value is this thread's, from the first call of a guard to the last. Nothing outside of loom.
    #[inline(always)]
    fn touch(&self) {
        #[cfg(loom)]
        self.tracked.with_mut(|_| ());
    }
}

#[cold]
fn refuse(error: LockError) -> ! {
    panic!("{error}")
}

impl<T: fmt::Debug> fmt::Debug for LaneLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneLock")
            .field("threaded", &(self.home.load(Ordering::Relaxed) == THREADED))
            .finish_non_exhaustive()
    }
}

/// The value, while the lock is held.
pub struct LaneGuard<'a, T> {
    lock: &'a LaneLock<T>,
    /// The holding thread.
    me: usize,
    /// With threads: the mutex.
    held: Option<MutexGuard<'a, ()>>,
    /// The guard stays in its thread, so that it does not lend a `T` that is not `Sync` to others.
    _here: PhantomData<*const T>,
}

impl<T> Deref for LaneGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one (rules 1 and 2).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for LaneGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for LaneGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.touch();
        match self.held {
            None => self.lock.open.store(self.me, Ordering::Relaxed),
            // Before the mutex, which is dropped after this.
            Some(_) => self.lock.holder.store(0, Ordering::Relaxed),
        }
    }
}

/// The value, while the home thread of a single-threaded process holds the lock ([`LaneLock::home`]).
pub struct HomeGuard<'a, T> {
    lock: &'a LaneLock<T>,
    /// The holding thread.
    me: usize,
    /// As in [`LaneGuard`].
    _here: PhantomData<*const T>,
}

impl<T> Deref for HomeGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one (rules 1 and 2).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for HomeGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for HomeGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.open.store(self.me, Ordering::Relaxed);
    }
}

impl<T: fmt::Debug> fmt::Debug for HomeGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for LaneGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The calling thread's token (rule 3). One load, where a `thread_local!` in a shared library would be a call.
#[inline(always)]
fn token() -> usize {
    let token: usize;
    #[cfg(all(not(loom), target_os = "linux", target_arch = "x86_64"))]
    // SAFETY: the ABI of Linux on x86-64 has the address of the thread's control block at offset 0 of the block.
    unsafe {
        std::arch::asm!("mov {0}, fs:[0]", out(reg) token, options(nostack, preserves_flags, readonly, pure));
    }
    #[cfg(all(not(loom), target_os = "linux", target_arch = "aarch64"))]
    // SAFETY: reads the thread pointer.
    unsafe {
        std::arch::asm!("mrs {0}, tpidr_el0", out(reg) token, options(nostack, nomem, preserves_flags, pure));
    }
    #[cfg(all(
        not(loom),
        not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))
    ))]
    {
        thread_local!(static BLOCK: u64 = const { 0 });
        token = BLOCK.with(|block| std::ptr::from_ref(block) as usize);
    }
    // Loom's threads share a control block, and what they have of their own begins with its first use. So its address might be that of
    // a thread that has ended meanwhile, of which the new one has heard nothing (rule 3); these numbers are used once.
    #[cfg(loom)]
    {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(SHUT + 1);
        loom::thread_local!(static NUMBER: usize = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        token = NUMBER.with(|number| *number);
    }
    token
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_callback_that_calls_back_is_refused() {
        let lock = LaneLock::new(1);
        assert!(lock.home().is_none(), "nobody has taken it yet: the home is not known");
        let guard = lock.lock();
        assert_eq!(lock.try_enter().unwrap_err(), LockError::Reentered);
        assert!(lock.home().is_none());
        assert_eq!(lock.set_threaded().unwrap_err(), LockError::Reentered);
        drop(guard);
        let home = lock.home().unwrap();
        assert_eq!(*home, 1);
        assert_eq!(lock.try_enter().unwrap_err(), LockError::Reentered);
        drop(home);
        lock.set_threaded().unwrap();
        lock.set_threaded().unwrap();
        let guard = lock.lock();
        assert_eq!(lock.try_enter().unwrap_err(), LockError::Reentered);
        assert_eq!(*guard, 1);
    }

    #[test]
    fn a_second_thread_is_refused_until_threads_are_asked_for() {
        let lock = Arc::new(LaneLock::new(0));
        *lock.lock() += 1;
        let other = lock.clone();
        std::thread::spawn(move || assert_eq!(other.try_enter().unwrap_err(), LockError::OtherThread))
            .join()
            .unwrap();
        let other = lock.clone();
        std::thread::spawn(move || assert!(other.home().is_none())).join().unwrap();
        lock.set_threaded().unwrap();
        assert!(lock.home().is_none(), "with threads there is no home");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || (0..10_000).for_each(|_| *lock.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*lock.lock(), 40_001);
    }

    /// The home thread goes in and out until others are let in; then both add at once.
    #[test]
    fn others_are_let_in_while_the_home_thread_goes_in_and_out() {
        for _ in 0..50 {
            let lock = Arc::new(LaneLock::new(0));
            *lock.lock() += 1;
            let other = lock.clone();
            let thread = std::thread::spawn(move || {
                other.let_others_in(PATIENCE).unwrap();
                (0..1000).for_each(|_| *other.lock() += 1);
            });
            let mut added = 1;
            while !thread.is_finished() {
                match lock.home() {
                    Some(mut home) => *home += 1,
                    None => *lock.lock() += 1,
                }
                added += 1;
            }
            thread.join().unwrap();
            assert_eq!(*lock.lock(), added + 1000);
        }
    }

    #[test]
    fn others_are_let_in_while_the_home_thread_sleeps_or_when_it_has_ended() {
        for holds in [true, false] {
            let lock = Arc::new(LaneLock::new(0));
            let other = lock.clone();
            let (tell, told) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let home = std::thread::spawn(move || {
                let mut guard = other.lock();
                *guard += 1;
                if !holds {
                    drop(guard);
                    tell.send(()).unwrap();
                    let _ = ended.recv();
                } else {
                    tell.send(()).unwrap();
                    let _ = ended.recv();
                    drop(guard);
                }
            });
            told.recv().unwrap();
            if holds {
                let brief = std::time::Duration::from_millis(5);
                assert_eq!(lock.let_others_in(brief), Err(LockError::OtherThread), "it sleeps inside");
                drop(end);
                home.join().unwrap();
                lock.let_others_in(PATIENCE).unwrap();
            } else {
                lock.let_others_in(PATIENCE).unwrap();
                assert_eq!(*lock.lock(), 1);
                drop(end);
                home.join().unwrap();
            }
            assert_eq!(*lock.lock(), 1);
        }
    }

    /// Far more than is ever needed: who waits so long has found a fault.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
}
