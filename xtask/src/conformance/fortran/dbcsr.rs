//! DBCSR, the library for sparse matrices of CP2K, built with module `mpi_f08`: its programs that
//! compare products, tensors and conversions with dense results.

use std::path::PathBuf;

use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranCompiler, FortranJob, Judge, OutputCheck, success_with};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode = ForeignCode {
    version: "2.8.0",
    package: "dbcsr",
    needed: &[("/usr/bin/cmake", "cmake"), ("/usr/bin/fypp", "fypp"), ("/usr/bin/c++", "g++")],
    ranks: &[2, 4],
    build,
    jobs,
};

/// The suite of Debian that has this version.
const SUITE: &str = "trixie";

/// The programs, each with a check that counts the comparisons that its output names.
const PROGRAMS: [(&str, OutputCheck); 6] = [
    ("dbcsr_unittest1", check::<8124>),
    ("dbcsr_unittest3", check::<756>),
    ("dbcsr_unittest4", check::<20>),
    ("dbcsr_tensor_unittest", check::<96>),
    ("dbcsr_tas_unittest", check::<24>),
    ("dbcsr_test_csr_conversions", check::<100>),
];
/// A program that is left out, and why.
const LONG: (&str, &str) =
    ("dbcsr_unittest2", "it multiplies dense matrices for minutes to check the same products");

fn directory(site: &Site) -> PathBuf {
    site.programs.join("dbcsr")
}

fn build(site: &Site) -> Result<(), BuildFailure> {
    let source = site.source_in(Some(SUITE), RECIPE.package)?;
    let place = site.fresh("dbcsr")?;
    // DBCSR knows the options of GNU Fortran alone. The names of its files mean fixed form.
    let form = match site.compiler {
        FortranCompiler::Gfortran => "",
        FortranCompiler::Flang19 => "-ffree-form",
    };
    let mut cmake = site.command("/usr/bin/cmake", &place);
    cmake.arg("-S").arg(source).arg("-B").arg(&place);
    cmake.args(["-DUSE_MPI_F08=ON", "-DUSE_OPENMP=OFF", "-DWITH_C_API=OFF", "-DWITH_EXAMPLES=OFF"]);
    for (name, value) in [
        ("CMAKE_BUILD_TYPE", "None".to_owned()),
        ("CMAKE_Fortran_FLAGS", format!("-O1 -w {form}")),
        ("CMAKE_Fortran_COMPILER", site.installed("mpifort").display().to_string()),
        // The module of Debian's fypp is there for no other Python.
        ("Python_EXECUTABLE", "/usr/bin/python3".to_owned()),
        ("LAPACK_LIBRARIES", site.lapack()?.display().to_string()),
        ("BLAS_LIBRARIES", site.blas_words()?.join(";")),
    ] {
        cmake.arg(format!("-D{name}={value}"));
    }
    site.step("dbcsr-cmake", cmake)?;
    let mut make = site.make(&place);
    make.args(PROGRAMS.map(|(name, _)| name));
    Ok(site.step("dbcsr", make)?)
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let place = directory(site).join("tests");
    let job = |(name, check): (&str, OutputCheck)| {
        let mut mpirun = site.mpirun(ranks, &place);
        mpirun.arg(place.join(name));
        FortranJob::new(name, mpirun, Judge::One(check)).within(600)
    };
    let left_out = FortranJob::skip(LONG.0, LONG.1);
    Ok(PROGRAMS.into_iter().map(job).chain([left_out]).collect())
}

/// At least this number of comparisons, and none that failed.
fn check<const LEAST: usize>(output: &str, exit: i32) -> Result<(), String> {
    success_with("", output, exit)?;
    let counted = |words: &[&str]| {
        let has_one = |line: &&str| words.iter().any(|word| line.contains(word));
        output.lines().filter(has_one).count()
    };
    let passed = counted(&["PASSED !", "passed!", "Conversion OK!"]);
    match (passed, counted(&["FAILED", "failed"])) {
        (passed, 0) if passed >= LEAST => Ok(()),
        (passed, failed) => Err(format!("passed: {passed} of {LEAST}, failed: {failed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comparisons_must_have_passed() {
        let good =
            " -- TESTING dbcsr_multiply (T, T, 7 , N) .... PASSED !\n Test   1 Test passed!\n";
        assert_eq!(check::<2>(good, 0), Ok(()));
        assert!(check::<2>(good, 1).is_err());
        assert!(check::<3>(good, 0).is_err());
        assert!(check::<1>(&good.replace("PASSED", "FAILED"), 0).is_err());
    }
}
