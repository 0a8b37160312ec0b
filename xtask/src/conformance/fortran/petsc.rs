//! PETSc: its examples and tests for Fortran, with the numbers of ranks that each of them names,
//! compared with reference outputs by PETSc's own harness.

use std::collections::BTreeMap;

use super::super::results::{Test, Verdict};
use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranCompiler, FortranJob, Judge};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode = ForeignCode {
    version: "3.18.5",
    package: "petsc",
    needed: &[("/usr/bin/python3", "python3"), ("/usr/bin/diff", "diffutils")],
    ranks: &[2, 4],
    build,
    jobs,
};

/// The directory of PETSc's build, in its own words an architecture.
const BUILD: &str = "PETSC_ARCH=oxmpi";

/// The names of tests of programs in Fortran, such as `ksp_ksp_tutorials-ex2f_1`. Some of C have
/// such a name too.
const NAMES: &str = "searchin=*-*[0-9]f*";

/// A test that is left out with flang, and why.
const MIXED_OUTPUT: (&str, &str) = (
    "ksp_ksp_tutorials-ex2f_2",
    "its reference has lines of Fortran and C in order, and flang writes its own at the end",
);

fn build(site: &Site) -> Result<(), BuildFailure> {
    let source = site.source("petsc")?;
    let mut configure = site.command("/usr/bin/python3", &source);
    configure.arg("configure").arg(BUILD);
    configure
        .args(["--with-cxx=0", "--with-x=0", "--with-ssl=0", "--with-hwloc=0", "--with-pthread=0"])
        .args(["--with-shared-libraries=0", "--with-debugging=0", "--with-make-np=2"])
        // These replace PETSc's own flags, of which its test for free form needs the one for lines.
        .arg("CFLAGS=-w")
        .arg(format!("FFLAGS=-w {}", site.compiler.long_lines()))
        .args(["--COPTFLAGS=-O0", "--FOPTFLAGS=-O0"])
        .arg(format!("--with-mpi-dir={}", site.prefix().display()))
        .arg(format!(
            "--with-blaslapack-lib=[{},{}]",
            site.lapack()?.display(),
            site.blas_words()?.join(",")
        ));
    site.step("petsc-configure", configure)?;
    let mut make = site.make(&source);
    make.args([BUILD, "MAKE_NP=2", "libs"]).arg(format!("PETSC_DIR={}", source.display()));
    Ok(site.step("petsc", make)?)
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let source = site.unpacked("petsc")?;
    // With '--quiet' the harness prints no verdicts.
    let mut make = site.command("/usr/bin/make", &source);
    make.args(["-j2", "-f", "gmakefile.test", "test", "TIMEOUT=60", "query=nsize", NAMES, BUILD])
        .arg(format!("queryval={ranks}"))
        // The reference outputs are those of a build with X.
        .env("PETSC_OPTIONS", "-nox_warning")
        .arg(format!("PETSC_DIR={}", source.display()));
    let least = if ranks == 2 { 40 } else { 20 };
    let read = match site.compiler {
        FortranCompiler::Gfortran => read,
        FortranCompiler::Flang19 => read_flang,
    };
    Ok(vec![FortranJob::new("test", make, Judge::Each(read, least)).within(600)])
}

/// The lines of the Test Anything Protocol: `ok NAME`, `not ok NAME`, `ok NAME # SKIP REASON`. A
/// test has lines for its job and for the comparison of its output, which begins with `diff-`.
fn read(output: &str) -> Vec<Test> {
    let mut tests: BTreeMap<String, Test> = BTreeMap::new();
    for line in output.lines().map(str::trim) {
        let (is_good, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => continue,
        };
        let (name, note) = rest.split_once('#').unwrap_or((rest, ""));
        let verdict = match (is_good, note.trim().strip_prefix("SKIP")) {
            (false, _) => Verdict::Failed,
            (true, Some(_)) => Verdict::Skipped,
            (true, None) => Verdict::Passed,
        };
        let name = name.trim().trim_start_matches("diff-").to_owned();
        let reason = note.trim().trim_start_matches("SKIP").trim();
        let text = if reason.is_empty() { line } else { reason };
        let test = tests
            .entry(name.clone())
            .or_insert_with(|| Test::new(name, Verdict::Skipped, String::new()));
        // The comparison is left out after a job that failed.
        if verdict > test.verdict || test.text.is_empty() {
            (test.verdict, test.text) = (verdict, text.to_owned());
        }
    }
    tests.into_values().collect()
}

fn read_flang(output: &str) -> Vec<Test> {
    let mut tests = read(output);
    for test in tests.iter_mut().filter(|test| test.name == MIXED_OUTPUT.0) {
        (test.verdict, test.text) = (Verdict::Skipped, MIXED_OUTPUT.1.to_owned());
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_comparisons_are_one_test() {
        let output = "\
        TEST oxmpi/tests/counts/a.counts
 ok a # SKIP PETSC_HAVE_HPDDM requirement not met
 ok b
 ok diff-b
not ok c # Error code: 1
 ok diff-c # SKIP Command failed so no diff
 ok d
not ok diff-d # Error code: 1
";
        let tests: Vec<_> =
            read(output).into_iter().map(|test| (test.name, test.verdict)).collect();
        let named = |name: &str, verdict| (name.to_owned(), verdict);
        assert_eq!(
            tests,
            [
                named("a", Verdict::Skipped),
                named("b", Verdict::Passed),
                named("c", Verdict::Failed),
                named("d", Verdict::Failed),
            ]
        );
        assert_eq!(read(output)[0].text, "PETSC_HAVE_HPDDM requirement not met");
    }
}
