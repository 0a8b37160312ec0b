//! Source packages and libraries of Debian, fetched by `apt` into a private directory: the
//! system does not change.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{make_directory, write};
use crate::packages;
use crate::run::{Failure, Run};

/// The system's list of package sources: its mirrors, keys and options are used.
const SYSTEM: &str = "/etc/apt";

/// The suite whose packages are used: that of the system, or another one of Debian.
pub(super) type Suite = Option<&'static str>;

/// The directory of the lists of packages.
fn apt(directory: &Path, suite: Suite) -> PathBuf {
    match suite {
        None => directory.join("apt"),
        Some(suite) => directory.join(format!("apt-{suite}")),
    }
}

fn apt_get(directory: &Path, suite: Suite) -> Run {
    let apt = apt(directory, suite);
    let option =
        |name: &str, value: &Path| ["-o".to_owned(), format!("{name}={}", value.display())];
    Run::new("apt-get")
        .args(["--quiet", "--quiet"])
        .args(option("Dir::Etc::sourcelist", &apt.join("sources.list")))
        .args(option("Dir::Etc::sourceparts", &apt.join("sources.list.d")))
        .args(option("Dir::State::lists", &apt.join("lists")))
        .args(option("Dir::Cache", &apt.join("cache")))
        // apt's own user may not write there.
        .args(["-o", "APT::Sandbox::User="])
}

/// Fetches the lists of packages, once.
fn lists(directory: &Path, suite: Suite) -> Result<(), Failure> {
    let apt = apt(directory, suite);
    let files = match suite {
        None => sources(Path::new(SYSTEM))?,
        Some(suite) => {
            let line = format!("deb-src {} {suite} main\n", packages::mirror());
            BTreeMap::from([("sources.list".to_owned(), line)])
        }
    };
    let all: String = files.iter().map(|(name, text)| format!("{name}:\n{text}")).collect();
    let mark = apt.join("up-to-date");
    if fs::read_to_string(&mark).is_ok_and(|found| found == all) {
        return Ok(());
    }
    let parts = apt.join("sources.list.d");
    if parts.exists() {
        fs::remove_dir_all(&parts)
            .map_err(Failure::io(format!("cannot remove {}", parts.display())))?;
    }
    for needed in [&parts, &apt.join("lists/partial"), &apt.join("cache/archives/partial")] {
        make_directory(needed)?;
    }
    write(&apt.join("sources.list"), "")?;
    for (name, text) in &files {
        write(&apt.join(name), text)?;
    }
    apt_get(directory, suite).arg("update").show()?;
    write(&mark, &all)
}

