//! Running a copy program: between a user's memory and its packed form, in either direction, for any packed range.
//!
//! The time goes into [`grid`]: equal blocks at one stride on the user's side and another on the packed side. An
//! array of small structs is copied member by member over a tile of elements, so that even there a grid is long.

use crate::program::{Item, Program, Run};
use oxmpi_sys::bytes::{Bytes, BytesMut};

/// How many bytes of the wider side a tile spans, so that both sides of it stay in the first-level cache.
const TILE_BYTES: usize = 8 << 10;

/// Where a sequential reader stands, so that the next part is found without a search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    element: usize,
    item: usize,
}

/// The two sides of a copy. `PACK`: from the user's memory to the packed form; otherwise back.
#[derive(Clone, Copy)]
pub(crate) struct Sides<const PACK: bool> {
    pub(crate) user: *mut u8,
    /// Only read if not `PACK`, and the user's side only if `PACK`.
    pub(crate) packed: *mut u8,
}

impl<const PACK: bool> Sides<PACK> {
    #[inline]
    fn at(self, user: isize, packed: usize) -> Self {
        Sides { user: self.user.wrapping_offset(user), packed: self.packed.wrapping_add(packed) }
    }

    #[inline]
    /// Where to read and where to write.
    fn ends(self) -> (*const u8, *mut u8) {
        if PACK { (self.user, self.packed) } else { (self.packed, self.user) }
    }

    /// Copies `len` bytes.
    ///
    /// # Safety
    /// Both sides are mapped for `len` bytes, the target writable.
    #[inline]
    pub(crate) unsafe fn bytes(self, len: usize) {
        let (from, to) = self.ends();
        // SAFETY: as the caller promises.
        unsafe { Bytes::from_raw(from, len).copy_to(BytesMut::from_raw(to, len)) }
    }

    /// Copies `N` bytes, in registers.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes).
    #[inline(always)]
    unsafe fn fixed<const N: usize>(self) {
        let (from, to) = self.ends();
        // SAFETY: as the caller promises; byte arrays need no alignment.
        unsafe { to.cast::<[u8; N]>().write_unaligned(from.cast::<[u8; N]>().read_unaligned()) }
    }

    /// Copies `len` bytes, `N <= len <= 2 N`, as the first `N` and the last `N`.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes).
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

    /// Copies `len` bytes, most likely few.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes).
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
                _ => self.bytes(len),
            }
        }
    }
}

/// `count` blocks of `block` bytes, at one stride in the user's memory and another in the packed form.
#[derive(Clone, Copy)]
struct Grid {
    block: usize,
    count: usize,
    user_stride: isize,
    packed_stride: usize,
}

impl Grid {
    #[inline(always)]
    fn each<const PACK: bool>(self, mut sides: Sides<PACK>, copy: impl Fn(Sides<PACK>)) {
        for _ in 0..self.count {
            copy(sides);
            sides = sides.at(self.user_stride, self.packed_stride);
        }
    }
}

/// Copies a grid whose first block is at `sides`.
///
/// # Safety
/// Every block is mapped on both sides, the target writable.
#[inline]
unsafe fn grid<const PACK: bool>(s: Sides<PACK>, g: Grid) {
    // SAFETY (all arms): each visits exactly the blocks of the grid, which the caller promises to be mapped; the
    // lengths are those of the block by the pattern of the arm.
    match g.block {
        // SAFETY: see above.
        1 => g.each(s, |s| unsafe { s.fixed::<1>() }),
        // SAFETY: see above.
        2 => g.each(s, |s| unsafe { s.fixed::<2>() }),
        // SAFETY: see above.
        3 => g.each(s, |s| unsafe { s.two_halves::<2>(3) }),
        // SAFETY: see above.
        4 => g.each(s, |s| unsafe { s.fixed::<4>() }),
        // SAFETY: see above.
        8 => g.each(s, |s| unsafe { s.fixed::<8>() }),
        // SAFETY: see above.
        12 => g.each(s, |s| unsafe { s.two_halves::<8>(12) }),
        // SAFETY: see above.
        16 => g.each(s, |s| unsafe { s.fixed::<16>() }),
        // SAFETY: see above.
        24 => g.each(s, |s| unsafe { s.fixed::<24>() }),
        // SAFETY: see above.
        32 => g.each(s, |s| unsafe { s.fixed::<32>() }),
        // SAFETY: see above.
        n @ 5..=7 => g.each(s, |s| unsafe { s.two_halves::<4>(n) }),
        // SAFETY: see above.
        n @ 9..=15 => g.each(s, |s| unsafe { s.two_halves::<8>(n) }),
        // SAFETY: see above.
        n @ 17..=31 => g.each(s, |s| unsafe { s.two_halves::<16>(n) }),
        // SAFETY: see above.
        n @ 33..=64 => g.each(s, |s| unsafe { s.two_halves::<32>(n) }),
        // SAFETY: see above.
        n => g.each(s, |s| unsafe { s.bytes(n) }),
    }
}

