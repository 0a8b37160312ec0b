//! Sends image files to another host in pieces, and receives them in a temporary directory.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// In bytes.
const PIECE: usize = 256 << 10;
/// The most left-over directories of one process number that are skipped.
const MOST_LEFT: u32 = 100;
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
            let is_within = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
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
/// memory of a program.
#[derive(Debug)]
pub struct ImageDirectory {
    path: PathBuf,
    /// Locked, as is every such directory that is in use.
    _lock: File,
}

impl ImageDirectory {
    /// Makes one in the first of these directories that has room for names.
    ///
    /// # Errors
    /// Why there can be none in the last of them.
    pub fn make_in(directories: &[&Path]) -> io::Result<ImageDirectory> {
        let mut made = Err(io::ErrorKind::NotFound.into());
        // One that was killed has left its own, and process numbers come again.
        for (directory, number) in
            directories.iter().flat_map(|directory| (0..MOST_LEFT).map(move |n| (directory, n)))
        {
            // A set that is made there removes what begins so and is not locked.
            let path = directory.join(format!(".oxmpi-part.{}.{number}", std::process::id()));
            made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| {
                let lock = File::open(&path)?;
                flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
                Ok(ImageDirectory { path, _lock: lock })
            });
            if made.is_ok() {
                break;
            }
        }
        made
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ImageDirectory {
    fn drop(&mut self) {
        // The next checkpoint in this directory removes left-over files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_arrive_as_they_were() {
        let scratch = ImageDirectory::make_in(&[Path::new("/nonexistent"), &std::env::temp_dir()]).unwrap();
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
