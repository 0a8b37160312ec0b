//! The file of `mpi_hostmap`: the address that a host announces to its peers, where hosts are in
//! several networks (the components guide, "General MPI MCA Parameters"; the format is ours).
//!
//! ```text
//! # HOST      ADDRESS           the address announced in place of HOST's own
//! node1       10.1.0.1
//! node2       10.1.0.2          # both by their names
//! 192.168.0.3 node3-fast        # by the address announced otherwise; a name is resolved
//! ```
//!
//! HOST is a host's name or address, on at most one line.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use oxmpi_param::{Params, file};

/// Below the installation's prefix: read if it exists and the parameter names no other file.
pub const DEFAULT_FILE: &str = "etc/oxmpi-hostmap.conf";

/// A host map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hostmap {
    lines: Vec<HostmapLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HostmapLine {
    number: usize,
    host: String,
    address: IpAddr,
}

/// A fault of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostmapError {
    #[error("parameter 'mpi_hostmap': {}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("parameter 'mpi_hostmap': file {}:{line}:{column}: {why}", path.display())]
    Line {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
        why: String,
    },
}

impl Hostmap {
    /// Reads the file that the parameter names, or else that of the installation at `prefix`;
    /// `none` reads no file. An error if the named file does not exist, or a line is malformed.
    pub fn load(params: &Params, prefix: Option<&Path>) -> Result<Hostmap, HostmapError> {
        let named = params.mpi_hostmap();
        let path = match named {
            "none" => return Ok(Hostmap::default()),
            "" => match prefix {
                Some(prefix) => prefix.join(DEFAULT_FILE),
                None => return Ok(Hostmap::default()),
            },
            name => PathBuf::from(name),
        };
        match file::read(&path) {
            Ok(Some(bytes)) => Hostmap::parse(&bytes, &path, &resolve),
            Ok(None) if named.is_empty() => Ok(Hostmap::default()),
            Ok(None) => Err(HostmapError::File {
                path,
                why: "there is no such file ('none' reads none)".into(),
            }),
            Err(error) => Err(HostmapError::File { path, why: error.to_string() }),
        }
    }

    /// Reads the text of a file. `resolve` returns the address of a name.
    pub fn parse(
        bytes: &[u8],
        path: &Path,
        resolve: &dyn Fn(&str) -> Option<IpAddr>,
    ) -> Result<Hostmap, HostmapError> {
        let mut lines: Vec<HostmapLine> = Vec::new();
        for (number, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let wrong = |column, why: String| HostmapError::Line {
                path: path.into(),
                line: number,
                column,
                why,
            };
            let text = std::str::from_utf8(text)
                .map_err(|_| wrong(1, "the line is not text (UTF-8)".into()))?;
            let said = text.split('#').next().unwrap_or_default();
            let words: Vec<&str> = said.split_whitespace().collect();
            let at = |word: &str| said.find(word).map_or(1, |at| said[..at].chars().count() + 1);
            let (host, address) = match words[..] {
                [] => continue,
                [host, address] => (host, address),
                [host] => {
                    return Err(wrong(at(host), format!("'{host}' needs an address after it")));
                }
                [_, _, more, ..] => {
                    let why = format!("'{more}' is too much: a line is of the form 'HOST ADDRESS'");
                    return Err(wrong(at(more), why));
                }
            };
            let found = address.parse().ok().or_else(|| resolve(address)).ok_or_else(|| {
                let column = said.rfind(address).map_or(1, |at| said[..at].chars().count() + 1);
                wrong(
                    column,
                    format!("'{address}' is no address, and no host of this name is known"),
                )
            })?;
            if let Some(first) = lines.iter().find(|line| line.host.eq_ignore_ascii_case(host)) {
                return Err(wrong(
                    at(host),
                    format!("'{host}' is mapped on line {} already", first.number),
                ));
            }
            lines.push(HostmapLine { number, host: host.into(), address: found });
        }
        Ok(Hostmap { lines })
    }

    /// A map of these hosts.
    pub(crate) fn of_pairs(pairs: impl Iterator<Item = (String, IpAddr)>) -> Hostmap {
        let lines =
            (1..).zip(pairs).map(|(number, (host, address))| HostmapLine { number, host, address });
        Hostmap { lines: lines.collect() }
    }

    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        self.lines.iter().map(|line| (line.host.clone(), line.address.to_string())).collect()
    }

    /// The address that the host `name` announces in place of `address`. A line with the address
    /// counts before one with the name.
    pub fn announced(&self, name: &str, address: IpAddr) -> IpAddr {
        let by_address = |line: &&HostmapLine| line.host.parse() == Ok(address);
        let by_name = |line: &&HostmapLine| line.host.eq_ignore_ascii_case(name);
        let line = self.lines.iter().find(by_address).or_else(|| self.lines.iter().find(by_name));
        line.map_or(address, |line| line.address)
    }
}

fn resolve(name: &str) -> Option<IpAddr> {
    (name, 0).to_socket_addrs().ok()?.map(|found| found.ip()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Hostmap, String> {
        let resolve = |name: &str| (name == "fast").then(|| IpAddr::from([10, 9, 9, 9]));
        Hostmap::parse(text.as_bytes(), Path::new("map"), &resolve)
            .map_err(|error| error.to_string())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_are_known_by_address_and_by_name() {
        let map = parse("# a\nnode1 10.0.0.1 # x\n\n192.168.0.3\tfast\r\n::1 fd00::1\n").unwrap();
        assert_eq!(map.announced("NODE1", ip("192.168.0.1")), ip("10.0.0.1"));
        assert_eq!(
            map.announced("node1", ip("192.168.0.3")),
            ip("10.9.9.9"),
            "the address counts first"
        );
        assert_eq!(map.announced("node2", ip("192.168.0.2")), ip("192.168.0.2"));
        assert_eq!(map.announced("node2", ip("::1")), ip("fd00::1"));
        assert_eq!(parse("").unwrap().announced("a", ip("::1")), ip("::1"));
    }

    #[test]
    fn wrong_lines_are_named_with_line_and_column() {
        for (text, error) in [
            ("\nnode1", "map:2:1: 'node1' needs an address after it"),
            (
                " a 10.0.0.1 eth0",
                "map:1:13: 'eth0' is too much: a line is of the form 'HOST ADDRESS'",
            ),
            (
                "a 10.0.0.300",
                "map:1:3: '10.0.0.300' is no address, and no host of this name is known",
            ),
            ("a fast\nA fast", "map:2:1: 'A' is mapped on line 1 already"),
        ] {
            let error_text = parse(text).unwrap_err();
            let wanted = format!("parameter 'mpi_hostmap': file {error}");
            assert_eq!(error_text, wanted);
        }
        let error = Hostmap::parse(b"a \xff", Path::new("map"), &|_| None).unwrap_err().to_string();
        assert!(error.ends_with("map:1:1: the line is not text (UTF-8)"), "{error}");
    }

    #[test]
    fn none_reads_no_file_and_a_named_one_must_be_there() {
        let with = |name| {
            Hostmap::load(
                &Params::default().with("mpi_hostmap", name).unwrap(),
                Some(Path::new("/nonexistent")),
            )
        };
        assert_eq!(with("none"), Ok(Hostmap::default()));
        assert_eq!(with(""), Ok(Hostmap::default()));
        let error = with("/nonexistent/map").unwrap_err().to_string();
        assert!(
            error.starts_with("parameter 'mpi_hostmap': /nonexistent/map: there is no such file"),
            "{error}"
        );
    }
}
