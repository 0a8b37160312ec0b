//! Memory of MPI_Alloc_mem outside of the heap in this process's segment.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The alignment in bytes: two allocations must not share a cache line.
const LINE: usize = 64;

/// Memory outside of the heap, by address.
#[derive(Debug, Default)]
pub(crate) struct OrdinaryMemory(Mutex<HashMap<usize, Layout>>);

impl OrdinaryMemory {
    pub(crate) fn allocate(&self, bytes: usize, align: usize) -> Option<usize> {
        let layout = Layout::from_size_align(bytes.max(1), align.max(LINE)).ok()?;
        // SAFETY: the size of the layout is not 0.
        let address = unsafe { alloc(layout) }.expose_provenance();
        (address != 0).then(|| {
            self.all().insert(address, layout);
            address
        })
    }

    /// Frees memory of [`OrdinaryMemory::allocate`]. Returns `false` for other addresses.
    /// # Safety
    /// The memory must not be in use.
    pub(crate) unsafe fn free(&self, address: usize) -> bool {
        let Some(layout) = self.all().remove(&address) else { return false };
        // SAFETY: the layout is that of the allocation. The table had the address, so this is the
        // only free. The memory is not in use.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
        true
    }

    fn all(&self) -> MutexGuard<'_, HashMap<usize, Layout>> {
        // The table's own operations do not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
