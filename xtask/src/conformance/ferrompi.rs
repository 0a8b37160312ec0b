//! ferrompi, a Rust binding to a C MPI: its examples of one-sided communication and of shared
//! memory, built against our `mpicc` from crates.io.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::programs::{ForeignLaunch, ForeignProgram};
use crate::run::{Failure, Run};

const VERSION: &str = "0.7.0";
const NAMES: [&str; 5] =
    ["rma_put", "rma_get", "rma_accumulate", "rma_get_accumulate", "shared_memory"];

/// All examples, one after another. Each must exit with code 0.
pub(super) const EXAMPLES: ForeignProgram = ForeignProgram {
    name: "ferrompi",
    ranks: &[2],
    limit: Duration::from_secs(120),
    launch: ForeignLaunch::ByItself("sh"),
    build,
    start: |shell, _, made, place| {
        let directory = made.join("ferrompi/target/debug");
        let jobs = NAMES.map(|name| {
            let program = directory.join(name);
            format!(
                "mpirun -n {} --timeout 60 '{}' || exit; echo {name} is good",
                place.ranks,
                program.display()
            )
        });
        shell.arg("-c").arg(jobs.join("\n"));
        Ok(())
    },
    check,
};

fn check(output: &str, _: &Path, _: u32) -> Result<(), String> {
    let good = |name: &&str| output.lines().any(|line| line == format!("{name} is good"));
    match NAMES.iter().find(|name| !good(name)) {
        None => Ok(()),
        Some(name) => Err(format!("{name} was not run to its end:\n{output}")),
    }
}

/// Builds the examples as programs of a crate that depends on ferrompi alone.
fn build(prefix: &Path, directory: &Path) -> Result<(), Failure> {
    let own = directory.join("ferrompi");
    let _ = fs::remove_dir_all(&own);
    let programs = own.join("src/bin");
    super::make_directory(&programs)?;
    let manifest = own.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"examples\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n\
         ferrompi = {{ version = \"={VERSION}\", features = [\"rma\"] }}\n"
    );
    super::write(&manifest, &text)?;
    // Cargo needs a program before it prints the place of the sources.
    super::write(&programs.join("rma_put.rs"), "fn main() {}\n")?;
    let source = source(&manifest)?;
    for name in NAMES {
        let from = source.join("examples").join(name).with_extension("rs");
        fs::copy(&from, programs.join(name).with_extension("rs"))
            .map_err(Failure::io(format!("cannot copy {}", from.display())))?;
    }
    Run::cargo()
        .args(["build", "--quiet", "--manifest-path"])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(own.join("target"))
        .env("MPICC", prefix.join("bin/mpicc"))
        .show()
}

/// The directory in which cargo keeps ferrompi's sources.
fn source(manifest: &Path) -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(manifest);
    let output = command.output().map_err(Failure::io("cannot run cargo metadata"))?;
    let known: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        Failure::new(format!(
            "cargo metadata: {error}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    })?;
    let packages = known["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let path = packages.iter().find(|package| package["name"] == "ferrompi");
    path.and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .map(Path::to_owned)
        .ok_or_else(|| Failure::new("cargo metadata does not say where ferrompi is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_examples_must_be_good() {
        let all: String = NAMES.iter().map(|name| format!("{name} is good\n")).collect();
        assert!(check(&all, Path::new(""), 2).is_ok());
        assert!(check(&all.replace("shared_memory is good\n", ""), Path::new(""), 2).is_err());
    }
}
