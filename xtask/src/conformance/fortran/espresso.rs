//! pw.x of Quantum ESPRESSO: self-consistent fields of silicon, metals and magnetic systems,
//! compared with the reference results of its test suite by its own tool.

use std::fs;

use super::super::results::{Test, Verdict};
use super::super::{debian, make_directory};
use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranJob, Judge};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode = ForeignCode {
    version: "6.7",
    package: "espresso",
    needed: &[("/usr/bin/python3", "python3")],
    ranks: &[2, 4],
    build,
    jobs,
};

/// The groups of tests, each with the number of its tests.
const GROUPS: [(&str, usize); 3] = [("pw_scf", 20), ("pw_metal", 7), ("pw_lsda", 8)];

fn build(site: &Site) -> Result<(), BuildFailure> {
    let source = site.source("espresso")?;
    // The test suite would fetch them from a web site.
    let pseudopotentials = debian::additions("espresso", &site.packages)?.join("pseudo");
    let cannot = || Failure::io(format!("cannot copy {}", pseudopotentials.display()));
    for entry in fs::read_dir(&pseudopotentials).map_err(cannot())?.flatten() {
        let to = source.join("pseudo").join(entry.file_name());
        fs::copy(entry.path(), to).map_err(cannot())?;
    }
    let mut configure = site.command(source.join("configure"), &source);
    configure
        .args(["MPIF90=mpif90", "CC=gcc", "--with-scalapack=no"])
        .args(["--disable-openmp", "FFLAGS=-O1 -w", "CFLAGS=-O1 -w"])
        .arg(format!("LAPACK_LIBS={}", site.lapack()?.display()))
        .arg(format!("BLAS_LIBS={}", site.blas_words()?.join(" ")));
    site.step("espresso-configure", configure)?;
    let mut make = site.make(&source);
    // configure takes every MPI compiler that it does not know for GNU Fortran, and the library FoX
    // is made without MPI.
    make.arg("pw").arg(format!("F90={}", site.compiler.program()));
    site.step("espresso", make)?;
    let mut make = site.make(&source.join("test-suite"));
    make.arg("prolog");
    Ok(site.step("espresso-tests", make)?)
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let source = site.unpacked("espresso")?;
    let scratch = source.join("tempdir");
    make_directory(&scratch)?;
    let suite = source.join("test-suite");
    let job = |(group, least): (&str, usize)| {
        let mut python = site.command("/usr/bin/python3", &suite);
        python
            .arg("testcode/bin/testcode.py")
            .args(["--verbose", &format!("--category={group}")])
            .env("QE_USE_MPI", "1")
            .env("TESTCODE_NPROCS", ranks.to_string())
            .env("ESPRESSO_ROOT", &source)
            .env("ESPRESSO_PSEUDO", source.join("pseudo"))
            .env("ESPRESSO_TMPDIR", &scratch);
        FortranJob::new(group, python, Judge::Each(read, least)).within(600)
    };
    Ok(GROUPS.into_iter().map(job).collect())
}

/// `pw_scf - scf-1.in: Passed.`, with some verdicts in colours. A warning is a difference within
/// the wider of two tolerances.
fn read(output: &str) -> Vec<Test> {
    let test = |line: &str| {
        let (test, verdict) = line.rsplit_once(": ")?;
        let (group, input) = test.split_once(" - ")?;
        let verdict = ["Passed", "WARNING", "SKIPPED", "FAILED", "Unknown"]
            .into_iter()
            .find(|word| verdict.contains(word))?;
        let name = format!("{}.{}", group.trim(), input.trim().trim_end_matches(".in"));
        let verdict = match verdict {
            "Passed" | "WARNING" => Verdict::Passed,
            "SKIPPED" => Verdict::Skipped,
            _ => Verdict::Failed,
        };
        Some(Test::new(name, verdict, line))
    };
    output.lines().filter_map(test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        let output = "\
Using executable: run-pw.sh.
pw_scf - scf.in: Passed.
pw_scf - scf-1.in: \u{1b}[0;34mWARNING\u{1b}[0m.
pw_scf - scf-2.in: \u{1b}[1;31m**FAILED**\u{1b}[0m.
pw_scf - scf-beef.in: \u{1b}[0;34mSKIPPED\u{1b}[0m.
All done. ERROR: only 2 out of 4 tests passed.
";
        let tests: Vec<_> =
            read(output).into_iter().map(|test| (test.name, test.verdict)).collect();
        let named = |name: &str, verdict| (format!("pw_scf.{name}"), verdict);
        assert_eq!(
            tests,
            [
                named("scf", Verdict::Passed),
                named("scf-1", Verdict::Passed),
                named("scf-2", Verdict::Failed),
                named("scf-beef", Verdict::Skipped),
            ]
        );
    }
}
