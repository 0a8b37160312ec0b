//! Independent access between a user's memory and the part of a file that a view shows.
//!
//! Pieces near each other are read together with the gaps between them (*data sieving*). A sieving
//! write writes the gaps as they were read. So it locks the range, and all other writers must lock
//! too (`TransferRules::locks`).

use crate::hints::{Hints, Switch};
use crate::store::{LockKind, Store};
use crate::view::{FileRange, Ranges, View};
use oxmpi_mem::buffer::{Cursor, UserBuf};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::io;

/// Reading a gap of this length takes about as long as a system call.
const WORTH_READING: u64 = 8 << 10;

/// The method of an access.
#[derive(Clone, Copy, Debug)]
pub struct TransferRules {
    /// Bytes of the file in one transfer.
    buffer: u64,
    /// Pieces with at most this gap are transferred together.
    gap: u64,
    /// Whether ranges are locked, for sieving writes of other processes or for atomic mode.
    locks: bool,
    /// Whether other processes see all or nothing of an access (MPI_File_set_atomicity).
    atomic: bool,
}

impl TransferRules {
    /// The method of reads.
    pub fn reading(hints: &Hints, atomic: bool) -> TransferRules {
        let gap = match hints.sieve_read {
            Switch::Enable => u64::MAX,
            Switch::Disable => 0,
            Switch::Automatic => WORTH_READING,
        };
        TransferRules { buffer: hints.read_bytes, gap, locks: false, atomic }
    }

    /// The method of writes. `reads` says whether the file may be read. A sieving write would
    /// revert concurrent writes of processes that do not lock, and these are unknown. So sieving
    /// needs an explicit hint.
    pub fn writing(hints: &Hints, reads: bool, atomic: bool) -> TransferRules {
        let (gap, locks) = match hints.sieve_write {
            Switch::Enable => (if reads { u64::MAX } else { 0 }, true),
            Switch::Automatic | Switch::Disable => (0, false),
        };
        TransferRules { buffer: hints.write_bytes, gap, locks, atomic }
    }
}

/// Pieces that are transferred together.
#[derive(Debug, Default)]
struct Batch {
    pieces: Vec<FileRange>,
}

impl Batch {
    fn span(&self) -> (u64, u64) {
        let start = self.pieces.first().map_or(0, |p| p.offset);
        (start, self.pieces.iter().map(FileRange::end).max().unwrap_or(start))
    }

    /// Takes the next pieces, as far as the rules allow. A piece longer than the buffer is split.
    /// Returns false at the end.
    fn fill(
        &mut self,
        ranges: &mut Ranges<'_>,
        rest: &mut Option<FileRange>,
        rules: &TransferRules,
    ) -> bool {
        self.pieces.clear();
        let (mut start, mut end) = (0, 0);
        while let Some(mut piece) = rest.take().or_else(|| ranges.next()) {
            if self.pieces.is_empty() {
                (start, end) = (piece.offset, piece.offset);
            } else if piece.offset < start
                || piece.offset.saturating_sub(end) > rules.gap
                || rules.gap == 0
                || piece.offset.saturating_sub(start) >= rules.buffer
            {
                *rest = Some(piece);
                break;
            }
            let room = rules.buffer - (piece.offset - start).min(rules.buffer - 1);
            if piece.len > room {
                *rest = Some(FileRange { offset: piece.offset + room, len: piece.len - room });
                piece.len = room;
            }
            end = end.max(piece.end());
            self.pieces.push(piece);
            if rest.is_some() {
                break;
            }
        }
        !self.pieces.is_empty()
    }
}

/// Reads the view's stream from byte `at` on, until `to` is full or the file ends. Returns the
/// number of bytes.
///
/// # Errors
/// The system's error. Some bytes may have been read.
pub fn read<S: Store + ?Sized>(
    store: &S,
    view: &View,
    at: u64,
    to: &UserBuf,
    rules: TransferRules,
) -> io::Result<usize> {
    let mut done = 0;
    if rules.atomic {
        let outer = outer(view, at, to.packed_len() as u64);
        store.locked(LockKind::Shared, outer, &mut || {
            done = read_unlocked(store, view, at, to, rules)?;
            Ok(())
        })?;
        return Ok(done);
    }
    read_unlocked(store, view, at, to, rules)
}

fn outer(view: &View, at: u64, len: u64) -> (u64, u64) {
    if len == 0 {
        return (0, 0);
    }
    if view.is_disjoint(at, len) {
        let start = view.offset_of(at).unwrap_or(0);
        return (start, view.offset_of(at + len - 1).map_or(start, |last| last.saturating_add(1)));
    }
    // If the view overlaps itself, the first and the last byte need not have the extreme offsets.
    view.ranges(at, len)
        .fold((u64::MAX, 0), |(start, end), range| (start.min(range.offset), end.max(range.end())))
}

