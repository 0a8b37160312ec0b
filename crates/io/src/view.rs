//! Views (MPI-5.0, "File Views"): the bytes of a file that a process sees, as one stream of data.
//!
//! A view is a displacement and a filetype that repeats from there on. The bytes at which the
//! filetype has data are the *stream*, numbered from 0. A [`View`] locates any part of the stream
//! without a list of all pieces.

use oxmpi_abi::constants as abi;
use oxmpi_mem::blocks::LayoutBlocks;
use oxmpi_mem::layout::Layout;
use oxmpi_objects::error::{MpiError, Result};
use std::sync::Arc;

/// Consecutive bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    pub offset: u64,
    pub len: u64,
}

impl FileRange {
    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// The largest offset of the system.
const LAST_OFFSET: u64 = i64::MAX as u64;

/// The bytes of a file that a process sees.
#[derive(Clone, Debug)]
pub struct View {
    displacement: u64,
    etype: u64,
    tiles: Tiles,
}

#[derive(Clone, Debug)]
enum Tiles {
    Solid,
    Of { layout: Arc<Layout>, size: u64, extent: u64, overlap: TileOverlap },
}

/// Whether a byte is seen twice, or the stream goes back in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TileOverlap {
    Nowhere,
    /// Within a tile, which is allowed only for reading.
    Within,
    /// Between a tile and the next one. Such a filetype can be legal: if the last member of a
    /// structure has explicit bounds, the structure has only the extent of that member.
    Between {
        /// Whether only the first tile may be used.
        once: bool,
    },
}

fn wrong(text: String) -> MpiError {
    MpiError::new(abi::MPI_ERR_ARG, text)
}

impl View {
    /// The view of a newly opened file: all bytes.
    pub const BYTES: View = View { displacement: 0, etype: 1, tiles: Tiles::Solid };

    /// A view of `filetype` from byte `displacement` on, in units of `etype` bytes. The layouts are
    /// those in the file.
    ///
    /// # Errors
    /// MPI_ERR_ARG if the filetype does not consist of etypes, has negative or decreasing
    /// displacements, or overlaps itself in a file that may be written. A filetype that overlaps
    /// only its next repetition is accepted, since the program may use it only once.
    pub fn new(
        displacement: u64,
        etype: usize,
        filetype: &Arc<Layout>,
        writes: bool,
    ) -> Result<View> {
        if displacement > LAST_OFFSET {
            return Err(wrong(format!("disp is {displacement}, more than an offset can be")));
        }
        if etype == 0 {
            return Err(wrong("the etype has no data".into()));
        }
        let size = filetype.size();
        if !size.is_multiple_of(etype) {
            return Err(wrong(format!(
                "the filetype has {size} bytes of data, which is no multiple of the etype's {etype}"
            )));
        }
        let view = |tiles| View { displacement, etype: etype as u64, tiles };
        if filetype.is_contiguous() && size > 0 {
            return Ok(view(Tiles::Solid));
        }
        let extent = u64::try_from(filetype.extent()).unwrap_or(0);
        let mut overlap = TileOverlap::Nowhere;
        if size > 0 {
            let decreasing = || {
                wrong("the displacements of the filetype decrease, which they must not do".into())
            };
            let order = filetype.order().ok_or_else(decreasing)?;
            if order.first < 0 {
                return Err(wrong(format!(
                    "the filetype has data at displacement {}; none may be negative",
                    order.first
                )));
            }
            if writes && !order.disjoint {
                return Err(wrong(
                    "the filetype overlaps itself, and the file is open for writing".into(),
                ));
            }
            let next = (order.first.unsigned_abs() as u64).saturating_add(extent);
            if order.end.unsigned_abs() as u64 > next || extent == 0 {
                overlap = TileOverlap::Between { once: writes || extent == 0 };
            } else if !order.disjoint {
                overlap = TileOverlap::Within;
            }
        }
        Ok(view(Tiles::Of { layout: Arc::clone(filetype), size: size as u64, extent, overlap }))
    }

    /// The bytes of an elementary type in the file.
    pub fn etype_size(&self) -> u64 {
        self.etype
    }

