//! Where tests find what they run.
#![allow(dead_code)] // each test uses its part

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The process among these that another one of them did not start; a launcher and its guard, for one, have the same arguments.
/// Their numbers say nothing of it: they begin again where there is no larger one.
pub(crate) fn eldest(pids: &[i32]) -> Option<i32> {
    let parent = |pid: &i32| stat_of(*pid)?[PARENT].parse::<i32>().ok();
    pids.iter().copied().find(|pid| parent(pid).is_some_and(|parent| !pids.contains(&parent)))
}

/// What the kernel says of a process behind its name, which is in parentheses (proc_pid_stat(5)); `None`: it has ended.
pub(crate) fn stat_of(pid: i32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(String::from).collect())
}

/// Where [`stat_of`] has the state, the parent, and the time of the start.
pub(crate) const STATE: usize = 0;
pub(crate) const PARENT: usize = 1;
pub(crate) const STARTED: usize = 19;

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

/// The directory with the library UCC, all that it needs, and the loader that they need: `cargo xtask test` names it, and has it unpacked in
/// `target/ucc`.
pub(crate) fn ucc() -> Option<PathBuf> {
    let named = std::env::var_os("OXMPI_TEST_UCC").map(PathBuf::from);
    let own = root().join(format!("target/ucc/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let found = named.clone().or(Some(own)).filter(|directory| directory.join("libucc.so.1").exists());
    assert!(found.is_some() || named.is_none(), "OXMPI_TEST_UCC names no directory with libucc.so.1");
    if found.is_none() {
        eprintln!("skipped: there is no UCC for the tests ('cargo xtask test' has it unpacked)");
    }
    found
}

/// The library of the installation.
pub(crate) fn installed_libraries() -> PathBuf {
    prefix().join("lib")
}

/// The CRIU that the tests use: `cargo xtask test` names it, and has it installed in `target/criu`.
pub(crate) fn criu() -> Option<PathBuf> {
    let named = std::env::var_os("OXMPI_TEST_CRIU").map(PathBuf::from);
    let is_required = named.is_some();
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
    assert!(found.is_some() || !is_required, "OXMPI_TEST_CRIU names no CRIU that works here");
    if found.is_none() {
        eprintln!(
            "skipped: there is no CRIU that may make images here ('criu check' as root; 'cargo xtask test' installs it)"
        );
    }
    found
}
