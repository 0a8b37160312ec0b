//! ScaLAPACK and its BLACS: the tester of the BLACS, which also sees whether an abort ends all
//! ranks, and testers of ScaLAPACK for real and complex matrices.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::write;
use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranCompiler, FortranJob, Judge, OutputCheck, success_with};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode = ForeignCode {
    version: "2.2.1",
    package: "scalapack",
    needed: &[("/usr/bin/cmake", "cmake")],
    ranks: &[2, 4],
    build,
    jobs,
};

/// The testers: solvers, least squares, and reductions for eigenvalues, dense and banded.
const TESTERS: [&str; 15] = [
    "xdlu", "xzlu", "xdllt", "xzllt", "xdqr", "xdinv", "xdls", "xdnep", "xdbrd", "xdhrd", "xdtrd",
    "xdgblu", "xddblu", "xdptllt", "xzevc",
];
/// Testers whose inputs have grids of more than two processes, each with its judge: the BLACS end a
/// job with fewer. They test eigenvalues, singular values and the BLACS themselves.
const FOUR_RANKS: [(&str, OutputCheck); 6] = [
    ("xdsep", check),
    ("xzgsep", check),
    ("xzheevr", check),
    ("xdsvd", check_lines),
    ("xFbtest", check_blacs),
    ("xCbtest", check_blacs),
];

const NEEDS_FOUR: &str = "its input has grids of 4 processes";

/// An input, and words of its line that requests a part of the test (`T`).
type InputPart = (&'static str, &'static str);

/// PxLACON of this version, which ScaLAPACK 2.2.3 mends, compares a variable that has no value yet,
/// so that ranks may decide differently and never meet again.
const REFINEMENT: [InputPart; 2] =
    [("TESTING/LU.dat", "Test Cond. Est."), ("TESTING/LLT.dat", "Test Cond. Est.")];
/// With flang: rank 0 prints all results, and rank 2 aborts the job, which ends rank 0 with all
/// results in its buffer.
const ABORT: InputPart = ("BLACS/TESTING/bt.dat", "Run AUX?");

fn build(site: &Site) -> Result<(), BuildFailure> {
    library(site)?;
    let place = directory(site);
    let mut make = site.make(&place);
    make.args(TESTERS).args(FOUR_RANKS.map(|(name, _)| name));
    site.step("scalapack-tests", make)?;
    for (input, words) in REFINEMENT {
        leave_out(&place.join(input), words)?;
    }
    if site.compiler == FortranCompiler::Flang19 {
        leave_out(&place.join(ABORT.0), ABORT.1)?;
    }
    Ok(())
}

fn leave_out(input: &Path, words: &str) -> Result<(), Failure> {
    let text = fs::read_to_string(input);
    let text = text.map_err(Failure::io(format!("cannot read {}", input.display())))?;
    match without(&text, words) {
        Some(changed) => write(input, &changed),
        None => Err(Failure::new(format!("{} has no line with '{words}'", input.display()))),
    }
}

/// The input with `F` at the beginning of the line that has these words.
fn without(text: &str, words: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains(words))?;
    let (switch, _) = line.split_once(char::is_whitespace)?;
    let changed = switch.replace('T', "F") + &line[switch.len()..];
    Some(text.replacen(line, &changed, 1))
}

fn directory(site: &Site) -> PathBuf {
    site.programs.join("scalapack")
}

/// The directory of the tester of the BLACS and its input.
fn blacs(site: &Site) -> PathBuf {
    directory(site).join("BLACS/TESTING")
}

/// The library for other codes, which is compiled by GNU Fortran for each of their compilers: they
/// call procedures of Fortran 77 alone. So there are programs with objects of two compilers.
pub(super) fn library_for_others(site: &Site) -> Result<PathBuf, BuildFailure> {
    library(&site.with(FortranCompiler::Gfortran))
}

fn library(site: &Site) -> Result<PathBuf, BuildFailure> {
    site.once("scalapack-library", |site| {
        let source = site.source("scalapack")?;
        let place = site.fresh("scalapack")?;
        let (lapack, blas) = (site.lapack()?, site.blas_words()?.join(";"));
        let mut cmake = site.command("/usr/bin/cmake", &place);
        cmake.arg("-S").arg(source).arg("-B").arg(&place);
        cmake.args(["-DSCALAPACK_BUILD_TESTS=ON", "-DSCALAPACK_BUILD_TESTING=ON"]);
        cmake.args(["-DCMAKE_C_FLAGS=-O1 -w", "-DCMAKE_Fortran_FLAGS=-O1 -w"]);
        for (name, value) in [
            ("MPI_BASE_DIR", site.prefix().display().to_string()),
            ("CMAKE_C_COMPILER", site.installed("mpicc").display().to_string()),
            ("CMAKE_Fortran_COMPILER", site.installed("mpifort").display().to_string()),
            ("LAPACK_LIBRARIES", format!("{};{blas}", lapack.display())),
            ("BLAS_LIBRARIES", blas),
        ] {
            cmake.arg(format!("-D{name}={value}"));
        }
        site.step("scalapack-cmake", cmake)?;
        let mut make = site.make(&place);
        make.arg("scalapack");
        Ok(site.step("scalapack-library", make)?)
    })?;
    Ok(directory(site).join("lib/libscalapack.a"))
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let testing = directory(site).join("TESTING");
    let mut jobs = Vec::new();
    let testers = TESTERS.map(|name| (name, check as OutputCheck));
    for (name, judge) in testers.into_iter().chain(FOUR_RANKS) {
        if ranks < 4 && FOUR_RANKS.iter().any(|(other, _)| *other == name) {
            jobs.push(FortranJob::skip(name, NEEDS_FOUR));
            continue;
        }
        let is_blacs = name.ends_with("btest");
        let place = if is_blacs { blacs(site) } else { testing.clone() };
        let judge = match site.compiler {
            FortranCompiler::Flang19 if is_blacs => check_blacs_without_abort,
            _ => judge,
        };
        let mut mpirun = site.mpirun(ranks, &place);
        mpirun.arg(testing.join(name));
        jobs.push(FortranJob::new(name, mpirun, Judge::One(judge)));
    }
    Ok(jobs)
}

