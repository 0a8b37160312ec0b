//! The C programs of `tests/c` and `examples`, compiled with the installed `mpicc` and run by the installed `mpirun`.
//!
//! A test program says in its first line with how many ranks it runs, `// ranks: 1 2 4 7`, exits with 0 and prints `ok`
//! as its last line. `cargo xtask test` makes the installation and names it in OXMPI_TEST_PREFIX.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use std::path::{Path, PathBuf};
use std::process::Command;

/// Checked at compile time by crates/abi; has no main of the kind above.
const NOT_RUN: &[&str] = &["abi_assert.c"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn prefix() -> PathBuf {
    let prefix = std::env::var_os("OXMPI_TEST_PREFIX").map(PathBuf::from);
    let prefix = prefix.unwrap_or_else(|| root().join("target/test-prefix"));
    assert!(
        prefix.join("bin/mpicc").exists(),
        "there is no installation in {}: run 'cargo xtask test', or 'cargo xtask install --prefix target/test-prefix --debug'",
        prefix.display()
    );
    prefix
}

fn compile(source: &Path, to: &Path) -> Result<(), String> {
    let mut command = Command::new(prefix().join("bin/mpicc"));
    command.args(["-O1", "-g", "-Wall", "-Wno-unused"]).arg(source).arg("-o").arg(to).arg("-lm");
    let output = command.output().map_err(|e| format!("mpicc: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn run(program: &Path, ranks: u32) -> Result<String, String> {
    let output = Command::new(prefix().join("bin/mpirun"))
        .args(["-n", &ranks.to_string(), "--timeout", "60"])
        .arg(program)
        .output()
        .map_err(|e| format!("mpirun: {e}"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    Err(format!(
        "{}\n--- output\n{out}--- errors\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// The sizes of `// ranks: 1 2 4`.
fn ranks(source: &str) -> Option<Vec<u32>> {
    let sizes = source.lines().next()?.strip_prefix("// ranks:")?;
    sizes.split_whitespace().map(|n| n.parse().ok()).collect()
}

fn one(source: &Path, directory: &Path, failures: &mut Vec<String>) {
    let name = source.file_stem().unwrap().to_string_lossy().into_owned();
    let Some(sizes) = ranks(&std::fs::read_to_string(source).unwrap()) else {
        failures.push(format!("{name}: its first line is not of the form '// ranks: 1 2 4'"));
        return;
    };
    let program = directory.join(&name);
    if let Err(error) = compile(source, &program) {
        failures.push(format!("{name}: mpicc: {error}"));
        return;
    }
    for n in sizes {
        match run(&program, n) {
            Ok(out) if out.lines().last() == Some("ok") => {}
            Ok(out) => failures.push(format!("{name} on {n} ranks: the last line is not 'ok':\n{out}")),
            Err(error) => failures.push(format!("{name} on {n} ranks: {error}")),
        }
    }
}

#[test]
fn test_programs_say_ok() {
    let directory = tempdir("c-tests");
    let mut failures = Vec::new();
    let mut sources: Vec<PathBuf> = std::fs::read_dir(root().join("tests/c"))
        .map(|entries| entries.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    sources.retain(|p| p.extension().is_some_and(|e| e == "c") && !NOT_RUN.iter().any(|n| p.ends_with(n)));
    sources.sort();
    assert!(!sources.is_empty(), "there are no C programs in tests/c");
    for source in &sources {
        one(source, &directory, &mut failures);
    }
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(
        failures.is_empty(),
        "{} failures of {} programs:\n{}",
        failures.len(),
        sources.len(),
        failures.join("\n")
    );
}

#[test]
fn examples_run() {
    let directory = tempdir("c-examples");
    for (name, sizes, text) in [
        ("hello", &[1, 4][..], "hello from rank 0"),
        ("ring", &[2, 4], "(right)"),
        ("pi", &[1, 4], "pi is about 3.14159265359"),
        ("heat", &[1, 2, 4, 6], "the result is right"),
    ] {
        let program = directory.join(name);
        compile(&root().join("examples").join(name).with_extension("c"), &program).unwrap();
        for &n in sizes {
            let out = run(&program, n).unwrap_or_else(|error| panic!("{name} on {n} ranks: {error}"));
            assert!(out.contains(text), "{name} on {n} ranks: {out}");
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

fn tempdir(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("oxmpi-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}
