//! The copy program of a layout: where the data bytes lie, in packed order.
//!
//! A program is a list of items. A [`Run`] is a regular pattern of blocks, the usual leaf; a [`Repeat`] repeats
//! another program at a stride, so that a type of a million structs stays as small as one struct. Offsets are added
//! with wrap-around: the layout checks the bounds of the data, and every block lies within these.

use std::sync::Arc;

/// `count` blocks of `block` bytes, `stride` bytes from start to start, the first one `offset` bytes from the
/// element's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Of the first block, from the address of the element.
    pub offset: isize,
    /// Bytes in a block.
    pub block: usize,
    /// How many blocks.
    pub count: usize,
    /// Bytes from the start of a block to the start of the next; 0 if there is only one.
    pub stride: isize,
}

/// A program repeated.
#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    pub(crate) offset: isize,
    pub(crate) count: usize,
    pub(crate) stride: isize,
    pub(crate) body: Arc<Program>,
}

/// One line of a program.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Run(Run),
    Repeat(Repeat),
}

/// The items in packed order, and where each begins in the packed form.
#[derive(Debug, Default)]
pub(crate) struct Program {
    items: Box<[Item]>,
    starts: Box<[usize]>,
    size: usize,
    /// How deep repeated programs nest in it.
    depth: u32,
}

/// Programs of up to so many items are copied into the one that uses them once; longer ones are shared.
const INLINE_ITEMS: usize = 64;

impl Run {
    /// A run in its simplest form: blocks that touch become one.
    #[inline(always)]
    fn new(offset: isize, block: usize, count: usize, stride: isize) -> Run {
        if count == 1 {
            Run { offset, block, count, stride: 0 }
        } else if stride == block.cast_signed() {
            Run { offset, block: block * count, count: 1, stride: 0 }
        } else {
            Run { offset, block, count, stride }
        }
    }

    /// The packed bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.block * self.count
    }

    /// `count` times this run, the first at `offset` and each `stride` after the one before, if that is one run too. Neither
    /// count is 0.
    #[inline(always)]
    pub(crate) fn repeated(&self, count: usize, stride: isize, offset: isize) -> Option<Run> {
        let first = Run { offset: self.offset.wrapping_add(offset), ..*self };
        match (count, self.count) {
            (1, _) => Some(first),
            (_, 1) => Some(Run::new(first.offset, self.block, count, stride)),
            (_, n) if self.next_offset().wrapping_sub(self.offset) == stride => {
                Some(Run::new(first.offset, self.block, n * count, self.stride))
            }
            _ => None,
        }
    }

    /// Where the block after the last one would begin.
    fn next_offset(&self) -> isize {
        self.offset.wrapping_add(self.stride.wrapping_mul(self.count.cast_signed()))
    }

    /// This run and the one after it in packed order as one, if one pattern covers both.
    fn joined(&self, next: &Run) -> Option<Run> {
        if self.block != next.block {
            return None;
        }
        let stride = match (self.count, next.count) {
            (1, 1) => next.offset.wrapping_sub(self.offset),
            (1, _) => next.stride,
            _ => self.stride,
        };
        let starts_in_step =
            self.offset.wrapping_add(stride.wrapping_mul(self.count.cast_signed())) == next.offset;
        let keeps_step = next.count == 1 || next.stride == stride;
        let whole = Run { stride, count: self.count + next.count, ..*self };
        (starts_in_step && keeps_step).then_some(whole)
    }
}

impl Item {
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Item::Run(r) => r.size(),
            Item::Repeat(r) => r.body.size * r.count,
        }
    }

    fn shifted(&self, by: isize) -> Item {
        match self {
            Item::Run(r) => Item::Run(Run { offset: r.offset.wrapping_add(by), ..*r }),
            Item::Repeat(r) => Item::Repeat(Repeat { offset: r.offset.wrapping_add(by), ..r.clone() }),
        }
    }
}

impl Program {
    /// The program of one run.
    pub(crate) fn of_run(run: Run) -> Program {
        Program { items: Box::new([Item::Run(run)]), starts: Box::new([0]), size: run.size(), depth: 0 }
    }

    /// How deep repeated programs nest in it.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The items in packed order.
    #[inline]
    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Where each item begins in the packed form.
    #[inline]
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// All packed bytes.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Where the only block begins, if the whole program is one block.
    #[inline]
    pub(crate) fn single_block(&self) -> Option<isize> {
        match &*self.items {
            [Item::Run(Run { offset, count: 1, .. })] => Some(*offset),
            _ => None,
        }
    }