/// Copies `count` whole elements, `extent` apart, the first at `sides`.
///
/// # Safety
/// All data of these elements are mapped in the user's memory, `count * program.size()` packed bytes likewise; the
/// target is writable.
unsafe fn whole<const PACK: bool>(program: &Program, sides: Sides<PACK>, extent: isize, count: usize) {
    let size = program.size();
    if let [Item::Run(run)] = program.items()
        && run.count == 1
    {
        let g = Grid { block: run.block, count, user_stride: extent, packed_stride: size };
        // SAFETY: the blocks of this grid are the data of the elements.
        return unsafe { grid(sides.at(run.offset, 0), g) };
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
                // SAFETY: the run belongs to each of the `n` elements, which lie in the caller's range.
                Item::Run(run) => unsafe { run_of_each(run, at.at(run.offset, start), extent, size, n) },
                Item::Repeat(r) => {
                    for e in 0..n {
                        let at = at.at(
                            r.offset.wrapping_add(extent.wrapping_mul(e.cast_signed())),
                            start + e * size,
                        );
                        // SAFETY: as above: these are elements of the body within an element of the caller's.
                        unsafe { whole(&r.body, at, r.stride, r.count) }
                    }
                }
            }
        }
        done += n;
    }
}

/// Copies one run of each of `n` elements, along whichever is longer.
///
/// # Safety
/// The run's blocks in all `n` elements are mapped on both sides, the target writable.
unsafe fn run_of_each<const PACK: bool>(run: &Run, s: Sides<PACK>, extent: isize, size: usize, n: usize) {
    if run.count < n {
        for block in 0..run.count {
            let g = Grid { block: run.block, count: n, user_stride: extent, packed_stride: size };
            // SAFETY: block number `block` of the run in each element.
            unsafe { grid(s.at(run.stride.wrapping_mul(block.cast_signed()), block * run.block), g) }
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
            unsafe { grid(s.at(extent.wrapping_mul(e.cast_signed()), e * size), g) }
        }
    }
}

/// Copies packed bytes `from..to` of one element at `user`; `packed` is the place of byte `from`. `hint` is the item where
/// the search starts; it is left at the item where the copy ended.
///
/// # Safety
/// As for [`whole`], restricted to the data of that range, which must lie within the element.
unsafe fn part<const PACK: bool>(
    program: &Program,
    sides: Sides<PACK>,
    (from, to): (usize, usize),
    hint: &mut usize,
) {
    let (items, starts) = (program.items(), program.starts());
    let holds = |i: usize| starts.get(i).is_some_and(|&s| s <= from && from < s + items[i].size());
    let mut i = [*hint, *hint + 1].into_iter().find(|&i| holds(i)).unwrap_or_else(|| program.item_at(from));
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
                Item::Repeat(r) => {
                    elements(&r.body, at.at(r.offset, 0), r.stride, range, &mut Place::default());
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

/// Copies packed bytes `from..to` of a run of the element at `sides`.
///
/// # Safety
/// As for [`part`].
unsafe fn part_of_run<const PACK: bool>(run: &Run, sides: Sides<PACK>, (from, to): (usize, usize)) {
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
    // SAFETY: the parts of the first and the last block and the whole blocks between make up the caller's range.
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
            grid(place(next, 0), g);
        }
        if tail > 0 {
            place(last, 0).bytes(tail);
        }
    }
}

/// Copies packed bytes `from..to` of an array of elements that begins at `sides.user`; `sides.packed` is the place of
/// byte `from`. `place` is a guess where that is, checked and moved on.
///
/// # Safety
/// As for [`whole`], for the data of that range.
pub(crate) unsafe fn elements<const PACK: bool>(
    program: &Program,
    sides: Sides<PACK>,
    extent: isize,
    (from, to): (usize, usize),
    place: &mut Place,
) {
    let size = program.size();
    if from >= to || size == 0 {
        return;
    }
    let in_place = place.element.checked_mul(size).is_some_and(|start| start <= from && from - start <= size);
    let mut element = if in_place { place.element } else { from / size };
    let mut head = from - element * size;
    if head == size {
        (element, head) = (element + 1, 0);
    }
    let mut pos = from;
    let at = |element: usize, pos: usize| sides.at(extent.wrapping_mul(element.cast_signed()), pos - from);
    // SAFETY: the rest of the element where the range begins, whole elements, and the beginning of the one where it
    // ends make up the caller's range.
    unsafe {
        if head > 0 || to - pos < size {
            let end = size.min(head + (to - pos));
            let mut item = if element == place.element { place.item } else { 0 };
            part(program, at(element, pos), (head, end), &mut item);
            *place = Place { element, item };
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
        *place = Place { element, item: 0 };
        if pos < to {
            part(program, at(element, pos), (0, to - pos), &mut place.item);
        }
    }
}
