//! `oxmpi uninstall`: removes the files of the installation below its prefix, and nothing else.
//!
//! The installer leaves a list (`cargo xtask install` describes its format). Changed configuration
//! files stay, and so do directories that are not empty or older than the installation. The list of
//! a wheel is the line `by pip uninstall oxmpi`: pip removes what it has installed.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::command::{Stop, failed};
use crate::prefix;
use crate::wrapper::MODULES_IN_PREFIX;

/// The path of the list below the prefix.
const FILE: &str = "share/oxmpi/installed";

/// What stands in the list before the command that removes a package.
const OTHER_INSTALLER: &str = "by ";

/// Remove the files that the installation has put below its prefix
///
/// Links, and directories that were made for the files and are empty, go too. A file of parameters
/// for all users that was changed stays.
#[derive(Debug, clap::Args)]
pub(crate) struct UninstallArgs {
    /// List what would be removed, and remove nothing
    #[arg(long)]
    list: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum InstalledPath {
    File(PathBuf),
    /// A file that is removed only if its content has this length in bytes and this hash.
    Config(PathBuf, u64, u64),
    Directory(PathBuf),
}

pub(crate) fn main(args: &UninstallArgs) -> Result<i32, Stop> {
    let (prefix, entries) = entries().map_err(failed)?;
    if !args.list {
        return Ok(remove(&prefix, &entries));
    }
    for path in entries.iter().filter(|entry| is_ours(&prefix, entry)).map(InstalledPath::path) {
        crate::say(&format!("{}\n", prefix.join(path).display()));
    }
    Ok(0)
}

fn entries() -> Result<(PathBuf, Vec<InstalledPath>), String> {
    let prefix =
        prefix::find().ok_or("this program is not in PREFIX/bin, so nothing was installed")?;
    let list = prefix.join(FILE);
    let text = oxmpi_param::file::read_text(&list).map_err(|error| {
        format!("{}: {error}; this list of the installer says what to remove", list.display())
    })?;
    if let Some(command) = text.strip_prefix(OTHER_INSTALLER) {
        let (prefix, command) = (prefix.display(), command.trim_end());
        return Err(format!("the files in {prefix} came by a package: '{command}' removes them"));
    }
    let entries = text.lines().map(|line| {
        InstalledPath::read(line)
            .ok_or_else(|| format!("{}: '{line}' is no line of the installer's", list.display()))
    });
    let mut all = Vec::new();
    made_modules(&prefix, Path::new(MODULES_IN_PREFIX), &mut all);
    for entry in entries {
        all.push(entry?);
    }
    Ok((prefix, all))
}

/// Adds the Fortran modules that mpifort has made in a directory below the prefix.
fn made_modules(prefix: &Path, directory: &Path, all: &mut Vec<InstalledPath>) {
    let Ok(entries) = fs::read_dir(prefix.join(directory)) else { return };
    for entry in entries.flatten() {
        let path = directory.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                made_modules(prefix, &path, all);
                all.push(InstalledPath::Directory(path));
            }
            _ => all.push(InstalledPath::File(path)),
        }
    }
}

impl InstalledPath {
    fn read(line: &str) -> Option<InstalledPath> {
        let (word, rest) = line.split_once(' ')?;
        let below = |name: &str| {
            // A damaged list must not remove files outside of the prefix.
            let is_plain =
                |part: Component<'_>| matches!(part, Component::Normal(_)) || name == ".";
            let path = Path::new(name);
            let is_below = !name.is_empty() && path.components().all(is_plain);
            // remove_dir(2) on the joined path then removes the prefix itself.
            is_below.then(|| if name == "." { PathBuf::new() } else { path.to_owned() })
        };
        match word {
            "file" => below(rest).map(InstalledPath::File),
            "directory" => below(rest).map(InstalledPath::Directory),
            "config" => {
                let (length, rest) = rest.split_once(' ')?;
                let (number, name) = rest.split_once(' ')?;
                let number = u64::from_str_radix(number, 16).ok()?;
                Some(InstalledPath::Config(below(name)?, length.parse().ok()?, number))
            }
            _ => None,
        }
    }

    fn path(&self) -> &Path {
        match self {
            InstalledPath::File(path)
            | InstalledPath::Config(path, ..)
            | InstalledPath::Directory(path) => path,
        }
    }
}

/// Whether the path exists as the installation has left it.
fn is_ours(prefix: &Path, entry: &InstalledPath) -> bool {
    let path = prefix.join(entry.path());
    match entry {
        InstalledPath::Config(_, length, number) => fs::read(path)
            .is_ok_and(|bytes| bytes.len() as u64 == *length && hash(&bytes) == *number),
        InstalledPath::File(_) => path.symlink_metadata().is_ok_and(|found| !found.is_dir()),
        InstalledPath::Directory(_) => path.symlink_metadata().is_ok_and(|found| found.is_dir()),
    }
}

fn remove(prefix: &Path, entries: &[InstalledPath]) -> i32 {
    let mut failed = 0;
    let mut files = 0;
    let ours = || entries.iter().filter(|entry| is_ours(prefix, entry));
    // The list is removed last, so that an interrupted run can be repeated.
    let (last, others): (Vec<&InstalledPath>, Vec<&InstalledPath>) = ours()
        .filter(|entry| !matches!(entry, InstalledPath::Directory(_)))
        .partition(|entry| entry.path() == Path::new(FILE));
    for entry in others.into_iter().chain(last) {
        let path = prefix.join(entry.path());
        if failed > 0 && entry.path() == Path::new(FILE) {
            continue;
        }
        match fs::remove_file(&path) {
            Ok(()) => files += 1,
            Err(error) => {
                failed += 1;
                oxmpi_sys::complain!("oxmpi uninstall: {}: {error}", path.display());
            }
        }
    }
    let mut directories: Vec<&Path> = entries
        .iter()
        .filter(|entry| matches!(entry, InstalledPath::Directory(_)))
        .map(InstalledPath::path)
        .collect();
    // Subdirectories come before their parents.
    directories.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    for path in directories {
        // A directory with other files in it is not empty, and stays.
        match fs::remove_dir(prefix.join(path)) {
            Err(error) if is_reported(&error) => {
                failed += 1;
                oxmpi_sys::complain!("oxmpi uninstall: {}: {error}", prefix.join(path).display());
            }
            _ => {}
        }
    }
    for entry in entries.iter().filter(|entry| matches!(entry, InstalledPath::Config(..))) {
        let path = prefix.join(entry.path());
        if path.exists() {
            crate::say(&format!("kept, as somebody has changed it: {}\n", path.display()));
        }
    }
    crate::say(&format!("removed {files} files from {}\n", prefix.display()));
    i32::from(failed > 0)
}

fn is_reported(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound)
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list_lie_below_the_prefix() {
        assert_eq!(
            InstalledPath::read("file bin/oxmpi"),
            Some(InstalledPath::File("bin/oxmpi".into()))
        );
        assert_eq!(InstalledPath::read("directory ."), Some(InstalledPath::Directory("".into())));
        let config = InstalledPath::read("config 12 00ff etc/a b.conf");
        assert_eq!(config, Some(InstalledPath::Config("etc/a b.conf".into(), 12, 255)));
        for wrong in [
            "",
            "file",
            "file ",
            "file /etc/passwd",
            "file ../x",
            "file a/../../x",
            "link x",
            "config 1 x",
        ] {
            assert_eq!(InstalledPath::read(wrong), None, "{wrong}");
        }
    }
}
