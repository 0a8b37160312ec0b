//! Runs a copy program between a user's memory and its packed form, in either direction, for any
//! packed range.
//!
//! Most time is spent in [`equal_blocks`], on a grid of blocks (one stride in memory and another in
//! the packed form) or a list of blocks. An array of small structs is copied member by member over
//! a tile of elements, so that the grid is long.

use crate::program::{BlockRun, CopyProgram, Gather, Item, Scatter};
use oxmpi_sys::bytes::{Bytes, BytesMut, PLAIN_COPY_BYTES};

/// The bytes of the wider side that a tile spans, so that both sides stay in the first-level cache.
const TILE_BYTES: usize = 8 << 10;

/// The position of a sequential reader, which finds its next part without a search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResumePoint {
    element: usize,
    item: usize,
}

/// The two sides of a copy: from the user's memory to the packed form if `PACK`, otherwise back.
#[derive(Clone, Copy)]
pub(crate) struct Sides<const PACK: bool> {
    pub(crate) user: *mut u8,
    pub(crate) packed: *mut u8,
}

impl<const PACK: bool> Sides<PACK> {
    #[inline]
    fn at(self, user: isize, packed: usize) -> Self {
        Sides { user: self.user.wrapping_offset(user), packed: self.packed.wrapping_add(packed) }
    }

    #[inline]
    fn ends(self) -> (*const u8, *mut u8) {
        if PACK { (self.user, self.packed) } else { (self.packed, self.user) }
    }

    /// Copies `len` bytes. Safety: both sides are mapped for `len` bytes, the target writable.
    #[inline]
    pub(crate) unsafe fn bytes(self, len: usize) {
        let (from, to) = self.ends();
        // SAFETY: as the caller promises.
        unsafe { Bytes::from_raw(from, len).copy_to(BytesMut::from_raw(to, len)) }
    }

    /// Copies `len` bytes, fewer than [`PLAIN_COPY_BYTES`], by the C library directly. Safety: as
    /// for [`bytes`](Self::bytes).
    #[inline(always)]
    unsafe fn block(self, len: usize) {
        let (from, to) = self.ends();
        // SAFETY: as the caller promises. Not `copy_nonoverlapping`: a program may erroneously name
        // overlapping memory, which must not be undefined behaviour here.
        unsafe { std::ptr::copy(from, to, len) }
    }

    /// Copies `N` bytes in registers. Safety: as for [`bytes`](Self::bytes).
    #[inline(always)]
    unsafe fn fixed<const N: usize>(self) {
        let (from, to) = self.ends();
        // SAFETY: as the caller promises; byte arrays need no alignment.
        unsafe { to.cast::<[u8; N]>().write_unaligned(from.cast::<[u8; N]>().read_unaligned()) }
    }

    /// Copies `N <= len <= 2 N` bytes as two overlapping `N`. Safety: as [`bytes`](Self::bytes).
    #[inline(always)]
    unsafe fn two_halves<const N: usize>(self, len: usize) {
        let (from, to) = self.ends();
        // SAFETY: as the caller promises: both halves lie within the `len` bytes.
        unsafe {
            let head = from.cast::<[u8; N]>().read_unaligned();
            let tail = from.wrapping_add(len - N).cast::<[u8; N]>().read_unaligned();
            to.cast::<[u8; N]>().write_unaligned(head);
            to.wrapping_add(len - N).cast::<[u8; N]>().write_unaligned(tail);
        }
    }

    /// Copies `len` bytes; fast for few bytes. Safety: as for [`bytes`](Self::bytes).
    #[inline(always)]
    unsafe fn few(self, len: usize) {
        // SAFETY: as the caller promises, the lengths by the pattern of the arm.
        unsafe {
            match len {
                8 => self.fixed::<8>(),
                4..=7 => self.two_halves::<4>(len),
                9..=16 => self.two_halves::<8>(len),
                17..=32 => self.two_halves::<16>(len),
                33..=64 => self.two_halves::<32>(len),
                65..PLAIN_COPY_BYTES => self.block(len),
                _ => self.bytes(len),
            }
        }
    }
}

/// `count` blocks of `block` bytes, at one stride in memory and another in the packed form.
#[derive(Clone, Copy)]
struct Grid {
    block: usize,
    count: usize,
    user_stride: isize,
    packed_stride: usize,
}

trait EqualBlocks: Copy {
    fn block(self) -> usize;

    fn each<const PACK: bool>(self, sides: Sides<PACK>, copy: impl Fn(Sides<PACK>));
}

impl EqualBlocks for Grid {
    fn block(self) -> usize {
        self.block
    }

