//! Atomics for the algorithms that loom checks: the standard ones, or loom's under `cfg(loom)`.

#[cfg(not(loom))]
pub use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence},
};

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Mutex, MutexGuard},
};
