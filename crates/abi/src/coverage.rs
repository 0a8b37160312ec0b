//! The functions of the interface that the C library defines in its sources.
//!
//! The C library defines a function inside `mpi! { ... }` on a line that starts with `fn
//! MPI_Name(`, or inside `mpix! { ... }` with `MPIX_`. The build script of the library searches for these lines and reports functions
//! without a definition. The command line tool lists them. Comments are skipped, and no other code
//! has functions of such names.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::FuncId;

/// The functions that a source text defines: name and line number, from 1.
///
/// Unknown names that begin with `MPI_` or `MPIX_` are returned too, so that the caller can report them.
pub fn defined_in(source: &str) -> impl Iterator<Item = (&str, usize)> {
    source.lines().enumerate().filter_map(|(at, line)| {
        let rest = line.trim_start().strip_prefix("fn ")?.trim_start();
        let (name, _) = rest.split_once('(')?;
        let name = name.trim_end();
        let is_function = name.starts_with("MPI_") || name.starts_with("MPIX_");
        (is_function && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
            .then_some((name, at + 1))
    })
}

/// The functions defined by the sources of a directory.
#[derive(Debug, Default)]
pub struct Coverage {
    pub defined: BTreeMap<FuncId, (PathBuf, usize)>,
    /// Messages about unknown names, and about functions defined twice.
    pub mistakes: Vec<String>,
}

impl Coverage {
    /// Reads all `.rs` files of a directory and its subdirectories.
    pub fn scan(directory: &Path) -> io::Result<Coverage> {
        let mut coverage = Coverage::default();
        let mut waiting = vec![directory.to_owned()];
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                for entry in fs::read_dir(&path)? {
                    waiting.push(entry?.path());
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path)?;
                for (name, line) in defined_in(&source) {
                    coverage.note(name, &path, line);
                }
            }
        }
        Ok(coverage)
    }

    fn note(&mut self, name: &str, path: &Path, line: usize) {
        let place = format!("{}:{line}", path.display());
        let Some(id) = FuncId::from_name(name) else {
            self.mistakes.push(format!("{place}: {name} is not a function of MPI-5.0"));
            return;
        };
        if let Some((first, at)) = self.defined.insert(id, (path.to_owned(), line)) {
            self.mistakes
                .push(format!("{place}: {name} is defined in {}:{at} too", first.display()));
        }
    }

    /// The undefined functions, by name.
    pub fn missing(&self) -> impl Iterator<Item = FuncId> {
        FuncId::all().filter(|id| !self.defined.contains_key(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        mpi! {
            /// fn MPI_Recv( is only named here
            fn MPI_Send(buf: *const c_void) -> c_int { 0 }
            // fn MPI_Probe(
            fn MPI_Barrier(
                comm: Comm,
            ) -> c_int { 0 }
        }
        fn MPI_lookalike() {}
        fn MPIX_Win_revoke(win: Win) -> c_int { 0 }
        fn helper() { MPI_Bcast(); }
    ";

    #[test]
    fn finds_definitions_only() {
        let names: Vec<_> = defined_in(SOURCE).collect();
        assert_eq!(
            names,
            [("MPI_Send", 4), ("MPI_Barrier", 6), ("MPI_lookalike", 10), ("MPIX_Win_revoke", 11)]
        );
    }

    #[test]
    fn reports_unknown_and_repeated_names() {
        let mut coverage = Coverage::default();
        for (name, line) in defined_in(SOURCE).chain([("MPI_Send", 99)]) {
            coverage.note(name, Path::new("a.rs"), line);
        }
        assert_eq!(coverage.missing().count(), 662);
        assert_eq!(
            coverage.mistakes,
            [
                "a.rs:10: MPI_lookalike is not a function of MPI-5.0",
                "a.rs:99: MPI_Send is defined in a.rs:4 too"
            ]
        );
    }
}
