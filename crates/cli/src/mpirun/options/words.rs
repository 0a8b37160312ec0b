//! Files of programs: each line is what could stand between two `:` on the command line.

use std::ffi::OsString;

/// The words of a file, its lines separated by `:`. Words may be quoted as in a shell, without variables.
pub(super) fn of_file(text: &str) -> Result<Vec<OsString>, String> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = of_line(line).ok_or_else(|| format!("line {number}: a quote is not closed"))?;
        if words.is_empty() {
            continue;
        }
        if !all.is_empty() {
            all.push(":".into());
        }
        all.extend(words);
    }
    Ok(all)
}

/// The words of a line; `None` if a quote is not closed. A word that starts with `#` starts a comment.
fn of_line(line: &str) -> Option<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => break,
            c if c.is_whitespace() => words.extend(word.take().map(OsString::from)),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        '\\' if c == '"' => word.push(chars.next()?),
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(OsString::from));
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_programs() {
        let words = of_file("# two programs\n-n 1 'a b' \"c \\\" d\"\n\n-n 2 e\\ f '' g#h # end\n").unwrap();
        assert_eq!(words, ["-n", "1", "a b", "c \" d", ":", "-n", "2", "e f", "", "g#h"]);
        assert_eq!(of_file("a\n'b").unwrap_err(), "line 2: a quote is not closed");
        assert_eq!(of_file("a \\").unwrap_err(), "line 1: a quote is not closed");
        assert!(of_file("").unwrap().is_empty());
    }
}
