//! The boot schema: a file with the hosts of a universe, one per line.
//!
//! ```text
//! # cpu: processors to use; user: account; schedule: whether N and C include the host;
//! # prefix: path of OxMPI
//! node1.cluster.example  cpu=4
//! node2.cluster.example  cpu=4 user=guest
//! head.cluster.example   schedule=no
//! ```
//!
//! `slots=` and `count=` are synonyms of `cpu=`. A host on several lines is one node with the sum
//! of their processors, where a line without a number counts one.

use oxmpi_param::nearest::nearest;

/// A host of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub cpus: Option<u32>,
    pub user: Option<String>,
    pub is_scheduled: bool,
    pub prefix: Option<String>,
}

impl Host {
    /// A host without further properties.
    pub fn new(name: &str) -> Host {
        Host { name: name.into(), cpus: None, user: None, is_scheduled: true, prefix: None }
    }
}

/// Why a file is not a boot schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("line {line}: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        why: String,
    },
    #[error("no host is named: write a line 'HOST' or 'HOST cpu=N' for each")]
    Empty,
}

const KEYS: [&str; 6] = ["cpu", "slots", "count", "user", "schedule", "prefix"];

/// Reads a boot schema. Hosts are in the order of their first lines.
pub fn hosts(text: &str) -> Result<Vec<Host>, SchemaError> {
    let mut all: Vec<Host> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let mut words = content.split('#').next().unwrap_or_default().split_whitespace();
        let Some(name) = words.next() else { continue };
        let wrong = |why| SchemaError::Line { line, why };
        let mut host = Host::new(name);
        if name.contains('=') || name.starts_with('-') {
            return Err(wrong(format!("'{name}' is no name of a host, which comes first")));
        }
        words.try_for_each(|word| key(&mut host, word)).map_err(wrong)?;
        match all.iter_mut().find(|other| other.name.eq_ignore_ascii_case(&host.name)) {
            Some(other) => join(other, host).map_err(wrong)?,
            None => all.push(host),
        }
    }
    if all.is_empty() { Err(SchemaError::Empty) } else { Ok(all) }
}

fn key(host: &mut Host, word: &str) -> Result<(), String> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let some = |what: &str| match value {
        "" => Err(format!("'{word}': {what} is missing")),
        _ => Ok(Some(value.to_string())),
    };
    match key {
        "cpu" | "slots" | "count" => {
            let number = value.parse().ok().filter(|&n: &u32| n > 0);
            let wanted = || format!("'{word}': '{value}' is not a number of processors, 1 or more");
            host.cpus = Some(number.ok_or_else(wanted)?);
        }
        "user" if value.starts_with('-') => {
            return Err(format!("'{word}': no account has this name"));
        }
        "user" => host.user = some("the account")?,
        "prefix" if !value.starts_with('/') => {
            return Err(format!("'{word}': the directory of the installation begins with '/'"));
        }
        "prefix" => host.prefix = some("the directory")?,
        "schedule" => match value {
            "yes" | "true" | "1" => host.is_scheduled = true,
            "no" | "false" | "0" => host.is_scheduled = false,
            _ => return Err(format!("'{word}': '{value}' is neither yes nor no")),
        },
        _ => {
            let hint =
                nearest(key, KEYS).map(|n| format!("; did you mean '{n}='?")).unwrap_or_default();
            return Err(format!(
                "'{word}' is none of {}{hint}",
                KEYS.map(|k| format!("{k}=")).join(", ")
            ));
        }
    }
    Ok(())
}

fn join(host: &mut Host, more: Host) -> Result<(), String> {
    if more.user.is_some() && more.user != host.user {
        return Err(format!("'{}' has another user on a line before this", host.name));
    }
    let sum = host.cpus.unwrap_or(1).checked_add(more.cpus.unwrap_or(1));
    host.cpus = Some(sum.ok_or_else(|| format!("'{}' has too many processors", host.name))?);
    host.is_scheduled &= more.is_scheduled;
    host.prefix = more.prefix.or(host.prefix.take());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_host() {
        let all =
            hosts("# ours\n a cpu=2 user=me # one\n\nb schedule=no prefix=/opt/x\nA\nc slots=3\n")
                .unwrap();
        let host = |name: &str, cpus| Host { cpus, ..Host::new(name) };
        let a = Host { user: Some("me".into()), ..host("a", Some(3)) };
        let b = Host { is_scheduled: false, prefix: Some("/opt/x".into()), ..host("b", None) };
        assert_eq!(all, [a, b, host("c", Some(3))]);
    }

    #[test]
    fn faults_are_reported_with_their_line() {
        let of = |text: &str| hosts(text).unwrap_err().to_string();
        assert!(of("\na cpus=4").starts_with("line 2: 'cpus=4' is none of cpu=, slots="));
        assert!(of("a cpus=4").ends_with("did you mean 'cpu='?"));
        assert!(of("a cpu=0").contains("'0' is not a number of processors"));
        assert!(of("a schedule=maybe").contains("neither yes nor no"));
        assert!(of("a user=").contains("the account is missing"));
        assert!(
            of("-oProxyCommand=x").contains("no name of a host")
                && of("a user=-l").contains("no account")
        );
        assert!(of("a prefix=opt").contains("begins with '/'"));
        assert!(of("a user=x\na user=y").contains("another user"));
        assert!(of("a cpu=4294967295\na").contains("too many"));
        assert!(of("# nothing\n").contains("no host is named"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([a-c#=\\-]|cpu=|user=|[0-3]|\n| ){0,60}") {
            if let Ok(all) = hosts(&text) {
                prop_assert!(!all.is_empty());
            }
        }
    }
}
