//! Parameter files: lines of the form `NAME = VALUE`.
//!
//! ```text
//! # Comments take a line, or follow a value after a blank.
//! wait_spin_us = 5      # like this
//! btl_tcp_if_include = "eth0,10.0.0.0/8"
//! ```
//!
//! Blanks around names and values do not count. A value may stand between quotes (`"` or `'`), in which `#` is a
//! character like any other. If a name comes twice, the later line holds.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A parameter file may have so many bytes; what is longer is none.
pub const MAX_BYTES: u64 = 1 << 20;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// No `=`, or nothing before it.
    #[error("the line is not of the form 'NAME = VALUE'")]
    Form,
    /// A quote that is not closed, or something behind the closing one.
    #[error("the value starts with a quote but does not end with it")]
    Quote,
    /// Not UTF-8.
    #[error("the line is not text (UTF-8)")]
    Text,
}

/// A line of a file that says something: its number, counted from 1, and name and value.
pub type Line<'a> = (usize, Result<(&'a str, &'a str), LineError>);

/// The lines of a file that are neither empty nor comments. Lines end with `\n` or `\r\n`.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    (1..).zip(bytes.split(|&b| b == b'\n')).filter_map(|(number, line)| {
        let Ok(line) = std::str::from_utf8(line) else { return Some((number, Err(LineError::Text))) };
        let line = line.trim();
        (!line.is_empty() && !line.starts_with('#')).then(|| (number, assignment(line)))
    })
}

fn assignment(line: &str) -> Result<(&str, &str), LineError> {
    let (name, value) = line.split_once('=').ok_or(LineError::Form)?;
    let (name, value) = (name.trim_end(), value.trim_start());
    if name.is_empty() || name.contains(char::is_whitespace) || name.contains('#') {
        return Err(LineError::Form);
    }
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            let (inside, after) = rest.split_once(quote).ok_or(LineError::Quote)?;
            let after = after.trim_start();
            let ends = after.is_empty() || after.starts_with('#');
            return if ends { Ok((name, inside)) } else { Err(LineError::Quote) };
        }
    }
    // A comment starts with '#' where a word would start.
    let comment = value
        .char_indices()
        .find(|&(at, c)| c == '#' && (at == 0 || value[..at].ends_with(char::is_whitespace)))
        .map_or(value.len(), |(at, _)| at);
    Ok((name, value[..comment].trim_end()))
}

/// The bytes of a parameter file, or of a file that a parameter names; `None` if there is no such file.
///
/// # Errors
/// It is there, but cannot be read, is no ordinary file, or is larger than [`MAX_BYTES`].
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Not opened before it is known to be an ordinary file: opening a pipe would wait for its writer.
    let found = match std::fs::metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        found => found?,
    };
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not an ordinary file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let text = format!("it has more than {MAX_BYTES} bytes and cannot be a parameter file");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Line<'_>> {
        lines(text.as_bytes()).collect()
    }

    #[test]
    fn names_and_values_are_found_whatever_stands_around_them() {
        for line in ["a=b", " a = b ", "a=b\r", "a\t=\tb\t# c", "a='b'", "a = \"b\" # c", "a=b #"] {
            assert_eq!(all(line), [(1, Ok(("a", "b")))], "{line:?}");
        }
        assert_eq!(all("# x\n\n  \na=b\n#a=c\nd=e"), [(4, Ok(("a", "b"))), (6, Ok(("d", "e")))]);
        assert_eq!(all("a="), [(1, Ok(("a", "")))]);
        assert_eq!(all("a=# b"), [(1, Ok(("a", "")))]);
        assert_eq!(all("a=b#c=d"), [(1, Ok(("a", "b#c=d")))]);
        assert_eq!(all("a='b # c'"), [(1, Ok(("a", "b # c")))]);
        assert_eq!(all("a=\" b\""), [(1, Ok(("a", " b")))]);
    }

    #[test]
    fn lines_of_another_form_are_refused() {
        for line in ["a", "=b", "a b = c", "-mca a b", "a # = b"] {
            assert_eq!(all(line), [(1, Err(LineError::Form))], "{line:?}");
        }
        for line in ["a='b", "a='b' c", "a=\"b'"] {
            assert_eq!(all(line), [(1, Err(LineError::Quote))], "{line:?}");
        }
        let found: Vec<_> = lines(b"a=\xff\nb=c").collect();
        assert_eq!(found, [(1, Err(LineError::Text)), (2, Ok(("b", "c")))]);
    }

    #[test]
    fn what_is_no_ordinary_file_is_not_opened() {
        assert_eq!(read(Path::new("/proc/self/no-such-file")).unwrap(), None);
        assert_eq!(read(Path::new("/dev/null/file")).unwrap(), None);
        assert!(read(Path::new("/")).unwrap_err().to_string().contains("ordinary"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("ordinary"));
    }
}
