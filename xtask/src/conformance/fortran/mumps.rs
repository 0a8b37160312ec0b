//! MUMPS: its examples, which solve sparse systems in the four arithmetics, save a factorization
//! and restore it, and run instances of all arithmetics side by side.

use std::path::PathBuf;

use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranJob, Judge, OutputCheck, scalapack, success_with};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode = ForeignCode {
    version: "5.5.1",
    package: "mumps",
    needed: &[("/usr/bin/cmake", "cmake")],
    ranks: &[2, 4],
    build,
    jobs,
};

/// The file that MUMPS includes in its makefiles, with the ordering PORD, which comes with it.
const MAKEFILE: &str = "\
LPORDDIR = $(topdir)/PORD/lib/
IPORD = -I$(topdir)/PORD/include/
LPORD = -L$(LPORDDIR) -lpord
ORDERINGSF = -Dpord
ORDERINGSC = $(ORDERINGSF)
LORDERINGS = $(LPORD)
IORDERINGSC = $(IPORD)
LIBEXT = .a
OUTC = -o # a space
OUTF = -o # a space
RM = rm -f
CC = @PREFIX@/bin/mpicc
FC = @PREFIX@/bin/mpifort
FL = @PREFIX@/bin/mpifort
AR = ar r # a space
RANLIB = ranlib
LIBPAR = @SCALAPACK@ @LAPACK@
LIBBLAS = @BLAS@
LIBOTHERS = -lpthread
CDEFS = -DAdd_
OPTF = -O1 -w
OPTC = -O1 -w -I.
LIBS = $(LIBPAR)
";

fn build(site: &Site) -> Result<(), BuildFailure> {
    let library = scalapack::library_for_others(site)?;
    let source = site.source("mumps")?;
    let makefile = MAKEFILE
        .replace("# a space", "")
        .replace("@PREFIX@", &site.prefix().to_string_lossy())
        .replace("@SCALAPACK@", &library.to_string_lossy())
        .replace("@LAPACK@", &site.lapack()?.to_string_lossy())
        .replace("@BLAS@", &site.blas_words()?.join(" "));
    super::super::write(&source.join("Makefile.inc"), &makefile)?;
    let mut make = site.make(&source);
    make.arg("all");
    Ok(site.step("mumps", make)?)
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let place: PathBuf = site.unpacked("mumps")?.join("examples");
    let mut jobs = Vec::new();
    for arithmetic in ["s", "d", "c", "z"] {
        let is_complex = "cz".contains(arithmetic);
        let input = if is_complex { "input_simpletest_cmplx" } else { "input_simpletest_real" };
        for kind in ["simpletest", "simpletest_save_restore"] {
            let name = format!("{arithmetic}{kind}");
            let mut mpirun = site.mpirun_with_input(ranks, &place, input);
            mpirun.arg(place.join(&name));
            jobs.push(FortranJob::new(name, mpirun, Judge::One(check)));
        }
    }
    for (name, judge) in [
        ("c_example", check_c as OutputCheck),
        ("c_example_save_restore", check_c),
        ("multiple_arithmetics_example", check_several),
    ] {
        let mut mpirun = site.mpirun(ranks, &place);
        mpirun.arg(place.join(name));
        jobs.push(FortranJob::new(name, mpirun, Judge::One(judge)));
    }
    Ok(jobs)
}

/// The solution is 1, 2, 3, 4, 5, the complex one without imaginary parts. flang begins a new line
/// where a compiler may.
fn check(output: &str, exit: i32) -> Result<(), String> {
    success_with("Solution is", output, exit)?;
    let behind = output.rsplit("Solution is").next().unwrap_or_default();
    let parts = if behind.trim_start().starts_with('(') { 2 } else { 1 };
    let numbers: Vec<f64> = behind
        .split(|letter: char| letter.is_whitespace() || "(),".contains(letter))
        .filter(|word| !word.is_empty())
        .map_while(|word| word.parse().ok())
        .collect();
    let expected = (1..=5).flat_map(|number| [f64::from(number), 0.0].into_iter().take(parts));
    let is_right = numbers.len() == 5 * parts
        && numbers.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4);
    if is_right { Ok(()) } else { Err(format!("not the solution 1, 2, 3, 4, 5: {numbers:?}")) }
}

fn check_c(output: &str, exit: i32) -> Result<(), String> {
    success_with("Solution is : (    1.00      2.00)", output, exit)
}

fn check_several(output: &str, exit: i32) -> Result<(), String> {
    success_with("Entering ZMUMPS", output, exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_solution_must_be_right() {
        let real = "  Solution is    1.00000060   2.00000048   3.0   4.0   4.99999905\n";
        assert_eq!(check(real, 0), Ok(()));
        assert!(check(real, 1).is_err());
        assert!(check(&real.replace("3.0", "3.1"), 0).is_err());
        assert!(check(&real.replace("3.0", "NaN"), 0).is_err());
        let complex = "  Solution is (1.0,0.0) (2.0,0.0) (3.0,0.0) (4.0,0.0) (5.0,0.0)\n";
        assert_eq!(check(complex, 0), Ok(()));
        assert!(check(&complex.replace("(3.0,0.0)", "(3.0,0.5)"), 0).is_err());
        assert!(check(&complex.replace("(5.0,0.0)", ""), 0).is_err());
        assert_eq!(check(&complex.replace(") (3.0", ")\n (3.0"), 0), Ok(()));
        assert_eq!(check(&format!("{real} Entering DMUMPS 5.5.1\n"), 0), Ok(()));
    }
}
