//! Packages of Debian for tests: those of this machine's release, which are installed, and those of
//! a newer one, which are unpacked apart from the system with all that they need.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::run::{Failure, Run};

/// Debian's archive, if this machine names no mirror.
const MIRROR: &str = "http://deb.debian.org/debian";

pub(crate) fn install(packages: &[&str]) -> Result<(), Failure> {
    let install = || {
        let words = ["install", "-y", "-q", "--no-install-recommends"];
        Run::new("apt-get").args(words).args(packages.iter().copied()).show()
    };
    // A new machine may have no list of packages yet.
    install().or_else(|_| {
        Run::new("apt-get").arg("update").show()?;
        install()
    })
}

/// The file in a directory of unpacked packages that has the name and the version of each.
const VERSIONS: &str = "versions";

/// Unpacks packages of a suite and their dependencies in a directory, unless they exist there. Each
/// has its oldest version that works. Prints the versions found.
pub(crate) fn provide(
    directory: &Path,
    suite: &str,
    packages: &[(&str, &str)],
) -> Result<(), Failure> {
    let names: Vec<&str> = packages.iter().map(|(name, _)| *name).collect();
    if packages.iter().any(|package| version_of(directory, *package).is_err()) {
        unpack(directory, suite, &names)?;
    }
    for &(name, least) in packages {
        let version = version_of(directory, (name, least)).map_err(|why| {
            Failure::new(format!("the package {name} of Debian's {suite}: {why}"))
        })?;
        println!("{name} {version} of Debian's {suite} is in {}", directory.display());
    }
    Ok(())
}

/// Unpacks packages of this machine's release in a directory, without what they depend on. Returns
/// the directory.
pub(crate) fn unpack_alone(directory: &Path, packages: &[&str]) -> Result<PathBuf, Failure> {
    if directory.join("usr").is_dir() {
        return Ok(directory.to_path_buf());
    }
    let part = directory.with_extension("part");
    let failed = |place: &Path| Failure::io(format!("cannot replace {}", place.display()));
    remove(&part).map_err(failed(&part))?;
    let archives = part.join("archives");
    fs::create_dir_all(&archives).map_err(failed(&part))?;
    Run::new("apt-get")
        .args(["-q", "-o", "APT::Sandbox::User=root", "download"])
        .args(packages.iter().copied())
        .current_dir(&archives)
        .show()?;
    for entry in fs::read_dir(&archives).map_err(failed(&archives))?.flatten() {
        Run::new("dpkg").arg("-x").arg(entry.path()).arg(&part).output()?;
    }
    fs::remove_dir_all(&archives).map_err(failed(&archives))?;
    remove(directory).map_err(failed(directory))?;
    fs::rename(&part, directory).map_err(failed(directory))?;
    Ok(directory.to_path_buf())
}

/// The version of a package in a directory, or the reason why it does not work.
fn version_of(directory: &Path, (name, least): (&str, &str)) -> Result<String, String> {
    let list = fs::read_to_string(directory.join(VERSIONS)).unwrap_or_default();
    let version = list.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let version = version.ok_or_else(|| format!("it is not in {}", directory.display()))?;
    if is_at_least(version, least) {
        return Ok(version.into());
    }
    Err(format!("it has version {version}, and at least {least} is needed"))
}

/// By Debian's order of versions.
pub(crate) fn is_at_least(version: &str, least: &str) -> bool {
    Run::new("dpkg").args(["--compare-versions", version, "ge", least]).succeeds()
}

/// Puts packages of a suite, and all that they need, in the place of a directory. Until all of them
/// are there the directory has another name, so that an interrupted attempt does not count.
fn unpack(directory: &Path, suite: &str, packages: &[&str]) -> Result<(), Failure> {
    println!(
        "{} of Debian's {suite} is unpacked into {}",
        packages.join(", "),
        directory.display()
    );
    let part = directory.with_extension("part");
    let failed = |place: &Path| Failure::io(format!("cannot replace {}", place.display()));
    remove(&part).map_err(failed(&part))?;
    fetch(&part, suite, packages)?;
    remove(directory).map_err(failed(directory))?;
    fs::rename(&part, directory).map_err(failed(directory))
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Fetches packages by apt as if nothing were installed, with lists and caches of its own, and
/// unpacks them.
fn fetch(directory: &Path, suite: &str, packages: &[&str]) -> Result<(), Failure> {
    let apt = directory.join("apt");
    let failed =
        |what: &str| Failure::io(format!("cannot write {what} below {}", directory.display()));
    for place in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(place)).map_err(failed(place))?;
    }
    fs::write(apt.join("status"), "").map_err(failed("the list of packages"))?;
    let sources = format!("deb [check-valid-until=no] {} {suite} main\n", mirror());
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
    let mut versions = String::new();
    for entry in fs::read_dir(&archives).map_err(failed("the packages"))?.flatten() {
        if let Some((name, version)) = package_in(&entry.file_name().to_string_lossy()) {
            Run::new("dpkg").arg("-x").arg(entry.path()).arg(directory).output()?;
            versions += &format!("{name} {version}\n");
        }
    }
    fs::write(directory.join(VERSIONS), versions).map_err(failed("the versions"))?;
    fs::remove_dir_all(&apt).map_err(failed("the packages"))
}

/// The name and the version that the name of a package's file says: `NAME_VERSION_ARCH.deb`, in
/// which the colon after an epoch is escaped.
fn package_in(file: &str) -> Option<(&str, String)> {
    let mut parts = file.strip_suffix(".deb")?.split('_');
    Some((parts.next()?, parts.next()?.replace("%3a", ":")))
}

/// The mirror of Debian's archive that this machine uses.
pub(crate) fn mirror() -> String {
    let own = fs::read_to_string("/etc/apt/sources.list.d/debian.sources").unwrap_or_default();
    mirror_in(&own).to_owned()
}

fn mirror_in(sources: &str) -> &str {
    let line = sources.lines().find_map(|line| line.strip_prefix("URIs:"));
    line.and_then(|line| line.split_ascii_whitespace().next()).unwrap_or(MIRROR)
}

/// The directory of the libraries of unpacked packages, and their loader.
pub(crate) fn libraries(directory: &Path) -> PathBuf {
    directory.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_names_of_files() {
        assert_eq!(package_in("criu_4.2-1_amd64.deb"), Some(("criu", "4.2-1".into())));
        assert_eq!(package_in("zlib1g_1%3a1.3.1_amd64.deb"), Some(("zlib1g", "1:1.3.1".into())));
        assert_eq!((package_in("lock"), package_in("criu.deb")), (None, None));
    }

    #[test]
    fn a_version_that_is_too_old_does_not_serve() {
        let directory = std::env::temp_dir().join(format!("oxmpi-versions-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(VERSIONS), "criu-dev 9\ncriu 4.2-1\n").unwrap();
        assert_eq!(version_of(&directory, ("criu", "4.2")), Ok("4.2-1".into()));
        let error = version_of(&directory, ("criu", "4.10")).unwrap_err();
        assert!(error.contains("4.2-1") && error.contains("4.10"), "{error}");
        assert!(version_of(&directory, ("libucc-dev", "1")).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn mirrors_are_read() {
        assert_eq!(mirror_in("Types: deb\nURIs: http://a/debian http://b\n"), "http://a/debian");
        assert_eq!(mirror_in(""), MIRROR);
    }
}
