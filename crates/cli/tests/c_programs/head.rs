//! The first lines of a C test, which describe how it is run.
//!
//! ```c
//! // ranks: 1 2 4 7
//! // transports: all
//! // every day: ofi nodes
//! // not over: gm, because a first contact needs both processes in the library
//! ```
//!
//! `ranks` and `transports` are required, in this order. A program with `// every day: none` runs
//! only at night, as it takes long.

use super::transport_options::TransportOptions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportScope {
    All,
    Near,
    /// None: the calls are local, or their few messages are not the subject of the test. The
    /// program runs over shared memory alone.
    One,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) ranks: Vec<u32>,
    pub(crate) transports: TransportScope,
    pub(crate) every_day: Vec<TransportOptions>,
    pub(crate) not_over: Vec<TransportOptions>,
}

impl Head {
    /// # Errors
    /// A line is missing or has a wrong form.
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
            "all" => TransportScope::All,
            "near" => TransportScope::Near,
            "one" => TransportScope::One,
            other => return Err(format!("'// transports: {other}' is not all, near or one")),
        };
        let mut head = Head {
            ranks,
            transports,
            every_day: vec![TransportOptions::Shm],
            not_over: Vec::new(),
        };
        if transports == TransportScope::All {
            head.every_day.push(TransportOptions::Tcp);
        }
        for (key, value) in rest {
            match *key {
                "every day" if *value == "none" => head.every_day.clear(),
                "every day" => {
                    for name in value.split(' ') {
                        head.every_day.push(TransportOptions::from_name(name)?);
                    }
                }
                "not over" => match value.split_once(", because ") {
                    Some((transport, _)) => {
                        head.not_over.push(TransportOptions::from_name(transport)?)
                    }
                    None => return Err(format!("'// not over: {value}' gives no reason")),
                },
                _ => {
                    return Err(format!(
                        "'// {key}: {value}' is none of the keys 'every day' and 'not over'"
                    ));
                }
            }
        }
        let own = &head.every_day[..];
        let wrong = own
            .iter()
            .find(|transport| **transport != TransportOptions::Tcp && !head.takes(**transport));
        match wrong {
            Some(transport) => Err(format!(
                "{} is a transport of every day, but not one of the program",
                transport.name()
            )),
            None => Ok(head),
        }
    }

    pub(crate) fn takes(&self, transport: TransportOptions) -> bool {
        let concerned = match self.transports {
            TransportScope::All => {
                transport != TransportOptions::TcpShared || self.every_day.contains(&transport)
            }
            TransportScope::Near => transport.is_near(),
            TransportScope::One => transport == TransportOptions::Shm,
        };
        concerned && !self.not_over.contains(&transport)
    }
}

/// Splits a line `// KEY: VALUE`. A key is one or two words in small letters; another line with a
/// colon is a comment behind the head.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.strip_prefix("// ")?.split_once(": ")?;
    let is_key = key.split(' ').count() <= 2
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b' ');
    is_key.then_some((key, value))
}

#[cfg(test)]
#[allow(unused_imports)] // for the program `c_programs` without unit tests
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let head = Head::read(
            "// ranks: 1 2 4\n// transports: all\n// every day: ofi lamd\n\
             // not over: tcp, because it reads its segment\n/* ... */\n// ranks: 9\n",
        )
        .unwrap();
        assert_eq!((head.ranks.as_slice(), head.transports), (&[1, 2, 4][..], TransportScope::All));
        let every_day = vec![
            TransportOptions::Shm,
            TransportOptions::Tcp,
            TransportOptions::Ofi,
            TransportOptions::Lamd,
        ];
        assert_eq!((head.every_day, head.not_over), (every_day, vec![TransportOptions::Tcp]));
        let head =
            Head::read("// ranks: 2\n// transports: one\n// every day: none\n// Comments: ...\n")
                .unwrap();
        assert!(head.every_day.is_empty() && head.takes(TransportOptions::Shm));
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
            ("// ranks: 2\n// transports: near\n// every day: lamd\n", "not one of the program"),
        ] {
            let error = Head::read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
