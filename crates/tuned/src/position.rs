//! Positions in a rules file, with errors and warnings.

use std::fmt;

/// A position in a file. Lines and columns (in characters) count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The first error of a rules file, which makes the file unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {problem}")]
pub struct RulesError {
    pub file: String,
    pub at: Position,
    /// The expected and the found text.
    pub problem: String,
}

/// A probable mistake in a rules file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub file: String,
    pub at: Position,
    /// The mistake, and how OxMPI reads it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.at, self.text)
    }
}

/// An error or warning of a parser, which does not know the name of the file.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) at: Position,
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(at: Position, text: impl Into<String>) -> Problem {
        Problem { at, text: text.into() }
    }
}

/// A position in a text that counts lines and columns as it moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextCursor<'a> {
    rest: &'a str,
    at: Position,
}

impl<'a> TextCursor<'a> {
    pub(crate) fn new(text: &'a str) -> TextCursor<'a> {
        // A byte order mark is no character of the text.
        TextCursor {
            rest: text.trim_start_matches('\u{feff}'),
            at: Position { line: 1, column: 1 },
        }
    }

    pub(crate) fn at(&self) -> Position {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.at = Position { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    pub(crate) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let start = self.rest;
        while self.peek().is_some_and(&wanted) {
            self.next();
        }
        &start[..start.len() - self.rest.len()]
    }
}
