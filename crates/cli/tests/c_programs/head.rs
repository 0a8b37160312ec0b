//! The first lines of a C test, which say how it is run.
//!
//! ```c
//! // ranks: 1 2 4 7
//! // transports: all
//! // every day: ofi nodes
//! // not over: gm, because a first contact needs both processes in the library
//! ```
//!
//! `ranks` and `transports` are required, in this order. `// every day: none` leaves a program that takes long to the night.

use super::ways::Way;

/// Which transports can change what a program shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transports {
    /// Every one: it sends messages.
    All,
    /// Those between processes of one node: it tests shared memory.
    Near,
    /// None: its calls are local, or its few messages are a means to an end. It runs over shared memory alone.
    One,
}

/// What a program says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Numbers of ranks, ascending.
    pub(crate) ranks: Vec<u32>,
    pub(crate) transports: Transports,
    /// Ways that it takes every day.
    pub(crate) every_day: Vec<Way>,
    /// Ways that it cannot take.
    pub(crate) not_over: Vec<Way>,
}

impl Head {
    /// # Errors
    /// The line that is missing or that nobody understands.
    pub(crate) fn read(source: &str) -> Result<Head, String> {
        let lines: Vec<(&str, &str)> = source.lines().map_while(key_and_value).collect();
        let [("ranks", ranks), ("transports", transports), rest @ ..] = &lines[..] else {
            return Err("it does not begin with '// ranks: 1 2 4' and '// transports: all'".into());
        };
        let ranks: Result<Vec<u32>, _> = ranks.split(' ').map(str::parse).collect();
        let ranks = ranks.map_err(|error| format!("'// ranks:' has {error}"))?;
        if !ranks.is_sorted_by(|a, b| a < b) {
            return Err(format!("'// ranks:' does not ascend: {ranks:?}"));
        }
        let transports = match *transports {
            "all" => Transports::All,
            "near" => Transports::Near,
            "one" => Transports::One,
            other => return Err(format!("'// transports: {other}' is not all, near or one")),
        };
        let mut head = Head { ranks, transports, every_day: vec![Way::Shm], not_over: Vec::new() };
        if transports == Transports::All {
            head.every_day.push(Way::Tcp);
        }
        for (key, value) in rest {
            match *key {
                "every day" if *value == "none" => head.every_day.clear(),
                "every day" => {
                    for name in value.split(' ') {
                        head.every_day.push(Way::from_name(name)?);
                    }
                }
                "not over" => match value.split_once(", because ") {
                    Some((way, _)) => head.not_over.push(Way::from_name(way)?),
                    None => return Err(format!("'// not over: {value}' gives no reason")),
                },
                _ => return Err(format!("nobody understands '// {key}: {value}'")),
            }
        }
        let own = &head.every_day[..];
        let wrong = own.iter().find(|way| **way != Way::Tcp && !head.takes(**way));
        match wrong {
            Some(way) => Err(format!("it takes the way {} every day, and never", way.name())),
            None => Ok(head),
        }
    }

    /// Whether the way is one of its transports.
    pub(crate) fn takes(&self, way: Way) -> bool {
        let concerned = match self.transports {
            Transports::All => way != Way::TcpShared || self.every_day.contains(&way),
            Transports::Near => way.is_near(),
            Transports::One => way == Way::Shm,
        };
        concerned && !self.not_over.contains(&way)
    }
}

/// The parts of a line `// KEY: VALUE`. A key is a word or two in small letters; another text before a colon is a comment behind the head.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.strip_prefix("// ")?.split_once(": ")?;
    let is_key =
        key.split(' ').count() <= 2 && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b' ');
    is_key.then_some((key, value))
}

#[cfg(test)]
#[allow(unused_imports)] // the program `c_programs` runs no test of this kind, `command_line` does
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let head = Head::read(
            "// ranks: 1 2 4\n// transports: all\n// every day: ofi lamd\n\
             // not over: tcp, because it looks into its segment\n/* ... */\n// ranks: 9\n",
        )
        .unwrap();
        assert_eq!((head.ranks.as_slice(), head.transports), (&[1, 2, 4][..], Transports::All));
        let every_day = vec![Way::Shm, Way::Tcp, Way::Ofi, Way::Lamd];
        assert_eq!((head.every_day, head.not_over), (every_day, vec![Way::Tcp]));
        let head =
            Head::read("// ranks: 2\n// transports: one\n// every day: none\n// Comments: ...\n").unwrap();
        assert!(head.every_day.is_empty() && head.takes(Way::Shm));
    }

    #[test]
    fn a_wrong_head_is_refused() {
        for (text, part) in [
            ("int main() {}", "does not begin"),
            ("// ranks: 2\n", "does not begin"),
            ("// ranks: 2 two\n// transports: all\n", "'// ranks:'"),
            ("// ranks: 4 2\n// transports: all\n", "ascend"),
            ("// ranks: 2\n// transports: some\n", "some"),
            ("// ranks: 2\n// transports: all\n// not over: tcp\n", "no reason"),
            ("// ranks: 2\n// transports: all\n// flag: -g\n", "flag"),
            ("// ranks: 2\n// transports: all\n// every day: pigeon\n", "pigeon"),
            ("// ranks: 2\n// transports: near\n// every day: lamd\n", "never"),
        ] {
            let error = Head::read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
