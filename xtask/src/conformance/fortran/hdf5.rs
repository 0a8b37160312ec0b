//! The parallel tests of HDF5's Fortran interface: datasets in contiguous and chunked layout,
//! written and read by hyperslabs, independently and collectively.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::results::{Test, Verdict};
use super::super::write;
use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranCompiler, FortranJob, Judge};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode =
    ForeignCode { version: "1.10.8", package: "hdf5", needed: &[], ranks: &[2, 4], build, jobs };

/// The parts that the parallel tests need, each with its target.
const PARTS: [(&str, &str); 5] = [
    ("src", "libhdf5.la"),
    ("test", "libh5test.la"),
    ("fortran/src", "all"),
    ("fortran/test", "libh5test_fortran.la"),
    ("fortran/testpar", "parallel_test"),
];

/// The number of kinds, the kinds and their sizes, as flang has them and without kinds 2, 3 and 16.
const REALS: [(&str, &str); 3] = [
    ("num_rkinds = 6", "num_rkinds = 3"),
    ("rkind = (/2,3,8,10,4,16/)", "rkind = (/8,10,4/)"),
    ("rkind_sizeof = (/2,2,8,16,4,16/)", "rkind_sizeof = (/8,16,4/)"),
];

fn directory(site: &Site) -> PathBuf {
    site.programs.join("hdf5-fortran")
}

fn build(site: &Site) -> Result<(), BuildFailure> {
    let source = site.source("hdf5")?;
    let place = site.fresh("hdf5-fortran")?;
    let mut configure = site.command(source.join("configure"), &place);
    configure
        .args(["--quiet", "--enable-parallel", "--enable-fortran", "--disable-shared"])
        .args(["--enable-build-mode=production", "--disable-cxx", "--disable-hl"])
        .args(["--without-zlib", "CFLAGS=-O1 -w", "FCFLAGS=-O1 -w"])
        .arg(format!("CC={}", site.installed("mpicc").display()))
        .arg(format!("FC={}", site.installed("mpifort").display()));
    site.step("hdf5-configure", configure)?;
    if site.compiler == FortranCompiler::Flang19 {
        leave_out_reals(&place.join("fortran/src/H5config_f.inc"))?;
    }
    for (part, target) in PARTS {
        let mut make = site.make(&place.join(part));
        make.arg(target);
        site.step(&format!("hdf5-{}-{target}", part.replace('/', "-")), make)?;
    }
    Ok(())
}

/// Takes kinds of REAL off the list that HDF5's configure has made: the tests have a procedure with
/// SPACING for each kind, which flang 19 cannot compile for kinds 2 and 3 and cannot link for 16.
fn leave_out_reals(list: &Path) -> Result<(), Failure> {
    let mut text =
        fs::read_to_string(list).map_err(Failure::io(format!("cannot read {}", list.display())))?;
    for (from, to) in REALS {
        if !text.contains(from) {
            return Err(Failure::new(format!("{} has no '{from}'", list.display())));
        }
        text = text.replace(from, to);
    }
    write(list, &text)
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let place = directory(site).join("fortran/testpar");
    let mut mpirun = site.mpirun(ranks, &place);
    // The test has 80 characters for the name of a file with this prefix.
    mpirun.env("HDF5_PARAPREFIX", ".").arg(place.join("parallel_test"));
    Ok(vec![FortranJob::new("parallel_test", mpirun, Judge::Each(read, 5))])
}

/// Each test is a line: its description and the verdict.
fn read(output: &str) -> Vec<Test> {
    let verdict = |line: &str| {
        let (title, word) = line.trim().rsplit_once(' ')?;
        let verdict = match word {
            "PASSED" => Verdict::Passed,
            "--SKIP--" => Verdict::Skipped,
            "*FAILED*" => Verdict::Failed,
            _ => return None,
        };
        // A name in the list of expected failures has no blanks.
        let name = title.split_whitespace().collect::<Vec<_>>().join("_");
        Some(Test::new(name, verdict, word))
    };
    output.lines().filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_test() {
        let output = "Writing datasets (chunk layout)       PASSED \nReading   *FAILED* \nother\n";
        let tests = read(output);
        assert_eq!(tests.len(), 2);
        assert_eq!(tests[0].name, "Writing_datasets_(chunk_layout)");
        assert_eq!((tests[0].verdict, tests[1].verdict), (Verdict::Passed, Verdict::Failed));
    }
}
