//! A cache line of atomic words: what the areas in shared memory are made of. The protocols on them are in
//! `oxmpi_shm`.

use crate::sync::AtomicU64;
use std::{any::Any, sync::Arc};

/// Words in a [`Line`].
pub const LINE_WORDS: usize = 8;
/// Bytes in a [`Line`] of shared memory.
pub const LINE_BYTES: usize = 64;

/// One cache line. All bit patterns are valid, zero is its first state.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line {
    /// Its words. The area says what each is for.
    pub words: [AtomicU64; LINE_WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// Whatever keeps an area's memory mapped: a mapping, or an allocation.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// `count` lines of zeroes on the heap, for threads of one process.
pub fn heap_lines(count: usize) -> Arc<[Line]> {
    (0..count).map(|_| Line::default()).collect()
}

/// One cache line of data.
#[repr(C, align(64))]
pub struct DataLine(std::cell::UnsafeCell<[u8; LINE_BYTES]>);

// SAFETY: nobody makes a reference to the bytes; they are copied by pointer, as the rules of the areas allow.
unsafe impl Sync for DataLine {}

/// `bytes` bytes of zeroes for data on the heap, for threads of one process: a multiple of [`LINE_BYTES`].
pub fn heap_data(bytes: usize) -> Arc<[DataLine]> {
    (0..bytes / LINE_BYTES).map(|_| DataLine(std::cell::UnsafeCell::new([0; LINE_BYTES]))).collect()
}

/// Lets loom see who touches which line of an area's data: it reports a race if a rule of the area is broken.
/// Nothing outside of loom.
#[derive(Clone, Debug)]
pub struct Watched {
    #[cfg(loom)]
    lines: Arc<[Cell]>,
}

/// How data are touched.
#[derive(Clone, Copy, Debug)]
pub enum Touch {
    /// They are read: others may read them, too.
    Read,
    /// They are written: nobody else touches them.
    Write,
}

impl Watched {
    /// Watches `bytes` bytes.
    #[inline(always)]
    pub fn new(bytes: usize) -> Watched {
        #[cfg(loom)]
        return Watched {
            lines: (0..bytes / LINE_BYTES).map(|_| Cell(crate::sync::UnsafeCell::new(()))).collect(),
        };
        #[cfg(not(loom))]
        {
            let _ = bytes;
            Watched {}
        }
    }

    /// Says that `len` bytes at `at` are touched now.
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

// SAFETY: the cell holds nothing; loom checks the accesses.
#[cfg(loom)]
unsafe impl Sync for Cell {}
// SAFETY: as above.
#[cfg(loom)]
unsafe impl Send for Cell {}
