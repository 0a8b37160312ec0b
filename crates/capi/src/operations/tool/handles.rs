//! Handles of the tool interface, whose number is limited.

use super::checks::Result;
use crate::state::objects::{ObjectKind, table};
use oxmpi_mem::table::{Handle, Ref, Table};
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Objects with handles, at most `limit` at a time.
pub(super) struct Handles<T> {
    table: Table<T>,
    count: AtomicUsize,
    limit: usize,
    /// The error code of an invalid handle.
    invalid: c_int,
    /// The error code above the limit.
    out: c_int,
}

impl<T> Handles<T> {
    pub(super) fn new(kind: ObjectKind, limit: usize, invalid: c_int, out: c_int) -> Handles<T> {
        Handles { table: table(kind), count: AtomicUsize::new(0), limit, invalid, out }
    }

    pub(super) fn insert(&self, value: T) -> Result<usize> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(self.out);
        }
        Ok(self.table.insert(value).raw() as usize)
    }

    pub(super) fn get(&self, handle: usize) -> Result<Ref<'_, T>> {
        self.table.get(Handle::from_raw(handle as u64)).map_err(|_| self.invalid)
    }

    /// The object is dropped when no call uses it any more.
    pub(super) fn free(&self, handle: usize) -> Result<()> {
        self.table.free(Handle::from_raw(handle as u64)).map_err(|_| self.invalid)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.table.handles().into_iter().map(|handle| handle.raw() as usize)
    }
}
