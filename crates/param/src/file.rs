//! Parameter files: lines of the form `NAME = VALUE`.
//!
//! ```text
//! # Comments take a line, or follow a value after a blank.
//! wait_spin_us = 5      # like this
//! btl_tcp_if_include = "eth0,10.0.0.0/8"
//! ```
//!
//! Blanks around names and values are ignored. A value may stand in quotes (`"` or `'`), in which
//! `#` is an ordinary character. If a name occurs twice, the later line wins.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The longest parameter file, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;
/// The longest file of hosts or programs, in bytes.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;

/// The error of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("the line is not of the form 'NAME = VALUE'")]
    Form,
    #[error("the value starts with a quote but does not end with it")]
    Quote,
    #[error("the line is not text (UTF-8)")]
    Text,
    #[error(
        "this is none of the options that can stand here: '--mca NAME VALUE' (also -ssi, -gmca) and '-x NAME=VALUE'"
    )]
    Option,
    #[error("the option needs {0} after it, on the same line")]
    Missing(&'static str),
    #[error("-x needs a variable: NAME=VALUE, or a NAME that is set in the environment of mpirun")]
    Variable,
}

/// The error of a line, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// In characters, from 1.
    pub column: usize,
    pub error: LineError,
}

/// A line `NAME = VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<'a> {
    pub name: Cow<'a, str>,
    pub value: Cow<'a, str>,
    /// The positions of name and value in the line, in characters from 1.
    pub columns: (usize, usize),
}

/// The number of a line, from 1, and its content.
pub type FileEntry<'a> = (usize, Result<Assignment<'a>, Wrong>);

/// The lines of a file, without empty lines and comments. Lines end with `\n` or `\r\n`.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = FileEntry<'_>> {
    texts(bytes).map(|(number, line)| (number, line.and_then(assignment)))
}

pub(crate) fn texts(bytes: &[u8]) -> impl Iterator<Item = (usize, Result<&str, Wrong>)> {
    (1..).zip(bytes.split(|&b| b == b'\n')).filter_map(|(number, line)| {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text.trim_end(),
            Err(error) => {
                let before = String::from_utf8_lossy(&line[..error.valid_up_to()]);
                let wrong = Wrong { column: before.chars().count() + 1, error: LineError::Text };
                return Some((number, Err(wrong)));
            }
        };
        let start = text.trim_start();
        (!start.is_empty() && !start.starts_with('#')).then_some((number, Ok(text)))
    })
}

/// The position of `part` in `line`, in characters from 1.
pub(crate) fn column(line: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.get(..at).map_or(1, |before| before.chars().count() + 1)
}

pub(crate) fn assignment(line: &str) -> Result<Assignment<'_>, Wrong> {
    let start = line.trim_start();
    let wrong = |part: &str, error| Wrong { column: column(line, part), error };
    let (name, value) = start.split_once('=').ok_or(wrong(start, LineError::Form))?;
    let (name, value) = (name.trim_end(), value.trim_start());
    if name.is_empty() || name.contains(char::is_whitespace) || name.contains('#') {
        return Err(wrong(start, LineError::Form));
    }
    let said = |value| Assignment {
        name: Cow::Borrowed(name),
        value: Cow::Borrowed(value),
        columns: (column(line, name), column(line, value)),
    };
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            let (inside, after) = rest.split_once(quote).ok_or(wrong(value, LineError::Quote))?;
            let after = after.trim_start();
            let ends = after.is_empty() || after.starts_with('#');
            return if ends { Ok(said(inside)) } else { Err(wrong(after, LineError::Quote)) };
        }
    }
    // A comment starts with '#' at the beginning of a word.
    let comment = value
        .char_indices()
        .find(|&(at, c)| c == '#' && (at == 0 || value[..at].ends_with(char::is_whitespace)))
        .map_or(value.len(), |(at, _)| at);
    Ok(said(value[..comment].trim_end()))
}

/// Reads a parameter file, or a file that a parameter names; `None` if there is no such file.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Opening a pipe would wait for its writer, so the type is checked first.
    let found = match std::fs::metadata(path) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        found => found?,
    };
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not an ordinary file"));
    }
    read_at_most(File::open(path)?, MAX_BYTES).map(Some)
}

/// Reads a file or a pipe to its end. Fails if it has more than `most` bytes.
pub fn read_at_most(from: impl io::Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it has more than {most} bytes, which is the limit");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

/// Reads a file of hosts or programs, or a pipe: UTF-8, at most [`MAX_TEXT_BYTES`].
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_at_most(File::open(path)?, MAX_TEXT_BYTES)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Said = (usize, Result<(String, String), Wrong>);

    fn all(text: &str) -> Vec<Said> {
        let said = |one: Assignment<'_>| (one.name.into_owned(), one.value.into_owned());
        lines(text.as_bytes()).map(|(number, one)| (number, one.map(said))).collect()
    }

    fn is(number: usize, name: &str, value: &str) -> Said {
        (number, Ok((name.into(), value.into())))
    }

    #[test]
    fn names_and_values_are_found_whatever_stands_around_them() {
        for line in ["a=b", " a = b ", "a=b\r", "a\t=\tb\t# c", "a='b'", "a = \"b\" # c", "a=b #"] {
            assert_eq!(all(line), [is(1, "a", "b")], "{line:?}");
        }
        assert_eq!(all("# x\n\n  \na=b\n#a=c\nd=e"), [is(4, "a", "b"), is(6, "d", "e")]);
        assert_eq!(all("a="), [is(1, "a", "")]);
        assert_eq!(all("a=# b"), [is(1, "a", "")]);
        assert_eq!(all("a=b#c=d"), [is(1, "a", "b#c=d")]);
        assert_eq!(all("a='b # c'"), [is(1, "a", "b # c")]);
        assert_eq!(all("a=\" b\""), [is(1, "a", " b")]);
        let columns = |text: &str| lines(text.as_bytes()).next().unwrap().1.unwrap().columns;
        assert_eq!(columns("\u{fc} = \u{fc}b"), (1, 5));
        assert_eq!(columns("  ab = 'c'"), (3, 9));
    }

    #[test]
    fn lines_of_another_form_are_refused() {
        for (line, column) in
            [("a", 1), ("=b", 1), ("  a b = c", 3), ("-mca a b", 1), ("a # = b", 1)]
        {
            assert_eq!(all(line), [(1, Err(Wrong { column, error: LineError::Form }))], "{line:?}");
        }
        for (line, column) in [("a='b", 3), ("a='b' c", 7), ("a=\"b'", 3)] {
            assert_eq!(
                all(line),
                [(1, Err(Wrong { column, error: LineError::Quote }))],
                "{line:?}"
            );
        }
        let found: Vec<_> =
            lines(b"a=\xff\nb=c").map(|(number, one)| (number, one.err())).collect();
        assert_eq!(found, [(1, Some(Wrong { column: 3, error: LineError::Text })), (2, None)]);
    }

    #[test]
    fn what_is_no_ordinary_file_is_not_opened() {
        assert_eq!(read(Path::new("/proc/self/no-such-file")).unwrap(), None);
        assert_eq!(read(Path::new("/dev/null/file")).unwrap(), None);
        assert!(read(Path::new("/")).unwrap_err().to_string().contains("ordinary"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("ordinary"));
    }
}
