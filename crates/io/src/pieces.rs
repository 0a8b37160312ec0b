//! How a rank tells an aggregator which pieces of a window it means: runs of equal pieces at equal distances, so that a
//! regular pattern is four words whatever its length.

use crate::view::Range;

/// `count` pieces of `len` bytes, `stride` bytes from one to the next, the first at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first piece in the file.
    pub offset: u64,
    /// Bytes of a piece.
    pub len: u64,
    /// How many there are.
    pub count: u64,
    /// From piece to piece; 0 if there is one.
    pub stride: u64,
}

/// Bytes of a run in its written form.
pub const RUN_BYTES: usize = 32;

impl Run {
    fn one(piece: Range) -> Run {
        Run { offset: piece.offset, len: piece.len, count: 1, stride: 0 }
    }

    /// Takes one more piece, if it fits the pattern.
    fn extend(&mut self, piece: Range) -> bool {
        let Some(step) = piece.offset.checked_sub(self.offset) else { return false };
        let fits = piece.len == self.len
            && if self.count == 1 { step > 0 } else { step == self.stride * self.count };
        if fits {
            self.stride = step / self.count;
            self.count += 1;
        }
        fits
    }

    /// Its pieces in order.
    pub fn pieces(self) -> impl Iterator<Item = Range> {
        (0..self.count).map(move |n| Range {
            offset: self.offset.saturating_add(n.saturating_mul(self.stride)),
            len: self.len,
        })
    }

    fn write(&self, to: &mut Vec<u8>) {
        for word in [self.offset, self.len, self.count, self.stride] {
            to.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn read(bytes: &[u8; RUN_BYTES]) -> Run {
        let word = |n: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * n..8 * n + 8]);
            u64::from_le_bytes(word)
        };
        Run { offset: word(0), len: word(1), count: word(2), stride: word(3) }
    }
}

/// Writes pieces as runs behind what is in `to`; the bytes of data that they name.
pub fn encode(pieces: impl Iterator<Item = Range>, to: &mut Vec<u8>) -> u64 {
    let (mut run, mut data): (Option<Run>, u64) = (None, 0);
    for piece in pieces {
        data += piece.len;
        if !run.as_mut().is_some_and(|run| run.extend(piece))
            && let Some(done) = run.replace(Run::one(piece))
        {
            done.write(to);
        }
    }
    if let Some(run) = run {
        run.write(to);
    }
    data
}

/// The runs of a written form. They may be anything: [`crate::window::Window`] refuses those that make no sense.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = Run> + Clone + '_ {
    bytes.as_chunks::<RUN_BYTES>().0.iter().map(Run::read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_regular_pattern_is_one_run() {
        let mut bytes = Vec::new();
        let pieces = (0..1000).map(|n| Range { offset: 7 + 256 * n, len: 64 });
        assert_eq!(encode(pieces, &mut bytes), 64_000);
        let runs: Vec<Run> = decode(&bytes).collect();
        assert_eq!(runs, [Run { offset: 7, len: 64, count: 1000, stride: 256 }]);
    }

    proptest! {
        #[test]
        fn pieces_come_back(steps in proptest::collection::vec((1_u64..4, 1_u64..3), 0..40)) {
            let mut at = 0;
            let pieces: Vec<Range> = steps
                .into_iter()
                .map(|(gap, len)| {
                    let piece = Range { offset: at + gap, len };
                    at = piece.end();
                    piece
                })
                .collect();
            let mut bytes = Vec::new();
            let data = encode(pieces.iter().copied(), &mut bytes);
            prop_assert_eq!(data, pieces.iter().map(|p| p.len).sum::<u64>());
            let back: Vec<Range> = decode(&bytes).flat_map(Run::pieces).collect();
            prop_assert_eq!(back, pieces);
        }
    }
}
