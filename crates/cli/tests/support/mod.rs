//! Where tests find what they run.
#![allow(dead_code)] // each test uses its part

use std::path::{Path, PathBuf};

/// The project's directory.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The installation under test: `cargo xtask test` makes it and names it in OXMPI_TEST_PREFIX.
fn prefix() -> PathBuf {
    std::env::var_os("OXMPI_TEST_PREFIX").map_or_else(|| root().join("target/test-prefix"), PathBuf::from)
}

/// A program of the installation.
pub(crate) fn installed(name: &str) -> PathBuf {
    let program = prefix().join("bin").join(name);
    assert!(
        program.exists(),
        "there is no {}: run 'cargo xtask test', or 'cargo xtask install --prefix target/test-prefix --debug'",
        program.display()
    );
    program
}
