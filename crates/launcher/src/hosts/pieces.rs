//! Sends image files to another host in pieces, and receives them in a temporary directory.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use oxmpi_sys::net::fill_random;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::process::geteuid;

/// In bytes.
const PIECE: usize = 256 << 10;
/// How the names of directories begin that are removed with the process that has made them.
const PREFIX: &str = ".oxmpi-part.";
/// How many random names are tried in a directory.
const MOST_TRIED: u32 = 4;
/// The most bytes of pieces that wait in a stream.
pub(crate) const PIECES_WAITING: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct FileSender {
    base: PathBuf,
    names: VecDeque<PathBuf>,
    open: Option<(String, File)>,
}

impl FileSender {
    /// Sends these files, named by their paths in a directory.
    pub(crate) fn of(base: &Path, names: Vec<PathBuf>) -> FileSender {
        FileSender { base: base.to_path_buf(), names: names.into(), open: None }
    }

    /// Sends all files of a directory tree.
    pub(crate) fn all_of(base: &Path) -> io::Result<FileSender> {
        let (mut names, mut next) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(within) = next.pop() {
            for entry in std::fs::read_dir(base.join(&within))? {
                let entry = entry?;
                let name = within.join(entry.file_name());
                if entry.file_type()?.is_dir() { next.push(name) } else { names.push(name) }
            }
        }
        Ok(FileSender::of(base, names))
    }

    /// The next piece, with the name of its file; `None` after the last. Each file has a first
    /// piece, which may be empty.
    pub(crate) fn next(&mut self) -> io::Result<Option<(String, Vec<u8>)>> {
        loop {
            let is_new = self.open.is_none();
            if is_new {
                let Some(name) = self.names.pop_front() else { return Ok(None) };
                let file = File::open(self.base.join(&name))?;
                let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
                self.open = Some((name.to_string(), file));
            }
            let Some((name, file)) = &mut self.open else { continue };
            let mut bytes = Vec::new();
            file.take(PIECE as u64).read_to_end(&mut bytes)?;
            let name = name.clone();
            if bytes.len() < PIECE {
                self.open = None;
            }
            if is_new || !bytes.is_empty() {
                return Ok(Some((name, bytes)));
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct FileReceiver {
    base: PathBuf,
    open: Option<(String, File)>,
}

impl FileReceiver {
    pub(crate) fn into(base: &Path) -> FileReceiver {
        FileReceiver { base: base.to_path_buf(), open: None }
    }

    /// Writes a piece. An error also if a name leads out of the directory, or to an existing file.
    pub(crate) fn take(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let is_within =
                Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            let path = self.base.join(name);
            let directory = path.parent().filter(|_| is_within && !name.is_empty());
            let directory = directory.ok_or(io::ErrorKind::InvalidFilename)?;
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            self.open = Some((name.to_string(), file));
        }
        match &mut self.open {
            Some((_, file)) => file.write_all(bytes),
            None => Ok(()),
        }
    }
}

/// A directory that is removed with this. It is readable by its owner alone: an image holds the
/// memory of a program, and CRIU may run a program in the directory. Its name cannot be guessed.
#[derive(Debug)]
pub(crate) struct ImageDirectory {
    path: PathBuf,
    /// Locked, as is every such directory that is in use.
    _lock: OwnedFd,
}

impl ImageDirectory {
    /// Makes one in the first of these directories that can be written. Removes directories that
    /// killed processes of this user have left there.
    ///
    /// # Errors
    /// Why there can be none in the last of them.
    pub(crate) fn make_in(directories: &[&Path]) -> io::Result<ImageDirectory> {
        let mut made = Err(io::ErrorKind::NotFound.into());
        for directory in directories {
            remove_left(directory);
            for _ in 0..MOST_TRIED {
                let mut name = [0; 16];
                fill_random(&mut name)?;
                // The next set there removes unlocked directories with this prefix.
                made = begin(directory.join(format!("{PREFIX}{:032x}", u128::from_ne_bytes(name))));
                if made.is_ok() {
                    return made;
                }
            }
        }
        made
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ImageDirectory {
    fn drop(&mut self) {
        // The next checkpoint made there removes left-over files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Makes a directory and locks it. Before it is locked, another process may take the directory for
/// a left-over one: then that process has the lock, or has removed the directory.
fn begin(path: PathBuf) -> io::Result<ImageDirectory> {
    DirBuilder::new().mode(0o700).create(&path)?;
    let lock = lock(&path)?;
    Ok(ImageDirectory { path, _lock: lock })
}

fn lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty())?;
    if fstat(&directory)?.st_uid != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

/// Removes the directories of this user that processes have left which were killed.
fn remove_left(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(_lock) = lock(&entry.path())
        {
            // The next one tries again.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_private_has_no_name_to_guess_and_goes_even_if_its_process_was_killed() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = std::env::temp_dir().join(format!("oxmpi-pieces-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let make = || ImageDirectory::make_in(&[&place]).unwrap();
        let (one, other) = (make(), make());
        let mode = std::fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let name =
            |of: &ImageDirectory| of.path().file_name().unwrap().to_str().unwrap().to_string();
        assert!(
            name(&one) != name(&other) && !name(&one).contains(&std::process::id().to_string())
        );
        assert!(ImageDirectory::make_in(&[&place.join("nowhere")]).is_err());
        // As a process leaves it that was killed: its lock is gone.
        let left = place.join(format!("{PREFIX}left"));
        std::fs::create_dir_all(left.join("rank.0")).unwrap();
        let (link, aside) = (place.join(format!("{PREFIX}link")), place.join("aside"));
        std::fs::create_dir(&aside).unwrap();
        std::os::unix::fs::symlink(&aside, &link).unwrap();
        drop(make());
        assert!(!left.exists() && one.path().exists() && other.path().exists());
        assert!(aside.exists() && link.exists(), "a link is not followed");
        drop((one, other));
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_dir(&aside).unwrap();
        std::fs::remove_dir(&place).unwrap();
    }

    #[test]
    fn files_arrive_as_they_were() {
        let scratch =
            ImageDirectory::make_in(&[Path::new("/nonexistent"), &std::env::temp_dir()]).unwrap();
        let other = ImageDirectory::make_in(&[&std::env::temp_dir()]).unwrap();
        assert_ne!(scratch.path(), other.path());
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        std::fs::create_dir_all(from.join("rank.1")).unwrap();
        let long: Vec<u8> = (0..PIECE * 2).map(|at| (at / 251) as u8).collect();
        let files: [(&str, &[u8]); 4] = [
            ("a", b"x"),
            ("rank.1/empty", b""),
            ("rank.1/long", &long),
            ("rank.1/longer", &[&long[..], b"y"].concat()),
        ];
        for (name, bytes) in files {
            std::fs::write(from.join(name), bytes).unwrap();
        }
        let mut outgoing = FileSender::all_of(&from).unwrap();
        let mut incoming = FileReceiver::into(&to);
        while let Some((name, bytes)) = outgoing.next().unwrap() {
            assert!(bytes.len() <= PIECE);
            incoming.take(&name, &bytes).unwrap();
        }
        for (name, bytes) in files {
            assert!(std::fs::read(to.join(name)).unwrap() == bytes, "{name}");
        }
        for name in ["../b", "/b", "", "a", "rank.1/../../b"] {
            assert!(incoming.take(name, b"z").is_err(), "{name}");
        }
        let path = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!path.exists());
    }
}
