//! The copy program of a layout: the positions of the data bytes, in packed order.
//!
//! A program is a list of items. A [`BlockRun`] is a regular pattern of blocks, the usual leaf.
//! Blocks in no regular pattern are a [`Scatter`] if their lengths are equal and a [`Gather`]
//! otherwise. A [`Repeat`] repeats another program at a stride, so a type of a million structs is
//! as small as one struct. Offsets are added with wrap-around: the layout checks that every block
//! is within the bounds of the data.

use std::sync::Arc;

/// `count` blocks of `block` bytes, `stride` bytes from start to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Of the first block, from the element's address.
    pub offset: isize,
    pub block: usize,
    pub count: usize,
    /// 0 if there is only one block.
    pub stride: isize,
}

#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    pub(crate) offset: isize,
    pub(crate) count: usize,
    pub(crate) stride: isize,
    pub(crate) body: Arc<CopyProgram>,
}

/// Blocks of one length in no regular pattern.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    pub(crate) offset: isize,
    pub(crate) block: usize,
    pub(crate) offsets: Arc<[isize]>,
}

/// Blocks of several lengths in no regular pattern.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub(crate) offset: isize,
    /// The last entry is no block: its `start` is the end of the last block.
    pub(crate) blocks: Arc<[GatherBlock]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GatherBlock {
    pub(crate) offset: isize,
    /// Position in the packed form of the list.
    pub(crate) start: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Run(BlockRun),
    Scatter(Scatter),
    Gather(Gather),
    Repeat(Repeat),
}

#[derive(Debug, Default)]
pub(crate) struct CopyProgram {
    items: Items,
    size: usize,
    depth: u32,
}

#[derive(Debug)]
enum Items {
    /// Most programs have one item, which needs no allocation.
    One(Item),
    Many {
        items: Box<[Item]>,
        starts: Box<[usize]>,
    },
}

impl Default for Items {
    fn default() -> Items {
        Items::Many { items: Box::default(), starts: Box::default() }
    }
}

/// A program with at most this number of items is copied where it is used once; a longer one is
/// shared.
const INLINE_ITEMS: usize = 64;

/// From this number on, blocks in no regular pattern are a list.
const LISTED_BLOCKS: usize = 8;

/// From this number on, regular blocks within such a list are a run.
const REGULAR_BLOCKS: usize = 16;

impl BlockRun {
    /// A run in its simplest form: adjacent blocks become one.
    #[inline(always)]
    fn new(offset: isize, block: usize, count: usize, stride: isize) -> BlockRun {
        if count == 1 {
            BlockRun { offset, block, count, stride: 0 }
        } else if stride == block.cast_signed() {
            BlockRun { offset, block: block * count, count: 1, stride: 0 }
        } else {
            BlockRun { offset, block, count, stride }
        }
    }

    /// The packed bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.block * self.count
    }

    /// `count` times this run, shifted by `offset` and `stride`, if that is one run. No count is 0.
    #[inline(always)]
    pub(crate) fn repeated(&self, count: usize, stride: isize, offset: isize) -> Option<BlockRun> {
        let first = BlockRun { offset: self.offset.wrapping_add(offset), ..*self };
        match (count, self.count) {
            (1, _) => Some(first),
            (_, 1) => Some(BlockRun::new(first.offset, self.block, count, stride)),
            (_, n) if self.next_offset().wrapping_sub(self.offset) == stride => {
                Some(BlockRun::new(first.offset, self.block, n * count, self.stride))
            }
            _ => None,
        }
    }

    fn next_offset(&self) -> isize {
        self.offset.wrapping_add(self.stride.wrapping_mul(self.count.cast_signed()))
    }

    /// This run and the next one in packed order, if one pattern covers both.
    fn joined(&self, next: &BlockRun) -> Option<BlockRun> {
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
        let whole = BlockRun { stride, count: self.count + next.count, ..*self };
        (starts_in_step && keeps_step).then_some(whole)
    }

    /// The number of leading `blocks` that form one run.
    fn prefix_of(blocks: &[(isize, usize)]) -> usize {
        let [first, second, ..] = blocks else { return blocks.len() };
        let stride = second.0.wrapping_sub(first.0);
        let in_step =
            |w: &&[(isize, usize)]| w[1].0.wrapping_sub(w[0].0) == stride && w[1].1 == w[0].1;
        1 + blocks.windows(2).take_while(in_step).count()
    }

    pub(crate) fn of_block((offset, block): (isize, usize)) -> BlockRun {
        BlockRun { offset, block, count: 1, stride: 0 }
    }

    fn of_blocks(blocks: &[(isize, usize)]) -> BlockRun {
        let stride = blocks.get(1).map_or(0, |second| second.0.wrapping_sub(blocks[0].0));
        BlockRun { offset: blocks[0].0, block: blocks[0].1, count: blocks.len(), stride }
    }
}

