//! ELPA: its validation programs for eigenvectors, decompositions and generalized problems, by
//! the solvers with one stage and with two.

use std::path::PathBuf;

use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranCompiler, FortranJob, Judge, scalapack, success_with};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode = ForeignCode {
    version: "2022.11.001",
    package: "elpa",
    needed: &[("/usr/bin/cmake", "cmake")],
    ranks: &[2, 4],
    build,
    jobs,
};

/// The size of the matrix, the number of eigenvectors, and the size of blocks.
const SIZES: [&str; 3] = ["100", "50", "16"];

const PROGRAMS: [&str; 11] = [
    "validate_real_double_eigenvectors_1stage_random",
    "validate_real_double_eigenvectors_2stage_default_kernel_random",
    "validate_complex_double_eigenvectors_1stage_random",
    "validate_complex_double_eigenvectors_2stage_default_kernel_random",
    "validate_real_double_cholesky_1stage_random",
    "validate_complex_double_cholesky_1stage_random",
    "validate_real_double_generalized_1stage_random",
    "validate_real_double_invert_triangular",
    "validate_skewsymmetric_real_double",
    "validate_split_comm_real_double",
    "validate_multiple_objs_real_double",
];

fn directory(site: &Site) -> PathBuf {
    site.programs.join("elpa")
}

fn build(site: &Site) -> Result<(), BuildFailure> {
    let scalapack = scalapack::library_for_others(site)?;
    let source = site.source("elpa")?;
    let place = site.fresh("elpa")?;
    let libraries = [scalapack, site.lapack()?, site.blas()?];
    let directories = libraries.iter().filter_map(|library| library.parent());
    let directories: Vec<String> =
        directories.map(|directory| format!("-L{}", directory.display())).collect();
    let mut configure = site.command(source.join("configure"), &place);
    configure
        .args(["--quiet", "CC=mpicc", "CXX=mpicxx", "FC=mpifort"])
        .args(["CFLAGS=-O1 -w", "SCALAPACK_FCFLAGS= "])
        .arg(format!("FCFLAGS=-O1 -w {}", site.compiler.long_lines()))
        .arg(format!("LIBS={}", site.compiler.beside_blas().join(" ")))
        .arg(format!("SCALAPACK_LDFLAGS={}", directories.join(" ")))
        .args(["--disable-shared", "--disable-c-tests", "--disable-cpp-tests"])
        .args(["--disable-sse", "--disable-sse-assembly", "--disable-avx", "--disable-avx2"])
        .args(["--disable-avx512", "--disable-doxygen-doc"]);
    site.step("elpa-configure", configure)?;
    let mut make = site.make(&place);
    make.args(PROGRAMS);
    if site.compiler == FortranCompiler::Flang19 {
        // ELPA has this program for compilers whose preprocessors cannot read its sources, and its
        // configure does not know flang.
        make.arg(format!("FC={} mpifort", source.join("manual_cpp").display()));
    }
    Ok(site.step("elpa", make)?)
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let place = directory(site);
    let job = |name: &str| {
        let mut mpirun = site.mpirun(ranks, &place);
        mpirun.arg(place.join(name)).args(SIZES);
        FortranJob::new(name, mpirun, Judge::One(check))
    };
    Ok(PROGRAMS.into_iter().map(job).collect())
}

/// A program compares its results with the exact ones and prints the errors. Its exit code is not 0
/// if one is too large.
fn check(output: &str, exit: i32) -> Result<(), String> {
    success_with("rror", output, exit)?;
    let errors = output.lines().filter(|line| line.contains("rror"));
    let is_small = |line: &&str| {
        let error = line.split_whitespace().last().and_then(|word| word.parse::<f64>().ok());
        error.is_some_and(|error| (0.0..1e-10).contains(&error))
    };
    match errors.into_iter().find(|line| !is_small(line)) {
        None => Ok(()),
        Some(line) => Err(format!("a large error: {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_must_be_printed_and_small() {
        let good = " Error Residual     :   2.4E-014\n  Maximum error of result:    7.7E-016\n";
        assert_eq!(check(good, 0), Ok(()));
        assert!(check(good, 1).is_err());
        assert!(check("done\n", 0).is_err());
        for (from, to) in [("2.4E-014", "2.4E-004"), ("7.7E-016", "NaN")] {
            assert!(check(&good.replace(from, to), 0).is_err(), "{to}");
        }
    }
}
