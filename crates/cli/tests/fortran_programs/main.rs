//! The Fortran programs of `tests/fortran`, compiled once with the installed `mpifort` and run by
//! the installed `mpirun`; and a program that names every procedure, for each interface.
//!
//! The first line of a program gives its numbers of ranks: `! ranks: 1 2 4`. A program exits with 0
//! and prints `ok` as its last line. Each program and number of ranks is a test,
//! `PROGRAM::RANKS`. With a second line `! options: -a | -b -c` a program is compiled once for each
//! list of options, and each list is a test too: `PROGRAM::RANKS::-a`. The tests use GNU Fortran.
//! flang compiles each program with the first list of options, for the largest number of ranks:
//! `PROGRAM::RANKS::flang`, unless a line `! not for flang: REASON` says why not. The libraries for
//! programs of other MPIs run the programs too: `MPI::PROGRAM::2` ([`faces`]).
//!
//! `cargo xtask test` makes the installation and names it in OXMPI_TEST_PREFIX.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

mod every;
mod faces;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

use support::{TestDirectory, compiled_fortran, installed, root};

const GNU: &str = "gfortran";
const FLANG: &str = "flang-new-19";

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let entries = std::fs::read_dir(root().join("tests/fortran")).unwrap();
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension != "c"));
    sources.sort();
    // Programs for these libraries alone.
    for name in ["module_mpi.f90", "module_mpi_f08.f90", "sections_f08.f90"] {
        trials.extend(faces::trials(&root().join("tests/faces").join(name)));
    }
    for path in sources {
        trials.extend(faces::trials(&path));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).unwrap();
        let ranks = match ranks_of(&source) {
            Ok(ranks) => ranks,
            Err(error) => {
                trials.push(Trial::test(format!("head::{name}"), || Err(error.into())));
                continue;
            }
        };
        let options = options_of(&source);
        let mut add = |ranks: u32, compiler: &'static str, options: &str, end: &str| {
            let (path, options) = (path.clone(), options.to_owned());
            let test = format!("{name}::{ranks}::{end}");
            let test = test.trim_end_matches("::").to_owned();
            trials.push(Trial::test(test, move || says_ok(&path, ranks, compiler, &options)));
        };
        for &ranks in &ranks {
            options.iter().for_each(|options| add(ranks, GNU, options, options));
        }
        if source.lines().any(|line| line.starts_with("! not for flang: ")) {
            continue;
        }
        let most = ranks.into_iter().max().unwrap_or(1);
        add(most, FLANG, options.first().map_or("", String::as_str), "flang");
    }
    for (compiler, end) in [(GNU, ""), (FLANG, "::flang")] {
        for (name, interface) in
            [("mpif_h", "include 'mpif.h'"), ("mpi", "use mpi"), ("mpi_f08", "use mpi_f08")]
        {
            let test = move || every::compiles_and_links(name, interface, compiler);
            let test = move || test().map_err(Failed::from);
            trials.push(Trial::test(format!("every::{name}{end}"), test));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn ranks_of(source: &str) -> Result<Vec<u32>, String> {
    let line = source.lines().next().and_then(|line| line.strip_prefix("! ranks: "));
    let ranks = line.ok_or("it does not begin with '! ranks: 1 2 4'")?;
    let ranks: Result<Vec<u32>, _> = ranks.split(' ').map(str::parse).collect();
    ranks.map_err(|error| format!("'! ranks:' has {error}"))
}

/// Lists of options for the compiler.
fn options_of(source: &str) -> Vec<String> {
    let line = source.lines().nth(1).and_then(|line| line.strip_prefix("! options: "));
    line.unwrap_or_default().split('|').map(|list| list.trim().to_owned()).collect()
}

fn says_ok(source: &Path, ranks: u32, compiler: &str, options: &str) -> Result<(), Failed> {
    let options: Vec<_> = options.split_whitespace().collect();
    run_says_ok(&compiled_fortran(source, compiler, &options)?, ranks)
}

fn run_says_ok(program: &Path, ranks: u32) -> Result<(), Failed> {
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
