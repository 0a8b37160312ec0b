//! Copies into memory that a team of processes shares.

use crate::bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How a process copies what others will read.
#[derive(Debug)]
pub struct Copies;

impl Copies {
    /// Plain copies.
    pub fn new((): (), _: Arc<AtomicU64>) -> Copies {
        Copies
    }

    /// Copies all bytes to `to`. What the caller stores later is seen later.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy(&self, from: Bytes<'_>, to: BytesMut<'_>) {
        from.copy_over(to);
    }
}
