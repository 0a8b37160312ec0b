//! CRIU for the tests of checkpoints: that of the system if it is new enough, else Debian's newest
//! one, unpacked beside the system.
//!
//! The CRIU of Debian 13 and older fails on newer kernels. Its packages and all that they need are
//! unpacked into `target/criu`, and a script there runs the program with the loader and the
//! libraries that came with it. Nothing is installed.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::install::target_directory;
use crate::packages;
use crate::run::{Failure, Run};

const SUITE: &str = "forky";
/// The oldest version that works on new kernels.
const NEEDED: &str = "4.2";

/// The time in which process 1 must wait for an orphan.
const REAPING: Duration = Duration::from_secs(5);

/// A CRIU that works here, or why there is none.
pub(crate) fn find_or_unpack() -> Result<PathBuf, Failure> {
    let system = PathBuf::from("criu");
    if is_new_enough(&system) && brings_back(&system).is_ok() {
        return Ok(system);
    }
    let directory = target_directory().join("criu");
    let program = directory.join("criu");
    packages::provide(&directory, SUITE, &[("criu", NEEDED)])?;
    write_script(&directory, &program)?;
    brings_back(&program)
        .map(|()| program)
        .map_err(|error| Failure::new(format!("CRIU cannot restore a plain process here: {error}")))
}

/// Makes an image of a sleeping process, ends the process and restores it. Whether this works
/// depends on the kernel, the rights, the inherited descriptors, and on a process 1 that waits for
/// orphans, whose numbers are in use until then.
fn brings_back(criu: &Path) -> Result<(), Failure> {
    let directory = target_directory().join(format!("criu-probe-{}", std::process::id()));
    let failed = || Failure::io(format!("cannot use {}", directory.display()));
    fs::create_dir_all(&directory).map_err(failed())?;
    let script = "setsid sleep 60 < /dev/null > /dev/null 2>&1 & echo $!";
    let orphan = Run::new("sh").args(["-c", script]).output()?;
    let orphan = String::from_utf8_lossy(&orphan).trim().to_string();
    let process = PathBuf::from("/proc").join(&orphan);
    let image = directory.display().to_string();
    let act =
        |words: &[&str]| Run::new(criu).args(words).args(["--shell-job", "-D", &image]).output();
    let done = act(&["dump", "-t", &orphan]).and_then(|_| {
        let start = Instant::now();
        while process.exists() {
            if start.elapsed() > REAPING {
                return Err(Failure::new("process 1 does not wait for orphans"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        act(&["restore", "--restore-detached"]).map(|_| ())
    });
    // The process does not exist if everything has failed.
    let _ = Run::new("kill").args(["-9", &orphan]).succeeds();
    fs::remove_dir_all(&directory).map_err(failed())?;
    done
}

fn is_new_enough(program: &Path) -> bool {
    let text = Run::new(program).arg("--version").output().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
    version.is_some_and(|version| packages::is_at_least(version.trim(), NEEDED))
}

fn write_script(directory: &Path, program: &Path) -> Result<(), Failure> {
    let libraries = packages::libraries(directory);
    let is_loader = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
    };
    let entries = fs::read_dir(&libraries);
    let entries = entries.map_err(Failure::io(format!("cannot read {}", libraries.display())))?;
    let loader = entries.flatten().map(|entry| entry.path()).find(is_loader);
    let loader =
        loader.ok_or_else(|| Failure::new(format!("no loader in {}", libraries.display())))?;
    let mut text = "#!/bin/sh\n".to_string();
    let criu = directory.join("usr/sbin/criu");
    let _ = writeln!(
        text,
        "exec '{}' --library-path '{}' '{}' \"$@\"",
        loader.display(),
        libraries.display(),
        criu.display()
    );
    let failed = || Failure::io(format!("cannot write {}", program.display()));
    fs::write(program, text).map_err(failed())?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).map_err(failed())
}