    /// Whether the view has no gaps.
    pub fn is_solid(&self) -> bool {
        matches!(self.tiles, Tiles::Solid)
    }

    /// Whether bytes `at .. at + len` of the stream are in ascending order in the file, without
    /// overlap.
    pub fn is_disjoint(&self, at: u64, len: u64) -> bool {
        match &self.tiles {
            Tiles::Solid | Tiles::Of { overlap: TileOverlap::Nowhere, .. } => true,
            Tiles::Of { overlap: TileOverlap::Within, .. } => false,
            Tiles::Of { layout, size, .. } => {
                len <= size.saturating_sub(at % size)
                    && layout.order().is_some_and(|order| order.disjoint)
            }
        }
    }

    /// Bytes `at .. at + len` of the stream as ranges of the file, in the order of the stream.
    /// Adjacent ranges are merged. A view without data has none.
    pub fn ranges(&self, at: u64, len: u64) -> Ranges<'_> {
        Ranges { cursor: StreamCursor::new(self, at), left: len, pending: None }
    }

    /// The offset in the file of byte `at` of the stream; the displacement for a view without data.
    /// `None` if it exceeds the largest offset.
    pub fn offset_of(&self, at: u64) -> Option<u64> {
        let Tiles::Of { layout, size, extent, .. } = &self.tiles else {
            return self.displacement.checked_add(at).filter(|&o| o <= LAST_OFFSET);
        };
        let within = |rest: u64| {
            layout
                .blocks_from(usize::try_from(rest).ok()?)
                .next()
                .and_then(|b| u64::try_from(b.offset).ok())
        };
        match at.checked_div(*size) {
            None => Some(self.displacement),
            Some(tile) => tile
                .checked_mul(*extent)?
                .checked_add(within(at % size)?)?
                .checked_add(self.displacement)
                .filter(|&o| o <= LAST_OFFSET),
        }
    }

    /// The length of the stream before byte `offset` of the file.
    pub fn data_before(&self, offset: u64) -> u64 {
        let Some(inside) = offset.checked_sub(self.displacement) else { return 0 };
        let Tiles::Of { layout, size, extent, overlap } = &self.tiles else { return inside };
        if *size == 0 {
            return 0;
        }
        // The last tile that begins before `offset`.
        let first = layout.order().and_then(|order| u64::try_from(order.first).ok()).unwrap_or(0);
        let tile = match overlap {
            TileOverlap::Between { once: true } => 0,
            _ => inside.saturating_sub(first).saturating_sub(1).checked_div(*extent).unwrap_or(0),
        };
        self.search(offset, tile.saturating_mul(*size), (tile + 1).saturating_mul(*size))
    }

    /// The first byte of `at .. at + len` of the stream that is at or after byte `offset` of the
    /// file; `at + len` if there is none. The bytes must be disjoint ([`View::is_disjoint`]).
    pub fn part_before(&self, offset: u64, (at, len): (u64, u64)) -> u64 {
        match &self.tiles {
            Tiles::Of { overlap: TileOverlap::Between { .. }, .. } => {
                self.search(offset, at, at + len)
            }
            _ => self.data_before(offset).clamp(at, at + len),
        }
    }

    fn search(&self, offset: u64, mut low: u64, mut high: u64) -> u64 {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.offset_of(middle).is_some_and(|o| o < offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Checks that `len` bytes of the stream from `at` on have valid offsets.
    ///
    /// # Errors
    /// MPI_ERR_ARG if an offset is too large, or the bytes need a second repetition of a filetype
    /// that overlaps it.
    pub fn check(&self, at: u64, len: u64) -> Result<()> {
        if let Tiles::Of { layout, size, extent, overlap: TileOverlap::Between { once: true } } =
            &self.tiles
            && len > size.saturating_sub(at)
        {
            let end = layout.order().map_or(0, |order| order.end);
            return Err(wrong(format!(
                "{len} bytes from byte {at} of the view on need a second filetype behind the first one, which has {size} \
                 bytes of data up to displacement {end}, but an extent of only {extent} bytes: the second one would begin \
                 before the first one ends"
            )));
        }
        let last = at.checked_add(len.saturating_sub(1));
        match last.and_then(|last| self.offset_of(last)) {
            Some(_) => Ok(()),
            None => Err(wrong(format!(
                "{len} bytes from byte {at} of the view on go beyond the largest offset, {LAST_OFFSET}"
            ))),
        }
    }
}

#[derive(Debug)]
struct StreamCursor<'a> {
    view: &'a View,
    /// The start of the current tile; without gaps, the next byte.
    base: u64,
    blocks: Option<LayoutBlocks>,
}