    #[inline(always)]
    fn each<const PACK: bool>(self, mut sides: Sides<PACK>, copy: impl Fn(Sides<PACK>)) {
        for _ in 0..self.count {
            copy(sides);
            sides = sides.at(self.user_stride, self.packed_stride);
        }
    }
}

/// Blocks of `block` bytes at these offsets in the user's memory, contiguous in the packed form.
#[derive(Clone, Copy)]
struct Scattered<'a> {
    block: usize,
    offsets: &'a [isize],
}

impl EqualBlocks for Scattered<'_> {
    fn block(self) -> usize {
        self.block
    }

    #[inline(always)]
    fn each<const PACK: bool>(self, mut sides: Sides<PACK>, copy: impl Fn(Sides<PACK>)) {
        for &offset in self.offsets {
            copy(sides.at(offset, 0));
            sides = sides.at(0, self.block);
        }
    }
}

/// Copies blocks of one length, at positions that count from `sides`. Safety: every block is mapped
/// on both sides, the target writable.
#[inline]
unsafe fn equal_blocks<const PACK: bool>(s: Sides<PACK>, g: impl EqualBlocks) {
    // SAFETY: each arm visits exactly these blocks, which are mapped as the caller
    // promises; the length in each arm is that of the block.
    unsafe {
        match g.block() {
            1 => g.each(s, |s| s.fixed::<1>()),
            2 => g.each(s, |s| s.fixed::<2>()),
            3 => g.each(s, |s| s.two_halves::<2>(3)),
            4 => g.each(s, |s| s.fixed::<4>()),
            8 => g.each(s, |s| s.fixed::<8>()),
            12 => g.each(s, |s| s.two_halves::<8>(12)),
            16 => g.each(s, |s| s.fixed::<16>()),
            24 => g.each(s, |s| s.fixed::<24>()),
            32 => g.each(s, |s| s.fixed::<32>()),
            n @ 5..=7 => g.each(s, |s| s.two_halves::<4>(n)),
            n @ 9..=15 => g.each(s, |s| s.two_halves::<8>(n)),
            n @ 17..=31 => g.each(s, |s| s.two_halves::<16>(n)),
            n @ 33..=64 => g.each(s, |s| s.two_halves::<32>(n)),
            n if n < PLAIN_COPY_BYTES => g.each(s, |s| s.block(n)),
            n => g.each(s, |s| s.bytes(n)),
        }
    }
}

/// Copies `count` whole elements, `extent` apart, the first at `sides`. Safety: all their data are
/// mapped in the user's memory, and `count * program.size()` packed bytes; the target is writable.
unsafe fn whole<const PACK: bool>(
    program: &CopyProgram,
    sides: Sides<PACK>,
    extent: isize,
    count: usize,
) {
    let size = program.size();
    if let [Item::Run(run)] = program.items()
        && run.count == 1
    {
        let g = Grid { block: run.block, count, user_stride: extent, packed_stride: size };
        // SAFETY: the blocks of this grid are the data of the elements.
        return unsafe { equal_blocks(sides.at(run.offset, 0), g) };
    }
    let tile = (TILE_BYTES / extent.unsigned_abs().max(size).max(1)).max(1);
    let mut done = 0;
    while done < count {
        let n = tile.min(count - done);
        let at = sides.at(extent.wrapping_mul(done.cast_signed()), done * size);
        for (item, &start) in program.items().iter().zip(program.starts()) {
            match item {
                // SAFETY: the run's only block in the only element.
                Item::Run(run) if n == 1 && run.count == 1 => unsafe {
                    at.at(run.offset, start).few(run.block)
                },
                // SAFETY: the run belongs to each of the `n` elements in the caller's range.
                Item::Run(run) => unsafe {
                    run_of_each(run, at.at(run.offset, start), extent, size, n)
                },
                // SAFETY: as above.
                Item::Scatter(list) => unsafe {
                    scatter_of_each(list, at.at(list.offset, start), extent, size, n);
                },
                // SAFETY: as above.
                Item::Gather(list) => unsafe {
                    gather_of_each(list, at.at(list.offset, start), extent, size, n);
                },
                Item::Repeat(r) => {
                    for e in 0..n {
                        let at = at.at(
                            r.offset.wrapping_add(extent.wrapping_mul(e.cast_signed())),
                            start + e * size,
                        );
                        // SAFETY: as above: elements of the body within an element of the caller.
                        unsafe { whole(&r.body, at, r.stride, r.count) }
                    }
                }
            }
        }
        done += n;
    }
}

