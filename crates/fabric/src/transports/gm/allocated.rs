//! Memory that the process allocates for its program and frees, such as that of MPI_Alloc_mem. With
//! `rpi_gm_nopin 1` only this memory is registered.

use super::{Gm, GmPort};
use crate::LastingMemory;
use oxmpi_mem::buffer::UserBuf;
use std::collections::BTreeMap;

/// The length of each allocation, by its address.
#[derive(Debug, Default)]
pub(super) struct Allocated(BTreeMap<usize, usize>);

impl Allocated {
    #[cfg(test)]
    pub(super) fn everything() -> Allocated {
        Allocated(BTreeMap::from([(0, usize::MAX)]))
    }

    pub(super) fn has(&self, start: usize, len: usize) -> bool {
        let before = self.0.range(..=start).next_back();
        before.is_some_and(|(at, all)| len <= all.saturating_sub(start - at))
    }
}

/// Here a registration ends with its message, so it need not be ended when the memory is freed.
impl<P: GmPort> LastingMemory for Gm<P> {
    fn keep_memory(&mut self, memory: &UserBuf) {
        if let Some(bytes) = memory.as_contiguous() {
            self.allocated.0.insert(bytes.as_ptr().addr(), bytes.len());
        }
    }

    fn forget_memory(&mut self, start: usize) {
        self.allocated.0.remove(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_allocated_only_within_one_allocation() {
        let all = Allocated(BTreeMap::from([(100, 50), (150, 10)]));
        assert!(all.has(100, 50) && all.has(149, 1) && all.has(155, 5));
        assert!(
            !all.has(99, 2) && !all.has(100, 51) && !all.has(160, 1) && !all.has(149, usize::MAX)
        );
    }
}
