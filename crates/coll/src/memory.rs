//! The memory of a collective call: contiguous buffers and lists of blocks.

use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::device::DeviceFault;
use oxmpi_mem::layout::Layout;
use std::sync::Arc;

/// The memory of a call whose buffers have one address, count and datatype each.
#[derive(Debug, Clone)]
pub struct Buffers {
    /// The contribution of this rank; not used in place.
    pub input: UserBuf,
    /// The buffer of the result, or the only buffer of a broadcast.
    pub output: UserBuf,
    /// The layout of a reduction's datatype, for temporaries.
    pub element: Option<Arc<Layout>>,
}

/// The memory of any call.
#[derive(Debug, Clone)]
pub struct Memory {
    pub input: Area,
    pub output: Area,
    pub element: Option<Arc<Layout>>,
}

impl From<Buffers> for Memory {
    fn from(buffers: Buffers) -> Memory {
        let Buffers { input, output, element } = buffers;
        Memory { input: Area::Whole(input), output: Area::Whole(output), element }
    }
}

/// A buffer as a plan sees it: a sequence of packed bytes.
#[derive(Debug, Clone)]
pub enum Area {
    Whole(UserBuf),
    /// Blocks anywhere in memory, each with its own layout, packed one after another.
    Blocks(BlockList),
}

impl From<UserBuf> for Area {
    fn from(buffer: UserBuf) -> Area {
        Area::Whole(buffer)
    }
}

/// The blocks of a buffer, each with its offset in the packed data.
#[derive(Debug, Clone)]
pub struct BlockList {
    blocks: Arc<[(usize, UserBuf)]>,
    len: usize,
}

impl BlockList {
    /// The list of these blocks, in order.
    pub fn new(blocks: impl IntoIterator<Item = UserBuf>) -> BlockList {
        let mut len = 0_usize;
        let place = |block: UserBuf| {
            let start = len;
            len = len.saturating_add(block.packed_len());
            (start, block)
        };
        let blocks = blocks.into_iter().map(place).collect();
        BlockList { blocks, len }
    }

    pub(crate) fn buffers(&self) -> impl Iterator<Item = &UserBuf> {
        self.blocks.iter().map(|(_, block)| block)
    }

    /// The packed length of each block, in bytes.
    pub fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.blocks.iter().map(|(_, block)| block.packed_len())
    }
}

#[derive(Debug)]
struct AreaPart<'a> {
    buffer: &'a UserBuf,
    at: usize,
    len: usize,
}

impl Area {
    pub(crate) const EMPTY: Area = Area::Whole(UserBuf::empty());

    /// Packed length, in bytes.
    pub fn packed_len(&self) -> usize {
        match self {
            Area::Whole(buffer) => buffer.packed_len(),
            Area::Blocks(list) => list.len,
        }
    }

    /// Whether any part of the area is in a device.
    #[inline]
    pub fn is_on_device(&self) -> bool {
        match self {
            Area::Whole(buffer) => buffer.is_on_device(),
            Area::Blocks(list) => list.buffers().any(UserBuf::is_on_device),
        }
    }

    /// The buffer, if the area is not a list of blocks.
    pub fn as_whole(&self) -> Option<&UserBuf> {
        match self {
            Area::Whole(buffer) => Some(buffer),
            Area::Blocks(_) => None,
        }
    }

    /// Calls [`UserBuf::renew`] for each buffer.
    pub fn renew(&self) {
        match self {
            Area::Whole(buffer) => buffer.renew(),
            Area::Blocks(list) => list.buffers().for_each(UserBuf::renew),
        }
    }

    /// Calls [`UserBuf::settle`] for each buffer, and returns the first failure.
    pub fn settle(&self) -> Result<(), DeviceFault> {
        match self {
            Area::Whole(buffer) => buffer.settle(),
            Area::Blocks(list) => list.buffers().map(UserBuf::settle).fold(Ok(()), Result::and),
        }
    }

    /// The range as a buffer, if it is in one block and has an address and whole elements.
    pub fn packed_range(&self, start: usize, len: usize) -> Option<UserBuf> {
        let mut parts = self.parts(start, len);
        let Some(AreaPart { buffer, at, len }) = parts.next() else {
            return Some(UserBuf::empty());
        };
        if parts.next().is_some() { None } else { buffer.packed_range(at, len) }
    }