/// Copies one run of each of `n` elements. The inner loop goes over blocks or over elements,
/// whichever are more. Safety: the run's blocks of all `n` elements are mapped on both sides, the
/// target writable.
unsafe fn run_of_each<const PACK: bool>(
    run: &BlockRun,
    s: Sides<PACK>,
    extent: isize,
    size: usize,
    n: usize,
) {
    if run.count < n {
        for block in 0..run.count {
            let g = Grid { block: run.block, count: n, user_stride: extent, packed_stride: size };
            // SAFETY: block number `block` of the run in each element.
            unsafe {
                equal_blocks(
                    s.at(run.stride.wrapping_mul(block.cast_signed()), block * run.block),
                    g,
                )
            }
        }
    } else {
        for e in 0..n {
            let g = Grid {
                block: run.block,
                count: run.count,
                user_stride: run.stride,
                packed_stride: run.block,
            };
            // SAFETY: all blocks of the run in element `e`.
            unsafe { equal_blocks(s.at(extent.wrapping_mul(e.cast_signed()), e * size), g) }
        }
    }
}

/// [`run_of_each`] for blocks in no regular pattern, whose offsets count from `s`. Safety: as for
/// [`run_of_each`].
unsafe fn scatter_of_each<const PACK: bool>(
    list: &Scatter,
    s: Sides<PACK>,
    extent: isize,
    size: usize,
    n: usize,
) {
    let (block, offsets) = (list.block, &*list.offsets);
    if offsets.len() < n {
        for (i, &offset) in offsets.iter().enumerate() {
            let g = Grid { block, count: n, user_stride: extent, packed_stride: size };
            // SAFETY: block number `i` of the list in each element.
            unsafe { equal_blocks(s.at(offset, i * block), g) }
        }
    } else {
        for e in 0..n {
            let at = s.at(extent.wrapping_mul(e.cast_signed()), e * size);
            // SAFETY: all blocks of the list in element `e`.
            unsafe { equal_blocks(at, Scattered { block, offsets }) }
        }
    }
}

/// [`scatter_of_each`] for blocks of different lengths. Safety: as for [`run_of_each`].
unsafe fn gather_of_each<const PACK: bool>(
    list: &Gather,
    s: Sides<PACK>,
    extent: isize,
    size: usize,
    n: usize,
) {
    if list.count() < n {
        for places in list.blocks.windows(2) {
            let block = places[1].start - places[0].start;
            let g = Grid { block, count: n, user_stride: extent, packed_stride: size };
            // SAFETY: this block of the list in each element.
            unsafe { equal_blocks(s.at(places[0].offset, places[0].start), g) }
        }
    } else {
        for e in 0..n {
            let at = s.at(extent.wrapping_mul(e.cast_signed()), e * size);
            for places in list.blocks.windows(2) {
                // SAFETY: this block of the list in element `e`.
                unsafe {
                    at.at(places[0].offset, places[0].start).few(places[1].start - places[0].start);
                }
            }
        }
    }
}

/// Copies packed bytes `from..to` of one element at `user`; `packed` is the address of byte `from`.
/// The search starts at item `hint`, which becomes the item of the last copied byte. Safety: as for
/// [`whole`], for the data of that range, which is within the element.
unsafe fn part<const PACK: bool>(
    program: &CopyProgram,
    sides: Sides<PACK>,
    (from, to): (usize, usize),
    hint: &mut usize,
) {
    let (items, starts) = (program.items(), program.starts());
    let holds = |i: usize| starts.get(i).is_some_and(|&s| s <= from && from < s + items[i].size());
    let mut i =
        [*hint, *hint + 1].into_iter().find(|&i| holds(i)).unwrap_or_else(|| program.item_at(from));
    let mut pos = from;
    loop {
        let item = &items[i];
        let end = (starts[i] + item.size()).min(to);
        let range = (pos - starts[i], end - starts[i]);
        let at = sides.at(0, pos - from);
        // SAFETY: `range` is the part of this item that the caller's range covers.
        unsafe {
            match item {
                Item::Run(run) => part_of_run(run, at, range),
                Item::Scatter(list) => part_of_scatter(list, at, range),
                Item::Gather(list) => part_of_gather(list, at, range),
                Item::Repeat(r) => {
                    elements(
                        &r.body,
                        at.at(r.offset, 0),
                        r.stride,
                        range,
                        &mut ResumePoint::default(),
                    );
                }
            }
        }
        pos = end;
        if pos == to {
            *hint = i;
            return;
        }
        i += 1;
    }
}

