//! PnetCDF: the tests of its interfaces for Fortran 77 and 90. The tests that go through all
//! functions run with one rank, the others with several.

use super::super::results::{Test, Verdict};
use super::site::{BuildFailure, Site};
use super::{ForeignCode, FortranJob, Judge};
use crate::run::Failure;

pub(super) const RECIPE: ForeignCode = ForeignCode {
    version: "1.12.3",
    package: "pnetcdf",
    needed: &[
        ("/usr/bin/autoreconf", "autoconf"),
        ("/usr/bin/automake", "automake"),
        ("/usr/bin/libtoolize", "libtool"),
        ("/usr/bin/m4", "m4"),
    ],
    ranks: &[1, 2, 4],
    build,
    jobs,
};

/// Directories with tests for one rank, each with the number of its tests that the output names.
const ONE_RANK: [(&str, usize); 3] = [("test/nf_test", 1), ("test/nf90_test", 1), ("test/F90", 11)];
/// Directories with tests for several ranks, some of which are in C.
const SEVERAL_RANKS: [(&str, usize); 3] =
    [("test/F90", 4), ("test/testcases", 45), ("test/nonblocking", 15)];
/// flang keeps arrays on the stack that GNU Fortran makes static. A program here has more of them
/// than the usual limit of 8 MiB allows, and a user would run it after `ulimit -s unlimited`.
const LARGE_STACK: &str = "test/nonblocking";
/// Directories with examples, whose makefiles know 4 ranks and not 2.
const EXAMPLES: [(&str, usize); 2] = [("examples/F77", 12), ("examples/F90", 12)];

fn build(site: &Site) -> Result<(), BuildFailure> {
    let source = site.source("pnetcdf")?;
    let mut autoreconf = site.command("/usr/bin/autoreconf", &source);
    autoreconf.arg("-i");
    site.step("pnetcdf-autoreconf", autoreconf)?;
    let mut configure = site.command(source.join("configure"), &source);
    configure
        .args(["--quiet", "--disable-cxx", "--disable-versioning"])
        .args(["CFLAGS=-O0 -w", "FFLAGS=-O0 -w", "FCFLAGS=-O0 -w"])
        .arg(format!("--with-mpi={}", site.prefix().display()));
    site.step("pnetcdf-configure", configure)?;
    site.step("pnetcdf-library", site.make(&source.join("src")))?;
    let mut common = site.make(&source.join("test/common"));
    common.arg("tests");
    site.step("pnetcdf-common", common)?;
    let tests = ONE_RANK.into_iter().chain(SEVERAL_RANKS.into_iter().skip(1)).chain(EXAMPLES);
    for (part, _) in tests {
        let mut make = site.make(&source.join(part));
        make.args(["check", "TESTS="]);
        site.step(&format!("pnetcdf-{}", part.replace('/', "-")), make)?;
    }
    Ok(())
}

fn jobs(site: &Site, ranks: u32) -> Result<Vec<FortranJob>, Failure> {
    let source = site.unpacked("pnetcdf")?;
    let job = |part: &str, least: usize, target: &str, variable: &str, read: fn(&str) -> _| {
        let mut make = match part {
            LARGE_STACK => site.with_large_stack("make", &source.join(part)),
            _ => site.make(&source.join(part)),
        };
        make.args([target, variable]);
        FortranJob::new(part.replace('/', "."), make, Judge::Each(read, least))
    };
    if ranks == 1 {
        let run = "TESTSEQRUN=mpirun -n 1 --timeout 100";
        let job = |(part, least)| job(part, least, "check", run, read_one_rank);
        return Ok(ONE_RANK.into_iter().map(job).collect());
    }
    let target = format!("ptest{ranks}");
    let run = "TESTMPIRUN=mpirun --oversubscribe -n NP --timeout 100";
    let examples = EXAMPLES.into_iter().map(|(part, least)| match ranks {
        4 => job(part, least, &target, run, read_examples),
        _ => FortranJob::skip(part.replace('/', "."), "its makefile knows no such number of ranks"),
    });
    let tests = SEVERAL_RANKS.into_iter();
    let tests = tests.map(|(part, least)| job(part, least, &target, run, read_several_ranks));
    Ok(tests.chain(examples).map(|job| job.within(300)).collect())
}

/// The lines of automake: `PASS: test_intent`.
fn read_one_rank(output: &str) -> Vec<Test> {
    let test = |line: &str| {
        let (word, name) = line.split_once(": ")?;
        let verdict = match word {
            "PASS" => Verdict::Passed,
            "SKIP" => Verdict::Skipped,
            "FAIL" | "ERROR" => Verdict::Failed,
            _ => return None,
        };
        Some(Test::new(name.trim(), verdict, line))
    };
    output.lines().filter_map(test).collect()
}

/// `*** TESTING F90 varn_real for varn API       ------ pass`, with the verdict in colours.
fn read_several_ranks(output: &str) -> Vec<Test> {
    let test = |line: &str| {
        let (title, end) = line.strip_prefix("*** TESTING ")?.split_once("------")?;
        let mut words = title.split_whitespace();
        let name = format!("{}.{}", words.next()?, words.next()?);
        let verdict = match end {
            end if end.contains("pass") => Verdict::Passed,
            end if end.contains("skip") => Verdict::Skipped,
            _ => Verdict::Failed,
        };
        Some(Test::new(name, verdict, line))
    };
    output.lines().filter_map(test).collect()
}

/// `PASS: F77 parallel run on 4 processes --------------- vard_int`.
fn read_examples(output: &str) -> Vec<Test> {
    let test = |line: &str| {
        let (title, name) = line.rsplit_once("----- ")?;
        let (word, rest) = title.split_once(": ")?;
        let verdict = if word == "PASS" { Verdict::Passed } else { Verdict::Failed };
        let language = rest.split_whitespace().next()?;
        Some(Test::new(format!("examples.{language}.{}", name.trim()), verdict, line))
    };
    output.lines().filter_map(test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        let verdicts = |tests: Vec<Test>| -> Vec<(String, Verdict)> {
            tests.into_iter().map(|test| (test.name, test.verdict)).collect()
        };
        let named = |name: &str, verdict| (name.to_owned(), verdict);
        assert_eq!(
            verdicts(read_one_rank("PASS: tst_f90\nFAIL: seq_runs.sh\n# PASS:  1\nother: a\n")),
            [named("tst_f90", Verdict::Passed), named("seq_runs.sh", Verdict::Failed)]
        );
        let several = "\
*** TESTING F77 mcoll_testf77 for iput API        ------ \u{1b}[32mpass\u{1b}[0m
*** TESTING F90 test_bputf for bput_var    ------ \u{1b}[31mfail\u{1b}[0m with 2 mismatches
*** TESTING C   tst_max_var_dims for checking NC_MAX_VAR_DIMS      ------ skip
other
";
        assert_eq!(
            verdicts(read_several_ranks(several)),
            [
                named("F77.mcoll_testf77", Verdict::Passed),
                named("F90.test_bputf", Verdict::Failed),
                named("C.tst_max_var_dims", Verdict::Skipped),
            ]
        );
        let example = "PASS: F77 parallel run on 4 processes --------------- vard_int\n";
        assert_eq!(
            verdicts(read_examples(example)),
            [named("examples.F77.vard_int", Verdict::Passed)]
        );
    }
}
