//! A cache line of atomic words: the unit of the areas in shared memory (`oxmpi_shm`).

use crate::sync::AtomicU64;
use std::{any::Any, sync::Arc};

pub const LINE_WORDS: usize = 8;
pub const LINE_BYTES: usize = 64;

/// One cache line of words. All bit patterns are valid; zero is the initial state.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line {
    /// The area defines the purpose of each word.
    pub words: [AtomicU64; LINE_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// The mapping or the allocation in which an area is: keeps it alive.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// `count` zeroed lines on the heap, for threads of one process.
pub fn heap_lines(count: usize) -> Arc<[Line]> {
    (0..count).map(|_| Line::default()).collect()
}

/// One cache line of data.
#[repr(C, align(64))]
pub struct DataLine(std::cell::UnsafeCell<[u8; LINE_BYTES]>);

// SAFETY: no code makes a reference to the bytes; they are copied by the rules of each area.
unsafe impl Sync for DataLine {}

/// `bytes` zeroed bytes of data on the heap, for threads of one process; a multiple of
/// [`LINE_BYTES`].
pub fn heap_data(bytes: usize) -> Arc<[DataLine]> {
    (0..bytes / LINE_BYTES).map(|_| DataLine(std::cell::UnsafeCell::new([0; LINE_BYTES]))).collect()
}

/// Reports accesses to an area's data to loom, which detects races if a rule of the area is broken.
/// Does nothing without loom.
#[derive(Clone, Debug)]
pub struct Watched {
    #[cfg(loom)]
    lines: Arc<[Cell]>,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug)]
pub enum Touch {
    Read,
    Write,
}

impl Watched {
    /// Tracks `bytes` bytes.
    #[inline(always)]
    pub fn new(bytes: usize) -> Watched {
        #[cfg(loom)]
        return Watched {
            lines: (0..bytes / LINE_BYTES)
                .map(|_| Cell(crate::sync::UnsafeCell::new(())))
                .collect(),
        };
        #[cfg(not(loom))]
        {
            let _ = bytes;
            Watched {}
        }
    }

    /// Reports an access to `len` bytes at offset `at`.
    #[inline(always)]
    pub fn touch(&self, at: usize, len: usize, how: Touch) {
        #[cfg(loom)]
        for line in &self.lines[at / LINE_BYTES..(at + len).div_ceil(LINE_BYTES)] {
            match how {
                Touch::Read => line.0.with(|_| ()),
                Touch::Write => line.0.with_mut(|_| ()),
            }
        }
        #[cfg(not(loom))]
        let _ = (at, len, how);
    }
}

#[cfg(loom)]
#[derive(Debug)]
struct Cell(crate::sync::UnsafeCell<()>);

// SAFETY: the cell is empty; loom checks the accesses.
#[cfg(loom)]
unsafe impl Sync for Cell {}
// SAFETY: the cell is empty; loom checks the accesses.
#[cfg(loom)]
unsafe impl Send for Cell {}
