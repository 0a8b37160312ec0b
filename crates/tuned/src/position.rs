//! Places in a rules file, and what is said about them.

use std::fmt;

/// A place in a file. Lines and columns (characters) count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a rules file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {problem}")]
pub struct RulesError {
    /// The name of the file.
    pub file: String,
    /// Where it stands.
    pub at: Position,
    /// What was expected and what is there.
    pub problem: String,
}

/// Something in a rules file that can hardly be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The name of the file.
    pub file: String,
    /// Where it stands.
    pub at: Position,
    /// What is strange, and what is made of it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.at, self.text)
    }
}

/// What goes wrong inside a parser, which does not know the name of the file.
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

/// A walk through the characters of a text that counts lines and columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a str,
    at: Position,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        // An editor's mark of the encoding is no character of the text.
        Cursor { rest: text.trim_start_matches('\u{feff}'), at: Position { line: 1, column: 1 } }
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

    /// Takes characters as long as they are wanted.
    pub(crate) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let start = self.rest;
        while self.peek().is_some_and(&wanted) {
            self.next();
        }
        &start[..start.len() - self.rest.len()]
    }
}