impl<'a> StreamCursor<'a> {
    fn new(view: &'a View, at: u64) -> StreamCursor<'a> {
        match &view.tiles {
            Tiles::Solid => {
                StreamCursor { view, base: view.displacement.saturating_add(at), blocks: None }
            }
            Tiles::Of { layout, size, extent, .. } => {
                let tile = at.checked_div(*size).unwrap_or(0);
                let rest = at.checked_rem(*size).unwrap_or(0);
                let base = tile.saturating_mul(*extent).saturating_add(view.displacement);
                StreamCursor { view, base, blocks: Some(layout.blocks_from(rest as usize)) }
            }
        }
    }

    fn next(&mut self, most: u64) -> Option<FileRange> {
        let Tiles::Of { layout, size, extent, .. } = &self.view.tiles else {
            let offset = self.base;
            self.base = self.base.saturating_add(most);
            return Some(FileRange { offset, len: most });
        };
        if *size == 0 {
            return None;
        }
        let blocks = self.blocks.as_mut()?;
        loop {
            if let Some(block) = blocks.next() {
                let offset = self.base.saturating_add_signed(block.offset as i64);
                return Some(FileRange { offset, len: (block.len as u64).min(most) });
            }
            self.base = self.base.saturating_add(*extent);
            blocks.restart(layout, 0);
        }
    }
}

/// The result of [`View::ranges`].
#[derive(Debug)]
pub struct Ranges<'a> {
    cursor: StreamCursor<'a>,
    left: u64,
    pending: Option<FileRange>,
}

