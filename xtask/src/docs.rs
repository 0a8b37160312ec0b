//! `cargo xtask docs`: pages of `docs/` that are made from tables of the code.

mod parameters;

use crate::root;
use crate::run::Failure;

/// Writes the page of this name.
pub(crate) fn docs(words: &[&str]) -> Result<(), Failure> {
    match words {
        ["parameters"] => write("docs/parameters.md", &parameters::page()),
        _ => Err(Failure::new("cargo xtask docs: name the page: parameters")),
    }
}

fn write(path: &str, text: &str) -> Result<(), Failure> {
    std::fs::write(root().join(path), text).map_err(Failure::io(format!("cannot write {path}")))?;
    println!("wrote {path}");
    Ok(())
}
