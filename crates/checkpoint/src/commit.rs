//! The publication of a set in two phases with one rename between them.
//!
//! 1. All files are written to a temporary directory in the base directory: the image, checksums,
//!    then the manifest. Each file and directory is synchronised with the disk.
//! 2. One rename(2) gives the directory the name of a set. If a set has the name, the next number
//!    is tried.
//! 3. The base directory is synchronised, so the set survives a loss of power.
//! 4. Old sets are removed. Each is renamed first, so no incomplete directory has the name of a
//!    set.
//!
//! A crash before the rename leaves a temporary directory, which the next checkpoint removes. The
//! process that makes a set, and its CRIU, hold a lock on the directory while they live.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Access, CWD, FlockOperation, RenameFlags, access, flock, renameat_with};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::files::WrittenFile;
use crate::manifest::{ImageFile, MANIFEST, Manifest};
use crate::set::{IMAGE, JobName, sum};
use crate::tails;
use crate::trust::{Distrust, Folder, TrustError};

/// Files that do not belong to the set: plans, logs, the reason of a failure.
pub(crate) const WORK: &str = "work";
const HIDDEN: &str = ".oxmpi-";

/// The steps of a commit, in order. Tests interrupt a commit after each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The temporary directory exists, and CRIU has not begun.
    Begun,
    Imaged,
    /// All files have checksums and are on disk.
    Synced,
    Sealed,
    Renamed,
    Published,
    /// An old set was renamed, and is not yet removed.
    Retired,
}

impl Step {
    pub const ALL: [Step; 7] = [
        Step::Begun,
        Step::Imaged,
        Step::Synced,
        Step::Sealed,
        Step::Renamed,
        Step::Published,
        Step::Retired,
    ];

    /// The name by which tests select the step.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The reason why no set was published.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("the directory for checkpoints {path} cannot be used: {error}; name another one with '--dir DIR' or the parameter cr_base_dir", path = .0.display(), error = .1)]
    Base(PathBuf, io::Error),
    #[error(transparent)]
    Distrust(Distrust),
    #[error("the set {path} has the last number that a set can have: rename it, or name another directory with '--dir DIR'", path = .0.display())]
    Last(PathBuf),
    #[error("{path} cannot be written: {error}{}", remedy(.1), path = .0.display(), error = .1)]
    Write(PathBuf, io::Error),
    #[error("the manifest cannot be written: {0}; it cannot contain a path that is not UTF-8")]
    Manifest(#[from] serde_json::Error),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room, or name a directory on another disk with '--dir DIR'"
        }
        _ => "",
    }
}

/// A set that is being made. Drop removes it unless it was published.
#[derive(Debug)]
pub struct Draft {
    base: PathBuf,
    job: JobName,
    directory: PathBuf,
    /// The lock lasts as long as any process has the file open. A process that only completes a
    /// draft has no lock.
    lock: Option<File>,
    is_kept: bool,
}

/// A published set.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub path: PathBuf,
    pub bytes: u64,
    /// Old sets that could not be removed, with the reasons.
    pub left: Vec<String>,
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> CommitError {
    let path = path.to_path_buf();
    move |error| CommitError::Write(path, error)
}

/// Makes a directory that only its owner can read: an image contains the memory of a program.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a directory for sets if it is missing, and returns its canonical path. Fails unless this
/// process can write sets to the directory and no other user can replace them.
pub fn usable(base: &Path) -> Result<PathBuf, CommitError> {
    let unusable = |error| CommitError::Base(base.to_path_buf(), error);
    DirBuilder::new().recursive(true).mode(0o700).create(base).map_err(unusable)?;
    let found = base.canonicalize().map_err(unusable)?;
    Folder::base(&found).map_err(|error| match error {
        TrustError::Distrust(distrust) => CommitError::Distrust(distrust),
        TrustError::Kernel(_, error) => unusable(error),
    })?;
    access(&found, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| unusable(error.into()))?;
    Ok(found)
}

