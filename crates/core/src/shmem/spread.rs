//! The layout of a rank's blocks for all other ranks in a segment.

use oxmpi_plan::Collective;

/// Whether a rank that writes in a collective has a block for each other rank.
pub(super) fn spreads(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::Scatter | Collective::Alltoall | Collective::ReduceScatterBlock
    )
}

/// The longest piece, at most `most`, of which a segment has room for one for each other rank.
#[inline]
pub(super) fn longest(segment: usize, most: usize, ranks: u32, block: usize) -> usize {
    let others = ranks as usize - 1;
    match block.checked_mul(others) {
        Some(all) if all <= segment && block <= most => block,
        _ => {
            let most = most.min((segment / others) & !63);
            // Pieces of equal lengths, rounded up to whole cache lines.
            if most == 0 { 0 } else { block.div_ceil(block.div_ceil(most)).next_multiple_of(64) }
        }
    }
}

/// The index of the block for `reader` in a segment of `writer`.
#[inline]
pub(super) fn place(ranks: u32, writer: u32, reader: u32) -> usize {
    (if reader > writer { reader - writer - 1 } else { reader + ranks - writer - 1 }) as usize
}
