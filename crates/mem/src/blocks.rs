//! The blocks of a layout one by one, in packed order: where the bytes of a file view lie.

use crate::layout::Layout;
use crate::program::{Item, Program};
use std::sync::Arc;

/// Bytes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// From the element's address to the first of them.
    pub offset: isize,
    /// How many there are.
    pub len: usize,
}

/// The blocks of one element from a packed byte on, found one after the other without a list of them.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The programs that are being gone through, each inside of the one before.
    frames: Vec<Frame>,
    /// Bytes of the next block that come before the start.
    skip: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    program: Arc<Program>,
    base: isize,
    item: usize,
    /// How often the item was done.
    turn: usize,
}

/// How the blocks of a layout follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Where the first block begins.
    pub first: isize,
    /// Where the last block begins.
    pub last: isize,
    /// Where the last byte ends.
    pub end: isize,
    /// Whether no byte is in two blocks.
    pub disjoint: bool,
}

impl Order {
    fn of_block(offset: isize, block: usize) -> Option<Order> {
        let end = offset.checked_add_unsigned(block)?;
        Some(Order { first: offset, last: offset, end, disjoint: true })
    }

    /// A part, and another after it; `None` if that begins before.
    fn then(self, next: Order) -> Option<Order> {
        let disjoint = self.disjoint && next.disjoint && self.end <= next.first;
        let whole = Order { first: self.first, last: next.last, end: self.end.max(next.end), disjoint };
        (self.last <= next.first).then_some(whole)
    }

    /// A part `count` times.
    fn repeated(self, count: usize, stride: isize) -> Option<Order> {
        if count <= 1 {
            return Some(self);
        }
        self.then(self.shifted(stride))?;
        let disjoint = self.disjoint && self.end <= self.first.checked_add(stride)?;
        let far = stride.checked_mul(isize::try_from(count - 1).ok()?)?;
        let last = self.shifted(far);
        Some(Order { first: self.first, last: last.last, end: last.end, disjoint })
    }

    fn shifted(self, by: isize) -> Order {
        let at = |place: isize| place.wrapping_add(by);
        Order { first: at(self.first), last: at(self.last), end: at(self.end), ..self }
    }
}

fn order_of_blocks(mut blocks: impl Iterator<Item = (isize, usize)>) -> Option<Order> {
    let (offset, block) = blocks.next()?;
    blocks.try_fold(Order::of_block(offset, block)?, |whole, (offset, block)| {
        whole.then(Order::of_block(offset, block)?)
    })
}

fn order_of(program: &Program) -> Option<Order> {
    let mut whole: Option<Order> = None;
    for item in program.items() {
        let part = match item {
            Item::Run(run) => Order::of_block(run.offset, run.block)?.repeated(run.count, run.stride)?,
            Item::Scatter(scatter) => order_of_blocks(scatter.blocks())?,
            Item::Gather(gather) => order_of_blocks(gather.blocks())?,
            Item::Repeat(repeat) => {
                order_of(&repeat.body)?.shifted(repeat.offset).repeated(repeat.count, repeat.stride)?
            }
        };
        whole = Some(match whole {
            None => part,
            Some(before) => before.then(part)?,
        });
    }
    whole
}

impl Layout {
    /// The blocks of an element from packed byte `from` on, which is less than the size or there are none.
    pub fn blocks_from(&self, from: usize) -> Blocks {
        let mut blocks = Blocks { frames: Vec::new(), skip: 0 };
        blocks.restart(self, from);
        blocks
    }

    /// How the blocks of an element follow each other; `None` if one begins before the one before it, or there are none.
    pub fn order(&self) -> Option<Order> {
        order_of(self.program())
    }
}

impl Blocks {
    /// As [`Layout::blocks_from`], with the memory of these.
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
                    let by = repeat.stride.wrapping_mul(turn.cast_signed()).wrapping_add(repeat.offset);
                    base = base.wrapping_add(by);
                    program = &repeat.body;
                }
            }
        }
    }
}

impl Iterator for Blocks {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
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
                    let by = repeat.stride.wrapping_mul(frame.turn.cast_signed()).wrapping_add(repeat.offset);
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
            return Some(Block { offset, len: block - skip });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(layout: &Layout, from: usize) -> Vec<(isize, usize)> {
        layout.blocks_from(from).map(|b| (b.offset, b.len)).collect()
    }

    /// The bytes of a struct of vectors, from every place.
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
    fn order_is_told() {
        let int = Layout::basic(4, 4);
        let of = |blocks: &[(usize, isize)]| Layout::hindexed(blocks.iter().copied(), &int).unwrap().order();
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
