//! The packages for Debian in a new system of this machine's release: they are installed, a program
//! is compiled and run, and after their removal none of their files is left.

use std::fs;
use std::path::{Path, PathBuf};

use super::copy;
use crate::install::target_directory;
use crate::packages;
use crate::root;
use crate::run::{Failure, Run};

/// The packages that a user needs.
const INSTALLED: [&str; 3] = ["liboxmpi1", "oxmpi", "liboxmpi-dev"];

/// Runs a script in the system $0. Its mounts end with the mount namespace of the process.
const ENTER: &str = "mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && \
                     mount --rbind /sys \"$0/sys\" && exec chroot \"$0\" sh -e -c \"$1\"";

const INSTALL_AND_RUN: &str = "cd /packages; dpkg --install *.deb >/dev/null; \
                               mpicc.oxmpi hello.c -o hello; mpirun -n 2 --timeout 60 ./hello; \
                               rm hello";

/// Packs the installation in `prefix`, and checks the packages.
pub(crate) fn check_packages(prefix: &Path) -> Result<(), Failure> {
    check(&super::deb::pack(prefix, &directory())?)
}

fn directory() -> PathBuf {
    target_directory().join("deb-check")
}

/// Installs packages in a new system.
pub(super) fn check(files: &[PathBuf]) -> Result<(), Failure> {
    let system = new_system()?;
    let place = system.join("packages");
    let _ = fs::remove_dir_all(&place); // of an earlier run
    for file in files {
        let name = file.file_name().unwrap_or_default();
        let is_of = |package: &&str| {
            name.to_string_lossy().strip_prefix(*package).is_some_and(|end| end.starts_with('_'))
        };
        if INSTALLED.iter().any(is_of) {
            copy(file, &place.join(name))?;
        }
    }
    copy(&root().join("examples/hello.c"), &place.join("hello.c"))?;
    let said = inside(&system, INSTALL_AND_RUN)?;
    for rank in 0..2 {
        let line = format!("hello from rank {rank} of 2");
        if !said.contains(&line) {
            return Err(Failure::new(format!("the program says no '{line}':\n{said}")));
        }
    }
    inside(&system, &format!("dpkg --purge {}", INSTALLED.join(" ")))?;
    for left in ["usr/lib/oxmpi", "usr/bin/mpirun.oxmpi", "usr/bin/mpirun", "usr/bin/mpicc"] {
        let left = system.join(left);
        if left.exists() || left.is_symlink() {
            return Err(Failure::new(format!("'dpkg --purge' leaves {}", left.display())));
        }
    }
    Ok(())
}

/// A system of this machine's release with a C compiler. It stays for later runs.
fn new_system() -> Result<PathBuf, Failure> {
    let system = directory().join("system");
    let done = directory().join("system-is-complete");
    if done.exists() {
        return Ok(system);
    }
    if !Run::new("debootstrap").arg("--version").succeeds() {
        packages::install(&["debootstrap"])?;
    }
    let release = fs::read_to_string("/etc/os-release").map_err(Failure::io("/etc/os-release"))?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.ok_or_else(|| Failure::new("/etc/os-release has no VERSION_CODENAME"))?;
    fs::create_dir_all(&system).map_err(Failure::io(system.display()))?;
    // In a mount namespace, so that no mount is left if the command fails.
    Run::new("unshare")
        .args(["--mount", "debootstrap", "--variant=minbase", "--include=gcc,libc6-dev", suite])
        .arg(&system)
        .arg(packages::mirror())
        .show()?;
    fs::write(&done, "").map_err(Failure::io(done.display()))?;
    Ok(system)
}

fn inside(system: &Path, script: &str) -> Result<String, Failure> {
    let said = Run::new("unshare")
        .args(["--mount", "sh", "-c", ENTER])
        .arg(system)
        .arg(script)
        .output()?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}
