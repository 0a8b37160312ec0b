//! The lane lock under the model checker. Tests are named after the rules they check.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p oxmpi-sys --release --test loom --target-dir target/loom`
#![cfg(loom)]

use loom::{sync::Arc, thread};
use oxmpi_sys::lock::{LaneLock, LockError};

/// Checks a model with at most `preemptions` preemptions, or fewer if LOOM_MAX_PREEMPTIONS says so.
fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    let most = model.preemption_bound.unwrap_or(preemptions);
    model.preemption_bound = Some(preemptions.min(most));
    model.check(test);
}

#[test]
fn lock_rule_1_one_of_two_threads_is_at_home() {
    check(3, || {
        let lock = Arc::new(LaneLock::new(0));
        let visit = |lock: &LaneLock<u32>| match lock.try_enter() {
            Ok(mut value) => {
                *value += 1;
                1
            }
            Err(error) => {
                assert_eq!(error, LockError::OtherThread);
                0
            }
        };
        let other = lock.clone();
        let thread = thread::spawn(move || visit(&other) + visit(&other));
        let mine = visit(&lock) + visit(&lock);
        let theirs = thread.join().unwrap();
        assert!((mine, theirs) == (2, 0) || (mine, theirs) == (0, 2), "{mine} and {theirs} visits");
    });
}

fn add_one(lock: &LaneLock<u32>) {
    loop {
        match lock.try_enter() {
            Ok(mut value) => {
                *value += 1;
                return;
            }
            Err(error) => assert_eq!(error, LockError::OtherThread),
        }
        thread::yield_now();
    }
}

#[test]
fn lock_rules_1_and_2_a_second_thread_is_refused_until_set_threaded() {
    check(3, || {
        let lock = Arc::new(LaneLock::new(0));
        *lock.lock() = 10;
        let other = lock.clone();
        let thread = thread::spawn(move || add_one(&other));
        // While the other thread waits for the lock. It must read 20, and this thread must read its
        // increment.
        {
            let mut value = lock.lock();
            assert_eq!(*value, 10);
            *value = 20;
        }
        lock.set_threaded().unwrap();
        add_one(&lock);
        thread.join().unwrap();
        assert_eq!(*lock.lock(), 22);
    });
}

#[test]
fn lock_rule_2_threads_exclude_each_other() {
    check(2, || {
        let lock = Arc::new(LaneLock::new(0));
        lock.set_threaded().unwrap();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let mut value = lock.lock();
                        // A callback is refused while the other thread waits for the lock.
                        assert_eq!(lock.try_enter().unwrap_err(), LockError::Reentered);
                        *value += 1;
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*lock.lock(), 4);
    });
}

#[test]
fn lock_rule_3_a_thread_that_ends_leaves_the_lock_to_others() {
    check(3, || {
        let lock = Arc::new(LaneLock::new(0));
        lock.set_threaded().unwrap();
        let first = lock.clone();
        thread::spawn(move || add_one(&first)).join().unwrap();
        let second = lock.clone();
        let thread = thread::spawn(move || add_one(&second));
        add_one(&lock);
        thread.join().unwrap();
        assert_eq!(*lock.lock(), 3);
    });
}
