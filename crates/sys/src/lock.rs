//! The lane lock: it costs almost nothing while the process is single-threaded.
//!
//! Until [`LaneLock::set_threaded`] a lock belongs to the thread that takes it first (its *home*).
//! Taking it is then a comparison, a predictable branch and a plain store. Another thread is
//! refused. A thread that already holds the lock (in a callback) is refused in any case.
//!
//! Rules
//! 1. `home` is 0, the token of the home thread, or `THREADED`. It changes once from 0 to a token
//!    (compare-exchange) and once from a token to `THREADED`, by the home thread while the lock is
//!    free.
//! 2. While `home` is a token, `open` is that token if the lock is free and 0 if it is held; only
//!    the home thread stores these. Otherwise `open` is 0. When `home` is `THREADED` the lock is
//!    `mutex`, and `holder` is 0 or the token of the thread that holds it, which alone stores it.
//! 3. A token is the address of a thread's control block: not 0, not `THREADED`, and no two living
//!    threads share one.

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use std::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

/// Differs from every token, as control blocks are aligned.
const THREADED: usize = 1;

/// A mutex that is not locked in a single-threaded process.
pub struct LaneLock<T> {
    home: AtomicUsize,
    open: AtomicUsize,
    holder: AtomicUsize,
    mutex: Mutex<()>,
    value: UnsafeCell<T>,
    #[cfg(loom)]
    tracked: crate::sync::UnsafeCell<()>,
}

// SAFETY: the lock gives the value to one thread at a time (rules 1 and 2), as a mutex does.
unsafe impl<T: Send> Sync for LaneLock<T> {}

/// The reason why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    #[error(
        "this thread is inside the library already: a handler of a signal that came meanwhile, or a callback, has called a function that it may not call"
    )]
    Reentered,
    #[error(
        "a second thread calls the library, which was initialised for one thread: ask for MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED with MPI_Init_thread"
    )]
    OtherThread,
}

impl LockError {
    pub const ALL: [LockError; 2] = [LockError::Reentered, LockError::OtherThread];
}

impl<T> LaneLock<T> {
    /// A lock whose home is the thread that takes it first.
    pub fn new(value: T) -> LaneLock<T> {
        LaneLock {
            home: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            holder: AtomicUsize::new(0),
            mutex: Mutex::new(()),
            value: UnsafeCell::new(value),
            #[cfg(loom)]
            tracked: crate::sync::UnsafeCell::new(()),
        }
    }

    /// Takes the lock. Panics with the text of the [`LockError`].
    #[inline]
    pub fn lock(&self) -> LaneGuard<'_, T> {
        match self.try_enter() {
            Ok(guard) => guard,
            Err(error) => refuse(error),
        }
    }

    /// Takes the lock; waits for other threads if the process has any.
    #[inline]
    pub fn try_enter(&self) -> Result<LaneGuard<'_, T>, LockError> {
        let me = token();
        if self.open.load(Ordering::Relaxed) == me {
            return Ok(self.enter_home(me));
        }
        self.enter_slowly(me)
    }

    /// Takes the lock on the fast path: this is the home thread of a single-threaded process, and
    /// does not hold the lock. `None`: use [`LaneLock::lock`].
    #[inline(always)]
    pub fn home(&self) -> Option<HomeGuard<'_, T>> {
        let me = token();
        if self.open.load(Ordering::Relaxed) != me {
            return None;
        }
        self.open.store(0, Ordering::Relaxed);
        Some(HomeGuard { lock: self, me, _here: PhantomData })
    }

    /// Allows any thread to take the lock from now on. Call it before a second thread takes the
    /// lock.
    pub fn set_threaded(&self) -> Result<(), LockError> {
        let guard = self.try_enter()?;
        if guard.held.is_none() {
            self.touch();
            // `open` stays 0 (rule 2).
            std::mem::forget(guard);
            // Release: a thread that sees THREADED also sees the home thread's writes to the value.
            self.home.store(THREADED, Ordering::Release);
        }
        Ok(())
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
            Ok(_) => Ok(self.enter_home(me)),
            Err(THREADED) => {
                // Only this thread stores its own token.
                if self.holder.load(Ordering::Relaxed) == me {
                    return Err(LockError::Reentered);
                }
                let held = self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                self.holder.store(me, Ordering::Relaxed);
                self.touch();
                Ok(LaneGuard { lock: self, me, held: Some(held), _here: PhantomData })
            }
            // The home thread, while `open` is 0.
            Err(home) if home == me => Err(LockError::Reentered),
            Err(_) => Err(LockError::OtherThread),
        }
    }

    /// Tells loom that this thread owns the value now. Does nothing without loom.
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
    me: usize,
    held: Option<MutexGuard<'a, ()>>,
    /// Makes the guard `!Send`, so that a `T` that is not `Sync` stays in its thread.
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
        // SAFETY: this guard is the only one (rules 1 and 2).
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for LaneGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.touch();
        match self.held {
            None => self.lock.open.store(self.me, Ordering::Relaxed),
            // Cleared before the mutex is released, which happens after this function.
            Some(_) => self.lock.holder.store(0, Ordering::Relaxed),
        }
    }
}

/// The value, while the home thread holds the lock ([`LaneLock::home`]).
pub struct HomeGuard<'a, T> {
    lock: &'a LaneLock<T>,
    me: usize,
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
        // SAFETY: this guard is the only one (rules 1 and 2).
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

/// The calling thread's token (rule 3): one load, where a `thread_local!` would be a call.
#[inline(always)]
fn token() -> usize {
    let token: usize;
    #[cfg(all(not(loom), target_os = "linux", target_arch = "x86_64"))]
    // SAFETY: the ABI of Linux on x86-64 stores the control block's address at its offset 0.
    unsafe {
        std::arch::asm!("mov {0}, fs:[0]", out(reg) token, options(nostack, preserves_flags, readonly, pure));
    }
    #[cfg(all(not(loom), target_os = "linux", target_arch = "aarch64"))]
    // SAFETY: reads the thread pointer register.
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
    // Loom's threads share a control block. A thread-local is created at its first use, so its
    // address may be that of a thread that has ended (rule 3). These numbers are used once.
    #[cfg(loom)]
    {
        static NEXT: std::sync::atomic::AtomicUsize =
            std::sync::atomic::AtomicUsize::new(THREADED + 1);
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
    fn a_second_thread_is_refused_until_threads_are_requested() {
        let lock = Arc::new(LaneLock::new(0));
        *lock.lock() += 1;
        let other = lock.clone();
        std::thread::spawn(move || {
            assert_eq!(other.try_enter().unwrap_err(), LockError::OtherThread)
        })
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
}