    /// Calls `f` with the blocks of the program at `base`: of its packed bytes, so many are left out and so many at most
    /// taken as `range` says, which is then what remains of both.
    pub(crate) fn blocks(
        &self,
        base: *mut u8,
        range: &mut (usize, usize),
        f: &mut impl FnMut(*mut u8, usize),
    ) {
        for item in &self.items {
            if range.1 == 0 {
                return;
            }
            let size = item.size();
            if range.0 >= size {
                range.0 -= size;
                continue;
            }
            match item {
                Item::Run(run) => {
                    for n in range.0 / run.block..run.count {
                        let at = run.offset.wrapping_add(run.stride.wrapping_mul(n.cast_signed()));
                        let skip = std::mem::take(&mut range.0) % run.block;
                        let len = (run.block - skip).min(range.1);
                        f(base.wrapping_offset(at).wrapping_add(skip), len);
                        range.1 -= len;
                        if range.1 == 0 {
                            return;
                        }
                    }
                }
                Item::Repeat(repeat) => {
                    let first = range.0 / repeat.body.size;
                    range.0 %= repeat.body.size;
                    for n in first..repeat.count {
                        let at = repeat.offset.wrapping_add(repeat.stride.wrapping_mul(n.cast_signed()));
                        repeat.body.blocks(base.wrapping_offset(at), range, f);
                        if range.1 == 0 {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// The index of the item that holds packed byte `at`, which must be below `size`.
    pub(crate) fn item_at(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at) - 1
    }
}

/// Builds a program item by item.
#[derive(Default)]
pub(crate) struct ProgramBuilder {
    items: Vec<Item>,
}

impl ProgramBuilder {
    /// Appends `count` times `program`, the first at `offset` and each `stride` after the one before.
    pub(crate) fn repeat(&mut self, program: &Arc<Program>, count: usize, stride: isize, offset: isize) {
        if count == 0 || program.size == 0 {
            return;
        }
        if count == 1 && program.items.len() <= INLINE_ITEMS {
            for item in &program.items {
                self.push(item.shifted(offset));
            }
            return;
        }
        let item = match &*program.items {
            [Item::Run(run)] if let Some(run) = run.repeated(count, stride, offset) => Item::Run(run),
            [Item::Repeat(r)] if r.stride.wrapping_mul(r.count.cast_signed()) == stride => {
                let at = r.offset.wrapping_add(offset);
                Item::Repeat(Repeat { offset: at, count: r.count * count, ..r.clone() })
            }
            _ => Item::Repeat(Repeat { offset, count, stride, body: Arc::clone(program) }),
        };
        self.push(item);
    }

    /// Appends `count` times `run`, the first at `offset` and each `stride` after the one before. Whether that was one run.
    pub(crate) fn repeat_run(&mut self, run: &Run, count: usize, stride: isize, offset: isize) -> bool {
        let whole = run.repeated(count, stride, offset);
        if let Some(run) = whole {
            self.push(Item::Run(run));
        }
        whole.is_some()
    }

    /// Appends an item; a block that touches the one before is joined to it.
    fn push(&mut self, item: Item) {
        if let (Some(Item::Run(last)), Item::Run(new)) = (self.items.last_mut(), &item)
            && last.count == 1
            && new.count == 1
            && last.offset.wrapping_add(last.block.cast_signed()) == new.offset
        {
            last.block += new.block;
            return;
        }
        self.items.push(item);
    }

    /// The program, with regular patterns recognised. This is a second pass because touching blocks must be joined
    /// first: (0, 8), (16, 8), (24, 8) is a block of 8 and one of 16, not a pattern of two and a rest.
    pub(crate) fn finish(self) -> Program {
        let mut items: Vec<Item> = Vec::with_capacity(self.items.len().min(INLINE_ITEMS));
        for item in self.items {
            if let (Some(Item::Run(last)), Item::Run(new)) = (items.last_mut(), &item)
                && let Some(both) = last.joined(new)
            {
                *last = both;
                continue;
            }
            items.push(item);
        }
        let mut size = 0;
        let starts = items
            .iter()
            .map(|item| {
                let start = size;
                size += item.size();
                start
            })
            .collect();
        let level = |item: &Item| match item {
            Item::Run(_) => 0,
            Item::Repeat(repeat) => repeat.body.depth + 1,
        };
        let depth = items.iter().map(level).max().unwrap_or(0);
        Program { items: items.into_boxed_slice(), starts, size, depth }
    }
}
