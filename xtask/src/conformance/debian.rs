//! Source packages and libraries of Debian, fetched by `apt` into a directory of ours: nothing of the system changes.

use std::fs;
use std::path::{Path, PathBuf};

use super::{make_directory, write};
use crate::run::{Failure, Run};

/// Where packages come from. The keys are those of the system.
const SOURCES: &str = "\
deb http://deb.debian.org/debian bookworm main
deb-src http://deb.debian.org/debian bookworm main
";

/// `apt-get` with lists and caches of its own below `directory`.
fn apt_get(directory: &Path) -> Run {
    let apt = directory.join("apt");
    let option = |name: &str, value: &Path| ["-o".to_owned(), format!("{name}={}", value.display())];
    Run::new("apt-get")
        .args(["--quiet", "--quiet"])
        .args(option("Dir::Etc::sourcelist", &apt.join("sources.list")))
        .args(option("Dir::Etc::sourceparts", Path::new("/dev/null")))
        .args(option("Dir::State::lists", &apt.join("lists")))
        .args(option("Dir::Cache", &apt.join("cache")))
        // Whoever runs us may write there; apt's own user may not.
        .args(["-o", "APT::Sandbox::User="])
}

/// Makes the lists, once.
fn lists(directory: &Path) -> Result<(), Failure> {
    let apt = directory.join("apt");
    if apt.join("up-to-date").exists() {
        return Ok(());
    }
    make_directory(&apt.join("lists/partial"))?;
    make_directory(&apt.join("cache/archives/partial"))?;
    write(&apt.join("sources.list"), SOURCES)?;
    apt_get(directory).arg("update").show()?;
    write(&apt.join("up-to-date"), "")
}

/// The source of a package, freshly unpacked, as its authors made it.
pub(super) fn source(package: &str, directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.join(format!("{package}-source"));
    let archive = match find(&place, ".orig.tar.gz") {
        Ok(found) => found,
        Err(_) => {
            lists(directory)?;
            make_directory(&place)?;
            apt_get(directory).args(["source", "--tar-only", package]).current_dir(&place).show()?;
            find(&place, ".orig.tar.gz")?
        }
    };
    if let Ok(old) = unpacked(package, directory) {
        fs::remove_dir_all(&old).map_err(Failure::io(format!("cannot remove {}", old.display())))?;
    }
    Run::new("tar").arg("-xf").arg(archive).arg("-C").arg(&place).show()?;
    unpacked(package, directory)
}

/// Where [`source`] has put a package.
pub(super) fn unpacked(package: &str, directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.join(format!("{package}-source"));
    let entries = fs::read_dir(&place).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).find(|path| path.is_dir());
    found.ok_or_else(|| Failure::new(format!("{} has no source", place.display())))
}

/// The files of a binary package, below the directory that is returned.
pub(super) fn package(name: &str, directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.join(name);
    if place.join("usr").is_dir() {
        return Ok(place);
    }
    lists(directory)?;
    make_directory(&place)?;
    apt_get(directory).args(["download", name]).current_dir(&place).show()?;
    let archive = find(&place, ".deb")?;
    Run::new("dpkg-deb").arg("-x").arg(archive).arg(&place).show()?;
    Ok(place)
}

/// The file below `directory` whose name ends so.
pub(super) fn find(directory: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let mut places = vec![directory.to_owned()];
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                places.push(path);
            } else if entry.file_name().to_string_lossy().ends_with(ending) {
                return Ok(path);
            }
        }
    }
    Err(Failure::new(format!("there is no {ending} below {}", directory.display())))
}
