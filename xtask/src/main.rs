//! The verbs of `cargo xtask`. [`HELP`] lists them.
#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod criu;
mod decisions;
mod documents;
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
cargo xtask demo                            install into target/oxmpi, run an example on 4 ranks
cargo xtask test [--share K/10] [--only STEP] [--allow-skips] [--json FILE]
                                            the everyday run, with a table of times: what must hold
                                            before a change goes in; --share: then a share of the
                                            nightly run; --only: the steps with this in their names;
                                            --allow-skips: checks that this machine does not allow
                                            are listed and do not fail
cargo xtask nightly [--share K/10] [--resume] [--only STEP] [--allow-skips] [--json FILE]
                                            the tests that the everyday run leaves out, or one of
                                            their ten shares; --resume: without the steps that have
                                            passed on the same tree
cargo xtask fuzz [--seconds N]              all fuzzers, N seconds (600) each
cargo xtask soak [--seconds N]              long random tests: N seconds (60) for each of five
                                            parts, and half an hour
cargo xtask install --prefix DIR [--debug]  build and install: bin, lib, include
cargo xtask bench [OPTIONS]                 compare with other MPI libraries: tables and pictures
cargo xtask conformance [OPTIONS]           run mpi4py's test suite and other foreign programs
cargo xtask decisions [--check]             compute the fixed decisions of collectives again
                                            (5 minutes of two processors); --check: compare them
                                            with the committed ones
cargo xtask order                           record which functions lie first in the library
cargo xtask style [PATH...]                 check the rules of docs/style.md, and the links and
                                            paths of all documents; with paths: print every finding
                                            in Rust files below them
cargo xtask docs                            write the tables and pictures of docs/ again
cargo xtask VERB --help                     print the lines of this help for one verb
";

/// Verbs with a help text of their own.
const WITH_OWN_HELP: [&str; 2] = ["bench", "conformance"];

fn main() -> ExitCode {
    // Every rank would inherit a descriptor of the caller, and CRIU cannot image one that was
    // opened in another mount namespace.
    oxmpi_sys::spawn::close_others(&[]);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        [] | ["help" | "-h" | "--help", ..] => {
            print!("{HELP}");
            Ok(())
        }
        [verb, ref rest @ ..]
            if rest.iter().any(|word| ["-h", "--help"].contains(word)) && !WITH_OWN_HELP.contains(&verb) =>
        {
            match help_of(verb) {
                Some(help) => {
                    print!("{help}");
                    Ok(())
                }
                None => Err(unknown(&words)),
            }
        }
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
        _ => Err(unknown(&words)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The lines of [`HELP`] about one verb.
fn help_of(verb: &str) -> Option<String> {
    let head = format!("cargo xtask {verb} ");
    let mut lines = HELP.lines().skip_while(|line| !format!("{line} ").starts_with(&head));
    let first = lines.next()?;
    let more = lines.take_while(|line| line.starts_with(' '));
    Some(std::iter::once(first).chain(more).map(|line| format!("{line}\n")).collect())
}

fn unknown(words: &[&str]) -> Failure {
    Failure::new(format!("'{}' is not a command of xtask:\n{HELP}", words.join(" ")))
}

/// Writes the parts of `docs/` that come from tables of the code.
fn docs() -> Result<(), Failure> {
    let written = "test(documents::) and not test(documents::commands::)";
    let documents = ["-p", "oxmpi-cli", "--test", "command_line", "-E", written];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_its_help() {
        let test = help_of("test").unwrap();
        assert!(test.starts_with("cargo xtask test ") && test.ends_with("do not fail\n"), "{test}");
        assert_eq!(help_of("demo").unwrap().lines().count(), 1);
        assert_eq!(help_of("tes"), None);
    }
}