impl Draft {
    /// Begins a draft in the directory `base`, which is made if it is missing. Removes drafts of
    /// crashed checkpoints.
    pub fn begin(base: &Path, job: JobName) -> Result<Draft, CommitError> {
        let unusable = |error| CommitError::Base(base.to_path_buf(), error);
        let base = usable(base)?;
        remove_leftovers(&base);
        let directory = base.join(format!("{HIDDEN}{job}.tmp-{}", std::process::id()));
        private_directory(&directory).map_err(unusable)?;
        let mut draft = Draft { base, job, directory, lock: None, is_kept: false };
        let lock = File::open(&draft.directory).map_err(unusable)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| unusable(error.into()))?;
        // CRIU inherits the lock: while CRIU runs, no other checkpoint removes the draft.
        fcntl_setfd(lock.as_fd(), FdFlags::empty()).map_err(|error| unusable(error.into()))?;
        draft.lock = Some(lock);
        for name in [IMAGE, WORK] {
            let path = draft.directory.join(name);
            private_directory(&path).map_err(write_error(&path))?;
        }
        Ok(draft)
    }

    /// The draft in a directory that another process has begun and holds.
    pub fn held(directory: &Path, job: JobName) -> io::Result<Draft> {
        let base = directory.parent().filter(|_| directory.join(WORK).is_dir());
        let base = base.ok_or(io::ErrorKind::NotFound)?.to_path_buf();
        Ok(Draft { base, job, directory: directory.to_path_buf(), lock: None, is_kept: true })
    }

    /// The directory for sets.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The job of the set.
    pub fn job(&self) -> &JobName {
        &self.job
    }

    /// The directory of the image.
    pub fn image(&self) -> PathBuf {
        self.directory.join(IMAGE)
    }

    /// Empties the directory of the image.
    pub fn clear(&self) -> Result<(), CommitError> {
        let image = self.image();
        let anew = std::fs::remove_dir_all(&image).and_then(|()| private_directory(&image));
        anew.map_err(write_error(&image))
    }

    /// The directory of logs and other files that do not belong to the set.
    pub fn work(&self) -> PathBuf {
        self.directory.join(WORK)
    }

    /// Publishes the set, and removes all but the `keep` newest older sets of the job. Adds to the
    /// manifest: the files of the image, checksums of the files that the job writes, and the time
    /// for the disk. `at` is called after each step. On an error there is no new set, and all old
    /// sets remain.
    pub fn publish(
        &mut self,
        mut manifest: Manifest,
        keep: usize,
        at: &mut dyn FnMut(Step),
    ) -> Result<Published, CommitError> {
        let start = Instant::now();
        at(Step::Imaged);
        let image = self.image();
        // A job that continues already runs, so these checksums do not delay it.
        manifest.written.iter_mut().for_each(WrittenFile::note_content);
        manifest.files = synced_files(&image)?;
        at(Step::Synced);
        manifest.cost.sync_s = start.elapsed().as_secs_f64();
        let file = self.directory.join(MANIFEST);
        let text = manifest.to_text()?;
        let mut options = OpenOptions::new();
        let written = options.write(true).create(true).truncate(true).mode(0o600).open(&file);
        written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(write_error(&file))?;
        sync(&file)?;
        let work = self.work();
        std::fs::remove_dir_all(&work).map_err(write_error(&work))?;
        sync(&self.directory)?;
        at(Step::Sealed);
        let (path, number) = self.rename()?;
        self.is_kept = true;
        at(Step::Renamed);
        sync(&self.base)?;
        at(Step::Published);
        let left = self.retire(number, keep, at);
        Ok(Published { path, bytes: manifest.bytes(), left })
    }

    fn rename(&self) -> Result<(PathBuf, u64), CommitError> {
        let newest = self.job.numbers(&self.base).map_err(write_error(&self.base))?.pop();
        let mut last = newest.unwrap_or(0);
        loop {
            // The number after this one must exist too, for the next set.
            let number = last.checked_add(1).filter(|number| *number < u64::MAX);
            let number =
                number.ok_or_else(|| CommitError::Last(self.base.join(self.job.set(last))))?;
            let path = self.base.join(self.job.set(number));
            match renameat_with(CWD, &self.directory, CWD, &path, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok((path, number)),
                Err(rustix::io::Errno::EXIST) => last = number,
                Err(error) => return Err(write_error(&path)(error.into())),
            }
        }
    }

    /// Removes the sets before `newest` except the last `keep`. Returns failures in words.
    fn retire(&self, newest: u64, keep: usize, at: &mut dyn FnMut(Step)) -> Vec<String> {
        let mut old = self.job.numbers(&self.base).unwrap_or_default();
        old.retain(|number| *number < newest);
        old.truncate(old.len().saturating_sub(keep));
        let mut left = Vec::new();
        for name in old.into_iter().map(|number| self.job.set(number)) {
            let (path, hidden) =
                (self.base.join(&name), self.base.join(format!("{HIDDEN}{name}.old")));
            let removed = std::fs::rename(&path, &hidden).and_then(|()| {
                at(Step::Retired);
                std::fs::remove_dir_all(&hidden)
            });
            if let Err(error) = removed {
                left.push(format!("{}: {error}", path.display()));
            }
        }
        if let Err(error) = tails::retire(&self.base, &self.job) {
            left.push(error.to_string());
        }
        left
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            // The next checkpoint removes the rest if this fails.
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Synchronises all files and directories below a directory. Returns the lengths and checksums of
/// the files. Makes the files readable by their owner alone.
fn synced_files(directory: &Path) -> Result<Vec<ImageFile>, CommitError> {
    let entries = std::fs::read_dir(directory).map_err(write_error(directory))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>().map_err(write_error(directory))?;
    paths.sort_unstable();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let within = synced_files(&path)?.into_iter();
            files.extend(
                within.map(|file| ImageFile { name: format!("{name}/{}", file.name), ..file }),
            );
            continue;
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))
            .map_err(write_error(&path))?;
        sync(&path)?;
        files.push(sum(&path).map_err(write_error(&path))?);
    }
    std::fs::set_permissions(directory, Permissions::from_mode(0o700))
        .map_err(write_error(directory))?;
    sync(directory)?;
    Ok(files)
}

