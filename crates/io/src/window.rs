//! A window of the file at an aggregator. It combines the pieces of all ranks, and writes or reads
//! them in as few calls as possible. Bytes that no rank has written stay untouched: a bitmap marks
//! the written bytes, and only these go to the file. Writing gaps back would revert concurrent
//! writes of other processes.

use crate::pieces::PieceRun;
use crate::store::Store;
use crate::view::FileRange;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::io;

/// A gap up to this length is read with the pieces around it.
const WORTH_READING: u64 = 64 << 10;

/// A window and its bytes, reused for all rounds.
#[derive(Debug, Default)]
pub struct FileWindow {
    start: u64,
    bytes: Vec<u8>,
    /// One bit for each byte that a rank has named.
    named: Vec<u64>,
}

impl FileWindow {
    /// Starts a window from `start` to `end` of the file.
    pub fn begin(&mut self, (start, end): (u64, u64)) {
        self.start = start;
        let len = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        self.bytes.resize(len, 0);
        self.named.clear();
        self.named.resize(len.div_ceil(64), 0);
    }

    /// The position of a piece in the window; `None` if it is outside.
    fn place(&self, piece: FileRange) -> Option<std::ops::Range<usize>> {
        let from = usize::try_from(piece.offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(piece.len).ok()?)?;
        (to <= self.bytes.len()).then_some(from..to)
    }

    /// Whether the runs have no more bytes than the window. This bounds the time for a faulty
    /// peer's runs, since a rank names no byte twice.
    fn allows(&self, runs: impl Iterator<Item = PieceRun>) -> bool {
        let mut left = self.bytes.len() as u64;
        for run in runs {
            let Some(bytes) = run.len.checked_mul(run.count) else { return false };
            if bytes == 0 || bytes > left {
                return false;
            }
            left -= bytes;
        }
        true
    }

    fn name(&mut self, place: &std::ops::Range<usize>) {
        let mut at = place.start;
        while at < place.end {
            let (word, bit) = (at / 64, at % 64);
            let n = (64 - bit).min(place.end - at);
            self.named[word] |= (u64::MAX >> (64 - n)) << bit;
            at += n;
        }
    }

    /// Puts a rank's data into the window. Returns false for invalid runs or data.
    pub fn put(&mut self, runs: impl Iterator<Item = PieceRun> + Clone, mut data: &[u8]) -> bool {
        if !self.allows(runs.clone()) {
            return false;
        }
        for piece in runs.flat_map(PieceRun::pieces) {
            let Some(place) = self.place(piece) else { return false };
            let Some((now, rest)) = data.split_at_checked(place.len()) else { return false };
            self.bytes[place.clone()].copy_from_slice(now);
            self.name(&place);
            data = rest;
        }
        data.is_empty()
    }

    /// Records the bytes that a rank requests. Returns false if some are outside.
    pub fn want(&mut self, runs: impl Iterator<Item = PieceRun> + Clone) -> bool {
        if !self.allows(runs.clone()) {
            return false;
        }
        for piece in runs.flat_map(PieceRun::pieces) {
            let Some(place) = self.place(piece) else { return false };
            self.name(&place);
        }
        true
    }

    /// The first byte from `from` on that is named, or for `named` false, not named.
    fn find(&self, from: usize, named: bool) -> usize {
        let end = self.bytes.len();
        let mut at = from;
        while at < end {
            let word = if named { self.named[at / 64] } else { !self.named[at / 64] };
            let rest = word >> (at % 64);
            if rest != 0 {
                return (at + rest.trailing_zeros() as usize).min(end);
            }
            at = (at / 64 + 1) * 64;
        }
        end
    }

