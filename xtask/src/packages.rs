//! Packages of Debian for tests: those of this machine's release, which are installed, and those of a newer one, which are unpacked apart from the
//! system with all that they need.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::run::{Failure, Run};

/// Where Debian's packages are, if this machine does not say otherwise.
const MIRROR: &str = "http://deb.debian.org/debian";

/// Installs packages.
pub(crate) fn install(packages: &[&str]) -> Result<(), Failure> {
    let install = || {
        let words = ["install", "-y", "-q", "--no-install-recommends"];
        Run::new("apt-get").args(words).args(packages.iter().copied()).show()
    };
    // A new machine may not know yet what packages there are.
    install().or_else(|_| {
        Run::new("apt-get").arg("update").show()?;
        install()
    })
}

/// Puts packages of a suite, and all that they need, in the place of a directory. Until all of it is there it has another name, so that an
/// interrupted one does not count.
pub(crate) fn unpack(directory: &Path, suite: &str, packages: &[&str]) -> Result<(), Failure> {
    println!("{} of Debian's {suite} is unpacked into {}", packages.join(", "), directory.display());
    let part = directory.with_extension("part");
    let failed = |place: &Path| Failure::io(format!("cannot replace {}", place.display()));
    remove(&part).map_err(failed(&part))?;
    fetch(&part, suite, packages)?;
    remove(directory).map_err(failed(directory))?;
    fs::rename(&part, directory).map_err(failed(directory))
}

/// Removes a directory, if it is there.
fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Has apt fetch them as if nothing were installed, with lists and caches of its own, and unpacks them.
fn fetch(directory: &Path, suite: &str, packages: &[&str]) -> Result<(), Failure> {
    let apt = directory.join("apt");
    let failed = |what: &str| Failure::io(format!("cannot write {what} below {}", directory.display()));
    for place in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(place)).map_err(failed(place))?;
    }
    fs::write(apt.join("status"), "").map_err(failed("the list of packages"))?;
    let own = fs::read_to_string("/etc/apt/sources.list.d/debian.sources").unwrap_or_default();
    let sources = format!("deb [check-valid-until=no] {} {suite} main\n", mirror_in(&own));
    fs::write(apt.join("sources.list"), sources).map_err(failed("the sources"))?;
    let at = |option: &str, place: &str| format!("{option}={}", apt.join(place).display());
    let options = [
        at("Dir::State", ""),
        at("Dir::State::lists", "lists"),
        at("Dir::State::status", "status"),
        at("Dir::Cache", "cache"),
        at("Dir::Etc::sourcelist", "sources.list"),
        "Dir::Etc::sourceparts=/dev/null".into(),
        "APT::Install-Recommends=false".into(),
        "APT::Sandbox::User=root".into(),
        "Debug::NoLocking=1".into(),
    ];
    let get = |words: &[&str]| {
        let set = options.iter().flat_map(|option| ["-o", option.as_str()]);
        Run::new("apt-get").arg("-q").args(set).args(words).output().map(|_| ())
    };
    get(&["update"])?;
    get(&[&["-y", "--download-only", "install"], packages].concat())?;
    let archives = apt.join("cache/archives");
    for entry in fs::read_dir(&archives).map_err(failed("the packages"))?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "deb") {
            Run::new("dpkg").arg("-x").arg(entry.path()).arg(directory).output()?;
        }
    }
    // Unpacked, they are of no use any more.
    fs::remove_dir_all(&apt).map_err(failed("the packages"))
}

/// The mirror that this machine uses.
fn mirror_in(sources: &str) -> &str {
    let line = sources.lines().find_map(|line| line.strip_prefix("URIs:"));
    line.and_then(|line| line.split_ascii_whitespace().next()).unwrap_or(MIRROR)
}

/// Where the libraries of unpacked packages are, and the loader that goes with them.
pub(crate) fn libraries(directory: &Path) -> PathBuf {
    directory.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_read() {
        assert_eq!(mirror_in("Types: deb\nURIs: http://a/debian http://b\n"), "http://a/debian");
        assert_eq!(mirror_in(""), MIRROR);
    }
}