fn sync(path: &Path) -> Result<(), CommitError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(write_error(path))
}

/// Removes drafts that no process holds, and tails of jobs without sets. Directories of other users
/// stay. The next checkpoint tries again what fails.
fn remove_leftovers(base: &Path) {
    let (Ok(entries), Ok(folder)) = (std::fs::read_dir(base), Folder::outside(base)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if let Some(job) = tails::job_of(&text) {
            let _ = tails::retire(base, &job);
        }
        if !text.starts_with(HIDDEN) {
            continue;
        }
        let Ok(directory) = folder.folder(&name) else { continue };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::example;
    use crate::set::Set;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn base(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("oxmpi-cr-{}-{name}", std::process::id()))
    }

    fn job() -> JobName {
        JobName::new("heat", "12345678")
    }

    fn draft(base: &Path, contents: &str) -> Draft {
        let draft = Draft::begin(base, job()).unwrap();
        std::fs::write(draft.image().join("pages-1.img"), contents).unwrap();
        std::fs::write(draft.work().join("log"), "x").unwrap();
        draft
    }

    fn names(base: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(base).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn sets_are_published_in_order_and_old_ones_removed() {
        let base = base("order");
        for number in 1..=5 {
            let published =
                draft(&base, &number.to_string()).publish(example(), 2, &mut |_| {}).unwrap();
            assert_eq!(published.path, base.canonicalize().unwrap().join(job().set(number)));
            assert_eq!((published.bytes, published.left), (1, vec![]));
        }
        assert_eq!(names(&base), ["heat-12345678.3", "heat-12345678.4", "heat-12345678.5"]);
        let set = Set::open(&base.join("heat-12345678")).unwrap();
        set.verify(true).unwrap();
        assert_eq!(names(&set.path), ["image", "manifest"]);
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// A panic stands for a crash: the later steps do not happen, and the draft is not removed.
    #[test]
    fn a_crash_at_any_step_leaves_the_old_set_or_the_new_one() {
        for crash in Step::ALL {
            let base = base(&crash.name());
            draft(&base, "old").publish(example(), 0, &mut |_| {}).unwrap();
            let mut new = draft(&base, "new");
            let crashed = catch_unwind(AssertUnwindSafe(|| {
                assert_ne!(crash, Step::Begun);
                new.publish(example(), 0, &mut |step| assert_ne!(step, crash))
            }));
            assert!(crashed.is_err(), "{crash:?}");
            new.lock = None;
            std::mem::forget(new);
            let is_new = matches!(crash, Step::Renamed | Step::Published | Step::Retired);
            let set = Set::open(&base.join("heat-12345678")).unwrap();
            set.verify(true).unwrap();
            let contents = std::fs::read_to_string(set.image().join("pages-1.img")).unwrap();
            assert_eq!(contents, if is_new { "new" } else { "old" }, "{crash:?}");
            draft(&base, "next").publish(example(), 0, &mut |_| {}).unwrap();
            let last = job().set(if is_new { 3 } else { 2 });
            assert_eq!(names(&base), [last], "{crash:?}");
            std::fs::remove_dir_all(&base).unwrap();
        }
    }

    #[test]
    fn a_draft_that_is_held_is_left_alone_and_one_that_is_dropped_is_removed() {
        let base = base("held");
        let first = draft(&base, "1");
        // Two drafts of one process have the same name, so the first is renamed.
        let held = base.join(".oxmpi-heat-12345678.tmp-1");
        std::fs::rename(&first.directory, &held).unwrap();
        drop(draft(&base, "2"));
        assert_eq!(names(&base), [".oxmpi-heat-12345678.tmp-1"]);
        drop(first);
        drop(draft(&base, "3"));
        assert_eq!(names(&base), Vec::<String>::new());
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn files_of_the_images_of_ranks_have_checksums_as_well() {
        let base = base("ranks");
        let mut draft = draft(&base, "state");
        let rank = draft.image().join("rank.1");
        std::fs::create_dir(&rank).unwrap();
        std::fs::write(rank.join("core-1.img"), "core").unwrap();
        let published = draft.publish(example(), 0, &mut |_| {}).unwrap();
        let set = Set::open(&published.path).unwrap();
        set.verify(true).unwrap();
        assert_eq!(set.manifest.files.len(), 2);
        let file = set.image().join("rank.1/core-1.img");
        std::fs::write(&file, "kore").unwrap();
        assert!(set.verify(true).unwrap_err().to_string().contains("rank.1/core-1.img is damaged"));
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn nobody_else_may_read_a_set() {
        let base = base("private");
        let draft = &mut draft(&base, "1");
        std::fs::create_dir(draft.image().join("rank.0")).unwrap();
        let published = draft.publish(example(), 0, &mut |_| {}).unwrap();
        for (path, mode) in [
            ("", 0o700),
            ("manifest", 0o600),
            ("image", 0o700),
            ("image/rank.0", 0o700),
            ("image/pages-1.img", 0o600),
        ] {
            let is = std::fs::metadata(published.path.join(path)).unwrap().permissions().mode();
            assert_eq!(is & 0o7777, mode, "{path}: {is:o}");
        }
        assert_eq!(std::fs::metadata(&base).unwrap().permissions().mode() & 0o7777, 0o700);
        std::fs::set_permissions(&base, Permissions::from_mode(0o777)).unwrap();
        let text = usable(&base).unwrap_err().to_string();
        assert!(
            text.contains("others can replace the sets in") && text.contains("chmod +t"),
            "{text}"
        );
        std::fs::set_permissions(&base, Permissions::from_mode(0o1777)).unwrap();
        usable(&base).unwrap();
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// The number after the last one would wrap to 0, that of the oldest set.
    #[test]
    fn the_last_number_is_not_followed() {
        let base = base("last");
        draft(&base, "1").publish(example(), 0, &mut |_| {}).unwrap();
        std::fs::create_dir(base.join(job().set(u64::MAX))).unwrap();
        let published = draft(&base, "2").publish(example(), 1, &mut |_| {}).unwrap();
        assert!(published.path.ends_with(job().set(2)), "{published:?}");
        std::fs::create_dir(base.join(job().set(u64::MAX - 1))).unwrap();
        let text = draft(&base, "3").publish(example(), 1, &mut |_| {}).unwrap_err().to_string();
        assert!(text.contains("has the last number that a set can have: rename it"), "{text}");
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn leftovers_that_are_no_directories_are_left_alone() {
        let base = base("odd-leftovers");
        drop(draft(&base, "1"));
        let fifo = base.join(".oxmpi-heat-12345678.tmp-7");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        drop(draft(&base, "2"));
        assert!(fifo.exists());
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_named_with_the_remedy() {
        let text = Draft::begin(Path::new("/proc/nonexistent"), job()).unwrap_err().to_string();
        assert!(text.contains("/proc/nonexistent") && text.contains("cr_base_dir"), "{text}");
    }
}