/// The files below `etc` that name sources, by name, with source packages switched on.
fn sources(etc: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let parts = fs::read_dir(etc.join("sources.list.d")).into_iter().flatten().flatten();
    let parts =
        parts.map(|entry| format!("sources.list.d/{}", entry.file_name().to_string_lossy()));
    let mut files = BTreeMap::new();
    for name in parts.chain(["sources.list".to_owned()]) {
        let change: fn(&str) -> String = match Path::new(&name).extension().and_then(OsStr::to_str)
        {
            Some("list") => with_source_lines,
            Some("sources") => with_source_types,
            // apt ignores other files.
            _ => continue,
        };
        let path = etc.join(&name);
        match fs::read_to_string(&path) {
            Ok(text) => files.insert(name, change(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(Failure::io(format!("cannot read {}", path.display()))(error));
            }
        };
    }
    if files.is_empty() {
        return Err(Failure::new(format!("{} names no sources of packages", etc.display())));
    }
    Ok(files)
}

/// Adds a line for source packages behind each line for binary ones (one-line format).
fn with_source_lines(text: &str) -> String {
    let has = |wanted: &str| {
        text.lines().any(|line| line.split_whitespace().eq(wanted.split_whitespace()))
    };
    let mut changed = String::new();
    for line in text.lines() {
        changed += line;
        changed.push('\n');
        let rest =
            line.trim_start().strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t']));
        let source = rest.map(|rest| format!("deb-src{rest}"));
        if let Some(source) = source.filter(|source| !has(source)) {
            changed += &source;
            changed.push('\n');
        }
    }
    changed
}

/// Gives each stanza both types (deb822 format).
fn with_source_types(text: &str) -> String {
    let mut changed = String::new();
    for line in text.lines() {
        let types = line.split_once(':').filter(|(field, _)| field.eq_ignore_ascii_case("Types"));
        let is_for_binaries_alone =
            types.is_some_and(|(_, types)| types.split_whitespace().eq(["deb"]));
        changed += if is_for_binaries_alone { "Types: deb deb-src" } else { line };
        changed.push('\n');
    }
    changed
}

/// The source of a package, freshly unpacked.
pub(super) fn source(package: &str, directory: &Path) -> Result<PathBuf, Failure> {
    unpack(package, &archive(package, directory, None)?, directory)
}

/// The archive of a package's source.
pub(super) fn archive(package: &str, directory: &Path, suite: Suite) -> Result<PathBuf, Failure> {
    let place = directory.join(format!("{package}-source"));
    // The compression depends on the release.
    let find_archive = || {
        find_by(&place, ".orig.tar.*", |name| {
            name.contains(".orig.tar.") && !name.ends_with(".asc")
        })
    };
    find_archive().or_else(|_| {
        lists(directory, suite)?;
        make_directory(&place)?;
        apt_get(directory, suite)
            .args(["source", "--tar-only", package])
            .current_dir(&place)
            .show()?;
        find_archive()
    })
}

/// Unpacks the archive of a package's source below a directory, in place of an earlier copy.
pub(super) fn unpack(package: &str, archive: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    if let Ok(old) = unpacked(package, directory) {
        fs::remove_dir_all(&old)
            .map_err(Failure::io(format!("cannot remove {}", old.display())))?;
    }
    let place = directory.join(format!("{package}-source"));
    make_directory(&place)?;
    Run::new("tar").arg("-xf").arg(archive).arg("-C").arg(&place).show()?;
    unpacked(package, directory)
}

/// The files that Debian adds to the source of a package, in a directory `debian`.
pub(super) fn additions(package: &str, directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.join(format!("{package}-additions"));
    let added = place.join("debian");
    if added.is_dir() {
        return Ok(added);
    }
    lists(directory, None)?;
    make_directory(&place)?;
    apt_get(directory, None).args(["source", "--diff-only", package]).current_dir(&place).show()?;
    let archive = find_by(&place, ".debian.tar.*", |name| {
        name.contains(".debian.tar.") && !name.ends_with(".asc")
    })?;
    Run::new("tar").arg("-xf").arg(archive).arg("-C").arg(&place).show()?;
    Ok(added)
}

/// Whether the archive of packages has no such source, so that no later attempt succeeds either.
/// The list of packages may name a source that the archive or its mirror does not have.
pub(super) fn lacks(package: &str, directory: &Path, suite: Suite) -> bool {
    let scratch = directory.join(format!("{package}-source"));
    let attempt = apt_get(directory, suite).args(["source", "--tar-only", package]);
    let attempt = attempt.current_dir(&scratch).env("LC_ALL", "C").output();
    attempt.is_err_and(|failure| says_not_there(&failure.to_string()))
}

fn says_not_there(complaint: &str) -> bool {
    ["404  Not Found", "Unable to find a source package"]
        .iter()
        .any(|words| complaint.contains(words))
}

pub(super) fn unpacked(package: &str, directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.join(format!("{package}-source"));
    let entries = fs::read_dir(&place).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).find(|path| path.is_dir());
    found.ok_or_else(|| Failure::new(format!("{} has no source", place.display())))
}

