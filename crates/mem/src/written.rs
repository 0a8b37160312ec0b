//! A layout as numbers, for another process: lower bound, extent, number of items; then the items,
//! each a run (0, offset, block, blocks, stride) or a repeated group (1, offset, times, stride,
//! number of items, the items). The reader does not trust the numbers: it makes the layout by the
//! constructors of a program's datatypes.

use crate::layout::{Layout, LayoutError, MAX_DEPTH};
use crate::program::{BlockRun, CopyProgram, Item};

impl Layout {
    /// Appends the layout to `words`.
    pub fn write(&self, words: &mut Vec<u64>) {
        words.extend([self.lb(), self.extent()].map(isize::cast_unsigned).map(|word| word as u64));
        write(self.program(), words);
    }

    /// Reads a layout, of alignment 1, from the front of `words`. Fails if the numbers are no
    /// layout, or one that does not fit the address space.
    pub fn read(words: &mut &[u64]) -> Result<Layout, LayoutError> {
        let (lb, extent) = (signed(words)?, signed(words)?);
        Layout::resized(lb, extent, &read(words, 0)?)
    }
}

fn write(program: &CopyProgram, words: &mut Vec<u64>) {
    words.push(program.items().iter().map(Item::lines).sum::<usize>() as u64);
    for item in program.items() {
        match item {
            Item::Run(run) => write_run(words, *run),
            Item::Scatter(scatter) => {
                scatter.blocks().for_each(|block| write_run(words, BlockRun::of_block(block)))
            }
            Item::Gather(gather) => {
                gather.blocks().for_each(|block| write_run(words, BlockRun::of_block(block)))
            }
            Item::Repeat(repeat) => {
                words.extend([1, repeat.offset as u64, repeat.count as u64, repeat.stride as u64]);
                write(&repeat.body, words);
            }
        }
    }
}

fn write_run(words: &mut Vec<u64>, run: BlockRun) {
    words.extend([0, run.offset as u64, run.block as u64, run.count as u64, run.stride as u64]);
}

fn word(words: &mut &[u64]) -> Result<u64, LayoutError> {
    let (first, rest) =
        words.split_first().ok_or(LayoutError::Overflow { what: "written form" })?;
    *words = rest;
    Ok(*first)
}

fn signed(words: &mut &[u64]) -> Result<isize, LayoutError> {
    Ok((word(words)? as usize).cast_signed())
}

fn length(words: &mut &[u64]) -> Result<usize, LayoutError> {
    let length = usize::try_from(word(words)?).ok();
    length
        .filter(|&n| isize::try_from(n).is_ok())
        .ok_or(LayoutError::Overflow { what: "written length" })
}

fn read(words: &mut &[u64], depth: u32) -> Result<Layout, LayoutError> {
    if depth > MAX_DEPTH {
        return Err(LayoutError::TooDeep);
    }
    let items = length(words)?;
    // Each item consumes words, so the words end before a wrong number of items.
    let mut members = Vec::new();
    for _ in 0..items {
        let group = word(words)? != 0;
        let offset = signed(words)?;
        members.push(if group {
            let (times, stride) = (length(words)?, signed(words)?);
            (offset, Layout::hvector(times, 1, stride, &read(words, depth + 1)?)?)
        } else {
            let (block, blocks, stride) = (length(words)?, length(words)?, signed(words)?);
            (offset, Layout::hvector(blocks, 1, stride, &Layout::basic(block, 1))?)
        });
    }
    Layout::structure(members.iter().map(|(offset, layout)| (1, *offset, layout)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{lend, lend_mut};
    use oxmpi_sys::bytes::BytesMut;
    use std::sync::Arc;

    #[test]
    fn what_is_read_is_what_was_written() {
        let (int, double) = (Layout::basic(4, 4), Layout::basic(8, 8));
        let pair = Layout::structure([(1, 0, &double), (1, 8, &int)]).unwrap();
        let odd = Layout::hindexed([(2, 40), (1, 0), (3, 100)], &pair).unwrap();
        let deep = Layout::hvector(3, 1, 500, &odd).unwrap();
        let resized = Layout::resized(-8, 2000, &deep).unwrap();
        for layout in [int, pair, odd, deep, resized] {
            let mut words = Vec::new();
            layout.write(&mut words);
            words.push(77);
            let mut rest = &words[..];
            let read = Layout::read(&mut rest).unwrap();
            assert_eq!(rest, [77]);
            let facts = |l: &Layout| (l.size(), l.lb(), l.extent(), l.true_lb(), l.true_extent());
            assert_eq!(facts(&read), facts(&layout));
            let memory: Vec<u8> = (0..4000).map(|at| (at % 251) as u8).collect();
            let packed = |layout: Layout| {
                let mut out = vec![0u8; layout.size()];
                let layout = Arc::new(layout);
                lend(&memory, |buf| {
                    buf.cast(1, &layout).unwrap().pack(0, BytesMut::from(&mut out[..]))
                });
                out
            };
            assert_eq!(packed(read), packed(layout));
            for cut in 0..words.len() - 1 {
                let mut short = &words[..cut];
                assert!(Layout::read(&mut short).is_err());
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            vec![0, 8, u64::MAX],
            vec![0, 8, 1, 0, 0, u64::MAX, 1, 0],
            vec![0, 8, 1, 0, 0, 1 << 40, 1 << 40, 8],
            vec![0, 8, 1, 0, 1 << 62, 1 << 62, 4, 1 << 62],
            [0, 8].into_iter().chain((0..600).flat_map(|_| [1, 1, 0, 2, 8])).collect(),
        ] {
            assert!(Layout::read(&mut &words[..]).is_err());
        }
    }

    #[test]
    fn blocks_are_the_packed_bytes_in_order() {
        let int = Layout::basic(4, 4);
        let odd = Layout::hindexed([(2, 40), (1, 0), (3, 20)], &int).unwrap();
        let deep = Arc::new(Layout::hvector(3, 1, 64, &odd).unwrap());
        let mut memory: Vec<u8> = (0..255).collect();
        lend_mut(&mut memory, |buf| {
            let buf = buf.cast(1, &deep).unwrap();
            for (from, len) in (0..72).flat_map(|from| (0..=72 - from).map(move |len| (from, len)))
            {
                let mut expected = vec![0u8; len];
                buf.pack(from, BytesMut::from(&mut expected[..]));
                let mut got = Vec::new();
                let base = buf.as_ptr().addr();
                buf.blocks(from, len, |at, len| {
                    got.extend((0..len).map(|n| (at.addr() - base + n) as u8))
                });
                assert_eq!(got, expected, "{from}+{len}");
            }
        });
    }
}
