//! The verbs of `cargo xtask`. [`Verb`] lists them; the options of each stand next to its code.
#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod criu;
mod decisions;
mod documents;
mod footprint;
mod gfortran;
mod install;
mod junit;
mod needs;
mod nightly;
mod order;
mod packages;
mod pypi;
mod release;
mod run;
mod soak;
mod steps;
mod style;
mod test;
mod ucc;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use bench::BenchOptions;
use conformance::ConformanceOptions;
use decisions::DecisionsOptions;
use install::InstallOptions;
use nightly::NightlyOptions;
use release::ReleaseOptions;
use run::{Failure, Run};
use soak::SoakOptions;
use style::StyleOptions;
use test::RunOptions;

/// Builds, tests and measures OxMPI.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install into target/oxmpi, and run examples/heat.c on 4 ranks
    Demo,
    /// Run the everyday tests, which must pass before a change goes in
    ///
    /// With --share, that share of the nightly run follows. A table of times is printed at the end.
    Test(RunOptions),
    /// Run the tests that the everyday run leaves out, or one of their ten shares
    Nightly(NightlyOptions),
    /// Run all fuzzers
    Fuzz {
        /// Seconds that each fuzzer runs
        #[arg(long, value_name = "N", default_value_t = 600)]
        seconds: u64,
    },
    /// Run long random tests: five parts of --seconds each, and half an hour more
    Soak(SoakOptions),
    /// Build and install programs, library, header files and manual pages
    Install(InstallOptions),
    /// Make the wheel that pip installs
    Release(ReleaseOptions),
    /// Measure OxMPI next to other MPI libraries and to the limit of the machine
    ///
    /// Tables (report.md), figures (results.json) and pictures go into the directory of --out.
    Bench(BenchOptions),
    /// Run mpi4py's test suite and other programs by other people on OxMPI
    ///
    /// The suite runs module by module. The other programs are mpi4py's benchmarks and demos,
    /// NetPIPE, HPCC, ferrompi and HDF5; with --fortran, Fortran codes run instead. The exit code
    /// is 0 if exactly the tests fail that tests/conformance/expected-failures.txt lists.
    Conformance(ConformanceOptions),
    /// Compute the fixed decisions of collectives again (5 minutes of two processors)
    Decisions(DecisionsOptions),
    /// Record which functions lie first in the library
    Order,
    /// Check the rules of docs/style.md, and the links and paths of all documents
    Style(StyleOptions),
    /// Write the tables and pictures of docs/ again
    Docs,
}

fn main() -> ExitCode {
    // Every rank would inherit a descriptor of the caller, and CRIU cannot image one that was
    // opened in another mount namespace.
    oxmpi_sys::spawn::close_others(&[]);
    let result = match CommandLine::parse().verb {
        Verb::Demo => demo(),
        Verb::Test(options) => test::test(&options),
        Verb::Nightly(options) => nightly::nightly(&options),
        Verb::Fuzz { seconds } => fuzz(seconds),
        Verb::Soak(options) => soak::soak(&options),
        Verb::Install(options) => install::install(&options.prefix, options.build())
            .and_then(|()| install::make_modules(&options.prefix, &options.fortran)),
        Verb::Release(options) => release::release(&options),
        Verb::Bench(options) => bench::bench(&options),
        Verb::Conformance(options) => conformance::conformance(&options),
        Verb::Decisions(options) => decisions::decisions(&options),
        Verb::Order => order::order(),
        Verb::Style(options) => style::style(&options.paths),
        Verb::Docs => docs(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn docs() -> Result<(), Failure> {
    let written = "test(documents::) and not test(documents::commands::)";
    let documents = ["-p", "oxmpi-cli", "--test", "command_line", "-E", written];
    Run::cargo()
        .args(["nextest", "run", "--locked"])
        .args(documents)
        .env("OXMPI_WRITE_DOCS", "1")
        .show()
}

fn fuzz(seconds: u64) -> Result<(), Failure> {
    test::make_installation(&test::prefix())?;
    test::fuzz(seconds, None)
}

/// Installs, compiles an unmodified C program and runs it on 4 ranks.
fn demo() -> Result<(), Failure> {
    let prefix = root().join("target/oxmpi");
    install::install(&prefix, install::Build::release())?;
    let heat = root().join("target/oxmpi/heat");
    Run::new(prefix.join("bin/mpicc"))
        .args(["-O2"])
        .arg(root().join("examples/heat.c"))
        .arg("-o")
        .arg(&heat)
        .show()?;
    Run::new(prefix.join("bin/mpirun")).args(["-n", "4", "--timeout", "60"]).arg(&heat).show()?;
    println!("\nIt works. Try your own program:");
    println!(
        "  {0}/mpicc -O2 PROGRAM.c -o PROGRAM && {0}/mpirun -n 4 ./PROGRAM",
        prefix.join("bin").display()
    );
    Ok(())
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, CommandFactory as _};

    use super::*;

    /// Parses words as the options of a verb.
    pub(crate) fn read<O: Args>(words: &[&str]) -> Result<O, clap::Error> {
        let verb = O::augment_args(Command::new("verb").no_binary_name(true));
        O::from_arg_matches(&verb.try_get_matches_from(words)?)
    }

    #[test]
    fn every_verb_and_option_has_its_help() {
        let mut commands = CommandLine::command();
        commands.build();
        for verb in commands.get_subcommands() {
            assert!(verb.get_about().is_some(), "{verb}");
            for arg in verb.get_arguments() {
                assert!(arg.get_help().is_some(), "{verb}: {arg}");
            }
        }
    }
}
