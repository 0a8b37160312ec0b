//! The sizes of a segment, and the offsets of its parts.

use super::{PAGE, heap::HUGE_PAGE};
use crate::{
    control_section::{ControlSection, MAX_RANKS, PoolSegments},
    inbox::InboxArea,
    pool::PoolShape,
    ring::RingShape,
};
use oxmpi_sys::line::LINE_BYTES;

/// The sizes of the parts of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentConfig {
    pub inbox_cells: u32,
    pub ring_slots: u32,
    pub ring_data_bytes: u32,
    pub ring_chunk_bytes: u32,
    pub max_rings: u32,
    /// Number of control sections; a communicator takes two.
    pub control_sections: u32,
    /// The most ranks of a control section, at most 64.
    pub control_section_ranks: u32,
    pub control_section_pool: PoolSegments,
    /// A power of two, or 0 for no pool.
    pub pool_bytes: u32,
    pub pool_block_bytes: u32,
    /// Only whole pages are used; 0: there is no heap.
    pub heap_bytes: u64,
}

impl Default for SegmentConfig {
    fn default() -> Self {
        SegmentConfig {
            inbox_cells: 64,
            ring_slots: 128,
            ring_data_bytes: 64 << 10,
            ring_chunk_bytes: 2 << 10,
            max_rings: 16,
            control_sections: 16,
            control_section_ranks: MAX_RANKS,
            control_section_pool: PoolSegments { count: 8, bytes: 64 << 10 },
            pool_bytes: 4 << 20,
            pool_block_bytes: 16 << 10,
            heap_bytes: 1 << 30,
        }
    }
}

impl SegmentConfig {
    /// The sizes of each ring.
    pub const fn ring_shape(&self) -> RingShape {
        RingShape {
            slots: self.ring_slots,
            data_bytes: self.ring_data_bytes,
            chunk_bytes: self.ring_chunk_bytes,
        }
    }

    /// The sizes of the pool.
    pub const fn pool_shape(&self) -> PoolShape {
        PoolShape { bytes: self.pool_bytes, block_bytes: self.pool_block_bytes }
    }

    /// Checks the sizes; the error is a text for the user.
    pub fn check(&self) -> Result<(), String> {
        InboxArea::check(self.inbox_cells)?;
        self.ring_shape().check()?;
        self.pool_shape().check()?;
        if self.max_rings > 1 << 16 {
            return Err(format!("{} rings: at most 65536 fit a segment", self.max_rings));
        }
        self.control_section_pool.check()?;
        if self.control_sections > 1 << 16 || self.control_section_ranks > MAX_RANKS {
            return Err(format!(
                "{} control sections for {} ranks: at most 65536 for {MAX_RANKS} fit a segment",
                self.control_sections, self.control_section_ranks
            ));
        }
        if self.heap_bytes > HEAP_MOST {
            return Err(format!(
                "a heap of {} bytes: at most {HEAP_MOST} fit a segment",
                self.heap_bytes
            ));
        }
        Ok(())
    }

    /// Bytes of a whole segment.
    pub const fn bytes(&self) -> usize {
        self.heap_offset() + self.heap_len()
    }

    /// Bytes that are mapped at once: the segment without the heap.
    pub(super) const fn mapped_bytes(&self) -> usize {
        self.pool_offset() + self.pool_shape().area_bytes()
    }

    /// Bytes of the heap that are used: whole pages.
    pub const fn heap_len(&self) -> usize {
        self.heap_bytes as usize & !(PAGE - 1)
    }

    /// These sizes reduced to a file of `limit` bytes: a shorter heap, then smaller control
    /// sections.
    pub(super) fn within(&self, limit: u64) -> SegmentConfig {
        let mut within = *self;
        while within.control_section_pool.bytes > LEAST_SEGMENT
            && within.heap_offset() as u64 >= limit
        {
            within.control_section_pool.bytes =
                (within.control_section_pool.bytes / 2).next_multiple_of(LINE_BYTES as u32);
        }
        within.heap_bytes =
            within.heap_bytes.min(limit.saturating_sub(within.heap_offset() as u64));
        within
    }

    /// The offset of the heap, at which a huge page can begin.
    pub(super) const fn heap_offset(&self) -> usize {
        match self.heap_len() {
            0 => self.mapped_bytes(),
            _ => self.mapped_bytes().next_multiple_of(HUGE_PAGE),
        }
    }

    pub(super) const fn pool_offset(&self) -> usize {
        self.control_section_offset(self.control_sections)
    }

    pub(super) const fn control_section_offset(&self, index: u32) -> usize {
        self.ring_offset(self.max_rings)
            + index as usize
                * whole_pages(ControlSection::bytes(
                    self.control_section_ranks,
                    &self.control_section_pool,
                ))
    }

    pub(super) const fn inbox_offset(&self) -> usize {
        2 * PAGE
    }

    pub(super) const fn ring_offset(&self, index: u32) -> usize {
        self.inbox_offset()
            + whole_pages(InboxArea::bytes(self.inbox_cells))
            + index as usize * whole_pages(self.ring_shape().bytes())
    }
}

/// The shortest segment of a control section's pool, in bytes, in a file of limited length.
const LEAST_SEGMENT: u32 = 1 << 10;

const HEAP_MOST: u64 = 1 << 42;

const fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}
