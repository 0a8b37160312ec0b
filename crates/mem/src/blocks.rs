//! The blocks of a layout one by one, in packed order, for file views.

use crate::layout::Layout;
use crate::program::{CopyProgram, Item};
use std::sync::Arc;

/// Contiguous data bytes of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutBlock {
    /// From the element's address, in bytes.
    pub offset: isize,
    pub len: usize,
}

/// Iterates over the blocks of one element from a packed byte on, without a list of them.
#[derive(Clone, Debug)]
pub struct LayoutBlocks {
    /// The position in the program and in each nested program.
    frames: Vec<Frame>,
    skip: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    program: Arc<CopyProgram>,
    base: isize,
    item: usize,
    turn: usize,
}

/// The order in memory of the blocks of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOrder {
    pub first: isize,
    pub last: isize,
    pub end: isize,
    pub disjoint: bool,
}

impl BlockOrder {
    fn of_block(offset: isize, block: usize) -> Option<BlockOrder> {
        let end = offset.checked_add_unsigned(block)?;
        Some(BlockOrder { first: offset, last: offset, end, disjoint: true })
    }

    /// This part followed by `next`; `None` if `next` begins before this part.
    fn then(self, next: BlockOrder) -> Option<BlockOrder> {
        let disjoint = self.disjoint && next.disjoint && self.end <= next.first;
        let whole = BlockOrder {
            first: self.first,
            last: next.last,
            end: self.end.max(next.end),
            disjoint,
        };
        (self.last <= next.first).then_some(whole)
    }

    fn repeated(self, count: usize, stride: isize) -> Option<BlockOrder> {
        if count <= 1 {
            return Some(self);
        }
        self.then(self.shifted(stride))?;
        let disjoint = self.disjoint && self.end <= self.first.checked_add(stride)?;
        let far = stride.checked_mul(isize::try_from(count - 1).ok()?)?;
        let last = self.shifted(far);
        Some(BlockOrder { first: self.first, last: last.last, end: last.end, disjoint })
    }

    fn shifted(self, by: isize) -> BlockOrder {
        let at = |place: isize| place.wrapping_add(by);
        BlockOrder { first: at(self.first), last: at(self.last), end: at(self.end), ..self }
    }
}

fn order_of_blocks(mut blocks: impl Iterator<Item = (isize, usize)>) -> Option<BlockOrder> {
    let (offset, block) = blocks.next()?;
    blocks.try_fold(BlockOrder::of_block(offset, block)?, |whole, (offset, block)| {
        whole.then(BlockOrder::of_block(offset, block)?)
    })
}

fn order_of(program: &CopyProgram) -> Option<BlockOrder> {
    let mut whole: Option<BlockOrder> = None;
    for item in program.items() {
        let part = match item {
            Item::Run(run) => {
                BlockOrder::of_block(run.offset, run.block)?.repeated(run.count, run.stride)?
            }
            Item::Scatter(scatter) => order_of_blocks(scatter.blocks())?,
            Item::Gather(gather) => order_of_blocks(gather.blocks())?,
            Item::Repeat(repeat) => order_of(&repeat.body)?
                .shifted(repeat.offset)
                .repeated(repeat.count, repeat.stride)?,
        };
        whole = Some(match whole {
            None => part,
            Some(before) => before.then(part)?,
        });
    }
    whole
}

impl Layout {
    /// The blocks of an element from packed byte `from` on.
    pub fn blocks_from(&self, from: usize) -> LayoutBlocks {
        let mut blocks = LayoutBlocks { frames: Vec::new(), skip: 0 };
        blocks.restart(self, from);
        blocks
    }

    /// The order of the blocks; `None` without blocks, or if one begins before its predecessor.
    pub fn order(&self) -> Option<BlockOrder> {
        order_of(self.program())
    }
}

