//! Checksums that identify the first bytes of a file.
//!
//! A file of up to [`WHOLE`] bytes is read completely. Of a longer file, [`PIECES`] pieces at equal
//! distances are read, the first and the last bytes included. So a checkpoint reads at most
//! [`WHOLE`] bytes of each file. If two runs of a job appended different bytes, the last piece
//! differs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

pub(crate) const WHOLE: u64 = 16 << 20;
const PIECES: u64 = 64;
const PIECE: u64 = WHOLE / PIECES;

/// The checksum of `bytes` bytes, in hexadecimal digits. `read` fills a buffer from an offset.
pub(crate) fn checksum(
    bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes.to_le_bytes());
    let mut buffer = vec![0; PIECE as usize];
    for (at, length) in pieces(bytes) {
        let piece = &mut buffer[..length as usize];
        read(at, piece)?;
        hasher.update(piece);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The checksum of the first `bytes` bytes of a file. Fails if the file is shorter or unreadable.
pub(crate) fn checksum_of(file: &File, bytes: u64) -> io::Result<String> {
    checksum(bytes, |at, piece| file.read_exact_at(piece, at))
}

/// Offset and length of each piece that is read.
fn pieces(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = if bytes <= WHOLE { bytes.div_ceil(PIECE) } else { PIECES };
    (0..count).map(move |number| match bytes <= WHOLE {
        true => (number * PIECE, PIECE.min(bytes - number * PIECE)),
        false => {
            let at = u128::from(bytes - PIECE) * u128::from(number) / u128::from(PIECES - 1);
            (u64::try_from(at).unwrap_or(0), PIECE)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_files_are_read_whole_and_long_ones_in_pieces() {
        for bytes in [0, 1, PIECE, PIECE + 1, WHOLE] {
            let mut next = 0;
            for (at, length) in pieces(bytes) {
                assert!(at == next && length > 0, "{bytes}");
                next = at + length;
            }
            assert_eq!(next, bytes);
        }
        for bytes in [WHOLE + 1, 1 << 40, u64::MAX] {
            let all: Vec<_> = pieces(bytes).collect();
            assert_eq!((all.len() as u64, all[0].0), (PIECES, 0));
            assert_eq!(all.last().map(|(at, length)| at + length), Some(bytes));
        }
    }

    #[test]
    fn the_length_and_each_byte_of_a_short_file_count() {
        let sum = |contents: &[u8], bytes: usize| {
            let read = |at: u64, piece: &mut [u8]| {
                piece.copy_from_slice(&contents[at as usize..][..piece.len()]);
                Ok(())
            };
            checksum(bytes as u64, read).unwrap()
        };
        assert_eq!(sum(b"abc", 2), sum(b"abd", 2));
        assert_ne!(sum(b"abc", 3), sum(b"abd", 3));
        assert_ne!(sum(b"\0\0", 1), sum(b"\0\0", 2));
        let failing = checksum(3, |_, _| Err(io::ErrorKind::UnexpectedEof.into()));
        assert_eq!(failing.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
