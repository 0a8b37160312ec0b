//! Tails: the parts that restarts have cut off files. They are stored next to the sets. The restart
//! of another set puts them back.
//!
//! ```text
//! BASE/heat-3f9c2a10.tails/      of the sets heat-3f9c2a10.N, readable by its owner alone
//!     1                          a tail: a line of JSON (`search.rs`), then the bytes
//! ```
//!
//! A job that was restarted from an older set can write other bytes than before. So the sets of a
//! job are states on one or several lines of time, and a file has the contents of one state at a
//! time. `search.rs` composes the contents for a set, by their checksum, from the beginning of the
//! file and tails. Each tail has the checksum of the bytes before it, so it is never put behind
//! other bytes. A file on only one host of a job has no checksum, and gets tails of that host only.
//!
//! A tail was cut off at a time when some sets existed; it is kept as long as one of these sets
//! exists. A restart also removes the tails that no set needs, except the last one of each file.

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FlockOperation, RenameFlags, Timespec, Timestamps, flock, futimens, renameat_with,
};

pub(crate) use self::search::ContentPiece;
use self::search::{ByteSource, Tail, find, length, reach};
use crate::commit::private_directory;
use crate::content::{checksum, checksum_of};
use crate::files::{Contents, WrittenFile};
use crate::set::{JobName, Set};
use crate::trust::{Folder, TrustError};

/// The end of the directory's name next to the sets of the job.
const BESIDE_SETS: &str = ".tails";
/// The same next to images that came from another host.
const ALONE: &str = ".far-tails";
const HEAD: u64 = 1 << 16;

/// The reason why a tail cannot be kept or put back.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    #[error(
        "the parts that are to be cut off files cannot be kept beside the set: {0}; no file was \
         changed; make room there, or copy the set to another directory"
    )]
    Keep(TrustError),
    #[error("{path} cannot be brought to its length at the checkpoint: {error}", path = .0.display(), error = .1)]
    File(PathBuf, io::Error),
}

/// A file that was brought to its length at a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    pub path: PathBuf,
    pub bytes: u64,
    /// Bytes that were cut off and are kept.
    pub cut: u64,
    pub put_back: u64,
    at: u64,
    tail: Option<u64>,
    /// The times of the last access and modification before the cut.
    times: [Time; 2],
    modified: Time,
}

/// Seconds since 1970, and nanoseconds.
type Time = (i64, i64);

#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl LockedFile {
    pub(crate) fn new(file: &WrittenFile) -> Result<LockedFile, TailError> {
        let opened = file.open(OpenOptions::new().read(true).write(true));
        let opened = opened.map_err(|error| TailError::File(file.path.clone(), error))?;
        // Some file systems have no locks. Two agents may then fail, but no data are lost.
        let _ = rustix::io::retry_on_intr(|| flock(&opened, FlockOperation::LockExclusive));
        Ok(LockedFile(opened))
    }
}

#[derive(Debug)]
pub(crate) struct Tails {
    base: PathBuf,
    job: JobName,
    host: String,
    directory: PathBuf,
    /// The number of the set that is restarted, or [`u64::MAX`] if its directory has another name.
    set: u64,
    all: Vec<(u64, Tail)>,
}

/// The job of a directory of tails.
pub(crate) fn job_of(name: &str) -> Option<JobName> {
    name.strip_suffix(BESIDE_SETS).filter(|name| !name.is_empty()).map(JobName::named)
}

/// Removes the tails of a job that were cut off before its oldest set was made.
pub(crate) fn retire(base: &Path, job: &JobName) -> Result<(), TrustError> {
    let directory = base.join(format!("{job}{BESIDE_SETS}"));
    let kernel = |error| TrustError::Kernel(directory.clone(), error);
    let oldest = job.numbers(base).map_err(kernel)?.first().copied();
    for (number, tail) in read_all(&directory)? {
        if oldest.is_none_or(|oldest| tail.newest < oldest) {
            std::fs::remove_file(directory.join(number.to_string())).map_err(kernel)?;
        }
    }
    remove_if_empty(&directory, oldest.is_none());
    Ok(())
}

/// Removes a directory of tails if it is empty. For a job without sets, unfinished tails of crashed
/// restarts are removed first.
fn remove_if_empty(directory: &Path, is_without_sets: bool) {
    let parts = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for part in parts.filter(|_| is_without_sets) {
        if part.file_name().to_string_lossy().starts_with(PART) {
            let _ = std::fs::remove_file(part.path());
        }
    }
    // rmdir(2) refuses a directory that is not empty.
    let _ = std::fs::remove_dir(directory);
}

