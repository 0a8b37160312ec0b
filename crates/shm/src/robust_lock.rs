//! A robust lock: a word in shared memory that names its owner, so that another process can take it
//! when the owner has died.
//!
//! Rules
//! 1. The word is 0 while the lock is free, else one more than the number of its owner.
//! 2. A process acquires the lock by a compare-exchange of 0 for its own word (acquire), and
//!    releases it by a store of 0 (release).
//! 3. A thread that finds its own process's number waits like any other process.
//! 4. If the owner has died, a waiter replaces the dead owner's word by its own with a
//!    compare-exchange (acquire). One compare-exchange succeeds and owns the lock.
//! 5. After that the guarded data may be half changed, and the next owner must be able to continue.
//! 6. No process waits for anything else while it holds the lock, so a living owner releases it as
//!    soon as it runs. A waiter spins, then yields, and seldom queries whether the owner has died.

use oxmpi_sys::sync::{AtomicU64, Ordering};

/// The held lock; dropping it releases the lock.
#[derive(Debug)]
pub struct RobustGuard<'a>(&'a AtomicU64);

impl<'a> RobustGuard<'a> {
    /// Acquires the lock for the process with the number `own`. `has_died` says whether a process
    /// has certainly ended; it must not need this lock.
    #[inline]
    pub fn acquire(
        word: &'a AtomicU64,
        own: u32,
        has_died: impl FnMut(u32) -> bool,
    ) -> RobustGuard<'a> {
        let mine = u64::from(own) + 1;
        if word.compare_exchange(FREE, mine, Ordering::Acquire, Ordering::Relaxed).is_err() {
            acquire_contended(word, mine, has_died);
        }
        RobustGuard(word)
    }
}

impl Drop for RobustGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
    }
}

#[cold]
fn acquire_contended(word: &AtomicU64, mine: u64, mut has_died: impl FnMut(u32) -> bool) {
    let mut spins = 0u32;
    loop {
        let owner = word.load(Ordering::Relaxed);
        let exchange =
            || word.compare_exchange(owner, mine, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if owner == FREE {
            if exchange() {
                return;
            }
            continue;
        }
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(ASK_EVERY)
            && owner != mine
            && has_died((owner - 1) as u32)
            && exchange()
        {
            return;
        }
        pause(spins);
    }
}

#[cfg(not(loom))]
fn pause(spins: u32) {
    if spins < YIELD_AFTER { std::hint::spin_loop() } else { std::thread::yield_now() }
}

#[cfg(loom)]
fn pause(_: u32) {
    loom::thread::yield_now();
}

const FREE: u64 = 0;

/// Spins before the first yield: the owner may need the processor.
#[cfg(not(loom))]
const YIELD_AFTER: u32 = 64;

/// Spins between two queries whether the owner has died.
const ASK_EVERY: u32 = if cfg!(loom) { 1 } else { 4096 };

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_dead_owner_is_had_by_others_one_at_a_time() {
        let word = AtomicU64::new(0);
        std::mem::forget(RobustGuard::acquire(&word, 7, |_| unreachable!("nobody has it")));
        let mut count = 0u64;
        let shared = &raw mut count as usize;
        std::thread::scope(|scope| {
            for own in 0..4 {
                let word = &word;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let held = RobustGuard::acquire(word, own, |owner| owner == 7);
                        // SAFETY: the lock is held, and `count` lives longer than the threads.
                        unsafe { *(shared as *mut u64) += 1 };
                        drop(held);
                    }
                });
            }
        });
        assert_eq!((count, word.into_inner()), (4000, 0));
    }
}