/// A tester counts the tests that have passed and the tests that have failed.
fn check(output: &str, exit: i32) -> Result<(), String> {
    success_with("END OF TESTS.", output, exit)?;
    let counted = |words: &str| -> Option<u64> {
        let line = output.lines().rev().find(|line| line.contains(words))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let passed = counted("tests completed and passed");
    match (passed, counted("tests completed and failed")) {
        (Some(passed), Some(0)) if passed > 0 => Ok(()),
        (passed, failed) => Err(format!("passed: {passed:?}, failed: {failed:?}")),
    }
}

/// The tester of singular values prints a line for each test.
fn check_lines(output: &str, exit: i32) -> Result<(), String> {
    success_with("End of tests", output, exit)?;
    let begin = |word: &str| output.lines().filter(|line| line.starts_with(word)).count();
    match (begin("Passed "), begin("Failed ")) {
        (passed, 0) if passed > 0 => Ok(()),
        (passed, failed) => Err(format!("passed: {passed}, failed: {failed}")),
    }
}

/// The tester ends by an abort of all ranks.
fn check_blacs(output: &str, exit: i32) -> Result<(), String> {
    check_sums(output)?;
    match exit != 0 && output.contains("DONE BLACS_GRIDEXIT") {
        true => Ok(()),
        false => Err("not ended by an abort after all tests".to_owned()),
    }
}

fn check_blacs_without_abort(output: &str, exit: i32) -> Result<(), String> {
    success_with("THERE WERE NO FAILURES", output, exit)?;
    check_sums(output)
}

fn check_sums(output: &str) -> Result<(), String> {
    let sums: Vec<&str> = output.lines().filter(|line| line.contains("TESTS;")).collect();
    if let Some(bad) = sums.iter().find(|line| !line.contains(" 0 FAILED")) {
        return Err((*bad).to_owned());
    }
    match sums.len() {
        20.. => Ok(()),
        sums => Err(format!("{sums} sums")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn testers_must_have_passed_everything() {
        let good = "  240 tests completed and passed residual checks.\n    0 tests completed and failed residual checks.\nEND OF TESTS.\n";
        assert_eq!(check(good, 0), Ok(()));
        for (from, to) in [("  240 ", "    0 "), ("    0 ", "    2 "), ("END OF TESTS.", "")] {
            assert!(check(&good.replace(from, to), 0).is_err(), "{from} -> {to}");
        }
        assert!(check(good, 1).is_err());
        let good = "Passed 0.1E-01\nPassed 0.7E-02\nEnd of tests\n";
        assert_eq!(check_lines(good, 0), Ok(()));
        assert!(check_lines(&good.replacen("Passed", "Failed", 1), 0).is_err());
    }

    #[test]
    fn parts_of_inputs_are_left_out() {
        let text = "3\nT\t(T or F) Test Cond. Est.\n'T'  Run AUX?\n";
        let changed = without(text, "Test Cond.").and_then(|text| without(&text, "Run AUX?"));
        let changed = changed.as_deref();
        assert_eq!(changed, Some("3\nF\t(T or F) Test Cond. Est.\n'F'  Run AUX?\n"));
        assert_eq!(changed.and_then(|text| without(text, "Run AUX?")).as_deref(), changed);
        assert_eq!(without(text, "Run BUX?"), None);
    }

    #[test]
    fn the_tester_of_the_blacs_must_end_by_an_abort() {
        let line = "REAL SDRV TESTS:   75 TESTS;   50 PASSED,   25 SKIPPED,    0 FAILED.\n";
        let good = line.repeat(20) + " DONE BLACS_GRIDEXIT\n";
        assert_eq!(check_blacs(&good, 255), Ok(()));
        assert!(check_blacs(&good, 0).is_err());
        assert!(check_blacs(&good.replacen("  0 FAILED", " 10 FAILED", 1), 255).is_err());
        assert!(check_blacs(line, 255).is_err());
        let good = line.repeat(20) + " THERE WERE NO FAILURES IN THIS TEST RUN\n";
        assert_eq!(check_blacs_without_abort(&good, 0), Ok(()));
        assert!(check_blacs_without_abort(&good, 255).is_err());
        assert!(check_blacs_without_abort(&good.replace(" NO ", " "), 0).is_err());
        assert!(check_blacs_without_abort(&good.replacen(line, "", 1), 0).is_err());
    }
}
