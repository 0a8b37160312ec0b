//! A program with the C++ bindings of other MPIs, linked with their C++ libraries and run on the
//! libraries for their programs.

use std::env::consts::ARCH;
use std::path::PathBuf;
use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::support::{compile_once, prefix, root, skip};
use crate::transport_options::TransportOptions;
use crate::{mpirun, output_of};

/// The C++ bindings of an MPI.
struct Bindings {
    name: &'static str,
    /// The directories of the header files, in Debian's packages.
    includes: &'static [&'static str],
    /// The C++ library, and the library for C programs.
    libraries: [&'static str; 2],
}

static ALL: [Bindings; 2] = [
    Bindings {
        name: "mpich",
        includes: &["usr/include/ARCH-linux-gnu/mpich"],
        libraries: ["libmpichcxx.so.12", "libmpich.so.12"],
    },
    Bindings {
        name: "openmpi",
        includes: &[
            "usr/lib/ARCH-linux-gnu/openmpi/include",
            "usr/lib/ARCH-linux-gnu/openmpi/include/openmpi",
        ],
        libraries: ["libmpi_cxx.so.40", "libmpi.so.40"],
    },
];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    ALL.iter().map(|bindings| {
        let title = format!("night::{}::bindings::2", bindings.name);
        Trial::test(title, || says_ok(bindings)).with_ignored_flag(true)
    })
}

fn packages(variable: &str, directory: &str) -> PathBuf {
    let installed = || root().join("target").join(directory);
    std::env::var_os(variable).map_or_else(installed, PathBuf::from)
}

fn says_ok(bindings: &Bindings) -> Result<(), Failed> {
    let of_arch = |place: &str| place.replace("ARCH", ARCH);
    let headers = packages("OXMPI_TEST_DEBIAN_MPI", "debian-mpi");
    let libraries =
        packages("OXMPI_TEST_DEBIAN_CXX", "debian-cxx").join(of_arch("usr/lib/ARCH-linux-gnu"));
    let [cxx, _] = bindings.libraries;
    let header = headers.join(of_arch(bindings.includes[0])).join("mpi.h");
    for file in [header, libraries.join(cxx)] {
        if !file.exists() {
            skip(&format!("the C++ bindings need {}", file.display()));
            return Ok(());
        }
    }
    let source = root().join("tests/faces/bindings.cpp");
    let mut compiler = Command::new("c++");
    compiler.args(["-g", "-w", "-std=c++11"]);
    for place in bindings.includes {
        compiler.arg("-I").arg(headers.join(of_arch(place)));
    }
    compiler.arg(&source).arg(format!("-L{}", prefix().join("lib").display()));
    compiler.arg(format!("-L{}", libraries.display()));
    compiler.args(bindings.libraries.map(|library| format!("-l:{library}")));
    // They are found when the program runs.
    compiler.arg("-Wl,--allow-shlib-undefined");
    let program = compile_once(&source, compiler, &format!("bindings_{}", bindings.name))?;
    let mut command = mpirun(TransportOptions::Shm, 2, true);
    let out = output_of(command.env("LD_LIBRARY_PATH", libraries).arg(program))?;
    match out.lines().last() {
        Some("ok") => Ok(()),
        _ => Err(format!("{command:?}: the last line is not 'ok':\n{out}").into()),
    }
}
