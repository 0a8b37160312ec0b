//! The Fortran programs of `tests/fortran`, compiled once with the installed `mpifort` and run by
//! the installed `mpirun`; and a program that names every procedure, for each interface.
//!
//! The first line of a program gives its numbers of ranks: `! ranks: 1 2 4`. A program exits with 0
//! and prints `ok` as its last line. A line `! options: -std=f2018` has options for the compiler.
//! Each program and number of ranks is a test, `PROGRAM::RANKS`.
//!
//! `cargo xtask test` makes the installation and names it in OXMPI_TEST_PREFIX.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

mod every;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

use support::{TestDirectory, compiled_fortran, installed, root};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let entries = std::fs::read_dir(root().join("tests/fortran")).unwrap();
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension != "c"));
    sources.sort();
    for path in sources {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).unwrap();
        match ranks_of(&source) {
            Ok(ranks) => trials.extend(ranks.into_iter().map(|ranks| {
                let path = path.clone();
                Trial::test(format!("{name}::{ranks}"), move || says_ok(&path, ranks))
            })),
            Err(error) => trials.push(Trial::test(format!("head::{name}"), || Err(error.into()))),
        }
    }
    for (name, interface) in [("mpif_h", "include 'mpif.h'"), ("mpi", "use mpi")] {
        let test = move || every::compiles_and_links(name, interface).map_err(Failed::from);
        trials.push(Trial::test(format!("every::{name}"), test));
    }
    trials.push(Trial::test("every::mpi_f08", || {
        every::f08_compiles_and_links().map_err(Failed::from)
    }));
    libtest_mimic::run(&arguments, trials).exit();
}

fn ranks_of(source: &str) -> Result<Vec<u32>, String> {
    let line = source.lines().next().and_then(|line| line.strip_prefix("! ranks: "));
    let ranks = line.ok_or("it does not begin with '! ranks: 1 2 4'")?;
    let ranks: Result<Vec<u32>, _> = ranks.split(' ').map(str::parse).collect();
    ranks.map_err(|error| format!("'! ranks:' has {error}"))
}

fn says_ok(source: &Path, ranks: u32) -> Result<(), Failed> {
    let program = compiled_fortran(source)?;
    // Programs write files into their directory.
    let directory = TestDirectory::new("fortran");
    let mut command = Command::new(installed("mpirun"));
    command.args(["-n", &ranks.to_string(), "--timeout", "60"]).arg(program);
    command.current_dir(&directory).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("mpirun: {error}"))?;
    let out = String::from_utf8_lossy(&output.stdout);
    match out.lines().last() {
        Some("ok") if output.status.success() => Ok(()),
        _ => {
            let err = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?}: {}\n{out}--- errors\n{err}", output.status).into())
        }
    }
}
