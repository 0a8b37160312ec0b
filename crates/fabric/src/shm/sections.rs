//! The control sections in use in the own segment. Each team has two adjacent ones.

use oxmpi_shm::segment::{Segment, SegmentConfig};
use oxmpi_sys::barrier::BarrierKind;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct SectionTable(Vec<Section>);

#[derive(Debug, Clone, Copy)]
enum Section {
    Free,
    Used,
    /// The team of this number of ranks has released it; some ranks may still read it.
    Leaving(u32),
}

impl SectionTable {
    pub(super) fn new(config: &SegmentConfig) -> SectionTable {
        let mut all = vec![Section::Free; config.control_sections as usize];
        for first in all.iter_mut().take(2) {
            // The first two sections of the first process belong to MPI_COMM_WORLD.
            *first = Section::Used;
        }
        SectionTable(all)
    }

    /// Reserves two sections. Returns the index of the first, and the last step in either.
    pub(super) fn reserve(&mut self, own: &Arc<Segment>, kind: BarrierKind) -> Option<(u32, u64)> {
        for (at, section) in self.0.iter_mut().enumerate() {
            if let Section::Leaving(before) = *section
                && own.control_section(at as u32, before, kind).reuse(before)
            {
                *section = Section::Free;
            }
        }
        let is_free = |pair: &[Section]| matches!(pair, [Section::Free, Section::Free]);
        let pair = self.0.chunks_exact(2).position(is_free)?;
        self.0[2 * pair..][..2].fill(Section::Used);
        let index = 2 * pair as u32;
        let last = |index| own.control_section(index, 1, kind).last_step();
        Some((index, last(index).max(last(index + 1))))
    }

    /// Frees a section: at once if no team got it, else when all ranks of the team have left it.
    pub(super) fn release(&mut self, index: u32, team: Option<u32>) {
        if let Some(section) = self.0.get_mut(index as usize) {
            *section = team.map_or(Section::Free, Section::Leaving);
        }
    }
}
