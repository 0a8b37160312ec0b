//! `cargo xtask test`: everything that must hold before a change goes in.

use crate::bench;
use crate::install::{install, target_directory};
use crate::root;
use crate::run::{Failure, Run};

pub(crate) fn test() -> Result<(), Failure> {
    if !Run::cargo().args(["nextest", "--version"]).succeeds() {
        Run::cargo().args(["install", "--locked", "cargo-nextest"]).show()?;
    }
    Run::cargo().args(["fmt", "--all", "--check"]).show()?;
    Run::cargo()
        .args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        .show()?;
    let prefix = root().join("target/test-prefix");
    install(&prefix, false)?;
    bench::compile_programs(&prefix)?;
    // All tests at once, the C programs among them: they need the installation.
    Run::cargo()
        .args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"])
        .env("OXMPI_TEST_PREFIX", &prefix)
        .show()?;
    Run::cargo().args(["test", "--workspace", "--locked", "--doc", "--quiet"]).show()?;
    loom()
}

/// The model checker on rings, inbox, door and lock. It wants another standard library underneath, so a directory of its own.
fn loom() -> Result<(), Failure> {
    Run::cargo()
        .args(["test", "--locked", "-p", "oxmpi-os", "--release", "--test", "loom", "--target-dir"])
        .arg(target_directory().join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .show()
}