/// Unpacks a binary package. Returns its directory.
pub(super) fn package(name: &str, directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.join(name);
    if place.join("usr").is_dir() {
        return Ok(place);
    }
    lists(directory, None)?;
    make_directory(&place)?;
    apt_get(directory, None).args(["download", name]).current_dir(&place).show()?;
    let archive = find(&place, ".deb")?;
    Run::new("dpkg-deb").arg("-x").arg(archive).arg(&place).show()?;
    Ok(place)
}

pub(super) fn find(directory: &Path, ending: &str) -> Result<PathBuf, Failure> {
    find_by(directory, ending, |name| name.ends_with(ending))
}

/// The file below `directory` with one of the names; `what` is its description in an error.
fn find_by(
    directory: &Path,
    what: &str,
    is_one: impl Fn(&str) -> bool,
) -> Result<PathBuf, Failure> {
    let mut places = vec![directory.to_owned()];
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                places.push(path);
            } else if is_one(&entry.file_name().to_string_lossy()) {
                return Ok(path);
            }
        }
    }
    Err(Failure::new(format!("there is no {what} below {}", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_for_packages_gets_one_for_their_sources() {
        let text = "\
# deb http://commented.example/debian a main
deb http://mirror.example/debian a main contrib
deb\t[signed-by=/k.gpg arch=amd64] http://b.example/ ./ # why
deb http://both.example/debian a main
deb-src   http://both.example/debian  a main
debug http://no.example/ a main
";
        let changed = with_source_lines(text);
        let added: Vec<&str> =
            changed.lines().filter(|line| !text.lines().any(|old| old == *line)).collect();
        assert_eq!(
            added,
            [
                "deb-src http://mirror.example/debian a main contrib",
                "deb-src\t[signed-by=/k.gpg arch=amd64] http://b.example/ ./ # why",
            ]
        );
        assert_eq!(changed.lines().count(), text.lines().count() + added.len());
        assert_eq!(with_source_lines(&changed), changed);
    }

    #[test]
    fn stanzas_get_both_types_and_stay_as_they_are_otherwise() {
        let text = "\
Types: deb
# Types: deb
URIs: http://mirror.example/debian
Suites: a a-updates
Signed-By: /k.gpg

types:deb
URIs: http://b.example/

Types: deb-src deb
Types: deb-src
";
        let changed = with_source_types(text);
        let expected = text
            .replacen("Types: deb\n", "Types: deb deb-src\n", 1)
            .replace("types:deb\n", "Types: deb deb-src\n");
        assert_eq!(changed, expected);
        assert_eq!(with_source_types(&changed), changed);
    }

    #[test]
    fn a_source_that_the_archive_lacks_is_no_broken_network() {
        let missing =
            "E: Failed to fetch http://m.example/a_1.orig.tar.gz  404  Not Found [IP: ::]";
        assert!(says_not_there(missing));
        assert!(says_not_there("E: Unable to find a source package for a"));
        assert!(!says_not_there("E: Failed to fetch http://m.example/a  Could not connect"));
    }

    #[test]
    fn the_files_are_those_that_apt_reads() {
        let etc = std::env::temp_dir().join(format!("xtask-sources-{}", std::process::id()));
        fs::create_dir_all(etc.join("sources.list.d")).unwrap();
        assert!(sources(&etc).is_err());
        fs::write(etc.join("sources.list"), "deb http://a.example/ a main\n").unwrap();
        fs::write(etc.join("sources.list.d/b.sources"), "Types: deb\n").unwrap();
        fs::write(etc.join("sources.list.d/c.list.save"), "deb http://old.example/ a main\n")
            .unwrap();
        let found: Vec<(String, String)> = sources(&etc).unwrap().into_iter().collect();
        fs::remove_dir_all(&etc).unwrap();
        let expected = [
            ("sources.list", "deb http://a.example/ a main\ndeb-src http://a.example/ a main\n"),
            ("sources.list.d/b.sources", "Types: deb deb-src\n"),
        ];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
}