const PART: &str = "part-";

fn read_all(directory: &Path) -> Result<Vec<(u64, Tail)>, TrustError> {
    let folder = match Folder::of_set(directory) {
        Err(TrustError::Kernel(_, error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        folder => folder?,
    };
    let kernel = |error| TrustError::Kernel(directory.to_path_buf(), error);
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(kernel)? {
        let name = entry.map_err(kernel)?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<u64>().ok()) else {
            continue;
        };
        if let Some((tail, ..)) = open_tail(&folder, &name)? {
            all.push((number, tail));
        }
    }
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all)
}

/// A tail, its file, and the offset of its bytes; `None` if the tail is incomplete.
fn open_tail(folder: &Folder, name: &OsStr) -> Result<Option<(Tail, File, u64)>, TrustError> {
    let (file, bytes) = folder.file(Path::new(name))?;
    let mut head = Vec::new();
    let read = (&file).take(HEAD).read_to_end(&mut head);
    read.map_err(|error| TrustError::Kernel(name.into(), error))?;
    let Some(end) = head.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let tail = serde_json::from_slice::<Tail>(&head[..end]).ok();
    let begin = end as u64 + 1;
    let is_whole = |tail: &Tail| {
        begin.checked_add(tail.bytes) == Some(bytes)
            && tail.offset.checked_add(tail.bytes).is_some()
    };
    Ok(tail.filter(is_whole).map(|tail| (tail, file, begin)))
}

