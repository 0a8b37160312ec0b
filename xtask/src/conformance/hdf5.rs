//! Parallel HDF5 of Debian's archive: its test program `testphdf5`, which accesses files with
//! many kinds of derived datatypes, collectively and by each rank alone.

use std::fs;
use std::path::Path;
use std::thread;

use super::debian;
use super::programs::{ForeignLaunch, ForeignProgram, LIMIT};
use crate::run::{Failure, Run};

pub(super) const TESTPHDF5: ForeignProgram = ForeignProgram {
    name: "testphdf5",
    ranks: &[2, 4],
    limit: LIMIT,
    launch: ForeignLaunch::Mpirun,
    build,
    start: |mpirun, _, made, _| {
        let directory = mpirun.get_current_dir().map(Path::to_owned).unwrap_or_default();
        mpirun.env("HDF5_PARAPREFIX", directory).arg(made.join("hdf5/testpar/testphdf5"));
        Ok(())
    },
    check,
};

/// Each rank counts its own errors, and the first one prints at the end that no rank has any.
fn check(output: &str, _: &Path, ranks: u32) -> Result<(), String> {
    let content =
        output.lines().filter(|line| line.starts_with("All tests were successful")).count();
    let together = output.lines().any(|line| line == "PHDF5 tests finished with no errors");
    if content == ranks as usize && together {
        return Ok(());
    }
    Err(format!("{content} of {ranks} ranks have no errors; all together: {together}\n{output}"))
}

fn build(prefix: &Path, directory: &Path) -> Result<(), Failure> {
    let source = debian::source("hdf5", directory)?;
    let place = directory.join("hdf5");
    let _ = fs::remove_dir_all(&place);
    super::make_directory(&place)?;
    Run::new(source.join("configure"))
        .args([
            "--quiet",
            "--enable-parallel",
            "--enable-build-mode=production",
            "--disable-shared",
        ])
        .args([
            "--disable-fortran",
            "--disable-cxx",
            "--disable-hl",
            "--without-zlib",
            "CFLAGS=-O1 -w",
        ])
        .arg(format!("CC={}", prefix.join("bin/mpicc").display()))
        .current_dir(&place)
        .show()?;
    let jobs = format!("-j{}", thread::available_parallelism().map_or(1, usize::from));
    for (part, target) in
        [("src", "libhdf5.la"), ("test", "libh5test.la"), ("testpar", "testphdf5")]
    {
        Run::new("make").args(["--quiet", &jobs, "-C"]).arg(place.join(part)).arg(target).show()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_must_be_content() {
        let one =
            "Testing  -- dataset collective read (cdsetr) \n\nAll tests were successful. \n\n";
        let end = "===================================\nPHDF5 tests finished with no errors\n";
        let good = one.repeat(2) + end;
        assert!(check(&good, Path::new(""), 2).is_ok());
        assert!(check(&good, Path::new(""), 3).is_err());
        assert!(check(&one.repeat(2), Path::new(""), 2).is_err());
        assert!(check("PHDF5 tests detected 2 errors\n", Path::new(""), 0).is_err());
    }
}
