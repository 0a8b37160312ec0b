//! How the blocks that a rank has for all others lie in a segment of it.

use oxmpi_plan::Collective;

/// Whether those who write in a collective have a block for each other rank.
pub(super) fn spreads(collective: Collective) -> bool {
    matches!(collective, Collective::Scatter | Collective::Alltoall | Collective::ReduceScatterBlock)
}

/// The longest piece of blocks of `block` bytes, none longer than `most`, if a segment has one for each other rank.
#[inline]
pub(super) fn longest(segment: usize, most: usize, ranks: u32, block: usize) -> usize {
    let others = ranks as usize - 1;
    match block.checked_mul(others) {
        Some(all) if all <= segment && block <= most => block,
        _ => {
            let most = most.min((segment / others) & !63);
            // Equally long ones, but for whole lines.
            if most == 0 { 0 } else { block.div_ceil(block.div_ceil(most)).next_multiple_of(64) }
        }
    }
}

/// Which of the blocks in a segment of `writer` is for `reader`.
#[inline]
pub(super) fn place(ranks: u32, writer: u32, reader: u32) -> usize {
    (if reader > writer { reader - writer - 1 } else { reader + ranks - writer - 1 }) as usize
}
