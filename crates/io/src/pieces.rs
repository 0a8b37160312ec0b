//! The encoding of the pieces that a rank requests from an aggregator: runs of equal pieces at
//! equal distances. A regular pattern of any length needs four words.

use crate::view::FileRange;

/// `count` pieces of `len` bytes at distances of `stride` bytes, the first at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRun {
    /// Of the first piece in the file.
    pub offset: u64,
    pub len: u64,
    pub count: u64,
    /// Between the starts of two pieces; 0 for a single piece.
    pub stride: u64,
}

pub const RUN_BYTES: usize = 32;

impl PieceRun {
    fn one(piece: FileRange) -> PieceRun {
        PieceRun { offset: piece.offset, len: piece.len, count: 1, stride: 0 }
    }

    /// Adds a piece if it continues the pattern.
    fn extend(&mut self, piece: FileRange) -> bool {
        let Some(step) = piece.offset.checked_sub(self.offset) else { return false };
        let fits = piece.len == self.len
            && if self.count == 1 { step > 0 } else { step == self.stride * self.count };
        if fits {
            self.stride = step / self.count;
            self.count += 1;
        }
        fits
    }

    /// The pieces of the run, in order.
    pub fn pieces(self) -> impl Iterator<Item = FileRange> {
        (0..self.count).map(move |n| FileRange {
            offset: self.offset.saturating_add(n.saturating_mul(self.stride)),
            len: self.len,
        })
    }

    fn write(&self, to: &mut Vec<u8>) {
        for word in [self.offset, self.len, self.count, self.stride] {
            to.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn read(bytes: &[u8; RUN_BYTES]) -> PieceRun {
        let word = |n: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * n..8 * n + 8]);
            u64::from_le_bytes(word)
        };
        PieceRun { offset: word(0), len: word(1), count: word(2), stride: word(3) }
    }
}

/// Appends pieces to `to` as runs. Returns the number of their data bytes.
pub fn encode(pieces: impl Iterator<Item = FileRange>, to: &mut Vec<u8>) -> u64 {
    let (mut run, mut data): (Option<PieceRun>, u64) = (None, 0);
    for piece in pieces {
        data += piece.len;
        if !run.as_mut().is_some_and(|run| run.extend(piece))
            && let Some(done) = run.replace(PieceRun::one(piece))
        {
            done.write(to);
        }
    }
    if let Some(run) = run {
        run.write(to);
    }
    data
}

/// The encoded runs. [`crate::window::FileWindow`] refuses invalid ones.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = PieceRun> + Clone + '_ {
    bytes.as_chunks::<RUN_BYTES>().0.iter().map(PieceRun::read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_regular_pattern_is_one_run() {
        let mut bytes = Vec::new();
        let pieces = (0..1000).map(|n| FileRange { offset: 7 + 256 * n, len: 64 });
        assert_eq!(encode(pieces, &mut bytes), 64_000);
        let runs: Vec<PieceRun> = decode(&bytes).collect();
        assert_eq!(runs, [PieceRun { offset: 7, len: 64, count: 1000, stride: 256 }]);
    }

    proptest! {
        #[test]
        fn pieces_decode_as_encoded(steps in proptest::collection::vec((1_u64..4, 1_u64..3), 0..40)) {
            let mut at = 0;
            let pieces: Vec<FileRange> = steps
                .into_iter()
                .map(|(gap, len)| {
                    let piece = FileRange { offset: at + gap, len };
                    at = piece.end();
                    piece
                })
                .collect();
            let mut bytes = Vec::new();
            let data = encode(pieces.iter().copied(), &mut bytes);
            prop_assert_eq!(data, pieces.iter().map(|p| p.len).sum::<u64>());
            let back: Vec<FileRange> = decode(&bytes).flat_map(PieceRun::pieces).collect();
            prop_assert_eq!(back, pieces);
        }
    }
}