fn read_unlocked<S: Store + ?Sized>(
    store: &S,
    view: &View,
    at: u64,
    to: &UserBuf,
    rules: TransferRules,
) -> io::Result<usize> {
    let total = to.packed_len();
    let mut plain = to.as_contiguous_mut();
    if view.is_solid()
        && let Some(plain) = &mut plain
    {
        let Some(range) = view.ranges(at, total as u64).next() else { return Ok(0) };
        return store.read_all_at(plain.reborrow(), range.offset);
    }
    let (mut ranges, mut rest) = (view.ranges(at, total as u64), None);
    let (mut batch, mut scratch, mut cursor) = (Batch::default(), Vec::new(), Cursor::default());
    while batch.fill(&mut ranges, &mut rest, &rules) {
        let (start, end) = batch.span();
        let len = (end - start) as usize;
        if let ([_], Some(plain)) = (&*batch.pieces, &mut plain) {
            let at = cursor.offset();
            let got = store.read_all_at(plain.slice(at, len), start)?;
            cursor = Cursor::at(at + got);
            if got < len {
                break;
            }
            continue;
        }
        scratch.resize(scratch.len().max(len), 0);
        let got = store.read_all_at(BytesMut::from(&mut scratch[..len]), start)? as u64;
        for piece in &batch.pieces {
            let from = piece.offset - start;
            let there = piece.len.min(got.saturating_sub(from)) as usize;
            to.unpack_next(
                &mut cursor,
                Bytes::from(&scratch[from as usize..from as usize + there]),
            );
            if (there as u64) < piece.len {
                return Ok(cursor.offset());
            }
        }
    }
    Ok(cursor.offset())
}

/// Writes all of `from` to the view's stream from byte `at` on.
///
/// # Errors
/// The system's error. Some bytes may have been written.
pub fn write<S: Store + ?Sized>(
    store: &S,
    view: &View,
    at: u64,
    from: &UserBuf,
    rules: TransferRules,
) -> io::Result<usize> {
    if rules.atomic {
        let (outer, mut done) = (outer(view, at, from.packed_len() as u64), 0);
        let inside = TransferRules { locks: false, ..rules };
        store.locked(LockKind::Exclusive, outer, &mut || {
            done = write_unlocked(store, view, at, from, inside)?;
            Ok(())
        })?;
        return Ok(done);
    }
    write_unlocked(store, view, at, from, rules)
}

