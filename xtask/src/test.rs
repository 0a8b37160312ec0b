//! `cargo xtask test`: everything that must hold before a change goes in.

use std::io::ErrorKind;
use std::path::Path;

use crate::bench;
use crate::conformance;
use crate::criu;
use crate::install::{install, target_directory};
use crate::mpich;
use crate::packages;
use crate::root;
use crate::run::{Failure, Run};
use crate::ucc;

pub(crate) fn test() -> Result<(), Failure> {
    if !Run::cargo().args(["nextest", "--version"]).succeeds() {
        Run::cargo().args(["install", "--locked", "cargo-nextest"]).show()?;
    }
    install_programs()?;
    Run::cargo().args(["fmt", "--all", "--check"]).show()?;
    Run::cargo()
        .args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        .show()?;
    let prefix = root().join("target/test-prefix");
    // What an earlier run left there is no part of this installation: a test compares it with its list of files.
    remove_directory(&prefix)?;
    install(&prefix, false)?;
    bench::compile_programs(&prefix, &root().join("target/bench-programs"))?;
    // All tests at once, the C programs among them: they need the installation.
    let mut all = Run::cargo()
        .args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"])
        .env("OXMPI_TEST_PREFIX", &prefix)
        .env("OXMPI_TEST_MPICH_HEADER", mpich::find_or_install()?);
    if is_root() {
        // Tests on several hosts fail where there cannot be any, instead of being skipped.
        all = all.env("OXMPI_TEST_HOSTS", "1");
    } else {
        println!("tests on several hosts are skipped: only root makes network namespaces");
    }
    match criu::find_or_unpack() {
        Ok(criu) => all = all.env("OXMPI_TEST_CRIU", criu),
        Err(failure) => println!("tests of checkpoints are skipped: {failure}"),
    }
    match ucc::find_or_unpack() {
        Ok(libraries) => all = all.env("OXMPI_TEST_UCC", libraries),
        Err(failure) => println!("tests of collectives over UCC are skipped: {failure}"),
    }
    all.show()?;
    Run::cargo().args(["test", "--workspace", "--locked", "--doc", "--quiet"]).show()?;
    loom()?;
    fuzz(8)?;
    conformance::quick(&prefix)
}

/// All fuzzers for so many seconds each, with new seeds: what is on the wire, files of parameters, datatypes against a naive
/// model, matching against its rule, calls of the C interface.
pub(crate) fn fuzz(seconds: u64) -> Result<(), Failure> {
    let prefix = root().join("target/test-prefix");
    install(&prefix, false)?;
    // A test that runs longer than those of every other kind has no time limit but its own.
    Run::cargo()
        .args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "--profile", "fuzz"])
        .args(["-E", "binary(/^fuzz/)"])
        .env("OXMPI_FUZZ_SECONDS", seconds.to_string())
        .env("OXMPI_TEST_PREFIX", &prefix)
        .show()
}

/// Programs and files that tests need, and the package of Debian that has each: those of the compiler wrappers, those of several hosts,
/// and libraries that are opened at run time.
const PROGRAMS: [(&str, &str); 9] = [
    ("cc", "gcc"),
    ("c++", "g++"),
    ("cmake", "cmake"),
    ("pkg-config", "pkg-config"),
    ("ip", "iproute2"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("fi_info", "libfabric-bin"),
    // It brings libfabric.
    ("/usr/include/rdma/fabric.h", "libfabric-dev"),
];

/// Installs the programs that are missing: no test is skipped for want of one.
fn install_programs() -> Result<(), Failure> {
    for (program, package) in PROGRAMS {
        if is_there(program) {
            continue;
        }
        let installed = packages::install(&[package]);
        if installed.is_err() || !is_there(program) {
            return Err(Failure::new(format!(
                "the tests need '{program}', and 'apt-get install {package}' does not bring it here: install it by hand"
            )));
        }
    }
    Ok(())
}

fn remove_directory(directory: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::io(format!("cannot remove {}", directory.display()))(error))
        }
        _ => Ok(()),
    }
}

/// Whether this process belongs to root.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether a program is in PATH, or where those are that only root uses; a file with its whole path is there or not.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.any(|directory| directory.join(program).is_file())
}

/// The model checker on the lane lock and the protocols in shared memory. It wants another standard library underneath, so a
/// directory of its own.
fn loom() -> Result<(), Failure> {
    Run::cargo()
        .args(["test", "--locked", "-p", "oxmpi-sys", "-p", "oxmpi-shm"])
        .args(["--release", "--test", "loom", "--target-dir"])
        .arg(target_directory().join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .show()
}
