//! The file of `mpi_hostmap`: which address a host tells its peers, where hosts are in several networks (the components
//! guide, "General MPI MCA Parameters"; the format is ours).
//!
//! ```text
//! # HOST      ADDRESS           the address that peers are told in place of HOST's own
//! node1       10.1.0.1
//! node2       10.1.0.2          # both by their names
//! 192.168.0.3 node3-fast        # by the address that would be told otherwise; a name is looked up
//! ```
//!
//! HOST is a host's name or address, and stands on one line at most.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use oxmpi_param::{Params, file};

/// The file that is read if there is one and the parameter does not name another, below the installation's prefix.
pub const DEFAULT_FILE: &str = "etc/oxmpi-hostmap.conf";

/// What a file maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hostmap {
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    number: usize,
    host: String,
    address: IpAddr,
}

/// What is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostmapError {
    /// The file cannot be read.
    #[error("parameter 'mpi_hostmap': {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A line makes no sense.
    #[error("parameter 'mpi_hostmap': file {}:{line}:{column}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The character of the line, counted from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
}

impl Hostmap {
    /// Reads the file that the parameter names, or that of the installation at `prefix`; `none` reads no file.
    ///
    /// # Errors
    /// The named file is not there, or a line of it makes no sense.
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
            Ok(None) => {
                Err(HostmapError::File { path, why: "there is no such file ('none' reads none)".into() })
            }
            Err(error) => Err(HostmapError::File { path, why: error.to_string() }),
        }
    }

    /// Reads the text of a file. `resolve` finds the address of a name.
    ///
    /// # Errors
    /// A line makes no sense.
    pub fn parse(
        bytes: &[u8],
        path: &Path,
        resolve: &dyn Fn(&str) -> Option<IpAddr>,
    ) -> Result<Hostmap, HostmapError> {
        let mut lines: Vec<Line> = Vec::new();
        for (number, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let wrong =
                |column, why: String| HostmapError::Line { path: path.into(), line: number, column, why };
            let text =
                std::str::from_utf8(text).map_err(|_| wrong(1, "the line is not text (UTF-8)".into()))?;
            let said = text.split('#').next().unwrap_or_default();
            let words: Vec<&str> = said.split_whitespace().collect();
            let at = |word: &str| said.find(word).map_or(1, |at| said[..at].chars().count() + 1);
            let (host, address) = match words[..] {
                [] => continue,
                [host, address] => (host, address),
                [host] => return Err(wrong(at(host), format!("'{host}' needs an address after it"))),
                [_, _, more, ..] => {
                    let why = format!("'{more}' is too much: a line is of the form 'HOST ADDRESS'");
                    return Err(wrong(at(more), why));
                }
            };
            let found = address.parse().ok().or_else(|| resolve(address)).ok_or_else(|| {
                let column = said.rfind(address).map_or(1, |at| said[..at].chars().count() + 1);
                wrong(column, format!("'{address}' is no address, and no host of this name is known"))
            })?;
            if let Some(first) = lines.iter().find(|line| line.host.eq_ignore_ascii_case(host)) {
                return Err(wrong(at(host), format!("'{host}' is mapped on line {} already", first.number)));
            }
            lines.push(Line { number, host: host.into(), address: found });
        }
        Ok(Hostmap { lines })
    }

    /// One that maps these hosts.
    pub(crate) fn of_pairs(pairs: impl Iterator<Item = (String, IpAddr)>) -> Hostmap {
        let lines = (1..).zip(pairs).map(|(number, (host, address))| Line { number, host, address });
        Hostmap { lines: lines.collect() }
    }

    /// All hosts that it maps, and their addresses.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        self.lines.iter().map(|line| (line.host.clone(), line.address.to_string())).collect()
    }

    /// The address that the host of this name tells, which would tell `address` otherwise. A line with its address counts
    /// before one with its name.
    pub fn told(&self, name: &str, address: IpAddr) -> IpAddr {
        let by_address = |line: &&Line| line.host.parse() == Ok(address);
        let by_name = |line: &&Line| line.host.eq_ignore_ascii_case(name);
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
        Hostmap::parse(text.as_bytes(), Path::new("map"), &resolve).map_err(|error| error.to_string())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_are_known_by_address_and_by_name() {
        let map = parse("# a\nnode1 10.0.0.1 # x\n\n192.168.0.3\tfast\r\n::1 fd00::1\n").unwrap();
        assert_eq!(map.told("NODE1", ip("192.168.0.1")), ip("10.0.0.1"));
        assert_eq!(map.told("node1", ip("192.168.0.3")), ip("10.9.9.9"), "the address counts first");
        assert_eq!(map.told("node2", ip("192.168.0.2")), ip("192.168.0.2"));
        assert_eq!(map.told("node2", ip("::1")), ip("fd00::1"));
        assert_eq!(parse("").unwrap().told("a", ip("::1")), ip("::1"));
    }

    #[test]
    fn wrong_lines_are_named_with_line_and_column() {
        for (text, error) in [
            ("\nnode1", "map:2:1: 'node1' needs an address after it"),
            (" a 10.0.0.1 eth0", "map:1:13: 'eth0' is too much: a line is of the form 'HOST ADDRESS'"),
            ("a 10.0.0.300", "map:1:3: '10.0.0.300' is no address, and no host of this name is known"),
            ("a fast\nA fast", "map:2:1: 'A' is mapped on line 1 already"),
        ] {
            let told = parse(text).unwrap_err();
            let wanted = format!("parameter 'mpi_hostmap': file {error}");
            assert_eq!(told, wanted);
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
