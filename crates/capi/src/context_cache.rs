//! From the handle of a communicator to its context, by one load: what the calls need that take the low-latency path.

use oxmpi_abi::types::Comm;
use std::sync::atomic::{AtomicU64, Ordering};

/// The contexts of communicators that were used lately. A handle that is not here is looked up among all communicators, which notes it.
#[derive(Debug)]
pub(crate) struct ContextCache {
    /// By the lowest bits of the handle: 12 bits of its generation and all of its index, then 20 bits of the context.
    entries: [AtomicU64; ENTRIES],
}

const ENTRIES: usize = 128;
const CONTEXT_BITS: u32 = 20;
/// No communicator has this key, and no context this number.
const EMPTY: u64 = u64::MAX;

impl ContextCache {
    pub(crate) fn new() -> ContextCache {
        ContextCache { entries: std::array::from_fn(|_| AtomicU64::new(EMPTY)) }
    }

    /// The context of the communicator with this handle, if it is here. A handle that was freed is not, unless its place is used by
    /// the 4096th one since.
    #[inline(always)]
    pub(crate) fn get(&self, comm: Comm) -> Option<u32> {
        // What is the same in both leaves the context alone.
        let rest = self.entries[place(comm)].load(Ordering::Relaxed) ^ key(comm) << CONTEXT_BITS;
        if rest >> CONTEXT_BITS == 0 { Some(rest as u32) } else { None }
    }

    /// Notes the context of a communicator, whose handle is in use.
    pub(crate) fn note(&self, comm: Comm, context: u32) {
        let word = key(comm) << CONTEXT_BITS | u64::from(context);
        if context >> CONTEXT_BITS == 0 && word != EMPTY {
            self.entries[place(comm)].store(word, Ordering::Relaxed);
        }
    }

    /// Forgets a communicator whose handle is about to be freed.
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
    // All bits but the 20 uppermost: those of a generation are there last.
    raw & (u64::MAX >> CONTEXT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_abi::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD};

    #[test]
    fn a_context_is_found_by_its_handle_until_that_is_freed() {
        let cache = ContextCache::new();
        let made = 0x0000_0003_0000_1005;
        assert!([MPI_COMM_WORLD, MPI_COMM_NULL, 0, made].iter().all(|comm| cache.get(*comm).is_none()));
        cache.note(MPI_COMM_WORLD, 0);
        cache.note(MPI_COMM_SELF, 2);
        cache.note(made, 7);
        let found = [MPI_COMM_WORLD, MPI_COMM_SELF, made].map(|comm| cache.get(comm));
        assert_eq!(found, [Some(0), Some(2), Some(7)]);
        // Another generation, and another index with the same place.
        for other in [0x0000_0004_0000_1005, 0x0000_0003_0000_1085, 0x0000_0003_0100_1005] {
            assert_eq!(cache.get(other), None);
            cache.forget(other);
            assert_eq!(cache.get(made), Some(7));
        }
        cache.forget(made);
        assert_eq!(cache.get(made), None);
    }

    #[test]
    fn the_last_of_one_place_stays_and_a_number_without_room_is_not_noted() {
        let cache = ContextCache::new();
        let (first, second) = (0x1005, 0x1005 + ENTRIES as Comm);
        cache.note(first, 1);
        cache.note(second, 2);
        assert_eq!((cache.get(first), cache.get(second)), (None, Some(2)));
        cache.note(first, 1 << CONTEXT_BITS);
        assert_eq!((cache.get(first), cache.get(second)), (None, Some(2)));
    }
}
