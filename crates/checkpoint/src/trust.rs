//! The owners and modes of the directories and files of a set.
//!
//! A restart runs an image with the rights of its caller, and several users may write to one
//! directory for sets. So each directory and file of a set must belong to the caller or to root,
//! and no other user may have the right to write to it or to replace it. Files are opened without
//! following links and without waiting at a FIFO. Owner, mode and kind are read from the open
//! descriptor.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};

/// Write permission for the group and for all others.
const OTHERS: u32 = 0o022;
/// With this bit, only the owner of a file or of its directory may rename or remove the file.
const STICKY: u32 = 0o1000;

/// The reason why a file or directory is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrust {
    pub path: PathBuf,
    why: DistrustReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DistrustReason {
    Owner(u32),
    /// The mode lets other users write.
    Mode(u32),
    BaseOwner(u32),
    /// The mode lets other users replace entries of the directory of sets.
    BaseMode(u32),
    Kind(&'static str),
    Length(u64),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let own = rustix::process::geteuid().as_raw();
        match self.why {
            DistrustReason::Owner(user) => write!(
                f,
                "{path} belongs to user {user}, and a set must belong to its reader (user {own}) \
                 or to root: name a set of your own, or let user {user} restart it"
            ),
            DistrustReason::Mode(mode) => write!(
                f,
                "{path} may be written by others (mode {mode:04o}): if nobody has changed it, forbid that (chmod -R go-w {path})"
            ),
            DistrustReason::BaseOwner(user) => write!(
                f,
                "the directory {path} belongs to user {user}, who can replace the sets in it: keep \
                 sets in a directory of your own ('--dir DIR', parameter cr_base_dir)"
            ),
            DistrustReason::BaseMode(mode) => write!(
                f,
                "others can replace the sets in {path} (mode {mode:04o}): forbid it (chmod go-w \
                 {path}, or chmod +t {path} where several users have sets), or keep them elsewhere \
                 ('--dir DIR', parameter cr_base_dir)"
            ),
            DistrustReason::Kind(kind) => {
                write!(
                    f,
                    "{path} is {kind}, which 'oxmpi checkpoint' does not make: remove it, or name another set"
                )
            }
            DistrustReason::Length(bytes) => {
                write!(
                    f,
                    "{path} has {bytes} bytes, which is too much for such a file: name another set"
                )
            }
        }
    }
}

impl std::error::Error for Distrust {}

/// The reason why a file or directory of a set cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    Distrust(#[from] Distrust),
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Kernel(PathBuf, io::Error),
}

pub(crate) fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

fn judge(path: &Path, is: &Stat, wanted: FileType) -> Result<(), TrustError> {
    let distrust = |why| Err(Distrust { path: path.to_path_buf(), why }.into());
    let found = FileType::from_raw_mode(is.st_mode);
    if !is_trusted(is.st_uid) {
        return distrust(DistrustReason::Owner(is.st_uid));
    }
    if found != wanted {
        return distrust(DistrustReason::Kind(match found {
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::Directory => "a directory",
            FileType::RegularFile => "a file",
            _ => "a device",
        }));
    }
    if is.st_mode & OTHERS != 0 {
        return distrust(DistrustReason::Mode(is.st_mode & 0o7777));
    }
    Ok(())
}

/// Fails if another user can replace the sets in a directory.
fn judge_base(path: &Path, is: &Stat) -> Result<(), TrustError> {
    let distrust = |why| Err(Distrust { path: path.to_path_buf(), why }.into());
    if !is_trusted(is.st_uid) {
        return distrust(DistrustReason::BaseOwner(is.st_uid));
    }
    if is.st_mode & OTHERS != 0 && is.st_mode & STICKY == 0 {
        return distrust(DistrustReason::BaseMode(is.st_mode & 0o7777));
    }
    Ok(())
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

fn open_in(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
    wanted: FileType,
) -> Result<(OwnedFd, Stat), TrustError> {
    let kernel = |error: rustix::io::Errno| TrustError::Kernel(path.to_path_buf(), error.into());
    let flags = if wanted == FileType::Directory { DIRECTORY } else { FILE };
    let fd = match openat(parent, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(error) => {
            // The open fails for links and for private files of other users. Kind and owner are the
            // better message.
            if let Ok(is) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                judge(path, &is, wanted)?;
            }
            return Err(kernel(error));
        }
    };
    let is = fstat(&fd).map_err(kernel)?;
    judge(path, &is, wanted)?;
    Ok((fd, is))
}