impl LayoutBlocks {
    /// As [`Layout::blocks_from`], reusing the memory of this iterator.
    pub fn restart(&mut self, layout: &Layout, from: usize) {
        self.frames.clear();
        self.skip = 0;
        if from >= layout.size() {
            return;
        }
        let (mut program, mut base, mut rest) = (layout.program(), 0_isize, from);
        loop {
            let item = if rest == 0 { 0 } else { program.item_at(rest) };
            rest -= program.starts().get(item).copied().unwrap_or(0);
            let frame = |turn| Frame { program: Arc::clone(program), base, item, turn };
            match &program.items()[item] {
                Item::Run(run) => {
                    self.frames.push(frame(rest / run.block));
                    self.skip = rest % run.block;
                    return;
                }
                Item::Scatter(scatter) => {
                    self.frames.push(frame(rest / scatter.block));
                    self.skip = rest % scatter.block;
                    return;
                }
                Item::Gather(gather) => {
                    let turn = gather.block_at(rest);
                    self.frames.push(frame(turn));
                    self.skip = rest - gather.block(turn).1;
                    return;
                }
                Item::Repeat(repeat) => {
                    let turn = rest / repeat.body.size();
                    self.frames.push(frame(turn + 1));
                    rest %= repeat.body.size();
                    let by =
                        repeat.stride.wrapping_mul(turn.cast_signed()).wrapping_add(repeat.offset);
                    base = base.wrapping_add(by);
                    program = &repeat.body;
                }
            }
        }
    }
}

impl Iterator for LayoutBlocks {
    type Item = LayoutBlock;

    fn next(&mut self) -> Option<LayoutBlock> {
        loop {
            let frame = self.frames.last_mut()?;
            let (offset, block) = match frame.program.items().get(frame.item) {
                None => {
                    self.frames.pop();
                    continue;
                }
                Some(Item::Run(run)) if frame.turn < run.count => {
                    let by = run.stride.wrapping_mul(frame.turn.cast_signed());
                    (run.offset.wrapping_add(by), run.block)
                }
                Some(Item::Scatter(scatter)) if frame.turn < scatter.offsets.len() => {
                    (scatter.offset.wrapping_add(scatter.offsets[frame.turn]), scatter.block)
                }
                Some(Item::Gather(gather)) if frame.turn < gather.count() => {
                    let (offset, _, block) = gather.block(frame.turn);
                    (offset, block)
                }
                Some(Item::Repeat(repeat)) if frame.turn < repeat.count => {
                    let by = repeat
                        .stride
                        .wrapping_mul(frame.turn.cast_signed())
                        .wrapping_add(repeat.offset);
                    frame.turn += 1;
                    let base = frame.base.wrapping_add(by);
                    let inner = Frame { program: Arc::clone(&repeat.body), base, item: 0, turn: 0 };
                    self.frames.push(inner);
                    continue;
                }
                Some(_) => {
                    (frame.item, frame.turn) = (frame.item + 1, 0);
                    continue;
                }
            };
            frame.turn += 1;
            let skip = std::mem::take(&mut self.skip);
            let offset = frame.base.wrapping_add(offset).wrapping_add(skip.cast_signed());
            return Some(LayoutBlock { offset, len: block - skip });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(layout: &Layout, from: usize) -> Vec<(isize, usize)> {
        layout.blocks_from(from).map(|b| (b.offset, b.len)).collect()
    }

    #[test]
    fn blocks_are_found_from_every_byte() {
        let byte = Layout::basic(1, 1);
        let pair = Layout::hindexed([(2, 1), (3, 8)], &byte).unwrap();
        let rows = Layout::hvector(3, 2, 40, &Layout::resized(0, 16, &pair).unwrap()).unwrap();
        let all = Layout::structure([(1, 4, &byte), (2, 10, &rows), (1, 300, &byte)]).unwrap();
        let bytes = |blocks: Vec<(isize, usize)>| -> Vec<isize> {
            blocks.into_iter().flat_map(|(at, len)| at..at + len.cast_signed()).collect()
        };
        let whole = bytes(listed(&all, 0));
        assert_eq!(whole.len(), all.size());
        for from in 0..=all.size() {
            assert_eq!(bytes(listed(&all, from)), whole[from..], "from {from}");
        }
        let order = all.order().unwrap();
        assert_eq!((order.first, order.last, order.end, order.disjoint), (4, 300, 301, true));
    }

    #[test]
    fn order_is_known() {
        let int = Layout::basic(4, 4);
        let of = |blocks: &[(usize, isize)]| {
            Layout::hindexed(blocks.iter().copied(), &int).unwrap().order()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(1, 8), (1, 0)]), None);
        assert!(!of(&[(2, 0), (1, 4)]).unwrap().disjoint);
        assert!(of(&[(1, 0), (1, 8), (1, 100)]).unwrap().disjoint);
        let backwards = Layout::hvector(3, 1, -8, &int).unwrap();
        assert_eq!(backwards.order(), None);
        let same = Layout::hvector(3, 1, 0, &int).unwrap();
        assert!(!same.order().unwrap().disjoint);
    }
}
