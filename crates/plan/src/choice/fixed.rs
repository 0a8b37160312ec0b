//! The fixed decisions, read from `fixed.txt` while the library is compiled: constants without
//! pointers, which all processes of a node share. A mistake in the file ends the compilation.

use super::{ANY, DecisionRow, DecisionTable, LONG, Setup};
use crate::call::Collective;

pub(super) const TEXT: &[u8] = include_bytes!("fixed.txt");
const COUNTS: (usize, usize) = Reader::counts();
const TABLES: ([DecisionTable; COUNTS.0], [DecisionRow; COUNTS.1]) = Reader::tables();

pub(super) static PARTS: [DecisionTable; COUNTS.0] = TABLES.0;
pub(super) static ROWS: [DecisionRow; COUNTS.1] = TABLES.1;

struct Reader {
    at: usize,
}

impl Reader {
    const fn counts() -> (usize, usize) {
        let (mut parts, mut rows) = (0, 0);
        let mut reader = Reader { at: 0 };
        while reader.has_line() {
            if is_equal(reader.word(), b"part") {
                parts += 1
            } else {
                rows += 1
            }
            reader.skip_line();
        }
        (parts, rows)
    }

    const fn tables() -> ([DecisionTable; COUNTS.0], [DecisionRow; COUNTS.1]) {
        let mut parts = [DecisionTable::NONE; COUNTS.0];
        let mut rows = [DecisionRow::LAST; COUNTS.1];
        let (mut part, mut row) = (0, 0);
        let mut reader = Reader { at: 0 };
        while reader.has_line() {
            let first = reader.word();
            if is_equal(first, b"part") {
                parts[part] = reader.part(row);
                part += 1;
            } else {
                rows[row] = reader.row(first);
                row += 1;
                parts[part - 1].rows_end = row;
            }
            reader.skip_line();
        }
        (parts, rows)
    }

    const fn part(&mut self, row: usize) -> DecisionTable {
        let name = self.word();
        let mut at = 0;
        while !is_equal(Collective::ALL[at].name().as_bytes(), name) {
            at += 1;
            assert!(at < Collective::ALL.len(), "fixed.txt names a collective that does not exist");
        }
        DecisionTable {
            collective: Collective::ALL[at],
            setup: match self.choice(b"dedicated", b"oversubscribed") {
                Some(true) => Some(Setup::Dedicated),
                Some(false) => Some(Setup::Oversubscribed),
                None => None,
            },
            commutative: self.choice(b"commutative", b"others"),
            powers_of_two: self.choice(b"powers_of_two", b"others"),
            rows_begin: row,
            rows_end: row,
        }
    }

    const fn row(&mut self, max_size: &[u8]) -> DecisionRow {
        let max_size = self.number(max_size, ANY as u64) as u32;
        let max_bytes = self.word();
        let max_bytes = self.number(max_bytes, LONG as u64) as usize;
        let number = self.word();
        let number = self.number(number, 0) as u8;
        // The name is for readers of the file, and for a test.
        let _name = self.word();
        let segment = self.word();
        let segment_bytes = self.number(segment, 0) as u32;
        let fan_out = self.word();
        let fan_out = self.number(fan_out, 0) as u16;
        DecisionRow { max_size, max_bytes, number, segment_bytes, fan_out }
    }

    /// Moves to the next line that is no comment. Returns `false` at the end.
    const fn has_line(&mut self) -> bool {
        while self.at < TEXT.len() && TEXT[self.at] == b'#' {
            self.skip_line();
        }
        self.at < TEXT.len()
    }

    const fn skip_line(&mut self) {
        while TEXT[self.at] != b'\n' {
            self.at += 1;
        }
        self.at += 1;
    }

    /// The next word of the line. One blank separates words.
    const fn word(&mut self) -> &'static [u8] {
        if TEXT[self.at] == b' ' {
            self.at += 1;
        }
        let begin = self.at;
        while TEXT[self.at] != b' ' && TEXT[self.at] != b'\n' {
            self.at += 1;
        }
        TEXT.split_at(self.at).0.split_at(begin).1
    }

    /// Whether the next word is `yes` or `no`; `None` for `-`.
    const fn choice(&mut self, yes: &[u8], no: &[u8]) -> Option<bool> {
        let word = self.word();
        match () {
            () if is_equal(word, yes) => Some(true),
            () if is_equal(word, no) => Some(false),
            () if is_equal(word, b"-") => None,
            () => panic!("fixed.txt has a word in a part's line that has no meaning there"),
        }
    }

    /// The number in a word; `-` is `unbounded`.
    const fn number(&self, word: &[u8], unbounded: u64) -> u64 {
        if is_equal(word, b"-") {
            return unbounded;
        }
        assert!(!word.is_empty(), "a row of fixed.txt has too few words");
        let (mut number, mut at) = (0, 0);
        while at < word.len() {
            assert!(word[at].is_ascii_digit(), "fixed.txt has a word where a number is needed");
            number = number * 10 + (word[at] - b'0') as u64;
            at += 1;
        }
        number
    }
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}
