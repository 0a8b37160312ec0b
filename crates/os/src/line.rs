//! A cache line of atomic words: what the areas in shared memory are made of.

use crate::sync::AtomicU64;
use std::{any::Any, sync::Arc};

/// Words in a [`Line`].
pub const LINE_WORDS: usize = 8;
/// Bytes in a [`Line`] of shared memory.
pub const LINE_BYTES: usize = 64;

/// One cache line. All bit patterns are valid, zero is its first state.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line {
    pub(crate) words: [AtomicU64; LINE_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == LINE_BYTES);

impl Line {
    pub(crate) fn new() -> Self {
        Line { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

/// Whatever keeps an area's memory mapped: a segment, or a heap allocation.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// `count` lines of zeroes on the heap, for threads of one process.
pub(crate) fn heap_lines(count: usize) -> Arc<[Line]> {
    (0..count).map(|_| Line::new()).collect()
}
