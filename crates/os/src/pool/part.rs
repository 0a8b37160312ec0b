//! The parts of a pool: the first one, or each of its halves, and the other one (rule 8).

use super::area::{OWNER, PoolArea, PoolShape, change_free};

/// A part of the blocks (rule 8).
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// How many there are, and how many are taken and not yet reclaimed.
    pub(super) blocks: u32,
    pub(super) taken: u32,
    /// The positions of the first block that may be taken, and of the first one that is not yet reclaimed.
    pub(super) head: u32,
    pub(super) tail: u32,
    /// The position after the part in the first lap, and how far it is from there to the beginning of the part in the next one.
    pub(super) end: u32,
    pub(super) back: u32,
}

impl Part {
    /// The part of `blocks` blocks from number `first` on.
    pub(super) const fn new(first: u32, blocks: u32, shape: &PoolShape) -> Part {
        let (head, len) = (first * shape.block_bytes, blocks * shape.block_bytes);
        Part { blocks, taken: 0, head, tail: head, end: head + len, back: shape.lap_bytes() - len }
    }

    /// Makes it end before block number `end`, and begin where it does. Nothing may be taken of it.
    pub(super) fn resize(&mut self, end: u32, area: &PoolArea) {
        debug_assert_eq!(self.taken, 0, "blocks are taken");
        let first = self.end - self.blocks * area.shape.block_bytes;
        let (head, first_block) = (self.head, first / area.shape.block_bytes);
        *self = Part::new(first_block, end - first_block, &area.shape);
        // What lies behind it now is the beginning of the part in the next lap.
        let is_behind = area.at(head) as u32 >= self.end;
        let lap = area.shape.lap_bytes();
        self.head = if is_behind { (head & !(lap - 1)).wrapping_add(lap + first) } else { head };
        self.tail = self.head;
    }

    /// The position of the block after the one in which `position` lies.
    #[inline]
    pub(super) const fn after(&self, position: u32, area: &PoolArea) -> u32 {
        let end = area.block_end(position);
        // Both may be the end of the pool, which is the beginning of its next lap.
        if area.at(end) == area.at(self.end) { end.wrapping_add(self.back) } else { end }
    }

    /// Whether so many blocks can be taken. Reclaims what has been freed if need be.
    #[inline]
    pub(super) fn has_room(&mut self, blocks: usize, area: &PoolArea) -> bool {
        blocks <= (self.blocks - self.taken) as usize || {
            self.reclaim(area);
            blocks <= (self.blocks - self.taken) as usize
        }
    }

    /// Rule 5.
    #[cold]
    pub(super) fn reclaim(&mut self, area: &PoolArea) {
        while self.taken > 0
            && change_free(area.state(area.block(self.tail)), area.block_end(self.tail), OWNER)
        {
            self.tail = self.after(self.tail, area);
            self.taken -= 1;
        }
    }

    /// The blocks that are not yet reclaimed, by their positions.
    pub(super) fn taken<'a>(&'a self, area: &'a PoolArea) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(Some(self.tail), |position| Some(self.after(*position, area)))
            .take(self.taken as usize)
    }
}
