//! Paths and programs for tests.
#![allow(dead_code)] // each test program uses a part of this module

pub(crate) mod launchers;

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A directory of a test in the system's directory for temporary files, removed with the value.
/// Unlike the directory of the project its path has no blanks, at which parameters like
/// plm_rsh_agent are split.
pub(crate) struct TestDirectory(PathBuf);

impl TestDirectory {
    pub(crate) fn new(name: &str) -> TestDirectory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("oxmpi-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        TestDirectory(path.canonicalize().unwrap())
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().into()
    }

    /// A replacement for ssh that runs commands on this host.
    pub(crate) fn remote_shell(&self) -> String {
        self.script("remote", "#!/bin/sh\nshift; exec sh -c \"$*\"\n")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Deref for TestDirectory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TestDirectory {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<OsStr> for TestDirectory {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

/// A path as a word of a shell script or an app schema.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.to_str().unwrap();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,+@%".contains(c);
    if text.chars().all(is_plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The command `like` as the arguments of the command `before`, in the environment and directory of
/// `like`.
pub(crate) fn behind(before: &[&str], like: &Command) -> Command {
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(like.get_program()).args(like.get_args());
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    like.get_current_dir().map(|directory| command.current_dir(directory));
    command.stdin(Stdio::null());
    command
}

/// The exit code, -1 for a signal, and the texts of both streams.
pub(crate) fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Waits until `holds` returns true; fails with `what` after a minute.
pub(crate) fn await_that(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn processes_with(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(args) = fs::read(entry.path().join("cmdline")) else { continue };
        let args = String::from_utf8_lossy(&args).replace('\0', " ");
        if name != own && name.parse::<u32>().is_ok() && args.contains(marker) {
            found.push(format!("{name}: {args}"));
        }
    }
    found
}

/// The process whose parent is not among `pids`: a launcher and its guard, for example, have the
/// same arguments. Process numbers do not show the age, as they wrap.
pub(crate) fn eldest(pids: &[i32]) -> Option<i32> {
    let parent = |pid: &i32| stat_of(*pid)?[PARENT].parse::<i32>().ok();
    pids.iter().copied().find(|pid| parent(pid).is_some_and(|parent| !pids.contains(&parent)))
}

/// The fields of /proc/PID/stat behind the name, which is in parentheses (proc_pid_stat(5)).
/// `None`: the process has ended.
pub(crate) fn stat_of(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
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
pub(crate) fn prefix() -> PathBuf {
    std::env::var_os("OXMPI_TEST_PREFIX")
        .map_or_else(|| root().join("target/test-prefix"), PathBuf::from)
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

/// A Fortran program, compiled with the installed `mpifort` once for all its tests. `NAME_part.c`
/// is the C part of `NAME.f90`. The error is the output of the compiler.
pub(crate) fn compiled_fortran(
    source: &Path,
    compiler: &str,
    options: &[&str],
) -> Result<PathBuf, String> {
    let compiler = format!("-fc={compiler}");
    // The name of the directory of the modules depends on their source and on the compiler.
    let mut shown = Command::new(installed("mpifort"));
    let shown = shown.arg(&compiler).args(options).arg("-showme:compile").output();
    let shown = shown.map_err(|error| format!("mpifort: {error}"))?;
    let mut mpifort = Command::new(installed("mpifort"));
    mpifort.arg(&compiler).args(["-O1", "-g"]).args(options).arg(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let part = source.with_file_name(format!("{name}_part.c"));
    if part.exists() {
        let mut mpicc = Command::new(installed("mpicc"));
        mpicc.args(["-g", "-c"]).arg(&part);
        mpifort.arg(compile_once(&part, mpicc, &format!("{name}_part.o"))?);
    }
    mpifort.env("OXMPI_TEST_MODULES", String::from_utf8_lossy(&shown.stdout).trim_end());
    compile_once(source, mpifort, &name)
}

/// A library of one C file below `tests` that replaces another project's library, compiled once for
/// all its tests.
pub(crate) fn compiled_library(source: &str, name: &str) -> PathBuf {
    let source = root().join("tests").join(source);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-g", "-shared", "-fPIC", "-pthread"])
        .arg(&source)
        .arg("-ldl");
    cc.arg(format!("-Wl,-soname,{name}"));
    compile_once(&source, cc, name).unwrap()
}

/// Runs a compiler, unless a result exists for the same arguments, source, included files, headers
/// next to it and installed headers.
pub(crate) fn compile_once(
    source: &Path,
    mut compiler: Command,
    name: &str,
) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", source.display());
    let mut key = DefaultHasher::new();
    format!("{compiler:?}").hash(&mut key);
    let mut inputs = vec![source.to_path_buf()];
    let shared = [root().join("tests/c"), root().join("tests/faces"), prefix().join("include")];
    for place in shared.iter().map(PathBuf::as_path).chain(source.parent()) {
        let files = fs::read_dir(place).map_err(failed)?.flatten().map(|entry| entry.path());
        inputs.extend(
            files.filter(|path| path.extension().is_some_and(|extension| extension == "h")),
        );
    }
    inputs[1..].sort();
    let text = fs::read_to_string(source).map_err(failed)?;
    let sources =
        text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix(".c\""));
    inputs.extend(sources.map(|name| source.with_file_name(name).with_extension("c")));
    let parts = text.lines().filter_map(|line| line.strip_prefix("include '")?.strip_suffix('\''));
    inputs.extend(parts.map(|name| source.with_file_name(name)));
    for input in inputs {
        fs::read(&input).map_err(failed)?.hash(&mut key);
    }
    let directory = root().join(format!("target/test-programs/{:016x}", key.finish()));
    let made = directory.join(name);
    if made.exists() {
        return Ok(made);
    }
    fs::create_dir_all(&directory).map_err(failed)?;
    // Another test may compile the same source at the same time: each writes its own file, and the
    // last one stays.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let part = directory.join(format!("{}.{number}", std::process::id()));
    // Fortran compilers write module files into their directory.
    let scratch = TestDirectory::new("compiler");
    let output = compiler.current_dir(&scratch).arg("-o").arg(&part).output().map_err(failed)?;
    if !output.status.success() {
        return Err(format!("{compiler:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::rename(&part, &made).map_err(failed)?;
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
    let log = fs::OpenOptions::new().create(true).append(true).open(file);
    log.and_then(|mut log| log.write_all(format!("{why}\n").as_bytes())).unwrap();
}

/// The directory with the library UCC, its dependencies and their loader. `cargo xtask test`
/// unpacks it in `target/ucc` and names it in OXMPI_TEST_UCC.
pub(crate) fn ucc() -> Option<PathBuf> {
    let named = std::env::var_os("OXMPI_TEST_UCC").map(PathBuf::from);
    let own = root().join(format!("target/ucc/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let found =
        named.clone().or(Some(own)).filter(|directory| directory.join("libucc.so.1").exists());
    assert!(
        found.is_some() || named.is_none(),
        "OXMPI_TEST_UCC names no directory with libucc.so.1"
    );
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
    let in_path =
        || directories.map(|directory| directory.join("criu")).find(|file| file.is_file());
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
