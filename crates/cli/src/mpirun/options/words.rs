//! Files of programs (MPI-5.0 section 11.5, form B): each line is a part of a command line between
//! two `:`. Lines that begin with `#` are comments, and a line that ends with `\` continues in the
//! next one. A `:` is an ordinary word.

use std::ffi::OsString;

/// The words of each line that is not empty. Words may be quoted as in a shell, without variables.
pub(super) fn of_file(text: &str) -> Result<Vec<Vec<OsString>>, String> {
    let mut all = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if line.trim_start().starts_with('#') {
            continue;
        }
        let mut whole = line.to_string();
        while goes_on(&whole) {
            whole.pop();
            let next = lines.next().ok_or_else(|| {
                format!("line {number}: it ends with '\\', so it goes on in the next line, but there is none")
            })?;
            whole += next.1;
        }
        let words =
            of_line(&whole).ok_or_else(|| format!("line {number}: a quote is not closed"))?;
        if !words.is_empty() {
            all.push(words);
        }
    }
    Ok(all)
}

/// Whether the line ends with a backslash that no other backslash quotes.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The words of a line; `None` if a quote is not closed.
fn of_line(line: &str) -> Option<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
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
        let all =
            of_file("# two programs\n-n 1 'a b' \"c \\\" d\"\n\n-n 2 e\\ f '' g#h #2\n  # end\n")
                .unwrap();
        assert_eq!(
            all,
            [vec!["-n", "1", "a b", "c \" d"], vec!["-n", "2", "e f", "", "g#h", "#2"]]
        );
        assert_eq!(of_file("a\n'b").unwrap_err(), "line 2: a quote is not closed");
        assert!(of_file("").unwrap().is_empty());
    }

    #[test]
    fn lines_of_form_b_go_on_behind_a_backslash() {
        let all = of_file("-n 2 \\\n  -wdir /tmp \\\r\n\\\na : b\n# none \\\nc\\\\\n").unwrap();
        assert_eq!(all, [vec!["-n", "2", "-wdir", "/tmp", "a", ":", "b"], vec!["c\\"]]);
        let error = of_file("a\nb \\\nc\\").unwrap_err();
        assert!(error.starts_with("line 2: it ends with '\\'"), "{error}");
    }
}
