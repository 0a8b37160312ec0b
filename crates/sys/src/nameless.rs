//! Files without a name: what processes share lies in them, and nothing is left when all have ended.
//!
//! They are memfds. Where memfd_create(2) is denied or missing (a seccomp profile, another kernel) a file of a directory that never
//! had a name there (O_TMPFILE) does as well, in memory or, at worst, on a disk. Such a directory may be small, as /dev/shm of a
//! container is, and who writes more than it holds dies of SIGBUS: one with `ROOM` is preferred.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fstatvfs, ftruncate, memfd_create, open,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Bytes that a directory should have free.
const ROOM: u64 = 256 << 20;

/// A new empty file, close-on-exec; `label` is what /proc shows.
///
/// # Errors
/// What memfd_create(2) says; if that is denied, what each directory says as well.
pub fn create(label: &str) -> io::Result<OwnedFd> {
    match memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING) {
        Ok(fd) => Ok(fd),
        // What a kernel says that has not got it, and what profiles have it say.
        Err(error @ (Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP)) => {
            create_in(&directories()).map_err(|others| {
                io::Error::new(io::Error::from(error).kind(), format!("memfd_create: {error}; {others}"))
            })
        }
        Err(error) => Err(io::Error::new(io::Error::from(error).kind(), format!("memfd_create: {error}"))),
    }
}

/// Whether memfd_create(2) is denied, and why: files lie in directories then.
pub fn denied() -> Option<io::Error> {
    memfd_create("oxmpi-test", MemfdFlags::CLOEXEC).err().map(io::Error::from)
}

/// Where such files can lie, the best first.
fn directories() -> Vec<PathBuf> {
    let temporary = std::env::var_os("TMPDIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    let known = ["/tmp", "/var/tmp"].map(PathBuf::from);
    [PathBuf::from("/dev/shm")].into_iter().chain(temporary).chain(known).collect()
}

/// A file in the first directory that has room, or in the first that takes one; else what they say.
fn create_in(directories: &[PathBuf]) -> Result<OwnedFd, String> {
    let (mut narrow, mut refusals) = (None, Vec::new());
    for directory in directories {
        match create_at(directory) {
            Ok((fd, room)) if room >= ROOM => return Ok(fd),
            Ok((fd, _)) => narrow = narrow.or(Some(fd)),
            Err(error) => refusals.push(format!("a file without a name in {}: {error}", directory.display())),
        }
    }
    narrow.ok_or_else(|| refusals.join("; "))
}

/// A file in a directory, and the bytes that are free there.
fn create_at(directory: &Path) -> rustix::io::Result<(OwnedFd, u64)> {
    // EXCL: nobody can give it a name later.
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = open(directory, flags, Mode::RUSR | Mode::WUSR)?;
    let free = fstatvfs(&fd)?;
    Ok((fd, free.f_bavail.saturating_mul(free.f_frsize)))
}

/// Makes a file that many bytes long. Beyond the limit on the size of files the kernel would send a signal that ends the program:
/// this fails before.
///
/// # Errors
/// The limit (RLIMIT_FSIZE), and what ftruncate(2) says.
pub fn set_length(file: impl AsFd, bytes: u64) -> io::Result<()> {
    check_length(bytes)?;
    Ok(ftruncate(file, bytes)?)
}

/// Whether a file may be that many bytes long.
///
/// # Errors
/// It may not (RLIMIT_FSIZE).
pub fn check_length(bytes: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if bytes > limit => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "it is a file of {bytes} bytes, of memory, and the limit on the size of files is {limit} bytes: raise it \
                 ('ulimit -f unlimited', limits.conf)"
            ),
        )),
        _ => Ok(()),
    }
}

/// From now on nobody can change the length of a file, so that whoever has mapped it would die of SIGBUS. Only a memfd can be
/// sealed; the others lie where only processes of this user can open them.
///
/// # Errors
/// What fcntl(2) says of a memfd.
pub fn seal(file: impl AsFd) -> io::Result<()> {
    match fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) {
        // No memfd.
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;

    #[test]
    fn without_memfds_a_file_of_a_directory_has_no_name_either() {
        let nowhere = PathBuf::from("/nonexistent");
        let fd = create_in(&[nowhere.clone(), "/dev/shm".into(), "/tmp".into()]).unwrap();
        set_length(&fd, 1 << 20).unwrap();
        seal(&fd).unwrap();
        let stat = fstat(&fd).unwrap();
        assert_eq!((stat.st_nlink, stat.st_size), (0, 1 << 20));
        let said = create_in(&[nowhere, "/proc".into()]).unwrap_err();
        assert!(said.contains("a file without a name in /nonexistent: No such file"), "{said}");
        assert!(said.contains("in /proc: "), "{said}");
    }

    #[test]
    fn a_memfd_keeps_its_length_when_it_is_sealed() {
        let fd = create("test").unwrap();
        set_length(&fd, 4096).unwrap();
        seal(&fd).unwrap();
        assert_eq!(set_length(&fd, 0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(denied().is_none());
    }
}
