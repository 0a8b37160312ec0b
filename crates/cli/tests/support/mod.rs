//! Paths and programs for tests.
#![allow(dead_code)] // each test program uses a part of this module

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The process whose parent is not among `pids`: a launcher and its guard, for example, have the
/// same arguments. Process numbers do not show the age, as they wrap.
pub(crate) fn eldest(pids: &[i32]) -> Option<i32> {
    let parent = |pid: &i32| stat_of(*pid)?[PARENT].parse::<i32>().ok();
    pids.iter().copied().find(|pid| parent(pid).is_some_and(|parent| !pids.contains(&parent)))
}

/// The fields of /proc/PID/stat behind the name, which is in parentheses (proc_pid_stat(5)).
/// `None`: the process has ended.
pub(crate) fn stat_of(pid: i32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(String::from).collect())
}

/// Indexes in the result of [`stat_of`]: the state, the parent, and the start time.
pub(crate) const STATE: usize = 0;
pub(crate) const PARENT: usize = 1;
pub(crate) const STARTED: usize = 19;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The installation under test. `cargo xtask test` makes it and names it in OXMPI_TEST_PREFIX.
fn prefix() -> PathBuf {
    std::env::var_os("OXMPI_TEST_PREFIX").map_or_else(|| root().join("target/test-prefix"), PathBuf::from)
}

pub(crate) fn installed(name: &str) -> PathBuf {
    let program = prefix().join("bin").join(name);
    assert!(
        program.exists(),
        "there is no {}: run 'cargo xtask test', or 'cargo xtask install --prefix target/test-prefix --debug'",
        program.display()
    );
    program
}

/// A C program, compiled with the installed `mpicc` once for all its tests. The error is the output
/// of the compiler.
pub(crate) fn compiled(source: &Path) -> Result<PathBuf, String> {
    let mut mpicc = Command::new(installed("mpicc"));
    mpicc.args(["-O1", "-g", "-Wall", "-Wno-unused", "-pthread"]).arg(source).args(["-lm", "-ldl"]);
    compile_once(source, mpicc, &source.file_stem().unwrap_or_default().to_string_lossy())
}

/// A library of one C file below `tests` that replaces another project's library, compiled once for
/// all its tests.
pub(crate) fn compiled_library(source: &str, name: &str) -> PathBuf {
    let source = root().join("tests").join(source);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-g", "-shared", "-fPIC", "-pthread"]).arg(&source).arg("-ldl");
    cc.arg(format!("-Wl,-soname,{name}"));
    compile_once(&source, cc, name).unwrap()
}

/// Runs a compiler, unless a result exists for the same arguments, source, headers beside it and
/// installed headers.
fn compile_once(source: &Path, mut compiler: Command, name: &str) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", source.display());
    let mut key = DefaultHasher::new();
    format!("{compiler:?}").hash(&mut key);
    let mut inputs = vec![source.to_path_buf()];
    let shared = [root().join("tests/c"), prefix().join("include")];
    for place in shared.iter().map(PathBuf::as_path).chain(source.parent()) {
        let files = std::fs::read_dir(place).map_err(failed)?.flatten().map(|entry| entry.path());
        inputs.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "h")));
    }
    inputs[1..].sort();
    let text = std::fs::read_to_string(source).map_err(failed)?;
    let sources = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix(".c\""));
    inputs.extend(sources.map(|name| source.with_file_name(name).with_extension("c")));
    for input in inputs {
        std::fs::read(&input).map_err(failed)?.hash(&mut key);
    }
    let directory = root().join(format!("target/test-programs/{:016x}", key.finish()));
    let made = directory.join(name);
    if made.exists() {
        return Ok(made);
    }
    std::fs::create_dir_all(&directory).map_err(failed)?;
    // Another test may compile the same source at the same time: each writes its own file, and the
    // last one stays.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let part = directory.join(format!("{}.{number}", std::process::id()));
    let output = compiler.arg("-o").arg(&part).output().map_err(failed)?;
    if !output.status.success() {
        return Err(format!("{compiler:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    std::fs::rename(&part, &made).map_err(failed)?;
    Ok(made)
}

/// Reports that this machine does not permit a check. The test fails, unless OXMPI_TEST_ALLOW_SKIPS
/// names a file, which gets a line (`cargo xtask test --allow-skips`).
pub(crate) fn skip(why: &str) {
    let Some(file) = std::env::var_os("OXMPI_TEST_ALLOW_SKIPS") else {
        panic!(
            "this machine does not allow this test: {why} ('cargo xtask test --allow-skips' goes on without it)"
        );
    };
    eprintln!("skipped: {why}");
    let log = std::fs::OpenOptions::new().create(true).append(true).open(file);
    log.and_then(|mut log| log.write_all(format!("{why}\n").as_bytes())).unwrap();
}

/// The directory with the library UCC, its dependencies and their loader. `cargo xtask test`
/// unpacks it in `target/ucc` and names it in OXMPI_TEST_UCC.
pub(crate) fn ucc() -> Option<PathBuf> {
    let named = std::env::var_os("OXMPI_TEST_UCC").map(PathBuf::from);
    let own = root().join(format!("target/ucc/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let found = named.clone().or(Some(own)).filter(|directory| directory.join("libucc.so.1").exists());
    assert!(found.is_some() || named.is_none(), "OXMPI_TEST_UCC names no directory with libucc.so.1");
    if found.is_none() {
        skip("there is no UCC for the tests ('cargo xtask test' has it unpacked)");
    }
    found
}

pub(crate) fn installed_libraries() -> PathBuf {
    prefix().join("lib")
}

/// The CRIU for the tests. `cargo xtask test` installs it in `target/criu` and names it in
/// OXMPI_TEST_CRIU.
pub(crate) fn criu() -> Option<PathBuf> {
    let named = std::env::var_os("OXMPI_TEST_CRIU").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let in_path = || directories.map(|directory| directory.join("criu")).find(|file| file.is_file());
    let own = Some(root().join("target/criu/criu")).filter(|file| file.is_file());
    let criu = named.or(own).or_else(in_path);
    let is_well = |criu: &PathBuf| {
        Command::new(criu)
            .arg("check")
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let found = criu.filter(is_well);
    if found.is_none() {
        skip(
            "there is no CRIU that may make images here ('criu check' as root; 'cargo xtask test' installs it)",
        );
    }
    found
}
