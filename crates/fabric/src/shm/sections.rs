//! Which teams use the control sections of our segment.

use oxmpi_os::barrier::BarrierKind;
use oxmpi_os::segment::{Segment, SegmentConfig};
use std::sync::Arc;

/// All control sections of one segment.
#[derive(Debug)]
pub(super) struct Sections(Vec<Section>);

/// What is known of one.
#[derive(Debug, Clone, Copy)]
enum Section {
    Free,
    Used,
    /// The team of so many ranks has no use for it; some of them may still read it.
    Leaving(u32),
}

impl Sections {
    pub(super) fn new(config: &SegmentConfig) -> Sections {
        let mut all = vec![Section::Free; config.control_sections as usize];
        if let Some(first) = all.first_mut() {
            // All processes know without a word that the first section of the first process is the world's.
            *first = Section::Used;
        }
        Sections(all)
    }

    /// Takes a section: its index, and the last step that was taken there.
    pub(super) fn reserve(&mut self, own: &Arc<Segment>, kind: BarrierKind) -> Option<(u32, u64)> {
        let index = (0..self.0.len() as u32).find(|at| match self.0[*at as usize] {
            Section::Free => true,
            Section::Used => false,
            Section::Leaving(before) => own.control_section(*at, before, kind).reuse(before),
        })?;
        self.0[index as usize] = Section::Used;
        Some((index, own.control_section(index, 1, kind).last_step()))
    }

    /// A section is free again: at once if no team got it, else when all ranks of its team have left it.
    pub(super) fn release(&mut self, index: u32, team: Option<u32>) {
        if let Some(section) = self.0.get_mut(index as usize) {
            *section = team.map_or(Section::Free, Section::Leaving);
        }
    }
}
