//! Composes the contents of a file from the file and its tails. Reads no file.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tail {
    pub(super) path: PathBuf,
    /// The host that cut it off. Another host may have a different file under the same path.
    pub(super) host: String,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The checksum of the bytes before it.
    pub(super) before: String,
    /// The newest set when the tail was cut off.
    pub(super) newest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteSource {
    /// The beginning of the file itself.
    File,
    Tail(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentPiece {
    pub(crate) source: ByteSource,
    pub(crate) bytes: u64,
}

impl ContentPiece {
    pub(super) fn tail(&self) -> Option<u64> {
        match self.source {
            ByteSource::Tail(number) => Some(number),
            ByteSource::File => None,
        }
    }
}

pub(super) fn length(pieces: &[ContentPiece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes).sum()
}

fn first(pieces: &[ContentPiece], bytes: u64) -> Vec<ContentPiece> {
    let mut left = bytes;
    let cut = pieces.iter().map(|piece| {
        let bytes = piece.bytes.min(left);
        left -= bytes;
        ContentPiece { bytes, ..*piece }
    });
    // The file is always the first piece, even if it contributes no bytes.
    cut.filter(|piece| piece.bytes > 0 || piece.source == ByteSource::File).collect()
}

/// The pieces that give a file this length and checksum, if any do. The file has `length_now`
/// bytes, and `content` returns the checksum of pieces. Pure.
pub(super) fn find(
    length_now: u64,
    tails: &[(u64, Tail)],
    (bytes, wanted): (u64, &str),
    content: &mut dyn FnMut(&[ContentPiece]) -> Option<String>,
) -> Option<Vec<ContentPiece>> {
    // Each tail fixes the bytes before it, so each tail leads to one state.
    let mut reached = BTreeSet::new();
    let mut states =
        VecDeque::from([vec![ContentPiece { source: ByteSource::File, bytes: length_now }]]);
    while let Some(state) = states.pop_front() {
        let all = length(&state);
        if all >= bytes {
            let found = first(&state, bytes);
            if content(&found).is_some_and(|found| found == wanted) {
                return Some(found);
            }
        }
        for (number, tail) in tails.iter().filter(|(_, tail)| tail.offset <= all) {
            let mut before = first(&state, tail.offset);
            if !reached.contains(number)
                && content(&before).is_some_and(|found| found == tail.before)
            {
                reached.insert(*number);
                before.push(ContentPiece { source: ByteSource::Tail(*number), bytes: tail.bytes });
                states.push_back(before);
            }
        }
    }
    None
}

/// The search without a checksum. Takes the first tail that this host cut off after the set was
/// made, if it began before the wanted length and reaches it.
pub(super) fn reach(
    length_now: u64,
    tails: &[(u64, Tail)],
    (bytes, number): (u64, u64),
    host: &str,
) -> Option<Vec<ContentPiece>> {
    let fits = |tail: &Tail| {
        let is_since = tail.newest >= number && tail.host == host;
        is_since
            && tail.offset <= length_now
            && tail.offset < bytes
            && tail.offset + tail.bytes >= bytes
    };
    let (tail_number, tail) = tails.iter().find(|(_, tail)| fits(tail))?;
    let file = ContentPiece { source: ByteSource::File, bytes: tail.offset };
    let rest = ContentPiece { source: ByteSource::Tail(*tail_number), bytes: bytes - tail.offset };
    Some(vec![file, rest])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory {
        file: &'static str,
        tails: Vec<(u64, &'static str)>,
    }

    impl Memory {
        fn text(&self, pieces: &[ContentPiece]) -> String {
            let text = |piece: &ContentPiece| {
                let source = match piece.source {
                    ByteSource::File => self.file,
                    ByteSource::Tail(number) => {
                        self.tails.iter().find(|(at, _)| *at == number).unwrap().1
                    }
                };
                source[..piece.bytes as usize].to_string()
            };
            pieces.iter().map(text).collect()
        }

        fn find(&self, tails: &[(u64, Tail)], wanted: &str) -> Option<usize> {
            let mut content = |pieces: &[ContentPiece]| Some(self.text(pieces));
            let found =
                find(self.file.len() as u64, tails, (wanted.len() as u64, wanted), &mut content)?;
            assert_eq!(self.text(&found), wanted);
            Some(found.len())
        }
    }

    fn tail(before: &str, bytes: &str) -> Tail {
        Tail {
            path: "/o".into(),
            host: "here".into(),
            offset: before.len() as u64,
            bytes: bytes.len() as u64,
            before: before.into(),
            newest: 3,
        }
    }

    #[test]
    fn contents_are_found_behind_several_tails_and_never_behind_other_bytes() {
        // The file was cut back to "ab" twice, and once to "abXY" in between.
        let memory = Memory { file: "abQ", tails: vec![(1, "cdef"), (2, "Zz"), (3, "XYW")] };
        let tails = [(1, tail("ab", "cdef")), (2, tail("abXY", "Zz")), (3, tail("ab", "XYW"))];
        assert_eq!(memory.find(&tails, "ab"), Some(1));
        assert_eq!(memory.find(&tails, ""), Some(1));
        assert_eq!(memory.find(&tails, "abcde"), Some(2));
        assert_eq!(memory.find(&tails, "abXYW"), Some(2));
        assert_eq!(memory.find(&tails, "abXYZz"), Some(3));
        for never in ["abcdZz", "abQZ", "abcdefg", "abXYZzz"] {
            assert_eq!(memory.find(&tails, never), None, "{never}");
        }
        let memory = Memory { file: "", tails: vec![(1, "ab")] };
        assert_eq!(memory.find(&[(1, tail("", "ab"))], "a"), Some(2));
        assert_eq!(memory.find(&[], "a"), None);
    }

    #[test]
    fn without_checksums_the_first_tail_since_the_set_is_taken() {
        let tails = [
            (1, Tail { newest: 2, ..tail("ab", "cdef") }),
            (2, tail("ab", "c")),
            (3, tail("ab", "cd")),
            (4, tail("ab", "XY")),
        ];
        let bytes =
            |pieces: Option<Vec<ContentPiece>>| pieces.map(|pieces| (pieces[0].bytes, pieces[1]));
        let piece = |number, bytes| ContentPiece { source: ByteSource::Tail(number), bytes };
        assert_eq!(bytes(reach(2, &tails, (4, 3), "here")), Some((2, piece(3, 2))));
        assert_eq!(bytes(reach(3, &tails, (4, 1), "here")), Some((2, piece(1, 2))));
        assert_eq!(reach(1, &tails, (4, 3), "here"), None);
        assert_eq!(reach(2, &tails, (4, 3), "nodea"), None, "that host may have another file");
        let behind = [(1, tail("abcd", "ef")), (2, tail("ab", "cd"))];
        assert_eq!(bytes(reach(4, &behind, (4, 3), "here")), Some((2, piece(2, 2))));
        assert_eq!(reach(2, &tails, (5, 3), "here"), None);
    }
}