impl Iterator for Ranges<'_> {
    type Item = FileRange;

    fn next(&mut self) -> Option<FileRange> {
        let mut whole = self.pending.take();
        while self.left > 0 {
            let Some(piece) = self.cursor.next(self.left) else { break };
            self.left -= piece.len;
            match &mut whole {
                None => whole = Some(piece),
                Some(range) if range.end() == piece.offset => range.len += piece.len,
                Some(_) => {
                    self.pending = Some(piece);
                    break;
                }
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view(blocks: &[(usize, isize)], extent: isize, displacement: u64) -> View {
        let byte = Layout::basic(1, 1);
        let data = Layout::hindexed(blocks.iter().copied(), &byte).unwrap();
        let filetype = Arc::new(Layout::resized(0, extent, &data).unwrap());
        View::new(displacement, 1, &filetype, false).unwrap()
    }

    fn bytes(view: &View, at: u64, len: u64) -> Vec<u64> {
        view.ranges(at, len).flat_map(|r| r.offset..r.end()).collect()
    }

    #[test]
    fn bad_views_are_refused() {
        let int = Layout::basic(4, 4);
        let refused = |layout: Layout, etype, writes| {
            View::new(0, etype, &Arc::new(layout), writes).map(|_| ()).unwrap_err().to_string()
        };
        let indexed =
            |blocks: &[(usize, isize)]| Layout::hindexed(blocks.iter().copied(), &int).unwrap();
        assert!(refused(indexed(&[(1, 8), (1, 0)]), 4, false).contains("decrease"));
        assert!(refused(indexed(&[(1, -8), (1, 0)]), 4, false).contains("negative"));
        assert!(refused(indexed(&[(2, 0), (1, 4)]), 4, true).contains("overlaps"));
        assert!(refused(indexed(&[(1, 0)]), 8, false).contains("multiple"));
        assert!(refused(indexed(&[(1, 0)]), 0, false).contains("etype"));
        assert!(
            refused(Layout::resized(0, 2, &indexed(&[(2, 0), (1, 4)])).unwrap(), 4, true)
                .contains("overlaps")
        );
        View::new(0, 4, &Arc::new(indexed(&[(2, 0), (1, 4)])), false).unwrap();
        assert!(
            View::new(0, 4, &Arc::new(indexed(&[])), true).unwrap().ranges(0, 10).next().is_none()
        );
        assert!(View::new(u64::MAX, 4, &Arc::new(indexed(&[(1, 0)])), true).is_err());
    }

    /// Many programs use the filetype of a structure whose last member has explicit bounds once.
    #[test]
    fn a_filetype_that_overlaps_the_next_one_can_be_used_once() {
        let byte = Layout::basic(1, 1);
        let data = Layout::hindexed([(8, 0), (4, 10)], &byte).unwrap();
        for (bounds, writes) in [((10, 4), true), ((10, 4), false), ((0, 0), false)] {
            let filetype = Arc::new(Layout::resized(bounds.0, bounds.1, &data).unwrap());
            let once = View::new(100, 1, &filetype, writes).unwrap();
            assert_eq!(bytes(&once, 0, 12), (100..108).chain(110..114).collect::<Vec<_>>());
            assert!(once.is_disjoint(3, 9) && !once.is_disjoint(3, 10));
            assert_eq!([107, 109, 111].map(|place| once.part_before(place, (3, 8))), [7, 8, 9]);
            assert_eq!((once.part_before(50, (3, 8)), once.part_before(1000, (3, 8))), (3, 11));
            once.check(0, 12).unwrap();
            once.check(12, 0).unwrap();
            let repeats = !writes && bounds.1 > 0;
            assert_eq!(once.check(3, 10).is_ok(), repeats);
            if repeats {
                assert_eq!(bytes(&once, 11, 3), [113, 104, 105]);
                assert_eq!((once.data_before(104), once.data_before(105)), (4, 13));
            } else {
                assert_eq!((once.data_before(104), once.data_before(1000)), (4, 12));
                assert!(
                    once.check(3, 10).unwrap_err().to_string().contains("up to displacement 14")
                );
            }
        }
    }

    #[test]
    fn the_largest_offset_is_a_limit() {
        let solid = View { displacement: LAST_OFFSET - 10, ..View::BYTES };
        solid.check(0, 11).unwrap();
        assert!(solid.check(0, 12).is_err() && solid.check(u64::MAX, 2).is_err());
        let tiled = view(&[(1, 0)], 1 << 40, 0);
        assert!(tiled.check(1 << 23, 1).is_err());
        tiled.check((1 << 23) - 1, 1).unwrap();
    }

    proptest! {
        #[test]
        fn views_equal_a_list_of_bytes(
            gaps in proptest::collection::vec((0_usize..4, 1_usize..5), 1..6),
            tail in 0_isize..5, displacement in 0_u64..9, at in 0_u64..60, len in 0_u64..60,
        ) {
            let (mut place, mut blocks) = (0, Vec::new());
            for (gap, block) in gaps {
                place += gap;
                blocks.push((block, place as isize));
                place += block;
            }
            let extent = place as isize + tail;
            let view = view(&blocks, extent, displacement);
            let tile: Vec<u64> =
                blocks.iter().flat_map(|&(n, o)| o as u64..o as u64 + n as u64).collect();
            let all: Vec<u64> = (0..200)
                .flat_map(|n| tile.iter().map(move |o| displacement + n * extent as u64 + o))
                .collect();
            prop_assert_eq!(bytes(&view, at, len), &all[at as usize..(at + len) as usize]);
            prop_assert_eq!(view.offset_of(at), Some(all[at as usize]));
            for offset in 0..80 {
                let before = all.iter().filter(|&&o| o < offset).count() as u64;
                prop_assert_eq!(view.data_before(offset), before, "offset {}", offset);
            }
            let ranges: Vec<FileRange> = view.ranges(at, len).collect();
            prop_assert!(ranges.windows(2).all(|w| w[0].end() < w[1].offset), "touching ranges are one");
        }
    }
}