impl Scatter {
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (isize, usize)> {
        self.offsets.iter().map(|at| (self.offset.wrapping_add(*at), self.block))
    }
}

impl Gather {
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.blocks.len() - 1
    }

    #[inline]
    fn size(&self) -> usize {
        self.blocks.last().map_or(0, |end| end.start)
    }

    /// Block `n`: its offset, packed position, and length.
    #[inline]
    pub(crate) fn block(&self, n: usize) -> (isize, usize, usize) {
        let (block, next) = (self.blocks[n], self.blocks[n + 1]);
        (self.offset.wrapping_add(block.offset), block.start, next.start - block.start)
    }

    /// The index of the block that contains packed byte `at`, which must be below the size.
    pub(crate) fn block_at(&self, at: usize) -> usize {
        self.blocks.partition_point(|block| block.start <= at) - 1
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = (isize, usize)> {
        self.blocks
            .windows(2)
            .map(|w| (self.offset.wrapping_add(w[0].offset), w[1].start - w[0].start))
    }
}

impl Item {
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Item::Run(r) => r.size(),
            Item::Scatter(s) => s.block * s.offsets.len(),
            Item::Gather(g) => g.size(),
            Item::Repeat(r) => r.body.size * r.count,
        }
    }

    fn shifted(&self, by: isize) -> Item {
        match self {
            Item::Run(r) => Item::Run(BlockRun { offset: r.offset.wrapping_add(by), ..*r }),
            Item::Scatter(s) => {
                Item::Scatter(Scatter { offset: s.offset.wrapping_add(by), ..s.clone() })
            }
            Item::Gather(g) => {
                Item::Gather(Gather { offset: g.offset.wrapping_add(by), ..g.clone() })
            }
            Item::Repeat(r) => {
                Item::Repeat(Repeat { offset: r.offset.wrapping_add(by), ..r.clone() })
            }
        }
    }

    fn depth(&self) -> u32 {
        match self {
            Item::Repeat(repeat) => repeat.body.depth + 1,
            _ => 0,
        }
    }

    /// The number of lines; each block of an irregular list counts.
    pub(crate) fn lines(&self) -> usize {
        match self {
            Item::Run(_) | Item::Repeat(_) => 1,
            Item::Scatter(s) => s.offsets.len(),
            Item::Gather(g) => g.count(),
        }
    }

    fn runs(&self) -> Option<Vec<BlockRun>> {
        match self {
            Item::Run(run) => Some(vec![*run]),
            Item::Scatter(s) => Some(s.blocks().map(BlockRun::of_block).collect()),
            Item::Gather(g) => Some(g.blocks().map(BlockRun::of_block).collect()),
            Item::Repeat(_) => None,
        }
    }
}

impl CopyProgram {
    pub(crate) fn of_bytes(size: usize) -> CopyProgram {
        if size == 0 {
            return CopyProgram::default();
        }
        CopyProgram::of_item(Item::Run(BlockRun::of_block((0, size))))
    }

    fn of_item(item: Item) -> CopyProgram {
        CopyProgram { size: item.size(), depth: item.depth(), items: Items::One(item) }
    }