/// Copies packed bytes `from..to` of a run of the element at `sides`. Safety: as for [`part`].
unsafe fn part_of_run<const PACK: bool>(
    run: &BlockRun,
    sides: Sides<PACK>,
    (from, to): (usize, usize),
) {
    let place = |block: usize, within: usize| {
        let at = run.stride.wrapping_mul(block.cast_signed()).wrapping_add(within.cast_signed());
        sides.at(run.offset.wrapping_add(at), block * run.block + within - from)
    };
    if run.count == 1 {
        // SAFETY: the caller's range of the only block.
        return unsafe { place(0, from).bytes(to - from) };
    }
    let (first, head) = (from / run.block, from % run.block);
    let (last, tail) = (to / run.block, to % run.block);
    // SAFETY: the parts of the first and the last block and the whole blocks between are the
    // caller's range.
    unsafe {
        if first == last {
            return place(first, head).bytes(to - from);
        }
        let mut next = first;
        if head > 0 {
            place(first, head).bytes(run.block - head);
            next += 1;
        }
        if next < last {
            let g = Grid {
                block: run.block,
                count: last - next,
                user_stride: run.stride,
                packed_stride: run.block,
            };
            equal_blocks(place(next, 0), g);
        }
        if tail > 0 {
            place(last, 0).bytes(tail);
        }
    }
}

/// [`part_of_run`] for blocks in no regular pattern. Safety: as for [`part`].
unsafe fn part_of_scatter<const PACK: bool>(
    list: &Scatter,
    sides: Sides<PACK>,
    (from, to): (usize, usize),
) {
    let (block, offsets) = (list.block, &*list.offsets);
    let place = |i: usize, within: usize| {
        let at = list.offset.wrapping_add(offsets[i]).wrapping_add(within.cast_signed());
        sides.at(at, i * block + within - from)
    };
    let (first, head) = (from / block, from % block);
    let (last, tail) = (to / block, to % block);
    // SAFETY: as in [`part_of_run`].
    unsafe {
        if first == last {
            return place(first, head).bytes(to - from);
        }
        let mut next = first;
        if head > 0 {
            place(first, head).bytes(block - head);
            next += 1;
        }
        let whole = Scattered { block, offsets: &offsets[next..last] };
        equal_blocks(sides.at(list.offset, next * block - from), whole);
        if tail > 0 {
            place(last, 0).bytes(tail);
        }
    }
}

/// [`part_of_scatter`] for blocks of different lengths. Safety: as for [`part`].
unsafe fn part_of_gather<const PACK: bool>(
    list: &Gather,
    sides: Sides<PACK>,
    (from, to): (usize, usize),
) {
    if from == to {
        return;
    }
    for i in list.block_at(from)..list.count() {
        let (offset, start, block) = list.block(i);
        if start >= to {
            return;
        }
        let skip = from.saturating_sub(start);
        let len = block.min(to - start) - skip;
        let at = sides.at(offset.wrapping_add(skip.cast_signed()), start + skip - from);
        // SAFETY: the part of this block that lies in the caller's range.
        unsafe { at.few(len) }
    }
}

/// Copies packed bytes `from..to` of an array of elements at `sides.user`; `sides.packed` is the
/// address of byte `from`. `place` is a guess of the position, which the function checks and
/// advances. Safety: as for [`whole`], for the data of that range.
pub(crate) unsafe fn elements<const PACK: bool>(
    program: &CopyProgram,
    sides: Sides<PACK>,
    extent: isize,
    (from, to): (usize, usize),
    place: &mut ResumePoint,
) {
    let size = program.size();
    if from >= to || size == 0 {
        return;
    }
    let in_place =
        place.element.checked_mul(size).is_some_and(|start| start <= from && from - start <= size);
    let mut element = if in_place { place.element } else { from / size };
    let mut head = from - element * size;
    if head == size {
        (element, head) = (element + 1, 0);
    }
    let mut pos = from;
    let at = |element: usize, pos: usize| {
        sides.at(extent.wrapping_mul(element.cast_signed()), pos - from)
    };
    // SAFETY: the rest of the first element, whole elements, and the beginning of the last element
    // are the caller's range.
    unsafe {
        if head > 0 || to - pos < size {
            let end = size.min(head + (to - pos));
            let mut item = if element == place.element { place.item } else { 0 };
            part(program, at(element, pos), (head, end), &mut item);
            *place = ResumePoint { element, item };
            pos += end - head;
            if end < size {
                return;
            }
            element += 1;
        }
        let n = (to - pos) / size;
        whole(program, at(element, pos), extent, n);
        element += n;
        pos += n * size;
        *place = ResumePoint { element, item: 0 };
        if pos < to {
            part(program, at(element, pos), (0, to - pos), &mut place.item);
        }
    }
}
