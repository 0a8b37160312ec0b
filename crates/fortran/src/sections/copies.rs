//! Copies of sections without gaps.

use super::Use;
use super::descriptor::{ArrayDescriptor, Stride};
use std::ffi::c_void;
use std::ptr;

/// A copy of a section. An offset in the copy is the place that the byte would have if the section
/// had no gaps.
pub(crate) struct SectionCopy {
    /// The first byte of the section.
    section: *mut u8,
    /// Bytes, the innermost repetition first.
    strides: Vec<Stride>,
    /// The ranges of offsets that the call accesses.
    spans: Vec<(i64, i64)>,
    /// 16 bytes are enough for the alignment of every type.
    memory: Vec<u128>,
    /// The copy as it was read, if the call changes it.
    original: Vec<u128>,
}

// SAFETY: a copy is moved between threads with its request only, which one thread completes.
unsafe impl Send for SectionCopy {}

/// `None` if there is no memory.
fn zeros(words: usize) -> Option<Vec<u128>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(words).ok()?;
    memory.resize(words, 0);
    Some(memory)
}

impl SectionCopy {
    /// `None` if there is no memory.
    pub(super) fn new(
        array: &ArrayDescriptor,
        spans: Vec<(i64, i64)>,
        used: Use,
    ) -> Option<SectionCopy> {
        let end = spans.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let words = usize::try_from(end).ok()?.div_ceil(size_of::<u128>());
        Some(SectionCopy {
            section: array.address().cast(),
            strides: array.strides(1),
            spans,
            memory: zeros(words)?,
            original: zeros(if used == Use::Reads { 0 } else { words })?,
        })
    }

    pub(super) fn address(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }

    /// Reads the section into the copy. This includes data that the call overwrites: it may leave
    /// some of them.
    pub(crate) unsafe fn read(&mut self) {
        let to = self.memory.as_mut_ptr().cast::<u8>();
        self.each_piece(|offset, section, bytes| unsafe {
            ptr::copy_nonoverlapping(section, to.add(offset), bytes);
        });
        if !self.original.is_empty() {
            self.original.copy_from_slice(&self.memory);
        }
    }

    /// Stores the bytes that the call has changed in the section. The program may change the others
    /// while the operation is open: those in gaps of the datatype are no part of the message.
    pub(crate) unsafe fn give(&self) {
        if self.original.is_empty() {
            return;
        }
        let (now, before) =
            (self.memory.as_ptr().cast::<u8>(), self.original.as_ptr().cast::<u8>());
        self.each_piece(|offset, section, bytes| unsafe {
            for at in 0..bytes {
                let byte = *now.add(offset + at);
                if byte != *before.add(offset + at) {
                    *section.add(at) = byte;
                }
            }
        });
    }

    /// Calls the function for each piece without gaps: with its offset in the copy, its address in
    /// the section, and its length in bytes.
    fn each_piece(&self, mut piece: impl FnMut(usize, *mut u8, usize)) {
        let Some((first, outer)) = self.strides.split_first() else { return };
        // Bytes of the innermost repetition lie one after another, unless elements have one byte.
        let run = if first.step == 1 { first.count } else { 1 };
        for &(begin, end) in &self.spans {
            let mut offset = begin;
            while offset < end {
                let (mut rest, within) = (offset / first.count, offset % first.count);
                let mut place = within.wrapping_mul(first.step);
                for stride in outer {
                    place = place.wrapping_add((rest % stride.count).wrapping_mul(stride.step));
                    rest /= stride.count;
                }
                let bytes = if run == 1 { 1 } else { run - within }.min(end - offset);
                piece(
                    offset as usize,
                    self.section.wrapping_offset(place as isize),
                    bytes as usize,
                );
                offset += bytes;
            }
        }
    }
}