#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// A directory for sets, by its canonical path.
    pub(crate) fn base(path: &Path) -> Result<Folder, TrustError> {
        let folder = Folder::outside(path)?;
        let kernel =
            |error: rustix::io::Errno| TrustError::Kernel(path.to_path_buf(), error.into());
        judge_base(path, &fstat(&folder.fd).map_err(kernel)?)?;
        Ok(folder)
    }

    /// Opens any directory. Its entries are judged one by one.
    pub(crate) fn outside(path: &Path) -> Result<Folder, TrustError> {
        let kernel =
            |error: rustix::io::Errno| TrustError::Kernel(path.to_path_buf(), error.into());
        let fd = openat(CWD, path, DIRECTORY, Mode::empty()).map_err(kernel)?;
        Ok(Folder { fd, path: path.to_path_buf() })
    }

    pub(crate) fn of_set(path: &Path) -> Result<Folder, TrustError> {
        let invalid = || TrustError::Kernel(path.to_path_buf(), io::ErrorKind::InvalidInput.into());
        let (base, name) = path.parent().zip(path.file_name()).ok_or_else(invalid)?;
        Folder::base(base)?.folder(name)
    }

    pub(crate) fn folder(&self, name: &OsStr) -> Result<Folder, TrustError> {
        let path = self.path.join(name);
        let (fd, _) = open_in(self.fd.as_fd(), name, &path, FileType::Directory)?;
        Ok(Folder { fd, path })
    }

    /// Opens a file below the directory; also returns its length.
    pub(crate) fn file(&self, relative: &Path) -> Result<(File, u64), TrustError> {
        let path = self.path.join(relative);
        let mut parts = relative.components();
        // A set that OxMPI made has no path that leads out of the set.
        let outside = || TrustError::Kernel(path.clone(), io::ErrorKind::InvalidFilename.into());
        let is_within = |part: &Component<'_>| matches!(part, Component::Normal(_));
        let last = parts.next_back().filter(is_within).ok_or_else(outside)?;
        let mut within: Option<Folder> = None;
        for part in parts {
            let part = Some(part).filter(is_within).ok_or_else(outside)?;
            within = Some(within.as_ref().unwrap_or(self).folder(part.as_os_str())?);
        }
        let parent = within.as_ref().unwrap_or(self);
        let (fd, is) = open_in(parent.fd.as_fd(), last.as_os_str(), &path, FileType::RegularFile)?;
        Ok((fd.into(), u64::try_from(is.st_size).unwrap_or(0)))
    }

    pub(crate) fn read(&self, relative: &Path, limit: u64) -> Result<Vec<u8>, TrustError> {
        let path = self.path.join(relative);
        let (file, bytes) = self.file(relative)?;
        if bytes > limit {
            return Err(Distrust { path, why: DistrustReason::Length(bytes) }.into());
        }
        let mut text = Vec::new();
        file.take(limit).read_to_end(&mut text).map_err(|error| TrustError::Kernel(path, error))?;
        Ok(text)
    }

    pub(crate) fn has_own(&self, name: &OsStr) -> bool {
        let is = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        is.is_ok_and(|is| {
            is_trusted(is.st_uid) && FileType::from_raw_mode(is.st_mode) == FileType::Directory
        })
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Folder> for OwnedFd {
    fn from(folder: Folder) -> OwnedFd {
        folder.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn said<T>(result: Result<T, TrustError>) -> String {
        match result {
            Ok(_) => panic!("it was trusted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn others_may_not_write_to_it_nor_replace_it() {
        let base = std::env::temp_dir().join(format!("oxmpi-cr-{}-trust", std::process::id()));
        let set = base.join("heat-1.1");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(set.join("image")).unwrap();
        let base = base.canonicalize().unwrap();
        let set = base.join("heat-1.1");
        let file = set.join("image/pages");
        std::fs::write(&file, "12345").unwrap();
        set_mode(&file, 0o644);
        let read = || Folder::of_set(&set)?.read(Path::new("image/pages"), 5);
        assert_eq!(read().unwrap(), b"12345");
        for (path, mode, words) in [
            (&file, 0o664, "image/pages may be written by others (mode 0664)"),
            (&set.join("image"), 0o702, "image may be written by others (mode 0702)"),
            (&set, 0o770, "heat-1.1 may be written by others (mode 0770)"),
            (&base, 0o777, "others can replace the sets in "),
        ] {
            let before = std::fs::metadata(path).unwrap().permissions();
            set_mode(path, mode);
            let said = said(read());
            assert!(said.contains(words) && said.contains("chmod"), "{said}");
            std::fs::set_permissions(path, before).unwrap();
        }
        // If several users have sets, none can rename those of another.
        set_mode(&base, 0o1777);
        read().unwrap();
        let long = said(Folder::of_set(&set).unwrap().read(Path::new("image/pages"), 4));
        assert!(long.contains("image/pages has 5 bytes, which is too much"), "{long}");
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn fifos_are_not_waited_for_and_links_not_followed() {
        let base = std::env::temp_dir().join(format!("oxmpi-cr-{}-kinds", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&base).unwrap();
        let base = base.canonicalize().unwrap();
        let folder = Folder::base(&base).unwrap();
        rustix::fs::mknodat(CWD, base.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        symlink("/dev/zero", base.join("link")).unwrap();
        let read = |name: &str| said(folder.read(Path::new(name), 10));
        assert!(read("fifo").contains("fifo is a FIFO, which 'oxmpi checkpoint' does not make"));
        assert!(read("link").contains("link is a symbolic link"));
        for name in ["..", "../x", "/etc/passwd", "."] {
            assert!(matches!(folder.file(Path::new(name)), Err(TrustError::Kernel(..))), "{name}");
        }
        assert!(said(Folder::of_set(&base.join("link"))).contains("link is a symbolic link"));
        assert!(matches!(folder.folder("none".as_ref()), Err(TrustError::Kernel(..))));
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn files_of_another_user_are_named_with_the_user() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let base = std::env::temp_dir().join(format!("oxmpi-cr-{}-owners", std::process::id()));
        let set = base.join("heat-1.1");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&set).unwrap();
        let base = base.canonicalize().unwrap();
        let set = base.join("heat-1.1");
        std::fs::write(set.join("manifest"), "x").unwrap();
        let read = || Folder::of_set(&set)?.read(Path::new("manifest"), 1);
        for (path, words) in [
            (
                set.join("manifest"),
                "heat-1.1/manifest belongs to user 12345, and a set must belong to its reader",
            ),
            (set.clone(), "heat-1.1 belongs to user 12345"),
            (base.clone(), "belongs to user 12345, who can replace the sets in it"),
        ] {
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            let said = said(read());
            assert!(said.contains(words), "{said}");
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        }
        read().unwrap();
        std::fs::remove_dir_all(&base).unwrap();
    }
}