    pub(crate) fn repeated(
        program: &Arc<CopyProgram>,
        count: usize,
        stride: isize,
        offset: isize,
    ) -> Arc<CopyProgram> {
        if count == 0 || program.size == 0 {
            return Arc::default();
        }
        if count == 1 && offset == 0 {
            return Arc::clone(program);
        }
        if let [Item::Run(run)] = program.items()
            && let Some(run) = run.repeated(count, stride, offset)
        {
            return Arc::new(CopyProgram::of_item(Item::Run(run)));
        }
        let mut builder = ProgramBuilder::default();
        builder.repeat(program, count, stride, offset);
        Arc::new(builder.finish())
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    #[inline]
    pub(crate) fn items(&self) -> &[Item] {
        match &self.items {
            Items::One(item) => std::slice::from_ref(item),
            Items::Many { items, .. } => items,
        }
    }

    #[inline]
    pub(crate) fn starts(&self) -> &[usize] {
        match &self.items {
            Items::One(_) => &[0],
            Items::Many { starts, .. } => starts,
        }
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    #[inline]
    pub(crate) fn single_block(&self) -> Option<isize> {
        match &self.items {
            Items::One(Item::Run(BlockRun { offset, count: 1, .. })) => Some(*offset),
            _ => None,
        }
    }

    /// The runs in packed order; `None` if a group of several runs is repeated.
    pub(crate) fn runs(&self) -> Option<Vec<BlockRun>> {
        self.items().iter().map(Item::runs).collect::<Option<Vec<_>>>().map(|runs| runs.concat())
    }

    /// Calls `f` with the blocks in `range` (packed bytes to skip, to visit), and updates `range`.
    pub(crate) fn blocks(
        &self,
        base: *mut u8,
        range: &mut (usize, usize),
        f: &mut impl FnMut(*mut u8, usize),
    ) {
        for item in self.items() {
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
                        range.0 %= run.block;
                        one_block(base.wrapping_offset(at), run.block, range, f);
                        if range.1 == 0 {
                            return;
                        }
                    }
                }
                Item::Scatter(scatter) => {
                    let first = range.0 / scatter.block;
                    range.0 %= scatter.block;
                    for at in &scatter.offsets[first..] {
                        let at = base.wrapping_offset(scatter.offset).wrapping_offset(*at);
                        one_block(at, scatter.block, range, f);
                        if range.1 == 0 {
                            return;
                        }
                    }
                }
                Item::Gather(gather) => {
                    let first = gather.block_at(range.0);
                    range.0 -= gather.blocks[first].start;
                    for n in first..gather.count() {
                        let (at, _, len) = gather.block(n);
                        one_block(base.wrapping_offset(at), len, range, f);
                        if range.1 == 0 {
                            return;
                        }
                    }
                }
                Item::Repeat(repeat) => {
                    let first = range.0 / repeat.body.size;
                    range.0 %= repeat.body.size;
                    for n in first..repeat.count {
                        let at =
                            repeat.offset.wrapping_add(repeat.stride.wrapping_mul(n.cast_signed()));
                        repeat.body.blocks(base.wrapping_offset(at), range, f);
                        if range.1 == 0 {
                            return;
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn item_at(&self, at: usize) -> usize {
        self.starts().partition_point(|&start| start <= at) - 1
    }
}

fn one_block(
    at: *mut u8,
    block: usize,
    range: &mut (usize, usize),
    f: &mut impl FnMut(*mut u8, usize),
) {
    let skip = std::mem::take(&mut range.0);
    let len = (block - skip).min(range.1);
    f(at.wrapping_add(skip), len);
    range.1 -= len;
}

#[derive(Default)]
pub(crate) struct ProgramBuilder {
    items: Vec<Item>,
}

impl ProgramBuilder {
    pub(crate) fn with_room(items: usize) -> ProgramBuilder {
        ProgramBuilder { items: Vec::with_capacity(items) }
    }

    /// Appends `count` times `program`, `stride` bytes apart, the first at `offset`.
    pub(crate) fn repeat(
        &mut self,
        program: &Arc<CopyProgram>,
        count: usize,
        stride: isize,
        offset: isize,
    ) {
        if count == 0 || program.size == 0 {
            return;
        }
        let items = program.items();
        if let [Item::Run(run)] = items
            && let Some(run) = run.repeated(count, stride, offset)
        {
            return self.push(Item::Run(run));
        }
        if count == 1 && items.len() <= INLINE_ITEMS {
            return self.inline(items, offset);
        }
        let item = match items {
            [Item::Repeat(r)] if r.stride.wrapping_mul(r.count.cast_signed()) == stride => {
                let at = r.offset.wrapping_add(offset);
                Item::Repeat(Repeat { offset: at, count: r.count * count, ..r.clone() })
            }
            _ => Item::Repeat(Repeat { offset, count, stride, body: Arc::clone(program) }),
        };
        self.push(item);
    }

    /// Appends items. A few items are appended block by block, to join the pattern of their
    /// neighbours.
    fn inline(&mut self, items: &[Item], offset: isize) {
        let are_few = items.iter().map(Item::lines).sum::<usize>() <= INLINE_ITEMS;
        for item in items {
            match item.runs() {
                Some(runs) if are_few => {
                    runs.iter().for_each(|run| self.push(Item::Run(*run).shifted(offset)))
                }
                _ => self.push(item.shifted(offset)),
            }
        }
    }

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

    /// The program, with regular patterns recognised. A second pass, because adjacent blocks must
    /// be joined first: (0, 8), (16, 8), (24, 8) is a block of 8 and one of 16, not a pattern of
    /// two blocks and a rest.
    pub(crate) fn finish(self) -> CopyProgram {
        let (mut all, mut blocks) = (Patterns::default(), Vec::new());
        for item in self.items {
            match item {
                Item::Run(BlockRun { offset, block, count: 1, .. }) => blocks.push((offset, block)),
                other => {
                    all.add_blocks(&blocks);
                    blocks.clear();
                    all.add(other);
                }
            }
        }
        all.add_blocks(&blocks);
        all.program()
    }
}

#[derive(Default)]
struct Patterns(Vec<Item>);

impl Patterns {
    fn add(&mut self, item: Item) {
        if let (Some(Item::Run(last)), Item::Run(new)) = (self.0.last_mut(), &item)
            && let Some(both) = last.joined(new)
        {
            *last = both;
            return;
        }
        self.0.push(item);
    }

    /// Appends blocks: regular ones as runs, the blocks between these as lists.
    fn add_blocks(&mut self, blocks: &[(isize, usize)]) {
        let (mut from, mut at) = (0, 0);
        while at < blocks.len() {
            let regular = BlockRun::prefix_of(&blocks[at..]);
            if regular < REGULAR_BLOCKS && regular < blocks.len() {
                // The last block may begin the next pattern.
                at += (regular - 1).max(1);
                continue;
            }
            self.add_irregular(&blocks[from..at]);
            self.add(Item::Run(BlockRun::of_blocks(&blocks[at..at + regular])));
            at += regular;
            from = at;
        }
        self.add_irregular(&blocks[from..]);
    }

    fn add_irregular(&mut self, blocks: &[(isize, usize)]) {
        if blocks.len() < LISTED_BLOCKS {
            return blocks.iter().for_each(|block| self.add(Item::Run(BlockRun::of_block(*block))));
        }
        let block = blocks[0].1;
        self.0.push(if blocks.iter().all(|b| b.1 == block) {
            Item::Scatter(Scatter {
                offset: 0,
                block,
                offsets: blocks.iter().map(|b| b.0).collect(),
            })
        } else {
            let mut start = 0;
            let places = blocks.iter().chain(std::iter::once(&(0, 0))).map(|&(offset, block)| {
                let place = GatherBlock { offset, start };
                start += block;
                place
            });
            Item::Gather(Gather { offset: 0, blocks: places.collect() })
        });
    }

    fn program(self) -> CopyProgram {
        let mut items = self.0;
        if items.len() == 1
            && let Some(only) = items.pop()
        {
            return CopyProgram::of_item(only);
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
        let depth = items.iter().map(Item::depth).max().unwrap_or(0);
        CopyProgram { items: Items::Many { items: items.into_boxed_slice(), starts }, size, depth }
    }
}
