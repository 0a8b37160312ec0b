//! Finds out which functions the C library does not have yet, for `oxmpi info --missing`.

use std::path::Path;

use oxmpi_abi::coverage::Coverage;

fn main() {
    let sources = Path::new("../capi/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    let coverage = Coverage::scan(sources).expect("the sources of crates/capi can be read");
    let names: Vec<&str> = coverage.missing().map(|id| id.name()).collect();
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("missing.rs"), format!("&{names:?}"))
        .expect("OUT_DIR can be written");
}
