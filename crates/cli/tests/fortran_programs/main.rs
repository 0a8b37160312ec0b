//! The Fortran programs below `tests/fortran`, compiled once with the installed `mpifort` and run
//! by the installed `mpirun`; and a program that names every procedure, for each interface.
//!
//! The first line of a program gives its numbers of ranks: `! ranks: 1 2 4`. A program exits with 0
//! and prints `ok` as its last line. Each program and number of ranks is a test,
//! `PROGRAM::RANKS`. With a second line `! options: -a | -b -c` a program is compiled once for each
//! list of options, and each list is a test too: `PROGRAM::RANKS::-a`. The tests use GNU Fortran,
//! `gfortran` or the program that OXMPI_TEST_GFORTRAN names.
//! flang compiles each program with the first list of options, for the largest number of ranks:
//! `PROGRAM::RANKS::flang`, unless a line `! not for flang: REASON` says why not. The libraries
//! for programs of other MPIs run the programs too: `MPI::PROGRAM::RANKS` ([`faces`]).
//!
//! Programs in a directory of `tests/fortran` each show one thing that users do. Their tests,
//! `night::DIRECTORY::PROGRAM::RANKS`, are those of the nightly run; [`EVERY_DAY`] names a few that
//! run every day with GNU Fortran and the largest number of ranks.
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

const FLANG: &str = "flang-new-19";

/// Programs of directories that run every day: some of each directory and interface.
const EVERY_DAY: [&str; 16] = [
    "collectives::in_place",
    "collectives::minloc",
    "collectives::user_op_type",
    "communicators::extra_state",
    "communicators::extra_state_of_key",
    "communicators::spawn_arguments",
    "files::subarrays",
    "files::write_at",
    "messages::heat_2d_sections",
    "messages::probe_length",
    "messages::waitany",
    "rma::shared_window",
    "sections::components",
    "sections::dummies",
    "types::common_block",
    "types::sequence_type",
];

/// Programs of `tests/faces`, for libraries of other MPIs alone.
const OF_FACES: [&str; 6] = [
    "ignored_statuses",
    "module_mpi",
    "module_mpi_f08",
    "names_of_mpich_4_2",
    "names_of_openmpi_5",
    "sections_f08",
];

/// Directories without programs.
const NO_PROGRAMS: [&str; 1] = ["support"];

fn main() {
    let arguments = Arguments::from_args();
    let gnu: &'static str =
        std::env::var("OXMPI_TEST_GFORTRAN").map_or("gfortran", |name| name.leak());
    let mut trials = Vec::new();
    let programs = programs(&root().join("tests/fortran"), "");
    for name in EVERY_DAY {
        assert!(programs.iter().any(|(found, _)| found == name), "there is no {name}");
    }
    for name in OF_FACES {
        let path = root().join("tests/faces").join(name).with_extension("f90");
        trials.extend(faces::trials(name, &path, 2, ""));
    }
    for (name, path) in programs {
        match Program::read(name.clone(), path) {
            Ok(program) => trials.extend(program.trials(gnu)),
            Err(error) => trials.push(Trial::test(format!("head::{name}"), || Err(error.into()))),
        }
    }
    for (compiler, end) in [(gnu, ""), (FLANG, "::flang")] {
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

/// The programs below a directory, with their names.
fn programs(directory: &Path, prefix: &str) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !NO_PROGRAMS.contains(&name.as_str()) {
            found.extend(programs(&path, &format!("{prefix}{name}::")));
        } else if path.extension().is_some_and(|extension| extension != "c") {
            found.push((format!("{prefix}{name}"), path));
        }
    }
    found
}

struct Program {
    name: String,
    path: PathBuf,
    ranks: Vec<u32>,
    options: Vec<String>,
    is_for_flang: bool,
}

impl Program {
    fn read(name: String, path: PathBuf) -> Result<Program, String> {
        let source = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        Ok(Program {
            name,
            path,
            ranks: ranks_of(&source)?,
            options: options_of(&source),
            is_for_flang: !source.lines().any(|line| line.starts_with("! not for flang: ")),
        })
    }

    fn trials(&self, gnu: &'static str) -> Vec<Trial> {
        let first = self.options.first().map_or("", String::as_str);
        let most = self.ranks.iter().copied().max().unwrap_or(1);
        let mut trials = faces::trials(&self.name, &self.path, most, first);
        for &ranks in &self.ranks {
            for options in &self.options {
                let is_day = !self.name.contains("::")
                    || ranks == most && EVERY_DAY.contains(&self.name.as_str());
                trials.push(self.trial(ranks, gnu, options, options, is_day));
            }
        }
        if self.is_for_flang {
            let is_day = !self.name.contains("::");
            trials.push(self.trial(most, FLANG, first, "flang", is_day));
        }
        trials
    }

    fn trial(
        &self,
        ranks: u32,
        compiler: &'static str,
        options: &str,
        end: &str,
        is_day: bool,
    ) -> Trial {
        let night = if is_day { "" } else { "night::" };
        let title = format!("{night}{}::{ranks}::{end}", self.name);
        let (path, options) = (self.path.clone(), options.to_owned());
        let test = move || says_ok(&path, ranks, compiler, &options);
        Trial::test(title.trim_end_matches("::"), test).with_ignored_flag(!is_day)
    }
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
