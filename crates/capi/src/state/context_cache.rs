//! A cache from a communicator's handle to its context, for the low-latency path. A lookup is one
//! load.

use oxmpi_abi::types::Comm;
use std::sync::atomic::{AtomicU64, Ordering};

/// The contexts of recently used communicators.
#[derive(Debug)]
pub(crate) struct ContextCache {
    /// Indexed by the lowest bits of the handle. An entry has 12 bits of the handle's generation
    /// and the handle's index, then 20 bits of the context.
    entries: [AtomicU64; ENTRIES],
}

const ENTRIES: usize = 128;
const CONTEXT_BITS: u32 = 20;
const EMPTY: u64 = u64::MAX;

impl ContextCache {
    pub(crate) fn new() -> ContextCache {
        ContextCache { entries: std::array::from_fn(|_| AtomicU64::new(EMPTY)) }
    }

    /// The context of a cached communicator. A freed handle is not found, unless its table entry
    /// was reused exactly 4096 times.
    #[inline(always)]
    pub(crate) fn get(&self, comm: Comm) -> Option<u32> {
        // Equal bits cancel, so that only the context is left.
        let rest = self.entries[place(comm)].load(Ordering::Relaxed) ^ key(comm) << CONTEXT_BITS;
        if rest >> CONTEXT_BITS == 0 { Some(rest as u32) } else { None }
    }

    /// Caches the context of a communicator whose handle is in use.
    pub(crate) fn note(&self, comm: Comm, context: u32) {
        let word = key(comm) << CONTEXT_BITS | u64::from(context);
        if context >> CONTEXT_BITS == 0 && word != EMPTY {
            self.entries[place(comm)].store(word, Ordering::Relaxed);
        }
    }

    /// Must be called before the handle is freed.
    pub(crate) fn forget(&self, comm: Comm) {
        if self.get(comm).is_some() {
            self.entries[place(comm)].store(EMPTY, Ordering::Relaxed);
        }
    }
}

#[inline(always)]
const fn place(comm: Comm) -> usize {
    comm % ENTRIES
}

#[inline(always)]
const fn key(comm: Comm) -> u64 {
    let raw = comm as u64;
    // The shift removes the 20 bits of the generation that change last.
    raw & (u64::MAX >> CONTEXT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_abi::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD};

    #[test]
    fn a_context_is_found_until_its_handle_is_freed() {
        let cache = ContextCache::new();
        let made = 0x0000_0003_0000_1005;
        assert!(
            [MPI_COMM_WORLD, MPI_COMM_NULL, 0, made].iter().all(|comm| cache.get(*comm).is_none())
        );
        cache.note(MPI_COMM_WORLD, 0);
        cache.note(MPI_COMM_SELF, 2);
        cache.note(made, 7);
        let found = [MPI_COMM_WORLD, MPI_COMM_SELF, made].map(|comm| cache.get(comm));
        assert_eq!(found, [Some(0), Some(2), Some(7)]);
        // A different generation; a different index for the same entry.
        for other in [0x0000_0004_0000_1005, 0x0000_0003_0000_1085, 0x0000_0003_0100_1005] {
            assert_eq!(cache.get(other), None);
            cache.forget(other);
            assert_eq!(cache.get(made), Some(7));
        }
        cache.forget(made);
        assert_eq!(cache.get(made), None);
    }

    #[test]
    fn the_latest_context_of_an_entry_stays_and_large_numbers_are_not_cached() {
        let cache = ContextCache::new();
        let (first, second) = (0x1005, 0x1005 + ENTRIES as Comm);
        cache.note(first, 1);
        cache.note(second, 2);
        assert_eq!((cache.get(first), cache.get(second)), (None, Some(2)));
        cache.note(first, 1 << CONTEXT_BITS);
        assert_eq!((cache.get(first), cache.get(second)), (None, Some(2)));
    }
}
