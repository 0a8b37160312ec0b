//! The Fortran programs of `tests/fortran` with the GNU Fortran of a newer Debian, in a root
//! directory of that release.
//!
//! The packages are unpacked, not installed, into `target/trixie`, and stay there. A script runs a
//! program in this root: in a mount namespace of its own, so that the mounts end with the program
//! and never stand in the way of a removal. nextest starts each test by the script. The runner, the
//! launcher and the library are those of this machine, and work with the newer C library too.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::install::target_directory;
use crate::needs::Needs;
use crate::packages;
use crate::root;
use crate::run::{Failure, Run};
use crate::test::{nextest, threads};

const SUITE: &str = "trixie";
pub(crate) const COMPILER: &str = "gfortran-14";
const C_COMPILER: &str = "gcc-14";

/// The packages with the oldest versions that work. `base-files` has the directories of a root, and
/// its links `bin` and `lib`; the others are for scripts.
const PACKAGES: [(&str, &str); 5] =
    [(COMPILER, "14"), (C_COMPILER, "14"), ("base-files", "13"), ("dash", "0"), ("coreutils", "0")];

/// The programs without flang, and without the headers of other MPIs, which are this machine's.
const PROGRAMS: &str = "not test(/::flang$/) and not test(/(mpich|openmpi)::/)";

/// Enters the root. The project and its target directory are there under the same names.
const ENTRANCE: &str = r#"#!/bin/sh
exec unshare --mount --propagation private sh -ec '
root=$1 project=$2 target=$3; shift 3
for place in /proc /sys /dev; do mount --rbind "$place" "$root$place"; done
for place in "$project" "$target"; do
    mkdir -p "$root$place"
    mount --bind "$place" "$root$place"
done
exec chroot "$root" env -C "$PWD" "$@"
' sh 'ROOT' 'PROJECT' 'TARGET' "$@"
"#;

/// Runs the programs, at every number of ranks and with every list of options.
pub(crate) fn run_programs(needs: &mut Needs) -> Result<(), Failure> {
    let entrance = match entrance() {
        Ok(entrance) => entrance,
        Err(failure) => return needs.require(Err(failure)),
    };
    let runner = format!(
        "CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER",
        std::env::consts::ARCH.to_ascii_uppercase()
    );
    needs
        .environment(nextest())
        .args(["--test", "fortran_programs", "-E", PROGRAMS, "--run-ignored", "all"])
        .args(["--test-threads", &threads()])
        .env(&runner, entrance)
        .env("OXMPI_TEST_GFORTRAN", COMPILER)
        .env("OXMPI_CC", C_COMPILER)
        .show()
}

/// The script that runs a program in the root, or why this machine does not allow it.
fn entrance() -> Result<PathBuf, Failure> {
    let directory = target_directory().join(SUITE);
    packages::provide(&directory, SUITE, &PACKAGES)?;
    let script = directory.with_extension("sh");
    let failed = || Failure::io(format!("cannot write {}", script.display()));
    fs::write(&script, script_text(&directory, &root(), &target_directory())).map_err(failed())?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(failed())?;
    // Only root may make mounts.
    Run::new(&script).arg("true").output()?;
    Ok(script)
}

fn script_text(directory: &Path, project: &Path, target: &Path) -> String {
    let quoted = |path: &Path| path.display().to_string().replace('\'', r"'\''");
    let paths = [("'ROOT'", directory), ("'PROJECT'", project), ("'TARGET'", target)];
    paths.into_iter().fold(ENTRANCE.to_owned(), |text, (name, path)| {
        text.replace(name, &format!("'{}'", quoted(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_names_its_directories() {
        let text = script_text(Path::new("/r"), Path::new("/it's"), Path::new("/t t"));
        assert!(text.contains(r"' sh '/r' '/it'\''s' '/t t' "), "{text}");
        assert!(Run::new("sh").args(["-n", "-c", &text]).succeeds());
    }
}