    /// Copies packed bytes of another area into this one.
    pub fn copy_from(&self, start: usize, other: &Area, other_start: usize, len: usize) {
        let (mut into, mut from) = (self.parts(start, len), other.parts(other_start, len));
        let (mut to, mut source) = (into.next(), from.next());
        while let (Some(target), Some(given)) = (&mut to, &mut source) {
            let step = target.len.min(given.len);
            target.buffer.copy_from(target.at, given.buffer, given.at, step);
            for part in [&mut *target, &mut *given] {
                part.at += step;
                part.len -= step;
            }
            if target.len == 0 {
                to = into.next();
            }
            if source.as_ref().is_some_and(|given| given.len == 0) {
                source = from.next();
            }
        }
    }

    /// Calls `take` for each buffer of the packed bytes `start .. start + len`, with the offset in
    /// the packed buffer and the length.
    pub fn each_part(
        &self,
        start: usize,
        len: usize,
        mut take: impl FnMut(&UserBuf, usize, usize),
    ) {
        self.parts(start, len).for_each(|AreaPart { buffer, at, len }| take(buffer, at, len));
    }

    fn parts(&self, start: usize, len: usize) -> impl Iterator<Item = AreaPart<'_>> {
        let end = start + len;
        let (whole, blocks) = match self {
            Area::Whole(buffer) => (Some(AreaPart { buffer, at: start, len }), &[][..]),
            Area::Blocks(list) => {
                let first =
                    list.blocks.partition_point(|(begin, _)| *begin <= start).saturating_sub(1);
                (None, &list.blocks[first..])
            }
        };
        let in_blocks =
            blocks.iter().take_while(move |(begin, _)| *begin < end).map(move |(begin, buffer)| {
                let at = start.saturating_sub(*begin);
                let until = (end - begin).min(buffer.packed_len());
                AreaPart { buffer, at, len: until.saturating_sub(at) }
            });
        whole.into_iter().chain(in_blocks).filter(|part| part.len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_mem::memory::Owned;

    fn area(lengths: &[usize]) -> (Owned<u8>, Area) {
        let memory = Owned::new((0..200).collect::<Vec<u8>>());
        let mut at = 0;
        let mut block = |len: &usize| {
            at += 3 + len;
            memory.buf().elements(at - len, *len)
        };
        let blocks = lengths.iter().map(&mut block).collect::<Vec<_>>();
        (memory, Area::Blocks(BlockList::new(blocks)))
    }

    fn bytes_of(area: &Area, start: usize, len: usize) -> Vec<u8> {
        let copy = Owned::new(vec![0_u8; len]);
        Area::Whole(copy.buf()).copy_from(0, area, start, len);
        copy.into_vec().unwrap_or_default()
    }

    #[test]
    fn a_range_in_one_block_is_a_buffer_and_others_are_not() {
        let (_memory, area) = area(&[4, 0, 2, 0, 5]);
        assert_eq!(area.packed_len(), 11);
        for (start, len, in_one) in [
            (0, 4, true),
            (1, 2, true),
            (4, 2, true),
            (3, 2, false),
            (6, 5, true),
            (0, 11, false),
            (11, 0, true),
        ] {
            assert_eq!(area.packed_range(start, len).is_some(), in_one, "{start}+{len}");
        }
    }

    #[test]
    fn ranges_are_copied_across_blocks_of_both_sides() {
        let (_memory, from) = area(&[4, 0, 2, 0, 5]);
        let whole = bytes_of(&from, 0, 11);
        assert_eq!(whole, [3, 4, 5, 6, 13, 14, 21, 22, 23, 24, 25]);
        for start in 0..=11 {
            for len in 0..=11 - start {
                assert_eq!(bytes_of(&from, start, len), whole[start..start + len], "{start}+{len}");
                let (_memory, into) = area(&[0, 1, 1, 8, 0, 3]);
                let before = bytes_of(&into, 0, 13);
                into.copy_from(1, &from, start, len);
                let after = bytes_of(&into, 0, 13);
                assert_eq!(after[1..=len], whole[start..start + len]);
                assert_eq!((after[0], &after[1 + len..]), (before[0], &before[1 + len..]));
            }
        }
    }
}