fn write_unlocked<S: Store + ?Sized>(
    store: &S,
    view: &View,
    at: u64,
    from: &UserBuf,
    rules: TransferRules,
) -> io::Result<usize> {
    let total = from.packed_len();
    let plain = from.as_contiguous();
    // Contiguous data are written without a buffer, so the buffer size does not count.
    let rules = if plain.is_some() && rules.gap == 0 {
        TransferRules { buffer: u64::MAX, ..rules }
    } else {
        rules
    };
    let (mut ranges, mut rest) = (view.ranges(at, total as u64), None);
    let (mut batch, mut scratch, mut cursor) = (Batch::default(), Vec::new(), Cursor::default());
    while batch.fill(&mut ranges, &mut rest, &rules) {
        let span = batch.span();
        let (start, len) = (span.0, (span.1 - span.0) as usize);
        let mut write = || match (&*batch.pieces, plain) {
            ([_], Some(plain)) => {
                let at = cursor.offset();
                store.write_all_at(plain.slice(at, len), start)?;
                cursor = Cursor::at(at + len);
                Ok(())
            }
            (pieces, _) => {
                scratch.resize(scratch.len().max(len), 0);
                let window = &mut scratch[..len];
                if pieces.len() > 1 {
                    let got = store.read_all_at(BytesMut::from(&mut *window), start)?;
                    window[got..].fill(0);
                }
                for piece in pieces {
                    let at = (piece.offset - start) as usize;
                    from.pack_next(
                        &mut cursor,
                        BytesMut::from(&mut window[at..at + piece.len as usize]),
                    );
                }
                store.write_all_at(Bytes::from(&*window), start)
            }
        };
        if rules.locks {
            store.locked(LockKind::Exclusive, span, &mut write)?;
        } else {
            write()?;
        }
    }
    Ok(cursor.offset())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::model::Model;
    use oxmpi_mem::layout::Layout;
    use oxmpi_mem::memory::{lend, lend_mut};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn rules(buffer: u64, gap: u64) -> TransferRules {
        TransferRules { buffer, gap, locks: true, atomic: gap == 3 }
    }

    fn layout(gaps: &[(usize, usize)], tail: usize) -> Arc<Layout> {
        let (mut place, mut blocks) = (0, Vec::new());
        for &(gap, block) in gaps {
            place += gap;
            blocks.push((block, place as isize));
            place += block;
        }
        let data = Layout::hindexed(blocks, &Layout::basic(1, 1)).unwrap();
        Arc::new(Layout::resized(0, (place + tail) as isize, &data).unwrap())
    }

    #[test]
    fn sieving_saves_calls() {
        let view = View::new(0, 1, &layout(&[(0, 8)], 8), false).unwrap();
        let store = Model::new((0..=255).cycle().take(4096).collect(), usize::MAX);
        let mut to = vec![0_u8; 1024];
        lend_mut(&mut to, |to| read(&store, &view, 0, &to, rules(1 << 20, 0)).unwrap());
        assert_eq!(store.calls.replace(0), 128);
        lend_mut(&mut to, |to| read(&store, &view, 0, &to, rules(1 << 20, 8)).unwrap());
        assert_eq!(store.calls.get(), 1);
    }

    /// Each repetition of the filetype has bytes before and after those of the next repetitions.
    #[test]
    fn interleaved_repetitions_are_read() {
        let data = Layout::hindexed([(1, 0), (1, 50)], &Layout::basic(1, 1)).unwrap();
        let view =
            View::new(0, 1, &Arc::new(Layout::resized(0, 10, &data).unwrap()), false).unwrap();
        let store = Model::new((0..200).collect(), usize::MAX);
        for atomic in [false, true] {
            for gap in [0, 8, u64::MAX] {
                let mut to = vec![0_u8; 8];
                let came = lend_mut(&mut to, |to| {
                    read(&store, &view, 0, &to, TransferRules { atomic, ..rules(64, gap) }).unwrap()
                });
                assert_eq!((came, &to[..]), (8, &[0, 50, 10, 60, 20, 70, 30, 80][..]));
            }
        }
        assert_eq!(outer(&view, 1, 5), (10, 71));
    }

    #[test]
    fn writes_are_sieved_only_with_a_hint_and_in_readable_files() {
        let mut hints = Hints::new(1, 4);
        assert_eq!(TransferRules::writing(&hints, true, false).gap, 0);
        hints.sieve_write = Switch::Enable;
        let sieving = TransferRules::writing(&hints, true, false);
        assert!(sieving.gap > 0 && sieving.locks);
        let unread = TransferRules::writing(&hints, false, false);
        assert!(unread.gap == 0 && unread.locks);
    }

    proptest! {
        /// Transfers give the same result as single bytes, for any gaps, buffers, ends of file and
        /// partial transfers.
        #[test]
        fn transfers_equal_single_bytes(
            gaps in proptest::collection::vec((0_usize..4, 1_usize..6), 1..4), tail in 0_usize..5,
            memory in proptest::collection::vec((0_usize..3, 1_usize..4), 1..3),
            displacement in 0_u64..5, at in 0_u64..30, count in 0_usize..8,
            buffer in 1_u64..40, gap in 0_u64..6, most in 1_usize..9, file in 0_usize..80,
        ) {
            let view = View::new(displacement, 1, &layout(&gaps, tail), true).unwrap();
            let element = layout(&memory, 1);
            let len = element.size() * count;
            let places: Vec<u64> = view.ranges(at, len as u64).flat_map(|r| r.offset..r.end()).collect();
            let before: Vec<u8> = (0..file).map(|n| n as u8 | 0x80).collect();
            let extent = element.extent() as usize;
            let data: Vec<u8> = (0..extent * count).map(|n| n as u8 & 0x7f).collect();
            let mut packed = vec![0; len];
            let as_elements = |buf: UserBuf| buf.cast(count, &element).unwrap();
            lend(&data, |buf| as_elements(buf).pack(0, BytesMut::from(&mut packed[..])));

            let store = Model::new(before.clone(), most);
            let wrote =
                lend(&data, |buf| write(&store, &view, at, &as_elements(buf), rules(buffer, gap)).unwrap());
            prop_assert_eq!(wrote, len);
            let mut expected = before.clone();
            for (&place, &byte) in places.iter().zip(&packed) {
                if expected.len() <= place as usize {
                    expected.resize(place as usize + 1, 0);
                }
                expected[place as usize] = byte;
            }
            prop_assert_eq!(&*store.bytes.borrow(), &expected);

            let store = Model::new(before.clone(), most);
            let mut room = vec![0x55_u8; extent * count];
            let got = lend_mut(&mut room, |buf| {
                read(&store, &view, at, &as_elements(buf), rules(buffer, gap)).unwrap()
            });
            prop_assert_eq!(got, places.iter().filter(|&&p| (p as usize) < file).count());
            let mut back = vec![0; len];
            lend(&room, |buf| as_elements(buf).pack(0, BytesMut::from(&mut back[..])));
            for (n, &byte) in back.iter().enumerate() {
                let there = before.get(places[n] as usize).copied().unwrap_or(0x55);
                prop_assert_eq!(byte, there, "byte {}", n);
            }
        }
    }
}