    /// The ranges of named bytes. Ranges with at most `gap` bytes between them are merged.
    fn places(&self, gap: u64) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let mut next = self.find(0, true);
        std::iter::from_fn(move || {
            if next >= self.bytes.len() {
                return None;
            }
            let start = next;
            loop {
                let end = self.find(next, false);
                next = self.find(end, true);
                if next >= self.bytes.len() || (next - end) as u64 > gap {
                    return Some(start..end);
                }
            }
        })
    }

    /// Writes the named bytes.
    pub fn write<S: Store + ?Sized>(&self, store: &S) -> io::Result<()> {
        self.places(0).try_for_each(|place| {
            let offset = self.start + place.start as u64;
            store.write_all_at(Bytes::from(&self.bytes[place]), offset)
        })
    }

    /// Reads the named bytes. Returns the offset of the end of the file if it was reached.
    pub fn read<S: Store + ?Sized>(&mut self, store: &S) -> io::Result<u64> {
        let places: Vec<_> = self.places(WORTH_READING).collect();
        for place in places {
            let offset = self.start + place.start as u64;
            let len = place.len();
            let got = store.read_all_at(BytesMut::from(&mut self.bytes[place]), offset)?;
            if got < len {
                return Ok(offset + got as u64);
            }
        }
        Ok(u64::MAX)
    }

    /// Appends a rank's data to `to`, in full length. Returns the number of bytes before `end`, the
    /// end of the file.
    pub fn take(
        &self,
        runs: impl Iterator<Item = PieceRun> + Clone,
        end: u64,
        to: &mut Vec<u8>,
    ) -> u64 {
        let mut there = 0;
        if !self.allows(runs.clone()) {
            return there;
        }
        for piece in runs.flat_map(PieceRun::pieces) {
            there += end.saturating_sub(piece.offset).min(piece.len);
            if let Some(place) = self.place(piece) {
                to.extend_from_slice(&self.bytes[place]);
            }
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::{decode, encode};
    use crate::store::model::Model;
    use proptest::prelude::*;

    fn runs(pieces: &[FileRange]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(pieces.iter().copied(), &mut bytes);
        bytes
    }

    #[test]
    fn invalid_runs_and_data_are_refused() {
        let mut window = FileWindow::default();
        window.begin((100, 200));
        let piece = |offset, len| runs(&[FileRange { offset, len }]);
        assert!(!window.put(decode(&piece(99, 1)), &[1]));
        assert!(!window.put(decode(&piece(199, 2)), &[1, 2]));
        assert!(!window.put(decode(&piece(u64::MAX, 2)), &[1, 2]));
        assert!(!window.put(decode(&piece(100, 2)), &[1]));
        assert!(!window.put(decode(&piece(100, 2)), &[1, 2, 3]));
        assert!(window.put(decode(&piece(100, 2)), &[1, 2]));
        // Endless runs, and runs longer than the window.
        for (len, count) in [(0, u64::MAX), (1, u64::MAX), (u64::MAX, 2), (1, 0), (2, 51)] {
            let run = std::iter::once(PieceRun { offset: 100, len, count, stride: 0 });
            let mut answer = Vec::new();
            assert!(!window.want(run.clone()) && !window.put(run.clone(), &[1, 2]));
            assert_eq!((window.take(run, u64::MAX, &mut answer), answer.len()), (0, 0));
        }
        assert!(!window.want(decode(&piece(200, 1))));
    }

    #[test]
    fn a_full_window_is_written_in_one_call() {
        let (store, mut window) = (Model::new(Vec::new(), usize::MAX), FileWindow::default());
        window.begin((0, 1000));
        for rank in 0..2 {
            let pieces: Vec<FileRange> =
                (0..50).map(|n| FileRange { offset: 20 * n + 10 * rank, len: 10 }).collect();
            assert!(window.put(decode(&runs(&pieces)), &[rank as u8; 500]));
        }
        window.write(&store).unwrap();
        assert_eq!(store.calls.get(), 1);
        assert_eq!(store.bytes.borrow()[15..25], [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn windows_equal_single_bytes(
            ranks in proptest::collection::vec(
                proptest::collection::vec((0_u64..90, 1_u64..80), 0..6), 1..4),
            start in 0_u64..50, file in 0_usize..260,
        ) {
            let mut window = FileWindow::default();
            window.begin((start, start + 200));
            let before: Vec<u8> = (0..file).map(|n| n as u8).collect();
            let mut expected = before.clone();
            let mut requested = Vec::new();
            for (rank, steps) in ranks.iter().enumerate() {
                let mut at = start;
                let mut pieces = Vec::new();
                for &(gap, len) in steps {
                    if at + gap + len <= start + 200 {
                        pieces.push(FileRange { offset: at + gap, len });
                        at += gap + len;
                    }
                }
                let total: u64 = pieces.iter().map(|p| p.len).sum();
                let data = vec![0xf0 | rank as u8; total as usize];
                prop_assert!(window.put(decode(&runs(&pieces)), &data));
                for place in pieces.iter().flat_map(|p| p.offset..p.end()) {
                    if expected.len() <= place as usize {
                        expected.resize(place as usize + 1, 0);
                    }
                    expected[place as usize] = 0xf0 | rank as u8;
                }
                requested.push(pieces);
            }
            let store = Model::new(before.clone(), 7);
            window.write(&store).unwrap();
            prop_assert_eq!(&*store.bytes.borrow(), &expected);

            let store = Model::new(before.clone(), 7);
            window.begin((start, start + 200));
            for pieces in &requested {
                prop_assert!(window.want(decode(&runs(pieces))));
            }
            let end = window.read(&store).unwrap();
            for pieces in requested {
                let places: Vec<u64> = pieces.iter().flat_map(|p| p.offset..p.end()).collect();
                let mut data = Vec::new();
                let there = window.take(decode(&runs(&pieces)), end, &mut data);
                prop_assert_eq!(there as usize, places.iter().filter(|&&p| (p as usize) < file).count());
                for (n, byte) in data[..there as usize].iter().enumerate() {
                    prop_assert_eq!(*byte, before[places[n] as usize]);
                }
            }
        }
    }
}
