//! The project's few verbs: `cargo xtask demo`, `test`, `fuzz`, `soak`, `install`, `docs`, `decisions`, `bench`,
//! `conformance`, `order`, `style`.
#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod criu;
mod decisions;
mod footprint;
mod install;
mod junit;
mod mpich;
mod needs;
mod nightly;
mod order;
mod packages;
mod run;
mod soak;
mod steps;
mod style;
mod test;
mod ucc;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use run::{Failure, Run};

const HELP: &str = "\
cargo xtask demo                            install into target/oxmpi and run an example on 4 ranks
cargo xtask test [--share K/10] [--only STEP] [--allow-skips] [--json FILE]
                                            the everyday run: what must hold before a change goes in, with a table of
                                            times; a check that this machine does not allow fails unless skips are allowed;
                                            --share: a share of the nightly run after it
cargo xtask nightly [--share K/10] [--resume] [--only STEP] [--allow-skips] [--json FILE]
                                            what the everyday run leaves out, or one of its ten shares
cargo xtask fuzz [--seconds N]              all fuzzers, N seconds (600) each
cargo xtask soak [--seconds N]              long random tests: N seconds (60) for each of five parts, and half an hour
cargo xtask install --prefix DIR [--debug]  build and install: bin, lib, include
cargo xtask bench [--help]                  measure beside other MPI libraries: tables and pictures
cargo xtask conformance [--help]            run mpi4py's test suite and other foreign programs
cargo xtask decisions [--check]             work out again which algorithm serves which collective (5 minutes of two
                                            processors); --check: say whether that is what is committed
cargo xtask order                           record anew which functions lie first in the library
cargo xtask style [PATH...]                 check the rules of docs/style.md; with paths: print everything found there
cargo xtask docs                            make tables and pictures in docs/ new
";

fn main() -> ExitCode {
    // A descriptor of the caller, perhaps opened in another mount namespace, would be in every rank, where CRIU cannot look it up.
    oxmpi_sys::spawn::close_others(&[]);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["demo"] => demo(),
        ["test", ref words @ ..] => test::test(words),
        ["nightly", ref words @ ..] => nightly::nightly(words),
        ["fuzz"] => fuzz(600),
        ["fuzz", "--seconds", seconds] => match seconds.parse() {
            Ok(seconds) => fuzz(seconds),
            Err(_) => Err(Failure::new(format!("--seconds {seconds}: not a number of seconds"))),
        },
        ["soak"] => soak::soak(60),
        ["soak", "--seconds", seconds] => match seconds.parse() {
            Ok(seconds) => soak::soak(seconds),
            Err(_) => Err(Failure::new(format!("--seconds {seconds}: not a number of seconds"))),
        },
        ["install", "--prefix", dir] => install::install(Path::new(dir), true),
        ["install", "--prefix", dir, "--debug"] | ["install", "--debug", "--prefix", dir] => {
            install::install(Path::new(dir), false)
        }
        ["bench", ref words @ ..] => bench::bench(words),
        ["conformance", ref words @ ..] => conformance::conformance(words),
        ["decisions"] => decisions::decisions(),
        ["decisions", "--check"] => decisions::check(),
        ["order"] => order::order(),
        ["style", ref paths @ ..] => style::style(paths),
        ["docs"] => docs(),
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(Failure::new(format!("'{}' is none of the verbs:\n{HELP}", words.join(" ")))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Writes what `docs/` has from the tables of the code.
fn docs() -> Result<(), Failure> {
    let documents = ["-p", "oxmpi-cli", "--test", "command_line", "documents::"];
    Run::cargo().args(["nextest", "run", "--locked"]).args(documents).env("OXMPI_WRITE_DOCS", "1").show()
}

/// All fuzzers, with an installation of their own.
fn fuzz(seconds: u64) -> Result<(), Failure> {
    test::make_installation(&test::prefix())?;
    test::fuzz(seconds, None)
}

/// Installs, compiles an unmodified C program and runs it on 4 ranks.
fn demo() -> Result<(), Failure> {
    let prefix = root().join("target/oxmpi");
    install::install(&prefix, true)?;
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

/// The project's directory.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