impl Tails {
    /// The tails of a set's job. Fails if they cannot be read, or may belong to another user.
    pub(crate) fn of(set: &Set) -> Result<Tails, TailError> {
        let (base, job) = (set.path.parent().unwrap_or(&set.path).to_path_buf(), set.job());
        let number = set.path.file_name().and_then(OsStr::to_str).and_then(|name| job.number(name));
        let directory =
            base.join(format!("{job}{}", if number.is_some() { BESIDE_SETS } else { ALONE }));
        let all = read_all(&directory).map_err(TailError::Keep)?;
        Ok(Tails {
            base,
            job,
            host: oxmpi_sys::host::name(),
            directory,
            set: number.unwrap_or(u64::MAX),
            all,
        })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn of_file(&self, path: &Path) -> Vec<(u64, Tail)> {
        self.all.iter().filter(|(_, tail)| tail.path == path).cloned().collect()
    }

    /// Compares a file with its contents at the checkpoint. Also returns the pieces of these
    /// contents.
    pub(crate) fn contents(&self, was: &WrittenFile) -> (Contents, Vec<ContentPiece>) {
        let whole = vec![ContentPiece { source: ByteSource::File, bytes: was.bytes }];
        let Ok(file) = was.open(OpenOptions::new().read(true)) else {
            return (Contents::Unknown, whole);
        };
        let length_now = file.metadata().map_or(0, |is| is.len());
        let tails = self.of_file(&was.path);
        let mut content = |pieces: &[ContentPiece]| self.checksum(&file, pieces).ok();
        let found = was
            .content
            .as_ref()
            .and_then(|wanted| find(length_now, &tails, (was.bytes, wanted), &mut content));
        match found {
            Some(pieces) if pieces.len() == 1 => (Contents::Same, pieces),
            Some(pieces) => (Contents::Kept, pieces),
            // A file without a checksum, once cut, has unknown bytes behind the cut.
            None => match reach(length_now, &tails, (was.bytes, self.set), &self.host) {
                Some(pieces)
                    if length_now < was.bytes || was.content.is_none() && self.set != u64::MAX =>
                {
                    (Contents::Reached, pieces)
                }
                _ if was.content.is_some() => (Contents::Other, whole),
                _ => (Contents::Unknown, whole),
            },
        }
    }

    fn checksum(&self, file: &File, pieces: &[ContentPiece]) -> io::Result<String> {
        let mut sources = Vec::new();
        for piece in pieces {
            match piece.source {
                ByteSource::File => sources.push((file.try_clone()?, 0, piece.bytes)),
                ByteSource::Tail(number) => {
                    let (_, file, begin) = self.open(number)?;
                    sources.push((file, begin, piece.bytes));
                }
            }
        }
        checksum(length(pieces), |at, buffer| {
            let (mut done, mut from) = (0, 0);
            for (file, begin, bytes) in &sources {
                let here = at + done as u64;
                if here >= from && here < from + bytes && done < buffer.len() {
                    let rest = usize::try_from(from + bytes - here).unwrap_or(usize::MAX);
                    let count = rest.min(buffer.len() - done);
                    file.read_exact_at(&mut buffer[done..done + count], begin + here - from)?;
                    done += count;
                }
                from += bytes;
            }
            Ok(())
        })
    }

    fn open(&self, number: u64) -> io::Result<(Tail, File, u64)> {
        let opened = Folder::of_set(&self.directory)
            .and_then(|folder| open_tail(&folder, OsStr::new(&number.to_string())));
        let gone = || {
            io::Error::new(io::ErrorKind::InvalidData, format!("the tail {number} is not whole"))
        };
        opened.map_err(io::Error::other)?.ok_or_else(gone)
    }

    /// Makes the contents of a file from pieces. The first piece is from the file itself. The tail
    /// is on disk before the file is cut. On an error the file is unchanged.
    pub(crate) fn fit(
        &mut self,
        path: &Path,
        LockedFile(file): &LockedFile,
        pieces: &[ContentPiece],
    ) -> Result<Fitted, TailError> {
        let failed = |error| TailError::File(path.to_path_buf(), error);
        let is = file.metadata().map_err(failed)?;
        let at = pieces.first().map_or(0, |piece| piece.bytes);
        let cut = is.len().saturating_sub(at);
        let tail = if cut > 0 { Some(self.keep(path, file, (at, cut))?) } else { None };
        let put = || {
            file.set_len(at)?;
            let mut end = file;
            end.seek(SeekFrom::Start(at))?;
            for piece in pieces.iter().skip(1) {
                if let Some(number) = piece.tail() {
                    self.append(end, (number, piece.bytes))?;
                }
            }
            file.sync_all()?;
            file.metadata()
        };
        let times =
            |is: &std::fs::Metadata| [(is.atime(), is.atime_nsec()), (is.mtime(), is.mtime_nsec())];
        let before = times(&is);
        let mut fitted = Fitted {
            path: path.to_path_buf(),
            bytes: length(pieces),
            cut,
            put_back: length(pieces) - at,
            at,
            tail,
            times: before,
            modified: before[1],
        };
        match put() {
            Ok(now) => fitted.modified = times(&now)[1],
            Err(error) => {
                let _ = self.undo(&fitted);
                return Err(failed(error));
            }
        }
        Ok(fitted)
    }

    fn append(&self, mut end: &File, (number, bytes): (u64, u64)) -> io::Result<()> {
        let (_, mut from, begin) = self.open(number)?;
        from.seek(SeekFrom::Start(begin))?;
        let copied = io::copy(&mut from.take(bytes), &mut end)?;
        if copied == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Writes the bytes that are to be cut off to a new tail; returns its number.
    fn keep(
        &mut self,
        path: &Path,
        file: &File,
        (offset, bytes): (u64, u64),
    ) -> Result<u64, TailError> {
        let newest =
            self.job.numbers(&self.base).ok().and_then(|mut all| all.pop()).unwrap_or(self.set);
        let directory = self.directory.clone();
        let kernel = |error| TailError::Keep(TrustError::Kernel(directory.clone(), error));
        match private_directory(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(kernel(error));
            }
            _ => Folder::of_set(&self.directory).map_err(TailError::Keep)?,
        };
        let before = checksum_of(file, offset)
            .map_err(|error| TailError::File(path.to_path_buf(), error))?;
        let host = self.host.clone();
        let tail = Tail { path: path.to_path_buf(), host, offset, bytes, before, newest };
        let mut line = serde_json::to_vec(&tail).map_err(|error| kernel(error.into()))?;
        line.push(b'\n');
        let part = self.directory.join(format!("{PART}{}-{}", self.host, std::process::id()));
        let write = || {
            let options =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
            let mut kept = options?;
            kept.write_all(&line)?;
            let mut from = file;
            from.seek(SeekFrom::Start(offset))?;
            if io::copy(&mut from.take(bytes), &mut kept)? != bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            kept.sync_all()?;
            let mut number = self.all.last().map_or(0, |(number, _)| *number);
            loop {
                number = number.checked_add(1).ok_or(io::ErrorKind::FileTooLarge)?;
                let name = self.directory.join(number.to_string());
                match renameat_with(CWD, &part, CWD, &name, RenameFlags::NOREPLACE) {
                    Err(rustix::io::Errno::EXIST) => {}
                    done => break done.map(|()| number).map_err(io::Error::from),
                }
            }
        };
        let written = write().and_then(|number| {
            File::open(&self.directory)?.sync_all()?;
            Ok(number)
        });
        let number = written.map_err(|error| {
            let _ = std::fs::remove_file(&part);
            let _ = std::fs::remove_dir(&self.directory);
            kernel(error)
        })?;
        self.all.push((number, tail));
        Ok(number)
    }

    /// Restores the contents and times that a file had before [`Tails::fit`], then removes the
    /// tail.
    pub(crate) fn undo(&self, fitted: &Fitted) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&fitted.path)?;
        file.set_len(fitted.at)?;
        let mut end = &file;
        end.seek(SeekFrom::Start(fitted.at))?;
        if let Some(number) = fitted.tail {
            self.append(end, (number, fitted.cut))?;
        }
        file.sync_all()?;
        let [last_access, last_modification] =
            fitted.times.map(|(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec });
        futimens(&file, &Timestamps { last_access, last_modification })?;
        if let Some(number) = fitted.tail {
            std::fs::remove_file(self.directory.join(number.to_string()))?;
            remove_if_empty(&self.directory, false);
        }
        Ok(())
    }

    pub(crate) fn is_untouched(fitted: &Fitted) -> bool {
        std::fs::symlink_metadata(&fitted.path).is_ok_and(|is| {
            is.len() == fitted.bytes && (is.mtime(), is.mtime_nsec()) == fitted.modified
        })
    }

    /// Removes the tails of this host that no set needs, except the last one of each file. A tail
    /// that cannot be removed is tried again by the next restart.
    pub(crate) fn sweep(&mut self) {
        let mut of_files: BTreeMap<PathBuf, Vec<u64>> = BTreeMap::new();
        for (number, tail) in self.all.iter().filter(|(_, tail)| tail.host == self.host) {
            of_files.entry(tail.path.clone()).or_default().push(*number);
        }
        of_files.retain(|_, numbers| numbers.len() > 1);
        if of_files.is_empty() || self.set == u64::MAX {
            return;
        }
        let mut needed: BTreeSet<u64> =
            of_files.values().filter_map(|numbers| numbers.last().copied()).collect();
        for number in self.job.numbers(&self.base).unwrap_or_default() {
            let set = Set::open(&self.base.join(self.job.set(number))).ok();
            needed.extend(
                of_files.keys().flat_map(|path| self.needed_by(number, set.as_ref(), path)),
            );
        }
        let unneeded = of_files.values().flatten().filter(|number| !needed.contains(number));
        let unneeded: BTreeSet<u64> = unneeded.copied().collect();
        for number in &unneeded {
            let _ = std::fs::remove_file(self.directory.join(number.to_string()));
        }
        self.all.retain(|(number, _)| !unneeded.contains(number));
    }

    /// The tails of a file that this set needs. If the set cannot be read: all tails that were cut
    /// off since it was made.
    fn needed_by(&self, number: u64, set: Option<&Set>, path: &Path) -> Vec<u64> {
        let since = self.of_file(path).into_iter().filter(|(_, tail)| tail.newest >= number);
        let since: Vec<(u64, Tail)> = since.collect();
        let numbers = |below: u64| {
            since.iter().filter(move |(_, tail)| tail.offset < below).map(|(at, _)| *at)
        };
        let Some(set) = set else { return numbers(u64::MAX).collect() };
        let of_path = set.manifest.written.iter().filter(|was| was.path == path);
        let needed = of_path.flat_map(|was| match self.contents(was) {
            (Contents::Same | Contents::Kept | Contents::Reached, pieces) => {
                pieces.iter().filter_map(ContentPiece::tail).collect::<Vec<_>>()
            }
            (Contents::Other | Contents::Unknown, _) => numbers(was.bytes).collect(),
        });
        needed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Draft;
    use crate::files::Policy;
    use crate::manifest::Manifest;
    use crate::manifest::tests::example;
    use crate::restart::{FittedFiles, fit_files};

    struct Line {
        base: PathBuf,
        file: PathBuf,
        wanted: BTreeMap<u64, String>,
    }

    impl Line {
        fn new(name: &str) -> Line {
            let base = std::env::temp_dir().join(format!("oxmpi-cr-{}-{name}", std::process::id()));
            let base = crate::commit::usable(&base).unwrap();
            let file = base.join("out");
            std::fs::write(&file, "").unwrap();
            Line { base, file, wanted: BTreeMap::new() }
        }

        fn write(&self, text: &str) {
            let mut file = OpenOptions::new().append(true).open(&self.file).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn job(&self) -> JobName {
            JobName::new("heat", "3f9c2a10")
        }

        fn checkpoint(&mut self, keep: usize) -> u64 {
            let is = std::fs::metadata(&self.file).unwrap();
            let written = vec![WrittenFile::new(self.file.clone(), &is)];
            let mut draft = Draft::begin(&self.base, self.job()).unwrap();
            let published =
                draft.publish(Manifest { written, ..example() }, keep, &mut |_| {}).unwrap();
            assert_eq!(published.left, Vec::<String>::new());
            let number =
                self.job().number(published.path.file_name().unwrap().to_str().unwrap()).unwrap();
            self.wanted.insert(number, self.text());
            number
        }

        fn text(&self) -> String {
            std::fs::read_to_string(&self.file).unwrap()
        }

        fn restart(&self, number: u64, policy: Policy) -> Result<FittedFiles, String> {
            let set = Set::open(&self.base.join(self.job().set(number))).unwrap();
            fit_files(&set, policy).map_err(|error| error.to_string())
        }

        /// Restarts from each of these sets, one after another, and appends other words each time.
        fn goes_on_from(&self, numbers: &[u64]) {
            for number in numbers {
                let fitted = self.restart(*number, Policy::Cut).unwrap();
                assert_eq!(self.text(), self.wanted[number], "{number} of {numbers:?}: {fitted:?}");
                self.write(&format!("again from {number}\n"));
            }
        }

        fn tails(&self) -> usize {
            let directory = self.base.join(format!("{}{BESIDE_SETS}", self.job()));
            std::fs::read_dir(directory).map_or(0, Iterator::count)
        }
    }

    #[test]
    fn each_of_several_sets_is_restarted_as_often_as_one_likes() {
        let mut line = Line::new("each");
        for word in ["one\n", "two and more\n", "three\n"] {
            line.write(word);
            line.checkpoint(9);
        }
        line.write("lost\n");
        line.goes_on_from(&[1, 3, 3, 2, 1, 1, 2, 3, 1, 3, 2]);
        // From now on the job continues from the first set, with other words.
        line.goes_on_from(&[1]);
        let fourth = line.checkpoint(9);
        line.write("another fifth\n");
        let fifth = line.checkpoint(9);
        line.goes_on_from(&[1, fifth, 2, fourth, 3, fifth, 1, fourth, 3, fourth, fifth, 2]);
        assert!(line.tails() <= 6, "{} tails", line.tails());
        let directory = line.base.join(format!("{}{BESIDE_SETS}", line.job()));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        let some = std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap();
        assert_eq!((mode(&directory), mode(&some.path())), (0o700, 0o600));
        std::fs::remove_dir_all(&line.base).unwrap();
    }

    #[test]
    fn tails_are_kept_as_long_as_a_set_exists_and_no_longer() {
        let mut line = Line::new("kept");
        line.write("one\n");
        line.checkpoint(2);
        line.write("two\n");
        line.checkpoint(2);
        line.goes_on_from(&[1]);
        assert_eq!(line.tails(), 1);
        // The second set existed when the tail was cut off. Three sets later it is removed.
        for tails in [1, 1, 0] {
            line.checkpoint(2);
            assert_eq!(line.tails(), tails, "{:?}", line.wanted);
        }
        // The user removes all sets. The next checkpoint of any job removes the tail.
        line.write("three\n");
        let last = *line.wanted.keys().next_back().unwrap();
        line.goes_on_from(&[last]);
        assert_eq!(line.tails(), 1);
        for entry in std::fs::read_dir(&line.base).unwrap().flatten() {
            let name = entry.file_name();
            if line.job().number(name.to_str().unwrap()).is_some() {
                std::fs::remove_dir_all(entry.path()).unwrap();
            }
        }
        drop(Draft::begin(&line.base, JobName::new("other", "1")).unwrap());
        let left: Vec<_> = std::fs::read_dir(&line.base)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(left, ["out"]);
        std::fs::remove_dir_all(&line.base).unwrap();
    }

    #[test]
    fn a_restart_that_fails_gives_each_file_back_what_it_had() {
        let mut line = Line::new("undo");
        line.write("one\n");
        line.checkpoint(9);
        line.write("two\n");
        line.checkpoint(9);
        line.write("lost\n");
        let before = std::fs::metadata(&line.file).unwrap();
        let fitted = line.restart(1, Policy::Cut).unwrap();
        assert_eq!(line.text(), "one\n");
        let said = fitted.lines("");
        assert!(
            said[0].contains("out is cut back to 4 bytes; the other 9 are kept in ")
                && said.len() == 1,
            "{said:?}"
        );
        assert_eq!(fitted.undo(false), Vec::<String>::new());
        let after = std::fs::metadata(&line.file).unwrap();
        assert_eq!((line.text(), line.tails()), ("one\ntwo\nlost\n".into(), 0));
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        line.goes_on_from(&[1]);
        let changed = line.text();
        let fitted = line.restart(2, Policy::Cut).unwrap();
        let said = fitted.lines(" on nodea");
        assert!(
            said[0].contains("out has its 8 bytes again, 4 of them from ")
                && said[0].ends_with(" on nodea"),
            "{said:?}"
        );
        assert_eq!(fitted.undo(false), Vec::<String>::new());
        assert_eq!(line.text(), changed);
        // Once the job has written to the file, undo leaves it unchanged.
        let fitted = line.restart(2, Policy::Cut).unwrap();
        line.write("more\n");
        assert_eq!(fitted.undo(false), Vec::<String>::new());
        assert_eq!(line.text(), "one\ntwo\nmore\n");
        std::fs::remove_dir_all(&line.base).unwrap();
    }

    #[test]
    fn a_file_is_not_cut_if_its_tail_cannot_be_kept() {
        let mut line = Line::new("keep");
        line.write("one\n");
        line.checkpoint(9);
        line.write("two\n");
        let directory = line.base.join(format!("{}{BESIDE_SETS}", line.job()));
        std::fs::write(&directory, "").unwrap();
        let said = line.restart(1, Policy::Cut).unwrap_err();
        assert!(said.contains("no file was changed") && said.contains(BESIDE_SETS), "{said}");
        assert_eq!(line.text(), "one\ntwo\n");
        std::fs::remove_dir_all(&line.base).unwrap();
    }

    /// Sets of older versions have no checksums, nor have files on another host.
    #[test]
    fn files_without_checksums_go_by_their_lengths_and_the_order_of_sets() {
        let mut line = Line::new("unknown");
        for word in ["one\n", "two\n", "three\n"] {
            line.write(word);
            let number = line.checkpoint(9);
            let path = line.base.join(line.job().set(number)).join(crate::manifest::MANIFEST);
            let mut manifest = Manifest::from_text(&std::fs::read(&path).unwrap()).unwrap();
            manifest.written[0].content = None;
            std::fs::write(&path, manifest.to_text().unwrap()).unwrap();
        }
        line.write("lost\n");
        line.goes_on_from(&[1, 3, 2, 3, 1, 2, 1, 1, 3, 2, 1, 3]);
        assert!(line.tails() <= 4, "{} tails", line.tails());
        std::fs::remove_dir_all(&line.base).unwrap();
    }

    #[test]
    fn a_file_that_is_written_in_place_gets_back_as_many_bytes_as_it_had() {
        let mut line = Line::new("in-place");
        line.write("1 one\n");
        line.checkpoint(9);
        line.write("two\n");
        std::fs::OpenOptions::new().write(true).open(&line.file).unwrap().write_all(b"2").unwrap();
        line.checkpoint(9);
        line.restart(1, Policy::Cut).unwrap();
        assert_eq!(line.text(), "2 one\n");
        std::fs::OpenOptions::new().write(true).open(&line.file).unwrap().write_all(b"1").unwrap();
        assert!(line.restart(2, Policy::Refuse).unwrap_err().contains("--files cut"));
        line.restart(2, Policy::Cut).unwrap();
        assert_eq!(line.text(), "1 one\ntwo\n");
        std::fs::remove_dir_all(&line.base).unwrap();
    }
}
